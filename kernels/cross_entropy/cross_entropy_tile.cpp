// Cross-entropy of several short rows per tile (short_rows.h), with the formulas and names of
// cross_entropy.cpp.
//
// The label's column reads as -inf, so its power is 0. The label's gradient, one element per row,
// is stored after the tile and replaces the tile's value. Each element is therefore compared with
// the label only once.
//
// Unlike a program of one row, a tile also reads the logits of rows with ignore_index.
#include "kernels/cross_entropy/cross_entropy_tile.h"

#include <limits>
#include <numbers>

#include "kernels/core/softcap.h"
#include "kernels/cross_entropy/cross_entropy_results.h"

namespace ligerdsl::kernels {
namespace {

using Results = CrossEntropyResultsOf<Tile>;

class TileOfRows {
 public:
  TileOfRows(KernelBuilder& k, const CrossEntropyMeta& m, const CrossEntropyArguments& args)
      : k_(k),
        m_(m),
        args_(args),
        rows_(k, m.rows, m.row_step),
        logits_(rows_.of(args.logits)),
        classes_(args.logits.dim(1).to(i32)) {
    offset_ = rows_.alignment_offset(args.logits);
    columns_ = k.arange(m.block);
    if (m.row_step > 1) columns_ = columns_ - offset_;
    columns_ = columns_.expand_dims(0);
    if (m.softcap) softcap_ = Softcap(args.softcap, m.quick_softcap, m.type);
    if (m.tempered) rate_ = 1.0f / args.temperature;
  }

  void run() {
    label_ = rows_.load(args_.labels).to(i64);
    const Tile index = rows_.indices(), inside = index < args_.logits.dim(0),
               ignored = label_ == args_.ignore_index,
               is_class = label_ >= 0 && label_ < args_.logits.dim(1);
    counted_ = inside && !ignored && is_class;
    fill_ = where(ignored, k_.zeros({m_.rows}, f32), std::numeric_limits<float>::quiet_NaN());
    rows_.set_counted(counted_, fill_);

    const Tile z = logits(), z_label = label_logits(index);
    const Tile reference = where(z_label > -INFINITY, z_label, 0.0f);
    const Tile others = where(at_label(), -INFINITY, z);
    const CrossEntropySums<Tile> sums = sums_of(z, others, z_label, reference);
    const Results results(k_, m_, args_, {rows_, label_, classes_, z_label, reference, rate_},
                          sums);
    const Results::Coefficients c =
        m_.with_gradient ? results.coefficients() : Results::Coefficients{};
    results.store();
    if (m_.with_gradient) {
      store_gradient(z, others, sums, c);
      store_label_gradient(index, z_label, c.label);
    }
    report(index, inside && !ignored && !is_class);
  }

 private:
  static Tile column(const Tile& of_rows) { return of_rows.expand_dims(1); }
  Tile along_row(const View& view) const {
    return view.partition({m_.block})
        .load({0}, {.alignment_offset = offset_})
        .to(f32)
        .expand_dims(0);
  }
  // Returns a mask that is true in the label's column. It subtracts the first column of each vector
  // from the label, then compares this distance with a constant for each element.
  Tile at_label() const {
    const int64_t vector = vector_width(m_.type);
    Tile label = label_.to(i32);
    if (m_.row_step > 1) label = label + offset_;
    const Tile first = (k_.arange(m_.block / vector) * vector).expand_dims(0).expand_dims(2),
               distance = column(label).expand_dims(2) - first,
               place = k_.arange(vector).expand_dims(0).expand_dims(0);
    return (distance == place).reshape({m_.rows, m_.block});
  }
  // Returns `t` with `otherwise` outside the rows.
  Tile where_inside(const Tile& t, double otherwise) const {
    if (m_.row_step == 1 && m_.classes == m_.block) return t;
    const Tile before_end = columns_ < classes_;
    return where(m_.row_step > 1 ? before_end && columns_ >= 0 : before_end, t, otherwise);
  }

