#include "runtime/kernel/launch_ranges.h"

#include "runtime/observe/ranges.h"

namespace ligerdsl::runtime {
namespace {

// Returns the number of programs, or nothing on overflow. launch() rejects such a grid.
std::optional<int64_t> programs_in(const Grid& grid) {
  int64_t plane = 0, all = 0;
  if (__builtin_mul_overflow(grid.x, grid.y, &plane) || __builtin_mul_overflow(plane, grid.z, &all))
    return std::nullopt;
  return all;
}

class KernelWithRanges final : public LoadedKernel {
 public:
  explicit KernelWithRanges(std::shared_ptr<LoadedKernel> kernel) : kernel_(std::move(kernel)) {
    artifact_ = kernel_->artifact();
    resources_ = kernel_->resources();
  }
  void launch(const uint64_t* slots, const Grid& grid, Stream stream) override {
    const Range range(RangeKind::launch, artifact_.entry, programs_in(grid));
    kernel_->launch(slots, grid, stream);
  }
  Grid largest_grid() const override { return kernel_->largest_grid(); }

 private:
  const std::shared_ptr<LoadedKernel> kernel_;
};

}  // namespace

std::shared_ptr<LoadedKernel> with_launch_ranges(std::shared_ptr<LoadedKernel> kernel) {
  return ranges_wanted() ? std::make_shared<KernelWithRanges>(std::move(kernel)) : kernel;
}

}  // namespace ligerdsl::runtime
