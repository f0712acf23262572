// A program on a cluster of CTAs: tiles are divided, and reductions exchange values with every CTA.
// RUN: ligerdsl-opt %s -tile-assign-layouts="num-warps=4 num-ctas=4" -split-input-file | FileCheck %s --check-prefix=CUT
// RUN: ligerdsl-opt %s -tile-assign-layouts="num-warps=4 num-ctas=4" -tgpu-decompose-reduce -tgpu-lower-conversions \
// RUN:   -tgpu-allocate-shared -tgpu-insert-barriers -split-input-file | FileCheck %s
// RUN: not ligerdsl-opt %s -tile-assign-layouts="num-ctas=3" -split-input-file 2>&1 | FileCheck %s --check-prefix=WRONG
// WRONG: num_ctas is 3; expected 1, 2, 4, 8 or 16

!vec = !tile.view<?xf32, strides = [1], align = 16>

// CTAs take the highest bits of a row. All warps of the cluster send their partial sums to every
// CTA, alternating between two stages. A CTA signals when the mbarriers of its exchanges are
// initialised. No barrier is needed: a CTA that received one exchange knows that every warp has
// read the previous one.
// CUT: #tgpu.layout<register = {{.*}}, lane = {{.*}}, warp = {{\[}}[128], [256]], cta = {{\[}}[2048], [4096]], rank = 1>
// CUT: func.func @row({{.*}} attributes {tgpu.num_ctas = 4 : i64}
// CHECK: #[[WARPS:.+]] = #tgpu.layout<register = [], lane = {{\[}}[0], [0], [0], [0], [0]], warp = {{\[}}[1], [2]], cta = {{\[}}[4], [8]], rank = 1>
// CHECK: #[[ALL:.+]] = #tgpu.layout<register = [], lane = {{\[}}[1], [2], [4], [8], [0]], warp = {{\[}}[0], [0]], cta = {{\[}}[0], [0]], rank = 1>
// CHECK: func.func @row
// CHECK-NEXT: %[[STAGES:.+]] = tgpu.local_alloc {{.*}} <2x16xf32>
// CHECK-NEXT: %[[BARRIERS:.+]] = tgpu.local_alloc {{.*}} <2xi64>
// CHECK-NEXT: tgpu.init_mbarriers %[[BARRIERS]]
// CHECK-NEXT: tgpu.cluster_arrive
// CHECK: tgpu.cluster_wait
// CHECK-NEXT: scf.for
// CHECK-NOT: barrier
// CHECK: %[[TURN:.+]], %[[PARITY:.+]] = tgpu.cluster_send %{{.*}} to %[[STAGES]] signal %[[BARRIERS]] : tensor<16xf32, #[[WARPS]]>
// CHECK-NEXT: tgpu.cluster_receive %[[BARRIERS]][%[[TURN]]] parity %[[PARITY]]
// CHECK-NEXT: %[[STAGE:.+]] = tgpu.local_stage %[[STAGES]][%[[TURN]]]
// CHECK-NEXT: tgpu.local_load %[[STAGE]] {{.*}} tensor<16xf32, #[[ALL]]>
// CHECK-NOT: barrier
// CHECK: return
func.func @row(%x: !vec {tile.alias_class = 1 : i32}, %y: !vec {tile.alias_class = 2 : i32}, %n: i64) {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  scf.for %i = %c0 to %n step %c1 : i64 {
    %a = tile.load_tile %x[%i] shape [8192] : !vec -> tensor<8192xf32>
    %s = tile.reduce sum %a {axis = 0 : i32} : tensor<8192xf32> -> f32 {
    ^bb0(%p: f32, %q: f32):
      %r = arith.addf %p, %q : f32
      tile.yield %r : f32
    }
    %v = tile.splat %s : f32 -> tensor<8192xf32>
    %c = arith.subf %a, %v : tensor<8192xf32>
    tile.store_tile %c, %y[%i] shape [8192] : tensor<8192xf32>, !vec
  }
  return
}

// -----

