// Obstacles that keep two reductions from sharing one exchange.
// RUN: ligerdsl-opt %s -tile-assign-layouts=num-warps=4 -tgpu-decompose-reduce -verify-diagnostics

!vec = !tile.view<?xf32, strides = [1], align = 16>

func.func @write_in_between(%x: !vec, %y: !vec, %i: i64) {
  %a = tile.load_tile %x[%i] shape [4096] : !vec -> tensor<4096xf32>
  %s = tile.reduce sum %a {axis = 0 : i32} : tensor<4096xf32> -> f32 {
  ^bb0(%p: f32, %q: f32):
    %r = arith.addf %p, %q : f32
    tile.yield %r : f32
  }
  tile.store_tile %s, %x[%i] shape [0] : f32, !vec
  %b = tile.load_tile %y[%i] shape [4096] : !vec -> tensor<4096xf32>
  // expected-remark-re @below {{[tgpu-decompose-reduce] two reductions need an exchange each: the write at {{.+}}-remarks.mlir:13 precedes the load of this one's input, and the other reduction is at {{.+}}-remarks.mlir:8; load the input before the write [reductions-not-merged]}}
  %t = tile.reduce sum %b {axis = 0 : i32} : tensor<4096xf32> -> f32 {
  ^bb0(%p: f32, %q: f32):
    %r = arith.addf %p, %q : f32
    tile.yield %r : f32
  }
  tile.store_tile %t, %y[%i] shape [0] : f32, !vec
  return
}
