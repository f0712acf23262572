// Accumulators that are stored in a loop are split into segments of 32 KB.
// RUN: ligerdsl-opt %s -tile-assign-layouts=num-warps=8 -tgpu-cut-stores -canonicalize -cse | FileCheck %s

!c = !tile.view<?x?xbf16, strides = [?, 1], align = 16, stride_div = [8, 1], dim_div = [1, 8]>

// CHECK-LABEL: func.func @in_a_loop
// CHECK: scf.for %[[TILE:.+]] = %{{.+}} to
// CHECK: %[[ROUNDED:.+]] = arith.truncf
// CHECK: %[[FIRST:.+]] = arith.muli %[[TILE]], %c2_i64
// CHECK: %[[A:.+]] = tgpu.segment %[[ROUNDED]] begin [0, 0] : tensor<128x256xbf16, #{{.+}}> -> tensor<128x128xbf16, #{{.+}}>
// CHECK: %[[AS:.+]] = tgpu.convert_layout %[[A]]
// CHECK-NEXT: tile.store_tile %[[AS]], %{{.+}}[%c0_i64, %[[FIRST]]] shape [128, 128]
// CHECK: %[[SECOND:.+]] = arith.addi %[[FIRST]], %c1_i64
// CHECK: %[[B:.+]] = tgpu.segment %[[ROUNDED]] begin [0, 128]
// CHECK: %[[BS:.+]] = tgpu.convert_layout %[[B]]
// CHECK-NEXT: tile.store_tile %[[BS]], %{{.+}}[%c0_i64, %[[SECOND]]] shape [128, 128]
// CHECK-NOT: tile.store_tile
func.func @in_a_loop(%x: !c, %c: !c, %n: i64) {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %zero = arith.constant dense<0.0> : tensor<128x256xf32>
  scf.for %tile = %c0 to %n step %c1 : i64 {
    %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<128x256xf32>) : i64 {
      %a = tile.load_tile %x[%c0, %i] shape [128, 16] : !c -> tensor<128x16xbf16>
      %b = tile.load_tile %x[%i, %c0] shape [16, 256] : !c -> tensor<16x256xbf16>
      %s = tile.dot %a, %b, %acc : tensor<128x16xbf16>, tensor<16x256xbf16> -> tensor<128x256xf32>
      scf.yield %s : tensor<128x256xf32>
    } {tile.num_stages = 4 : i64}
    %rounded = arith.truncf %sums : tensor<128x256xf32> to tensor<128x256xbf16>
    tile.store_tile %rounded, %c[%c0, %tile] shape [128, 256] : tensor<128x256xbf16>, !c
  }
  return
}

!narrow = !tile.view<?x?xbf16, strides = [?, 1], align = 2>

// Rows begin at any element, so a thread has an access per element: 32 of them per segment.
// CHECK-LABEL: func.func @narrow
// CHECK: scf.for
// CHECK-COUNT-4: tile.store_tile %{{.+}}[%c0_i64, %{{.+}}] shape [128, 64] :
// CHECK-NOT: tile.store_tile
func.func @narrow(%x: !c, %c: !narrow, %n: i64) {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %zero = arith.constant dense<0.0> : tensor<128x256xf32>
  scf.for %tile = %c0 to %n step %c1 : i64 {
    %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<128x256xf32>) : i64 {
      %a = tile.load_tile %x[%c0, %i] shape [128, 16] : !c -> tensor<128x16xbf16>
      %b = tile.load_tile %x[%i, %c0] shape [16, 256] : !c -> tensor<16x256xbf16>
      %s = tile.dot %a, %b, %acc : tensor<128x16xbf16>, tensor<16x256xbf16> -> tensor<128x256xf32>
      scf.yield %s : tensor<128x256xf32>
    } {tile.num_stages = 4 : i64}
    %rounded = arith.truncf %sums : tensor<128x256xf32> to tensor<128x256xbf16>
    tile.store_tile %rounded, %c[%c0, %tile] shape [128, 256] : tensor<128x256xbf16>, !narrow
  }
  return
}

