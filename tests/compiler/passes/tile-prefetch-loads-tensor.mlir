// Operands that TMA copies load as whole tiles.
// RUN: ligerdsl-opt %s -tile-assign-layouts=num-warps=4 -tile-prefetch-loads="num-warps=4 shared-bytes=100000" -tgpu-split-dots \
// RUN:   -canonicalize -cse | FileCheck %s
// RUN: ligerdsl-opt %s -tile-assign-layouts=num-warps=4 -tile-prefetch-loads="num-warps=4 shared-bytes=100000" -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --check-prefix=REMARK
// RUN: ligerdsl-opt %s -tile-assign-layouts="num-warps=4 arch=sm_90" -tile-prefetch-loads="num-warps=4 shared-bytes=100000 arch=sm_90" \
// RUN:   -o /dev/null 2>&1 | FileCheck %s --check-prefix=OTHER
// RUN: ligerdsl-opt %s -tile-assign-layouts=num-warps=4 -tile-prefetch-loads="num-warps=4 shared-bytes=67552" -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --check-prefix=ROOM
// OTHER: tensor_copies = true: not done: {{sm_[0-9]+}} has no wgmma; only target sm_90a has it [no-tensor-copies]
// ROOM: tensor_copies = true: not done: the tiles and mbarriers take {{[0-9]+}} bytes of shared memory per CTA, and {{[0-9]+}} are left; use smaller tiles or fewer stages [no-tensor-copies]

!x = !tile.view<?x?xbf16, strides = [?, 1], align = 16, stride_div = [8, 1]>
!heads = !tile.view<?x?x8x64xbf16, strides = [?, ?, ?, 1], align = 16, stride_div = [8, 8, 8, 1]>
!c = !tile.view<?x?xf32, strides = [?, 1], align = 16, stride_div = [4, 1]>

// An iteration waits for its slot, starts its wgmma, and waits for the previous one and for all
// threads. Then one thread refills the slot that the previous wgmma has read, if an iteration needs
// it. After the loop no copy is in flight and all threads have synchronised, so the memory is free.
// CHECK-LABEL: func.func @overlapping
// CHECK: %[[RING:.+]] = tgpu.ring : <4 tensor of <64x64xbf16, swizzle = 128>, <64x64xbf16, swizzle = 128>>
// CHECK: %[[ANY:.+]] = arith.cmpi sgt, %[[N:.+]], %c0_i64
// CHECK: %[[COUNT:.+]] = arith.extui %[[ANY]] : i1 to i32
// CHECK: tgpu.ring_fill %[[RING]][%c0_i32] at %c0_i64 count %[[COUNT]] from %{{.+}}, %{{.+}} shape [64, 64, 64, 64] :
// CHECK: tgpu.ring_fill %[[RING]][%c1_i32] at %c1_i64 count
// CHECK: tgpu.ring_fill %[[RING]][%c2_i32] at %c2_i64 count
// CHECK-NOT: tgpu.ring_await
// CHECK: %[[SUMS:.+]]:3 = scf.for %[[I:.+]] = {{.+}} iter_args(%{{.+}} = %{{.+}}, %[[SLOT:.+]] = %c0_i32, %[[PARITY:.+]] = %c0_i32)
// CHECK: tgpu.ring_await %[[RING]][%[[SLOT]]] parity %[[PARITY]]
// CHECK: %[[WRAPS:.+]] = arith.cmpi eq, %[[SLOT]], %c3_i32
// CHECK: %[[NEXT:.+]] = arith.select %[[WRAPS]], %c0_i32
// CHECK: %[[FLIP:.+]] = arith.extui %[[WRAPS]]
// CHECK: %[[TURNED:.+]] = arith.xori %[[PARITY]], %[[FLIP]]
// CHECK: %[[FLIGHT:.+]] = tgpu.wgmma %{{.+}} ring %[[RING]][%[[SLOT]]] {part_a = 0 : i32, part_b = 1 : i32, permuted_b}
// CHECK-NEXT: %[[WAITED:.+]] = tgpu.wgmma_wait %[[FLIGHT]] pending 1
// CHECK-NEXT: tgpu.ring_release %[[RING]]
// CHECK: %[[MORE:.+]] = arith.cmpi slt, %{{.+}}, %[[N]]
// CHECK: %[[LATER:.+]] = arith.extui %[[MORE]] : i1 to i32
// CHECK: tgpu.ring_fill %[[RING]][%{{.+}}] at %{{.+}} count %[[LATER]]
// CHECK: scf.yield %[[WAITED]], %[[NEXT]], %[[TURNED]]
// CHECK: tgpu.wgmma_wait %[[SUMS]]#0 pending 0
// CHECK-NEXT: tgpu.ring_release %[[RING]]
// CHECK-NOT: tgpu.ring_await
// CHECK: return
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
  } {tile.num_stages = 4 : i64, tile.tensor_copies}
  tile.store_tile %sums, %c[%c0, %c0] shape [64, 64] : tensor<64x64xf32>, !c
  return
}

