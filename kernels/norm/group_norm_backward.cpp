// Backward of GroupNorm. group_norm.cpp has the formulas and the number of bytes moved.
#include <bit>

#include "kernels/norm/centred_rows.h"
#include "kernels/norm/group_norm.h"

namespace ligerdsl::kernels {

bool is_tile_size(int64_t n) {
  return n / (n & -n) <= 31;
}

namespace {

// Tiles of the backward are [batches, groups, channels, positions]. If channels have one position,
// the last dimension counts channels.
int64_t channel_width(const GroupNormMeta& m) {
  return m.positions == 1 ? m.position_block : m.channel_block;
}
int64_t channel_tiles(const GroupNormMeta& m) {
  return ceil_div(m.channels_of_group(), channel_width(m));
}
int64_t position_tiles(const GroupNormMeta& m) {
  return m.positions == 1 ? 1 : ceil_div(m.positions, m.position_block);
}

struct GroupTiles {
  Partition tiles;
  GroupTiles(KernelBuilder& k, const char* name, const GroupNormMeta& m)
      : tiles(k.view(name, m.type, dims(m), {.strides = {dyn, m.row(), dims(m)[3], 1}})
                  .partition({m.batches, m.group_block(), m.channel_block, m.position_block})) {}
  static Shape dims(const GroupNormMeta& m) {
    const int64_t channels = m.channels_of_group();
    return m.positions == 1 ? Shape{dyn, m.groups, 1, channels}
                            : Shape{dyn, m.groups, channels, m.positions};
  }
  Scalar batches(const GroupNormMeta& m) const { return cdiv(tiles.view().dim(0), m.batches); }
  static Indices at(const GroupNormMeta& m, const Scalar& batch, const Scalar& group,
                    const Scalar& channel, const Scalar& position) {
    return m.positions == 1 ? Indices{batch, group, 0, channel}
                            : Indices{batch, group, channel, position};
  }
};

// One value per channel of a tile (weight or partial sum), [groups, channels].
class ChannelTile {
 public:
  // `m` and `k` must outlive this object.
  ChannelTile(KernelBuilder& k, const GroupNormMeta& m, const Scalar& group, const Scalar& block)
      : m_(m), group_(group) {
    const int64_t channels = m.channels_of_group(), width = channel_width(m);
    whole_ = width == channels && is_tile_size(m.group_block() * channels);
    if (whole_) return;
    const Tile within =
        (k.arange(width) + block.to(i32) * static_cast<int32_t>(width)).expand_dims(0);
    const Tile groups =
        k.arange(m.group_block()) + group.to(i32) * static_cast<int32_t>(m.group_block());
    const Shape shape{m.group_block(), width};
    at_ = (groups.expand_dims(1) * static_cast<int32_t>(channels) + within).broadcast_to(shape);
    counts_ = (within < static_cast<int32_t>(channels)).broadcast_to(shape);
  }
  // Loads from a view [C].
  Tile load(const View& view) const {
    if (!whole_) return ligerdsl::load(view.ptr() + at_, counts_, 0.0f).to(f32);
    const int64_t all = m_.group_block() * channel_width(m_);
    return view.partition({all}).load({group_}).to(f32).reshape(
        {m_.group_block(), channel_width(m_)});
  }
  // Stores to row `part` of a view [parts, C].
  void store(const View& view, const Scalar& part, const Tile& value) const {
    if (!whole_)
      return ligerdsl::store(view.ptr() + part.to(i64) * view.stride(0) + at_, value, counts_);
    const int64_t all = m_.group_block() * channel_width(m_);
    view.partition({squeeze, all}).store({part, group_}, value.reshape({all}));
  }

 private:
  const GroupNormMeta& m_;
  Scalar group_;
  bool whole_;
  Tile at_, counts_;
};

// Values per group of a tile, from views [n G], in the shape [batches, groups, 1, 1].
class OfGroups {
 public:
  OfGroups(KernelBuilder& k, const GroupNormMeta& m, const Scalar& group) : m_(m), group_(group) {
    together_ = m.batches == 1 || m.group_block() == m.groups;
    if (together_) return;
    batches_ = k.arange(m.batches).to(i64).expand_dims(1) * m.groups;
    groups_ = (k.arange(m.group_block()).to(i64) + group.to(i64) * m.group_block()).expand_dims(0);
  }
  Tile load(const View& view, const Scalar& batch) const {
    const Shape shape{m_.batches, m_.group_block(), 1, 1};
    const Scalar first = batch.to(i64) * (m_.groups / m_.group_block());
    if (together_) return view.partition({m_.rows}).load({first + group_.to(i64)}).reshape(shape);
    const Tile row = batches_ + groups_ + batch.to(i64) * (m_.batches * m_.groups);
    return ligerdsl::load(view.ptr() + row, row < view.dim(0), 0.0f).reshape(shape);
  }

