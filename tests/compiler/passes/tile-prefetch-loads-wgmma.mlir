// Dots that wgmma computes from the slots of a ring.
// RUN: ligerdsl-opt %s -tile-assign-layouts=num-warps=4 -tile-prefetch-loads="num-warps=4 shared-bytes=70000" -tgpu-split-dots \
// RUN:   -canonicalize -cse | FileCheck %s
// RUN: ligerdsl-opt %s -tile-assign-layouts="num-warps=4 arch=sm_90" -tile-prefetch-loads="num-warps=4 shared-bytes=70000 arch=sm_90" \
// RUN:   | FileCheck %s --check-prefix=OTHER
// RUN: ligerdsl-opt %s -tile-assign-layouts=num-warps=2 -tile-prefetch-loads="num-warps=2 shared-bytes=70000" -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --check-prefix=WARPS
// RUN: ligerdsl-opt %s -tile-assign-layouts=num-warps=4 -tile-prefetch-loads="num-warps=4 shared-bytes=70000" -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --check-prefix=REMARK
// RUN: ligerdsl-opt %s -tile-assign-layouts=num-warps=4 -tile-prefetch-loads="num-warps=4 shared-bytes=70000" -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --check-prefix=FP8
// OTHER-NOT: wgmma
// WARPS: remark: [tile-prefetch-loads] wgmma: not used: m = 64 and n = 64 with 2 warps; it needs a multiple of 4 warps, m a multiple of 16 per warp, n of at most 256 and at most 192 accumulator elements per thread [wgmma-not-used]

!x = !tile.view<?x?xbf16, strides = [?, 1], align = 16, stride_div = [8, 1]>
!c = !tile.view<?x?xf32, strides = [?, 1], align = 16, stride_div = [4, 1]>

// The loop does not read the accumulator. An iteration starts its wgmma, waits for the previous one,
// then for the next iteration's copies. It then refills the slot that the previous wgmma has read.
// CHECK-LABEL: func.func @overlapping
// CHECK: %[[RING:.+]] = tgpu.ring : <4 async of <64x64xbf16, swizzle = 128>, <64x64xbf16, swizzle = 128>>
// CHECK-COUNT-3: tgpu.ring_fill %[[RING]]
// CHECK: tgpu.ring_await %[[RING]] pending 2 {for_wgmma}
// CHECK: %[[SUMS:.+]]:2 = scf.for
// CHECK: %[[FLIGHT:.+]] = tgpu.wgmma %{{.+}} ring %[[RING]][%[[SLOT:.+]]] {part_a = 0 : i32, part_b = 1 : i32, permuted_b}
// CHECK: %[[WAITED:.+]] = tgpu.wgmma_wait %[[FLIGHT]] pending 1
// CHECK: tgpu.ring_await %[[RING]] pending 1 {for_wgmma}
// CHECK: tgpu.ring_fill %[[RING]]
// CHECK: scf.yield %[[WAITED]]
// CHECK: tgpu.wgmma_wait %[[SUMS]]#0 pending 0
// CHECK: tgpu.ring_await %[[RING]] pending 0
func.func @overlapping(%x: !x {tile.read_only}, %y: !x {tile.read_only}, %c: !c, %n: i64) {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i64 {
    %a = tile.load_tile %x[%c0, %i] shape [64, 64] : !x -> tensor<64x64xbf16>
    %b = tile.load_tile %y[%c0, %i] shape [64, 64] : !x -> tensor<64x64xbf16>
    %t = tile.permute %b [1, 0] : tensor<64x64xbf16> -> tensor<64x64xbf16>
    %s = tile.dot %a, %t, %acc : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xf32>
    scf.yield %s : tensor<64x64xf32>
  } {tile.num_stages = 4 : i64}
  tile.store_tile %sums, %c[%c0, %c0] shape [64, 64] : tensor<64x64xf32>, !c
  return
}

