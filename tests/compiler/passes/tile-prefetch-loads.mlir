// RUN: ligerdsl-opt %s -tile-prefetch-loads | FileCheck %s
// RUN: ligerdsl-opt %s -tile-prefetch-loads=num-stages=3 | FileCheck %s --check-prefix=ALL
// RUN: ligerdsl-opt %s -tile-prefetch-loads=shared-bytes=65536 | FileCheck %s --check-prefix=STAGED
// RUN: ligerdsl-opt %s -tile-prefetch-loads=shared-bytes=40000 | FileCheck %s --check-prefix=SINGLE
// RUN: ligerdsl-opt %s -tile-prefetch-loads=shared-bytes=100000 | FileCheck %s --check-prefix=DEEP

!x = !tile.view<?x?xf32, strides = [?, 1]>

// CHECK-LABEL: func.func @rows
// CHECK-SAME: (%[[X:[a-z0-9]+]]: !tile.view
// CHECK: %[[FIRST:[0-9]+]] = tile.load_tile %[[X]]
// CHECK: scf.for %[[I:[a-z0-9]+]] = {{.*}} iter_args(%[[ACC:[a-z0-9]+]] = %{{.*}}, %[[T:[a-z0-9]+]] = %[[FIRST]])
// CHECK: %[[NEXT:.*]] = arith.addi %[[I]]
// CHECK: %[[ROW:.*]] = arith.extsi %[[NEXT]]
// CHECK: %[[LOAD:.*]] = tile.load_tile %[[X]][%[[ROW]],
// CHECK: %[[SUM:.*]] = arith.addf %[[ACC]], %[[T]]
// CHECK: scf.yield %[[SUM]], %[[LOAD]]
func.func @rows(%x: !x {tile.alias_class = 1 : i64}, %y: !x {tile.alias_class = 2 : i64}, %lo: i32, %hi: i32, %step: i32) {
  %c0 = arith.constant 0 : i64
  %zero = arith.constant dense<0.0> : tensor<64xf32>
  %sum = scf.for %i = %lo to %hi step %step iter_args(%acc = %zero) -> (tensor<64xf32>) : i32 {
    %row = arith.extsi %i : i32 to i64
    %t = tile.load_tile %x[%row, %c0] shape [0, 64] : !x -> tensor<64xf32>
    %s = arith.addf %acc, %t : tensor<64xf32>
    tile.store_tile %t, %y[%row, %c0] shape [0, 64] : tensor<64xf32>, !x
    scf.yield %s : tensor<64xf32>
  } {tile.num_stages = 2 : i64}
  tile.store_tile %sum, %y[%c0, %c0] shape [0, 64] : tensor<64xf32>, !x
  return
}

// In place: the loop writes the memory that it reads, but the next iteration reads another row.
// CHECK-LABEL: func.func @in_place
// CHECK: tile.load_tile
// CHECK: scf.for
// CHECK: tile.load_tile
func.func @in_place(%x: !x {tile.alias_class = 1 : i64}, %y: !x {tile.alias_class = 1 : i64}, %lo: i64, %hi: i64, %step: i64) {
  %c0 = arith.constant 0 : i64
  scf.for %i = %lo to %hi step %step : i64 {
    %t = tile.load_tile %x[%i, %c0] shape [0, 64] : !x -> tensor<64xf32>
    tile.store_tile %t, %y[%i, %c0] shape [0, 64] : tensor<64xf32>, !x
  } {tile.num_stages = 2 : i64}
  return
}

// Nothing is known about aliasing: y may be x shifted by a row.
// CHECK-LABEL: func.func @unknown
// CHECK-NOT: tile.load_tile
// CHECK: scf.for
func.func @unknown(%x: !x, %y: !x, %lo: i64, %hi: i64, %step: i64) {
  %c0 = arith.constant 0 : i64
  scf.for %i = %lo to %hi step %step : i64 {
    %t = tile.load_tile %x[%i, %c0] shape [0, 64] : !x -> tensor<64xf32>
    tile.store_tile %t, %y[%i, %c0] shape [0, 64] : tensor<64xf32>, !x
  } {tile.num_stages = 2 : i64}
  return
}

// In place as well, but the load reads what this iteration has stored.
// CHECK-LABEL: func.func @in_place_stored_first
// CHECK-NOT: tile.load_tile
// CHECK: scf.for
func.func @in_place_stored_first(%x: !x {tile.alias_class = 1 : i64}, %y: !x {tile.alias_class = 1 : i64}, %t: f32, %lo: i64, %hi: i64, %step: i64) {
  %c0 = arith.constant 0 : i64
  %two = tile.splat %t : f32 -> tensor<64xf32>
  scf.for %i = %lo to %hi step %step : i64 {
    tile.store_tile %two, %y[%i, %c0] shape [0, 64] : tensor<64xf32>, !x
    %u = tile.load_tile %x[%i, %c0] shape [0, 64] : !x -> tensor<64xf32>
    tile.print "u" %u : tensor<64xf32>
  } {tile.num_stages = 2 : i64}
  return
}

