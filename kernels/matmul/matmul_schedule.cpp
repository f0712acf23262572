#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <optional>

#include "kernels/core/record.h"
#include "kernels/core/tile_shape.h"
#include "kernels/matmul/aligned_copy.h"
#include "kernels/matmul/matmul.h"
#include "kernels/matmul/split_wave.h"
#include "kernels/matmul/tile_choice.h"
#include "program/gpu_arch.h"

namespace ligerdsl::kernels {
namespace {

constexpr int64_t kMaxAccumulators = 192;  // accumulator registers per thread
// Largest K for persistent programs. With a larger K, the overlap of loads with the previous tile's
// store saves little, and the static assignment of tiles costs more. Time relative to one tile per
// program: 1.01 for K = 128,256, 0.99 for 8,192, 0.98 for 4,096 (H100).
constexpr int64_t kDeep = 32768;
constexpr int64_t kLine = 128;  // bytes per L2 cache line

int64_t depth_of(const MatmulOptions& o) {  // K, or 0 if not known
  return o.transposed_a() ? 0 : o.width;
}
int64_t height_of(const MatmulOptions& o) {  // M or its upper bound; 0 if not known
  return o.transposed_a() ? o.width : o.most_rows;
}

// Returns n rounded up to a power of two, clamped to [least, most].
int fitting(int64_t n, int64_t least, int64_t most) {
  return static_cast<int>(
      std::clamp<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::min(n, most))), least, most));
}

int64_t slot_bytes(const MatmulOptions& o, const MatmulConfig& config) {
  return int64_t{config.tile_m / config.num_ctas + config.tile_n} * config.tile_k * size_of(o.type);
}

bool fits_shared(const Machine& machine, const MatmulOptions& o, const MatmulConfig& config) {
  constexpr int64_t kAlignment = 1024;  // slots are aligned to the period of the swizzle
  return config.stages == 1 ||
         config.stages * slot_bytes(o, config) + kAlignment <= machine.shared_per_cta;
}

int64_t tiles_of(int64_t rows, int64_t cols, const MatmulConfig& config) {
  return ceil_div(rows, config.tile_m) * ceil_div(cols, config.tile_n);
}

// Returns the configuration of a CPU: operand tiles that stay in a core's L2.
MatmulConfig config_for_cpu(const MatmulOptions& o) {
  const int64_t rows = height_of(o), depth = depth_of(o);
  return {.tile_m = fitting(rows ? rows : 128, 16, 128),
          .tile_n = fitting(o.cols, 16, 256),
          .tile_k = fitting(depth ? depth : 128, 16, 128),
          .stages = 1};
}

// Returns the configuration for many rows. For 16-bit operands on an H200, 128x256x64 in four
// stages is much faster than in three.
MatmulConfig config_for_many_rows(const Machine& machine, const MatmulOptions& o) {
  if (size_of(o.type) == 4)
    return {.tile_m = 64, .tile_n = 64, .tile_k = 16, .stages = 2, .num_warps = 4};
  // With two_level_accumulation a thread has a second accumulator.
  const int most_cols = o.two_level_accumulation ? 128 : 256,
            line = 128 / static_cast<int>(size_of(o.type));
  MatmulConfig config{
      .tile_m = 128, .tile_n = fitting(o.cols, 16, most_cols), .tile_k = line, .stages = 4};
  if (!fits_shared(machine, o, config)) config.stages = 3;
  if (!fits_shared(machine, o, config))
    config = {.tile_m = 128, .tile_n = fitting(o.cols, 16, 128), .tile_k = line / 2};
  return config;
}

bool has_wgmma(const Machine& machine) {
  const program::GpuArch* arch = program::find_gpu_arch(machine.name);
  return arch && arch->wgmma;
}

constexpr int64_t kSmallRows = 64;

