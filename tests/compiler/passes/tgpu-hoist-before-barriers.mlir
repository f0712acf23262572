// RUN: ligerdsl-opt %s -tgpu-hoist-before-barriers | FileCheck %s

#wide = #tgpu.layout<register = [[1], [2], [4]], lane = [[8], [16], [32], [64], [128]], warp = [[256], [512]], cta = [], rank = 1>
#one = #tgpu.layout<register = [], lane = [[0], [0], [0], [0], [0]], warp = [[0], [0]], cta = [], rank = 1>
!vec = !tile.view<?xbf16, strides = [1]>
!narrow = tensor<1024xbf16, #wide>
!tile = tensor<1024xf32, #wide>
!scalar = tensor<1xf32, #one>

// Both results move before the barrier. Each alone frees only its own accumulator; together they
// also free y, which both use. x stays live, because an op after the barrier needs it.
// CHECK-LABEL: func @sums
// CHECK: scf.for {{.+}} iter_args(%[[A:.+]] = %{{.+}}, %[[B:.+]] = %{{.+}})
// CHECK: %[[X:.+]] = arith.extf
// CHECK: %[[Y:.+]] = arith.extf
// CHECK-DAG: %[[PRODUCTS:.+]] = math.fma %[[X]], %[[Y]], %[[A]]
// CHECK-DAG: %[[SUM:.+]] = arith.addf %[[B]], %[[Y]]
// CHECK: tgpu.barrier
// CHECK-NEXT: tile.print "x" %[[X]]
// CHECK-NEXT: scf.yield %[[PRODUCTS]], %[[SUM]]
func.func @sums(%v: !vec, %w: !vec, %zero: !tile, %lo: i64, %hi: i64, %step: i64) -> (!tile, !tile) {
  %sums:2 = scf.for %i = %lo to %hi step %step iter_args(%a = %zero, %b = %zero) -> (!tile, !tile) : i64 {
    %x16 = tile.load_tile %v[%i] shape [1024] : !vec -> !narrow
    %x = arith.extf %x16 : !narrow to !tile
    %y16 = tile.load_tile %w[%i] shape [1024] : !vec -> !narrow
    %y = arith.extf %y16 : !narrow to !tile
    tgpu.barrier
    tile.print "x" %x : !tile
    %products = math.fma %x, %y, %a : !tile
    %sum = arith.addf %b, %y : !tile
    scf.yield %products, %sum : !tile, !tile
  }
  return %sums#0, %sums#1 : !tile, !tile
}

// A chain moves as a whole: its end takes the registers of its beginning. A part of it would need
// more registers.
// CHECK-LABEL: func @chain
// CHECK: %[[X:.+]] = arith.extf
// CHECK-NEXT: %[[ROUNDED:.+]] = arith.truncf %[[X]]
// CHECK-NEXT: %[[AGAIN:.+]] = arith.extf %[[ROUNDED]]
// CHECK-NEXT: %[[SUM:.+]] = arith.addf %[[AGAIN]], %{{.+}}
// CHECK-NEXT: tgpu.barrier
func.func @chain(%v: !vec, %zero: !tile, %lo: i64, %hi: i64, %step: i64) -> !tile {
  %sum = scf.for %i = %lo to %hi step %step iter_args(%a = %zero) -> !tile : i64 {
    %x16 = tile.load_tile %v[%i] shape [1024] : !vec -> !narrow
    %x = arith.extf %x16 : !narrow to !tile
    tgpu.barrier
    %rounded = arith.truncf %x : !tile to !narrow
    %again = arith.extf %rounded : !narrow to !tile
    %next = arith.addf %again, %a : !tile
    scf.yield %next : !tile
  }
  return %sum : !tile
}

// An op that needs more registers than it frees stays, and so does an op that needs a value from
// after the barrier.
// CHECK-LABEL: func @stays
// CHECK: tgpu.barrier
// CHECK: arith.extf
// CHECK: tile.load_tile
// CHECK: arith.mulf
// CHECK: arith.addf
func.func @stays(%v: !vec, %s: !tile.view<?xf32, strides = [1]>, %i: i64) {
  %x16 = tile.load_tile %v[%i] shape [1024] : !vec -> !narrow
  tgpu.barrier
  %x = arith.extf %x16 : !narrow to !tile
  %scale = tile.load_tile %s[%i] shape [1] : !tile.view<?xf32, strides = [1]> -> !scalar
  %all = tile.broadcast %scale : !scalar -> !tile
  %scaled = arith.mulf %x, %all : !tile
  %sum = arith.addf %scaled, %x : !tile
  tile.print "sum" %sum : !tile
  return
}

