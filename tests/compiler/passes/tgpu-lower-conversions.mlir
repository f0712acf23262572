// RUN: ligerdsl-opt %s -tgpu-lower-conversions | FileCheck %s

#row = #tgpu.layout<register = [[1], [2]], lane = [[4], [8], [16], [32], [64]], warp = [[128]], cta = [], rank = 1>
#swapped = #tgpu.layout<register = [[2], [1]], lane = [[4], [8], [16], [32], [64]], warp = [[128]], cta = [], rank = 1>
#strided = #tgpu.layout<register = [[64], [128]], lane = [[1], [2], [4], [8], [16]], warp = [[32]], cta = [], rank = 1>
#rows = #tgpu.layout<register = [[0, 1], [0, 2], [16, 0], [32, 0]], lane = [[0, 4], [0, 8], [0, 16], [1, 0], [2, 0]], warp = [[4, 0], [8, 0]], cta = [], rank = 2>
#columns = #tgpu.layout<register = [[1, 0], [2, 0], [0, 8], [0, 16]], lane = [[4, 0], [8, 0], [16, 0], [32, 0], [0, 1]], warp = [[0, 2], [0, 4]], cta = [], rank = 2>

// A conversion that only renames registers stays.
// CHECK-LABEL: func @renaming
// CHECK-NEXT: tgpu.convert_layout
// CHECK-NEXT: return
func.func @renaming(%a: tensor<256xf32, #row>) -> tensor<256xf32, #swapped> {
  %b = tgpu.convert_layout %a : tensor<256xf32, #row> -> tensor<256xf32, #swapped>
  return %b : tensor<256xf32, #swapped>
}

// CHECK-LABEL: func @same
// CHECK-NEXT: return %arg0
func.func @same(%a: tensor<256xf32, #row>) -> tensor<256xf32, #row> {
  %b = tgpu.convert_layout %a : tensor<256xf32, #row> -> tensor<256xf32, #row>
  return %b : tensor<256xf32, #row>
}

// Independent conversions: all stores before all loads.
// CHECK-LABEL: func @together
// CHECK-NEXT: %[[A:.+]] = tgpu.local_alloc : <256xf32>
// CHECK-NEXT: tgpu.local_store %arg0, %[[A]]
// CHECK-NEXT: %[[B:.+]] = tgpu.local_alloc : <256xi1>
// CHECK-NEXT: tgpu.local_store %arg1, %[[B]]
// CHECK-NEXT: tgpu.local_load %[[A]]
// CHECK-NEXT: tgpu.local_load %[[B]]
func.func @together(%a: tensor<256xf32, #row>, %b: tensor<256xi1, #row>)
    -> (tensor<256xf32, #strided>, tensor<256xi1, #strided>) {
  %c = tgpu.convert_layout %a : tensor<256xf32, #row> -> tensor<256xf32, #strided>
  %d = tgpu.convert_layout %b : tensor<256xi1, #row> -> tensor<256xi1, #strided>
  return %c, %d : tensor<256xf32, #strided>, tensor<256xi1, #strided>
}

// Dependent conversions: the second starts after the loads of the first.
// CHECK-LABEL: func @chained
// CHECK: tgpu.local_store
// CHECK: tgpu.local_load
// CHECK: tgpu.local_store
// CHECK: tgpu.local_load
func.func @chained(%a: tensor<256xf32, #row>) -> tensor<256xf32, #row> {
  %c = tgpu.convert_layout %a : tensor<256xf32, #row> -> tensor<256xf32, #strided>
  %d = tgpu.convert_layout %c : tensor<256xf32, #strided> -> tensor<256xf32, #row>
  return %d : tensor<256xf32, #row>
}

// Lanes go along rows on one side and along columns on the other: rows are padded by a vector.
// CHECK-LABEL: func @transposition
// CHECK: tgpu.local_alloc : <64x32xf32, row_pad = 4>
func.func @transposition(%a: tensor<64x32xf32, #rows>) -> tensor<64x32xf32, #columns> {
  %b = tgpu.convert_layout %a : tensor<64x32xf32, #rows> -> tensor<64x32xf32, #columns>
  return %b : tensor<64x32xf32, #columns>
}

// A single exchange in a loop alternates between two stages, allocated before the loop.
// CHECK-LABEL: func @stages
// CHECK: %[[M:.+]] = tgpu.local_alloc : <2x256xf32>
// CHECK-NEXT: scf.for {{.*}} iter_args(%[[PHASE:.+]] = %c0_i32)
// CHECK-NEXT: %[[STAGE:.+]] = tgpu.local_stage %[[M]][%[[PHASE]]] : <2x256xf32> -> <256xf32>
// CHECK-NEXT: tgpu.local_store %arg0, %[[STAGE]]
// CHECK-NEXT: tgpu.local_load %[[STAGE]]
// CHECK: %[[OTHER:.+]] = arith.xori %[[PHASE]], %c1_i32
// CHECK-NEXT: scf.yield %[[OTHER]] : i32
func.func @stages(%a: tensor<256xf32, #row>, %lo: index, %hi: index, %step: index) {
  scf.for %i = %lo to %hi step %step {
    %b = tgpu.convert_layout %a : tensor<256xf32, #row> -> tensor<256xf32, #strided>
    tile.print "b" %b : tensor<256xf32, #strided>
  }
  return
}

// Two exchanges separate each other and need no stages.
// CHECK-LABEL: func @two_in_a_loop
// CHECK: scf.for
// CHECK-NOT: tgpu.local_stage
// CHECK: return
func.func @two_in_a_loop(%a: tensor<256xf32, #row>, %lo: index, %hi: index, %step: index) {
  scf.for %i = %lo to %hi step %step {
    %b = tgpu.convert_layout %a : tensor<256xf32, #row> -> tensor<256xf32, #strided>
    tile.print "b" %b : tensor<256xf32, #strided>
    %c = tgpu.convert_layout %a : tensor<256xf32, #row> -> tensor<256xf32, #strided>
    tile.print "c" %c : tensor<256xf32, #strided>
  }
  return
}