 private:
  const GroupNormMeta& m_;
  Scalar group_;
  bool together_;
  Tile batches_, groups_;
};

}  // namespace

void group_norm_backward(KernelBuilder& k, const GroupNormMeta& m) {
  const GroupTiles d_x(k, "d_x", m);
  const ParameterGradients gradients(m.gradients);
  std::vector<View> partials;
  if (m.want_d_weight)
    partials = gradients.partials([&](const char* name) {
      return k.view(name, f32, {dyn, m.channels});
    });
  const GroupTiles d_y(k, "d_y", m), x_tiles(k, "x", m);
  const View weight = k.view("weight", m.weight_type, {m.channels});
  const View mean = k.view("mean", f32, {dyn}), rstd = k.view("rstd", f32, {dyn});

  const int64_t tiles = m.groups / m.group_block();  // tiles of a batch
  Scalar group = k.program_id(0) % static_cast<int32_t>(tiles),
         first = k.program_id(0) / static_cast<int32_t>(tiles);
  const bool own = m.positions == 1;  // each element has a channel of its own
  const Scalar zero = k.constant(0, i64);
  const ChannelTile channels(k, m, group, zero);
  const OfGroups of_groups(k, m, group);
  const Tile of_channels = channels.load(weight).expand_dims(0);
  const Tile w = of_channels.expand_dims(own ? 2 : 3);

  // A run is a range of contiguous positions; with late_sums, one position. If a tile has 2^n
  // vectors per channel, a run is one vector: one thread reduces it, and a channel's runs are
  // summed after the loop. Otherwise a run is a channel, and threads synchronise for each channel.
  const int64_t vector = std::min(vector_width(m.type), m.position_block);
  const bool across_threads =
      !std::has_single_bit(static_cast<uint64_t>(m.position_block / vector));
  const int64_t run = m.late_sums ? 1 : across_threads ? m.position_block : vector;
  const Shape runs{m.batches, m.group_block(), m.channel_block, m.position_block / run};
  struct Read {
    Tile d_y, n;          // per element
    Tile sum_n, sum_d_y;  // per run; empty with late_sums
  };
  // Flattens a group's elements or runs to one dimension if the number of positions is a power of
  // two. No element then moves to another thread.
  const auto flat = [&](const Tile& all) {
    const int64_t positions = all.shape()[3];
    if (!std::has_single_bit(static_cast<uint64_t>(positions))) return all;
    return all.reshape({m.batches, m.group_block(), m.channel_block * positions});
  };
  const auto mean_of = [&](const Tile& sums) {
    const Tile total = sums.rank() == 3 ? sum(sums, 2) : sums;
    return (total * (1.0 / m.row())).expand_dims(2).expand_dims(3);
  };
  const auto in_runs = [&](const Tile& all) {
    Shape shape = runs;
    shape.push_back(run);
    return all.reshape(shape);
  };
  const auto backward_rows = [&](const Scalar& batch) {
    const NormalisedRows normalised(m.type, of_groups.load(mean, batch),
                                    of_groups.load(rstd, batch));
    const Indices at = GroupTiles::at(m, batch, group, zero, zero);
    Read read;
    const Tile x = x_tiles.tiles.load(at).to(f32);
    read.n = normalised(x);
    read.d_y = d_y.tiles.load(at).to(f32);
    const Tile q = read.d_y * w;
    Tile mean_nq, mean_q;
    if (m.late_sums) {
      mean_nq = mean_of(sum_products(flat(read.n), flat(q), -1));
      mean_q = mean_of(sum(flat(q), -1));
    } else {
      read.sum_n = sum_products(in_runs(read.n), in_runs(read.d_y), 4);
      read.sum_d_y = sum(in_runs(read.d_y), 4);
      mean_nq = mean_of(sum(flat(read.sum_n * w), -1));
      mean_q = mean_of(sum(flat(read.sum_d_y * w), -1));
    }
    d_x.tiles.store(at, normalised.gradient(x, q, mean_nq, mean_q).to(m.type));
    return read;
  };
  if (!m.want_d_weight) {
    backward_rows(first.to(i64));
    return;
  }
  const std::vector<Tile> sums =
      sums_over(k, first, d_y.batches(m), k.num_programs(0) / static_cast<int32_t>(tiles),
                pipelined(m.stages), k.zeros(runs, f32), partials.size(),
                [&](const Scalar& batch, const std::vector<Tile>& sums) {
                  const Read read = backward_rows(batch);
                  return m.late_sums ? gradients.plus(sums, read.d_y, read.n)
                                     : gradients.plus_sums(sums, read.sum_d_y, read.sum_n);
                });
  for (size_t i = 0; i < sums.size(); ++i) {
    const Tile total = sum(own ? sums[i] : sum(sums[i], 3), 0);
    channels.store(partials[i], first, total.reshape({m.group_block(), channel_width(m)}));
  }
}

void group_norm_sums(KernelBuilder& k, const GroupNormMeta& m) {
  const ParameterGradients gradients(m.gradients);
  const std::vector<View> partials = gradients.partials([&](const char* name) {
    return k.view(name, f32, {dyn, m.channels});
  });
  const GroupTiles d_y(k, "d_y", m);
  std::optional<GroupTiles> x;
  View mean, rstd;
  if (gradients.weight) {
    x.emplace(k, "x", m);
    mean = k.view("mean", f32, {dyn});
    rstd = k.view("rstd", f32, {dyn});
  }

  const auto of_group = static_cast<int32_t>(channel_tiles(m));
  const auto tiles =
      static_cast<int32_t>(m.groups / m.group_block()) * of_group;  // tiles of a batch
  const auto runs = static_cast<int32_t>(m.position_parts);
  const Scalar programs = k.num_programs(0) / tiles, at = k.program_id(0) / tiles,
               tile = k.program_id(0) % tiles;
  const Scalar part = at / runs, run = at % runs, parts = programs / runs;
  Scalar group = tile / of_group, channel = tile % of_group;
  const OfGroups of_groups(k, m, group);
  // The program processes batches part, part + parts, ... In each batch it loops over the tiles of
  // its run, a range of positions.
  const int64_t iterations = ceil_div(position_tiles(m), m.position_parts);
  const Scalar batches = cdiv(d_y.batches(m) - part.to(i64), parts.to(i64));
  const Tile zeros = k.zeros({m.batches, m.group_block(), m.channel_block, m.position_block}, f32);
  const std::vector<Tile> sums = sums_over(
      k, k.constant(0, i64), batches * iterations, 1, pipelined(m.stages), zeros, partials.size(),
      [&](const Scalar& i, const std::vector<Tile>& sums) {
        const Scalar batch = part.to(i64) + (iterations == 1 ? i : i / iterations) * parts.to(i64);
        const Scalar iteration = iterations == 1 ? k.constant(0, i64) : Scalar(i % iterations);
        const Scalar position = runs == 1 ? iteration : run.to(i64) * iterations + iteration;
        const Indices at = GroupTiles::at(m, batch, group, channel, position);
        Tile n;
        if (x) {
          const NormalisedRows normalised(m.type, of_groups.load(mean, batch),
                                          of_groups.load(rstd, batch));
          n = normalised(x->tiles.load(at).to(f32));
        }
        return gradients.plus(sums, d_y.tiles.load(at).to(f32), n);
      });
  const ChannelTile channels(k, m, group, channel);
  for (size_t i = 0; i < sums.size(); ++i) {
    const Tile total = sum(m.positions == 1 ? sums[i] : sum(sums[i], 3), 0);
    channels.store(partials[i], at, total.reshape({m.group_block(), channel_width(m)}));
  }
}

namespace {

// Computes mean(n q) and mean(q) of a group from the partial sums of its batch.
class GroupMeans {
 public:
  GroupMeans(KernelBuilder& k, const GroupNormMeta& m)
      : k_(k),
        m_(m),
        of_n_(k.view("weight_partials", f32, {dyn, m.channels})),
        of_d_y_(k.view("bias_partials", f32, {dyn, m.channels})) {}

