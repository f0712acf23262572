// RUN: ligerdsl-opt %s -tile-unroll-loops -canonicalize -split-input-file -verify-diagnostics | FileCheck %s

!x = !tile.view<?xf32, strides = [1]>

// Two unrolled iterations of four copies, and two remaining iterations. Nothing is unrolled
// further.
// CHECK-LABEL: func.func @constant_bounds
// CHECK: %[[FOUR:.+]] = scf.for %[[I:.+]] = %c0_i64 to %c8_i64 step %c4_i64 iter_args(%[[A:.+]] = %{{.+}})
// CHECK: tile.load_tile %{{.+}}[%[[I]]]
// CHECK: %[[A1:.+]] = arith.addf %[[A]]
// CHECK: %[[I1:.+]] = arith.addi %[[I]], %c1_i64
// CHECK: tile.load_tile %{{.+}}[%[[I1]]]
// CHECK: %[[A2:.+]] = arith.addf %[[A1]]
// CHECK: %[[I2:.+]] = arith.addi %[[I]], %c2_i64
// CHECK: %[[I3:.+]] = arith.addi %[[I]], %c3_i64
// CHECK: %[[A4:.+]] = arith.addf
// CHECK: scf.yield %[[A4]]
// CHECK: {tile.num_stages = 2 : i64, tile.unroll = 1 : i64}
// CHECK: scf.for %{{.+}} = %c8_i64 to %c10_i64 step %c1_i64 iter_args(%{{.+}} = %[[FOUR]])
// CHECK: {tile.num_stages = 1 : i64, tile.unroll = 1 : i64}
func.func @constant_bounds(%x: !x) -> f32 {
  %lo = arith.constant 0 : i64
  %hi = arith.constant 10 : i64
  %one = arith.constant 1 : i64
  %zero = arith.constant 0.0 : f32
  %sum = scf.for %i = %lo to %hi step %one iter_args(%acc = %zero) -> (f32) : i64 {
    %t = tile.load_tile %x[%i] shape [0] : !x -> f32
    %s = arith.addf %acc, %t : f32
    scf.yield %s : f32
  } {tile.unroll = 4 : i64, tile.num_stages = 2 : i64}
  return %sum : f32
}

// -----

// The number of iterations is known only at run time. The unrolled loop is skipped if the loop has
// fewer iterations than copies.
// CHECK-LABEL: func.func @open_bounds(
// CHECK-SAME: %[[LO:.+]]: i32, %[[HI:.+]]: i32
// CHECK-DAG: %[[SPAN:.+]] = arith.subi %[[HI]], %[[LO]]
// CHECK-DAG: %[[FITS:.+]] = arith.cmpi sgt, %[[SPAN]], %c6_i32
// CHECK: arith.divui %{{.+}}, %c9_i32
// CHECK: %[[MID:.+]] = arith.select %[[FITS]], %{{.+}}, %[[LO]]
// CHECK: scf.for %{{.+}} = %[[LO]] to %[[MID]] step %c9_i32
// CHECK-COUNT-3: tile.print
// CHECK: scf.for %{{.+}} = %[[MID]] to %[[HI]] step %c3_i32
// CHECK-COUNT-1: tile.print
func.func @open_bounds(%lo: i32, %hi: i32) {
  %step = arith.constant 3 : i32
  scf.for %i = %lo to %hi step %step : i32 {
    tile.print "i" %i : i32
  } {tile.unroll = 3 : i64}
  return
}

// -----

// An unknown step may be so large that several steps overflow.
// CHECK-LABEL: func.func @open_step(
// CHECK-SAME: %[[LO:.+]]: i32, %[[HI:.+]]: i32, %[[STEP:.+]]: i32
// CHECK: arith.cmpi ule, %[[STEP]], %c1073741823_i32
func.func @open_step(%lo: i32, %hi: i32, %step: i32) {
  scf.for %i = %lo to %hi step %step : i32 {
    tile.print "i" %i : i32
  } {tile.unroll = 2 : i64}
  return
}

// -----

// The number of iterations is known to be divisible, so there is no remainder.
// CHECK-LABEL: func.func @divisible
// CHECK: scf.for
// CHECK: step %c4_i32
// CHECK-COUNT-4: tile.print
// CHECK-NOT: scf.for
// CHECK: return
func.func @divisible(%n: i32) {
  %lo = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %hi = tile.assume_divisible %n {divisor = 8 : i64} : i32
  scf.for %i = %lo to %hi step %one : i32 {
    tile.print "i" %i : i32
  } {tile.unroll = 4 : i64}
  return
}

// -----

// The inner one of two nested loops is unrolled first.
// CHECK-LABEL: func.func @nested
// CHECK: scf.for
// CHECK: scf.for
// CHECK-COUNT-2: tile.print
// CHECK: scf.for
// CHECK-COUNT-2: tile.print
// CHECK-NOT: tile.print
func.func @nested(%n: i32) {
  %lo = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %hi = tile.assume_divisible %n {divisor = 2 : i64} : i32
  scf.for %i = %lo to %hi step %one : i32 {
    scf.for %j = %lo to %hi step %one : i32 {
      tile.print "j" %j : i32
    } {tile.unroll = 2 : i64}
  } {tile.unroll = 2 : i64}
  return
}

// -----

// A loop with fewer iterations than requested copies is unrolled completely.
// CHECK-LABEL: func.func @few_iterations
// CHECK-COUNT-3: tile.print
// CHECK-NOT: tile.print
// CHECK: return
func.func @few_iterations() {
  %one = arith.constant 1 : i32
  %eight = arith.constant 8 : i32
  %three = arith.constant 3 : i32
  scf.for %i = %one to %eight step %three : i32 {
    tile.print "i" %i : i32
  } {tile.unroll = 4 : i64}
  return
}

// -----

// CHECK-LABEL: func.func @refused
// CHECK: step %c1073741824_i32
func.func @refused(%lo: i32, %hi: i32) {
  %step = arith.constant 1073741824 : i32
  // expected-remark @below {{[tile-unroll-loops] not unrolled by 2: the unrolled step, 2 times 1073741824, overflows the i32 counter [unrolled-step-too-large]}}
  scf.for %i = %lo to %hi step %step : i32 {
    tile.print "i" %i : i32
  } {tile.unroll = 2 : i64}
  return
}

// -----

// CHECK-LABEL: func.func @too_large
func.func @too_large(%lo: i32, %hi: i32, %step: i32) {
  // expected-remark @below {{not unrolled by 8000: the body has 3 operations, so 8000 copies exceed the limit of 16384 in total; unroll less, or use a shorter body [unrolled-body-too-long]}}
  scf.for %i = %lo to %hi step %step : i32 {
    tile.print "i" %i : i32
    tile.print "i" %i : i32
  } {tile.unroll = 8000 : i64}
  return
}