// A persistent loop: slot and parity continue from one tile to the next. The last tile loads
// nothing beyond its iterations.
// CHECK-LABEL: func.func @tile_after_tile
// CHECK: %[[RING:.+]] = tgpu.ring : <4 tensor of
// CHECK-COUNT-3: tgpu.ring_fill %[[RING]]
// CHECK: scf.for %[[MINE:.+]] = %{{.+}} iter_args(%[[SLOT:.+]] = %c0_i32, %[[PARITY:.+]] = %c0_i32, %{{.+}} = %{{.+}}, %{{.+}} = %{{.+}}, %{{.+}} = %{{.+}})
// CHECK: %[[OWN:.+]]:3 = scf.for %{{.+}} iter_args(%{{.+}} = %{{.+}}, %{{.+}} = %[[SLOT]], %{{.+}} = %[[PARITY]])
// CHECK: tgpu.ring_await %[[RING]][%{{.+}}] parity
// CHECK: tgpu.ring_release
// CHECK: tgpu.ring_fill
// CHECK: %[[LAST:.+]]:6 = scf.for {{.+}} iter_args(%{{.+}} = %[[OWN]]#0, %{{.+}} = %[[OWN]]#1, %{{.+}} = %[[OWN]]#2, %[[T:[a-z0-9]+]] = %{{[^,]+}}, %[[I:[a-z0-9]+]] = %{{[^,]+}}, %{{.+}} = %{{[^,]+}})
// CHECK: tgpu.ring_await %[[RING]][%{{.+}}] parity
// CHECK: tgpu.ring_release
// CHECK: %[[OUTER:.+]] = arith.cmpi slt, %[[T]], %{{.+}}
// CHECK: %[[INNER:.+]] = arith.cmpi slt, %[[I]], %{{.+}}
// CHECK: %[[BOTH:.+]] = arith.andi %[[OUTER]], %[[INNER]]
// CHECK: %[[COUNT:.+]] = arith.extui %[[BOTH]]
// CHECK: tgpu.ring_fill %[[RING]][%{{.+}}] at %[[I]] count %[[COUNT]]
// CHECK-NOT: tgpu.ring_await
// CHECK: return
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
    } {tile.num_stages = 4 : i64, tile.tensor_copies}
    tile.store_tile %sums, %c[%row, %c0] shape [64, 64] : tensor<64x64xf32>, !c
  }
  return
}

