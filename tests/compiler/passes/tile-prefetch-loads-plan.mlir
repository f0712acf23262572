// Plans of pipelined loops, as attributes (compiler/pipeline/README.md). No loop is rewritten.
// RUN: ligerdsl-opt %s -tile-assign-layouts=num-warps=4 \
// RUN:   -tile-prefetch-loads="num-warps=4 shared-bytes=100000 plan-only" | FileCheck %s
// RUN: ligerdsl-opt %s -tile-assign-layouts=num-warps=4 \
// RUN:   -tile-prefetch-loads="num-warps=4 plan-only" | FileCheck %s --check-prefix=NONE

!r = !tile.view<?x?xf32, strides = [?, 1], align = 16, stride_div = [4, 1]>
!x = !tile.view<?x?xbf16, strides = [?, 1], align = 16, stride_div = [8, 1]>
!odd = !tile.view<?x4001xf32, strides = [4001, 1], align = 16>
!any = !tile.view<?x4001xf32, strides = [?, 1], align = 16>
!c = !tile.view<?x?xf32, strides = [?, 1], align = 16, stride_div = [4, 1]>

// Small tiles stay in registers. A tile that is the same in every iteration stays a load.
// CHECK-LABEL: func.func @carried
func.func @carried(%x: !r {tile.read_only}, %sums: !r, %lo: i64, %hi: i64, %step: i64) {
  %c0 = arith.constant 0 : i64
  %zero = arith.constant dense<0.0> : tensor<512xf32>
  %sum = scf.for %i = %lo to %hi step %step iter_args(%acc = %zero) -> (tensor<512xf32>) : i64 {
    // CHECK: tile.load_tile {{.+}} {tile.loaded = "ahead"}
    %t = tile.load_tile %x[%i, %c0] shape [0, 512] : !r -> tensor<512xf32>
    // CHECK: tile.load_tile {{.+}} {tile.loaded = "none"}
    %w = tile.load_tile %x[%c0, %c0] shape [0, 512] : !r -> tensor<512xf32>
    %p = arith.mulf %t, %w : tensor<512xf32>
    %s = arith.addf %acc, %p : tensor<512xf32>
    scf.yield %s : tensor<512xf32>
  // CHECK: } {tile.mechanism = "registers", tile.num_stages = 3 : i64, tile.planned_stages = 3 : i64}
  } {tile.num_stages = 3 : i64}
  tile.store_tile %sum, %sums[%c0, %c0] shape [0, 512] : tensor<512xf32>, !r
  return
}

// Large tiles are staged. Without shared memory they are only prefetched.
// CHECK-LABEL: func.func @staged
// NONE-LABEL: func.func @staged
func.func @staged(%x: !r {tile.read_only}, %sums: !r, %lo: i64, %hi: i64, %step: i64) {
  %c0 = arith.constant 0 : i64
  %zero = arith.constant dense<0.0> : tensor<8192xf32>
  %sum = scf.for %i = %lo to %hi step %step iter_args(%acc = %zero) -> (tensor<8192xf32>) : i64 {
    // CHECK: tile.load_tile {{.+}} {tile.loaded = "ahead", tile.staged = "tile"}
    // NONE: tile.load_tile {{.+}} {tile.loaded = "ahead"}
    %t = tile.load_tile %x[%i, %c0] shape [0, 8192] : !r -> tensor<8192xf32>
    // CHECK: tile.load_tile {{.+}} {tile.loaded = "ahead"}
    %n = tile.load_tile %x[%i, %c0] shape [0, 0] : !r -> f32
    %v = tile.splat %n : f32 -> tensor<8192xf32>
    %u = arith.mulf %t, %v : tensor<8192xf32>
    %s = arith.addf %acc, %u : tensor<8192xf32>
    scf.yield %s : tensor<8192xf32>
  // CHECK: } {tile.copies = "threads", tile.mechanism = "ring", tile.num_stages = 3 : i64, tile.planned_stages = 3 : i64}
  // NONE: } {tile.mechanism = "prefetch", tile.num_stages = 3 : i64, tile.planned_stages = 2 : i64}
  } {tile.num_stages = 3 : i64}
  tile.store_tile %sum, %sums[%c0, %c0] shape [0, 8192] : tensor<8192xf32>, !r
  return
}

// Rows whose alignment offset aligns them are staged: the loop's step keeps the offset of the first
// row, and equal rows of contiguous views begin at the same offset in a vector.
// CHECK-LABEL: func.func @offset
func.func @offset(%x: !odd {tile.read_only}, %y: !odd {tile.read_only}, %z: !any {tile.read_only}, %sums: !r, %first: i64, %n: i64, %programs: i64) {
  %c0 = arith.constant 0 : i64
  %zero = arith.constant dense<0.0> : tensor<4096xf32>
  %step = tile.assume_divisible %programs {divisor = 4 : i64} : i64
  %offset = tile.alignment_offset %x[%first] : !odd
  %sum = scf.for %i = %first to %n step %step iter_args(%acc = %zero) -> (tensor<4096xf32>) : i64 {
    // CHECK-COUNT-2: tile.load_tile {{.+}} {tile.loaded = "ahead", tile.staged = "tile"}
    %t = tile.load_tile %x[%i, %c0] alignment_offset %offset shape [0, 4096] : !odd -> tensor<4096xf32>
    %u = tile.load_tile %y[%i, %c0] alignment_offset %offset shape [0, 4096] : !odd -> tensor<4096xf32>
    // The stride of z is not known.
    // CHECK: tile.load_tile {{.+}} {tile.loaded = "ahead"}
    %v = tile.load_tile %z[%i, %c0] alignment_offset %offset shape [0, 4096] : !any -> tensor<4096xf32>
    %a = arith.addf %t, %u : tensor<4096xf32>
    %b = arith.addf %a, %v : tensor<4096xf32>
    %s = arith.addf %acc, %b : tensor<4096xf32>
    scf.yield %s : tensor<4096xf32>
  } {tile.num_stages = 2 : i64}
  tile.store_tile %sum, %sums[%c0, %c0] shape [0, 4096] : tensor<4096xf32>, !r
  return
}

