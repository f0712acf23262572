// Tiles that live across a barrier and cannot be recomputed.
// RUN: ligerdsl-opt %s -tgpu-recompute-after-barriers=num-warps=32 -verify-diagnostics

#wide = #tgpu.layout<register = [[1], [2], [4], [8], [16], [32]], lane = [[64], [128], [256], [512], [1024]], warp = [[2048], [4096], [8192], [16384], [32768]], cta = [], rank = 1>
!vec = !tile.view<?xf32, strides = [1]>
!tile = tensor<65536xf32, #wide>

func.func @too_many(%v: !vec, %lo: i64, %hi: i64, %step: i64) {
  scf.for %i = %lo to %hi step %step : i64 {
    %x = tile.load_tile %v[%i] shape [65536] : !vec -> !tile
    tile.print "before" %x : !tile
    // expected-remark @below {{[tgpu-recompute-after-barriers] spills are likely: 256 bytes of tiles per thread wait in registers across this exchange, and there is room for 192; use more warps, smaller tiles or a smaller min_ctas_per_sm [spills-likely]}}
    tgpu.barrier
    tile.print "after" %x : !tile
  }
  return
}
