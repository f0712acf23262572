#include <algorithm>
#include <bit>

#include "kernels/core/record.h"
#include "kernels/norm/group_norm.h"
#include "kernels/norm/layer_norm.h"
#include "kernels/norm/norm_backward.h"
#include "kernels/reduce/column_sums.h"

namespace ligerdsl::kernels {
namespace {

// Groups of a tile: `groups` groups from each of `batches` batches.
struct Side {
  int64_t batches = 1, groups = 1;
  int64_t rows() const { return batches * groups; }
};

constexpr int64_t kMostOdd =
    7;  // largest odd factor of a tile's size; it multiplies the elements per thread

int64_t odd_of(int64_t n) {
  return n / (n & -n);
}

Side side_of(const GroupNormOptions& o, int64_t rows) {
  const int64_t power = o.groups & -o.groups;
  if (rows <= power) return {1, rows};
  return {rows / power, o.groups};
}

// Returns the groups of the largest tile with at most `most` groups.
Side side_of_most(const GroupNormOptions& o, int64_t most) {
  const int64_t power = o.groups & -o.groups, odd = o.groups / power;
  if (odd > kMostOdd || most < (odd == 1 ? 1 : 2) * o.groups)
    return {1, std::min(power, floor_power_of_two(most))};
  return {floor_power_of_two(most / o.groups), o.groups};
}

// Returns the `rows` field of RowConfig and GroupNormBackwardConfig for these groups.
int rows_of(const GroupNormOptions& o, const Side& side) {
  const int64_t power = o.groups & -o.groups;
  return static_cast<int>(side.groups < o.groups ? side.groups : side.batches * power);
}

std::string refused_side(const GroupNormOptions& o, int64_t rows) {
  const int64_t power = o.groups & -o.groups, odd = o.groups / power;
  if (rows <= power || odd <= kMostOdd) return "";
  return "rows: expected at most " + std::to_string(power) + " for batches of " +
         std::to_string(o.groups) + " groups, got " + std::to_string(rows) + "; use fewer rows";
}

constexpr int64_t kMostHeld = 16;  // most vectors per thread

std::string refused_held(int64_t elements, DType type, int num_warps, int64_t num_ctas,
                         int64_t most) {
  const int64_t threads = program::kWarpThreads * num_warps * num_ctas,
                vectors = elements / vector_width(type);
  if (vectors <= most * threads) return "";
  return "vectors per thread: expected at most " + std::to_string(most) + ", got " +
         std::to_string(ceil_div(vectors, threads)) + "; use more warps or fewer rows";
}

// Returns the options of a LayerNorm with rows of the same length. GroupNorm's heuristic starts
// from that LayerNorm's schedule.
LayerNormOptions rows_like(const GroupNormOptions& o) {
  LayerNormOptions rows;
  rows.cols = o.row();
  rows.type = o.type;
  rows.weight_type = o.weight_type;
  return rows;
}

// Returns the number of warps of the launch that reduces parts of groups.
int warps_of_part(const GroupNormOptions& o, int64_t part) {
  return warps_for(part, o.type, 4, 16);
}

std::string refused_parts(const GroupNormOptions& o, const GroupNormForwardConfig& config) {
  if (config.parts == 1)
    return config.part_vectors == 0
               ? ""
               : "parts=1 requires part_vectors=0, got " + std::to_string(config.part_vectors) +
                     "; use part_vectors=0, or more parts";
  if (config.part_vectors == 0)
    return "parts=" + std::to_string(config.parts) +
           " requires part_vectors of 1 or more, got 0; set part_vectors, or use parts=1";
  if (o.row() % config.parts != 0)
    return "a group of " + std::to_string(o.row()) + " elements cannot be split into " +
           std::to_string(config.parts) + " equal parts; use fewer parts";
  const int64_t part = o.row() / config.parts;
  if (part % program::kWarpThreads != 0 || !is_tile_size(part))
    return "parts=" + std::to_string(config.parts) + " gives parts of " + std::to_string(part) +
           " elements; expected a multiple of 32 of the form c * 2^n with odd c of at most 31; use "
           "another number of parts";
  return refused_held(part, o.type, warps_of_part(o, part), 1, kMostHeld);
}

// Splits groups that clusters cannot hold into parts of 16 KB or more. On an H200, parts are faster
// than clusters that hold only a third of a group (2 MB). Clusters that hold whole groups (512 KB)
// are faster than parts.
void split(const GroupNormOptions& o, GroupNormForwardConfig* config) {
  constexpr int64_t kPart = 16 * 1024;
  GroupNormForwardConfig in_parts = *config;
  in_parts.part_vectors = 2;
  for (int64_t parts =
           std::min<int64_t>(floor_power_of_two(o.row() * size_of(o.type) / kPart), 1024);
       parts > 1; parts /= 2) {
    in_parts.parts = static_cast<int>(parts);
    if (!refused_parts(o, in_parts).empty()) continue;
    *config = in_parts;
    return;
  }
}

// Returns the elements per block on a CPU: a power of two, at least kLeast, that divides a channel;
// 0 if there is none. Without such blocks, each vector loads its weight and bias.
int64_t block_of_channel(const GroupNormOptions& o) {
  constexpr int64_t kLeast = 512;
  const int64_t block = std::min(o.positions & -o.positions, kRowBlock);
  return o.channels_of_group() > 1 && block >= kLeast ? block : 0;
}

// Returns the elements per block if a CPU stores results channel by channel, because
// block_of_channel() is 0. Returns 0 if channels are so short that most vectors would be partial,
// and if a group has one channel.
int64_t channel_width(const GroupNormOptions& o) {
  constexpr int64_t kLeast = 16;
  if (o.channels_of_group() == 1 || block_of_channel(o) > 0 || o.positions < kLeast) return 0;
  return std::min<int64_t>(tile_width(o.positions), kRowBlock);
}

GroupNormForwardConfig heuristic_forward(const Machine& machine, const GroupNormOptions& o) {
  GroupNormForwardConfig config{layer_norm_forward_kernel.heuristic(machine, rows_like(o))};
  // Blocks within one channel are several times as fast as blocks of two channels, because one
  // weight and one bias apply to the whole block.
  if (const int64_t block = block_of_channel(o); !machine.is_gpu() && block > 0) {
    static_cast<RowConfig&>(config) = rows_in_blocks(o.type, block, 2);
    return config;
  }
  // Storing channel by channel is several times as fast as looking up weight and bias per vector,
  // but needs tiles of one group.
  if (!machine.is_gpu() && config.rows > 1 && channel_width(o) > 0) {
    config.rows = 1;
    config.num_warps = warps_for(tile_width(o.row()), o.type, 4);
  }
  if (config.rows > 1) {
    const Side side = side_of_most(o, config.rows);
    config.rows = rows_of(o, side);
    config.num_warps = warps_for(side.rows() * tile_width(o.row()), o.type, 4);
  }
  if (config.keep == Keep::cluster &&
      !kept_by_cluster(machine, config.num_ctas, o.row() * size_of(o.type), config.min_ctas_per_sm))
    split(o, &config);
  return config;
}

std::string valid_forward(const Machine& machine, const GroupNormOptions& o,
                          const GroupNormForwardConfig& config) {
  if (const std::string reason = refused(machine, o.type, o.row(), config); !reason.empty())
    return reason;
  if (const std::string reason = refused_side(o, config.rows); !reason.empty()) return reason;
  if (const std::string reason = refused_parts(o, config); !reason.empty()) return reason;
  if (config.whole())
    return refused_held(side_of(o, config.rows).rows() * tile_width(o.row()), o.type,
                        config.num_warps, 1, kMostHeld);
  return config.keep == Keep::cluster ? refused_lanes(config) : "";
}

Operation whole_groups(const Machine& machine, const GroupNormOptions& o,
                       const GroupNormForwardConfig& config) {
  GroupNormMeta meta{o};
  const Side side = side_of(o, config.rows);
  meta.cols = o.row();
  meta.looped = !config.whole();
  meta.rows = side.rows();
  meta.batches = side.batches;
  meta.block = config.columns(o.type, o.row());
  meta.lanes = lanes_of_rows(machine, o.type, meta.rows, meta.block, config);
  if (!machine.is_gpu() && meta.rows == 1) meta.channel_width = channel_width(o);
  Launch launch = config.launch();
  launch.grid = {ceil_div(Size::rows(), side.batches) * (o.groups / side.groups)};
  return operation_of(record_step(group_norm_forward_kernel.name, o.type, &group_norm_forward, meta,
                                  launch, schedule_of(config)));
}

Operation groups_in_parts(const Machine& machine, const GroupNormOptions& o,
                          const GroupNormForwardConfig& config) {
  GroupNormMeta meta{o};
  meta.parts = config.parts;
  meta.block = o.row() / config.parts;
  RowConfig of_part;
  of_part.num_warps = warps_of_part(o, meta.block);
  meta.lanes = lanes_of_rows(machine, o.type, 1, meta.block, of_part);
  const Size groups = Size::rows() * o.groups, parts = groups * config.parts;
  Operation op;
  op.steps.push_back(record_step("group_norm_statistics", o.type, &group_norm_statistics, meta,
                                 library_launch(parts, of_part.num_warps)));
  // The vectors of a block are contiguous. If channels consist of whole vectors, each vector is in
  // one channel.
  constexpr int kWarps = 4;
  meta.cols = o.row();
  meta.block = kWarps * program::kWarpThreads * vector_width(o.type) * config.part_vectors;
  op.steps.push_back(record_step("group_norm_normalise", o.type, &group_norm_normalise, meta,
                                 library_launch(groups * ceil_div(o.row(), meta.block), kWarps)));
  for (const char* name : {"part_total", "part_shift", "part_low", "part_squares"})
    op.workspace.push_back({.name = name, .dtype = f32, .shape = {parts}});
  return op;
}

Operation build_forward(const Machine& machine, const GroupNormOptions& o,
                        const GroupNormForwardConfig& config) {
  return config.parts == 1 ? whole_groups(machine, o, config) : groups_in_parts(machine, o, config);
}

Cost cost_forward(const GroupNormOptions& o, int64_t batches) {
  const double batch = static_cast<double>(2 * o.row() * size_of(o.type) +
                                           4 * (int{o.with_mean} + int{o.with_rstd})) *
                       static_cast<double>(o.groups);
  const int parameters = o.without_bias ? 1 : 2;
  return {batch * static_cast<double>(batches) +
          static_cast<double>(parameters * o.channels * size_of(o.weight_type))};
}

constexpr int kRegisters = 128;         // registers per thread
constexpr int64_t kVectors = 2;         // vectors of x, and of d_y, per thread
constexpr int64_t kMostVectors = 4;     // vectors of x, and of d_y, per thread for large groups
constexpr int64_t kLatePositions = 64;  // channels with fewer positions use late_sums
constexpr int64_t kFewOnCpu = 16384;    // larger groups do not stay in a core's caches
constexpr int64_t kMostOnCpu =
    int64_t{1} << 19;  // if there are many groups, a program holds a group of up to this size

// The part of a tile that one group occupies.
struct GroupTile {
  int64_t channels = 1, positions = 1;
  int64_t size() const { return channels * positions; }
};

// Returns the smallest tile that holds a group. The odd factor of its size is limited, because it
// multiplies the elements per thread. If channels have one position, `positions` counts channels.
GroupTile tile_of(const GroupNormOptions& o) {
  const int64_t odds = o.positions < kLatePositions ? 3 : kMostOdd;
  const auto least = [](int64_t n, int64_t odd) {
    return odd * static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(ceil_div(n, odd))));
  };
  const bool own = o.positions == 1;
  const int64_t channels = own ? 1 : o.channels_of_group(),
                positions = own ? o.channels_of_group() : o.positions;
  const int64_t vector = std::min<int64_t>(vector_width(o.type), least(positions, 1));
  GroupTile best{least(channels, 1), least(positions, 1)};
  for (int64_t a = 1; a <= odds; a += 2) {
    for (int64_t b = 1; a * b <= odds; b += 2) {
      const GroupTile tile{least(channels, a), least(positions, b)};
      if (tile.positions % vector == 0 && tile.size() < best.size()) best = tile;
    }
  }
  return best;
}

