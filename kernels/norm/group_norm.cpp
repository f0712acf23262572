// GroupNorm over groups of D = (C / G) S elements. Arithmetic is f32; round_T rounds to T = type. c
// is the channel of an element.
//
//   mu = mean(x), v = mean((x - mu)^2) of a group, r = 1 / sqrt(v + eps)
//   y = round_T((x - mu) r weight_c + bias_c)
//
//   n = (x - mu) r, q = dy weight_c;  dx = round_T(r (q - n mean(n q) - mean(q)))
//   dweight_c = sum over batches and positions of dy n
//   dbias_c = sum over batches and positions of dy
//
// The forward is LayerNorm of rows of D elements (centred_rows.h). It loads one weight and one bias
// per vector if vectors are within channels. On a CPU with short channels it stores the results
// channel by channel instead, and reads each channel again.
//
// The backward reduces dy n and dy over each channel. From these totals it computes both the
// parameter gradients and the means: mean(n q) = sum over channels of weight_c (sum of dy n) / D.
//
// Bytes moved, with s = sizeof(T):
//   forward    2 n C S s; 3 n C S s if groups are split into parts, less the L2 hits of the
//              second launch
//   backward   3 n C S s, and two f32 rows of C partial sums per part, with at most n parts;
//              5 n C S s if no program holds a group
#include "kernels/norm/group_norm.h"

#include <numeric>

#include "kernels/norm/centred_rows.h"

namespace ligerdsl::kernels {
namespace {

// Position of a program's tile among the groups of all batches.
struct Place {
  Scalar batch, group;  // in tiles
  Place(const GroupNormMeta& m, const Scalar& tile)
      : batch(tile / (m.groups / m.group_block())), group(tile % (m.groups / m.group_block())) {}
};

// Rows of [n, G, D], with the interface that CentredRows needs.
class GroupRows {
 public:
  GroupRows(KernelBuilder& k, const char* name, const GroupNormMeta& m)
      : m_(m),
        view_(k.view(name, m.type, {dyn, m.groups, m.row()}, {.strides = {dyn, m.row(), 1}})) {}

  Scalar cols() const { return view_.dim(2); }
  Scalar blocks(int64_t block) const { return cdiv(cols(), block); }
  Scalar alignment_offset() const { return {}; }
  Tile load(const Scalar& row, ScalarArg column) const {
    const Place at(m_, row);
    return tiles().load({at.batch, at.group, column}).to(f32).reshape({m_.rows, m_.block});
  }
  // Stores a tile [batches, groups, block].
  void store(const Scalar& row, ScalarArg column, const Tile& value) const {
    const Place at(m_, row);
    tiles().store({at.batch, at.group, column}, value.to(m_.type));
  }

  class Kept {
   public:
    Tile load(const Scalar& block) const { return kept_.load(block).to(f32).expand_dims(0); }

   private:
    friend GroupRows;
    Resident kept_;
  };
  // Returns the row's place, and assumes that it is within the view.
  Place place_of(const Scalar& row) const {
    const Place at(m_, row);
    assume(ult(at.batch, view_.dim(0)));
    assume(ult(at.group, view_.dim(1)));
    return at;
  }
  Kept keep(const Scalar& row) const {
    const Place at = place_of(row);
    Kept kept;
    kept.kept_ = view_.partition({squeeze, squeeze, m_.block}).resident({at.batch, at.group});
    return kept;
  }
  // Returns one channel of a program's group, in blocks of m.channel_width.
  Partition channel(const Scalar& c) const {
    return view_.slice(2, c * m_.positions, (c + 1) * m_.positions)
        .partition({squeeze, squeeze, m_.channel_width});
  }
  Tile sample(const Scalar& row, ScalarArg first, int64_t part) const {
    const Place at(m_, row);
    return view_.partition({1, 1, part})
        .load({at.batch, at.group, first})
        .to(f32)
        .reshape({1, part});
  }

 private:
  Partition tiles() const { return view_.partition({m_.batches, m_.group_block(), m_.block}); }

  const GroupNormMeta& m_;
  View view_;
};

// Loads the weight or bias for one block of x, in a shape that broadcasts over the block: [1,
// groups, runs, 1]. A run is a range of contiguous elements of one channel. If channels have one
// position and the block holds whole groups, the shape is [1, groups, 1, channels].
class OfChannels {
 public:
  OfChannels(KernelBuilder& k, const GroupNormMeta& m, const View& view)
      : k_(k), m_(m), view_(view) {
    const int64_t all = m.group_block() * m.channels_of_group();
    plain_ = m.positions == 1 && !m.looped && m.block == m.cols && is_tile_size(all);
    const bool one = m.channels_of_group() == 1 || m.positions % m.block == 0;
    run_ = plain_ || one ? m.block : std::gcd(m.positions, vector_width(m.type));
  }
  // Returns the shape in which tiles [batches, groups, block] are combined with these values.
  Shape shape() const { return {m_.batches, m_.group_block(), m_.block / run_, run_}; }