// Returns the largest number of rows for which config_for_many_rows leaves half of the SMs idle.
int64_t max_few_rows(const Machine& machine, const MatmulOptions& o) {
  const MatmulConfig many = config_for_many_rows(machine, o);
  return machine.sms / 2 / ceil_div(o.cols, many.tile_n) * many.tile_m;
}

// Returns true if tiles of 64 rows were timed for such matmuls: wgmma, 16-bit operands, no batch.
bool has_small_tiles(const Machine& machine, const MatmulOptions& o) {
  return !o.batch && size_of(o.type) == 2 && has_wgmma(machine);
}

// Returns the largest number of rows for which tiles have 64 rows. Each SM then has at most one
// tile of 64 x 128, which is faster than tiles of 128 x 128 (H200). The result is 64 if it would
// reach max_few_rows: fused lm_heads use the schedule for that row count.
int64_t max_rows_of_small_tiles(const Machine& machine, const MatmulOptions& o) {
  if (!has_small_tiles(machine, o)) return kSmallRows;
  const int64_t rows = machine.sms / ceil_div(o.cols, 128) * kSmallRows;
  return rows < max_few_rows(machine, o) ? std::max(rows, kSmallRows) : kSmallRows;
}

// Returns the configuration for few rows: smaller tiles, and splits if SMs are still idle. Splits
// leave a program few k-steps, so six stages are faster than four (H100).
MatmulConfig config_for_few_rows(const Machine& machine, const MatmulOptions& o, int64_t rows) {
  MatmulConfig config = config_for_many_rows(machine, o);
  if (size_of(o.type) != 4) {
    config.tile_n = fitting(o.cols, 16, 128);
    // With a transposed a (no most_rows), tiles of 64 rows were not timed for more than 64 rows.
    if (rows <= (o.most_rows ? max_rows_of_small_tiles(machine, o) : kSmallRows))
      config.tile_m = kSmallRows, config.num_warps = 4;
    MatmulConfig deep = config;
    deep.stages = 6;
    if (config.tile_k * size_of(o.type) == 128 && fits_shared(machine, o, deep)) config = deep;
  }
  constexpr int64_t kMinKSteps = 4;  // per program
  const int64_t depth = depth_of(o),
                k_steps = depth ? ceil_div(depth, config.tile_k) : 16 * kMinKSteps;
  while (!o.batch && config.splits < 16 &&
         tiles_of(rows, o.cols, config) * config.splits * 2 <= machine.sms &&
         k_steps >= config.splits * 2 * kMinKSteps)
    config.splits *= 2;
  return config;
}

// Returns true if matmuls use wgmma. TMA copies are then slightly faster than cp.async (H200).
bool multiplies_from_shared(const Machine& machine, const MatmulOptions& o) {
  return has_wgmma(machine) &&
         (size_of(o.type) == 2 || (is_fp8(o.type) && o.transposes == Transposes::nt));
}

// Returns true if reductions in memory are faster than loading c. They are if one instruction adds
// several elements (H200).
bool memory_adds(const Machine& machine, const MatmulOptions& o) {
  const program::GpuArch* arch = program::find_gpu_arch(machine.name);
  return arch && arch->adds_ptx > 0 && o.adds && o.unit_beta && o.c_type == DType::f32;
}

int64_t bytes_of(const MatmulOptions& o, int64_t elements) {
  return elements * static_cast<int64_t>(size_of(o.type));
}

// Returns the row lengths of a and b in memory, each 0 if not known.
std::array<int64_t, 2> row_lengths(const MatmulOptions& o) {
  return {o.width, o.transposed_b() ? depth_of(o) : o.cols};
}

bool is_vector(const MatmulOptions& o, int64_t row_length) {
  return row_length % vector_width(o.type) == 0;
}

bool are_vectors(const MatmulOptions& o) {
  return std::ranges::all_of(row_lengths(o), [&](int64_t length) { return is_vector(o, length); });
}