int64_t threads_of(const Machine& machine) {
  return machine.is_gpu() ? machine.threads_with(kRegisters) : 128;
}

int sums_of(const GroupNormOptions& o) {
  return o.gradients == LayerNormGradients::both ? 2 : 1;
}

GroupNormBackwardConfig by_channels(const Machine& machine, const GroupNormOptions& o) {
  GroupNormBackwardConfig config{.by = GroupNormBackwardBy::channels};
  const int arrays = o.without_d_x && o.gradients == LayerNormGradients::bias ? 1 : 2;
  const ColumnSumsConfig sums =
      column_sums_config(machine, o.type, o.channels * o.positions,
                         {.arrays = arrays, .sums = o.without_d_x ? sums_of(o) : 2});
  config.num_warps = sums.num_warps;
  config.vectors = sums.vectors;
  config.stages = sums.stages;
  config.programs_per_sm = sums.programs_per_sm;
  config.rows = sums.rows;
  if (o.without_d_x && o.positions < kLatePositions) return config;
  // With d_x or long channels, a tile has one batch.
  config.num_warps = machine.is_gpu() ? 8 : 4;
  config.vectors = machine.is_gpu() ? 2 : 4;
  config.stages = machine.is_gpu() ? 2 : 1;
  config.rows = 1;
  const int64_t all = std::bit_ceil(static_cast<uint64_t>(o.channels * o.positions));
  while (config.num_warps > 1 &&
         program::kWarpThreads * config.num_warps * vector_width(o.type) > all)
    config.num_warps /= 2;
  while (config.vectors > 1 &&
         program::kWarpThreads * config.num_warps * vector_width(o.type) * config.vectors > all)
    config.vectors /= 2;
  if (machine.is_gpu() && !o.without_d_x) config.tiles_per_program = 4;
  return config;
}

