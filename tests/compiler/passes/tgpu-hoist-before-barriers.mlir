// RUN: ligerdsl-opt %s -tgpu-hoist-before-barriers | FileCheck %s

#wide = #tgpu.layout<register = [[1], [2], [4]], lane = [[8], [16], [32], [64], [128]], warp = [[256], [512]], cta = [], rank = 1>
#one = #tgpu.layout<register = [], lane = [[0], [0], [0], [0], [0]], warp = [[0], [0]], cta = [], rank = 1>
!vec = !tile.view<?xbf16, strides = [1]>
!narrow = tensor<1024xbf16, #wide>
!tile = tensor<1024xf32, #wide>
!scalar = tensor<1xf32, #one>

// Both sums are complete before the barrier. Either alone frees nothing but its own accumulator; together they free the
// tile that both add. It is not x that they take along: x is needed for what comes behind.
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

// A chain moves as a whole: its end fills the registers of its beginning, what lies between would fill more.
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

// What would fill more registers than it frees stays, and so does what needs a value from behind the barrier.
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
