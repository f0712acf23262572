#include <algorithm>
#include <array>
#include <bit>

#include "kernels/core/record.h"
#include "kernels/core/tile_shape.h"
#include "kernels/matmul/matmul.h"
#include "program/gpu_arch.h"

namespace ligerdsl::kernels {
namespace {

constexpr int64_t kMostSums = 192;  // of a thread, in registers
// Deeper products gain nothing from first copies that come while the tile before is stored, and lose with tiles handed out in
// advance: K of 128,256 takes 1.01 times as long by persistent programs, 8,192 0.99, 4,096 0.98 to 0.99 (an H100).
constexpr int64_t kDeep = 32768;

int64_t depth_of(const MatmulOptions& o) {  // K, where it is known
  return o.transposed_a() ? 0 : o.width;
}
int64_t height_of(const MatmulOptions& o) {  // M, where it is known
  return o.transposed_a() ? o.width : o.most_rows;
}

// The power of two that holds n, at least `least` and at most `most`.
int fitting(int64_t n, int64_t least, int64_t most) {
  return static_cast<int>(std::clamp<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::min(n, most))), least, most));
}

int64_t slot_bytes(const MatmulOptions& o, const MatmulConfig& config) {
  return int64_t{config.tile_m / config.num_ctas + config.tile_n} * config.tile_k * size_of(o.type);
}

bool fits_shared(const Machine& machine, const MatmulOptions& o, const MatmulConfig& config) {
  constexpr int64_t kBeside = 1024;  // slots begin at multiples of what a swizzle repeats after
  return config.stages == 1 || config.stages * slot_bytes(o, config) + kBeside <= machine.shared_per_cta;
}

int64_t tiles_of(int64_t rows, int64_t cols, const MatmulConfig& config) {
  return ceil_div(rows, config.tile_m) * ceil_div(cols, config.tile_n);
}

// On a CPU a tile's factors stay in the second-level cache.
MatmulConfig on_cpu(const MatmulOptions& o) {
  const int64_t rows = height_of(o), depth = depth_of(o);
  return {.tile_m = fitting(rows ? rows : 128, 16, 128),
          .tile_n = fitting(o.cols, 16, 256),
          .tile_k = fitting(depth ? depth : 128, 16, 128),
          .stages = 1};
}