GroupNormBackwardConfig heuristic_backward(const Machine& machine, const GroupNormOptions& o) {
  const int64_t group = tile_of(o).size(), step = threads_of(machine) * vector_width(o.type);
  // by=groups reads x and d_y once, by=channels twice. On a CPU, by=groups is faster for groups of
  // up to 2^19 elements, if a batch has enough groups.
  const int64_t on_cpu = o.groups >= 8 ? kMostOnCpu : kFewOnCpu;
  const int64_t most = machine.is_gpu() ? step * kMostVectors * machine.max_cluster : on_cpu;
  // On an H200, clusters that hold a group are faster than by=channels.
  if (o.without_d_x || group > most) return by_channels(machine, o);
  GroupNormBackwardConfig config{.stages = machine.is_gpu() ? 2 : 1};
  // `many`: a group has one vector, so a thread has whole groups. Eight vectors per thread are then
  // faster than two on an H100. Larger groups need more registers.
  const bool many = machine.is_gpu() && o.positions == 1 && size_of(o.type) == 2 &&
                    o.channels_of_group() == vector_width(o.type) && odd_of(o.groups) == 1;
  // late_sums keeps a sum per element, so tiles have half the size to avoid spills.
  const int64_t together = step * kVectors / (o.positions < kLatePositions && !many ? 2 : 1);
  Side side = side_of_most(o, std::max<int64_t>(together / group, 1));
  if (odd_of(side.rows() * group) > kMostOdd)
    side = {1, std::min(side.groups, o.groups & -o.groups)};
  config.rows = rows_of(o, side);
  const int64_t elements = side.rows() * group;
  if (machine.is_gpu())
    while (elements > step * kMostVectors * config.num_ctas) config.num_ctas *= 2;
  config.num_warps =
      warps_for(elements / config.num_ctas, o.type, many ? 2 * kMostVectors : kVectors, 16);
  if (machine.is_gpu()) {  // CTAs that fit with kRegisters per thread; `many`: twice the registers
    config.programs_per_sm = std::clamp((many ? 8 : 16) / config.num_warps, 1, 8);
    config.min_ctas_per_sm = config.num_warps < 16 ? std::min(config.programs_per_sm, 4) : 0;
    // With clusters, three programs per SM are fast for few and for many batches on an H200. All
    // programs that fit are slower, and so are eight programs per SM.
    if (config.num_ctas > 1 && config.num_warps < 16) config.programs_per_sm = 3;
  }
  config.late_sums = o.positions == 1 || (o.positions < kLatePositions && config.num_ctas == 1);
  return config;
}