// Obstacles: too few stages, one stage, an operand that is computed in registers, stores that may
// write an operand, an outer loop without a counter.
// CHECK-LABEL: func.func @two_stages
// CHECK: tgpu.ring : <2 async of
// REMARK: num_stages = 2: tensor_copies = true: not done: TMA copies of a loop that only accumulates need 3 stages, and it has 2; raise num_stages or use smaller tiles [no-tensor-copies]
func.func @two_stages(%x: !x {tile.read_only}, %c: !c, %n: i64) {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i64 {
    %a = tile.load_tile %x[%c0, %i] shape [64, 64] : !x -> tensor<64x64xbf16>
    %b = tile.load_tile %x[%i, %c0] shape [64, 64] : !x -> tensor<64x64xbf16>
    %s = tile.dot %a, %b, %acc : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xf32>
    scf.yield %s : tensor<64x64xf32>
  } {tile.num_stages = 2 : i64, tile.tensor_copies}
  tile.store_tile %sums, %c[%c0, %c0] shape [64, 64] : tensor<64x64xf32>, !c
  return
}
// REMARK: num_stages = 1: tensor_copies = true: not done: TMA copies need two stages or more; raise num_stages [no-tensor-copies]
func.func @one_stage(%x: !x {tile.read_only}, %c: !c, %n: i64) {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i64 {
    %a = tile.load_tile %x[%c0, %i] shape [64, 64] : !x -> tensor<64x64xbf16>
    %s = tile.dot %a, %a, %acc : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xf32>
    scf.yield %s : tensor<64x64xf32>
  } {tile.num_stages = 1 : i64, tile.tensor_copies}
  tile.store_tile %sums, %c[%c0, %c0] shape [64, 64] : tensor<64x64xf32>, !c
  return
}
// The loop reads the accumulator: an iteration waits for its slot, and at the release for the
// readers of the previous slot, which it refills. It waits for its wgmma before the accumulator is
// read.
// CHECK-LABEL: func.func @scaled
// CHECK: %[[RING:.+]] = tgpu.ring : <4 tensor of
// CHECK: scf.for
// CHECK: tgpu.ring_await %[[RING]][%[[SLOT:.+]]] parity
// CHECK: tgpu.ring_release %[[RING]]
// CHECK: tgpu.ring_fill %[[RING]]
// CHECK: %[[FLIGHT:.+]] = tgpu.wgmma %{{.+}} rows %{{.+}} ring %[[RING]][%[[SLOT]]] {part_b = 0 : i32}
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
  } {tile.num_stages = 4 : i64, tile.tensor_copies}
  tile.store_tile %sums, %c[%c0, %c0] shape [64, 64] : tensor<64x64xf32>, !c
  return
}
// A tile of one head: the squeezed dimensions of the view have size one in the box.
// CHECK-LABEL: func.func @squeezed
// CHECK: tgpu.ring : <2 tensor of <64x64xbf16, swizzle = 128>>
// CHECK: tgpu.ring_fill {{.+}} shape [0, 64, 0, 64]
func.func @squeezed(%x: !x {tile.read_only}, %y: !heads {tile.read_only}, %c: !c, %n: i64) {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %half = arith.constant dense<0.5> : tensor<64x64xf32>
  %a = tile.load_tile %x[%c0, %c0] shape [64, 64] : !x -> tensor<64x64xbf16>
  %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i64 {
    %b = tile.load_tile %y[%c0, %i, %c1, %c0] shape [0, 64, 0, 64] : !heads -> tensor<64x64xbf16>
    %less = arith.mulf %acc, %half : tensor<64x64xf32>
    %s = tile.dot %a, %b, %less : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xf32>
    scf.yield %s : tensor<64x64xf32>
  } {tile.num_stages = 2 : i64, tile.tensor_copies}
  tile.store_tile %sums, %c[%c0, %c0] shape [64, 64] : tensor<64x64xf32>, !c
  return
}
// REMARK: tensor_copies = true: not done: wgmma can compute {{[0-9]+}} of the loop's {{[0-9]+}} dots, and must compute all of them [no-tensor-copies]
func.func @computed(%x: !x {tile.read_only}, %y: !x {tile.read_only}, %c: !c, %n: i64) {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %a = tile.load_tile %x[%c0, %c0] shape [64, 64] : !x -> tensor<64x64xbf16>
  %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i64 {
    %b = tile.load_tile %y[%i, %c0] shape [64, 64] : !x -> tensor<64x64xbf16>
    %s = tile.dot %a, %b, %acc : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xf32>
    %m = arith.negf %a : tensor<64x64xbf16>
    %t = tile.dot %a, %m, %s : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xf32>
    scf.yield %t : tensor<64x64xf32>
  } {tile.num_stages = 4 : i64, tile.tensor_copies}
  tile.store_tile %sums, %c[%c0, %c0] shape [64, 64] : tensor<64x64xf32>, !c
  return
}
// REMARK: tensor_copies = true: not done: the op at {{.*}} may write what they read; promise that the arguments do not overlap (no_alias) [no-tensor-copies]
func.func @written(%x: !x, %y: !x {tile.read_only}, %c: !c, %n: i64) {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i64 {
    %a = tile.load_tile %x[%c0, %i] shape [64, 64] : !x -> tensor<64x64xbf16>
    %b = tile.load_tile %y[%i, %c0] shape [64, 64] : !x -> tensor<64x64xbf16>
    %s = tile.dot %a, %b, %acc : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xf32>
    scf.yield %s : tensor<64x64xf32>
  } {tile.num_stages = 4 : i64, tile.tensor_copies}
  tile.store_tile %sums, %c[%c0, %c0] shape [64, 64] : tensor<64x64xf32>, !c
  return
}
// The pipeline of this loop ends with each tile: the first copies wait for the previous tile. The
// position in the ring continues, also through the branch of the next function.
// CHECK-LABEL: func.func @bounds
// CHECK: %[[RING:.+]] = tgpu.ring : <4 tensor of
// CHECK: scf.for %{{.+}} iter_args(%[[SLOT:.+]] = %c0_i32, %[[PARITY:.+]] = %c0_i32)
// CHECK: tgpu.ring_fill %[[RING]][%[[SLOT]]] at
// CHECK: %[[LEFT:.+]]:3 = scf.for {{.+}} iter_args(%{{.+}} = %{{.+}}, %{{.+}} = %[[SLOT]], %{{.+}} = %[[PARITY]])
// CHECK: tgpu.ring_await %[[RING]]
// CHECK: tgpu.ring_release %[[RING]]
// CHECK: scf.yield %[[LEFT]]#1, %[[LEFT]]#2
func.func @bounds(%x: !x {tile.read_only}, %y: !x {tile.read_only}, %c: !c, %n: i64) {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  scf.for %tile = %c0 to %n step %c1 : i64 {
    %sums = scf.for %i = %tile to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i64 {
      %a = tile.load_tile %x[%tile, %i] shape [64, 64] : !x -> tensor<64x64xbf16>
      %b = tile.load_tile %y[%i, %tile] shape [64, 64] : !x -> tensor<64x64xbf16>
      %s = tile.dot %a, %b, %acc : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xf32>
      scf.yield %s : tensor<64x64xf32>
    } {tile.num_stages = 4 : i64, tile.tensor_copies}
    tile.store_tile %sums, %c[%tile, %c0] shape [64, 64] : tensor<64x64xf32>, !c
  }
  return
}
// CHECK-LABEL: func.func @branch
// CHECK: %[[RING:.+]] = tgpu.ring : <4 tensor of
// CHECK: scf.for %{{.+}} iter_args(%[[SLOT:.+]] = %c0_i32, %[[PARITY:.+]] = %c0_i32)
// CHECK: %[[PLACE:.+]]:2 = scf.if
// CHECK: tgpu.ring_fill %[[RING]][%[[SLOT]]] at
// CHECK: %[[LEFT:.+]]:3 = scf.for {{.+}} iter_args(%{{.+}} = %{{.+}}, %{{.+}} = %[[SLOT]], %{{.+}} = %[[PARITY]])
// CHECK: scf.yield %[[LEFT]]#1, %[[LEFT]]#2
// CHECK: else
// CHECK-NEXT: scf.yield %[[SLOT]], %[[PARITY]]
// CHECK: scf.yield %[[PLACE]]#0, %[[PLACE]]#1
func.func @branch(%x: !x {tile.read_only}, %y: !x {tile.read_only}, %c: !c, %n: i64) {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  scf.for %tile = %c0 to %n step %c1 : i64 {
    %some = arith.cmpi ne, %tile, %c1 : i64
    scf.if %some {
      %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i64 {
        %a = tile.load_tile %x[%tile, %i] shape [64, 64] : !x -> tensor<64x64xbf16>
        %b = tile.load_tile %y[%i, %tile] shape [64, 64] : !x -> tensor<64x64xbf16>
        %s = tile.dot %a, %b, %acc : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xf32>
        scf.yield %s : tensor<64x64xf32>
      } {tile.num_stages = 4 : i64, tile.tensor_copies}
      tile.store_tile %sums, %c[%tile, %c0] shape [64, 64] : tensor<64x64xf32>, !c
    }
  }
  return
}
// REMARK: tensor_copies = true: not done: a while loop encloses the loop; use a counted loop [no-tensor-copies]
func.func @uncounted(%x: !x {tile.read_only}, %y: !x {tile.read_only}, %c: !c, %n: i64) {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %last = scf.while (%tile = %c0) : (i64) -> i64 {
    %more = arith.cmpi slt, %tile, %n : i64
    scf.condition(%more) %tile : i64
  } do {
  ^bb0(%tile: i64):
    %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i64 {
      %a = tile.load_tile %x[%tile, %i] shape [64, 64] : !x -> tensor<64x64xbf16>
      %b = tile.load_tile %y[%i, %tile] shape [64, 64] : !x -> tensor<64x64xbf16>
      %s = tile.dot %a, %b, %acc : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xf32>
      scf.yield %s : tensor<64x64xf32>
    } {tile.num_stages = 4 : i64, tile.tensor_copies}
    tile.store_tile %sums, %c[%tile, %c0] shape [64, 64] : tensor<64x64xf32>, !c
    %next = arith.addi %tile, %c1 : i64
    scf.yield %next : i64
  }
  return
}