// Returns the bytes of unaligned operands. If a is transposed and b is not, both have K rows in
// memory, so the bytes of b are proportional to the rows of a.
CopiedBytes copied_bytes(const MatmulOptions& o) {
  const auto [length_a, length_b] = row_lengths(o);
  CopiedBytes bytes{};
  if (!is_vector(o, length_a))
    bytes.per_row += static_cast<double>(bytes_of(o, length_a)), ++bytes.copies;
  if (is_vector(o, length_b)) return bytes;
  ++bytes.copies;
  const auto row = static_cast<double>(bytes_of(o, length_b));
  if (o.transposed_a() && !o.transposed_b())
    bytes.per_row += row;
  else
    bytes.fixed += row * static_cast<double>(o.transposed_b() ? o.cols : o.width);
  return bytes;
}

CopyGain gain_of_copies(const MatmulOptions& o) {
  const double flop = 2.0 * static_cast<double>(o.cols) * static_cast<double>(o.width);
  return gain_of_copies(flop, copied_bytes(o));
}

// Returns true if unaligned operands are copied first. Batched matmuls have no workspace, so their
// operands are not copied.
bool copies_operands(const Machine& machine, const MatmulOptions& o) {
  if (!machine.is_gpu() || !has_wgmma(machine) || size_of(o.type) != 2 || o.batch || are_vectors(o))
    return false;
  const CopyGain gain = gain_of_copies(o);
  return gain.gained_per_row > 0 && (!o.most_rows || gain.pays(static_cast<double>(o.most_rows)));
}

// Returns true if the operand's rows are aligned for TMA copies, but not to L2 cache lines. 128
// bytes of a row then span two lines, which limits the matmul's speed.
bool crosses_lines(const MatmulOptions& o, Operand operand) {
  return are_vectors(o) && bytes_of(o, row_lengths(o)[operand == Operand::b]) % kLine != 0;
}

// Returns the configuration for unaligned rows, which are loaded by element. Several small CTAs per
// SM hide the latency of these loads, which makes them faster than one large CTA (H200, bf16).
MatmulConfig config_for_unaligned_rows(const MatmulOptions& o) {
  return {
      .tile_m = 128, .tile_n = fitting(o.cols, 16, 64), .tile_k = 32, .stages = 1, .num_warps = 4};
}

// Returns true if the 256-row tiles of a cluster are not mostly empty: calls with few rows have
// another schedule, or a is transposed and M is large enough.
bool few_rows_have_a_schedule(const Machine& machine, const MatmulOptions& o) {
  constexpr int64_t kRows = 128;
  if (o.transposed_a()) return o.width > kRows;
  const std::vector<int64_t> few = few_rows(machine, o);
  return !few.empty() && few.back() >= kRows;
}

// Returns true if clusters of two CTAs, which read b once for both, may save time. They do if rows
// of b cross cache lines. If rows of b are whole cache lines, clusters are slower (H200, bf16).
bool may_use_cluster(const Machine& machine, const MatmulOptions& o, const MatmulConfig& config) {
  const bool measured = size_of(o.type) == 2 && !o.adds && !o.batch && config.tile_n == 256;
  return machine.max_cluster > 1 && config.persistent && measured && crosses_lines(o, Operand::b) &&
         few_rows_have_a_schedule(machine, o);
}

// Returns `config` with twice tile_k, which saves a few percent of the time (H200), or unchanged if
// such matmuls were not timed. With four stages, the bytes in flight change little.
MatmulConfig with_wide_k_steps(const Machine& machine, const MatmulOptions& o,
                               const MatmulConfig& config) {
  constexpr int64_t kMinKSteps = 8;  // least k-steps per program that were timed
  MatmulConfig wide = config;
  wide.tile_k *= 2, wide.stages = 4;
  const bool timed =
      o.most_rows && config.tile_m == kSmallRows && has_small_tiles(machine, o) && are_vectors(o);
  const bool whole = depth_of(o) % (wide.tile_k * wide.splits) == 0 &&
                     depth_of(o) >= wide.tile_k * wide.splits * kMinKSteps;
  return timed && whole && fits_shared(machine, o, wide) ? wide : config;
}

