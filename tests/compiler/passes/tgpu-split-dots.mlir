// Operands of dots that all threads copy to swizzled slots and read in steps along k.
// RUN: ligerdsl-opt %s -tile-assign-layouts="num-warps=4 arch=sm_80" \
// RUN:   -tile-prefetch-loads="num-warps=4 shared-bytes=65536 arch=sm_80" -tgpu-split-dots -canonicalize -cse | FileCheck %s
// RUN: ligerdsl-opt %s -tile-assign-layouts="num-warps=4 arch=sm_80" \
// RUN:   -tile-prefetch-loads="num-warps=4 shared-bytes=12000 arch=sm_80" -tgpu-split-dots -canonicalize -cse 2>&1 | FileCheck %s --check-prefix=SMALL

!x = !tile.view<?x?xbf16, strides = [?, 1], align = 16, stride_div = [8, 1]>
!c = !tile.view<?x?xf32, strides = [?, 1], align = 16, stride_div = [4, 1]>
!narrow = !tile.view<?x?xbf16, strides = [?, 1], align = 2>

// CHECK-LABEL: func.func @product
// CHECK: %[[RING:.+]] = tgpu.ring : <3 async of <64x32xbf16, swizzle = 64>, <64x32xbf16, swizzle = 64>>
// CHECK-COUNT-2: tgpu.ring_fill %[[RING]]
// CHECK: scf.for
// CHECK: tgpu.ring_await %[[RING]] pending 1
// CHECK: tgpu.ring_fill %[[RING]]
// CHECK: %[[A:.+]] = tgpu.ring_read %[[RING]][%[[SLOT:.+]]] part 0 {begin = array<i64: 0, 0>} {{.*}} tensor<64x16xbf16
// CHECK: %[[B:.+]] = tgpu.ring_read %[[RING]][%[[SLOT]]] part 1 {begin = array<i64: 0, 0>} {{.*}} tensor<64x16xbf16
// CHECK: %[[T:.+]] = tile.permute %[[B]]
// CHECK: %[[FIRST:.+]] = tile.dot %[[A]], %[[T]], %{{.+}} : tensor<64x16xbf16{{.*}}, tensor<16x64xbf16
// CHECK: tgpu.ring_read %[[RING]][%[[SLOT]]] part 0 {begin = array<i64: 0, 16>}
// CHECK: tgpu.ring_read %[[RING]][%[[SLOT]]] part 1 {begin = array<i64: 0, 16>}
// CHECK: tile.dot %{{.+}}, %{{.+}}, %[[FIRST]]
// CHECK-NOT: convert_layout
// CHECK: tgpu.ring_await %[[RING]] pending 0
//
// There is no room for two iterations: operands change their layout through shared memory, and the
// next ones are prefetched to L2.
// SMALL: remark: [tile-prefetch-loads] num_stages = 3: dot operands pass through registers: two iterations of the loop's tiles take {{[0-9]+}} bytes of shared memory per CTA, and {{[0-9]+}} are left; use smaller tiles [no-room-for-dot-operands]
// SMALL-LABEL: func.func @product
// SMALL-NOT: tgpu.ring
// SMALL-COUNT-2: tgpu.convert_layout
// SMALL: tile.dot
func.func @product(%x: !x {tile.read_only}, %y: !x {tile.read_only}, %c: !c, %n: i64) {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i64 {
    %a = tile.load_tile %x[%c0, %i] shape [64, 32] : !x -> tensor<64x32xbf16>
    %b = tile.load_tile %y[%c0, %i] shape [64, 32] : !x -> tensor<64x32xbf16>
    %t = tile.permute %b [1, 0] : tensor<64x32xbf16> -> tensor<32x64xbf16>
    %s = tile.dot %a, %t, %acc : tensor<64x32xbf16>, tensor<32x64xbf16> -> tensor<64x64xf32>
    scf.yield %s : tensor<64x64xf32>
  } {tile.num_stages = 3 : i64}
  tile.store_tile %sums, %c[%c0, %c0] shape [64, 64] : tensor<64x64xf32>, !c
  return
}

