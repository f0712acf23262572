// Copy of x for d_weight = d^T x, with zeros in ignored rows. Ignored rows of x may hold NaN; d is
// 0 in these rows, but 0 * NaN is NaN.
#pragma once

#include <optional>

#include "kernels/reduce/convert_rows.h"
#include "lib/abi/context.h"
#include "lib/abi/kernel_step.h"

namespace ligerdsl::lib {

class CountedX {
 public:
  // Indices in a call's table of views: the caller's x, the copy that matmuls read, and the rows'
  // labels.
  struct Views {
    int given, taken, labels;
  };
  struct Rows {
    int64_t cols;
    DType label_type;
    int64_t ignore_index;
  };

  // may_overwrite: the view `taken` may be the caller's x.
  CountedX(Context& context, const Views& views, const Rows& rows, DType type, bool may_overwrite)
      : views_(views), copy_(*convert(context, views, rows, type, type)) {
    if (may_overwrite)
      clear_ =
          step(context, views, rows,
               kernels::clear_ignored_rows(context.machine(), type, rows.cols, rows.label_type));
  }

  // Returns the step that copies x with zeros in ignored rows, and converts it from dtype `from` to
  // dtype `to`.
  static std::optional<KernelStep> convert(Context& context, const Views& views, const Rows& rows,
                                           DType from, DType to) {
    return step(context, views, rows,
                kernels::counted_rows(context.machine(), from, to, rows.cols, rows.label_type));
  }

  // Writes the copy to the view `taken`. If `taken` is x itself, writes only zeros to its ignored
  // rows.
  void run(const BoundTensor* views, int64_t rows, runtime::Stream stream) const {
    const bool in_place = clear_ && views[views_.taken].data == views[views_.given].data;
    (in_place ? *clear_ : copy_).run(views, nullptr, rows, stream);
  }

  void add_launchers(std::vector<const Launcher*>* all) const {
    all->push_back(copy_.launcher());
    if (clear_) all->push_back(clear_->launcher());
  }

 private:
  static std::optional<KernelStep> step(Context& context, const Views& views, const Rows& rows,
                                        const kernels::Operation& operation) {
    return std::make_optional<KernelStep>(
        context, operation.steps[0],
        StepNames{.views = {{"in", views.given}, {"out", views.taken}, {"labels", views.labels}},
                  .integers = {{"ignore_index", rows.ignore_index}}});
  }

  Views views_;
  KernelStep copy_;
  std::optional<KernelStep> clear_;
};

}  // namespace ligerdsl::lib
