// One kernel of an operation that is more than a list of launches: which view, number or constant each argument is, is
// settled when the plan is made; a call brings a table of views and numbers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/core/launch.h"
#include "lib/src/bind.h"
#include "lib/src/launcher.h"
#include "lib/src/size_table.h"

namespace ligerdsl::lib {

// Names of a program's arguments and what they stand for.
struct StepNames {
  std::vector<std::pair<std::string, int>> views;         // index in the call's table of views
  std::vector<std::pair<std::string, int>> numbers;       // index in the call's table of integers
  std::vector<std::pair<std::string, double>> constants;  // f32
  std::vector<std::pair<std::string, int64_t>> integers;
};

// A struct of views whose members are BoundTensors, or structs of them, is a table of views: view_table gives its first entry,
// LIGERDSL_VIEW(member) the index of a member of the struct that is called Views in this scope.
template <class Struct>
const BoundTensor* view_table(const Struct& views) {
  static_assert(std::is_standard_layout_v<Struct> && sizeof(Struct) % sizeof(BoundTensor) == 0);
  return reinterpret_cast<const BoundTensor*>(&views);
}
#define LIGERDSL_VIEW(member) static_cast<int>(offsetof(Views, member) / sizeof(BoundTensor))

class KernelStep {
 public:
  // Views of different index never overlap where the kernel writes one of them; that is the operation's promise.
  KernelStep(Context& context, const kernels::Step& step, const StepNames& names);

  // Launches for this many rows; an empty grid launches nothing. Takes no memory.
  void run(const BoundTensor* views, const int64_t* numbers, int64_t rows, runtime::Stream stream) const;

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