  std::pair<Scalar, Scalar> of(const Scalar& row, const View& weight) const {
    const int64_t channels = m_.channels_of_group(), numbers = channels * m_.position_parts;
    const Scalar pitch = of_n_.stride(0);  // of_d_y_ has the same stride
    const Scalar from = row % m_.groups * channels,
                 at = row / m_.groups * m_.position_parts * pitch + from;
    const auto add = [&](const Tile& number, const Tile& nq, const Tile& q) {
      const Tile counts = number < static_cast<int32_t>(numbers);
      const Tile channel = numbers == channels ? number : number % static_cast<int32_t>(channels);
      Tile partial = channel.to(i64);
      if (numbers != channels)
        partial = partial + udiv(number, static_cast<int32_t>(channels)).to(i64) * pitch;
      const Tile w = load(weight.ptr() + from + channel, counts, 0.0f).to(f32);
      return carry(fma(load(of_n_.ptr() + at + partial, counts, 0.0f), w, nq),
                   fma(load(of_d_y_.ptr() + at + partial, counts, 0.0f), w, q));
    };
    const Tile zeros = k_.zeros({m_.block}, f32);
    auto [nq, q] = numbers <= m_.block
                       ? add(k_.arange(m_.block), zeros, zeros)
                       : k_.for_range(0, ceil_div(numbers, m_.block), 1, carry(zeros, zeros),
                                      [&](Scalar i, Tile nq, Tile q) {
                                        const auto first =
                                            i.to(i32) * static_cast<int32_t>(m_.block);
                                        return add(k_.arange(m_.block) + first, nq, q);
                                      });
    return {sum(nq) * (1.0 / m_.row()), sum(q) * (1.0 / m_.row())};
  }

