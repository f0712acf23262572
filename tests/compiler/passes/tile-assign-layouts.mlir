// RUN: ligerdsl-opt %s -tile-assign-layouts=num-warps=4 -split-input-file -verify-diagnostics | FileCheck %s

!row = !tile.view<?x?xbf16, strides = [?, 1], align = 16, stride_div = [8, 1]>
!stat = !tile.view<?xf32, strides = [1], align = 16>

// A row tile: 16-byte vectors of the narrowest memory type, then lanes, warps, and the rest in
// registers.
// CHECK-DAG: #[[ROW:.+]] = #tgpu.layout<register = {{\[}}[1], [2], [4], [1024], [2048]], lane = {{\[}}[8], [16], [32], [64], [128]], warp = {{\[}}[256], [512]], cta = [], rank = 1>
// CHECK-LABEL: func @row
func.func @row(%x: !row, %y: !row, %i: i64) {
  %zero = arith.constant 0 : i64
  // CHECK: tile.load_tile {{.*}} tensor<4096xbf16, #[[ROW]]>
  %a = tile.load_tile %x[%i, %zero] shape [0, 4096] : !row -> tensor<4096xbf16>
  // CHECK: arith.extf {{.*}} tensor<4096xbf16, #[[ROW]]> to tensor<4096xf32, #[[ROW]]>
  %b = arith.extf %a : tensor<4096xbf16> to tensor<4096xf32>
  // CHECK: arith.constant dense<2.000000e+00> : tensor<4096xf32, #[[ROW]]>
  %two = arith.constant dense<2.0> : tensor<4096xf32>
  %c = arith.mulf %b, %two : tensor<4096xf32>
  %d = arith.truncf %c : tensor<4096xf32> to tensor<4096xbf16>
  // CHECK-NOT: convert_layout
  // CHECK: tile.store_tile {{.*}} tensor<4096xbf16, #[[ROW]]>
  tile.store_tile %d, %y[%i, %zero] shape [0, 4096] : tensor<4096xbf16>, !row
  return
}

// -----

!row = !tile.view<?x?xbf16, strides = [?, 1], align = 16, stride_div = [2, 1]>

// Rows start at multiples of 2 elements only, so vectors are 4 bytes.
// CHECK-DAG: #[[PAIRS:.+]] = #tgpu.layout<register = {{\[}}[1], [256], [512], [1024], [2048]], lane = {{\[}}[2], [4]
// CHECK-LABEL: func @stride_forbids_vectors
func.func @stride_forbids_vectors(%x: !row, %i: i64) {
  %zero = arith.constant 0 : i64
  // CHECK: tensor<4096xbf16, #[[PAIRS]]>
  // expected-remark-re @below {{accesses of 4 bytes, not 16: rows along dimension 0 are only known to begin at a multiple of 2 elements, not of 8; {{.+}} [narrow-access]}}
  %a = tile.load_tile %x[%i, %zero] shape [0, 4096] : !row -> tensor<4096xbf16>
  return
}

// -----

!vec = !tile.view<?xbf16, strides = [1], align = 16>

// 256 elements for 128 threads: two each, so that no thread idles. 40 = 5 * 8: 5 copies, 8 lanes,
// the other threads replicate.
// CHECK-DAG: #[[SMALL:.+]] = #tgpu.layout<register = {{\[}}[1]], lane = {{\[}}[2], [4], [8], [16], [32]], warp = {{\[}}[64], [128]], cta = [], rank = 1>
// CHECK-DAG: #[[ODD:.+]] = #tgpu.layout<register = [], lane = {{\[}}[1], [2], [4], [0], [0]], warp = {{\[}}[0], [0]], cta = [], rank = 1>
// CHECK-LABEL: func @small
func.func @small(%x: !vec, %i: i64) {
  // CHECK: tensor<256xbf16, #[[SMALL]]>
  %a = tile.load_tile %x[%i] shape [256] : !vec -> tensor<256xbf16>
  // CHECK: tensor<40xbf16, #[[ODD]]>
  %b = tile.load_tile %x[%i] shape [40] : !vec -> tensor<40xbf16>
  return
}

// -----

!tile2 = !tile.view<?x?xf32, strides = [?, 1], align = 16, stride_div = [4, 1]>
!vec = !tile.view<?xf32, strides = [1], align = 16>

