// RUN: ligerdsl-opt %s -tgpu-allocate-shared | FileCheck %s

#row = #tgpu.layout<register = [[1], [2]], lane = [[4], [8], [16], [32], [64]], warp = [[128]], cta = [], rank = 1>
#big = #tgpu.layout<register = [[256], [512], [1024], [2048]], lane = [[1], [2], [4], [8], [16]], warp = [[32], [64], [128]], cta = [], rank = 1>

// Small buffers have separate memory, so that no barrier is needed between them.
// CHECK-LABEL: func @separate
// CHECK-SAME: tgpu.shared_bytes = 1296 : i64
// CHECK: tgpu.local_alloc {offset = 0 : i64} : <256xf32>
// CHECK: tgpu.local_alloc {offset = 1024 : i64} : <256xi1>
// CHECK: tgpu.local_alloc {offset = 1280 : i64} : <3xf32>
func.func @separate(%a: tensor<256xf32, #row>) -> tensor<256xf32, #row> {
  %m = tgpu.local_alloc : !tgpu.memdesc<256xf32>
  tgpu.local_store %a, %m : tensor<256xf32, #row>, !tgpu.memdesc<256xf32>
  %b = tgpu.local_load %m : !tgpu.memdesc<256xf32> -> tensor<256xf32, #row>
  %n = tgpu.local_alloc : !tgpu.memdesc<256xi1>
  %o = tgpu.local_alloc : !tgpu.memdesc<3xf32>
  return %b : tensor<256xf32, #row>
}

// Large buffers with disjoint lifetimes share memory.
// CHECK-LABEL: func @reuse
// CHECK-SAME: tgpu.shared_bytes = 16384 : i64
// CHECK: tgpu.local_alloc {offset = 0 : i64}
// CHECK: tgpu.local_alloc {offset = 0 : i64}
func.func @reuse(%a: tensor<4096xf32, #big>) -> tensor<4096xf32, #big> {
  %m = tgpu.local_alloc : !tgpu.memdesc<4096xf32>
  tgpu.local_store %a, %m : tensor<4096xf32, #big>, !tgpu.memdesc<4096xf32>
  %b = tgpu.local_load %m : !tgpu.memdesc<4096xf32> -> tensor<4096xf32, #big>
  %n = tgpu.local_alloc : !tgpu.memdesc<4096xf32>
  tgpu.local_store %b, %n : tensor<4096xf32, #big>, !tgpu.memdesc<4096xf32>
  %c = tgpu.local_load %n : !tgpu.memdesc<4096xf32> -> tensor<4096xf32, #big>
  return %c : tensor<4096xf32, #big>
}

// A buffer that a loop reads lives to the end of the loop, not to its last use in program order.
// Rows include their padding.
// CHECK-LABEL: func @loop
// CHECK-SAME: tgpu.shared_bytes = 33792 : i64
// CHECK: tgpu.local_alloc {offset = 0 : i64} : <64x64xf32, row_pad = 4>
// CHECK: tgpu.local_alloc {offset = 17408 : i64} : <4096xf32>
func.func @loop(%a: tensor<4096xf32, #big>, %n: index) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %m = tgpu.local_alloc : !tgpu.memdesc<64x64xf32, row_pad = 4>
  scf.for %i = %zero to %n step %one {
    %b = tgpu.local_load %m : !tgpu.memdesc<64x64xf32, row_pad = 4> -> tensor<4096xf32, #big>
    %k = tgpu.local_alloc : !tgpu.memdesc<4096xf32>
    tgpu.local_store %b, %k : tensor<4096xf32, #big>, !tgpu.memdesc<4096xf32>
  }
  return
}

// A buffer reuses the slots of a TMA ring after the ring's last use. Nothing reuses the mbarriers.
// CHECK-LABEL: func @after_ring
// CHECK-SAME: tgpu.shared_bytes = 32784 : i64
// CHECK: tgpu.local_alloc {offset = 0 : i64}
// CHECK: tgpu.ring {offsets = array<i64: 16384, 32768>}
// CHECK: tgpu.local_alloc {offset = 0 : i64} : <4096xf32>
// CHECK: tgpu.local_alloc {offset = 16384 : i64} : <4096xf32>
func.func @after_ring(%a: tensor<4096xf32, #big>, %x: !tile.view<?x?xbf16, strides = [?, 1], align = 16, stride_div = [8, 1]>) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %m = tgpu.local_alloc : !tgpu.memdesc<4096xf32>
  tgpu.local_store %a, %m : tensor<4096xf32, #big>, !tgpu.memdesc<4096xf32>
  %r = tgpu.ring : !tgpu.ring<2 tensor of <64x64xbf16, swizzle = 128>>
  tgpu.ring_fill %r[%zero] at %zero count %one from %x shape [64, 64] : !tgpu.ring<2 tensor of <64x64xbf16, swizzle = 128>>, i32, !tile.view<?x?xbf16, strides = [?, 1], align = 16, stride_div = [8, 1]> {
  ^bb0(%position: i32):
    %i = arith.extsi %position : i32 to i64
    tgpu.yield %i, %i : i64, i64
  }
  tgpu.ring_await %r[%zero] parity %zero : !tgpu.ring<2 tensor of <64x64xbf16, swizzle = 128>>
  %n = tgpu.local_alloc : !tgpu.memdesc<4096xf32>
  tgpu.local_store %a, %n : tensor<4096xf32, #big>, !tgpu.memdesc<4096xf32>
  %o = tgpu.local_alloc : !tgpu.memdesc<4096xf32>
  tgpu.local_store %a, %o : tensor<4096xf32, #big>, !tgpu.memdesc<4096xf32>
  tgpu.local_store %a, %n : tensor<4096xf32, #big>, !tgpu.memdesc<4096xf32>
  return
}

// Memory that copies fill is not shared, although lifetimes are disjoint.
// CHECK-LABEL: func @filled
// CHECK-SAME: tgpu.shared_bytes = 32784 : i64
// CHECK: tgpu.local_alloc {offset = 0 : i64}
// CHECK: tgpu.ring {offsets = array<i64: 16384, 32768>}
func.func @filled(%a: tensor<4096xf32, #big>, %x: !tile.view<4096xf32, strides = [1], align = 16>) -> tensor<4096xf32, #big> {
  %zero = arith.constant 0 : i32
  %two = arith.constant 2 : i32
  %m = tgpu.local_alloc : !tgpu.memdesc<4096xf32>
  tgpu.local_store %a, %m : tensor<4096xf32, #big>, !tgpu.memdesc<4096xf32>
  %b = tgpu.local_load %m : !tgpu.memdesc<4096xf32> -> tensor<4096xf32, #big>
  %r = tgpu.ring : !tgpu.ring<2 bulk of <2048xf32>>
  tgpu.ring_fill %r[%zero] at %zero count %two from %x shape [2048] : !tgpu.ring<2 bulk of <2048xf32>>, i32, !tile.view<4096xf32, strides = [1], align = 16> {
  ^bb0(%position: i32):
    %i = arith.extsi %position : i32 to i64
    %inside = arith.constant 2048 : i32
    tgpu.yield %i, %inside : i64, i32
  }
  return %b : tensor<4096xf32, #big>
}