  Scalar load(const Scalar& channel) const { return view_.load({channel}).to(f32); }
  Tile load(const Scalar& group, const Scalar& block) const {
    const int64_t groups = m_.group_block(), channels = m_.channels_of_group(),
                  runs = m_.block / run_;
    if (plain_) {
      const Tile all = view_.partition({groups * channels}).load({group});
      return all.to(f32).reshape({1, groups, 1, channels});
    }
    Tile element = k_.arange(runs) * static_cast<int32_t>(run_) +
                   block.to(i32) * static_cast<int32_t>(m_.block);
    if (runs > 1 && m_.cols % m_.block != 0)
      element = min(element, static_cast<int32_t>(m_.cols - 1));
    const Tile within = udiv(element, static_cast<int32_t>(m_.positions)).expand_dims(0);
    const Tile first =
        (k_.arange(groups) + group.to(i32) * static_cast<int32_t>(groups)).expand_dims(1);
    const Tile channel = first * static_cast<int32_t>(channels) + within;
    return ligerdsl::load(view_.ptr() + channel).to(f32).reshape({1, groups, runs, 1});
  }

 private:
  KernelBuilder& k_;
  const GroupNormMeta& m_;
  View view_;
  bool plain_;
  int64_t run_;
};

// Results of the forward (statistics and y), with one launch or two.
class Results {
 public:
  Results(KernelBuilder& k, const GroupNormMeta& m, const GroupRows& y) : k_(k), m_(m), y_(y) {
    weight_.emplace(k, m, k.view("weight", m.weight_type, {m.channels}));
    if (!m.without_bias) bias_.emplace(k, m, k.view("bias", m.weight_type, {m.channels}));
    if (m.with_mean) mean_ = k.view("mean", f32, {dyn});
    if (m.with_rstd) rstd_ = k.view("rstd", f32, {dyn});
  }

  void store_statistics(const Scalar& row, const Tile& mean, const Tile& rstd) const {
    if (m_.with_mean) mean_.partition({m_.rows}).store({row}, mean);
    if (m_.with_rstd) rstd_.partition({m_.rows}).store({row}, rstd);
  }
  // Weight and bias for a block.
  struct Parameters {
    Tile weight, bias;
  };
  Parameters parameters(const Scalar& row, const Scalar& b) const {
    const Scalar group = Place(m_, row).group;
    const Tile w = weight_->load(group, b);
    return {w, bias_ ? bias_->load(group, b) : Tile()};
  }
  // Stores y of a block, given n.
  void store(const Scalar& row, const Scalar& b, const Tile& normalised,
             const Parameters& p) const {
    const Tile n = normalised.reshape(weight_->shape());
    y_.store(row, b,
             (bias_ ? fma(n, p.weight, p.bias) : n * p.weight)
                 .reshape({m_.batches, m_.group_block(), m_.block}));
  }
  // Stores y of a channel of the program's group; `normalise` computes n.
  template <class Normalise>
  void store_channel(const GroupRows& x, const Scalar& row, const Scalar& c,
                     const Normalise& normalise) const {
    const Place at = x.place_of(row);
    const Scalar channel = at.group * m_.channels_of_group() + c, weight = weight_->load(channel);
    Scalar bias;
    if (bias_) bias = bias_->load(channel);
    const Partition from = x.channel(c), to = y_.channel(c);
    k_.for_range(0, ceil_div(m_.positions, m_.channel_width), 1, [&](const Scalar& b) {
      const Tile n = normalise(from.load({at.batch, at.group, b}).to(f32).expand_dims(0))
                         .reshape({m_.channel_width});
      to.store({at.batch, at.group, b}, (bias_ ? fma(n, weight, bias) : n * weight).to(m_.type));
    });
  }