int64_t persistent_programs(const Machine& machine, const MatmulConfig& config) {
  return std::max(machine.sms / config.num_ctas, 1);
}

// Returns true if split waves are implemented for these options.
bool splits_waves(const MatmulOptions& o, const MatmulConfig& config) {
  return config.persistent && !o.batch && !o.row_tiles && !o.some_depth && !o.ignores_rows &&
         !o.in_blocks;
}

// Returns how many k-steps a split wave must save. Storing and adding its parts and the second
// launch took as long as 15 to 30 k-steps of 128x256x64 (H200, bf16).
int least_saved(const MatmulOptions& o, const MatmulConfig& config) {
  constexpr int kLeast = 24;
  return splits_waves(o, config) && size_of(o.type) == 2 ? kLeast : 0;
}

// Returns the argument of chosen_tile, or none for matmuls that were not timed, such as those that
// load c. If b is not transposed, tiles have whole L2 cache lines of b, because other tiles are
// slower than predicted (H200).
std::optional<WideMatmul> wide_matmul(const Machine& machine, const MatmulOptions& o,
                                      const MatmulConfig& config) {
  const bool timed =
      size_of(o.type) == 2 && !o.adds && has_wgmma(machine) && o.transposes != Transposes::tt;
  if (!timed || config.tile_n != MatmulTile{}.cols || !splits_waves(o, config)) return {};
  return WideMatmul{
      .cols = o.cols,
      .depth = depth_of(o),
      .sms = machine.sms,
      .least_saved = least_saved(o, config),
      .multiple = o.transposed_b() ? 1 : kLine / static_cast<int64_t>(size_of(o.type)),
      .a_crosses_lines = crosses_lines(o, Operand::a),
      .b_crosses_lines = crosses_lines(o, Operand::b),
      .clusters = may_use_cluster(machine, o, config)};
}

// Sets the tile. TMA stores overlap with the next tile, and 16-byte stores do not. With TMA stores,
// 16 matmuls whose rows of b are whole cache lines took 0.95 to 1.00 times as long (H200). Tiles of
// one CTA other than 128 x 256 do not use them: with 256 rows, matmuls took 1.05 times as long.
void set_tile(const MatmulOptions& o, const MatmulTile& tile, bool usual, MatmulConfig& config) {
  // Groups of 4,096 rows take 1.08 times as long (4096 x 4104 x 4096 NT, tiles of 256 x 128, H200).
  constexpr int kGroupRows = 2048;
  config.tile_m = tile.rows, config.tile_n = tile.cols, config.num_ctas = tile.ctas;
  config.group = kGroupRows / tile.rows;
  const bool overlaps =
      tile.ctas > 1 || (tile.rows == MatmulTile{}.rows && tile.cols == MatmulTile{}.cols);
  config.tensor_stores = overlaps && config.tensor_copies && size_of(o.c_type) == 2 &&
                         o.cols % vector_width(o.c_type) == 0;
  if (!usual) config.least_saved = 0;
}

MatmulConfig heuristic(const Machine& machine, const MatmulOptions& o) {
  if (machine.is_gpu() && o.unaligned && !copies_operands(machine, o))
    return config_for_unaligned_rows(o);
  MatmulConfig config = with_wide_k_steps(machine, o, one_cta_product(machine, o));
  config.least_saved = least_saved(o, config);
  if (const std::optional<WideMatmul> wide = wide_matmul(machine, o, config)) {
    const int64_t rows = height_of(o);
    const MatmulTile tile = o.transposed_a() ? tile_for_any_depth(*wide, rows)
                            : rows > 0       ? chosen_tile(*wide, rows)
                                             : tile_for_any_rows(*wide);
    set_tile(o, tile, tile == usual_tile(*wide), config);
  }
  return config;
}

