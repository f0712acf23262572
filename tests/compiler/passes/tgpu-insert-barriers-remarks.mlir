// Only barriers between arguments that may share memory get a remark.
// RUN: ligerdsl-opt %s -tgpu-insert-barriers -verify-diagnostics

#row = #tgpu.layout<register = [[1], [2]], lane = [[4], [8], [16], [32], [64]], warp = [[128]], cta = [], rank = 1>
#strided = #tgpu.layout<register = [[64], [128]], lane = [[1], [2], [4], [8], [16]], warp = [[32]], cta = [], rank = 1>
!vec = !tile.view<?xf32, strides = [1]>

func.func @arguments(%x: !vec, %y: !vec, %a: tensor<256xf32, #row>, %i: i64) -> tensor<256xf32, #strided> {
  tile.store_tile %a, %x[%i] shape [256] : tensor<256xf32, #row>, !vec
  // expected-remark-re @below {{[tgpu-insert-barriers] a barrier of the CTA is needed before this: it may use the same memory as the access at {{.+}}-remarks.mlir:9, through another argument; promise that the arguments do not overlap (no_alias) [barrier-between-arguments]}}
  %b = tile.load_tile %y[%i] shape [256] : !vec -> tensor<256xf32, #strided>
  return %b : tensor<256xf32, #strided>
}

func.func @one_argument(%x: !vec, %a: tensor<256xf32, #row>, %i: i64) -> tensor<256xf32, #strided> {
  tile.store_tile %a, %x[%i] shape [256] : tensor<256xf32, #row>, !vec
  %b = tile.load_tile %x[%i] shape [256] : !vec -> tensor<256xf32, #strided>
  return %b : tensor<256xf32, #strided>
}

// A promise that the arguments do not overlap would not remove this barrier.
func.func @both(%x: !vec, %y: !vec, %a: tensor<256xf32, #row>, %i: i64) -> (tensor<256xf32, #strided>, tensor<256xf32, #strided>) {
  %b = tile.load_tile %x[%i] shape [256] : !vec -> tensor<256xf32, #strided>
  %c = tile.load_tile %y[%i] shape [256] : !vec -> tensor<256xf32, #strided>
  tile.store_tile %a, %y[%i] shape [256] : tensor<256xf32, #row>, !vec
  return %b, %c : tensor<256xf32, #strided>, tensor<256xf32, #strided>
}

// Barriers are needed both within an iteration and between iterations.
func.func @loop(%x: !vec, %y: !vec, %a: tensor<256xf32, #row>, %s: tensor<256xf32, #strided>, %i: i64, %lo: i32, %hi: i32, %step: i32) -> tensor<256xf32, #strided> {
  %r = scf.for %n = %lo to %hi step %step iter_args(%c = %s) -> (tensor<256xf32, #strided>) : i32 {
    // expected-remark-re @below {{[tgpu-insert-barriers] {{.+}} the same memory as the access at {{.+}}-remarks.mlir:35, through another argument; promise that the arguments do not overlap (no_alias) [barrier-between-arguments]}}
    %b = tile.load_tile %y[%i] shape [256] : !vec -> tensor<256xf32, #strided>
    // expected-remark-re @below {{[tgpu-insert-barriers] {{.+}} the same memory as the access at {{.+}}-remarks.mlir:33, through another argument; promise that the arguments do not overlap (no_alias) [barrier-between-arguments]}}
    tile.store_tile %a, %x[%i] shape [256] : tensor<256xf32, #row>, !vec
    scf.yield %b : tensor<256xf32, #strided>
  }
  return %r : tensor<256xf32, #strided>
}
