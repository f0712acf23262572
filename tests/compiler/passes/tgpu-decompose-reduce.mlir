// RUN: ligerdsl-opt %s -tile-assign-layouts=num-warps=4 -tgpu-decompose-reduce -split-input-file | FileCheck %s
// RUN: ligerdsl-opt %s -tile-assign-layouts=num-warps=1 -tgpu-decompose-reduce -split-input-file | FileCheck %s --check-prefix=ONE
// RUN: ligerdsl-opt %s -tile-assign-layouts=num-warps=16 -tgpu-decompose-reduce -split-input-file | FileCheck %s --check-prefix=MANY

!vec = !tile.view<?xf32, strides = [1], align = 16>

// All warps hold a row. Each warp sends its partial sum, and every thread computes the same sum. If
// there are few partial sums, each thread reads all of them; many are distributed over lanes.
// CHECK-DAG: #[[WARP:.+]] = #tgpu.layout<register = [], lane = {{\[}}[0], [0], [0], [0], [0]], warp = {{\[}}[1], [2]], cta = [], rank = 1>
// CHECK-DAG: #[[EACH:.+]] = #tgpu.layout<register = {{\[}}[1], [2]], lane = {{\[}}[0], [0], [0], [0], [0]], warp = {{\[}}[0], [0]], cta = [], rank = 1>
// CHECK-LABEL: func @row
// CHECK: %[[PART:.+]] = tgpu.reduce_in_warp sum %{{.*}} -> tensor<4xf32, #[[WARP]]>
// CHECK: arith.addf
// CHECK: tgpu.yield
// CHECK: %[[ALL:.+]] = tgpu.convert_layout %[[PART]] : tensor<4xf32, #[[WARP]]> -> tensor<4xf32, #[[EACH]]>
// CHECK: tgpu.reduce_in_warp sum %[[ALL]] {{.*}} -> f32
// MANY-DAG: #[[LANES:.+]] = #tgpu.layout<register = [], lane = {{\[}}[1], [2], [4], [8], [0]], warp = {{\[}}[0], [0], [0], [0]], cta = [], rank = 1>
// MANY-LABEL: func @row
// MANY: tgpu.convert_layout {{.*}} -> tensor<16xf32, #[[LANES]]>
// One warp exchanges nothing.
// ONE-LABEL: func @row
// ONE: tgpu.reduce_in_warp {{.*}} -> f32
// ONE-NOT: convert_layout
// ONE: return
func.func @row(%x: !vec, %y: !vec, %i: i64) {
  %a = tile.load_tile %x[%i] shape [4096] : !vec -> tensor<4096xf32>
  %s = tile.reduce sum %a {axis = 0 : i32} : tensor<4096xf32> -> f32 {
  ^bb0(%p: f32, %q: f32):
    %r = arith.addf %p, %q : f32
    tile.yield %r : f32
  }
  tile.store_tile %s, %y[%i] shape [0] : f32, !vec
  return
}

// -----

!vec = !tile.view<?xf32, strides = [1], align = 16>