// A persistent loop in one CTA: the ring is outside, and an iteration fills a slot for the third
// iteration after it. Iterations that fill slots of their own tile come first. The last three fill
// slots of the next tile, or of a later one. After the last iteration of a tile, the next tile's
// row is computed.
// CHECK-LABEL: func.func @tile_after_tile
// CHECK: %[[RING:.+]] = tgpu.ring : <4 async of
// CHECK: tgpu.ring_fill %[[RING]][%c0_i32]
// CHECK: tgpu.ring_fill %[[RING]][%c1_i32]
// CHECK: tgpu.ring_fill %[[RING]][%c2_i32]
// CHECK: tgpu.ring_await %[[RING]] pending 2 {for_wgmma}
// CHECK: scf.for %[[MINE:.+]] = %{{.+}} iter_args(%[[SLOT:.+]] = %c0_i32, %[[TILE:.+]] = %{{.+}}, %[[TURN:.+]] = %{{.+}}, %[[ROW:.+]] = %{{.+}})
// CHECK: %[[END:.+]] = arith.subi %{{.+}}, %c3_i64
// CHECK: %[[OWN:.+]]:2 = scf.for %[[AT:.+]] = %c0_i64 to %[[END]] step %c1_i64 iter_args(%{{.+}} = %{{.+}}, %{{.+}} = %[[SLOT]])
// CHECK: %[[AHEAD:.+]] = arith.addi %[[AT]], %c3_i64
// CHECK: tgpu.ring_fill %[[RING]][%{{.+}}] at %[[AHEAD]]
// CHECK: scf.yield
// CHECK: %[[ANY:.+]] = arith.cmpi sgt, %[[END]], %c0_i64
// CHECK: scf.if %[[ANY]]
// CHECK: %[[REST:.+]] = arith.maxsi %[[END]], %c0_i64
// CHECK: %[[LAST:.+]]:5 = scf.for {{.+}} = %[[REST]] to {{.+}} iter_args(%{{.+}} = %[[OWN]]#0, %{{.+}} = %[[OWN]]#1, %{{[a-z0-9]+}} = %{{[^,]+}}, %[[I:[a-z0-9]+]] = %{{[^,]+}}, %[[R:[a-z0-9]+]] = %{{[^,]+}})
// CHECK: tgpu.wgmma_wait %{{.+}} pending 1
// CHECK: tgpu.ring_await %[[RING]] pending 1 {for_wgmma}
// CHECK: tgpu.ring_fill %[[RING]][%{{.+}}] at %[[I]]
// CHECK: ^bb0(%[[P:.+]]: i64)
// CHECK-NEXT: tgpu.yield %[[R]], %[[P]], %[[R]], %[[P]]
// CHECK: %[[OVER:.+]] = arith.cmpi sge
// CHECK: %[[NEXT:.+]] = arith.select %[[OVER]]
// CHECK: scf.if %[[OVER]] -> (i64)
// CHECK: tgpu.wgmma_wait %[[LAST]]#0 pending 0
// CHECK: tile.store_tile
// CHECK: scf.yield %[[LAST]]#1, %[[LAST]]#2, %[[LAST]]#3, %[[LAST]]#4
// CHECK: tgpu.ring_await %[[RING]] pending 0
func.func @tile_after_tile(%x: !x {tile.read_only}, %y: !x {tile.read_only}, %c: !c, %n: i64, %tiles: i64, %few: i64) {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  scf.for %tile = %c0 to %tiles step %c1 : i64 {
    %row = arith.divsi %tile, %few : i64
    %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i64 {
      %a = tile.load_tile %x[%row, %i] shape [64, 64] : !x -> tensor<64x64xbf16>
      %b = tile.load_tile %y[%row, %i] shape [64, 64] : !x -> tensor<64x64xbf16>
      %t = tile.permute %b [1, 0] : tensor<64x64xbf16> -> tensor<64x64xbf16>
      %s = tile.dot %a, %t, %acc : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xf32>
      scf.yield %s : tensor<64x64xf32>
    } {tile.num_stages = 4 : i64}
    tile.store_tile %sums, %c[%row, %c0] shape [64, 64] : tensor<64x64xf32>, !c
  }
  return
}

