// RUN: ligerdsl-opt %s -tgpu-overlap-launches | FileCheck %s

#row = #tgpu.layout<register = [[1], [2]], lane = [[4], [8], [16], [32], [64]], warp = [[128], [256]], cta = [], rank = 1>
!tile = tensor<512xf32, #row>
!vec = !tile.view<?xf32, strides = [1]>

// Arithmetic on arguments comes before the wait, the first load after it.
// CHECK-LABEL: func @before_the_first_load
// CHECK: tile.program_id
// CHECK: arith.muli
// CHECK-NEXT: tgpu.grid_wait
// CHECK-NEXT: tgpu.launch_dependents
// CHECK-NEXT: tile.load_tile
// CHECK-NOT: tgpu.grid_wait
func.func @before_the_first_load(%v: !vec, %n: i64) {
  %p = tile.program_id 0 : i32
  %w = arith.extsi %p : i32 to i64
  %i = arith.muli %w, %n : i64
  %x = tile.load_tile %v[%i] shape [512] : !vec -> !tile
  tile.store_tile %x, %v[%i] shape [512] : !tile, !vec
  return
}

// A store waits too: an earlier kernel may still read what this kernel writes.
// CHECK-LABEL: func @before_a_store
// CHECK: arith.constant
// CHECK-NEXT: tgpu.grid_wait
// CHECK-NEXT: tgpu.launch_dependents
// CHECK-NEXT: tile.store_tile
func.func @before_a_store(%v: !vec, %i: i64) {
  %zero = arith.constant dense<0.0> : !tile
  tile.store_tile %zero, %v[%i] shape [512] : !tile, !vec
  return
}

// Shared memory belongs to the CTA, so it needs no wait.
// CHECK-LABEL: func @shared_memory_needs_no_wait
// CHECK: tgpu.local_load
// CHECK-NEXT: tgpu.grid_wait
// CHECK-NEXT: tgpu.launch_dependents
// CHECK-NEXT: tile.store_tile
func.func @shared_memory_needs_no_wait(%v: !vec, %i: i64) {
  %zero = arith.constant dense<0.0> : !tile
  %m = tgpu.local_alloc {offset = 0 : i64} : !tgpu.memdesc<512xf32>
  tgpu.local_store %zero, %m : !tile, !tgpu.memdesc<512xf32>
  tgpu.barrier
  %x = tgpu.local_load %m : !tgpu.memdesc<512xf32> -> !tile
  tile.store_tile %x, %v[%i] shape [512] : !tile, !vec
  return
}

// A load in a loop or a branch: every thread waits, even one that does not reach the load.
// CHECK-LABEL: func @outside_of_regions
// CHECK: scf.for
// CHECK-NEXT: arith.addi
// CHECK: }
// CHECK-NEXT: tgpu.grid_wait
// CHECK-NEXT: tgpu.launch_dependents
// CHECK-NEXT: scf.if
// CHECK-NEXT: tile.load_tile
// CHECK-NOT: tgpu.grid_wait
func.func @outside_of_regions(%v: !vec, %some: i1, %lo: i64, %hi: i64, %step: i64) {
  %sum = scf.for %i = %lo to %hi step %step iter_args(%acc = %lo) -> i64 : i64 {
    %next = arith.addi %acc, %i : i64
    scf.yield %next : i64
  }
  scf.if %some {
    %x = tile.load_tile %v[%sum] shape [512] : !vec -> !tile
    tile.store_tile %x, %v[%lo] shape [512] : !tile, !vec
  }
  return
}

// Pointers, atomics and prefetches are accesses as well.
// CHECK-LABEL: func @atomics
// CHECK: tgpu.grid_wait
// CHECK-NEXT: tgpu.launch_dependents
// CHECK-NEXT: tile.atomic_rmw
func.func @atomics(%p: !tile.ptr<i32>, %one: i32) {
  %old = tile.atomic_rmw add %one, %p : i32, !tile.ptr<i32> -> i32
  return
}