std::string valid(const Machine& machine, const MatmulOptions& o, const MatmulConfig& config) {
  if (o.batch && config.splits > 1)
    return "splits: expected 1 with a batch, got " + std::to_string(config.splits) +
           "; use splits=1";
  if (config.adds_in_memory && (!o.adds || !o.unit_beta || o.c_type != DType::f32))
    return "adds_in_memory=true requires adds=true, unit_beta=true and c_type=f32; use "
           "adds_in_memory=false";
  if (config.tensor_stores && o.adds && !config.adds_in_memory)
    return "tensor_stores=true cannot add to c unless adds_in_memory=true; use adds_in_memory=true "
           "or tensor_stores=false";
  if (!machine.is_gpu())
    return config.stages > 1       ? "a CPU has no pipelined loads; use stages=1"
           : config.splits > 1     ? "a CPU cannot split matmuls along K; use splits=1"
           : config.persistent     ? "a CPU has no persistent programs; use persistent=false"
           : config.tensor_copies  ? "a CPU has no TMA copies; use tensor_copies=false"
           : config.tensor_stores  ? "a CPU has no TMA copies; use tensor_stores=false"
           : config.adds_in_memory ? "adds_in_memory=true needs a GPU; use adds_in_memory=false"
                                   : "";
  const int64_t accumulators_per_element = o.two_level_accumulation ? 2 : 1;
  const int64_t accumulators = accumulators_per_element * config.tile_m * config.tile_n /
                               (program::kWarpThreads * config.num_warps * config.num_ctas);
  if (accumulators > kMaxAccumulators)
    return "accumulator registers per thread: expected at most " +
           std::to_string(kMaxAccumulators) + ", got " + std::to_string(accumulators) +
           "; use more warps or a smaller tile";
  if (accumulators < 1)
    return "a tile of " + std::to_string(config.tile_m * config.tile_n) +
           " elements has no accumulator for some of the threads; use fewer warps or a larger tile";
  if (config.persistent && config.splits > 1)
    return "persistent=true requires splits=1, got splits=" + std::to_string(config.splits) +
           "; use splits=1 or persistent=false";
  const std::string with_ctas = " with num_ctas=" + std::to_string(config.num_ctas);
  if (config.num_ctas > 1 && machine.max_cluster == 1)
    return std::string(machine.name) + " with this driver has no clusters of CTAs; use num_ctas=1";
  if (config.num_ctas > machine.max_cluster)
    return "num_ctas: expected at most " + std::to_string(machine.max_cluster) + " on " +
           std::string(machine.name) + ", got " + std::to_string(config.num_ctas) +
           "; use a smaller num_ctas";
  if (config.num_ctas > 1 && !config.tensor_copies)
    return "tensor_copies: expected true" + with_ctas + "; use tensor_copies=true or num_ctas=1";
  if (config.num_ctas > 1 && !multiplies_from_shared(machine, o))
    return "num_ctas: expected 1 without wgmma, got " + std::to_string(config.num_ctas) +
           "; use num_ctas=1 (wgmma needs sm_90a, and 16-bit operands or fp8 with transposes=nt)";
  // Rows of c per warp in a wgmma, warps per wgmma, and least rows per TMA copy.
  constexpr int kWarpRows = 16, kGroupWarps = 4, kSlotRows = 8;
  const int slot_rows = o.transposed_b() ? config.tile_n : config.tile_k;
  if (config.num_ctas > 1 && config.num_warps % kGroupWarps)
    return "num_warps: expected a multiple of 4" + with_ctas + ", got " +
           std::to_string(config.num_warps) + "; use num_warps=4 or 8, or num_ctas=1";
  if (config.num_ctas > 1 && slot_rows % (kSlotRows * config.num_ctas))
    return std::string(o.transposed_b() ? "tile_n" : "tile_k") + ": expected a multiple of " +
           std::to_string(kSlotRows * config.num_ctas) + with_ctas + ", got " +
           std::to_string(slot_rows) + "; use a larger one, or num_ctas=1";
  if (config.num_ctas > 1 && config.tile_m < kWarpRows * config.num_warps * config.num_ctas)
    return "tile_m: expected at least " +
           std::to_string(kWarpRows * config.num_warps * config.num_ctas) + " (16 rows per warp)" +
           with_ctas + ", got " + std::to_string(config.tile_m) +
           "; use a larger tile_m, fewer warps or num_ctas=1";
  if (config.tensor_copies && config.stages < 3)
    return "tensor_copies=true requires stages of 3 or more, got " + std::to_string(config.stages) +
           "; use stages=3 or tensor_copies=false";
  if (!fits_shared(machine, o, config))
    return std::to_string(config.stages) + " stages of " + std::to_string(slot_bytes(o, config)) +
           " bytes do not fit in the " + std::to_string(machine.shared_per_cta) +
           " bytes of shared memory of a CTA; use fewer stages or a smaller tile";
  return "";
}