// The next tile may read what a tile writes, or its index is read from memory that the tile writes.
// CHECK-LABEL: func.func @tile_by_tile
// CHECK: scf.for
// CHECK: tgpu.ring :
// CHECK: tgpu.ring_await %{{.+}} pending 0
// CHECK: tile.store_tile
// REMARK: num_stages = 4: loads are not issued ahead from one iteration of the outer loop to the next: the op at {{.*}} may write what they read; promise that the arguments do not overlap (no_alias) [not-ahead-across-outer-loop]
// REMARK: the next: their indices must be computed from the counters of both loops, values from outside and memory that the outer loop does not write [not-ahead-across-outer-loop]
func.func @tile_by_tile(%x: !x, %c: !c, %n: i64) {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  scf.for %tile = %c0 to %n step %c1 : i64 {
    %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i64 {
      %a = tile.load_tile %x[%tile, %i] shape [64, 64] : !x -> tensor<64x64xbf16>
      %s = tile.dot %a, %a, %acc : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xf32>
      scf.yield %s : tensor<64x64xf32>
    } {tile.num_stages = 4 : i64}
    tile.store_tile %sums, %c[%tile, %c0] shape [64, 64] : tensor<64x64xf32>, !c
  }
  return
}
func.func @places(%x: !x {tile.read_only}, %at: !tile.view<?xi64, strides = [1]>, %c: !c, %n: i64) {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  scf.for %tile = %c0 to %n step %c1 : i64 {
    %row = tile.load_tile %at[%tile] shape [0] : !tile.view<?xi64, strides = [1]> -> i64
    %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i64 {
      %a = tile.load_tile %x[%row, %i] shape [64, 64] : !x -> tensor<64x64xbf16>
      %s = tile.dot %a, %a, %acc : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xf32>
      scf.yield %s : tensor<64x64xf32>
    } {tile.num_stages = 4 : i64}
    tile.store_tile %sums, %c[%tile, %c0] shape [64, 64] : tensor<64x64xf32>, !c
  }
  return
}

// Indices must also be computed for tiles that do not exist. A load through a pointer has no bounds
// check there, and a divisor from memory may be 0.
// REMARK: the next: their indices must be computed from the counters of both loops, values from outside and memory that the outer loop does not write [not-ahead-across-outer-loop]
// REMARK: the next: their indices must be computed from the counters of both loops, values from outside and memory that the outer loop does not write [not-ahead-across-outer-loop]
// CHECK-LABEL: func.func @pointer
// CHECK: scf.for
// CHECK: tgpu.ring :
func.func @pointer(%x: !x {tile.read_only}, %p: !tile.ptr<i64> {tile.read_only}, %c: !c, %n: i64) {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  scf.for %tile = %c0 to %n step %c1 : i64 {
    %q = tile.addptr %p, %tile : !tile.ptr<i64>, i64 -> !tile.ptr<i64>
    %row = tile.load %q : !tile.ptr<i64> -> i64
    %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i64 {
      %a = tile.load_tile %x[%row, %i] shape [64, 64] : !x -> tensor<64x64xbf16>
      %s = tile.dot %a, %a, %acc : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xf32>
      scf.yield %s : tensor<64x64xf32>
    } {tile.num_stages = 4 : i64}
    tile.store_tile %sums, %c[%tile, %c0] shape [64, 64] : tensor<64x64xf32>, !c
  }
  return
}
func.func @divisor(%x: !x {tile.read_only}, %at: !tile.view<?xi64, strides = [1]> {tile.read_only}, %c: !c, %n: i64) {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  scf.for %tile = %c0 to %n step %c1 : i64 {
    %of = tile.load_tile %at[%tile] shape [0] : !tile.view<?xi64, strides = [1]> -> i64
    %row = arith.divsi %tile, %of : i64
    %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i64 {
      %a = tile.load_tile %x[%row, %i] shape [64, 64] : !x -> tensor<64x64xbf16>
      %s = tile.dot %a, %a, %acc : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xf32>
      scf.yield %s : tensor<64x64xf32>
    } {tile.num_stages = 4 : i64}
    tile.store_tile %sums, %c[%tile, %c0] shape [64, 64] : tensor<64x64xf32>, !c
  }
  return
}