// Several rows per CTA that are reduced: one warp per row. The weight is loaded in the layout of the
// broadcast, and the row sums keep the layout of the reduction, so nothing is converted.
// CHECK-DAG: #[[TILE:.+]] = #tgpu.layout<register = {{\[}}[0, 1], [0, 2], [0, 128], [0, 256], [0, 512], [4, 0]], lane = {{\[}}[0, 4], [0, 8], [0, 16], [0, 32], [0, 64]], warp = {{\[}}[1, 0], [2, 0]], cta = [], rank = 2>
// CHECK-DAG: #[[WEIGHT:.+]] = #tgpu.layout<register = {{\[}}[1], [2], [128], [256], [512]], lane = {{\[}}[4], [8], [16], [32], [64]], warp = {{\[}}[0], [0]], cta = [], rank = 1>
// CHECK-DAG: #[[SUMS:.+]] = #tgpu.layout<register = {{\[}}[4]], lane = {{\[}}[0], [0], [0], [0], [0]], warp = {{\[}}[1], [2]], cta = [], rank = 1>
// CHECK-LABEL: func @rows
func.func @rows(%x: !tile2, %w: !vec, %s: !vec, %i: i64) {
  %zero = arith.constant 0 : i64
  // CHECK: tensor<8x1024xf32, #[[TILE]]>
  %a = tile.load_tile %x[%i, %zero] shape [8, 1024] : !tile2 -> tensor<8x1024xf32>
  // CHECK: tile.load_tile {{.*}} tensor<1024xf32, #[[WEIGHT]]>
  %b = tile.load_tile %w[%zero] shape [1024] : !vec -> tensor<1024xf32>
  %c = tile.expand_dims %b {axis = 0 : i32} : tensor<1024xf32> -> tensor<1x1024xf32>
  %d = tile.broadcast %c : tensor<1x1024xf32> -> tensor<8x1024xf32>
  %e = arith.mulf %a, %d : tensor<8x1024xf32>
  // CHECK-NOT: convert_layout
  // CHECK: tile.reduce {{.*}} tensor<8xf32, #[[SUMS]]>
  %f = tile.reduce sum %e {axis = 1 : i32} : tensor<8x1024xf32> -> tensor<8xf32> {
  ^bb0(%p: f32, %q: f32):
    %r = arith.addf %p, %q : f32
    tile.yield %r : f32
  }
  // CHECK: tile.store_tile {{.*}} tensor<8xf32, #[[SUMS]]>
  tile.store_tile %f, %s[%i] shape [8] : tensor<8xf32>, !vec
  return
}

// -----

!tile2 = !tile.view<?x?xf32, strides = [?, 1], align = 16, stride_div = [4, 1]>
!cs = !tile.view<?x?xf32, strides = [?, 1], align = 16, stride_div = [4, 1]>

// RoPE: two halves of every head, cosines of one token for all heads. The tile of the keys is
// smaller, but takes vectors of the same size, so that the cosines have one layout for keys and
// queries.
// CHECK-LABEL: func @rope
func.func @rope(%x: !tile2, %cos: !cs, %keys: !tile2, %i: i64) {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  // CHECK: tile.load_tile {{.*}} tensor<32x64xf32, #[[HEADS:.+]]>
  %lo = tile.load_tile %x[%i, %zero] shape [32, 64] : !tile2 -> tensor<32x64xf32>
  // CHECK: tile.load_tile {{.*}} tensor<32x64xf32, #[[HEADS]]>
  %hi = tile.load_tile %x[%i, %one] shape [32, 64] : !tile2 -> tensor<32x64xf32>
  %c0 = tile.load_tile %cos[%i, %zero] shape [0, 64] : !cs -> tensor<64xf32>
  %c1 = tile.expand_dims %c0 {axis = 0 : i32} : tensor<64xf32> -> tensor<1x64xf32>
  %c2 = tile.broadcast %c1 : tensor<1x64xf32> -> tensor<32x64xf32>
  %a = arith.mulf %lo, %c2 : tensor<32x64xf32>
  %b = arith.mulf %hi, %c2 : tensor<32x64xf32>
  // CHECK-NOT: convert_layout
  tile.store_tile %a, %x[%i, %zero] shape [32, 64] : tensor<32x64xf32>, !tile2
  tile.store_tile %b, %x[%i, %one] shape [32, 64] : tensor<32x64xf32>, !tile2
  %k = tile.load_tile %keys[%i, %zero] shape [4, 64] : !tile2 -> tensor<4x64xf32>
  %c3 = tile.broadcast %c1 : tensor<1x64xf32> -> tensor<4x64xf32>
  %d = arith.mulf %k, %c3 : tensor<4x64xf32>
  tile.store_tile %d, %keys[%i, %zero] shape [4, 64] : tensor<4x64xf32>, !tile2
  // CHECK: return
  return
}

// -----

!tile2 = !tile.view<?x?xf32, strides = [?, 1], align = 16, stride_div = [4, 1]>

// Both sides of a transposition keep their wide accesses. The tile is converted in between.
// CHECK-LABEL: func @transpose
func.func @transpose(%x: !tile2, %y: !tile2) {
  %zero = arith.constant 0 : i64
  // CHECK: %[[A:.+]] = tile.load_tile {{.*}} tensor<64x32xf32, #[[IN:.+]]>
  %a = tile.load_tile %x[%zero, %zero] shape [64, 32] : !tile2 -> tensor<64x32xf32>
  // CHECK: tgpu.convert_layout %[[A]] : tensor<64x32xf32, #[[IN]]> -> tensor<64x32xf32, #[[OUT:.+]]>
  // CHECK: tile.permute
  %b = tile.permute %a [1, 0] : tensor<64x32xf32> -> tensor<32x64xf32>
  tile.store_tile %b, %y[%zero, %zero] shape [32, 64] : tensor<32x64xf32>, !tile2
  return
}

