// Case 1 omits a family of operations from a switch and must not compile. Case 0 is the control.
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