// TMA copies. The conversions of both operands vanish.
// CHECK-LABEL: func.func @tma
func.func @tma(%x: !x {tile.read_only}, %y: !x {tile.read_only}, %c: !c, %n: i64) {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i64 {
    // CHECK-COUNT-2: tile.load_tile {{.+}} {tile.loaded = "ahead", tile.staged = "operand"}
    %a = tile.load_tile %x[%c0, %i] shape [64, 64] : !x -> tensor<64x64xbf16>
    %b = tile.load_tile %y[%c0, %i] shape [64, 64] : !x -> tensor<64x64xbf16>
    // CHECK-COUNT-2: tgpu.convert_layout {{.+}} {tile.from_slot}
    %t = tile.permute %b [1, 0] : tensor<64x64xbf16> -> tensor<64x64xbf16>
    %s = tile.dot %a, %t, %acc : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xf32>
    scf.yield %s : tensor<64x64xf32>
  // CHECK: } {tile.copies = "tma", tile.copies_first, tile.mechanism = "ring", tile.num_stages = 4 : i64, tile.planned_stages = 4 : i64, tile.tensor_copies}
  } {tile.num_stages = 4 : i64, tile.tensor_copies}
  tile.store_tile %sums, %c[%c0, %c0] shape [64, 64] : tensor<64x64xf32>, !c
  return
}

// The same loop in a persistent loop.
// CHECK-LABEL: func.func @persistent
func.func @persistent(%x: !x {tile.read_only}, %y: !x {tile.read_only}, %c: !c, %n: i64, %tiles: i64) {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  scf.for %tile = %c0 to %tiles step %c1 : i64 {
    %sums = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<64x64xf32>) : i64 {
      %a = tile.load_tile %x[%tile, %i] shape [64, 64] : !x -> tensor<64x64xbf16>
      %b = tile.load_tile %y[%c0, %i] shape [64, 64] : !x -> tensor<64x64xbf16>
      %t = tile.permute %b [1, 0] : tensor<64x64xbf16> -> tensor<64x64xbf16>
      %s = tile.dot %a, %t, %acc : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xf32>
      scf.yield %s : tensor<64x64xf32>
    // CHECK: } {tile.across_loops, tile.copies = "tma", tile.copies_first, tile.mechanism = "ring"
    } {tile.num_stages = 4 : i64, tile.tensor_copies}
    tile.store_tile %sums, %c[%tile, %c0] shape [64, 64] : tensor<64x64xf32>, !c
  }
  return
}

// An operand A that all iterations share is copied once. A tile that an addition also reads is
// staged as an operand: the dot reads the slot in the dot's layout.
// CHECK-LABEL: func.func @shared
func.func @shared(%x: !x {tile.read_only}, %y: !x {tile.read_only}, %c: !c, %n: i64) {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %zero = arith.constant dense<0.0> : tensor<64x64xf32>
  %none = arith.constant dense<0.0> : tensor<64x64xbf16>
  %sums, %rest = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero, %add = %none) -> (tensor<64x64xf32>, tensor<64x64xbf16>) : i64 {
    // CHECK: tile.load_tile {{.+}} {tile.loaded = "once", tile.staged = "operand"}
    %a = tile.load_tile %x[%c0, %c0] shape [64, 64] : !x -> tensor<64x64xbf16>
    // CHECK: tile.load_tile {{.+}} {tile.loaded = "ahead", tile.staged = "operand"}
    %b = tile.load_tile %y[%i, %c0] shape [64, 64] : !x -> tensor<64x64xbf16>
    %d = arith.addf %add, %b : tensor<64x64xbf16>
    // CHECK-COUNT-2: tgpu.convert_layout {{.+}} {tile.from_slot}
    %s = tile.dot %a, %b, %acc : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xf32>
    scf.yield %s, %d : tensor<64x64xf32>, tensor<64x64xbf16>
  // CHECK: } {tile.copies = "threads", tile.copies_first, tile.mechanism = "ring", tile.num_stages = 2 : i64, tile.planned_stages = 2 : i64}
  } {tile.num_stages = 2 : i64}
  tile.store_tile %sums, %c[%c0, %c0] shape [64, 64] : tensor<64x64xf32>, !c
  tile.store_tile %rest, %x[%c0, %c0] shape [64, 64] : tensor<64x64xbf16>, !x
  return
}