// A triangle: the outer counter is the inner loop's upper bound.
// CHECK-LABEL: func.func @triangle
// CHECK: tgpu.ring : <4 async of
// CHECK: scf.while
// CHECK: scf.for
// CHECK: scf.for
// CHECK: tgpu.ring_fill
// CHECK: tile.store_tile
func.func @triangle(%x: !x {tile.read_only}, %c: !c, %n: i64) {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  scf.for %tile = %c0 to %n step %c1 : i64 {
    %sums = scf.for %i = %c0 to %tile step %c1 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i64 {
      %a = tile.load_tile %x[%tile, %i] shape [64, 64] : !x -> tensor<64x64xbf16>
      %s = tile.dot %a, %a, %acc : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xf32>
      scf.yield %s : tensor<64x64xf32>
    } {tile.num_stages = 4 : i64}
    tile.store_tile %sums, %c[%tile, %c0] shape [64, 64] : tensor<64x64xf32>, !c
  }
  return
}

// Segments of rows with bounds from memory, some without iterations: copies continue with the next
// segment that has iterations, and with its slice.
// CHECK-LABEL: func.func @segments
// CHECK: %[[RING:.+]] = tgpu.ring : <4 async of
// CHECK: scf.while
// CHECK: tile.slice
// CHECK: tgpu.ring_fill %[[RING]]
// CHECK: scf.for
// CHECK: scf.for
// CHECK: tgpu.ring_fill %[[RING]]
// CHECK: scf.if
// CHECK: scf.while
// CHECK: scf.for
// CHECK: tgpu.ring_fill %[[RING]]
// CHECK: scf.if
// CHECK: scf.while
// CHECK: tile.store_tile
func.func @segments(%x: !x {tile.read_only}, %ends: !tile.view<?xi64, strides = [1]> {tile.read_only}, %c: !c, %n: i64) {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %c64 = arith.constant 64 : i64
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  scf.for %tile = %c0 to %n step %c1 : i64 {
    %next = arith.addi %tile, %c1 : i64
    %begin = tile.load_tile %ends[%tile] shape [0] : !tile.view<?xi64, strides = [1]> -> i64
    %end = tile.load_tile %ends[%next] shape [0] : !tile.view<?xi64, strides = [1]> -> i64
    %rows = arith.subi %end, %begin : i64
    %iterations = arith.ceildivsi %rows, %c64 : i64
    %of = tile.slice %x, 0 from %begin to %end : !x -> !x
    %sums = scf.for %i = %c0 to %iterations step %c1 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i64 {
      %a = tile.load_tile %of[%i, %c0] shape [64, 64] : !x -> tensor<64x64xbf16>
      %t = tile.permute %a [1, 0] : tensor<64x64xbf16> -> tensor<64x64xbf16>
      %s = tile.dot %t, %a, %acc : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xf32>
      scf.yield %s : tensor<64x64xf32>
    } {tile.num_stages = 4 : i64}
    tile.store_tile %sums, %c[%tile, %c0] shape [64, 64] : tensor<64x64xf32>, !c
  }
  return
}

// The accumulator is scaled and operand A is in registers, so the wgmma is awaited where it starts.
// CHECK-LABEL: func.func @scaled
// CHECK: scf.for
// CHECK: tgpu.ring_await %[[RING:.+]] pending 2 {for_wgmma}
// CHECK: tgpu.ring_fill %[[RING]]
// CHECK: %[[FLIGHT:.+]] = tgpu.wgmma %{{.+}} rows %{{.+}} ring %[[RING]][%{{.+}}] {part_b = 0 : i32}
// CHECK-NEXT: tgpu.wgmma_wait %[[FLIGHT]] pending 0
// CHECK: scf.yield
func.func @scaled(%x: !x {tile.read_only}, %y: !x {tile.read_only}, %c: !c, %n: i64) {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %half = arith.constant dense<0.5> : tensor<64x64xf32>
  %a = tile.load_tile %x[%c0, %c0] shape [64, 64] : !x -> tensor<64x64xbf16>
  %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i64 {
    %b = tile.load_tile %y[%i, %c0] shape [64, 64] : !x -> tensor<64x64xbf16>
    %less = arith.mulf %acc, %half : tensor<64x64xf32>
    %s = tile.dot %a, %b, %less : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xf32>
    scf.yield %s : tensor<64x64xf32>
  } {tile.num_stages = 4 : i64}
  tile.store_tile %sums, %c[%c0, %c0] shape [64, 64] : tensor<64x64xf32>, !c
  return
}