// Measured on an H200 (author's matmul of these tiles): bf16 4096^3 by wgmma 194-203 us with 128x256x64 in four stages,
// 260 in three; by mma.sync 349.
MatmulConfig of_many(const Machine& machine, const MatmulOptions& o) {
  if (size_of(o.type) == 4) return {.tile_m = 64, .tile_n = 64, .tile_k = 16, .stages = 2, .num_warps = 4};
  // Sums beside those of a turn take twice the registers.
  const int most_cols = o.turns_apart ? 128 : 256, line = 128 / static_cast<int>(size_of(o.type));
  MatmulConfig config{.tile_m = 128, .tile_n = fitting(o.cols, 16, most_cols), .tile_k = line, .stages = 4};
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

// Calls of at most so many rows leave half of the multiprocessors without a tile of many rows.
int64_t most_of_few(const Machine& machine, const MatmulOptions& o) {
  const MatmulConfig many = of_many(machine, o);
  return machine.sms / 2 / ceil_div(o.cols, many.tile_n) * many.tile_m;
}

// Where tiles of 64 rows were timed.
bool has_small_tiles(const Machine& machine, const MatmulOptions& o) {
  return !o.batch && size_of(o.type) == 2 && has_wgmma(machine);
}

// Up to how many rows tiles have 64 of them: where each multiprocessor has one at most, of 128 columns. 256x4096x4096 NT on an H200: 24.7 us,
// 27.4 by half as many of 128x128. Fewer than most_of_few, which the fused heads' products go by.
int64_t most_of_small(const Machine& machine, const MatmulOptions& o) {
  if (!has_small_tiles(machine, o)) return kSmallRows;
  const int64_t rows = machine.sms / ceil_div(o.cols, 128) * kSmallRows;
  return rows < most_of_few(machine, o) ? std::max(rows, kSmallRows) : kSmallRows;
}

// Smaller tiles, whose turns several programs share where even they leave multiprocessors idle. Their turns are short: of
// 128x128x64 six stages took 33.2 us for 512x4096x4096, four 43.0 (an H100, the author's matmul).
MatmulConfig of_few(const Machine& machine, const MatmulOptions& o, int64_t rows) {
  MatmulConfig config = of_many(machine, o);
  if (size_of(o.type) != 4) {
    config.tile_n = fitting(o.cols, 16, 128);
    // Of a product whose height alone is known, as a transposed a's, nothing was measured.
    if (rows <= (o.most_rows ? most_of_small(machine, o) : kSmallRows))
      config.tile_m = kSmallRows, config.num_warps = 4;
    MatmulConfig deep = config;
    deep.stages = 6;
    if (config.tile_k * size_of(o.type) == 128 && fits_shared(machine, o, deep)) config = deep;
  }
  constexpr int64_t kLeastTurns = 4;  // of a program
  const int64_t depth = depth_of(o), turns = depth ? ceil_div(depth, config.tile_k) : 16 * kLeastTurns;
  while (!o.batch && config.splits < 16 && tiles_of(rows, o.cols, config) * config.splits * 2 <= machine.sms &&
         turns >= config.splits * 2 * kLeastTurns)
    config.splits *= 2;
  return config;
}

// By wgmma, which tensor copies are for: 1.02 to 1.03 times as fast on an H200.
bool multiplies_from_shared(const Machine& machine, const MatmulOptions& o) {
  return has_wgmma(machine) && (size_of(o.type) == 2 || (is_fp8(o.type) && o.factors == Factors::nt));
}

// Where one instruction adds several elements to memory. 128,256 x 4,096 of f32, bf16 factors, an H200: K of 1,024 3.60 ms by loads of
// c, 2.24 so; of 2,048 4.59 and 3.74, of 4,096 7.19 and 6.95.
bool memory_adds(const Machine& machine, const MatmulOptions& o) {
  const program::GpuArch* arch = program::find_gpu_arch(machine.name);
  return arch && arch->adds_ptx > 0 && o.adds && o.unit_beta && o.c_type == DType::f32;
}

int64_t bytes_of(const MatmulOptions& o, int64_t elements) {
  return elements * static_cast<int64_t>(size_of(o.type));
}

// Lengths of a's and b's rows in memory; 0: not known.
std::array<int64_t, 2> row_lengths(const MatmulOptions& o) {
  return {o.width, o.transposed_b() ? depth_of(o) : o.cols};
}

bool are_vectors(const MatmulOptions& o) {
  return std::ranges::all_of(row_lengths(o), [&](int64_t length) { return length % vector_width(o.type) == 0; });
}

// Whether rows of b begin inside of a line of the second-level cache, which then reads two lines for one and limits the product.
// Tensor copies bring them where they are whole vectors.
bool cuts_lines(const MatmulOptions& o) {
  constexpr int64_t kLine = 128;  // bytes
  return are_vectors(o) && bytes_of(o, row_lengths(o)[1]) % kLine != 0;
}

// Two CTAs read b, which both need, once. us by two CTAs and by one, 4000x4024x4088 NT, NN, TN: 212 and 280, 216 and 279, 228 and 244;
// 8192x3000x3000 NN 246 and 312. Where rows are whole lines they lose by it, 1.1 to 1.3, and where a's alone are not:
// 50264x768x8192 TN 1041 and 813. Stored by tensor copies, which wait for nobody, they take 0.959, 0.969, 0.975 of it (bf16, an H200).
void make_cluster_of_two(const MatmulOptions& o, MatmulConfig& config) {
  config.num_ctas = 2, config.tile_m *= 2, config.group /= 2;
  config.tensor_stores = size_of(o.c_type) == 2 && o.cols % vector_width(o.c_type) == 0;
}

// Rows that begin anywhere are loaded element after element: the small CTAs of a multiprocessor take turns to wait. us, 4001x4099x4093 NT
// and 4096x4099x4096 NN: 1647 and 1782; 128x128x64 by eight warps 1847 and 1929; as if they were aligned 2357 and 2320 (bf16, an H200).
MatmulConfig of_unaligned(const MatmulOptions& o) {
  return {.tile_m = 128, .tile_n = fitting(o.cols, 16, 64), .tile_k = 32, .stages = 1, .num_warps = 4};
}

// Calls of so few rows that a tile of 256 were mostly empty have schedules of their own.
bool have_few_rows_apart(const Machine& machine, const MatmulOptions& o) {
  constexpr int64_t kRows = 128;
  if (height_of(o)) return height_of(o) > kRows;
  const std::vector<int64_t> few = few_rows(machine, o);
  return !few.empty() && few.back() >= kRows;
}

// What was measured: bf16 without sums that are added, tiles of 256 columns.
bool gains_by_cluster(const Machine& machine, const MatmulOptions& o, const MatmulConfig& config) {
  const bool measured = size_of(o.type) == 2 && !o.adds && !o.batch && config.tile_n == 256;
  return machine.max_cluster > 1 && config.persistent && measured && cuts_lines(o) && have_few_rows_apart(machine, o);
}

// As many bytes in flight by half the turns: 0.97 of the time for 128x4096x4096, 0.96 for 1024x1024x4096 NT (an H200).
MatmulConfig with_wide_turns(const Machine& machine, const MatmulOptions& o, const MatmulConfig& config) {
  constexpr int64_t kLeastTurns = 8;  // of a program: as timed
  MatmulConfig wide = config;
  wide.tile_k *= 2, wide.stages = 4;
  const bool timed = o.most_rows && config.tile_m == kSmallRows && has_small_tiles(machine, o) && are_vectors(o);
  const bool whole =
      depth_of(o) % (wide.tile_k * wide.splits) == 0 && depth_of(o) >= wide.tile_k * wide.splits * kLeastTurns;
  return timed && whole && fits_shared(machine, o, wide) ? wide : config;
}

MatmulConfig heuristic(const Machine& machine, const MatmulOptions& o) {
  if (machine.is_gpu() && o.unaligned) return of_unaligned(o);
  MatmulConfig config = with_wide_turns(machine, o, one_cta_product(machine, o));
  if (gains_by_cluster(machine, o, config)) make_cluster_of_two(o, config);
  return config;
}

std::string valid(const Machine& machine, const MatmulOptions& o, const MatmulConfig& config) {
  if (o.batch && config.splits > 1) return "programs of a batch share no tile; use splits=1";
  if (config.adds_in_memory && (!o.adds || !o.unit_beta || o.c_type != DType::f32))
    return "memory adds to c of f32 with beta = 1 alone; use adds_in_memory=false";
  if (config.tensor_stores && o.adds && !config.adds_in_memory)
    return "tensor copies store to memory that is not loaded; use adds_in_memory=true or tensor_stores=false";
  if (!machine.is_gpu())
    return config.stages > 1       ? "a CPU has no loads in flight; use stages=1"
           : config.splits > 1     ? "a CPU's programs share no tile; use splits=1"
           : config.persistent     ? "a CPU has no loads in flight from tile to tile; use persistent=false"
           : config.tensor_copies  ? "a CPU has no tensor copies; use tensor_copies=false"
           : config.tensor_stores  ? "a CPU has no tensor copies; use tensor_stores=false"
           : config.adds_in_memory ? "a CPU's memory adds nothing; use adds_in_memory=false"
                                   : "";
  const int64_t of_turn = o.turns_apart ? 2 : 1;
  const int64_t sums =
      of_turn * config.tile_m * config.tile_n / (program::kWarpThreads * config.num_warps * config.num_ctas);
  if (sums > kMostSums)
    return "a thread would add up " + std::to_string(sums) + " elements of c, at most " + std::to_string(kMostSums) +
           " fit its registers; use more warps or a smaller tile";
  if (sums < 1) return "threads without an element of c; use fewer warps or a larger tile";
  if (config.persistent && config.splits > 1)
    return "programs that share a tile make no other one; use splits=1 or persistent=false";
  if (config.num_ctas > machine.max_cluster)
    return machine.max_cluster == 1 ? "there are no clusters of CTAs here; use num_ctas=1"
                                    : "there are clusters of at most " + std::to_string(machine.max_cluster) + " CTAs";
  if (config.num_ctas > 1 && !(config.tensor_copies && multiplies_from_shared(machine, o)))
    return "a cluster's CTAs share tensor copies to wgmma, of factors of 16 bits or of fp8 by Factors::nt; use "
           "num_ctas=1";
  constexpr int kWarpRows = 16, kGroupWarps = 4, kSlotRows = 8;  // what wgmma takes at least, and a copy
  const int slot_rows = o.transposed_b() ? config.tile_n : config.tile_k;
  if (config.num_ctas > 1 && (config.num_warps % kGroupWarps || slot_rows % (kSlotRows * config.num_ctas) ||
                              config.tile_m < kWarpRows * config.num_warps * config.num_ctas))
    return "each CTA of a cluster has four warps or more, 16 rows of a tile for each, and eight rows of b's; use a "
           "taller tile, other num_warps "
           "or num_ctas=1";
  if (config.tensor_copies && config.stages < 3)
    return "tensor copies take three stages or more; use more stages or tensor_copies=false";
  if (!fits_shared(machine, o, config))
    return std::to_string(config.stages) + " stages of " + std::to_string(slot_bytes(o, config)) +
           " bytes do not fit the " + std::to_string(machine.shared_per_cta) +
           " bytes of shared memory of a CTA; use fewer stages or a smaller tile";
  return "";
}

Step product(const Machine& machine, const MatmulMeta& meta, const MatmulConfig& config, const Size& tiles) {
  const Size at_once(std::max(machine.sms / config.num_ctas, 1));
  const Size programs = config.persistent ? min(tiles, at_once) : tiles * config.splits;
  Launch launch = library_launch(programs, config.num_warps);
  launch.num_ctas = config.num_ctas;
  return record_step("matmul", meta.type, &matmul, meta, launch);
}

Operation build(const Machine& machine, const MatmulOptions& o, const MatmulConfig& config) {
  MatmulMeta meta = matmul_meta(o, config);
  const Size rows = o.transposed_a() ? Size(o.width) : Size::rows();
  const Size tiles = ceil_div(rows, config.tile_m) * ceil_div(o.cols, config.tile_n) * std::max<int64_t>(o.batch, 1);
  Operation op{.steps = {product(machine, meta, config, tiles)}};
  if (config.splits == 1) return op;
  const TileShape tile = elementwise_tile(machine, f32, o.cols);
  meta.rows = tile.rows, meta.block = tile.cols;
  op.steps.push_back(
      record_step("matmul_finish", o.c_type, &matmul_finish, meta,
                  library_launch(ceil_div(rows, tile.rows) * ceil_div(o.cols, tile.cols), tile.num_warps)));
  op.workspace = {{.name = "partials", .dtype = DType::f32, .shape = {config.splits, rows, o.cols}}};
  return op;
}

Cost cost(const MatmulOptions& o, int64_t rows) {
  const auto m = static_cast<double>(o.transposed_a() ? o.width : rows),
             k = static_cast<double>(o.transposed_a() ? rows : o.width), n = static_cast<double>(o.cols);
  const auto products = static_cast<double>(std::max<int64_t>(o.batch, 1));
  return {products * ((m * k + k * n) * size_of(o.type) + m * n * size_of(o.c_type) * (o.adds ? 2 : 1))};
}

}  // namespace