std::string valid_backward(const Machine& machine, const GroupNormOptions& o,
                           const GroupNormBackwardConfig& config) {
  if (config.by == GroupNormBackwardBy::channels) {
    if (config.vectors == 0) return "by=channels requires vectors of 1 or more, got 0; set vectors";
    if (config.num_ctas != 1)
      return "num_ctas: expected 1 with by=channels, got " + std::to_string(config.num_ctas) +
             "; use num_ctas=1";
    if (config.late_sums) return "by=channels requires late_sums=false; use late_sums=false";
    if (!o.without_d_x && config.rows != 1)
      return "rows: expected 1 with by=channels and without_d_x=false, got " +
             std::to_string(config.rows) + "; use rows=1";
    if (o.without_d_x && config.tiles_per_program != 0)
      return "tiles_per_program: expected 0 with without_d_x=true, got " +
             std::to_string(config.tiles_per_program) + "; use tiles_per_program=0";
    const int64_t tile =
        program::kWarpThreads * config.num_warps * vector_width(o.type) * config.vectors;
    return refused_column_tile(machine, o.type, o.channels * o.positions, config.rows,
                               tile / config.rows, sums_of(o));
  }
  if (o.without_d_x) return "without_d_x=true requires by=channels; use by=channels";
  if (config.vectors != 0 || config.tiles_per_program != 0)
    return "by=groups requires vectors=0 and tiles_per_program=0, got vectors=" +
           std::to_string(config.vectors) +
           " and tiles_per_program=" + std::to_string(config.tiles_per_program) +
           "; set both to 0, or use by=channels";
  if (const std::string reason = refused_side(o, config.rows); !reason.empty()) return reason;
  if (config.num_ctas > machine.max_cluster)
    return "num_ctas: expected at most " + std::to_string(machine.max_cluster) +
           " on this machine, got " + std::to_string(config.num_ctas) + "; use a smaller num_ctas";
  if (config.num_ctas > 1 && config.rows != 1)
    return "rows: expected 1 with num_ctas=" + std::to_string(config.num_ctas) + ", got " +
           std::to_string(config.rows) + "; use rows=1, or num_ctas=1";
  if (o.positions == 1 && !config.late_sums)
    return "positions=1 requires late_sums=true; use late_sums=true";
  const Side side = side_of(o, config.rows);
  const int64_t elements = side.rows() * tile_of(o).size();
  if (elements > int64_t{1} << 20)
    return "elements per tile: expected at most 2^20, got " + std::to_string(elements) +
           "; use fewer rows, or by=channels";
  if (config.num_warps * config.num_ctas > 1 &&
      elements < program::kWarpThreads * config.num_warps * config.num_ctas * vector_width(o.type))
    return "a tile of " + std::to_string(elements) +
           " elements has less than one vector per thread; use fewer warps, or more rows";
  if (machine.is_gpu()) {
    if (const std::string reason =
            refused_held(elements, o.type, config.num_warps, config.num_ctas, 2 * kMostVectors);
        !reason.empty())
      return reason;
  }
  return side.batches > 1 && config.late_sums
             ? refused_sum_in_shared_memory(machine, elements * sums_of(o))
             : "";
}

