// Remarks on pipelined loops whose tiles could be staged in shared memory.
// RUN: ligerdsl-opt %s -tile-prefetch-loads=shared-bytes=65536 -split-input-file -verify-diagnostics

!x = !tile.view<?x?xf32, strides = [?, 1], align = 16, stride_div = [4, 1]>

func.func @evicted_first(%x: !x {tile.read_only}, %lo: i64, %hi: i64, %step: i64) -> tensor<8192xf32> {
  %c0 = arith.constant 0 : i64
  %zero = arith.constant dense<0.0> : tensor<8192xf32>
  %sum = scf.for %i = %lo to %hi step %step iter_args(%acc = %zero) -> (tensor<8192xf32>) : i64 {
    // expected-remark @below {{[tile-prefetch-loads] num_stages = 2: the load's eviction policy is ignored: asynchronous copies to shared memory take none; omit it, or use smaller tiles or fewer stages so that the tile stays in registers [load-hint-ignored]}}
    %t = tile.load_tile %x[%i, %c0] shape [0, 8192] {evict = 1 : i32} : !x -> tensor<8192xf32>
    %s = arith.addf %acc, %t : tensor<8192xf32>
    scf.yield %s : tensor<8192xf32>
  } {tile.num_stages = 2 : i64}
  return %sum : tensor<8192xf32>
}

// -----

!x = !tile.view<?x?xf32, strides = [?, 1], align = 16, stride_div = [4, 1]>

func.func @streamed(%x: !x {tile.read_only}, %lo: i64, %hi: i64, %step: i64) -> tensor<8192xf32> {
  %c0 = arith.constant 0 : i64
  %zero = arith.constant dense<0.0> : tensor<8192xf32>
  %sum = scf.for %i = %lo to %hi step %step iter_args(%acc = %zero) -> (tensor<8192xf32>) : i64 {
    // expected-remark @below {{num_stages = 2: the load's cache hint is ignored: asynchronous copies to shared memory take none; omit it, or use smaller tiles or fewer stages so that the tile stays in registers [load-hint-ignored]}}
    %t = tile.load_tile %x[%i, %c0] shape [0, 8192] {cache = 2 : i32} : !x -> tensor<8192xf32>
    %s = arith.addf %acc, %t : tensor<8192xf32>
    scf.yield %s : tensor<8192xf32>
  } {tile.num_stages = 2 : i64}
  return %sum : tensor<8192xf32>
}

// -----

!x = !tile.view<?x?xf32, strides = [?, 1], align = 16, stride_div = [4, 1]>

func.func @three_asked(%x: !x {tile.read_only}, %lo: i64, %hi: i64, %step: i64) -> tensor<8192xf32> {
  %c0 = arith.constant 0 : i64
  %zero = arith.constant dense<0.0> : tensor<8192xf32>
  // expected-remark @below {{num_stages = 3: loads are issued 1 iterations ahead, not 2: shared memory holds the tiles of 2 iterations; use smaller tiles or fewer stages [fewer-stages-in-shared-memory]}}
  %sum = scf.for %i = %lo to %hi step %step iter_args(%acc = %zero) -> (tensor<8192xf32>) : i64 {
    %t = tile.load_tile %x[%i, %c0] shape [0, 8192] : !x -> tensor<8192xf32>
    %s = arith.addf %acc, %t : tensor<8192xf32>
    scf.yield %s : tensor<8192xf32>
  } {tile.num_stages = 3 : i64}
  return %sum : tensor<8192xf32>
}

// -----

!x = !tile.view<?x?xf32, strides = [?, 1], align = 16, stride_div = [4, 1]>

func.func @padded(%x: !x {tile.read_only}, %lo: i64, %hi: i64, %step: i64) -> tensor<8192xf32> {
  %c0 = arith.constant 0 : i64
  %zero = arith.constant dense<0.0> : tensor<8192xf32>
  // expected-remark-re @below {{only prefetched to L2: in registers they take {{.*}} bytes per thread, and {{.*}} are left; use smaller tiles or more warps [only-prefetched-to-l2]}}
  %sum = scf.for %i = %lo to %hi step %step iter_args(%acc = %zero) -> (tensor<8192xf32>) : i64 {
    // expected-remark @below {{not staged in shared memory: copies to shared memory pad only with 0; load with pad 0 [load-not-staged]}}
    %t = tile.load_tile %x[%i, %c0] shape [0, 8192] {pad = 1.0 : f32} : !x -> tensor<8192xf32>
    %s = arith.addf %acc, %t : tensor<8192xf32>
    scf.yield %s : tensor<8192xf32>
  } {tile.num_stages = 2 : i64}
  return %sum : tensor<8192xf32>
}

// -----

!x = !tile.view<?x?xf32, strides = [?, 1], align = 16>

func.func @offset(%x: !x {tile.read_only}, %lo: i64, %hi: i64, %step: i64) -> tensor<8192xf32> {
  %c0 = arith.constant 0 : i64
  %zero = arith.constant dense<0.0> : tensor<8192xf32>
  // expected-remark-re @below {{only prefetched to L2: in registers they take {{.*}} bytes per thread, and {{.*}} are left; use smaller tiles or more warps [only-prefetched-to-l2]}}
  %sum = scf.for %i = %lo to %hi step %step iter_args(%acc = %zero) -> (tensor<8192xf32>) : i64 {
    %offset = tile.alignment_offset %x[%lo] : !x
    // expected-remark @below {{not staged in shared memory: its alignment offset is not provably that of its row; use View::alignment_offset of this row [load-not-staged]}}
    %t = tile.load_tile %x[%i, %c0] alignment_offset %offset shape [0, 8192] : !x -> tensor<8192xf32>
    %s = arith.addf %acc, %t : tensor<8192xf32>
    scf.yield %s : tensor<8192xf32>
  } {tile.num_stages = 2 : i64}
  return %sum : tensor<8192xf32>
}
