// Assembles PTX to machine code and loads it as a function that can be launched.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "runtime/cuda/driver.h"
#include "runtime/kernel/kernel.h"

namespace ligerdsl::runtime {

struct Cubin {
  std::string image;
  std::string log;  // output of the driver's assembler: registers, spills, warnings
};

// Assembles PTX for the context's device. Throws COMPILE_FAILED or DRIVER_TOO_OLD with the
// assembler's log.
Cubin assemble(const PrimaryContext& context, const std::string& ptx);

// A loaded module with one kernel.
class CudaKernel final : public LoadedKernel {
 public:
  // Loads `image` and prepares the kernel that `artifact` describes: reads its attributes and
  // allows its dynamic shared memory.
  CudaKernel(std::shared_ptr<const PrimaryContext> context, program::Artifact artifact,
             std::string_view image, std::string log);
  ~CudaKernel() override;

  void launch(const uint64_t* slots, const Grid& programs, Stream stream) override;
  Grid largest_grid() const override;

 private:
  void prepare();
  int64_t smallest_overlapped_grid() const;
  int64_t programs_at_a_time();
  cuda::LaunchConfig config_of(const Grid& grid, Stream stream);
  void refuse_parameters() const;
  cuda::Result launch_with_maps(const cuda::LaunchConfig& config, const uint64_t* slots) const;
  [[noreturn]] void refuse_grid(const Grid& grid) const;

  std::shared_ptr<const PrimaryContext> context_;
  cuda::Module module_ = nullptr;
  cuda::Function function_ = nullptr;
  cuda::LaunchAttribute attributes_[2] =
      {};                              // those of every launch, then the attribute for overlap
  unsigned attribute_count_ = 0;       // number of attributes of every launch
  int64_t overlap_from_ = 0;           // smallest number of CTAs of a launch that may overlap
  int64_t most_programs_ = INT64_MAX;  // limit of grid.x; if dynamic persistent, clusters at once
};

}  // namespace ligerdsl::runtime