// Returns the last launch, which reduces the partial sums.
Step reduce_step(const Machine& machine, const GroupNormOptions& o) {
  return reduce_partials(machine,
                         layer_norm_sums(o.gradients, o.d_weight_type, o.channels, o.accumulate));
}

void add_partials(Operation* op, const GroupNormOptions& o, LayerNormGradients which,
                  const PartialCount& parts) {
  const auto add = [&](const char* name) {
    op->workspace.push_back({.name = name,
                             .dtype = f32,
                             .shape = {parts.of_rows, o.channels},
                             .room = {parts.most, o.channels}});
  };
  if (which != LayerNormGradients::bias) add("weight_partials");
  if (which != LayerNormGradients::weight) add("bias_partials");
}

Step by_groups(const Machine& machine, const GroupNormOptions& o,
               const GroupNormBackwardConfig& config, PartialCount* parts) {
  GroupNormMeta meta{o};
  const Side side = side_of(o, config.rows);
  const GroupTile tile = tile_of(o);
  meta.rows = side.rows();
  meta.batches = side.batches;
  meta.channel_block = tile.channels;
  meta.position_block = tile.positions;
  meta.late_sums = config.late_sums;
  meta.stages = config.stages;
  const Size batches = ceil_div(Size::rows(), side.batches);
  const int64_t tiles = o.groups / side.groups;  // tiles of a batch
  const int64_t programs =
      machine.is_gpu() ? machine.sms * config.programs_per_sm / config.num_ctas : 64;
  *parts = partial_count(batches, std::max<int64_t>(programs / tiles, 1));
  Launch launch =
      library_launch((o.want_d_weight ? parts->of_rows : batches) * tiles, config.num_warps);
  launch.num_ctas = config.num_ctas;
  launch.min_ctas_per_sm = config.min_ctas_per_sm;
  return record_step(group_norm_backward_kernel.name, o.type, &group_norm_backward, meta,
                     std::move(launch));
}