// Each wgmma starts where it is in the program and is awaited where its result is read. The second
// wgmma is in flight while the result of the first is processed, until the next iteration's operand
// A is rounded.
// CHECK-LABEL: func.func @ahead
// CHECK: scf.for {{.+}} iter_args(%[[SUMS:.+]] = %{{.+}}, %{{.+}} = %{{.+}}, %[[SLOT:.+]] = %c0_i32)
// CHECK: %[[FIRST:.+]] = tgpu.wgmma %{{.+}} rows %{{.+}} ring %[[RING:.+]][%[[SLOT]]]
// CHECK: %[[SECOND:.+]] = tgpu.wgmma %[[SUMS]] rows %{{.+}} ring %[[RING]][%[[SLOT]]]
// CHECK: %[[SCORES:.+]] = tgpu.wgmma_wait %[[FIRST]] pending 1
// CHECK: %[[POWERS:.+]] = math.exp2 %[[SCORES]]
// CHECK: %[[DONE:.+]] = tgpu.wgmma_wait %[[SECOND]] pending 0
// CHECK: %[[NEXT:.+]] = arith.truncf %[[POWERS]]
// CHECK: scf.yield %[[DONE]], %[[NEXT]]
func.func @ahead(%x: !x {tile.read_only}, %y: !x {tile.read_only}, %z: !x {tile.read_only}, %c: !c, %n: i64) {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %none = arith.constant dense<0.0> : tensor<64x64xbf16>
  %a = tile.load_tile %x[%c0, %c0] shape [64, 64] : !x -> tensor<64x64xbf16>
  %sums:2 = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero, %p = %none) -> (tensor<64x64xf32>, tensor<64x64xbf16>) : i64 {
    %b = tile.load_tile %y[%i, %c0] shape [64, 64] : !x -> tensor<64x64xbf16>
    %v = tile.load_tile %z[%i, %c0] shape [64, 64] : !x -> tensor<64x64xbf16>
    %s = tile.dot %a, %b, %zero : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xf32>
    %o = tile.dot %p, %v, %acc : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xf32>
    %e = math.exp2 %s : tensor<64x64xf32>
    %q = arith.truncf %e : tensor<64x64xf32> to tensor<64x64xbf16>
    scf.yield %o, %q : tensor<64x64xf32>, tensor<64x64xbf16>
  } {tile.num_stages = 2 : i64}
  tile.store_tile %sums#0, %c[%c0, %c0] shape [64, 64] : tensor<64x64xf32>, !c
  return
}

!e = !tile.view<?x?xi8, strides = [?, 1], align = 16, stride_div = [16, 1]>

// fp8 operands, both contiguous along k. A pad of code 0 is the 0 that copies pad with.
// CHECK-LABEL: func.func @eight_bits
// CHECK: %[[RING:.+]] = tgpu.ring : <4 async of <64x128xi8, swizzle = 128>, <64x128xi8, swizzle = 128>>
// CHECK: tgpu.wgmma %{{.+}} ring %[[RING]][%{{.+}}] {format_a = f8E4M3FN, format_b = f8E5M2, part_a = 0 : i32, part_b = 1 : i32, permuted_b}
func.func @eight_bits(%x: !e {tile.read_only}, %y: !e {tile.read_only}, %c: !c, %n: i64) {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i64 {
    %a = tile.load_tile %x[%c0, %i] shape [64, 128] : !e -> tensor<64x128xi8>
    %b = tile.load_tile %y[%c0, %i] shape [64, 128] {pad = 0 : i8} : !e -> tensor<64x128xi8>
    %t = tile.permute %b [1, 0] : tensor<64x128xi8> -> tensor<128x64xi8>
    %s = tile.dot %a, %t, %acc {format_a = f8E4M3FN, format_b = f8E5M2} : tensor<64x128xi8>, tensor<128x64xi8> -> tensor<64x64xf32>
    scf.yield %s : tensor<64x64xf32>
  } {tile.num_stages = 4 : i64}
  tile.store_tile %sums, %c[%c0, %c0] shape [64, 64] : tensor<64x64xf32>, !c
  return
}