// Independent reductions share an exchange, even with code in between. A maximum that depends on
// one of them has its own exchange.
// CHECK-LABEL: func @independent
// CHECK: tgpu.reduce_in_warp sum %{{.*}}, %{{.*}} {axis
// CHECK: tgpu.convert_layout
// CHECK-NEXT: tgpu.convert_layout
// CHECK: tgpu.reduce_in_warp sum %{{.*}}, %{{.*}} {axis
// CHECK: tgpu.reduce_in_warp max %{{[0-9]+}} {axis
// CHECK: tgpu.convert_layout
func.func @independent(%x: !vec, %y: !vec, %i: i64) {
  %a = tile.load_tile %x[%i] shape [4096] : !vec -> tensor<4096xf32>
  %s = tile.reduce sum %a {axis = 0 : i32} : tensor<4096xf32> -> f32 {
  ^bb0(%p: f32, %q: f32):
    %r = arith.addf %p, %q : f32
    tile.yield %r : f32
  }
  %s2 = arith.mulf %s, %s : f32
  %b = arith.mulf %a, %a : tensor<4096xf32>
  %t = tile.reduce sum %b {axis = 0 : i32} : tensor<4096xf32> -> f32 {
  ^bb0(%p: f32, %q: f32):
    %r = arith.addf %p, %q : f32
    tile.yield %r : f32
  }
  %u = arith.addf %s2, %t : f32
  %v = tile.splat %u : f32 -> tensor<4096xf32>
  %c = arith.subf %a, %v : tensor<4096xf32>
  %m = tile.reduce max %c {axis = 0 : i32} : tensor<4096xf32> -> f32 {
  ^bb0(%p: f32, %q: f32):
    %r = arith.maximumf %p, %q : f32
    tile.yield %r : f32
  }
  tile.store_tile %m, %y[%i] shape [0] : f32, !vec
  return
}

// -----

!vec = !tile.view<?xf32, strides = [1], align = 16>

// A load must not move above a store, so these two reductions do not share an exchange.
// CHECK-LABEL: func @store_between
// CHECK: tgpu.reduce_in_warp sum %{{[0-9]+}} {axis
// CHECK: tile.store_tile
// CHECK: tgpu.reduce_in_warp sum %{{[0-9]+}} {axis
func.func @store_between(%x: !vec, %y: !vec, %i: i64) {
  %a = tile.load_tile %x[%i] shape [4096] : !vec -> tensor<4096xf32>
  %s = tile.reduce sum %a {axis = 0 : i32} : tensor<4096xf32> -> f32 {
  ^bb0(%p: f32, %q: f32):
    %r = arith.addf %p, %q : f32
    tile.yield %r : f32
  }
  tile.store_tile %s, %y[%i] shape [0] : f32, !vec
  %b = tile.load_tile %y[%i] shape [4096] : !vec -> tensor<4096xf32>
  %t = tile.reduce sum %b {axis = 0 : i32} : tensor<4096xf32> -> f32 {
  ^bb0(%p: f32, %q: f32):
    %r = arith.addf %p, %q : f32
    tile.yield %r : f32
  }
  tile.store_tile %t, %x[%i] shape [0] : f32, !vec
  return
}

// -----

!vec = !tile.view<?xf32, strides = [1], align = 16>

// argmax exchanges both values together.
// CHECK-LABEL: func @argmax
// CHECK: %[[P:.+]]:2 = tgpu.reduce_in_warp custom
// CHECK: tgpu.convert_layout %[[P]]#0
// CHECK-NEXT: tgpu.convert_layout %[[P]]#1
// CHECK-NEXT: tgpu.reduce_in_warp custom {{.*}} -> f32, i32
func.func @argmax(%x: !vec, %y: !tile.view<?xi32, strides = [1]>, %i: i64) {
  %a = tile.load_tile %x[%i] shape [1024] : !vec -> tensor<1024xf32>
  %n = tile.make_range : tensor<1024xi32>
  %v, %at = tile.reduce custom %a, %n {axis = 0 : i32} : tensor<1024xf32>, tensor<1024xi32> -> f32, i32 {
  ^bb0(%p: f32, %pi: i32, %q: f32, %qi: i32):
    %c = arith.cmpf ogt, %p, %q : f32
    %r = arith.select %c, %p, %q : f32
    %ri = arith.select %c, %pi, %qi : i32
    tile.yield %r, %ri : f32, i32
  }
  tile.store_tile %at, %y[%i] shape [0] : i32, !tile.view<?xi32, strides = [1]>
  return
}

// -----

!tile2 = !tile.view<?x?xf32, strides = [?, 1], align = 16, stride_div = [4, 1]>
!vec = !tile.view<?xf32, strides = [1], align = 16>

