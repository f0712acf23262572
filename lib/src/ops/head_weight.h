// The head's weight as products take it. One of another type is converted on the way: all of it once a call, or block by
// block of its rows where the workspace has no room for all; a product then becomes one for each block.
#pragma once

#include <algorithm>
#include <optional>

#include "lib/src/ops/head_views.h"
#include "lib/src/ops/linear_plan.h"

namespace ligerdsl::lib::head {

class HeadWeight {
 public:
  HeadWeight(Context& context, const Desc& d, DType given, DType taken)
      : classes_(d.n_classes), cols_(d.n_cols), type_(taken) {
    if (given != taken) convert_ = convert_step(context, given, taken, cols_, kWeightGiven, kWeight);
  }

  bool converts() const { return convert_.has_value(); }
  const std::optional<KernelStep>& step() const { return convert_; }
  bool in_one_piece(const LinearLayout& layout) const { return layout.weight_rows == classes_; }
  runtime::Matrix at(const Part& classes, const LinearLayout& layout) const {
    return rows_at(type_, classes, cols_, convert_ && !in_one_piece(layout));
  }

  // kAllWeight of a call whose kWeightGiven is all that the caller has, and what that view shows.
  BoundTensor all(const Call& call, const LinearLayout& layout, const BoundTensor& given) const {
    return convert_ && in_one_piece(layout) ? copy(call, layout, classes_) : given;
  }
  void convert_all(const Call& call, const LinearLayout& layout, Views* views) const {
    if (!convert_ || !in_one_piece(layout)) return;
    Views& v = *views;
    v[kWeight] = v[kAllWeight];
    convert_->run(v.data(), nullptr, classes_, call.stream);
  }

  // Calls back with the classes [first, first + count) as often as their weight comes in pieces: which these are, and
  // v[kWeight] what products take for them.
  template <class Body>
  void for_pieces(const Call& call, const LinearLayout& layout, int64_t first, int64_t count, Views* views,
                  Body body) const {
    Views& v = *views;
    for (int64_t done = 0; done < count; done += layout.weight_rows) {
      const Part piece{first + done, std::min(layout.weight_rows, count - done)};
      v[kWeight] = rows_of(v[kAllWeight], piece.first, piece.size);
      if (convert_ && !in_one_piece(layout)) {
        v[kWeightGiven] = v[kWeight];
        v[kWeight] = copy(call, layout, piece.size);
        convert_->run(v.data(), nullptr, piece.size, call.stream);
      }
      body(piece);
    }
  }

 private:
  BoundTensor copy(const Call& call, const LinearLayout& layout, int64_t classes) const {
    return make_view(call.workspace + layout.weight, type_, classes, cols_, cols_);
  }

  int64_t classes_, cols_;
  DType type_;
  std::optional<KernelStep> convert_;
};

}  // namespace ligerdsl::lib::head