Step matmul_step(const Machine& machine, const MatmulMeta& meta, const MatmulConfig& config,
                 const Size& tiles) {
  const Size at_once(persistent_programs(machine, config));
  const Size programs = meta.most_split > 0 ? min(tiles * at_once, at_once)
                        : config.persistent ? min(tiles, at_once)
                                            : tiles * config.splits;
  Launch launch = library_launch(programs, config.num_warps);
  launch.num_ctas = config.num_ctas;
  return record_step("matmul", meta.type, &matmul, meta, launch);
}

// Sets most_split and least_k_steps, so that splitting saves at least `least_saved` k-steps.
// most_split remains 0 if no call can save that many.
void split_last_wave(const MatmulOptions& o, int64_t programs, int64_t least_saved,
                     MatmulMeta& meta) {
  const auto steps_of_part = [&](int64_t k_steps, int64_t left) {
    return std::max<int64_t>(ceil_div(k_steps, programs / left), SplitWave::kLeastSteps);
  };
  meta.programs = programs;
  if (o.transposed_a()) {  // M and N are known, K is not
    const int64_t left = ceil_div(o.width, meta.tile_m) * ceil_div(o.cols, meta.tile_n) % programs;
    if (left == 0 || programs / left == 1) return;
    meta.most_split = left;
    while (meta.least_k_steps - steps_of_part(meta.least_k_steps, left) < least_saved)
      ++meta.least_k_steps;
    return;
  }
  const int64_t k_steps = ceil_div(o.width, meta.tile_k);
  for (int64_t left = 1; left < programs; ++left)
    if (k_steps - steps_of_part(k_steps, left) >= least_saved) meta.most_split = left;
}

// Returns the number of split tiles, computed as in SplitWave.
Size split_tiles(const MatmulMeta& meta, const Size& tiles) {
  const int64_t largest_depth = SplitWave::largest_depth(meta.tile_k);
  const Size left = tiles % meta.programs, depth = meta.transposed_a() ? Size::rows() : meta.width,
             k_steps = ceil_div(depth, meta.tile_k),
             split = where_at_least(meta.most_split, left, left);
  return where_at_least(largest_depth, depth, where_at_least(k_steps, meta.least_k_steps, split));
}

