// RUN: not ligerdsl-opt %s -tile-assign-layouts=num-warps=3 2>&1 | FileCheck %s
// CHECK: num_warps is 3; expected a power of two from 1 to 32
func.func @kernel() {
  return
}
