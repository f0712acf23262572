// RUN: ligerdsl-opt %s -tile-set-eviction-policy | FileCheck %s

!rows = !tile.view<?x1024xf32, strides = [?, 1]>
!vec = !tile.view<1024xf32, strides = [1]>
!stats = !tile.view<?xf32, strides = [1]>

// The program's rows are evicted last. A weight that all programs read and a statistic are not.
// CHECK-LABEL: func @a_row_for_each_program
// CHECK: tile.load_tile %arg0[{{.*}}] shape [1, 1024] {evict = 3 : i32}
// CHECK: tile.load_tile %arg1[{{.*}}] shape [1024] :
// CHECK: tile.load_tile %arg2[{{.*}}] shape [1] :
func.func @a_row_for_each_program(%x: !rows, %w: !vec, %s: !stats, %y: !rows) {
  %c0 = arith.constant 0 : i64
  %p = tile.program_id 0 : i32
  %row = arith.extsi %p : i32 to i64
  %a = tile.load_tile %x[%row, %c0] shape [1, 1024] : !rows -> tensor<1x1024xf32>
  %b = tile.load_tile %w[%c0] shape [1024] : !vec -> tensor<1024xf32>
  %c = tile.load_tile %s[%row] shape [1] : !stats -> tensor<1xf32>
  tile.store_tile %a, %y[%row, %c0] shape [1, 1024] : tensor<1x1024xf32>, !rows
  return
}

// A division by a size must not be speculated, but it reads no memory.
// CHECK-LABEL: func @quotients
// CHECK: tile.load_tile {{.*}} {evict = 3 : i32}
func.func @quotients(%x: !rows, %y: !rows, %n: i64) {
  %c0 = arith.constant 0 : i64
  %p = tile.program_id 0 : i32
  %q = arith.extsi %p : i32 to i64
  %row = arith.divsi %q, %n : i64
  %a = tile.load_tile %x[%row, %c0] shape [1, 1024] : !rows -> tensor<1x1024xf32>
  tile.store_tile %a, %y[%row, %c0] shape [1, 1024] : tensor<1x1024xf32>, !rows
  return
}

// No policy: an index from memory, loads with the author's hint, and kernels that store too little.
// CHECK-LABEL: func @others
// CHECK-NOT: evict = 3
// CHECK: tile.load_tile %arg0{{.*}} {evict = 1 : i32}
// CHECK-NOT: evict = 3
func.func @others(%x: !rows, %y: !rows, %s: !stats, %i: !tile.view<?xi64, strides = [1]>) {
  %c0 = arith.constant 0 : i64
  %p = tile.program_id 0 : i32
  %row = arith.extsi %p : i32 to i64
  %picked = tile.load_tile %i[%row] shape [0] : !tile.view<?xi64, strides = [1]> -> i64
  %a = tile.load_tile %x[%row, %c0] shape [1, 1024] {evict = 1 : i32} : !rows -> tensor<1x1024xf32>
  %b = tile.load_tile %x[%picked, %c0] shape [1, 1024] : !rows -> tensor<1x1024xf32>
  %c = arith.addf %a, %b : tensor<1x1024xf32>
  tile.store_tile %c, %y[%row, %c0] shape [1, 1024] : tensor<1x1024xf32>, !rows
  return
}

// CHECK-LABEL: func @reads_only
// CHECK-NOT: evict = 3
func.func @reads_only(%x: !rows, %s: !stats) {
  %c0 = arith.constant 0 : i64
  %p = tile.program_id 0 : i32
  %row = arith.extsi %p : i32 to i64
  %a = tile.load_tile %x[%row, %c0] shape [1, 1024] : !rows -> tensor<1x1024xf32>
  %b = tile.reduce sum %a {axis = 1 : i32} : tensor<1x1024xf32> -> tensor<1xf32> {
  ^bb0(%l: f32, %r: f32):
    %t = arith.addf %l, %r : f32
    tile.yield %t : f32
  }
  tile.store_tile %b, %s[%row] shape [1] : tensor<1xf32>, !stats
  return
}