 private:
  KernelBuilder& k_;
  const GroupNormMeta& m_;
  const GroupRows& y_;
  std::optional<OfChannels> weight_, bias_;
  View mean_, rstd_;
};

using CentredGroups = CentredRows<GroupNormMeta, GroupRows>;

}  // namespace

void group_norm_forward(KernelBuilder& k, const GroupNormMeta& m) {
  const GroupRows y(k, "y", m), x_rows(k, "x", m);
  const Results results(k, m, y);
  Scalar eps = k.scalar("eps", f32);

  Scalar row = k.program_id(0).to(i64);
  const CentredGroups x(k, m, x_rows, row);
  const auto centre = x.centre(eps);
  results.store_statistics(row, centre.mean, centre.rstd);

  const CentredGroups::Normalised normalised(m, centre);
  if (m.channel_width > 0) {
    k.for_range(0, m.channels_of_group(), 1,
                [&](const Scalar& c) { results.store_channel(x_rows, row, c, normalised); });
    return;
  }
  if (!m.looped) {
    const Scalar b = k.constant(0, i64);
    const Tile block = x.block(b);
    const auto parameters = results.parameters(row, b);
    results.store(row, b, normalised(block), parameters);
    return;
  }
  // The second pass begins with the last block, which the caches still hold.
  k.for_range(0, x.blocks(), 1, [&](Scalar i) {
    Scalar b = x.blocks() - 1 - i;
    const Tile block = x.block(b);
    const auto parameters = results.parameters(row, b);
    results.store(row, b, normalised(block), parameters);
  });
}

namespace {

// One part of a group, with the interface that CentredRows needs. A part has the length of a block.
class PartOfGroup {
 public:
  PartOfGroup(KernelBuilder& k, const GroupRows& rows, const GroupNormMeta& m, const Scalar& part)
      : rows_(rows), cols_(m.cols), length_(k.constant(m.cols, i64)), part_(part) {}

  using Kept = GroupRows::Kept;
  Scalar cols() const { return length_; }
  Scalar blocks(int64_t block) const { return cdiv(cols(), block); }
  Scalar alignment_offset() const { return {}; }
  Tile load(const Scalar& row, int64_t) const { return rows_.load(row, part_); }
  Kept keep(const Scalar& row) const { return rows_.keep(row); }
  Tile sample(const Scalar& row, int64_t first, int64_t width) const {
    return rows_.sample(row, part_ * (cols_ / width) + first, width);
  }

 private:
  const GroupRows& rows_;
  int64_t cols_;
  Scalar length_, part_;
};

// CentredRows::Moments of all parts, each [n G parts].
struct PartMoments {
  View total, shift, low, squares;
  explicit PartMoments(KernelBuilder& k)
      : total(k.view("part_total", f32, {dyn})),
        shift(k.view("part_shift", f32, {dyn})),
        low(k.view("part_low", f32, {dyn})),
        squares(k.view("part_squares", f32, {dyn})) {}
};

}  // namespace

void group_norm_statistics(KernelBuilder& k, const GroupNormMeta& m) {
  const GroupRows x_rows(k, "x", m);
  const PartMoments moments(k);
  const Scalar number = k.program_id(0).to(i64), row = number / m.parts, part = number % m.parts;
  x_rows.place_of(row);
  GroupNormMeta of_part = m;
  of_part.cols = m.block;
  const PartOfGroup input(k, x_rows, of_part, part);
  const auto of = CentredRows<GroupNormMeta, PartOfGroup>(k, of_part, input, row).moments();
  moments.total.partition({1}).store({number}, of.total);
  moments.shift.partition({1}).store({number}, of.shift);
  moments.low.partition({1}).store({number}, of.low);
  moments.squares.partition({1}).store({number}, of.squares);
}

// All parts have the same length. A group's sum of squared deviations is therefore the sum over its
// parts, plus D / parts times the sum of the squared deviations of the parts' means.
void group_norm_normalise(KernelBuilder& k, const GroupNormMeta& m) {
  const GroupRows y(k, "y", m), x(k, "x", m);
  const Results results(k, m, y);
  const Scalar eps = k.scalar("eps", f32);
  const PartMoments moments(k);

  // Program 0 takes the last block, which the first launch read last: the caches still hold it.
  const int64_t blocks = ceil_div(m.row(), m.block);
  const Scalar number = k.num_programs(0).to(i64) - 1 - k.program_id(0).to(i64);
  const Scalar row = number / blocks, b = number % blocks;
  x.place_of(row);
  y.place_of(row);
  const Tile block = x.load(row, b);
  const auto parameters = results.parameters(row, b);
  const auto parts = [&](const View& view) {
    return view.partition({m.parts}).load({row}).expand_dims(0);
  };
  const Tile shift = moments.shift.partition({1}).load({row * m.parts});
  const Tile away = (parts(moments.shift) - shift.expand_dims(1)) + parts(moments.low);
  const Tile low = sum(away, 1) * (1.0 / m.parts), deviation = away - low.expand_dims(1);
  const Tile between = sum(deviation * deviation, 1) * (1.0 / m.parts);
  const Tile within = sum(parts(moments.squares), 1) * (1.0 / m.row());
  const CentredGroups::Centre centre{sum(parts(moments.total), 1) * (1.0 / m.row()), shift, low,
                                     rsqrt(within + between + eps)};
  k.if_(b == 0, [&] { results.store_statistics(row, centre.mean, centre.rstd); });
  results.store(row, b, CentredGroups::Normalised(m, centre)(block), parameters);
}

}  // namespace ligerdsl::kernels