// Sets a tile with `elements` elements per batch. A channel's block is the widest with at most an
// eighth of padding, or else the one with the least padding. The tile then holds several channels,
// and several groups if they fit.
void set_tile(GroupNormMeta* meta, int64_t elements) {
  const auto power_over = [](int64_t n) {
    return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(n)));
  };
  const int64_t channels = power_over(meta->channels_of_group());
  int64_t width = std::min(power_over(meta->positions), elements);
  const auto covered = [&](int64_t block) { return round_up(meta->positions, block); };
  for (int64_t block = width; block >= 64 && covered(width) * 8 > meta->positions * 9; block /= 2)
    if (covered(block) < covered(width)) width = block;
  const int64_t side_by_side = std::min(elements / width, channels);
  int64_t groups = side_by_side == channels ? elements / (width * side_by_side) : 1;
  groups = std::min(groups, meta->groups & -meta->groups);
  meta->rows = meta->batches * groups;
  meta->channel_block = meta->positions == 1 ? 1 : side_by_side;
  meta->position_block = meta->positions == 1 ? side_by_side : width;
}

// Returns the number of programs per batch and position tile.
int64_t channel_programs(const GroupNormMeta& m) {
  return m.groups / m.group_block() *
         ceil_div(m.channels_of_group(), m.positions == 1 ? m.position_block : m.channel_block);
}

int64_t position_tiles_of(const GroupNormMeta& m) {
  return m.positions == 1 ? 1 : ceil_div(m.positions, m.position_block);
}