// After all loops, shared memory is free, so the store is not split.
// CHECK-LABEL: func.func @after_loops
// CHECK-NOT: tgpu.segment
// CHECK: tgpu.convert_layout %{{.+}} -> tensor<128x256xbf16
// CHECK-NOT: tgpu.segment
func.func @after_loops(%x: !c, %c: !c, %n: i64) {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %zero = arith.constant dense<0.0> : tensor<128x256xf32>
  %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<128x256xf32>) : i64 {
    %a = tile.load_tile %x[%c0, %i] shape [128, 16] : !c -> tensor<128x16xbf16>
    %b = tile.load_tile %x[%i, %c0] shape [16, 256] : !c -> tensor<16x256xbf16>
    %s = tile.dot %a, %b, %acc : tensor<128x16xbf16>, tensor<16x256xbf16> -> tensor<128x256xf32>
    scf.yield %s : tensor<128x256xf32>
  } {tile.num_stages = 4 : i64}
  %rounded = arith.truncf %sums : tensor<128x256xf32> to tensor<128x256xbf16>
  tile.store_tile %rounded, %c[%c0, %c0] shape [128, 256] : tensor<128x256xbf16>, !c
  return
}

!f = !tile.view<?x?xf32, strides = [?, 1], align = 16, stride_div = [4, 1], dim_div = [1, 4]>

// Accumulators that are added to memory are split even after all loops, because they would take all
// of shared memory.
// CHECK-LABEL: func.func @added
// CHECK-COUNT-4: tile.store_tile %{{.+}}[%c0_i64, %{{.+}}] shape [128, 64] {adds}
// CHECK-NOT: tile.store_tile
func.func @added(%x: !c, %c: !f, %n: i64) {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %zero = arith.constant dense<0.0> : tensor<128x256xf32>
  %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<128x256xf32>) : i64 {
    %a = tile.load_tile %x[%c0, %i] shape [128, 16] : !c -> tensor<128x16xbf16>
    %b = tile.load_tile %x[%i, %c0] shape [16, 256] : !c -> tensor<16x256xbf16>
    %s = tile.dot %a, %b, %acc : tensor<128x16xbf16>, tensor<16x256xbf16> -> tensor<128x256xf32>
    scf.yield %s : tensor<128x256xf32>
  } {tile.num_stages = 4 : i64}
  tile.store_tile %sums, %c[%c0, %c0] shape [128, 256] {adds} : tensor<128x256xf32>, !f
  return
}

// Accumulators that cannot be split are added in their own layout.
// CHECK-LABEL: func.func @added_whole
// CHECK: %[[SUMS:.+]] = scf.for
// CHECK: tile.store_tile %[[SUMS]], %{{.+}} shape [64, 256] {adds}
func.func @added_whole(%x: !c, %c: !f, %n: i64) {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %zero = arith.constant dense<0.0> : tensor<64x256xf32>
  %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x256xf32>) : i64 {
    %a = tile.load_tile %x[%c0, %i] shape [64, 16] : !c -> tensor<64x16xbf16>
    %b = tile.load_tile %x[%i, %c0] shape [16, 256] : !c -> tensor<16x256xbf16>
    %s = tile.dot %a, %b, %acc : tensor<64x16xbf16>, tensor<16x256xbf16> -> tensor<64x256xf32>
    scf.yield %s : tensor<64x256xf32>
  } {tile.num_stages = 4 : i64}
  tile.store_tile %sums, %c[%c0, %c0] shape [64, 256] {adds} : tensor<64x256xf32>, !f
  return
}

// Stores by TMA copies use one buffer, allocated before all loops, for one segment after another.
// Before the first segment of an iteration, the last write must be complete. Before the others, the
// buffer must have been read.
// CHECK-LABEL: func.func @by_tensor_copies
// CHECK: %[[BUFFER:.+]] = tgpu.local_alloc : <128x128xbf16, swizzle = 128>
// CHECK: scf.for
// CHECK: %[[ROUNDED:.+]] = arith.truncf
// CHECK: %[[A:.+]] = tgpu.segment %[[ROUNDED]] begin [0, 0]
// CHECK-NEXT: tgpu.tensor_wait %[[BUFFER]] {written}
// CHECK-NEXT: tgpu.local_store %[[A]], %[[BUFFER]]
// CHECK-NEXT: tgpu.tensor_store %[[BUFFER]], %arg1[%c0_i64, %{{.+}}] shape [128, 128] :
// CHECK: %[[B:.+]] = tgpu.segment %[[ROUNDED]] begin [0, 128]
// CHECK-NEXT: tgpu.tensor_wait %[[BUFFER]] :
// CHECK-NEXT: tgpu.local_store %[[B]], %[[BUFFER]]
// CHECK-NEXT: tgpu.tensor_store %[[BUFFER]]
// CHECK-NOT: tile.store_tile
// CHECK: }
// CHECK-NEXT: tgpu.tensor_wait %[[BUFFER]] :
// CHECK-NEXT: return
func.func @by_tensor_copies(%x: !c {tile.read_only}, %c: !c, %n: i64) {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %zero = arith.constant dense<0.0> : tensor<128x256xf32>
  scf.for %tile = %c0 to %n step %c1 : i64 {
    %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<128x256xf32>) : i64 {
      %a = tile.load_tile %x[%c0, %i] shape [128, 16] : !c -> tensor<128x16xbf16>
      %b = tile.load_tile %x[%i, %c0] shape [16, 256] : !c -> tensor<16x256xbf16>
      %s = tile.dot %a, %b, %acc : tensor<128x16xbf16>, tensor<16x256xbf16> -> tensor<128x256xf32>
      scf.yield %s : tensor<128x256xf32>
    } {tile.num_stages = 4 : i64}
    %rounded = arith.truncf %sums : tensor<128x256xf32> to tensor<128x256xbf16>
    tile.store_tile %rounded, %c[%c0, %tile] shape [128, 256] {tensor_copies} : tensor<128x256xbf16>, !c
  }
  return
}

