// KernelBuilder declares a kernel's arguments and creates constants, indices and control flow.
#ifndef LIGERDSL_DSL_BUILDER_H_
#define LIGERDSL_DSL_BUILDER_H_

#include <concepts>
#include <functional>
#include <optional>
#include <string>

#include "ligerdsl/dsl/control.h"
#include "ligerdsl/dsl/target.h"

namespace ligerdsl {

namespace program {
struct Program;
}

struct ViewOptions {
  Shape strides = {};  // in elements, each `dyn` or a number; empty: 1 in the last dimension, `dyn`
                       // in the others
  // Promise for every launch that no argument writes this view's memory, as with `const
  // __restrict__`: loads may be cached, repeated and moved across stores. Recording fails for a
  // store through the view. A launch rejects a view that shares memory with a written view, but
  // does not check pointers.
  bool read_only = false;
};

class KernelBuilder {
 public:
  // The name becomes part of the symbol that debuggers and profilers show. It must match
  // [a-zA-Z_][a-zA-Z0-9_]*.
  explicit KernelBuilder(const std::string& name, const std::optional<Target>& target = {},
                         Loc loc = Here::current());

  // Returns the device that the kernel is recorded for; tiles and loops may depend on it. Fails if
  // the kernel is recorded without a target.
  const Target& target(Loc loc = Here::current()) const;

  // Declares an argument. The order of declarations is the order of arguments at a launch. A
  // dimension is `dyn` or a number.
  View view(const std::string& name, DType dtype, const Shape& dims,
            const ViewOptions& options = {}, Loc loc = Here::current());
  Scalar scalar(const std::string& name, DType dtype, Loc loc = Here::current());
  Ptr ptr(const std::string& name, DType dtype, Loc loc = Here::current());

  Scalar program_id(int axis, Loc loc = Here::current());    // i32; axis 0, 1, 2
  Scalar num_programs(int axis, Loc loc = Here::current());  // i32

  // Records `body`, a kernel for a one-dimensional grid, as a dynamic persistent kernel. The launch
  // has fewer CTAs than programs, and each CTA takes its next program from a counter in memory. The
  // first loads of a program can start before the previous program ends (values.h, Resident). Two
  // arguments precede the kernel's own:
  //   next_program  i32 [1]; 0 at the launch, unspecified after it. No concurrent launch may use
  //                 it, and it shares no memory with another argument.
  //   programs      i32; number of programs, 0 or more.
  // In `body`, program_id(0) and num_programs(0) count programs, not CTAs. Programs start roughly
  // in the order of their ids, and the results are those of a plain grid. Launch the kernel with
  // the number of programs as its grid; a GPU then starts only the CTAs that it can run at a time.
  template <std::invocable Body>
  void dynamic_persistent(Body body, Loc loc = Here::current()) {
    record_dynamic_persistent([&] { body(); }, loc);
  }

  Scalar constant(NumberArg value, DType dtype, Loc loc = Here::current());
  Tile full(const Shape& shape, ScalarArg value, DType dtype, Loc loc = Here::current());
  Tile zeros(const Shape& shape, DType dtype, Loc loc = Here::current());
  Tile ones(const Shape& shape, DType dtype, Loc loc = Here::current());
  Tile arange(int64_t n, Loc loc = Here::current());  // i32 [n]: 0, 1, ..., n-1

  // Records for (i = lo; i < hi; i += step), with step > 0. The counter is i64 if lo, hi or step is
  // i64, else i32. hi + step - 1 must fit in that type; otherwise the counter may overflow and the
  // loop may never end. The interpreter reports this.
  //
  // The body receives i and the carried values. It returns carry(...) with the values of the next
  // iteration, of the same kinds, dtypes and shapes. The result is the final values:
  //
  //   auto [acc] = k.for_range(0, n, 1, carry(k.zeros({256}, f32)),
  //                            [&](Scalar i, Tile acc) { return carry(acc + ...); });
  template <class... T, class Body>
  Carry<T...> for_range(ScalarArg lo, ScalarArg hi, ScalarArg step, const LoopOptions& options,
                        Carry<T...> init, Body body, Loc loc = Here::current()) {
    static_assert(detail::is_carry<Carry<T...>>::value);
    static_assert(std::is_invocable_v<Body&, Scalar, T...>,
                  "for_range: the body takes (Scalar index, then one parameter per carried value)");
    static_assert(std::is_same_v<std::invoke_result_t<Body&, Scalar, T...>, Carry<T...>>,
                  "for_range: the body must return carry(...) with values of the same kinds as the "
                  "initial values, in the same order");
    detail::RegionBody region = [&](const std::vector<detail::Handle>& in) {
      auto carried = detail::unpack<Carry<T...>>(in, 1);
      return detail::pack(
          std::apply([&](const T&... value) { return body(Scalar(in[0]), value...); }, carried));
    };
    return detail::unpack<Carry<T...>>(
        detail::record_for(*recorder_, lo, hi, step, options, detail::pack(init), region, loc));
  }
  template <class... T, class Body>
  Carry<T...> for_range(ScalarArg lo, ScalarArg hi, ScalarArg step, Carry<T...> init, Body body,
                        Loc loc = Here::current()) {
    return for_range(lo, hi, step, LoopOptions{}, std::move(init), std::move(body), loc);
  }
  // Records a loop without carried values; its body only stores to memory. (`Options` is a template
  // parameter so that overload resolution does not instantiate a body with `auto...` parameters for
  // the index alone.)
  template <std::same_as<LoopOptions> Options = LoopOptions, std::invocable<Scalar> Body>
  void for_range(ScalarArg lo, ScalarArg hi, ScalarArg step, const Options& options, Body body,
                 Loc loc = Here::current()) {
    static_assert(std::is_void_v<std::invoke_result_t<Body&, Scalar>>,
                  "for_range: a body that returns values needs carry(initial values) before it");
    detail::RegionBody region = [&](const std::vector<detail::Handle>& in) {
      body(Scalar(in[0]));
      return std::vector<detail::Handle>();
    };
    detail::record_for(*recorder_, lo, hi, step, options, {}, region, loc);
  }
  template <std::invocable<Scalar> Body>
  void for_range(ScalarArg lo, ScalarArg hi, ScalarArg step, Body body, Loc loc = Here::current()) {
    for_range(lo, hi, step, LoopOptions{}, std::move(body), loc);
  }