// Operand B is not contiguous along k, so mma.sync multiplies the operands, converted to f16.
// FP8: remark: [tile-prefetch-loads] wgmma: not used: fp8 operands must be loaded in the dot's pipelined loop, in rows along k of a multiple of 32 bytes: load A as [m, k], and B as [n, k] with .permute(); mma.sync computes the dot in f16 [wgmma-not-used]
// CHECK-LABEL: func.func @eight_bits_by_columns
// CHECK-NOT: tgpu.wgmma
// CHECK: tile.dot {{.*}} {format_a = f8E4M3FN, format_b = f8E4M3FN}
// CHECK-NOT: tgpu.wgmma
func.func @eight_bits_by_columns(%x: !e {tile.read_only}, %y: !e {tile.read_only}, %c: !c, %n: i64) {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i64 {
    %a = tile.load_tile %x[%c0, %i] shape [64, 64] : !e -> tensor<64x64xi8>
    %b = tile.load_tile %y[%i, %c0] shape [64, 64] : !e -> tensor<64x64xi8>
    %s = tile.dot %a, %b, %acc {format_a = f8E4M3FN, format_b = f8E4M3FN} : tensor<64x64xi8>, tensor<64x64xi8> -> tensor<64x64xf32>
    scf.yield %s : tensor<64x64xf32>
  } {tile.num_stages = 4 : i64}
  tile.store_tile %sums, %c[%c0, %c0] shape [64, 64] : tensor<64x64xf32>, !c
  return
}

!w = !tile.view<?x?xi32, strides = [?, 1], align = 16, stride_div = [4, 1]>

// i8 operands with an i32 accumulator.
// CHECK-LABEL: func.func @whole_numbers
// CHECK: %[[RING:.+]] = tgpu.ring : <4 async of <64x128xi8, swizzle = 128>, <64x128xi8, swizzle = 128>>
// CHECK: %[[SUMS:.+]]:2 = scf.for
// CHECK: %[[FLIGHT:.+]] = tgpu.wgmma %{{.+}} ring %[[RING]][%{{.+}}] {part_a = 0 : i32, part_b = 1 : i32, permuted_b} : tensor<64x64xi32
// CHECK: tgpu.wgmma_wait %[[FLIGHT]] pending 1
// CHECK: tgpu.wgmma_wait %[[SUMS]]#0 pending 0
func.func @whole_numbers(%x: !e {tile.read_only}, %y: !e {tile.read_only}, %c: !w, %n: i64) {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %zero = arith.constant dense<0> : tensor<64x64xi32>
  %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x64xi32>) : i64 {
    %a = tile.load_tile %x[%c0, %i] shape [64, 128] : !e -> tensor<64x128xi8>
    %b = tile.load_tile %y[%c0, %i] shape [64, 128] : !e -> tensor<64x128xi8>
    %t = tile.permute %b [1, 0] : tensor<64x128xi8> -> tensor<128x64xi8>
    %s = tile.dot %a, %t, %acc : tensor<64x128xi8>, tensor<128x64xi8> -> tensor<64x64xi32>
    scf.yield %s : tensor<64x64xi32>
  } {tile.num_stages = 4 : i64}
  tile.store_tile %sums, %c[%c0, %c0] shape [64, 64] : tensor<64x64xi32>, !w
  return
}