// Appends the step that adds the parts of split tiles, and its workspace.
void add_finish_wave(Operation& op, MatmulMeta meta, const Size& tiles) {
  constexpr int64_t kElements = 2048;  // elements of c per program
  meta.rows = std::clamp(
      static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(kElements / meta.tile_n))),
      int64_t{1}, meta.tile_m);
  const int num_warps = warps_for(meta.rows * meta.tile_n, f32, 2);
  meta.tensor_stores = false;
  const Size split = split_tiles(meta, tiles);
  op.steps.push_back(record_step("matmul_finish_wave", meta.c_type, &matmul_finish_wave, meta,
                                 library_launch(split * (meta.tile_m / meta.rows), num_warps)));
  // `room` bounds the workspace of calls with fewer rows, which may split tiles even if this call
  // does not. If a is transposed, the rows are K, and only a large K is split.
  const int64_t least_rows = (meta.least_k_steps - 1) * meta.tile_k + 1;
  const Size room = meta.transposed_a() ? where_at_least(Size::rows(), least_rows, meta.programs)
                                        : Size(meta.programs);
  op.workspace.push_back(
      {.name = "partials",
       .dtype = DType::f32,
       .shape = {where_at_least(split, 1, meta.programs), meta.tile_m, meta.tile_n},
       .room = {room, meta.tile_m, meta.tile_n}});
}

Operation build(const Machine& machine, const MatmulOptions& o, const MatmulConfig& config) {
  MatmulMeta meta = matmul_meta(o, config);
  if (config.least_saved > 0 && splits_waves(o, config))
    split_last_wave(o, persistent_programs(machine, config), config.least_saved, meta);
  const Size rows = o.transposed_a() ? Size(o.width) : Size::rows();
  const Size tiles = ceil_div(rows, config.tile_m) * ceil_div(o.cols, config.tile_n) *
                     std::max<int64_t>(o.batch, 1);
  Operation op;
  if (o.unaligned && copies_operands(machine, o)) {
    const auto [length_a, length_b] = row_lengths(o);
    const Size rows_b = o.transposed_b()   ? Size(o.cols)
                        : o.transposed_a() ? Size::rows()
                                           : Size(o.width);
    meta.copied_a = !is_vector(o, length_a);
    meta.copied_b = !is_vector(o, length_b);
    if (meta.copied_a) add_aligned_copy(op, machine, Operand::a, o.type, Size::rows(), length_a);
    if (meta.copied_b) add_aligned_copy(op, machine, Operand::b, o.type, rows_b, length_b);
  }
  op.steps.push_back(matmul_step(machine, meta, config, tiles));
  if (meta.most_split > 0) add_finish_wave(op, meta, tiles);
  if (config.splits == 1) return op;
  const TileShape tile = elementwise_tile(machine, f32, o.cols);
  meta.rows = tile.rows, meta.block = tile.cols;
  op.steps.push_back(record_step(
      "matmul_finish", o.c_type, &matmul_finish, meta,
      library_launch(ceil_div(rows, tile.rows) * ceil_div(o.cols, tile.cols), tile.num_warps)));
  op.workspace.push_back(
      {.name = "partials", .dtype = DType::f32, .shape = {config.splits, rows, o.cols}});
  return op;
}

Cost cost(const MatmulOptions& o, int64_t rows) {
  const auto m = static_cast<double>(o.transposed_a() ? o.width : rows),
             k = static_cast<double>(o.transposed_a() ? rows : o.width),
             n = static_cast<double>(o.cols);
  const auto products = static_cast<double>(std::max<int64_t>(o.batch, 1));
  return {products *
          ((m * k + k * n) * size_of(o.type) + m * n * size_of(o.c_type) * (o.adds ? 2 : 1))};
}

}  // namespace

MatmulConfig one_cta_product(const Machine& machine, const MatmulOptions& o) {
  if (!machine.is_gpu()) return config_for_cpu(o);
  MatmulConfig config = config_for_many_rows(machine, o);
  const int64_t rows = height_of(o);
  const bool few =
      rows && tiles_of(rows, o.cols, config) * std::max<int64_t>(o.batch, 1) * 2 <= machine.sms;
  if (few || (o.batch && o.most_rows)) config = config_for_few_rows(machine, o, rows);
  config.tensor_copies = multiplies_from_shared(machine, o) && config.stages >= 3;
  config.persistent = config.tensor_copies && !few && depth_of(o) <= kDeep;
  config.adds_in_memory = memory_adds(machine, o);
  return config;
}