// The loop carries the index of the row.
// CHECK-LABEL: func.func @carried_index
// CHECK-NOT: tile.load_tile
// CHECK: scf.for
func.func @carried_index(%x: !x {tile.read_only}, %lo: i64, %hi: i64, %step: i64) -> i64 {
  %c0 = arith.constant 0 : i64
  %r = scf.for %i = %lo to %hi step %step iter_args(%row = %c0) -> (i64) : i64 {
    %t = tile.load_tile %x[%row, %c0] shape [0, 0] : !x -> f32
    %n = arith.fptosi %t : f32 to i64
    scf.yield %n : i64
  } {tile.num_stages = 2 : i64}
  return %r : i64
}

// Equal partitions of one memory, but the stored row differs from the loaded row.
// CHECK-LABEL: func.func @in_place_shifted
// CHECK-NOT: tile.load_tile
// CHECK: scf.for
func.func @in_place_shifted(%x: !x {tile.alias_class = 1 : i64}, %lo: i64, %hi: i64, %step: i64) {
  %c0 = arith.constant 0 : i64
  scf.for %i = %lo to %hi step %step : i64 {
    %after = arith.addi %i, %step : i64
    %t = tile.load_tile %x[%i, %c0] shape [0, 64] : !x -> tensor<64xf32>
    tile.store_tile %t, %x[%after, %c0] shape [0, 64] : tensor<64xf32>, !x
  } {tile.num_stages = 2 : i64}
  return
}

// Two iterations ahead take 256 bytes per thread. A third would exceed the share of the registers
// that a loop may carry.
// CHECK-LABEL: func.func @deep
// CHECK-COUNT-2: tile.load_tile
// CHECK: scf.for {{.*}} iter_args(%[[T:.*]] = %{{.*}}, %[[U:.*]] = %{{.*}})
// CHECK: %[[LOAD:.*]] = tile.load_tile
// CHECK: tile.print "t" %[[T]]
// CHECK: scf.yield %[[U]], %[[LOAD]]
func.func @deep(%x: !x {tile.read_only}, %lo: i64, %hi: i64, %step: i64) {
  %c0 = arith.constant 0 : i64
  scf.for %i = %lo to %hi step %step : i64 {
    %t = tile.load_tile %x[%i, %c0] shape [0, 4096] : !x -> tensor<4096xf32>
    tile.print "t" %t : tensor<4096xf32>
  } {tile.num_stages = 4 : i64}
  return
}

// Not even one more tile fits, so the next one is prefetched to L2.
// CHECK-LABEL: func.func @wide
// CHECK: scf.for %[[I:.+]] = {{.*}} iter_args
// CHECK: %[[NEXT:.+]] = arith.addi %[[I]]
// CHECK: tile.prefetch_tile %{{.+}}[%[[NEXT]], %{{.+}}] shape [0, 8192]
// CHECK: tile.load_tile %{{.+}}[%[[I]], %{{.+}}] shape [0, 8192]
func.func @wide(%x: !x {tile.read_only}, %lo: i64, %hi: i64, %step: i64) -> tensor<8192xf32> {
  %c0 = arith.constant 0 : i64
  %zero = arith.constant dense<0.0> : tensor<8192xf32>
  %sum = scf.for %i = %lo to %hi step %step iter_args(%acc = %zero) -> (tensor<8192xf32>) : i64 {
    %t = tile.load_tile %x[%i, %c0] shape [0, 8192] : !x -> tensor<8192xf32>
    %s = arith.addf %acc, %t : tensor<8192xf32>
    scf.yield %s : tensor<8192xf32>
  } {tile.num_stages = 2 : i64}
  return %sum : tensor<8192xf32>
}

// An atomic may signal something to other programs, so the loads are not moved.
// CHECK-LABEL: func.func @atomic
// CHECK-NOT: tile.load_tile
// CHECK: scf.for
func.func @atomic(%x: !x {tile.read_only}, %p: !tile.ptr<i32>, %lo: i64, %hi: i64, %step: i64) {
  %c0 = arith.constant 0 : i64
  %one = arith.constant 1 : i32
  scf.for %i = %lo to %hi step %step : i64 {
    %old = tile.atomic_rmw add %one, %p : i32, !tile.ptr<i32> -> i32
    %t = tile.load_tile %x[%i, %c0] shape [0, 64] : !x -> tensor<64xf32>
    tile.print "t" %t : tensor<64xf32>
  } {tile.num_stages = 2 : i64}
  return
}