// TMA copies load slices along one dimension other than the last, of views with up to three
// dimensions. Other slices use cp.async.
!three = !tile.view<?x?x64xbf16, strides = [?, ?, 1], align = 16, stride_div = [8, 8, 1]>
!four = !tile.view<?x?x?x64xbf16, strides = [?, ?, ?, 1], align = 16, stride_div = [8, 8, 8, 1]>
// CHECK-LABEL: func.func @slices
// CHECK: tgpu.ring : <4 tensor of
func.func @slices(%x: !x {tile.read_only}, %y: !three {tile.read_only}, %c: !c, %n: i64, %m: i64) {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %u = tile.slice %x, 0 from %n to %m : !x -> !x
  %v = tile.slice %y, 1 from %n to %m : !three -> !three
  %w = tile.slice %v, 1 from %n to %m : !three -> !three
  %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i64 {
    %a = tile.load_tile %u[%c0, %i] shape [64, 64] : !x -> tensor<64x64xbf16>
    %b = tile.load_tile %w[%c1, %i, %c0] shape [0, 64, 64] : !three -> tensor<64x64xbf16>
    %s = tile.dot %a, %b, %acc : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xf32>
    scf.yield %s : tensor<64x64xf32>
  } {tile.num_stages = 4 : i64, tile.tensor_copies}
  tile.store_tile %sums, %c[%c0, %c0] shape [64, 64] : tensor<64x64xf32>, !c
  return
}
// CHECK-LABEL: func.func @slices_of_four_dimensions
// CHECK: tgpu.ring : <4 async of
// REMARK: tensor_copies = true: not done: the view is sliced and has 4 dimensions, and TMA copies of a sliced view take at most 3 [no-tensor-copies]
func.func @slices_of_four_dimensions(%x: !x {tile.read_only}, %y: !four {tile.read_only}, %c: !c, %n: i64, %m: i64) {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %v = tile.slice %y, 1 from %n to %m : !four -> !four
  %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i64 {
    %a = tile.load_tile %x[%c0, %i] shape [64, 64] : !x -> tensor<64x64xbf16>
    %b = tile.load_tile %v[%c1, %i, %c1, %c0] shape [0, 64, 0, 64] : !four -> tensor<64x64xbf16>
    %s = tile.dot %a, %b, %acc : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xf32>
    scf.yield %s : tensor<64x64xf32>
  } {tile.num_stages = 4 : i64, tile.tensor_copies}
  tile.store_tile %sums, %c[%c0, %c0] shape [64, 64] : tensor<64x64xf32>, !c
  return
}
// CHECK-LABEL: func.func @slices_along_two_dimensions
// CHECK: tgpu.ring : <4 async of
// REMARK: tensor_copies = true: not done: the view is sliced along several dimensions or with a step; slice one dimension, with step 1 [no-tensor-copies]
func.func @slices_along_two_dimensions(%x: !x {tile.read_only}, %y: !three {tile.read_only}, %c: !c, %n: i64, %m: i64) {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %v = tile.slice %y, 1 from %n to %m : !three -> !three
  %w = tile.slice %v, 0 from %n to %m : !three -> !three
  %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i64 {
    %a = tile.load_tile %x[%c0, %i] shape [64, 64] : !x -> tensor<64x64xbf16>
    %b = tile.load_tile %w[%c1, %i, %c0] shape [0, 64, 64] : !three -> tensor<64x64xbf16>
    %s = tile.dot %a, %b, %acc : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xf32>
    scf.yield %s : tensor<64x64xf32>
  } {tile.num_stages = 4 : i64, tile.tensor_copies}
  tile.store_tile %sums, %c[%c0, %c0] shape [64, 64] : tensor<64x64xf32>, !c
  return
}

