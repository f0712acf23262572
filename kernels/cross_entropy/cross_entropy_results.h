// A row's results and gradient coefficients, from its row sums and label. T is Scalar for one row,
// and Tile [rows] for all rows of a tile.
#pragma once

#include "kernels/core/short_rows.h"
#include "kernels/cross_entropy/cross_entropy_row.h"

namespace ligerdsl::kernels {

// Accesses one row's values in tensors with a value per row.
class OneRow {
 public:
  explicit OneRow(const Scalar& index) : index_(index) {}

  Scalar load(const View& view) const { return view.load({index_}); }
  void store(const View& view, const Scalar& value) const {
    view.store({index_}, value.to(view.dtype()));
  }
  void store_right(const View& view, const Scalar& right) const { store(view, right); }
  void fill(const View& view, double value) const { view.store({index_}, value); }
  Scalar element(const View& view, const Scalar& at) const { return view.load({at}); }
  Scalar all(const Scalar& value) const { return value; }

 private:
  Scalar index_;
};

// Accesses the values of a tile's rows. Rows without a valid label store a fill value.
class RowsOfTile : public TileRows {
 public:
  using TileRows::TileRows;

  // `counted` is true for rows whose label is a class and not ignore_index. Other rows store
  // `otherwise` (f32).
  void set_counted(const Tile& counted, const Tile& otherwise) {
    counted_ = counted;
    otherwise_ = otherwise;
  }

  Tile load(const View& view) const { return of(view).partition({rows_}).load({block_}); }
  void store(const View& view, const Tile& value) const {
    store_all(view, where(counted_, value, fill_for(value)).to(view.dtype()));
  }
  // Stores `right`, 1 for a correct prediction, but 0 for rows without a valid label.
  void store_right(const View& view, const Tile& right) const {
    store_all(view, where(counted_, right, 0.0f));
  }
  void fill(const View& view, double value) const {
    store_all(view, where(counted_, value, otherwise_).to(view.dtype()));
  }
  Tile element(const View& view, const Tile& at) const {
    return ligerdsl::load(view.ptr() + at, counted_);
  }
  Tile all(const Scalar& value) const { return value.broadcast_to({rows_}); }

 private:
  // Returns the fill value for rows without a valid label: -1 for predictions, which are the only
  // i64 result, and `otherwise_` for all other results.
  TileArg fill_for(const Tile& value) const {
    return value.dtype() == i64 ? TileArg(-1) : TileArg(otherwise_);
  }
  void store_all(const View& view, const Tile& value) const {
    of(view).partition({rows_}).store({block_}, value);
  }

  Tile counted_, otherwise_;
};

template <class T>
struct RowAccess;
template <>
struct RowAccess<Scalar> {
  using type = OneRow;
};
template <>
struct RowAccess<Tile> {
  using type = RowsOfTile;
};

// Index and label of a row, and values that its results need besides the row sums.
template <class T>
struct CrossEntropyPlace {
  typename RowAccess<T>::type row;
  T label;         // a valid class in every row whose results are stored
  Scalar classes;  // number of classes, i32
  T z_label;       // z of the label
  T reference;     // subtracted from each z in `deviation`
  Scalar rate;     // 1 / temperature; empty without temperature
};

template <class T>
class CrossEntropyResultsOf {
 public:
  // Before a softcap's slope, d_c = 2^u_c * (power + u_c * entropy) - [w_c] * smooth; d_y = label.
  struct Coefficients {
    T power, entropy, smooth, label;
  };

  CrossEntropyResultsOf(KernelBuilder& k, const CrossEntropyMeta& m,
                        const CrossEntropyArguments& args, const CrossEntropyPlace<T>& place,
                        const CrossEntropySums<T>& sums);

  void store() const;
  Coefficients coefficients() const;

 private:
  // Returns lse - z without the cancellation of large values.
  T lse_minus(const T& z) const;
  void set_scales();
  T target_weight() const;  // (1 - a) w_y
  T loss() const;
  T tempered(const T& d) const { return m_.tempered ? d * place_.rate : d; }

  KernelBuilder& k_;
  const CrossEntropyMeta& m_;
  const CrossEntropyArguments& args_;
  CrossEntropyPlace<T> place_;
  CrossEntropySums<T> sums_;
  T label_power_, total_, log_total_, lse_;
  // Scales of z-loss and loss in the reduced result, the label's class weight, a / V, and 1 - a.
  T zeta_scale_, loss_scale_, label_weight_;
  Scalar per_class_, rest_;
  // Only with entropies: u of the label, and the mean of u weighted by p.
  T label_exponent_, mean_exponent_;
};

using CrossEntropyResults = CrossEntropyResultsOf<Scalar>;

}  // namespace ligerdsl::kernels