 private:
  KernelBuilder& k_;
  const GroupNormMeta& m_;
  View of_n_, of_d_y_;
};

}  // namespace

void group_norm_means(KernelBuilder& k, const GroupNormMeta& m) {
  const View mean_nq = k.view("mean_nq", f32, {dyn}), mean_q = k.view("mean_q", f32, {dyn});
  const GroupMeans means(k, m);
  const View weight = k.view("weight", m.weight_type, {m.channels});

  Scalar row = k.program_id(0).to(i64);
  const auto [nq, q] = means.of(row, weight);
  mean_nq.store({row}, nq);
  mean_q.store({row}, q);
}

void group_norm_d_x(KernelBuilder& k, const GroupNormMeta& m) {
  const GroupTiles d_x(k, "d_x", m), d_y(k, "d_y", m), x(k, "x", m);
  const View weight = k.view("weight", m.weight_type, {m.channels});
  const View mean = k.view("mean", f32, {dyn}), rstd = k.view("rstd", f32, {dyn});
  std::optional<GroupMeans> own_means;
  View mean_nq, mean_q;
  if (m.own_means) {
    own_means.emplace(k, m);
  } else {
    mean_nq = k.view("mean_nq", f32, {dyn});
    mean_q = k.view("mean_q", f32, {dyn});
  }

  // Program 0 takes the last tile, which group_norm_sums read last: the caches still hold it.
  const auto groups = static_cast<int32_t>(m.groups / m.group_block());
  const auto channels = static_cast<int32_t>(channel_tiles(m)),
             positions = static_cast<int32_t>(position_tiles(m));
  const Scalar number = k.num_programs(0) - 1 - k.program_id(0);
  const Scalar tile = number / positions, row = tile / channels;
  const Scalar batch = row / groups, group = row % groups, channel = tile % channels;
  const Indices at = GroupTiles::at(m, batch, group, channel, number % positions);
  const OfGroups of_groups(k, m, group);
  const NormalisedRows normalised(m.type, of_groups.load(mean, batch), of_groups.load(rstd, batch));
  const Tile w = ChannelTile(k, m, group, channel)
                     .load(weight)
                     .expand_dims(0)
                     .expand_dims(m.positions == 1 ? 2 : 3);
  const Tile of_x = x.tiles.load(at).to(f32), q = d_y.tiles.load(at).to(f32) * w;
  const auto store = [&](const Tile& of_nq, const Tile& of_q) {
    d_x.tiles.store(at, normalised.gradient(of_x, q, of_nq, of_q).to(m.type));
  };
  if (!m.own_means) return store(of_groups.load(mean_nq, batch), of_groups.load(mean_q, batch));
  const auto [own_nq, own_q] = own_means->of(row.to(i64), weight);
  const Tile zeros = k.zeros({1, 1, 1, 1}, f32);
  store(zeros + own_nq, zeros + own_q);
}

}  // namespace ligerdsl::kernels