!mat = !tile.view<?x?xf32, strides = [?, 1], align = 16, stride_div = [4, 1]>

// Each CTA reduces whole rows of its own, so nothing is exchanged and CTAs do not synchronise.
// CUT: #tgpu.layout<{{.*}}, cta = {{\[}}[2, 0], [4, 0]], rank = 2>
// CHECK-LABEL: func @rows
// CHECK-NOT: cluster
// CHECK-NOT: remote
// CHECK: return
func.func @rows(%x: !mat {tile.alias_class = 1 : i32}, %y: !mat {tile.alias_class = 2 : i32}, %i: i64) {
  %c0 = arith.constant 0 : i64
  %a = tile.load_tile %x[%i, %c0] shape [8, 1024] : !mat -> tensor<8x1024xf32>
  %s = tile.reduce sum %a {axis = 1 : i32} : tensor<8x1024xf32> -> tensor<8xf32> {
  ^bb0(%p: f32, %q: f32):
    %r = arith.addf %p, %q : f32
    tile.yield %r : f32
  }
  %e = tile.expand_dims %s {axis = 1 : i32} : tensor<8xf32> -> tensor<8x1xf32>
  %v = tile.broadcast %e : tensor<8x1xf32> -> tensor<8x1024xf32>
  %c = arith.subf %a, %v : tensor<8x1024xf32>
  tile.store_tile %c, %y[%i, %c0] shape [8, 1024] : tensor<8x1024xf32>, !mat
  return
}

// -----

!vec = !tile.view<?xf32, strides = [1], align = 16>

// There are too few elements for all threads: every CTA has all of them, and one CTA stores them.
// CUT: #tgpu.layout<{{.*}}, cta = {{\[}}[0], [0]], rank = 1>
// CHECK-LABEL: func @small
// CHECK-NOT: cluster
// CHECK: return
func.func @small(%x: !vec {tile.alias_class = 1 : i32}, %y: !vec {tile.alias_class = 2 : i32}, %i: i64) {
  %a = tile.load_tile %x[%i] shape [256] : !vec -> tensor<256xf32>
  %b = arith.addf %a, %a : tensor<256xf32>
  tile.store_tile %b, %y[%i] shape [256] : tensor<256xf32>, !vec
  return
}

// -----

!vec = !tile.view<?xf32, strides = [1], align = 16>

// Two arguments may overlap: one thread may store what a thread of another CTA loads.
// CHECK-LABEL: func @overlap
// CHECK-NOT: cluster_wait
// CHECK: tile.store_tile
// CHECK-NEXT: tgpu.cluster_barrier
// CHECK-NEXT: tile.load_tile
func.func @overlap(%x: !vec, %y: !vec, %i: i64) {
  %a = tile.load_tile %x[%i] shape [8192] : !vec -> tensor<8192xf32>
  %b = arith.addf %a, %a : tensor<8192xf32>
  tile.store_tile %b, %x[%i] shape [8192] : tensor<8192xf32>, !vec
  %c = tile.load_tile %y[%i] shape [8192] : !vec -> tensor<8192xf32>
  tile.store_tile %c, %x[%i] shape [8192] : tensor<8192xf32>, !vec
  return
}

// -----