  // Returns z of all elements; -inf outside the rows.
  Tile logits() const {
    Tile x = logits_.partition({m_.rows, m_.block})
                 .load({rows_.block(), 0}, {.pad = -INFINITY, .alignment_offset = offset_})
                 .to(f32);
    if (m_.has_bias) x = x + along_row(args_.bias);
    if (m_.softcap) x = softcap_(x);
    if (m_.tempered) x = x * rate_;
    return m_.softcap ? where_inside(x, -INFINITY) : x;
  }
  Tile label_logits(const Tile& index) const {
    const Tile at = index * args_.logits.stride(0) + label_;
    Tile x = ligerdsl::load(args_.logits.ptr() + at, counted_).to(f32);
    if (m_.has_bias) x = x + rows_.element(args_.bias, label_).to(f32);
    if (m_.softcap) x = softcap_(x);
    return m_.tempered ? x * rate_ : x;
  }

  // `others` is z with -inf in the label's column.
  CrossEntropySums<Tile> sums_of(const Tile& z, const Tile& others, const Tile& z_label,
                                 const Tile& reference) const {
    CrossEntropySums<Tile> out;
    out.base = finite_maximum(max(reduce_max(others, 1), z_label)) * std::numbers::log2e;
    const Tile u = base_2(others, column(-out.base)), powers = fast_exp2(u);
    out.others = sum(powers, 1);
    if (m_.entropies()) out.moment = sum(powers * finite_exponent(u), 1);
    if (m_.smoothing) {
      Tile difference = z - column(reference);
      if (m_.has_weight) difference = difference * along_row(args_.weight);
      out.deviation = sum(where_inside(difference, 0.0f), 1);
    }
    if (m_.with_accuracy || m_.with_predictions) {
      const Tile best = argmax(z, 1);
      out.best = m_.row_step > 1 ? max(best - offset_, 0) : best;
    }
    return out;
  }

  // Stores the gradient of all columns but the label's.
  void store_gradient(const Tile& z, const Tile& others, const CrossEntropySums<Tile>& sums,
                      const Results::Coefficients& c) const {
    const Tile u = base_2(others, column(-sums.base));
    Tile d = fast_exp2(u);
    const auto scaled = [&](const Tile& power) {
      if (!m_.smoothing) return d * power;
      return m_.has_weight ? fma(d, power, -(along_row(args_.weight) * column(c.smooth)))
                           : fma(d, power, column(-c.smooth));
    };
    d = m_.with_d_entropy ? scaled(fma(finite_exponent(u), column(c.entropy), column(c.power)))
                          : scaled(column(c.power));
    if (m_.softcap) d = d * cap_slope(z);
    d = where(column(counted_), d, column(fill_));
    rows_.of(args_.d_logits)
        .partition({m_.rows, m_.block})
        .store({rows_.block(), 0}, d.to(m_.type), {.alignment_offset = offset_});
  }

  void store_label_gradient(const Tile& index, const Tile& z_label, const Tile& gradient) const {
    const Tile d = m_.softcap ? gradient * cap_slope(z_label) : gradient,
               at = index * args_.d_logits.stride(0) + label_;
    ligerdsl::store(args_.d_logits.ptr() + at, d.to(m_.type), counted_);
  }
  // Returns the derivative of the softcap at the logit whose result is z.
  Tile cap_slope(const Tile& z) const {
    return softcap_.slope(m_.tempered ? z * args_.temperature : z);
  }

  // Sets the error flag for rows whose label is neither a class nor ignore_index.
  void report(const Tile& index, const Tile& wrong) const {
    const Tile row = m_.part ? index + args_.first_row : index;
    atomic_max(args_.error.ptr() + k_.zeros({m_.rows}, i32), kErrorBase - row, wrong);
  }

  KernelBuilder& k_;
  const CrossEntropyMeta& m_;
  const CrossEntropyArguments& args_;
  RowsOfTile rows_;
  View logits_;
  Scalar classes_;
  Scalar offset_;  // alignment offset of all rows; empty if rows are aligned
  Tile columns_;   // [1, block]
  Softcap softcap_;
  Scalar rate_;  // 1 / temperature
  Tile label_, counted_, fill_;
};

}  // namespace

void cross_entropy_tile(KernelBuilder& k, const CrossEntropyMeta& m,
                        const CrossEntropyArguments& args) {
  TileOfRows(k, m, args).run();
}

}  // namespace ligerdsl::kernels