// This kernel accesses nothing, but a later one may rely on its wait to know that earlier kernels
// ended.
// CHECK-LABEL: func @no_access
// CHECK-NEXT: tgpu.grid_wait
// CHECK-NEXT: tgpu.launch_dependents
// CHECK-NEXT: return
func.func @no_access(%v: !vec) {
  return
}

!rows = !tile.view<?x4096xbf16, strides = [?, 1], align = 16, stride_div = [8, 1]>
!weight = !tile.view<4096xbf16, strides = [1], align = 16>
#wide = #tgpu.layout<register = [[1], [2], [4], [1024], [2048]], lane = [[8], [16], [32], [64], [128]], warp = [[256], [512]], cta = [], rank = 1>
!wide = tensor<4096xbf16, #wide>

// A program's rows are prefetched before the wait. Ops after the wait that compute their indices
// are copied before it. Tiles that every program reads, or whose index depends on memory, are not
// prefetched.
// CHECK-LABEL: func @rows_are_asked_for
// CHECK: %[[NEXT:.*]] = arith.addi %{{.*}}, %c1_i64
// CHECK: %[[MAY:.*]] = tgpu.may_wait : i1
// CHECK: %[[AFTER:.*]] = arith.addi %[[NEXT]], %c1_i64
// CHECK-NEXT: scf.if %[[MAY]] {
// CHECK-NEXT: tile.prefetch_tile %arg0[%[[NEXT]], %c0_i64] shape [0, 4096]
// CHECK-NEXT: tile.prefetch_tile %arg0[%[[AFTER]], %c0_i64] shape [0, 4096]
// CHECK-NEXT: }
// CHECK-NEXT: tgpu.grid_wait
// CHECK-NEXT: tgpu.launch_dependents
// CHECK-NOT: tile.prefetch_tile
func.func @rows_are_asked_for(%x: !rows, %w: !weight, %order: !tile.view<?xi64, strides = [1]>) {
  %c0_i64 = arith.constant 0 : i64
  %c1_i64 = arith.constant 1 : i64
  %p = tile.program_id 0 : i32
  %row = arith.extsi %p : i32 to i64
  %next = arith.addi %row, %c1_i64 : i64
  %weight = tile.load_tile %w[%c0_i64] shape [4096] : !weight -> !wide
  %first = tile.load_tile %x[%next, %c0_i64] shape [0, 4096] : !rows -> !wide
  %after = arith.addi %next, %c1_i64 : i64
  %second = tile.load_tile %x[%after, %c0_i64] shape [0, 4096] : !rows -> !wide
  %indirect = tile.load_tile %order[%row] shape [0] : !tile.view<?xi64, strides = [1]> -> i64
  %third = tile.load_tile %x[%indirect, %c0_i64] shape [0, 4096] : !rows -> !wide
  %a = arith.addf %first, %weight : !wide
  %b = arith.addf %second, %third : !wide
  %c = arith.addf %a, %b : !wide
  tile.store_tile %c, %x[%row, %c0_i64] shape [0, 4096] : !wide, !rows
  return
}

// Loads after a loop are not prefetched.
// CHECK-LABEL: func @nothing_after_a_loop
// CHECK-NOT: tile.prefetch_tile
func.func @nothing_after_a_loop(%x: !rows, %lo: i64, %hi: i64, %step: i64) {
  %c0_i64 = arith.constant 0 : i64
  scf.for %i = %lo to %hi step %step : i64 {
    %t = tile.load_tile %x[%i, %c0_i64] shape [0, 4096] : !rows -> !wide
    tile.store_tile %t, %x[%i, %c0_i64] shape [0, 4096] : !wide, !rows
  }
  %last = tile.load_tile %x[%hi, %c0_i64] shape [0, 4096] : !rows -> !wide
  tile.store_tile %last, %x[%lo, %c0_i64] shape [0, 4096] : !wide, !rows
  return
}
