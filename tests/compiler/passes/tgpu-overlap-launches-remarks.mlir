// A large tile that only this program reads, but that cannot be prefetched before the wait.
// RUN: ligerdsl-opt %s -tgpu-overlap-launches -verify-diagnostics

!rows = !tile.view<?x4096xbf16, strides = [?, 1], align = 16, stride_div = [8, 1]>
!indices = !tile.view<?xi64, strides = [1]>
#wide = #tgpu.layout<register = [[1], [2], [4], [1024], [2048]], lane = [[8], [16], [32], [64], [128]], warp = [[256], [512]], cta = [], rank = 1>
!wide = tensor<4096xbf16, #wide>

func.func @picked(%x: !rows, %y: !rows, %order: !indices) {
  %zero = arith.constant 0 : i64
  %p = tile.program_id 0 : i32
  %row = arith.extsi %p : i32 to i64
  %indirect = tile.load_tile %order[%row] shape [0] : !indices -> i64
  // expected-remark @below {{[tgpu-overlap-launches] not prefetched while the previous kernel ends: its index comes from memory; compute it from the program id [not-prefetched-before-launch]}}
  %t = tile.load_tile %x[%indirect, %zero] shape [0, 4096] : !rows -> !wide
  tile.store_tile %t, %y[%row, %zero] shape [0, 4096] : !wide, !rows
  return
}