// Column sums over warps: the exchange gives the layout of the store, distributed over all warps.
// CHECK-DAG: #[[OUT:.+]] = #tgpu.layout<register = {{\[}}[1]], lane = {{\[}}[2], [4], [8], [16], [32]], warp = {{\[}}[64], [128]], cta = [], rank = 1>
// CHECK-LABEL: func @columns
// CHECK: tgpu.reduce_in_warp {{.*}} -> tensor<2x256xf32
// CHECK: tgpu.convert_layout
// CHECK: tgpu.reduce_in_warp {{.*}} -> tensor<256xf32, #[[OUT]]>
// CHECK-NOT: convert_layout
// CHECK: tile.store_tile
func.func @columns(%x: !tile2, %y: !vec, %i: i64) {
  %zero = arith.constant 0 : i64
  %a = tile.load_tile %x[%i, %zero] shape [32, 256] : !tile2 -> tensor<32x256xf32>
  %s = tile.reduce sum %a {axis = 0 : i32} : tensor<32x256xf32> -> tensor<256xf32> {
  ^bb0(%p: f32, %q: f32):
    %r = arith.addf %p, %q : f32
    tile.yield %r : f32
  }
  tile.store_tile %s, %y[%zero] shape [256] : tensor<256xf32>, !vec
  return
}

// -----

!vec = !tile.view<?xf32, strides = [1], align = 16>

// A scan runs in one warp with 32 contiguous elements per lane, and its result is converted back.
// CHECK-DAG: #[[SCAN:.+]] = #tgpu.layout<register = {{\[}}[1], [2], [4], [8], [16]], lane = {{\[}}[32], [64], [128], [256], [512]], warp = {{\[}}[0], [0]], cta = [], rank = 1>
// CHECK-LABEL: func @cumsum
// CHECK: tgpu.convert_layout {{.*}} -> tensor<1024xf32, #[[SCAN]]>
// CHECK: tgpu.scan_in_warp sum {{.*}}reverse
// CHECK: tgpu.convert_layout
func.func @cumsum(%x: !vec, %i: i64) {
  %a = tile.load_tile %x[%i] shape [1024] : !vec -> tensor<1024xf32>
  %s = tile.scan sum %a {axis = 0 : i32, reverse} : tensor<1024xf32> -> tensor<1024xf32> {
  ^bb0(%p: f32, %q: f32):
    %r = arith.addf %p, %q : f32
    tile.yield %r : f32
  }
  tile.store_tile %s, %x[%i] shape [1024] : tensor<1024xf32>, !vec
  return
}

// -----

!tile2 = !tile.view<?x?xf32, strides = [?, 1], align = 16, stride_div = [4, 1]>

// Column sums that are combined with the tile: one exchange gives every warp the values that its
// part of the tile needs.
// CHECK-LABEL: func @columns_back
// CHECK: tgpu.reduce_in_warp {{.*}} -> tensor<2x256xf32
// CHECK: tgpu.convert_layout
// CHECK: tgpu.reduce_in_warp {{.*}} -> tensor<256xf32
// CHECK-NOT: convert_layout
// CHECK: tile.store_tile
func.func @columns_back(%x: !tile2, %i: i64) {
  %zero = arith.constant 0 : i64
  %a = tile.load_tile %x[%i, %zero] shape [32, 256] : !tile2 -> tensor<32x256xf32>
  %s = tile.reduce sum %a {axis = 0 : i32} : tensor<32x256xf32> -> tensor<256xf32> {
  ^bb0(%p: f32, %q: f32):
    %r = arith.addf %p, %q : f32
    tile.yield %r : f32
  }
  %t = tile.expand_dims %s {axis = 0 : i32} : tensor<256xf32> -> tensor<1x256xf32>
  %u = tile.broadcast %t : tensor<1x256xf32> -> tensor<32x256xf32>
  %b = arith.subf %a, %u : tensor<32x256xf32>
  tile.store_tile %b, %x[%i, %zero] shape [32, 256] : tensor<32x256xf32>, !tile2
  return
}
