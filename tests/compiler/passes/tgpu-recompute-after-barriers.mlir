// RUN: ligerdsl-opt %s -tgpu-recompute-after-barriers=num-warps=32 | FileCheck %s
// RUN: ligerdsl-opt %s -tgpu-recompute-after-barriers=num-warps=8 | FileCheck %s --check-prefix=ROOM

#wide = #tgpu.layout<register = [[1], [2], [4], [8], [16]], lane = [[32], [64], [128], [256], [512]], warp = [[1024], [2048], [4096], [8192], [16384]], cta = [], rank = 1>
!narrow = tensor<32768xbf16, #wide>
!vec = !tile.view<?xbf16, strides = [1]>
!tile = tensor<32768xf32, #wide>

// Without the pass, 32 of 64 registers per thread would be live across the barrier. Instead, the 16
// of the bf16 tile are, and the multiplication by a value from outside is recomputed. With 256
// registers per thread nothing changes.
// CHECK-LABEL: func @both_sides
// CHECK: arith.extf %[[X:.+]] : tensor<32768xbf16
// CHECK: tgpu.barrier
// CHECK-NEXT: %[[HIDDEN:.+]] = tgpu.opaque %[[X]]
// CHECK: %[[AGAIN:.+]] = arith.extf %[[HIDDEN]]
// CHECK-NEXT: %[[PRODUCT:.+]] = arith.mulf %[[AGAIN]], %{{.+}}
// CHECK-NEXT: tile.print "product" %[[PRODUCT]]
// ROOM-LABEL: func @both_sides
// ROOM-NOT: tgpu.opaque
func.func @both_sides(%v: !vec, %w: !tile, %lo: i64, %hi: i64, %step: i64) {
  scf.for %i = %lo to %hi step %step : i64 {
    %x = tile.load_tile %v[%i] shape [32768] : !vec -> !narrow
    %a = arith.extf %x : !narrow to !tile
    %b = arith.mulf %a, %w : !tile
    tile.print "before" %b : !tile
    tgpu.barrier
    tile.print "product" %b : !tile
  }
  return
}

// All 64 registers would be live across the barrier. Recomputing the cheaper of the two tiles
// suffices.
// CHECK-LABEL: func @cheapest_first
// CHECK: tgpu.barrier
// CHECK-NEXT: %[[HIDDEN:.+]] = tgpu.opaque
// CHECK-NEXT: %[[AGAIN:.+]] = arith.extf %[[HIDDEN]]
// CHECK-NEXT: tile.print "x" %[[AGAIN]]
// CHECK-NEXT: tile.print "y" %{{.+}}
// CHECK-NEXT: }
func.func @cheapest_first(%v: !vec, %lo: i64, %hi: i64, %step: i64) {
  scf.for %i = %lo to %hi step %step : i64 {
    %x16 = tile.load_tile %v[%i] shape [32768] : !vec -> !narrow
    %x = arith.extf %x16 : !narrow to !tile
    %y0 = arith.addf %x, %x : !tile
    %y = arith.mulf %y0, %x : !tile
    tile.print "before" %y : !tile
    tgpu.barrier
    tile.print "x" %x : !tile
    tile.print "y" %y : !tile
  }
  return
}

!bytes = !tile.view<?xi8, strides = [1]>

// The 8 registers of the fp8 tile stay live.
// CHECK-LABEL: func @fp8
// CHECK: %[[X:.+]] = tile.load_tile
// CHECK: tgpu.barrier
// CHECK-NEXT: %[[HIDDEN:.+]] = tgpu.opaque %[[X]]
// CHECK: tile.fp8_decode %[[HIDDEN]] as f8E5M2
func.func @fp8(%v: !bytes, %w: !tile, %lo: i64, %hi: i64, %step: i64) {
  scf.for %i = %lo to %hi step %step : i64 {
    %x = tile.load_tile %v[%i] shape [32768] : !bytes -> tensor<32768xi8, #wide>
    %a = tile.fp8_decode %x as f8E5M2 : tensor<32768xi8, #wide> -> !tile
    %b = arith.mulf %a, %w : !tile
    tile.print "before" %b : !tile
    tgpu.barrier
    tile.print "product" %b : !tile
  }
  return
}

// The iterations of a loop and later ops read a tile. It would be live in 32 of 64 registers per
// thread; another tile takes the rest. Its bf16 source stays live instead, copied where it is used.
// CHECK-LABEL: func @made_before_a_loop
// CHECK: %[[X:.+]] = tile.load_tile
// CHECK: scf.for
// CHECK: %[[COPY:.+]] = tgpu.opaque %[[X]] {copied}
// CHECK: %[[IN:.+]] = arith.extf %[[COPY]]
// CHECK: tile.print "iteration" %[[IN]]
// CHECK: tgpu.barrier
// CHECK: }
// CHECK-NEXT: %[[AFTER:.+]] = tgpu.opaque %[[X]] {copied}
// CHECK-NEXT: %[[OUT:.+]] = arith.extf %[[AFTER]]
// CHECK-NEXT: tile.print "after" %[[OUT]]
// ROOM-LABEL: func @made_before_a_loop
// ROOM-NOT: tgpu.opaque
func.func @made_before_a_loop(%v: !vec, %w: !vec, %lo: i64, %hi: i64, %step: i64) {
  %x16 = tile.load_tile %v[%lo] shape [32768] : !vec -> !narrow
  %x = arith.extf %x16 : !narrow to !tile
  %y16 = tile.load_tile %w[%lo] shape [32768] : !vec -> !narrow
  %y = arith.extf %y16 : !narrow to !tile
  scf.for %i = %lo to %hi step %step : i64 {
    tile.print "iteration" %x : !tile
    tile.print "other" %y : !tile
    tgpu.barrier
  }
  tile.print "after" %x : !tile
  return
}