// TMA copies round f32 to tf32, and wgmma reads the copied operands.
// CHECK-LABEL: func.func @tf32
// CHECK: %[[RING:.+]] = tgpu.ring : <4 tensor of <64x32xf32, swizzle = 128>, <64x32xf32, swizzle = 128>>
// CHECK: tgpu.wgmma %{{.+}} ring %[[RING]][%{{.+}}] {part_a = 0 : i32, part_b = 1 : i32, permuted_b}
// CHECK: return
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
  } {tile.num_stages = 4 : i64, tile.tensor_copies}
  tile.store_tile %sums, %c[%c0, %c0] shape [64, 64] : tensor<64x64xf32>, !c
  return
}

// If one dot of the loop multiplies in IEEE f32, TMA copies are not used, and the other dot uses
// mma.sync.
// REMARK: remark: [tile-prefetch-loads] num_stages = 4: tensor_copies = true: not done: wgmma can compute {{[0-9]+}} of the loop's {{[0-9]+}} dots, and must compute all of them [no-tensor-copies]
// REMARK: remark: [tile-prefetch-loads] wgmma: not used: only TMA copies to shared memory round f32 operands to tf32; use tensor_copies = true [wgmma-not-used]
// CHECK-LABEL: func.func @both_precisions
// CHECK: tgpu.ring : <{{.}} async of
// CHECK-NOT: tgpu.wgmma
// CHECK: tile.dot {{.*}} {tf32}
// CHECK-NOT: tgpu.wgmma
// CHECK: return
func.func @both_precisions(%x: !c {tile.read_only}, %y: !c {tile.read_only}, %c: !c, %n: i64) {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %few = arith.constant dense<0.0> : tensor<64x32xf32>
  %sums:2 = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero, %less = %few) -> (tensor<64x64xf32>, tensor<64x32xf32>) : i64 {
    %a = tile.load_tile %x[%c0, %i] shape [64, 32] : !c -> tensor<64x32xf32>
    %b = tile.load_tile %y[%c0, %i] shape [64, 32] : !c -> tensor<64x32xf32>
    %t = tile.permute %b [1, 0] : tensor<64x32xf32> -> tensor<32x64xf32>
    %s = tile.dot %a, %t, %acc {tf32} : tensor<64x32xf32>, tensor<32x64xf32> -> tensor<64x64xf32>
    %d = tile.load_tile %y[%i, %c1] shape [32, 32] : !c -> tensor<32x32xf32>
    %o = tile.dot %a, %d, %less : tensor<64x32xf32>, tensor<32x32xf32> -> tensor<64x32xf32>
    scf.yield %s, %o : tensor<64x64xf32>, tensor<64x32xf32>
  } {tile.num_stages = 4 : i64, tile.tensor_copies}
  tile.store_tile %sums#0, %c[%c0, %c0] shape [64, 64] : tensor<64x64xf32>, !c
  tile.store_tile %sums#1, %c[%c0, %c1] shape [64, 32] : tensor<64x32xf32>, !c
  return
}