MatmulConfig one_cta_product(const Machine& machine, const MatmulOptions& o) {
  if (!machine.is_gpu()) return on_cpu(o);
  MatmulConfig config = of_many(machine, o);
  const int64_t rows = height_of(o);
  const bool few = rows && tiles_of(rows, o.cols, config) * std::max<int64_t>(o.batch, 1) * 2 <= machine.sms;
  if (few || (o.batch && o.most_rows)) config = of_few(machine, o, rows);
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
  if (reason.empty() && config.splits > 1) reason = "its turns are not shared; use splits=1";
  if (!reason.empty()) throw Error("error: a product of any size: " + reason);
  return product(machine, matmul_meta(o, config), config, Size::rows());
}

int64_t matmul_tiles(const MatmulConfig& config, int64_t m, int64_t n) {
  return tiles_of(m, n, config);
}

std::vector<int64_t> few_rows(const Machine& machine, const MatmulOptions& o) {
  if (o.transposed_a()) return {};
  if (!machine.is_gpu()) return {16, 64};
  if (o.batch) return {kSmallRows};
  const int64_t small = most_of_small(machine, o), most = most_of_few(machine, o);
  if (most <= kSmallRows) return {};
  const int64_t middle = small / (2 * kSmallRows) * kSmallRows;
  std::vector<int64_t> rows;
  for (const int64_t some : {kSmallRows, middle, small, most})
    if (rows.empty() || some > rows.back()) rows.push_back(some);
  return rows;
}

bool has_unaligned_schedule(const Machine& machine, const MatmulOptions& o) {
  if (!machine.is_gpu() || size_of(o.type) != 2 || !has_wgmma(machine)) return false;
  return !are_vectors(o) || gains_by_cluster(machine, o, one_cta_product(machine, o));
}

bool has_fast_products(const Machine& machine, DType type) {
  return machine.is_gpu() && multiplies_from_shared(machine, {.type = type});
}

bool keeps_few_bits_of_fp8(const Machine& machine) {
  return machine.is_gpu() && has_wgmma(machine);
}

const Matmul matmul_kernel{"matmul", "a matrix product with an epilogue", &valid, &heuristic, &build, &cost};

Operation matmul(const Machine& machine, const MatmulOptions& options) {
  return matmul_kernel(machine, options);
}

}  // namespace ligerdsl::kernels