// -----

!columns = !tile.view<?x?xf32, strides = [1, ?], align = 16, stride_div = [1, 4]>

// The first dimension is contiguous, so vectors and lanes follow it.
// CHECK-DAG: #[[COLUMN:.+]] = #tgpu.layout<register = {{\[}}[1, 0], [2, 0], {{.*}}lane = {{\[}}[4, 0], [8, 0], [16, 0], [32, 0], [0, 1]]
// CHECK-LABEL: func @column_major
func.func @column_major(%x: !columns) {
  %zero = arith.constant 0 : i64
  // CHECK: tensor<64x16xf32, #[[COLUMN]]>
  %a = tile.load_tile %x[%zero, %zero] shape [64, 16] : !columns -> tensor<64x16xf32>
  return
}

// -----

!vec = !tile.view<?xf32, strides = [1], align = 16>

// A loop-carried accumulator has the layout of the tiles that are added to it.
// CHECK-LABEL: func @carried
func.func @carried(%x: !vec, %n: i64) {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %init = arith.constant dense<0.0> : tensor<1024xf32>
  // CHECK: scf.for {{.*}} -> (tensor<1024xf32, #[[ACC:.+]]>)
  %sum = scf.for %i = %zero to %n step %one iter_args(%acc = %init) -> (tensor<1024xf32>) : i64 {
    // CHECK: tile.load_tile {{.*}} tensor<1024xf32, #[[ACC]]>
    %a = tile.load_tile %x[%i] shape [1024] : !vec -> tensor<1024xf32>
    %next = arith.addf %acc, %a : tensor<1024xf32>
    scf.yield %next : tensor<1024xf32>
  }
  // CHECK: tile.store_tile {{.*}} tensor<1024xf32, #[[ACC]]>
  tile.store_tile %sum, %x[%zero] shape [1024] : tensor<1024xf32>, !vec
  return
}

// -----

// A scalar atomic whose old value is used runs once, on a tile of one element. All threads read the
// value from shared memory.
// CHECK-LABEL: func @next_number
func.func @next_number(%p: !tile.ptr<i32>, %y: !tile.view<?xi32, strides = [1]>) {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i32
  // CHECK: %[[OLD:.+]] = tile.atomic_rmw add {{.*}} -> tensor<1xi32, #[[ALL:.+]]>
  // CHECK: tgpu.local_store %[[OLD]]
  // CHECK: %[[SHARED:.+]] = tgpu.local_load
  // CHECK: tile.reduce custom %[[SHARED]]
  %old = tile.atomic_rmw add %one, %p : i32, !tile.ptr<i32> -> i32
  tile.store_tile %old, %y[%zero] shape [0] : i32, !tile.view<?xi32, strides = [1]>
  return
}

// -----

func.func @bad_size() {
  // expected-error @+1 {{has a tile dimension of 66; expected c * 2^n with odd c <= 31}}
  %a = tile.make_range : tensor<66xi32>
  return
}

// -----

!row = !tile.view<?x?xbf16, strides = [?, 1], align = 16, stride_div = [8, 1]>
!wide = !tile.view<?x?xf32, strides = [?, 1], align = 16, stride_div = [4, 1]>

// Threads have eight contiguous elements of bf16, which are two vectors of f32. Pairs of lanes
// exchange one vector, so that they store whole sectors together.
// CHECK-DAG: #[[ROW:.+]] = #tgpu.layout<register = {{\[}}[1], [2], [4], [1024]], lane = {{\[}}[8], [16]
// CHECK-DAG: #[[PAIRED:.+]] = #tgpu.layout<register = {{\[}}[1], [2], [8], [1024]], lane = {{\[}}[4], [16]
// CHECK-LABEL: func @wider_results
func.func @wider_results(%x: !row, %y: !wide, %i: i64) {
  %zero = arith.constant 0 : i64
  // CHECK: tile.load_tile {{.*}} tensor<2048xbf16, #[[ROW]]>
  %a = tile.load_tile %x[%i, %zero] shape [0, 2048] : !row -> tensor<2048xbf16>
  %b = arith.extf %a : tensor<2048xbf16> to tensor<2048xf32>
  // CHECK: %[[STORED:.+]] = tgpu.convert_layout {{.*}} -> tensor<2048xf32, #[[PAIRED]]>
  // CHECK-NEXT: tile.store_tile %[[STORED]]
  tile.store_tile %b, %y[%i, %zero] shape [0, 2048] : tensor<2048xf32>, !wide
  return
}