MatmulMeta matmul_meta(const MatmulOptions& o, const MatmulConfig& config) {
  MatmulMeta meta{o};
  meta.tile_m = config.tile_m, meta.tile_n = config.tile_n, meta.tile_k = config.tile_k;
  meta.stages = config.stages, meta.group = config.group, meta.splits = config.splits;
  meta.persistent = config.persistent, meta.tensor_copies = config.tensor_copies;
  meta.adds_in_memory = config.adds_in_memory, meta.tensor_stores = config.tensor_stores;
  return meta;
}

Step matmul_of_any_size(const Machine& machine, MatmulOptions o, const MatmulConfig& config) {
  o.any_size = true;
  std::string reason = valid(machine, o, config);
  if (reason.empty() && config.splits > 1)
    reason = "splits: expected 1, got " + std::to_string(config.splits) + "; use splits=1";
  if (reason.empty() && config.least_saved > 0)
    reason = "least_saved: expected 0, got " + std::to_string(config.least_saved) +
             "; use least_saved=0";
  if (!reason.empty()) throw Error("error: a matmul of dynamic size: " + reason);
  return matmul_step(machine, matmul_meta(o, config), config, Size::rows());
}

int64_t matmul_tiles(const MatmulConfig& config, int64_t m, int64_t n) {
  return tiles_of(m, n, config);
}

std::vector<int64_t> few_rows(const Machine& machine, const MatmulOptions& o) {
  if (o.transposed_a()) return {};
  if (!machine.is_gpu()) return {16, 64};
  if (o.batch) return {kSmallRows};
  const int64_t small = max_rows_of_small_tiles(machine, o), most = max_few_rows(machine, o);
  if (most <= kSmallRows) return {};
  const int64_t middle = small / (2 * kSmallRows) * kSmallRows;
  std::vector<int64_t> rows;
  for (const int64_t some : {kSmallRows, middle, small, most})
    if (rows.empty() || some > rows.back()) rows.push_back(some);
  return rows;
}

std::vector<ChosenRows> middle_rows(const Machine& machine, const MatmulOptions& o) {
  if (!machine.is_gpu() || o.transposed_a()) return {};
  const std::optional<WideMatmul> wide = wide_matmul(machine, o);
  return wide ? rows_of_tiles(*wide, max_few_rows(machine, o)) : std::vector<ChosenRows>{};
}

std::optional<WideMatmul> wide_matmul(const Machine& machine, MatmulOptions options) {
  options.most_rows = 0, options.unaligned = false;
  return wide_matmul(machine, options, one_cta_product(machine, options));
}

bool has_unaligned_schedule(const Machine& machine, const MatmulOptions& o) {
  if (!machine.is_gpu() || size_of(o.type) != 2 || !has_wgmma(machine)) return false;
  return !are_vectors(o) || may_use_cluster(machine, o, one_cta_product(machine, o));
}

int64_t least_rows_of_copies(const Machine& machine, const MatmulOptions& o) {
  if (!copies_operands(machine, o)) return 0;
  const CopyGain gain = gain_of_copies(o);
  return std::max<int64_t>(static_cast<int64_t>(std::ceil(gain.lost / gain.gained_per_row)), 1);
}

bool has_fast_products(const Machine& machine, DType type) {
  return machine.is_gpu() && multiplies_from_shared(machine, {.type = type});
}

bool keeps_few_bits_of_fp8(const Machine& machine) {
  return machine.is_gpu() && has_wgmma(machine);
}

const Matmul matmul_kernel{"matmul", "a matmul with an epilogue", &valid, &heuristic, &build,
                           &cost};

Operation matmul(const Machine& machine, const MatmulOptions& options) {
  return matmul_kernel(machine, options);
}

}  // namespace ligerdsl::kernels