// Loops without a number of stages use the pass option.
// ALL-LABEL: func.func @plain
// ALL-COUNT-2: tile.load_tile
// ALL: scf.for
// CHECK-LABEL: func.func @plain
// CHECK-NOT: tile.load_tile
// CHECK: scf.for
func.func @plain(%x: !x {tile.read_only}, %lo: i64, %hi: i64, %step: i64) {
  %c0 = arith.constant 0 : i64
  scf.for %i = %lo to %hi step %step : i64 {
    %t = tile.load_tile %x[%i, %c0] shape [0, 64] : !x -> tensor<64xf32>
    tile.print "t" %t : tensor<64xf32>
  }
  return
}

// Shared memory holds two iterations, so the tile is staged: copied an iteration ahead into the
// slot that this iteration does not read. A tile without a vector per thread, here one number per
// row, is carried.
// STAGED-LABEL: func.func @staged
// STAGED: %[[RING:.+]] = tgpu.ring : <2 async_own of <1x8192xf32>>
// STAGED: %[[NUMBER:.+]] = tile.load_tile %{{.+}} shape [1]
// STAGED: tgpu.ring_fill %[[RING]][%{{.+}}] at %{{.+}} from %{{.+}} shape [1, 8192]
// STAGED: scf.for {{.*}} iter_args(%{{.+}} = %{{.+}}, %[[SLOT:.+]] = %{{.+}}, %[[CARRIED:.+]] = %[[NUMBER]])
// STAGED: tgpu.ring_await %[[RING]] pending 0
// STAGED: %[[NEXT:.+]] = arith.xori %[[SLOT]]
// STAGED: tgpu.ring_fill %[[RING]][%[[NEXT]]]
// STAGED: %[[TILE:.+]] = tgpu.ring_read %[[RING]][%[[SLOT]]] part 0
// STAGED: tile.print "t" %[[TILE]], %[[CARRIED]]
// STAGED: scf.yield %{{.+}}, %[[NEXT]], %{{.+}}
// STAGED: tgpu.ring_await %[[RING]] pending 0
//
// There is room for one iteration only: the next tile is prefetched to L2.
// SINGLE-LABEL: func.func @staged
// SINGLE-NOT: stage
// SINGLE: tile.prefetch_tile
!aligned = !tile.view<?x?xf32, strides = [?, 1], align = 16, stride_div = [4, 1]>
!numbers = !tile.view<?xf32, strides = [1]>
func.func @staged(%x: !aligned {tile.read_only}, %r: !numbers {tile.read_only}, %lo: i64, %hi: i64, %step: i64) {
  %c0 = arith.constant 0 : i64
  %zero = arith.constant dense<0.0> : tensor<1x8192xf32>
  %sum = scf.for %i = %lo to %hi step %step iter_args(%acc = %zero) -> (tensor<1x8192xf32>) : i64 {
    %t = tile.load_tile %x[%i, %c0] shape [1, 8192] : !aligned -> tensor<1x8192xf32>
    %n = tile.load_tile %r[%i] shape [1] : !numbers -> tensor<1xf32>
    tile.print "t" %t, %n : tensor<1x8192xf32>, tensor<1xf32>
    scf.yield %acc : tensor<1x8192xf32>
  } {tile.num_stages = 2 : i64}
  return
}

// The copies must not delay this iteration's reads, so they start after these, just before the
// first reduction.
// STAGED-LABEL: func.func @reduced
// STAGED: scf.for
// STAGED: tgpu.ring_read
// STAGED: tgpu.ring_fill
// STAGED: tile.reduce
func.func @reduced(%x: !aligned {tile.read_only}, %lo: i64, %hi: i64, %step: i64) {
  %c0 = arith.constant 0 : i64
  %zero = arith.constant dense<0.0> : tensor<1x8192xf32>
  %sum = scf.for %i = %lo to %hi step %step iter_args(%acc = %zero) -> (tensor<1x8192xf32>) : i64 {
    %t = tile.load_tile %x[%i, %c0] shape [1, 8192] : !aligned -> tensor<1x8192xf32>
    %n = tile.reduce sum %t {axis = 1 : i32} : tensor<1x8192xf32> -> tensor<1xf32> {
    ^bb0(%p: f32, %q: f32):
      %r = arith.addf %p, %q : f32
      tile.yield %r : f32
    }
    tile.print "n" %n : tensor<1xf32>
    scf.yield %acc : tensor<1x8192xf32>
  } {tile.num_stages = 2 : i64}
  return
}