// Stores of one block share a buffer. Each waits until the previous one has read it; the first
// waits until all writes of the previous iteration are complete.
// CHECK-LABEL: func.func @one_buffer
// CHECK-COUNT-1: tgpu.local_alloc
// CHECK: scf.for
// CHECK: tgpu.tensor_wait %[[BUFFER:.+]] {written}
// CHECK: tgpu.tensor_store %[[BUFFER]], %arg1
// CHECK-NEXT: tgpu.tensor_wait %[[BUFFER]] :
// CHECK: tgpu.tensor_store %[[BUFFER]], %arg2
// CHECK-NEXT: }
// CHECK-NEXT: tgpu.tensor_wait %[[BUFFER]] :
// CHECK-NEXT: return
func.func @one_buffer(%x: !c {tile.read_only}, %c: !c {tile.alias_class = 1 : i64}, %d: !c {tile.alias_class = 2 : i64}, %n: i64) {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %zero = arith.constant dense<0.0> : tensor<128x128xf32>
  scf.for %tile = %c0 to %n step %c1 : i64 {
    %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<128x128xf32>) : i64 {
      %a = tile.load_tile %x[%c0, %i] shape [128, 16] : !c -> tensor<128x16xbf16>
      %b = tile.load_tile %x[%i, %c0] shape [16, 128] : !c -> tensor<16x128xbf16>
      %s = tile.dot %a, %b, %acc : tensor<128x16xbf16>, tensor<16x128xbf16> -> tensor<128x128xf32>
      scf.yield %s : tensor<128x128xf32>
    } {tile.num_stages = 4 : i64}
    %rounded = arith.truncf %sums : tensor<128x128xf32> to tensor<128x128xbf16>
    tile.store_tile %rounded, %c[%c0, %tile] shape [128, 128] {tensor_copies} : tensor<128x128xbf16>, !c
    tile.store_tile %rounded, %d[%c0, %tile] shape [128, 128] {tensor_copies} : tensor<128x128xbf16>, !c
  }
  return
}

// Outside of loops each store has its own buffer and waits for itself: the kernel must not end
// before the buffers are read.
// CHECK-LABEL: func.func @in_no_loop
// CHECK: tgpu.tensor_store %[[ONE:.+]], %arg1
// CHECK-NEXT: tgpu.tensor_wait %[[ONE]] :
// CHECK: tgpu.tensor_store %[[OTHER:.+]], %arg2
// CHECK-NEXT: tgpu.tensor_wait %[[OTHER]] :
// CHECK-NEXT: return
func.func @in_no_loop(%x: !c {tile.read_only}, %c: !c {tile.alias_class = 1 : i64}, %d: !c {tile.alias_class = 2 : i64}, %n: i64) {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %zero = arith.constant dense<0.0> : tensor<128x128xf32>
  %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<128x128xf32>) : i64 {
    %a = tile.load_tile %x[%c0, %i] shape [128, 16] : !c -> tensor<128x16xbf16>
    %b = tile.load_tile %x[%i, %c0] shape [16, 128] : !c -> tensor<16x128xbf16>
    %s = tile.dot %a, %b, %acc : tensor<128x16xbf16>, tensor<16x128xbf16> -> tensor<128x128xf32>
    scf.yield %s : tensor<128x128xf32>
  } {tile.num_stages = 4 : i64}
  %rounded = arith.truncf %sums : tensor<128x128xf32> to tensor<128x128xbf16>
  tile.store_tile %rounded, %c[%c0, %c0] shape [128, 128] {tensor_copies} : tensor<128x128xbf16>, !c
  tile.store_tile %rounded, %d[%c0, %c0] shape [128, 128] {tensor_copies} : tensor<128x128xbf16>, !c
  return
}
