// RUN: ligerdsl-opt %s -tgpu-lower-conversions -tgpu-allocate-shared -tgpu-insert-barriers | FileCheck %s

// A conversion within a CTA uses a buffer for the CTA's part and a CTA barrier. Elements that other
// CTAs need are sent to all CTAs. Senders overwrite memory that the receiver may still read, so the
// cluster also synchronises before the stores.
#rows = #tgpu.layout<register = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32]], lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], warp = [], cta = [[0, 64], [0, 128]], rank = 2>
#columns = #tgpu.layout<register = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0], [0, 32]], lane = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16]], warp = [], cta = [[0, 64], [0, 128]], rank = 2>
#all = #tgpu.layout<register = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [0, 64], [0, 128]], lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], warp = [], cta = [[0, 0], [0, 0]], rank = 2>
// CHECK-LABEL: func @inside
// CHECK: tgpu.local_alloc {{.*}} <32x64xf32
// CHECK: tgpu.local_store
// CHECK-NEXT: tgpu.barrier
// CHECK-NEXT: tgpu.local_load
// CHECK: tgpu.local_alloc {{.*}} <32x256xf32
// CHECK-NEXT: tgpu.cluster_barrier
// CHECK-NEXT: tgpu.remote_store
// CHECK-NEXT: tgpu.cluster_barrier
// CHECK-NEXT: tgpu.local_load
func.func @inside(%a: tensor<32x256xf32, #rows>) -> tensor<32x256xf32, #all> attributes {tgpu.num_ctas = 4 : i64} {
  %b = tgpu.convert_layout %a : tensor<32x256xf32, #rows> -> tensor<32x256xf32, #columns>
  %n = arith.negf %b : tensor<32x256xf32, #columns>
  %c = tgpu.convert_layout %n : tensor<32x256xf32, #columns> -> tensor<32x256xf32, #all>
  return %c : tensor<32x256xf32, #all>
}

// A CTA barrier does not show other CTAs that this CTA has read the buffer.
// CHECK-LABEL: func @met
// CHECK: tgpu.local_load
// CHECK-NEXT: tgpu.barrier
// CHECK-NEXT: tgpu.cluster_barrier
// CHECK-NEXT: tgpu.remote_store
func.func @met(%a: tensor<32x256xf32, #all>) -> tensor<32x256xf32, #all> attributes {tgpu.num_ctas = 4 : i64} {
  %m = tgpu.local_alloc : !tgpu.memdesc<32x256xf32>
  tgpu.local_store %a, %m : tensor<32x256xf32, #all>, !tgpu.memdesc<32x256xf32>
  %b = tgpu.local_load %m : !tgpu.memdesc<32x256xf32> -> tensor<32x256xf32, #all>
  tgpu.barrier
  tgpu.remote_store %b, %m : tensor<32x256xf32, #all>, !tgpu.memdesc<32x256xf32>
  return %b : tensor<32x256xf32, #all>
}