// The loop carries values in half of the registers, so the copies start at the top.
// STAGED-LABEL: func.func @crowded
// STAGED: scf.for
// STAGED: tgpu.ring_fill
// STAGED: tgpu.ring_read
// STAGED: tile.reduce
func.func @crowded(%x: !aligned {tile.read_only}, %lo: i64, %hi: i64, %step: i64) {
  %c0 = arith.constant 0 : i64
  %zero = arith.constant dense<0.0> : tensor<1x16384xf32>
  %sum = scf.for %i = %lo to %hi step %step iter_args(%acc = %zero) -> (tensor<1x16384xf32>) : i64 {
    %t = tile.load_tile %x[%i, %c0] shape [1, 8192] : !aligned -> tensor<1x8192xf32>
    %n = tile.reduce sum %t {axis = 1 : i32} : tensor<1x8192xf32> -> tensor<1xf32> {
    ^bb0(%p: f32, %q: f32):
      %r = arith.addf %p, %q : f32
      tile.yield %r : f32
    }
    tile.print "n" %n : tensor<1xf32>
    scf.yield %acc : tensor<1x16384xf32>
  } {tile.num_stages = 2 : i64}
  return
}

// Four stages are requested and three fit: two iterations are in flight while the third is
// computed.
// DEEP-LABEL: func.func @deeper
// DEEP-DAG: %[[ZERO:.+]] = arith.constant 0 : i32
// DEEP-DAG: %[[RING:.+]] = tgpu.ring : <3 async_own of <1x8192xf32>>
// DEEP: tgpu.ring_fill %[[RING]][%{{.+}}] at %arg1 from %{{.+}} shape [1, 8192]
// DEEP: %[[SECOND:.+]] = arith.addi %arg1, %arg3
// DEEP: tgpu.ring_fill %[[RING]][%{{.+}}] at %[[SECOND]] from
// DEEP: scf.for %[[I:.+]] = {{.*}} iter_args(%{{.+}} = %{{.+}}, %[[SLOT:.+]] = %{{.+}})
// DEEP: tgpu.ring_await %[[RING]] pending 1
// DEEP: %[[LAST:.+]] = arith.cmpi eq, %[[SLOT]], %c2_i32
// DEEP: %[[NEXT:.+]] = arith.select %[[LAST]], %c0_i32{{.*}}, %{{.+}}
// DEEP: %[[ONE:.+]] = arith.addi %[[I]], %arg3
// DEEP: %[[TWO:.+]] = arith.addi %[[ONE]], %arg3
// DEEP: %[[FIRST:.+]] = arith.cmpi eq, %[[SLOT]], %c0_i32
// DEEP: %[[BEFORE:.+]] = arith.select %[[FIRST]], %c2_i32{{.*}}, %{{.+}}
// DEEP: tgpu.ring_fill %[[RING]][%[[BEFORE]]] at %[[TWO]] from %{{.+}} shape [1, 8192]
// DEEP: tgpu.ring_read %[[RING]][%[[SLOT]]] part 0
// DEEP: scf.yield %{{.+}}, %[[NEXT]]
// DEEP: tgpu.ring_await %[[RING]] pending 0
func.func @deeper(%x: !aligned {tile.read_only}, %lo: i64, %hi: i64, %step: i64) {
  %c0 = arith.constant 0 : i64
  %zero = arith.constant dense<0.0> : tensor<1x8192xf32>
  %sum = scf.for %i = %lo to %hi step %step iter_args(%acc = %zero) -> (tensor<1x8192xf32>) : i64 {
    %t = tile.load_tile %x[%i, %c0] shape [1, 8192] : !aligned -> tensor<1x8192xf32>
    tile.print "t" %t : tensor<1x8192xf32>
    scf.yield %acc : tensor<1x8192xf32>
  } {tile.num_stages = 4 : i64}
  return
}

!codes = !tile.view<?x?xi8, strides = [?, 1]>

// Once the tile is widened, the registers of the carried narrow tile hold the next one.
// CHECK-LABEL: func.func @fp8
// CHECK: scf.for {{.*}} iter_args(%[[CARRIED:[a-z0-9]+]] =
// CHECK: tile.fp8_decode %[[CARRIED]] as f8E4M3FN
// CHECK: tile.load_tile
// CHECK: scf.yield
func.func @fp8(%x: !codes {tile.alias_class = 1 : i64}, %y: !x {tile.alias_class = 2 : i64}, %lo: i64, %hi: i64, %step: i64) {
  %c0 = arith.constant 0 : i64
  scf.for %i = %lo to %hi step %step : i64 {
    %t = tile.load_tile %x[%i, %c0] shape [0, 64] : !codes -> tensor<64xi8>
    %n = tile.fp8_decode %t as f8E4M3FN : tensor<64xi8> -> tensor<64xf32>
    tile.store_tile %n, %y[%i, %c0] shape [0, 64] : tensor<64xf32>, !x
  } {tile.num_stages = 2 : i64}
  return
}
