// One kernel of an operation whose plan is more than a list of launches. The plan binds each
// argument to a view, number or constant; a call passes tables of views and numbers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/core/launch.h"
#include "lib/abi/bind.h"
#include "lib/abi/launcher.h"
#include "lib/abi/size_table.h"

namespace ligerdsl::lib {

// Sources of a program's arguments, by name.
struct StepNames {
  std::vector<std::pair<std::string, int>> views;         // index in the call's table of views
  std::vector<std::pair<std::string, int>> numbers;       // index in the call's table of integers
  std::vector<std::pair<std::string, double>> constants;  // float arguments
  std::vector<std::pair<std::string, int64_t>> integers;
};

// Returns `views` as an array of BoundTensors. The struct contains only BoundTensors, or structs of
// BoundTensors. LIGERDSL_VIEW(member) is the index of a member of the struct Views in the current
// scope.
template <class Struct>
const BoundTensor* view_table(const Struct& views) {
  static_assert(std::is_standard_layout_v<Struct> && sizeof(Struct) % sizeof(BoundTensor) == 0);
  return reinterpret_cast<const BoundTensor*>(&views);
}
#define LIGERDSL_VIEW(member) static_cast<int>(offsetof(Views, member) / sizeof(BoundTensor))

class KernelStep {
 public:
  // The caller promises that a view that the kernel writes overlaps no view with another index.
  KernelStep(Context& context, const kernels::Step& step, const StepNames& names);

  // Launches the kernel for `rows` rows; an empty grid launches nothing. Does not allocate.
  void run(const BoundTensor* views, const int64_t* numbers, int64_t rows,
           runtime::Stream stream) const;

  const Launcher* launcher() const { return launcher_.get(); }

 private:
  enum class Source : uint8_t { view, number, constant };
  struct Argument {
    Source source;
    int index;
    uint64_t bits;
    DType type;
  };

  SizeTable sizes_;
  std::array<SizeTable::Index, 3> programs_;  // along x, y and z
  std::vector<Argument> arguments_;
  std::unique_ptr<Launcher> launcher_;
};

}  // namespace ligerdsl::lib
