// Builds small kernels and runs them with the interpreter.
#pragma once

#include <vector>

#include "interpreter/interpreter.h"
#include "ligerdsl/dsl.h"
#include "program/verify.h"

namespace ligerdsl::test {

// Returns the elements of `body(k, x)`, where x is a tile of the n numbers in `in`. The body
// returns an f32 tile of n elements, or one Scalar.
template <class Body>
std::vector<float> evaluate(std::vector<float> in, Body body,
                            const interpreter::Options& options = {}) {
  const auto n = static_cast<int64_t>(in.size());
  KernelBuilder k("evaluate");
  View x = k.view("x", f32, {n});
  View y = k.view("y", f32, {dyn});
  auto value = body(k, x.partition({n}).load({0}));
  std::vector<float> out;
  if constexpr (std::is_same_v<decltype(value), Scalar>) {
    out.assign(1, -77.0f);
    y.store({0}, value.to(f32));
  } else {
    const int64_t size = value.size();
    out.assign(size, -77.0f);
    y.partition({size}).store({0}, value.reshape({size}).to(f32));
  }
  const program::Program program = k.finish();
  program::verify(program);
  interpreter::Arguments arguments;
  arguments.view(in.data(), f32, {n}, {1});
  arguments.view(out.data(), f32, {static_cast<int64_t>(out.size())}, {1});
  interpreter::run(program, arguments, {}, options);
  return out;
}

}  // namespace ligerdsl::test