// Rows that start at any address cannot be copied 16 bytes at a time.
// RUN: ligerdsl-opt %s -tile-assign-layouts="num-warps=4 arch=sm_80" \
// RUN:   -tile-prefetch-loads="num-warps=4 shared-bytes=65536 arch=sm_80" 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// REMARK: remark: [tile-prefetch-loads] num_stages = 3: a dot operand passes through registers: a copy has 16 bytes, and facts prove accesses of only 2 bytes [dot-operand-in-registers]
// CHECK-LABEL: func.func @narrow
// CHECK-NOT: tgpu.ring
// CHECK: return
func.func @narrow(%x: !narrow {tile.read_only}, %y: !narrow {tile.read_only}, %c: !c, %n: i64) {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i64 {
    %a = tile.load_tile %x[%c0, %i] shape [64, 32] : !narrow -> tensor<64x32xbf16>
    %b = tile.load_tile %y[%i, %c0] shape [32, 64] : !narrow -> tensor<32x64xbf16>
    %s = tile.dot %a, %b, %acc : tensor<64x32xbf16>, tensor<32x64xbf16> -> tensor<64x64xf32>
    scf.yield %s : tensor<64x64xf32>
  } {tile.num_stages = 3 : i64}
  tile.store_tile %sums, %c[%c0, %c0] shape [64, 64] : tensor<64x64xf32>, !c
  return
}

!bytes = !tile.view<?x?xi8, strides = [?, 1], align = 16, stride_div = [16, 1]>
!words = !tile.view<?x?xi32, strides = [?, 1], align = 16, stride_div = [4, 1]>

// Steps of 32 bytes: 32 elements of i8, 8 of tf32.
// CHECK-LABEL: func.func @eight_bits
// CHECK: tile.dot {{.*}} : tensor<64x32xi8{{.*}}, tensor<32x64xi8{{.*}} -> tensor<64x64xi32
// CHECK: tile.dot {{.*}} : tensor<64x32xi8{{.*}}, tensor<32x64xi8{{.*}} -> tensor<64x64xi32
func.func @eight_bits(%x: !bytes {tile.read_only}, %y: !bytes {tile.read_only}, %c: !words, %n: i64) {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %zero = arith.constant dense<0> : tensor<64x64xi32>
  %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x64xi32>) : i64 {
    %a = tile.load_tile %x[%c0, %i] shape [64, 64] : !bytes -> tensor<64x64xi8>
    %b = tile.load_tile %y[%c0, %i] shape [64, 64] : !bytes -> tensor<64x64xi8>
    %t = tile.permute %b [1, 0] : tensor<64x64xi8> -> tensor<64x64xi8>
    %s = tile.dot %a, %t, %acc : tensor<64x64xi8>, tensor<64x64xi8> -> tensor<64x64xi32>
    scf.yield %s : tensor<64x64xi32>
  } {tile.num_stages = 2 : i64}
  tile.store_tile %sums, %c[%c0, %c0] shape [64, 64] : tensor<64x64xi32>, !words
  return
}

// CHECK-LABEL: func.func @tf32
// CHECK: tile.dot {{.*}} {tf32} : tensor<64x8xf32{{.*}}, tensor<8x64xf32
// CHECK: tile.dot {{.*}} {tf32} : tensor<64x8xf32{{.*}}, tensor<8x64xf32
func.func @tf32(%x: !c {tile.read_only}, %y: !c {tile.read_only}, %c: !c, %n: i64) {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i64 {
    %a = tile.load_tile %x[%c0, %i] shape [64, 16] : !c -> tensor<64x16xf32>
    %b = tile.load_tile %y[%i, %c0] shape [16, 64] : !c -> tensor<16x64xf32>
    %s = tile.dot %a, %b, %acc {tf32} : tensor<64x16xf32>, tensor<16x64xf32> -> tensor<64x64xf32>
    scf.yield %s : tensor<64x64xf32>
  } {tile.num_stages = 2 : i64}
  tile.store_tile %sums, %c[%c0, %c0] shape [64, 64] : tensor<64x64xf32>, !c
  return
}
