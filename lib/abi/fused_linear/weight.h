// The lm_head's weight in the matmuls' dtype. A weight of another dtype, or with rows that are not
// aligned, is copied once per call. If the workspace has no room for the whole copy, blocks of its
// rows are copied, and each matmul is split into one per block.
#pragma once

#include <algorithm>
#include <optional>

#include "lib/abi/fused_linear/linear_plan.h"
#include "lib/abi/fused_linear/views.h"

namespace ligerdsl::lib::head {

class HeadWeight {
 public:
  // aligned_copies: see LinearChunkOptions.
  HeadWeight(Context& context, const Desc& d, DType given, DType taken, bool aligned_copies)
      : classes_(d.n_classes), cols_(d.n_cols), type_(taken) {
    if (given != taken || aligned_copies)
      convert_ = convert_step(context, given, taken, cols_, LIGERDSL_VIEW(block.weight_given),
                              LIGERDSL_VIEW(block.weight));
  }

  bool converts() const { return convert_.has_value(); }
  const std::optional<KernelStep>& step() const { return convert_; }
  bool in_one_piece(const LinearLayout& layout) const { return layout.weight_rows == classes_; }
  runtime::Matrix at(const Part& classes, const LinearLayout& layout) const {
    return rows_at(type_, classes, cols_, convert_ && !in_one_piece(layout));
  }

  // Returns batch.weight: a converted copy of the caller's weight `given`, or `given` itself.
  BoundTensor all(const Call& call, const LinearLayout& layout, const BoundTensor& given) const {
    return convert_ && in_one_piece(layout) ? copy(call, layout, classes_) : given;
  }
  void convert_all(const Call& call, const LinearLayout& layout, const Views& views) const {
    if (!convert_ || !in_one_piece(layout)) return;
    Views v = views;
    v.block.weight = v.batch.weight;
    convert_->run(view_table(v), nullptr, classes_, call.stream);
  }

  // Calls body(piece, v) for each piece of the classes [first, first + count). v is a copy of
  // `views` in which block.weight has the rows of the piece, in the matmuls' dtype.
  template <class Body>
  void for_pieces(const Call& call, const LinearLayout& layout, int64_t first, int64_t count,
                  const Views& views, Body body) const {
    for (int64_t done = 0; done < count; done += layout.weight_rows) {
      const Part piece{first + done, std::min(layout.weight_rows, count - done)};
      Views v = views;
      v.block.weight = rows_of(v.batch.weight, piece.first, piece.size);
      if (convert_ && !in_one_piece(layout)) {
        v.block.weight_given = v.block.weight;
        v.block.weight = copy(call, layout, piece.size);
        convert_->run(view_table(v), nullptr, piece.size, call.stream);
      }
      body(piece, v);
    }
  }

 private:
  BoundTensor copy(const Call& call, const LinearLayout& layout, int64_t classes) const {
    return make_view(call.workspace + layout.weight, type_, classes, cols_, layout.copy_stride);
  }

  int64_t classes_, cols_;
  DType type_;
  std::optional<KernelStep> convert_;
};

}  // namespace ligerdsl::lib::head
