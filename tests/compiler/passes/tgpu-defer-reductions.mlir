// RUN: ligerdsl-opt %s -tile-assign-layouts=num-warps=4 -tgpu-defer-reductions -split-input-file | FileCheck %s
// RUN: ligerdsl-opt %s -tile-assign-layouts=num-warps=4 -tgpu-defer-reductions -tgpu-decompose-reduce -split-input-file | FileCheck %s --check-prefix=MEET

!vec = !tile.view<?xf32, strides = [1], align = 16>

// Each thread adds its own elements. Threads synchronise once, after the loop, where the initial
// value is added as well.
// CHECK: #[[OWN:.+]] = #tgpu.layout<register = [], lane = {{\[}}[1], [2], [4], [8], [16]], warp = {{\[}}[32], [64]], cta = [], rank = 1>
// CHECK-LABEL: func @sums
// CHECK-SAME: %[[FIRST:[a-z0-9]+]]: f32
// CHECK: %[[ZERO:.+]] = arith.constant dense<-0.000000e+00> : tensor<128xf32, #[[OWN]]>
// CHECK: %[[LOOP:.+]]:2 = scf.for {{.*}} iter_args(%[[PASSED:.+]] = %[[FIRST]], %[[PART:.+]] = %[[ZERO]])
// CHECK: %[[MINE:.+]] = tgpu.reduce_in_thread sum
// CHECK: %[[NEXT:.+]] = arith.addf %[[PART]], %[[MINE]] : tensor<128xf32, #[[OWN]]>
// CHECK: scf.yield %[[PASSED]], %[[NEXT]]
// CHECK: %[[TOTAL:.+]] = tile.reduce sum %[[LOOP]]#1
// CHECK: arith.addf %[[FIRST]], %[[TOTAL]] : f32
// MEET-LABEL: func @sums
// MEET: scf.for
// MEET-NOT: reduce_in_warp
// MEET: scf.yield
// MEET: reduce_in_warp
func.func @sums(%x: !vec, %y: !vec, %i: i64, %first: f32) attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c9 = arith.constant 9 : index
  %total = scf.for %b = %c0 to %c9 step %c1 iter_args(%carried = %first) -> (f32) {
    %at = arith.index_cast %b : index to i64
    %a = tile.load_tile %x[%at] shape [4096] : !vec -> tensor<4096xf32>
    %s = tile.reduce sum %a {axis = 0 : i32} : tensor<4096xf32> -> f32 {
    ^bb0(%p: f32, %q: f32):
      %r = arith.addf %p, %q : f32
      tile.yield %r : f32
    }
    %next = arith.addf %carried, %s : f32
    scf.yield %next : f32
  }
  tile.store_tile %total, %y[%i] shape [0] : f32, !vec
  return
}

// -----

!vec = !tile.view<?xf32, strides = [1], align = 16>

// A reduction is not deferred if the loop reads the carried value, or combines it by another
// operation.
// CHECK-LABEL: func @stay
// CHECK-NOT: reduce_in_thread
// CHECK: return
func.func @stay(%x: !vec, %y: !vec, %i: i64, %first: f32) attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c9 = arith.constant 9 : index
  %results:2 = scf.for %b = %c0 to %c9 step %c1 iter_args(%carried = %first, %top = %first) -> (f32, f32) {
    %at = arith.index_cast %b : index to i64
    %a = tile.load_tile %x[%at] shape [4096] : !vec -> tensor<4096xf32>
    %s = tile.reduce sum %a {axis = 0 : i32} : tensor<4096xf32> -> f32 {
    ^bb0(%p: f32, %q: f32):
      %r = arith.addf %p, %q : f32
      tile.yield %r : f32
    }
    %next = arith.addf %carried, %s : f32
    tile.store_tile %carried, %y[%at] shape [0] : f32, !vec
    %t = tile.reduce sum %a {axis = 0 : i32} : tensor<4096xf32> -> f32 {
    ^bb0(%p: f32, %q: f32):
      %r = arith.addf %p, %q : f32
      tile.yield %r : f32
    }
    %higher = arith.maximumf %top, %t : f32
    scf.yield %next, %higher : f32, f32
  }
  tile.store_tile %results#0, %y[%i] shape [0] : f32, !vec
  tile.store_tile %results#1, %y[%i] shape [0] : f32, !vec
  return
}
