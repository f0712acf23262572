// Remarks on pipelined loops. tile-prefetch-loads.mlir shows the generated code.
// RUN: ligerdsl-opt %s -tile-prefetch-loads -split-input-file -verify-diagnostics

!x = !tile.view<?x?xf32, strides = [?, 1]>

func.func @store_may_alias(%x: !x, %y: !x, %lo: i64, %hi: i64, %step: i64) {
  %c0 = arith.constant 0 : i64
  scf.for %i = %lo to %hi step %step : i64 {
    // expected-remark-re @below {{[tile-prefetch-loads] num_stages = 2: not loaded ahead: the store at {{.+}}-remarks.mlir:11 may write what it reads; promise that the arguments do not overlap (no_alias), or store after the load, at its indices [load-not-ahead]}}
    %t = tile.load_tile %x[%i, %c0] shape [0, 64] : !x -> tensor<64xf32>
    tile.store_tile %t, %y[%i, %c0] shape [0, 64] : tensor<64xf32>, !x
  } {tile.num_stages = 2 : i64}
  return
}

// -----

!x = !tile.view<?x?xf32, strides = [?, 1]>
!n = !tile.view<?xi64, strides = [1]>

func.func @index_from_memory(%x: !x {tile.read_only}, %n: !n {tile.read_only}, %lo: i64, %hi: i64, %step: i64) {
  %c0 = arith.constant 0 : i64
  scf.for %i = %lo to %hi step %step : i64 {
    %row = tile.load_tile %n[%i] shape [0] : !n -> i64
    // expected-remark-re @below {{its index comes from the op at {{.+}}-remarks.mlir:24, which reads memory or branches; compute the index from the loop's counter and from values from outside the loop [load-not-ahead]}}
    %t = tile.load_tile %x[%row, %c0] shape [0, 64] : !x -> tensor<64xf32>
    tile.print "t" %t : tensor<64xf32>
  } {tile.num_stages = 2 : i64}
  return
}

// -----

!x = !tile.view<?x?xf32, strides = [?, 1]>

func.func @index_carried(%x: !x {tile.read_only}, %lo: i64, %hi: i64, %step: i64) -> i64 {
  %c0 = arith.constant 0 : i64
  %r = scf.for %i = %lo to %hi step %step iter_args(%row = %c0) -> (i64) : i64 {
    // expected-remark @below {{not loaded ahead: its index depends on a value that the loop carries; compute the index from the loop's counter and from values from outside the loop [load-not-ahead]}}
    %t = tile.load_tile %x[%row, %c0] shape [0, 0] : !x -> f32
    %n = arith.fptosi %t : f32 to i64
    scf.yield %n : i64
  } {tile.num_stages = 2 : i64}
  return %r : i64
}

// -----

!x = !tile.view<?x?xf32, strides = [?, 1]>

func.func @atomic(%x: !x {tile.read_only}, %p: !tile.ptr<i32>, %lo: i64, %hi: i64, %step: i64) {
  %c0 = arith.constant 0 : i64
  %one = arith.constant 1 : i32
  // expected-remark-re @below {{no load is issued ahead: the atomic at {{.+}}-remarks.mlir:56 may synchronise with other programs, whose writes later iterations read; move the atomic out of the loop [atomic-in-loop]}}
  scf.for %i = %lo to %hi step %step : i64 {
    %old = tile.atomic_rmw add %one, %p : i32, !tile.ptr<i32> -> i32
    %t = tile.load_tile %x[%i, %c0] shape [0, 64] : !x -> tensor<64xf32>
    tile.print "t" %t : tensor<64xf32>
  } {tile.num_stages = 2 : i64}
  return
}

// -----

func.func @nothing_to_load(%lo: i64, %hi: i64, %step: i64) {
  // expected-remark @below {{num_stages = 2: without effect: the loop's body itself loads no tile of a partition (loads in inner loops and branches, and gathers, are not issued ahead); pipeline the loop whose body loads tiles [nothing-to-load-ahead]}}
  scf.for %i = %lo to %hi step %step : i64 {
    tile.print "i" %i : i64
  } {tile.num_stages = 2 : i64}
  return
}

// -----

!x = !tile.view<?x?xf32, strides = [?, 1]>

// A loop may carry 382 of 1020 bytes of registers: two of the three tiles of 128 bytes.
func.func @fewer_stages(%x: !x {tile.read_only}, %lo: i64, %hi: i64, %step: i64) {
  %c0 = arith.constant 0 : i64
  // expected-remark @below {{num_stages = 4: loads are issued 2 iterations ahead, not 3: more would take more than 382 bytes of registers per thread; use smaller tiles, more warps or fewer stages [fewer-stages-in-registers]}}
  scf.for %i = %lo to %hi step %step : i64 {
    %t = tile.load_tile %x[%i, %c0] shape [0, 4096] : !x -> tensor<4096xf32>
    tile.print "t" %t : tensor<4096xf32>
  } {tile.num_stages = 4 : i64}
  return
}

// -----

!x = !tile.view<?x?xf32, strides = [?, 1]>

