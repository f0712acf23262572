// The kernel DSL. Authors of kernels include this header.
//
//   void vector_add(KernelBuilder& k, const VectorAddMeta& m) {
//     View out = k.view("out", m.type, {dyn});
//     View a = k.view("a", m.type, {dyn});
//     View b = k.view("b", m.type, {dyn});
//     Scalar i = k.program_id(0);
//     Tile sum = a.partition({m.block}).load({i}) + b.partition({m.block}).load({i});
//     out.partition({m.block}).store({i}, sum);
//   }
//
// Calling this function records a program and computes nothing. Data types and shapes are run-time
// values that recording checks. Misuse throws ligerdsl::Error with the author's file, line and
// column.
#ifndef LIGERDSL_DSL_H_
#define LIGERDSL_DSL_H_

#if __cplusplus < 202002L
#error "ligerdsl/dsl.h needs C++20: g++ 12 or clang 14, or a later one, with -std=c++20"
#else
#include <cmath>  // INFINITY: loads for a maximum usually pad with -INFINITY

#include "ligerdsl/dsl/builder.h"
#include "ligerdsl/dsl/dot.h"
#include "ligerdsl/dsl/error.h"
#include "ligerdsl/dsl/kernel.h"
#include "ligerdsl/dsl/lanes.h"
#include "ligerdsl/dsl/library.h"
#include "ligerdsl/dsl/math.h"
#include "ligerdsl/dsl/memory.h"
#include "ligerdsl/dsl/online_sum.h"
#include "ligerdsl/dsl/operators.h"
#include "ligerdsl/dsl/random.h"
#include "ligerdsl/dsl/rearrange.h"
#include "ligerdsl/dsl/reduce.h"
#include "ligerdsl/dsl/target.h"
#include "ligerdsl/dsl/tile_shape.h"
#include "ligerdsl/dsl/values.h"
#include "ligerdsl/dtype.h"
#endif

#endif  // LIGERDSL_DSL_H_
