#include <algorithm>

#include "kernels/attention/attention.h"
#include "kernels/core/record.h"
#include "kernels/core/tile_shape.h"
#include "program/gpu_arch.h"

namespace ligerdsl::kernels {
namespace {

// Tile shape of a launch. A program owns one block (of queries in the forward pass): the rows of
// its scores. Its loop streams blocks of the other operand (keys): the columns of the scores.
struct Blocks {
  int64_t width = 0;  // columns of a head's tile
  int own = 64, streamed = 64, stages = 2, warps = 4;
  bool reload = false;
  int accs = 1;         // accumulators [own, width] f32 that the loop carries
  int held = 1;         // loop-invariant operand tiles [own, width]
  int scores = 1;       // score tiles [own, streamed] f32 that are live at once
  bool copies = false;  // loads in loops are TMA copies; forward also sets `ahead`
  bool ahead = false;   // the loop carries the previous block's weights
};

// Returns true if loads can be TMA copies and matmuls can use wgmma. Both require elements of 16
// bits; TMA copies require rows of whole 16-byte vectors.
bool has_copies(const Machine& machine, const AttentionOptions& o) {
  const program::GpuArch* arch = program::find_gpu_arch(machine.name);
  return arch && arch->wgmma && size_of(o.type) == 2 && o.dim % 8 == 0;
}

// Time per column, relative to tiles whose width is a multiple of 64. `of_32`: widths that are odd
// multiples of 32; `of_16`: odd multiples of 16. Their swizzle covers 64 or 32 bytes, not 128.
struct ColumnTimes {
  double of_16, of_32;
};
// Times in us of 3001 causal queries of 32 heads (H200, bf16):
//
//   width      80   96  112  128  144  160   176   192
//   forward   150  141    -    -    -    -   290   222
//   backward  455  504  597  535  957  842  1249  1022
constexpr ColumnTimes kForward{1.3, 1.05}, kBackward{1.2, 1.05};

// Returns the width of a head's tile, a multiple of 16 for tensor cores. Wider tiles may be faster.
int64_t width_of(const Machine& machine, const AttentionOptions& o, const ColumnTimes& times) {
  const int64_t least = round_up(o.dim, 16);
  if (!has_copies(machine, o)) return least;
  const auto time_of = [&](int64_t width) {
    return static_cast<double>(width) * (width % 64 == 0   ? 1
                                         : width % 32 == 0 ? times.of_32
                                                           : times.of_16);
  };
  int64_t best = least;
  for (const int64_t wider : {round_up(o.dim, 32), round_up(o.dim, 64)})
    if (time_of(wider) < time_of(best)) best = wider;
  return best;
}

int64_t shared_bytes(const AttentionOptions& o, const Blocks& b) {
  constexpr int64_t kAlignment = 2048;  // slots are aligned to the period of the swizzle
  constexpr int64_t kExchanges = 4096;  // bytes reserved for exchanges in TMA loops
  constexpr int64_t kPadding = 16;
  const int64_t row = b.width * size_of(o.type);
  // f32 matmuls, which do not use tensor cores, exchange one operand tile between threads.
  const int64_t kept = b.reload ? b.held : size_of(o.type) == 4 ? 1 : 0;
  // Without a ring, exchanges convert both streamed tiles to operand layout. Their rows are padded
  // against bank conflicts.
  const int64_t padded = row + kPadding;
  const int64_t streamed = b.stages > 1 ? b.stages * row : size_of(o.type) == 2 ? padded : 0;
  return 2 * b.streamed * streamed + kept * b.own * row + kAlignment + (b.copies ? kExchanges : 0);
}

constexpr int64_t kMaxRegisters = 192;  // accumulator and score registers per thread

std::string refused(const Machine& machine, const AttentionOptions& o, const Blocks& b,
                    const char* prefix) {
  const auto name = [&](const char* field) { return std::string(prefix) + field; };
  if (!machine.is_gpu())
    return b.stages > 1 ? "a CPU has no pipelined loads; use " + name("stages") + "=1"
           : b.reload   ? "a CPU has no shared memory; use " + name("reload") + "=false"
                        : "";
  const int64_t threads = int64_t{program::kWarpThreads} * b.warps;
  const int64_t accs = int64_t{b.own} * (b.accs * b.width + b.scores * b.streamed) / threads;
  if (accs > kMaxRegisters)
    return "registers per thread for accumulators and scores: expected at most " +
           std::to_string(kMaxRegisters) + ", got " + std::to_string(accs) + "; use more " +
           name("warps") + " or smaller tiles";
  if (int64_t{b.own} * b.streamed < 2 * threads)
    return "scores per tile: expected at least " + std::to_string(2 * threads) +
           " (two per thread), got " + std::to_string(int64_t{b.own} * b.streamed) +
           "; use fewer " + name("warps") + " or larger tiles";
  if (b.reload && b.stages < 2)
    return name("reload") + "=true requires " + name("stages") + " of 2 or more, got " +
           std::to_string(b.stages) + "; use " + name("stages") + "=2 or " + name("reload") +
           "=false";
  if (shared_bytes(o, b) > machine.shared_per_cta)
    return std::to_string(shared_bytes(o, b)) + " bytes of tiles do not fit in the " +
           std::to_string(machine.shared_per_cta) + " bytes of shared memory of a CTA; use fewer " +
           name("stages") + " or smaller tiles";
  return "";
}

// Halves tiles until they fit: the streamed tile while streamed >= own / 2, otherwise the own tile.
Blocks fitting(const Machine& machine, const AttentionOptions& o, Blocks b) {
  while (!refused(machine, o, b, "").empty()) {
    if (b.streamed > 16 && b.streamed >= b.own / 2)
      b.streamed /= 2;
    else if (b.own > 16)
      b.own /= 2;
    else
      break;
    constexpr int kRowsOfWarp = 16;  // rows of the smallest tensor-core instruction
    while (b.warps > 1 && b.own < kRowsOfWarp * b.warps) b.warps /= 2;
  }
  return b;
}

Blocks with_plain_loads(const Machine& machine, const AttentionOptions& o, Blocks b) {
  if (!machine.is_gpu()) {
    // With 64 x 64 tiles, operands stay in a core's L1.
    b.own = b.streamed = 64, b.stages = 1, b.warps = 4, b.reload = b.copies = false;
    return b;
  }
  // f32 matmuls do not use tensor cores. A thread holds whole rows of operand A and whole columns
  // of B for its scores, so tiles are small.
  if (size_of(o.type) == 4) b.own = b.streamed = 32, b.warps = 2, b.reload = true, b.copies = false;
  return fitting(machine, o, b);
}

// Tile shapes for 16-bit elements that ptxas compiles without spills in 255 registers (sm_90a).
// Programs of `keys` compute d_k, d_v or both; programs of `queries` compute d_q.
struct Tiles {
  int64_t most_width;
  Blocks forward, keys, queries;
};
constexpr Tiles kTiles[] = {{64,
                             {.own = 64, .streamed = 64},
                             {.own = 128, .streamed = 64, .warps = 8, .reload = true},
                             {.own = 64, .streamed = 64}},
                            {128,
                             {.own = 64, .streamed = 64},
                             {.own = 128, .streamed = 32, .warps = 8, .reload = true},
                             {.own = 128, .streamed = 64, .warps = 8, .reload = true}},
                            {kMostAttentionDim,
                             {.own = 64, .streamed = 32, .reload = true},
                             {.own = 128, .streamed = 16, .warps = 8, .reload = true},
                             {.own = 128, .streamed = 32, .warps = 8, .reload = true}}};

// Most registers per thread for accumulators, scores and carried weights without spills (ptxas,
// sm_90a).
constexpr int64_t kMostForward = 176, kMostKeys = 192, kMostQueries = 176;

int64_t registers_of(const Blocks& b) {
  // Counts quarters of a row, because a thread may have a fraction of a row.
  const int64_t rows_of_thread = b.own * 4 / (program::kWarpThreads * b.warps);
  const int64_t weights = b.ahead ? b.streamed / 2 : 0;
  return rows_of_thread * (b.accs * b.width + b.scores * b.streamed + weights) / 4;
}

// Returns a tile shape in which two warp groups own 128 rows. The streamed tile is the largest that
// fits, because the waits of an iteration take the same time for any tile.
Blocks with_tensor_copies(const Machine& machine, const AttentionOptions& o, Blocks b,
                          int64_t most_registers) {
  b.own = 128, b.warps = 8, b.reload = b.copies = true;
  while (b.streamed > 16 &&
         (registers_of(b) > most_registers || shared_bytes(o, b) > machine.shared_per_cta))
    b.streamed /= 2;
  return b;
}

const Tiles& tiles_of(int64_t width) {
  return *std::find_if(std::begin(kTiles), std::end(kTiles) - 1,
                       [&](const Tiles& tiles) { return width <= tiles.most_width; });
}

// Tile shapes of the launches that a config describes.
Blocks forward_blocks(const Machine& machine, const AttentionOptions& o, const AttentionConfig& c) {
  return {.width = width_of(machine, o, kForward),
          .own = c.queries,
          .streamed = c.keys,
          .stages = c.stages,
          .warps = c.num_warps,
          .reload = c.reload};
}
Blocks key_blocks(const Machine& machine, const AttentionOptions& o,
                  const AttentionBackwardConfig& c) {
  return {.width = width_of(machine, o, kBackward),
          .own = c.k_keys,
          .streamed = c.k_queries,
          .stages = c.k_stages,
          .warps = c.k_warps,
          .reload = c.k_reload,
          .accs = c.apart ? 1 : 2,
          .held = 2,
          .scores = 2};
}
Blocks query_blocks(const Machine& machine, const AttentionOptions& o,
                    const AttentionBackwardConfig& c) {
  return {.width = width_of(machine, o, kBackward),
          .own = c.q_queries,
          .streamed = c.q_keys,
          .stages = c.q_stages,
          .warps = c.q_warps,
          .reload = c.q_reload,
          .held = 2,
          .scores = 2};
}

std::string unsupported(const AttentionOptions& o) {
  if (o.dim < 1 || o.dim > kMostAttentionDim)
    return "dim: expected 1 to " + std::to_string(kMostAttentionDim) + " columns per head, got " +
           std::to_string(o.dim);
  if (o.kv_heads < 1 || o.heads % o.kv_heads != 0)
    return "kv_heads: expected a divisor of heads=" + std::to_string(o.heads) + ", got " +
           std::to_string(o.kv_heads);
  return "";
}

// Returns the bytes of half of L2; on a CPU 256 KiB, half of a core's cache.
int64_t cached_bytes(const Machine& machine) {
  return machine.is_gpu() ? machine.l2_bytes / 2 : 256 << 10;
}

AttentionMeta meta_of(const Machine& machine, const AttentionOptions& o, const Blocks& b,
                      bool own_queries) {
  AttentionMeta meta{o};
  meta.cached_bytes = cached_bytes(machine);
  meta.width = b.width;
  meta.tile_q = own_queries ? b.own : b.streamed;
  meta.tile_k = own_queries ? b.streamed : b.own;
  meta.stages = b.stages;
  meta.reload = b.reload;
  return meta;
}

// Returns the number of programs: one per batch, head and tile of `places` queries or keys. With
// sequences, `places` is the upper bound of lengths that the caller passes. It is limited to the
// total number of tokens, as in Tokens of attention.cpp.
Size programs(const AttentionOptions& o, int64_t heads, int64_t places, int64_t tile) {
  if (!o.sequences) return Size::rows() * heads * ceil_div(Size(places), tile);
  return Size(o.sequences) * heads * ceil_div(max(min(Size(places), Size::rows()), 1), tile);
}

// Returns why loops cannot load by TMA copies, or "".
std::string reason_no_tensor_copies(const Machine& machine, int stages, const std::string& prefix) {
  const std::string needs = prefix + "tensor_copies=true needs ";
  if (!machine.is_gpu()) return needs + "a GPU; use " + prefix + "tensor_copies=false";
  if (stages < 2)
    return needs + prefix + "stages of 2 or more, got " + std::to_string(stages) + "; use " +
           prefix + "stages=2 or " + prefix + "tensor_copies=false";
  return "";
}

// ---- forward ----

AttentionConfig forward_heuristic(const Machine& machine, const AttentionOptions& o) {
  const int64_t width = width_of(machine, o, kForward);
  const bool copies = has_copies(machine, o);
  Blocks b = copies ? Blocks{.streamed = 128, .ahead = true} : tiles_of(width).forward;
  b.width = width;
  b = copies ? with_tensor_copies(machine, o, b, kMostForward) : with_plain_loads(machine, o, b);
  return {.queries = b.own,
          .keys = b.streamed,
          .stages = b.stages,
          .num_warps = b.warps,
          .reload = b.reload,
          .ahead = b.copies,
          .tensor_copies = b.copies};
}

std::string forward_valid(const Machine& machine, const AttentionOptions& o,
                          const AttentionConfig& config) {
  std::string reason = unsupported(o);
  if (reason.empty() && config.tensor_copies)
    reason = reason_no_tensor_copies(machine, config.stages, "");
  if (reason.empty() && config.tensor_copies && !config.ahead)
    reason = "tensor_copies=true requires ahead=true; use ahead=true or tensor_copies=false";
  return reason.empty() ? refused(machine, o, forward_blocks(machine, o, config), "") : reason;
}

Operation forward(const Machine& machine, const AttentionOptions& o,
                  const AttentionConfig& config) {
  AttentionMeta meta = meta_of(machine, o, forward_blocks(machine, o, config), true);
  meta.ahead = config.ahead, meta.tensor_copies = config.tensor_copies;
  Launch launch = library_launch(programs(o, o.heads, o.queries, meta.tile_q), config.num_warps);
  Operation op{.steps = {record_step("attention_forward", o.type, &attention_forward, meta,
                                     std::move(launch))}};
  // The grid depends on the longest sequence, so the grid check accepts any total number of
  // queries. If the total exceeds the limit of a tensor, this workspace is larger than any memory,
  // and the call fails. Otherwise the workspace is empty.
  constexpr int64_t kMostElements = int64_t{1} << 56, kTooMuch = int64_t{1} << 61;
  if (o.sequences)
    op.workspace = {
        {.name = "beyond",
         .dtype = DType::f32,
         .shape = {where_at_least(Size::rows(), kMostElements / (o.heads * o.dim) + 1, kTooMuch)}}};
  return op;
}

// Returns the queries per row of the operation. A row is a batch or, with `sequences`, one query.
double queries_of(const AttentionOptions& o) {
  return o.sequences ? 1 : static_cast<double>(o.queries);
}

double pairs_of(const AttentionOptions& o, int64_t rows) {
  return static_cast<double>(rows * o.heads) * queries_of(o);
}

// Returns the bytes of `queries` query arrays and `keys` key arrays. With `sequences`, each is
// assumed to have `rows` tokens.
double bytes_of(const AttentionOptions& o, int64_t rows, int queries, int keys) {
  const double of_keys = o.sequences ? 1 : static_cast<double>(o.keys);
  return static_cast<double>(rows) * static_cast<double>(o.dim * size_of(o.type)) *
         (queries * static_cast<double>(o.heads) * queries_of(o) +
          keys * static_cast<double>(o.kv_heads) * of_keys);
}

Cost forward_cost(const AttentionOptions& o, int64_t rows) {
  return {bytes_of(o, rows, 2, 2) + (o.with_lse ? 4 * pairs_of(o, rows) : 0)};
}

// ---- backward ----

AttentionBackwardConfig backward_heuristic(const Machine& machine, const AttentionOptions& o) {
  AttentionBackwardConfig config;
  const int64_t width = width_of(machine, o, kBackward);
  config.apart = machine.is_gpu() && width > 128;
  const bool copies = has_copies(machine, o);
  Blocks k = copies ? Blocks{.streamed = 64} : tiles_of(width).keys,
         q = copies ? Blocks{.streamed = 128} : tiles_of(width).queries;
  k.accs = config.apart ? 1 : 2;
  k.width = q.width = width;
  k.held = q.held = 2;
  k.scores = q.scores = copies && o.softcap ? 3 : 2;  // with a softcap, raw scores stay live
  k = copies ? with_tensor_copies(machine, o, k, kMostKeys) : with_plain_loads(machine, o, k);
  q = copies ? with_tensor_copies(machine, o, q, kMostQueries) : with_plain_loads(machine, o, q);
  config.k_queries = k.streamed, config.k_keys = k.own, config.k_stages = k.stages,
  config.k_warps = k.warps;
  config.q_queries = q.own, config.q_keys = q.streamed, config.q_stages = q.stages,
  config.q_warps = q.warps;
  config.k_reload = k.reload, config.q_reload = q.reload;
  config.k_tensor_copies = k.copies, config.q_tensor_copies = q.copies;
  return config;
}

std::string backward_valid(const Machine& machine, const AttentionOptions& o,
                           const AttentionBackwardConfig& config) {
  std::string reason = unsupported(o);
  if (reason.empty() && config.k_tensor_copies)
    reason = reason_no_tensor_copies(machine, config.k_stages, "k_");
  if (reason.empty() && config.q_tensor_copies)
    reason = reason_no_tensor_copies(machine, config.q_stages, "q_");
  if (reason.empty()) reason = refused(machine, o, key_blocks(machine, o, config), "k_");
  return reason.empty() ? refused(machine, o, query_blocks(machine, o, config), "q_") : reason;
}

// Tile and warps of a program that adds one head's partial d_sinks.
constexpr int64_t kSinkPartials = 512;
constexpr int kSinkWarps = 4;

Operation backward(const Machine& machine, const AttentionOptions& o,
                   const AttentionBackwardConfig& config) {
  AttentionMeta meta = meta_of(machine, o, query_blocks(machine, o, config), true);
  const TileShape tile = row_tile(machine, o.type, meta.width, 2);
  meta.tile_q = tile.rows;
  // With a power-of-two width, each thread loads whole vectors. At a width of 176, threads would
  // load single elements.
  if (machine.is_gpu()) meta.width = tile.cols;
  Operation op;
  const Size batches = o.sequences ? Size(1) : Size::rows(),
             tokens = o.sequences ? Size::rows() : Size(o.queries);
  const Size of_delta = batches * o.heads * ceil_div(tokens, tile.rows);
  op.workspace = {{.name = "delta", .dtype = DType::f32, .shape = {o.heads, tokens}}};
  if (!o.sequences) op.workspace[0].shape.insert(op.workspace[0].shape.begin(), batches);
  op.steps = {record_step("attention_delta", o.type, &attention_delta, meta,
                          library_launch(of_delta, tile.num_warps))};
  if (o.with_sinks) {
    op.workspace.push_back({.name = "sink_partials",
                            .dtype = DType::f32,
                            .shape = {o.heads, batches * ceil_div(tokens, tile.rows)}});
    meta.tile_q = kSinkPartials;
    op.steps.push_back(record_step("attention_d_sinks", f32, &attention_d_sinks, meta,
                                   library_launch(o.heads, kSinkWarps)));
  }
  const auto of_keys = [&](bool d_k, bool d_v) {
    meta = meta_of(machine, o, key_blocks(machine, o, config), false);
    meta.d_k = d_k, meta.d_v = d_v, meta.tensor_copies = config.k_tensor_copies;
    const char* name = d_k && d_v ? "attention_d_k_d_v" : d_k ? "attention_d_k" : "attention_d_v";
    op.steps.push_back(
        record_step(name, o.type, &attention_backward_keys, meta,
                    library_launch(programs(o, o.kv_heads, o.keys, meta.tile_k), config.k_warps)));
  };
  if (!config.apart) of_keys(true, true);
  if (config.apart) of_keys(true, false), of_keys(false, true);
  meta = meta_of(machine, o, query_blocks(machine, o, config), true);
  meta.tensor_copies = config.q_tensor_copies;
  op.steps.push_back(
      record_step("attention_d_q", o.type, &attention_backward_queries, meta,
                  library_launch(programs(o, o.heads, o.queries, meta.tile_q), config.q_warps)));
  return op;
}

Cost backward_cost(const AttentionOptions& o, int64_t rows) {
  return {bytes_of(o, rows, 4, 4) + (o.with_d_lse ? 8 : 4) * pairs_of(o, rows)};
}

}  // namespace

const AttentionForward attention_forward_kernel{
    "attention_forward",
    "softmax(scale q k^T) v of each head, without storing the scores",
    &forward_valid,
    &forward_heuristic,
    &forward,
    &forward_cost};
const AttentionBackward attention_backward_kernel{"attention_backward",
                                                  "gradients of attention, from its lse",
                                                  &backward_valid,
                                                  &backward_heuristic,
                                                  &backward,
                                                  &backward_cost};

Operation attention_forward(const Machine& machine, const AttentionOptions& options) {
  return attention_forward_kernel(machine, options);
}

Operation attention_backward(const Machine& machine, const AttentionOptions& options) {
  return attention_backward_kernel(machine, options);
}

}  // namespace ligerdsl::kernels
