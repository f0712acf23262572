// Loop options, and the templates that implement KernelBuilder::for_range, if_ and while_.
#ifndef LIGERDSL_DSL_CONTROL_H_
#define LIGERDSL_DSL_CONTROL_H_

#include <optional>
#include <type_traits>
#include <utility>

#include "ligerdsl/dsl/reduce.h"

namespace ligerdsl {

// Execution options of a loop. They never change a result, except that `tensor_copies` may round
// ties of tf32 operands differently (dot.h). 0 lets the compiler decide.
struct LoopOptions {
  int num_stages = 0;  // stages of the pipeline that starts the loop's loads early
  int unroll =
      0;  // copies of the body per iteration, at most 256; a second loop runs the remainder
  bool tensor_copies =
      false;  // loads operands of dot as whole tiles by TMA (sm_90a), where TMA supports them
};

inline LoopOptions pipelined(int stages) {
  return {.num_stages = stages};
}
inline LoopOptions unrolled(int copies) {
  return {.unroll = copies};
}

namespace detail {

std::vector<Handle> record_for(Recorder& recorder, const ScalarArg& lo, const ScalarArg& hi,
                               const ScalarArg& step, const LoopOptions& options,
                               const std::vector<Handle>& init, const RegionBody& body, Loc loc);
std::vector<Handle> record_if(Recorder& recorder, const Scalar& condition, const RegionBody& then,
                              const RegionBody& otherwise, Loc loc);
std::vector<Handle> record_while(Recorder& recorder, const std::vector<Handle>& init,
                                 const RegionBody& condition, const RegionBody& body,
                                 bool independent, Loc loc);

template <class T>
inline constexpr bool is_carryable = std::is_same_v<T, Scalar> || std::is_same_v<T, Tile> ||
                                     std::is_same_v<T, Ptr> || std::is_same_v<T, PtrTile>;

template <class T>
struct is_carry : std::false_type {};
template <class... T>
struct is_carry<Carry<T...>> : std::true_type {
  static_assert((is_carryable<T> && ...),
                "carry(...) takes Scalar, Tile, Ptr or PtrTile; wrap a number with "
                "KernelBuilder::constant or full");
};

// Returns the handles of a Carry's values.
template <class... T>
std::vector<Handle> pack(const Carry<T...>& values) {
  return std::apply([](const auto&... value) { return std::vector<Handle>{value.handle()...}; },
                    values);
}

// Returns a Carry of type C with the handles from index `first` on.
template <class C>
C unpack(const std::vector<Handle>& values, size_t first = 0) {
  return [&]<size_t... I>(std::index_sequence<I...>) {
    return C{std::tuple_element_t<I, C>(values[first + I])...};
  }
  (std::make_index_sequence<std::tuple_size_v<C>>());
}

// Runs a branch and returns the handles of its result: none, one, or one per value of a carry.
template <class Branch>
std::vector<Handle> run_branch(Branch& branch) {
  using Result = std::invoke_result_t<Branch&>;
  if constexpr (std::is_void_v<Result>) {
    branch();
    return {};
  } else if constexpr (is_carry<Result>::value) {
    return pack(branch());
  } else {
    static_assert(is_carryable<Result>,
                  "a branch must return nothing, one Scalar, Tile, Ptr or PtrTile, or carry(...)");
    return {branch().handle()};
  }
}

}  // namespace detail
}  // namespace ligerdsl

#endif  // LIGERDSL_DSL_CONTROL_H_