// The pass visits values with two uses once. Otherwise 64 doublings would take exponential time.
// CHECK-LABEL: func @doublings
// CHECK-COUNT-64: arith.addf
// CHECK: tgpu.barrier
// CHECK-NEXT: tile.print
func.func @doublings(%v: !tile.view<?xf32, strides = [1]>, %i: i64) {
  %x0 = tile.load_tile %v[%i] shape [1024] : !tile.view<?xf32, strides = [1]> -> !tile
  tgpu.barrier
  %x1 = arith.addf %x0, %x0 : !tile
  %x2 = arith.addf %x1, %x1 : !tile
  %x3 = arith.addf %x2, %x2 : !tile
  %x4 = arith.addf %x3, %x3 : !tile
  %x5 = arith.addf %x4, %x4 : !tile
  %x6 = arith.addf %x5, %x5 : !tile
  %x7 = arith.addf %x6, %x6 : !tile
  %x8 = arith.addf %x7, %x7 : !tile
  %x9 = arith.addf %x8, %x8 : !tile
  %x10 = arith.addf %x9, %x9 : !tile
  %x11 = arith.addf %x10, %x10 : !tile
  %x12 = arith.addf %x11, %x11 : !tile
  %x13 = arith.addf %x12, %x12 : !tile
  %x14 = arith.addf %x13, %x13 : !tile
  %x15 = arith.addf %x14, %x14 : !tile
  %x16 = arith.addf %x15, %x15 : !tile
  %x17 = arith.addf %x16, %x16 : !tile
  %x18 = arith.addf %x17, %x17 : !tile
  %x19 = arith.addf %x18, %x18 : !tile
  %x20 = arith.addf %x19, %x19 : !tile
  %x21 = arith.addf %x20, %x20 : !tile
  %x22 = arith.addf %x21, %x21 : !tile
  %x23 = arith.addf %x22, %x22 : !tile
  %x24 = arith.addf %x23, %x23 : !tile
  %x25 = arith.addf %x24, %x24 : !tile
  %x26 = arith.addf %x25, %x25 : !tile
  %x27 = arith.addf %x26, %x26 : !tile
  %x28 = arith.addf %x27, %x27 : !tile
  %x29 = arith.addf %x28, %x28 : !tile
  %x30 = arith.addf %x29, %x29 : !tile
  %x31 = arith.addf %x30, %x30 : !tile
  %x32 = arith.addf %x31, %x31 : !tile
  %x33 = arith.addf %x32, %x32 : !tile
  %x34 = arith.addf %x33, %x33 : !tile
  %x35 = arith.addf %x34, %x34 : !tile
  %x36 = arith.addf %x35, %x35 : !tile
  %x37 = arith.addf %x36, %x36 : !tile
  %x38 = arith.addf %x37, %x37 : !tile
  %x39 = arith.addf %x38, %x38 : !tile
  %x40 = arith.addf %x39, %x39 : !tile
  %x41 = arith.addf %x40, %x40 : !tile
  %x42 = arith.addf %x41, %x41 : !tile
  %x43 = arith.addf %x42, %x42 : !tile
  %x44 = arith.addf %x43, %x43 : !tile
  %x45 = arith.addf %x44, %x44 : !tile
  %x46 = arith.addf %x45, %x45 : !tile
  %x47 = arith.addf %x46, %x46 : !tile
  %x48 = arith.addf %x47, %x47 : !tile
  %x49 = arith.addf %x48, %x48 : !tile
  %x50 = arith.addf %x49, %x49 : !tile
  %x51 = arith.addf %x50, %x50 : !tile
  %x52 = arith.addf %x51, %x51 : !tile
  %x53 = arith.addf %x52, %x52 : !tile
  %x54 = arith.addf %x53, %x53 : !tile
  %x55 = arith.addf %x54, %x54 : !tile
  %x56 = arith.addf %x55, %x55 : !tile
  %x57 = arith.addf %x56, %x56 : !tile
  %x58 = arith.addf %x57, %x57 : !tile
  %x59 = arith.addf %x58, %x58 : !tile
  %x60 = arith.addf %x59, %x59 : !tile
  %x61 = arith.addf %x60, %x60 : !tile
  %x62 = arith.addf %x61, %x61 : !tile
  %x63 = arith.addf %x62, %x62 : !tile
  %x64 = arith.addf %x63, %x63 : !tile
  tile.print "sum" %x64 : !tile
  return
}