// Operand A is not contiguous along k, or wgmma does not support the number of columns.
// FP8: remark: [tile-assign-layouts] an i8 operand is read byte by byte: it is not contiguous along k; store it with k along its rows [i8-read-by-bytes]
// FP8-NOT: byte by byte
// FP8: remark: [tile-prefetch-loads] wgmma: not used: i8 operands must be loaded in the dot's pipelined loop, in rows along k of a multiple of 32 bytes: load A as [m, k], and B as [n, k] with .permute() [wgmma-not-used]
// FP8-NOT: byte by byte
// FP8: remark: [tile-prefetch-loads] wgmma: not used: n = 40, and with i8 operands n above 32 must be a multiple of 16 [wgmma-not-used]
// CHECK-LABEL: func.func @whole_numbers_by_columns
// CHECK-NOT: tgpu.wgmma
// CHECK: tile.dot {{.*}} : tensor<64x32xi8, {{.*}} -> tensor<64x64xi32
// CHECK-NOT: tgpu.wgmma
func.func @whole_numbers_by_columns(%x: !e {tile.read_only}, %y: !e {tile.read_only}, %c: !w, %n: i64) {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %zero = arith.constant dense<0> : tensor<64x64xi32>
  %few = arith.constant dense<0> : tensor<64x40xi32>
  %sums:2 = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero, %less = %few) -> (tensor<64x64xi32>, tensor<64x40xi32>) : i64 {
    %a = tile.load_tile %x[%i, %c0] shape [64, 64] : !e -> tensor<64x64xi8>
    %rows = tile.permute %a [1, 0] : tensor<64x64xi8> -> tensor<64x64xi8>
    %b = tile.load_tile %y[%c0, %i] shape [64, 64] : !e -> tensor<64x64xi8>
    %t = tile.permute %b [1, 0] : tensor<64x64xi8> -> tensor<64x64xi8>
    %s = tile.dot %rows, %t, %acc : tensor<64x64xi8>, tensor<64x64xi8> -> tensor<64x64xi32>
    %d = tile.load_tile %x[%c1, %i] shape [64, 32] : !e -> tensor<64x32xi8>
    %e = tile.load_tile %y[%c1, %i] shape [40, 32] : !e -> tensor<40x32xi8>
    %f = tile.permute %e [1, 0] : tensor<40x32xi8> -> tensor<32x40xi8>
    %g = tile.dot %d, %f, %less : tensor<64x32xi8>, tensor<32x40xi8> -> tensor<64x40xi32>
    scf.yield %s, %g : tensor<64x64xi32>, tensor<64x40xi32>
  } {tile.num_stages = 3 : i64}
  tile.store_tile %sums#0, %c[%c0, %c0] shape [64, 64] : tensor<64x64xi32>, !w
  tile.store_tile %sums#1, %c[%c1, %c0] shape [64, 40] : tensor<64x40xi32>, !w
  return
}

// Only TMA copies round f32 to tf32.
// FP8: remark: [tile-prefetch-loads] wgmma: not used: wgmma does not round f32 to tf32, and the loop's copies to shared memory do so only with tensor_copies = true; set it [wgmma-not-used]
// CHECK-LABEL: func.func @tf32
// CHECK: tgpu.ring : <4 async of <64x32xf32, swizzle = 128>, <64x32xf32, swizzle = 128>>
// CHECK-NOT: tgpu.wgmma
// CHECK: tile.dot {{.*}} {tf32} : tensor<64x8xf32, {{.*}}, tensor<8x64xf32
// CHECK-NOT: tgpu.wgmma
func.func @tf32(%x: !c {tile.read_only}, %y: !c {tile.read_only}, %c: !c, %n: i64) {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i64 {
    %a = tile.load_tile %x[%c0, %i] shape [64, 32] : !c -> tensor<64x32xf32>
    %b = tile.load_tile %y[%c0, %i] shape [64, 32] : !c -> tensor<64x32xf32>
    %t = tile.permute %b [1, 0] : tensor<64x32xf32> -> tensor<32x64xf32>
    %s = tile.dot %a, %t, %acc {tf32} : tensor<64x32xf32>, tensor<32x64xf32> -> tensor<64x64xf32>
    scf.yield %s : tensor<64x64xf32>
  } {tile.num_stages = 4 : i64}
  tile.store_tile %sums, %c[%c0, %c0] shape [64, 64] : tensor<64x64xf32>, !c
  return
}
