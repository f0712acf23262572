// Remarks to the author of a loop whose threads synchronise in each iteration.
// RUN: ligerdsl-opt %s -tile-assign-layouts=num-warps=4 -tgpu-defer-reductions -split-input-file -verify-diagnostics

!vec = !tile.view<?xf32, strides = [1], align = 16>

// One carried value is scaled before its sum is added. The sum of the other one is deferred.
func.func @scaled(%x: !vec, %y: !vec, %i: i64, %first: f32, %scale: f32) attributes {tile.kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c9 = arith.constant 9 : index
  %results:2 = scf.for %b = %c0 to %c9 step %c1 iter_args(%carried = %first, %other = %first) -> (f32, f32) {
    %at = arith.index_cast %b : index to i64
    %a = tile.load_tile %x[%at] shape [4096] : !vec -> tensor<4096xf32>
    // expected-remark @below {{[tgpu-defer-reductions] this reduction synchronises the threads of the CTA in every iteration; to move it after the loop, use its result only to update a carried value by the reduction's own operation (total = total + sum(tile)), and read that value nowhere else in the loop; or carry a tile of one value per lane and reduce that after the loop (OnlineSums, for sums of exponentials) [barrier-in-each-iteration]}}
    %s = tile.reduce sum %a {axis = 0 : i32} : tensor<4096xf32> -> f32 {
    ^bb0(%p: f32, %q: f32):
      %r = arith.addf %p, %q : f32
      tile.yield %r : f32
    }
    %t = tile.reduce sum %a {axis = 0 : i32} : tensor<4096xf32> -> f32 {
    ^bb0(%p: f32, %q: f32):
      %r = arith.addf %p, %q : f32
      tile.yield %r : f32
    }
    %scaled = arith.mulf %carried, %scale : f32
    %next = arith.addf %scaled, %s : f32
    %sum = arith.addf %other, %t : f32
    scf.yield %next, %sum : f32, f32
  }
  tile.store_tile %results#0, %y[%i] shape [0] : f32, !vec
  tile.store_tile %results#1, %y[%i] shape [0] : f32, !vec
  return
}

// -----

!rows = !tile.view<?x4096xf32, strides = [?, 1], align = 16, dim_div = [1, 4096], stride_div = [4, 1]>

// A row's sum scales the tile that is added. A sum per lane cannot replace it: there is no remark.
func.func @columns(%x: !rows, %y: !rows) attributes {tile.kernel} {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %c9 = arith.constant 9 : i64
  %first = arith.constant dense<0.0> : tensor<4096xf32>
  %sums = scf.for %row = %c0 to %c9 step %c1 iter_args(%carried = %first) -> (tensor<4096xf32>) : i64 {
    %a = tile.load_tile %x[%row, %c0] shape [0, 4096] : !rows -> tensor<4096xf32>
    %s = tile.reduce sum %a {axis = 0 : i32} : tensor<4096xf32> -> f32 {
    ^bb0(%p: f32, %q: f32):
      %r = arith.addf %p, %q : f32
      tile.yield %r : f32
    }
    %of_all = tile.splat %s : f32 -> tensor<4096xf32>
    %scaled = arith.mulf %a, %of_all : tensor<4096xf32>
    %next = arith.addf %carried, %scaled : tensor<4096xf32>
    scf.yield %next : tensor<4096xf32>
  }
  tile.store_tile %sums, %y[%c0, %c0] shape [0, 4096] : tensor<4096xf32>, !rows
  return
}
