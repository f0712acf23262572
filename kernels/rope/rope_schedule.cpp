#include <bit>

#include "kernels/core/record.h"
#include "kernels/core/tile_shape.h"
#include "kernels/rope/rope.h"

namespace ligerdsl::kernels {
namespace {

// Most 16-byte vectors per thread, of q and k together.
constexpr int64_t kMostHeld = 128;

// Returns the Meta for a config. A tile has all heads of q or k, but at most config.heads.
RopeMeta meta_of(const RopeOptions& o, const RopeConfig& config) {
  RopeMeta meta{o};
  meta.half = tile_width(o.angles());
  meta.tail_block = tile_width(o.tail());
  meta.q_block = std::min<int64_t>(tile_width(o.q_heads), config.heads);
  meta.k_block = std::min<int64_t>(tile_width(std::max<int64_t>(o.k_heads, 1)), config.heads);
  return meta;
}

int64_t elements_of(const RopeMeta& meta) {
  return 2 * (meta.q_block + meta.k_block) * meta.half;
}

int64_t vectors_of(const RopeOptions& o, const RopeMeta& meta) {
  return elements_of(meta) / vector_width(o.type);
}

int64_t threads_of(const RopeConfig& config) {
  return int64_t{program::kWarpThreads} * config.num_warps;
}

// Returns the largest useful value of RopeConfig::heads; larger values result in the same tiles.
int64_t most_heads(const RopeOptions& o) {
  const int64_t widest =
      std::max(tile_width(o.q_heads), tile_width(std::max<int64_t>(o.k_heads, 1)));
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(widest)));
}

// Register limit for threads with at most most_held vectors of q and k, and at least least_keys
// vectors of k. There is no limit if no rule matches, for multimodal, or if tiles are masked: masks
// need more registers.
struct RegisterRule {
  int64_t most_held, least_keys;
  int registers;
  const char* measured;
};
constexpr RegisterRule kRegisters[] = {
    {.most_held = 6,
     .least_keys = 1,
     .registers = 64,
     .measured = "2048 tokens with 32 + 8 heads take 29.1 us, forward and backward, in two waves "
                 "with 64 registers, "
                 "and 30.0 us in 2.25 waves with the 72 registers that ptxas chooses"},
};

// Returns the minimum CTAs per SM that enforces the rule's register limit, or 0 without a rule.
int ctas_per_sm(const Machine& machine, const RopeOptions& o, const RopeMeta& meta, int num_warps) {
  const bool masked =
      meta.q_block != o.q_heads || meta.k_block != o.k_heads || meta.half != o.angles();
  if (masked || o.layout == RopeLayout::multimodal) return 0;
  const int64_t threads = program::kWarpThreads * num_warps,
                vectors = threads * vector_width(o.type);
  for (const RegisterRule& rule : kRegisters) {
    if (elements_of(meta) <= rule.most_held * vectors &&
        2 * meta.k_block * meta.half >= rule.least_keys * vectors)
      return static_cast<int>(machine.threads_with(rule.registers) / threads);
  }
  return 0;
}

RopeConfig heuristic(const Machine& machine, const RopeOptions& o) {
  // A tile has at most 8192 elements in each half: 16 per thread with the most warps (16).
  const int64_t heads = std::max<int64_t>(
      1, floor_power_of_two(8192 / std::max(tile_width(o.angles()), tile_width(o.tail()))));
  RopeConfig config{.heads = static_cast<int>(std::min(heads, most_heads(o)))};
  if (!machine.is_gpu()) return config;
  RopeMeta meta = meta_of(o, config);
  config.num_warps = warps_for(elements_of(meta), o.type, 4, 16);
  // With 256 heads of q and one of k, a single warp would have too many vectors per thread.
  while (config.heads > 1 && vectors_of(o, meta) > kMostHeld * threads_of(config)) {
    config.heads /= 2;
    meta = meta_of(o, config);
    config.num_warps = warps_for(elements_of(meta), o.type, 4, 16);
  }
  config.min_ctas_per_sm = ctas_per_sm(machine, o, meta, config.num_warps);
  return config;
}

std::string valid(const Machine& machine, const RopeOptions& o, const RopeConfig& config) {
  if (config.heads > most_heads(o))
    return "heads: expected at most " + std::to_string(most_heads(o)) + ", got " +
           std::to_string(config.heads) + "; use fewer heads";
  const int64_t threads = threads_of(config), vectors = vectors_of(o, meta_of(o, config));
  if (!machine.is_gpu()) return "";
  if (config.num_warps > 1 && vectors < threads)
    return "vectors per tile: expected at least " + std::to_string(threads) + ", got " +
           std::to_string(vectors) + "; use fewer warps or more heads";
  if (vectors > kMostHeld * threads)
    return "vectors per thread: expected at most " + std::to_string(kMostHeld) + ", got " +
           std::to_string(ceil_div(vectors, threads)) + "; use more warps or fewer heads";
  return "";
}

Operation build(const Machine&, const RopeOptions& o, const RopeConfig& config) {
  Launch launch = library_launch(Size::rows(), config.num_warps);
  launch.min_ctas_per_sm = config.min_ctas_per_sm;
  return {.steps = {
              record_step(rope_kernel.name, o.type, &rope, meta_of(o, config), std::move(launch))}};
}

Cost cost(const RopeOptions& o, int64_t tokens) {
  const double heads =
      static_cast<double>(2 * (o.q_heads + o.k_heads) * o.head_dim * size_of(o.type));
  return {(heads + static_cast<double>(2 * o.angles() * size_of(o.angle_type))) *
          static_cast<double>(tokens)};
}

}  // namespace

const Rope rope_kernel{"rope", "rotary position embedding of q and k; sign -1 is the gradient",
                       &valid, &heuristic,
                       &build, &cost};

Operation rope(const Machine& machine, const RopeOptions& options) {
  return rope_kernel(machine, options);
}

}  // namespace ligerdsl::kernels
