// Consecutive rings have separate memory if there is room, and share it otherwise.
// RUN: ligerdsl-opt %s -tgpu-allocate-shared -tgpu-insert-barriers | FileCheck %s --check-prefixes=BOTH,SEPARATE
// RUN: ligerdsl-opt %s -tgpu-allocate-shared=shared-bytes=40000 -tgpu-insert-barriers | FileCheck %s --check-prefixes=BOTH,SHARED

#row = #tgpu.layout<register = [[1024], [2048]], lane = [[1], [2], [4], [8], [16]], warp = [[32], [64], [128], [256], [512]], cta = [], rank = 1>
#strided = #tgpu.layout<register = [[1], [2]], lane = [[4], [8], [16], [32], [64]], warp = [[128], [256], [512], [1024], [2048]], cta = [], rank = 1>
!x = !tile.view<?x?xbf16, strides = [?, 1], align = 16, stride_div = [8, 1]>
!ring = !tgpu.ring<4 tensor of <64x64xbf16, swizzle = 128>>
!async = !tgpu.ring<4 async of <64x64xbf16, swizzle = 128>>

// The readers of the first ring synchronise after its loop, so the second ring reuses its memory
// without another barrier. The mbarriers stay separate.
// BOTH-LABEL: func @successive_rings
// SEPARATE-SAME: tgpu.shared_bytes = 65600
// SHARED-SAME: tgpu.shared_bytes = 32832
// SEPARATE: tgpu.ring {offsets = array<i64: 0, 65536>}
// SHARED: tgpu.ring {offsets = array<i64: 0, 32768>}
// BOTH-NOT: tgpu.barrier
// SEPARATE: tgpu.ring {offsets = array<i64: 32768, 65568>}
// SHARED: tgpu.ring {offsets = array<i64: 0, 32800>}
// BOTH-NOT: tgpu.barrier
// BOTH: return
func.func @successive_rings(%x: !x, %n: i32) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %r = tgpu.ring : !ring
  tgpu.ring_fill %r[%zero] at %zero count %one from %x shape [64, 64] : !ring, i32, !x {
  ^bb0(%position: i32):
    %i = arith.extsi %position : i32 to i64
    tgpu.yield %i, %i : i64, i64
  }
  scf.for %t = %zero to %n step %one : i32 {
    tgpu.ring_await %r[%zero] parity %zero : !ring
    tgpu.ring_release %r : !ring
  }
  tgpu.ring_release %r {tgpu.emptied} : !ring
  %s = tgpu.ring : !ring
  tgpu.ring_fill %s[%zero] at %zero count %one from %x shape [64, 64] : !ring, i32, !x {
  ^bb0(%position: i32):
    %i = arith.extsi %position : i32 to i64
    tgpu.yield %i, %i : i64, i64
  }
  tgpu.ring_await %s[%zero] parity %zero : !ring
  tgpu.ring_release %s {tgpu.emptied} : !ring
  return
}

// Rings defined outside the loop and a buffer of its body share memory. Copies follow reads of this
// iteration or the previous one. A barrier orders them after these reads only with a proxy fence.
// BOTH-LABEL: func @alternating_rings
// SEPARATE-SAME: tgpu.shared_bytes = 81984
// SHARED-SAME: tgpu.shared_bytes = 32832
// SHARED: tgpu.ring {offsets = array<i64: 0, 32768>}
// SHARED: tgpu.ring {offsets = array<i64: 0, 32800>}
// BOTH: scf.for
// SEPARATE-NOT: tgpu.proxy_fence
// SHARED-NEXT: tgpu.barrier {tgpu.proxy_fence}
// SHARED-NEXT: tgpu.ring_fill
// SHARED: tgpu.ring_release
// SHARED-NEXT: tgpu.local_alloc {offset = 0
// SHARED-NEXT: tgpu.local_store
// SHARED-NEXT: tgpu.barrier{{$}}
// SHARED-NEXT: tgpu.local_load
// SHARED-NEXT: tgpu.barrier {tgpu.proxy_fence}
// SHARED-NEXT: tgpu.ring_fill
// SHARED: tgpu.ring_release
// BOTH: return
func.func @alternating_rings(%x: !x, %a: tensor<4096xf32, #row>, %n: i32) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %r = tgpu.ring : !ring
  %s = tgpu.ring : !ring
  scf.for %t = %zero to %n step %one : i32 {
    tgpu.ring_fill %r[%zero] at %zero count %one from %x shape [64, 64] : !ring, i32, !x {
    ^bb0(%position: i32):
      %i = arith.extsi %position : i32 to i64
      tgpu.yield %i, %i : i64, i64
    }
    tgpu.ring_await %r[%zero] parity %zero : !ring
    tgpu.ring_release %r {tgpu.emptied} : !ring
    %m = tgpu.local_alloc : !tgpu.memdesc<4096xf32>
    tgpu.local_store %a, %m : tensor<4096xf32, #row>, !tgpu.memdesc<4096xf32>
    %b = tgpu.local_load %m : !tgpu.memdesc<4096xf32> -> tensor<4096xf32, #strided>
    tgpu.ring_fill %s[%zero] at %zero count %one from %x shape [64, 64] : !ring, i32, !x {
    ^bb0(%position: i32):
      %i = arith.extsi %position : i32 to i64
      tgpu.yield %i, %i : i64, i64
    }
    tgpu.ring_await %s[%zero] parity %zero : !ring
    tgpu.ring_release %s {tgpu.emptied} : !ring
    %o = tgpu.local_alloc : !tgpu.memdesc<4096xf32>
    tgpu.local_store %b, %o : tensor<4096xf32, #strided>, !tgpu.memdesc<4096xf32>
  }
  return
}

// A ring that is not emptied in the loop's body holds data across iterations.
// BOTH-LABEL: func @held
// BOTH-SAME: tgpu.shared_bytes = 49184
func.func @held(%x: !x, %a: tensor<4096xf32, #row>, %n: i32) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %r = tgpu.ring : !ring
  scf.for %t = %zero to %n step %one : i32 {
    %m = tgpu.local_alloc : !tgpu.memdesc<4096xf32>
    tgpu.local_store %a, %m : tensor<4096xf32, #row>, !tgpu.memdesc<4096xf32>
    tgpu.ring_await %r[%zero] parity %zero : !ring
    tgpu.ring_fill %r[%zero] at %zero count %one from %x shape [64, 64] : !ring, i32, !x {
    ^bb0(%position: i32):
      %i = arith.extsi %position : i32 to i64
      tgpu.yield %i, %i : i64, i64
    }
    tgpu.ring_release %r : !ring
  }
  return
}