  // Records a branch that the device takes if `condition` is true. If both branches return a value,
  // if_ returns that of the executed branch: one handle, or carry(...).
  template <std::invocable Then>
  void if_(const Scalar& condition, Then then, Loc loc = Here::current()) {
    static_assert(std::is_void_v<std::invoke_result_t<Then&>>,
                  "if_: a branch that returns a value needs an else branch");
    detail::record_if(*recorder_, condition, branch(then), nullptr, loc);
  }
  template <std::invocable Then, std::invocable Else>
  auto if_(const Scalar& condition, Then then, Else otherwise, Loc loc = Here::current()) {
    using Result = std::invoke_result_t<Then&>;
    static_assert(std::is_same_v<Result, std::invoke_result_t<Else&>>,
                  "if_: both branches must return the same kinds, in the same order");
    auto out = detail::record_if(*recorder_, condition, branch(then), branch(otherwise), loc);
    if constexpr (detail::is_carry<Result>::value) {
      return detail::unpack<Result>(out);
    } else if constexpr (!std::is_void_v<Result>) {
      return Result(out[0]);
    }
  }

  // Records while (condition(values...)) values = body(values...), and returns the final values.
  template <class... T, class Condition, class Body>
  Carry<T...> while_(Carry<T...> init, Condition condition, Body body, Loc loc = Here::current()) {
    static_assert(detail::is_carry<Carry<T...>>::value);
    static_assert(std::is_same_v<std::invoke_result_t<Condition&, T...>, Scalar>,
                  "while_: the condition must return a Scalar of i1");
    static_assert(std::is_same_v<std::invoke_result_t<Body&, T...>, Carry<T...>>,
                  "while_: the body must return carry(...) with values of the same kinds as the "
                  "initial values, in the same order");
    detail::RegionBody test = [&](const std::vector<detail::Handle>& in) {
      return std::vector<detail::Handle>{
          std::apply(condition, detail::unpack<Carry<T...>>(in)).handle()};
    };
    detail::RegionBody step = [&](const std::vector<detail::Handle>& in) {
      return detail::pack(std::apply(body, detail::unpack<Carry<T...>>(in)));
    };
    return detail::unpack<Carry<T...>>(detail::record_while(*recorder_, detail::pack(init), test,
                                                            step, /*independent=*/false, loc));
  }

  // While the returned guard lives, recorded float ops are not contracted into fma. Use it for
  // compensated summation and other code that relies on every rounding.
  class [[nodiscard]] ExactGuard {
   public:
    explicit ExactGuard(std::shared_ptr<detail::Recorder> recorder);
    ExactGuard(const ExactGuard&) = delete;
    ExactGuard& operator=(const ExactGuard&) = delete;
    ~ExactGuard();

   private:
    std::shared_ptr<detail::Recorder> recorder_;
  };
  ExactGuard exact_rounding() { return ExactGuard(recorder_); }

  // Returns the recorded program and resets the builder. finish_bytes() returns its serialised
  // form, the input of ligerdsl_kernel_create.
  program::Program finish(Loc loc = Here::current());
  std::string finish_bytes(Loc loc = Here::current());

 private:
  template <class Branch>
  static detail::RegionBody branch(Branch& body) {
    return [&body](const std::vector<detail::Handle>&) { return detail::run_branch(body); };
  }

  void record_dynamic_persistent(const std::function<void()>& body, Loc loc);

  std::shared_ptr<detail::Recorder> recorder_;
  std::optional<Target> target_;
};

}  // namespace ligerdsl

#endif  // LIGERDSL_DSL_BUILDER_H_
