// Loads whose index comes from memory get no eviction policy.
// RUN: ligerdsl-opt %s -tile-set-eviction-policy -verify-diagnostics

!rows = !tile.view<?x1024xf32, strides = [?, 1]>
!indices = !tile.view<?xi64, strides = [1]>

func.func @picked(%x: !rows, %y: !rows, %i: !indices) {
  %c0 = arith.constant 0 : i64
  %p = tile.program_id 0 : i32
  %row = arith.extsi %p : i32 to i64
  %picked = tile.load_tile %i[%row] shape [0] : !indices -> i64
  // expected-remark @below {{[tile-set-eviction-policy] the load gets no L2 eviction policy: its index comes from memory [no-eviction-policy]}}
  %a = tile.load_tile %x[%picked, %c0] shape [1, 1024] : !rows -> tensor<1x1024xf32>
  tile.store_tile %a, %y[%row, %c0] shape [1, 1024] : tensor<1x1024xf32>, !rows
  return
}