func.func @no_room(%x: !x {tile.read_only}, %lo: i64, %hi: i64, %step: i64) -> tensor<8192xf32> {
  %c0 = arith.constant 0 : i64
  %zero = arith.constant dense<0.0> : tensor<8192xf32>
  // expected-remark @below {{only prefetched to L2: in registers they take 256 bytes per thread, and 126 are left; use smaller tiles or more warps [only-prefetched-to-l2]}}
  %sum = scf.for %i = %lo to %hi step %step iter_args(%acc = %zero) -> (tensor<8192xf32>) : i64 {
    // expected-remark @below {{not staged in shared memory: a copy has 16 bytes, and facts prove accesses of only 4 bytes [load-not-staged]}}
    %t = tile.load_tile %x[%i, %c0] shape [0, 8192] : !x -> tensor<8192xf32>
    %s = arith.addf %acc, %t : tensor<8192xf32>
    scf.yield %s : tensor<8192xf32>
  } {tile.num_stages = 2 : i64}
  return %sum : tensor<8192xf32>
}

// -----

!x = !tile.view<?x?xf32, strides = [?, 1], align = 16, stride_div = [4, 1]>

func.func @no_shared_memory(%x: !x {tile.read_only}, %lo: i64, %hi: i64, %step: i64) -> tensor<8192xf32> {
  %c0 = arith.constant 0 : i64
  %zero = arith.constant dense<0.0> : tensor<8192xf32>
  // expected-remark-re @below {{only prefetched to L2: in registers they take {{.*}} bytes per thread, and {{.*}} are left; use smaller tiles or more warps [only-prefetched-to-l2]}}
  %sum = scf.for %i = %lo to %hi step %step iter_args(%acc = %zero) -> (tensor<8192xf32>) : i64 {
    // expected-remark @below {{not staged in shared memory: two iterations of the loop's tiles take 65536 bytes of shared memory per CTA, and 0 are left; use smaller tiles [load-not-staged]}}
    %t = tile.load_tile %x[%i, %c0] shape [0, 8192] : !x -> tensor<8192xf32>
    %s = arith.addf %acc, %t : tensor<8192xf32>
    scf.yield %s : tensor<8192xf32>
  } {tile.num_stages = 2 : i64}
  return %sum : tensor<8192xf32>
}

// -----

!x = !tile.view<?x?xf32, strides = [?, 1], align = 16, stride_div = [4, 1]>

func.func @small_ones(%x: !x {tile.read_only}, %lo: i64, %hi: i64, %step: i64) -> (tensor<8192xf32>, tensor<128xf32>, f32) {
  %c0 = arith.constant 0 : i64
  %zero = arith.constant dense<0.0> : tensor<8192xf32>
  %none = arith.constant dense<0.0> : tensor<128xf32>
  %nought = arith.constant 0.0 : f32
  // expected-remark-re @below {{only prefetched to L2: in registers they take {{.*}} bytes per thread, and {{.*}} are left; use smaller tiles or more warps [only-prefetched-to-l2]}}
  %sums:3 = scf.for %i = %lo to %hi step %step iter_args(%a = %zero, %b = %none, %c = %nought) -> (tensor<8192xf32>, tensor<128xf32>, f32) : i64 {
    // expected-remark @below {{not staged in shared memory: two iterations of the loop's tiles take 65536 bytes of shared memory per CTA, and 0 are left; use smaller tiles [load-not-staged]}}
    %t = tile.load_tile %x[%i, %c0] shape [0, 8192] : !x -> tensor<8192xf32>
    // expected-remark @below {{not staged in shared memory: its tile has 32 vectors of 16 bytes for 128 threads; use larger tiles or fewer warps [load-not-staged]}}
    %u = tile.load_tile %x[%i, %c0] shape [0, 128] : !x -> tensor<128xf32>
    // expected-remark @below {{not staged in shared memory: it is a scalar [load-not-staged]}}
    %v = tile.load_tile %x[%i, %c0] shape [0, 0] : !x -> f32
    %d = arith.addf %a, %t : tensor<8192xf32>
    %e = arith.addf %b, %u : tensor<128xf32>
    %f = arith.addf %c, %v : f32
    scf.yield %d, %e, %f : tensor<8192xf32>, tensor<128xf32>, f32
  } {tile.num_stages = 2 : i64}
  return %sums#0, %sums#1, %sums#2 : tensor<8192xf32>, tensor<128xf32>, f32
}

// -----

!x = !tile.view<?x?xf32, strides = [?, 1]>

func.func @slice_of_each_iteration(%x: !x {tile.read_only}, %lo: i64, %hi: i64, %step: i64) {
  %c0 = arith.constant 0 : i64
  scf.for %i = %lo to %hi step %step : i64 {
    %rows = tile.slice %x, 0 from %i to %hi : !x -> !x
    // expected-remark @below {{not loaded ahead: it reads a slice that is taken inside the loop; take the slice before the loop [load-not-ahead]}}
    %t = tile.load_tile %rows[%c0, %c0] shape [0, 64] : !x -> tensor<64xf32>
    tile.print "t" %t : tensor<64xf32>
  } {tile.num_stages = 2 : i64}
  return
}

// -----

!x = !tile.view<?x?xf32, strides = [?, 1]>

func.func @stores_to_another_slice(%x: !x, %lo: i64, %hi: i64, %step: i64) {
  %c0 = arith.constant 0 : i64
  %rows = tile.slice %x, 0 from %lo to %hi : !x -> !x
  scf.for %i = %lo to %hi step %step : i64 {
    // expected-remark @below {{may write what it reads; promise that the arguments do not overlap (no_alias), or store after the load, at its indices [load-not-ahead]}}
    %t = tile.load_tile %x[%i, %c0] shape [0, 64] : !x -> tensor<64xf32>
    tile.store_tile %t, %rows[%i, %c0] shape [0, 64] : tensor<64xf32>, !x
  } {tile.num_stages = 2 : i64}
  return
}
