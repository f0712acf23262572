// RUN: ligerdsl-opt %s -tgpu-lower-gathers | FileCheck %s
// RUN: ligerdsl-opt %s -tgpu-lower-gathers -tgpu-allocate-shared -tgpu-insert-barriers | FileCheck %s --check-prefix=ORDER

#row = #tgpu.layout<register = [[1], [2]], lane = [[4], [8], [16], [32], [64]], warp = [[128]], cta = [], rank = 1>
#few = #tgpu.layout<register = [], lane = [[1], [2], [4], [0], [0]], warp = [[0]], cta = [], rank = 1>
#cut = #tgpu.layout<register = [], lane = [[1], [2], [4], [8], [16]], warp = [[32]], cta = [[64]], rank = 1>

// A gather within a warp's registers and lanes becomes shuffles.
// CHECK-LABEL: func @in_warp
// CHECK-NEXT: tile.shuffle_xor
// CHECK-NEXT: return
func.func @in_warp(%a: tensor<256xf32, #row>) -> tensor<256xf32, #row> {
  %b = tile.shuffle_xor %a {axis = 0 : i32, mask = 70 : i32} : tensor<256xf32, #row>
  return %b : tensor<256xf32, #row>
}

// A gather across warps stores the tile to shared memory, and reads it after a barrier.
// CHECK-LABEL: func @between_warps
// CHECK-NEXT: %[[M:.+]] = tgpu.local_alloc : <256xf32>
// CHECK-NEXT: tgpu.local_store %arg0, %[[M]]
// CHECK-NEXT: tgpu.local_gather %[[M]] {axis = 0 : i32, mask = 129 : i32} : <256xf32> -> tensor<256xf32
// ORDER-LABEL: func @between_warps
// ORDER: tgpu.local_store
// ORDER-NEXT: tgpu.barrier
// ORDER-NEXT: tgpu.local_gather
func.func @between_warps(%a: tensor<256xf32, #row>) -> tensor<256xf32, #row> {
  %b = tile.shuffle_xor %a {axis = 0 : i32, mask = 129 : i32} : tensor<256xf32, #row>
  return %b : tensor<256xf32, #row>
}

// CHECK-LABEL: func @gather
// CHECK-NEXT: %[[M:.+]] = tgpu.local_alloc : <256xf32>
// CHECK-NEXT: tgpu.local_store %arg0, %[[M]]
// CHECK-NEXT: tgpu.local_gather %[[M]][%arg1 : tensor<8xi32{{.*}}>] {axis = 0 : i32} : <256xf32> -> tensor<8xf32
func.func @gather(%a: tensor<256xf32, #row>, %i: tensor<8xi32, #few>) -> tensor<8xf32, #few> {
  %b = tile.gather %a[%i] {axis = 0 : i32} : tensor<256xf32, #row>, tensor<8xi32, #few> -> tensor<8xf32, #few>
  return %b : tensor<8xf32, #few>
}

// A gather from a tile that the CTAs of a cluster divide gives every CTA the whole tile.
// CHECK-LABEL: func @shared
// CHECK: tgpu.remote_store %arg0
// CHECK-NEXT: tgpu.local_gather
// ORDER-LABEL: func @shared
// ORDER: tgpu.remote_store
// ORDER-NEXT: tgpu.cluster_barrier
// ORDER-NEXT: tgpu.local_gather
func.func @shared(%a: tensor<128xf32, #cut>) -> tensor<128xf32, #cut> attributes {tgpu.num_ctas = 2 : i64} {
  %b = tile.shuffle_xor %a {axis = 0 : i32, mask = 64 : i32} : tensor<128xf32, #cut>
  return %b : tensor<128xf32, #cut>
}