// One thread of the cluster takes the next number. Every CTA sends its copy of the result, and the
// copy of the first CTA is used. Only one thread of a CTA sends. Before, the CTA synchronises, so
// that all threads have read the previous number. The number may arrive during the inner loop.
// CHECK-LABEL: func @next_number
// CHECK: scf.while
// CHECK: tile.atomic_rmw
// CHECK-NEXT: tgpu.barrier
// CHECK-NEXT: %[[TURN:.+]], %[[PARITY:.+]] = tgpu.cluster_send {{.*}} {from_first} : {{.*}}, !tgpu.memdesc<8x1xi32>
// CHECK-NEXT: scf.for
// CHECK: tgpu.cluster_receive {{.*}}[%[[TURN]]] parity %[[PARITY]]
// CHECK: %[[FIRST:.+]] = arith.muli %[[TURN]], %c4
// CHECK: tgpu.local_stage {{.*}}[%[[FIRST]]]
func.func @next_number(%counter: !tile.ptr<i32> {tile.alias_class = 1 : i32}, %out: !tile.view<?xi32, strides = [1]> {tile.alias_class = 2 : i32}, %n: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  scf.while (%i = %c0) : (i32) -> i32 {
    %more = arith.cmpi slt, %i, %n : i32
    scf.condition(%more) %i : i32
  } do {
  ^bb0(%i: i32):
    %old = tile.atomic_rmw add %c1, %counter : i32, !tile.ptr<i32> -> i32
    scf.for %j = %c0 to %n step %c1 : i32 {
      %at = arith.extsi %j : i32 to i64
      tile.store_tile %j, %out[%at] shape [0] : i32, !tile.view<?xi32, strides = [1]>
    }
    scf.yield %old : i32
  }
  return
}

// -----

// Two CTAs hold the same row sums. If only one CTA sent, it would not wait for the other CTA, which
// might still read the previous iteration's values. Cluster barriers replace the exchange.
// CHECK-LABEL: func @held_by_some
// CHECK: scf.for
// CHECK-NOT: tgpu.cluster_send
// CHECK: tgpu.remote_store {{.*}} : tensor<2xf32
// CHECK-NEXT: tgpu.cluster_barrier
func.func @held_by_some(%x: !tile.view<?x?xf32, strides = [?, 1], align = 16, stride_div = [4, 1]> {tile.read_only}, %y: !tile.view<?xf32, strides = [1]>, %n: i64) {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %t = tile.load_tile %x[%c0, %c0] shape [2, 4096] : !tile.view<?x?xf32, strides = [?, 1], align = 16, stride_div = [4, 1]> -> tensor<2x4096xf32>
  %first = tile.reduce sum %t {axis = 1 : i32} : tensor<2x4096xf32> -> tensor<2xf32> {
  ^bb0(%a: f32, %b: f32):
    %ab = arith.addf %a, %b : f32
    tile.yield %ab : f32
  }
  %last = scf.for %i = %c0 to %n step %c1 iter_args(%sums = %first) -> (tensor<2xf32>) : i64 {
    %all = tile.reduce sum %sums {axis = 0 : i32} : tensor<2xf32> -> f32 {
    ^bb0(%a: f32, %b: f32):
      %ab = arith.addf %a, %b : f32
      tile.yield %ab : f32
    }
    tile.store_tile %all, %y[%i] shape [0] : f32, !tile.view<?xf32, strides = [1]>
    %next = arith.addf %sums, %sums : tensor<2xf32>
    scf.yield %next : tensor<2xf32>
  }
  return
}

// -----

!vec = !tile.view<?xf32, strides = [1], align = 16>

// Accesses of different programs of one CTA to global memory are no hazard, even at the same
// address. Accesses within one program are.
// CHECK-LABEL: func @programs
// CHECK: scf.while
// CHECK-NOT: cluster_barrier
// CHECK: tile.load_tile
// CHECK: tgpu.cluster_barrier
// CHECK-NEXT: tile.store_tile
// CHECK-NOT: cluster_barrier
// CHECK: return
func.func @programs(%x: !vec {tile.alias_class = 1 : i32}, %y: !vec {tile.alias_class = 1 : i32}, %n: i64) {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  scf.while (%i = %c0) : (i64) -> i64 {
    %more = arith.cmpi slt, %i, %n : i64
    scf.condition(%more) %i : i64
  } do {
  ^bb0(%i: i64):
    %a = tile.load_tile %x[%i] shape [256] : !vec -> tensor<256xf32>
    %b = arith.addf %a, %a : tensor<256xf32>
    tile.store_tile %b, %y[%i] shape [256] : tensor<256xf32>, !vec
    %next = arith.addi %i, %c1 : i64
    scf.yield %next : i64
  } attributes {tile.independent}
  return
}
