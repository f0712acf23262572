// Remarks on resident rows that the CTAs of a cluster cannot divide.
// RUN: ligerdsl-opt %s -tile-keep-residents="shared-bytes=16512 num-ctas=4" -verify-diagnostics

!x = !tile.view<?x64xf32, strides = [?, 1], align = 16, dim_div = [1, 64], stride_div = [4, 1]>
!y = !tile.view<?x64xf32, strides = [?, 1]>

func.func @small_blocks(%x: !x {tile.alias_class = 1 : i64}, %y: !y {tile.alias_class = 2 : i64}) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %last = arith.constant 7 : i32
  %n = arith.constant 8 : i32
  %zero = arith.constant dense<0.0> : tensor<8xf32>
  %program = tile.program_id 0 : i32
  %row = arith.extsi %program : i32 to i64
  %sum = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<8xf32>) : i32 {
    %b = arith.extsi %i : i32 to i64
    // expected-remark @below {{[tile-keep-residents] resident row: not cached: a block of 32 bytes cannot be divided into parts of 16 bytes for 4 CTAs; use larger blocks or a smaller cluster [resident-row-not-cached]}}
    %t = tile.load_tile %x[%row, %b] shape [0, 8] {resident = 1 : i64} : !x -> tensor<8xf32>
    %s = arith.addf %acc, %t : tensor<8xf32>
    scf.yield %s : tensor<8xf32>
  }
  scf.for %j = %c0 to %n step %c1 : i32 {
    %back = arith.subi %last, %j : i32
    %b = arith.extsi %back : i32 to i64
    %t = tile.load_tile %x[%row, %b] shape [0, 8] {resident = 1 : i64} : !x -> tensor<8xf32>
    %s = arith.addf %sum, %t : tensor<8xf32>
    tile.store_tile %s, %y[%row, %b] shape [0, 8] : tensor<8xf32>, !y
  }
  return
}