// Returns the steps of d_x by channels. Sets `parts`, and appends the means, if stored, to
// `scratch`. d_x needs each batch's partial sums. Its kernel is last, because it may overwrite d_y.
std::vector<Step> d_x_by_channels(const GroupNormOptions& o, const GroupNormBackwardConfig& config,
                                  PartialCount* parts, std::vector<Scratch>* scratch) {
  constexpr int64_t kOwnMeans =
      512;  // most partial sums of a group for which each program computes the means itself
  GroupNormMeta meta{o};
  const int64_t threads = program::kWarpThreads * config.num_warps, vector = vector_width(o.type);
  meta.stages = config.stages;
  meta.gradients = LayerNormGradients::both;
  set_tile(&meta, threads * vector * config.vectors);
  const int64_t tiles = position_tiles_of(meta);
  meta.position_parts =
      config.tiles_per_program == 0 ? 1 : ceil_div(tiles, config.tiles_per_program);
  const Size batches = Size::rows();
  *parts = {.of_rows = batches * meta.position_parts, .most = batches * meta.position_parts};
  std::vector<Step> steps{
      record_step("group_norm_sums", o.type, &group_norm_sums, meta,
                  library_launch(parts->of_rows * channel_programs(meta), config.num_warps))};
  const int64_t numbers = o.channels_of_group() * meta.position_parts;
  GroupNormMeta of_d_x = meta;
  of_d_x.block = std::clamp<int64_t>(std::bit_ceil(static_cast<uint64_t>(numbers)), 32, 1024);
  set_tile(&of_d_x, threads * vector);
  of_d_x.own_means = of_d_x.group_block() == 1 && numbers <= kOwnMeans;
  if (!of_d_x.own_means) {
    steps.push_back(record_step("group_norm_means", f32, &group_norm_means, of_d_x,
                                library_launch(batches * o.groups, of_d_x.block > 256 ? 4 : 1)));
    for (const char* name : {"mean_nq", "mean_q"})
      scratch->push_back({.name = name, .dtype = f32, .shape = {batches * o.groups}});
  }
  steps.push_back(
      record_step("group_norm_d_x", o.type, &group_norm_d_x, of_d_x,
                  library_launch(batches * (channel_programs(of_d_x) * position_tiles_of(of_d_x)),
                                 config.num_warps)));
  return steps;
}

// Returns the operation that computes only the parameter gradients.
Operation sums_by_channels(const Machine& machine, const GroupNormOptions& o,
                           const GroupNormBackwardConfig& config) {
  GroupNormMeta meta{o};
  meta.batches = config.rows;
  meta.stages = config.stages;
  set_tile(&meta, program::kWarpThreads * config.num_warps * vector_width(o.type) * config.vectors /
                      config.rows);
  const int64_t programs = machine.is_gpu() ? machine.sms * config.programs_per_sm : 64;
  const PartialCount parts = partial_count(ceil_div(Size::rows(), config.rows),
                                           std::max<int64_t>(programs / channel_programs(meta), 1));
  Operation op;
  op.steps = {record_step("group_norm_sums", o.type, &group_norm_sums, meta,
                          library_launch(parts.of_rows * channel_programs(meta), config.num_warps)),
              reduce_step(machine, o)};
  add_partials(&op, o, o.gradients, parts);
  return op;
}

Operation build_backward(const Machine& machine, const GroupNormOptions& o,
                         const GroupNormBackwardConfig& config) {
  if (o.without_d_x) return sums_by_channels(machine, o, config);
  const bool channels = config.by == GroupNormBackwardBy::channels;
  Operation op;
  PartialCount parts{0, 0};
  if (channels)
    op.steps = d_x_by_channels(o, config, &parts, &op.workspace);
  else
    op.steps.push_back(by_groups(machine, o, config, &parts));
  if (o.want_d_weight) op.steps.push_back(reduce_step(machine, o));
  if (channels || o.want_d_weight)
    add_partials(&op, o, channels ? LayerNormGradients::both : o.gradients, parts);
  return op;
}

Cost cost_backward(const GroupNormOptions& o, int64_t batches) {
  const int inputs = o.without_d_x && o.gradients == LayerNormGradients::bias ? 1 : 2;
  const int arrays = inputs + int{!o.without_d_x};
  return {static_cast<double>(arrays * o.row() * size_of(o.type) + 8) *
          static_cast<double>(o.groups) * static_cast<double>(batches)};
}

}  // namespace

const GroupNormForward group_norm_forward_kernel{
    "group_norm_forward", "LayerNorm of groups of channels",
    &valid_forward,       &heuristic_forward,
    &build_forward,       &cost_forward};
const GroupNormBackward group_norm_backward_kernel{"group_norm_backward", "gradient of GroupNorm",
                                                   &valid_backward,       &heuristic_backward,
                                                   &build_backward,       &cost_backward};

Operation group_norm_forward(const Machine& machine, const GroupNormOptions& options) {
  return group_norm_forward_kernel(machine, options);
}

Operation group_norm_backward(const Machine& machine, const GroupNormOptions& options) {
  return group_norm_backward_kernel(machine, options);
}

}  // namespace ligerdsl::kernels
