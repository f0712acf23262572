#include "runtime/told_kernel.h"

#include "runtime/ranges.h"

namespace ligerdsl::runtime {
namespace {

class ToldKernel final : public LoadedKernel {
 public:
  explicit ToldKernel(std::shared_ptr<LoadedKernel> kernel) : kernel_(std::move(kernel)) {
    artifact_ = kernel_->artifact();
    resources_ = kernel_->resources();
  }
  void launch(const uint64_t* slots, const Grid& grid, Stream stream) override {
    const Range range(RangeKind::launch, artifact_.entry, grid.x * grid.y * grid.z);
    kernel_->launch(slots, grid, stream);
  }
  Grid largest_grid() const override { return kernel_->largest_grid(); }

 private:
  const std::shared_ptr<LoadedKernel> kernel_;
};

}  // namespace

std::shared_ptr<LoadedKernel> telling_launches(std::shared_ptr<LoadedKernel> kernel) {
  return ranges_wanted() ? std::make_shared<ToldKernel>(std::move(kernel)) : kernel;
}

}  // namespace ligerdsl::runtime
