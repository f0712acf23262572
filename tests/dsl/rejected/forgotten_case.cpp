// With CASE=1, the switch lacks the cases of LIGERDSL_MATH, so this file must not compile. With
// CASE=0 it must.
#include "program/op_info.h"

int number_of(ligerdsl::program::MathOp op) {
  switch (op) {
#define LIGERDSL_FAST_MATH(name, number, ...) \
  case ligerdsl::program::MathOp::name:       \
    return number;
#if CASE == 0
#define LIGERDSL_MATH(name, number, ...) \
  case ligerdsl::program::MathOp::name:  \
    return number;
#endif
#include "ligerdsl/dsl/ops.def"
  }
  return -1;
}
