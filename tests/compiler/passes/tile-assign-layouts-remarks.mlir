// Remarks on accesses of less than 16 bytes, and on layout changes in loops.
// RUN: ligerdsl-opt %s -tile-assign-layouts=num-warps=4 -split-input-file -verify-diagnostics

!row = !tile.view<?x?xbf16, strides = [?, 1], align = 16, stride_div = [2, 1]>

func.func @stride(%x: !row, %i: i64) {
  %zero = arith.constant 0 : i64
  // expected-remark @below {{[tile-assign-layouts] accesses of 4 bytes, not 16: rows along dimension 0 are only known to begin at a multiple of 2 elements, not of 8; pad them, use an alignment offset (View::alignment_offset), or promise a divisor of the index (assume_divisible) [narrow-access]}}
  %a = tile.load_tile %x[%i, %zero] shape [0, 4096] : !row -> tensor<4096xbf16>
  return
}

// Every fourth of the same rows is aligned.
func.func @every_fourth_row(%x: !row, %i: i64) {
  %zero = arith.constant 0 : i64
  %j = tile.assume_divisible %i {divisor = 4 : i64} : i64
  %a = tile.load_tile %x[%j, %zero] shape [0, 4096] : !row -> tensor<4096xbf16>
  return
}

// Arithmetic that keeps the row a multiple of 4, like 4 (i - 1) + 8, works too.
func.func @computed_row(%x: !row, %i: i64) {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %four = arith.constant 4 : i64
  %eight = arith.constant 8 : i64
  %before = arith.subi %i, %one : i64
  %times = arith.muli %before, %four : i64
  %j = arith.addi %times, %eight : i64
  %a = tile.load_tile %x[%j, %zero] shape [0, 4096] : !row -> tensor<4096xbf16>
  return
}

// -----

!row = !tile.view<?x?xbf16, strides = [?, 1], align = 8, stride_div = [8, 1]>

func.func @address(%x: !row, %i: i64) {
  %zero = arith.constant 0 : i64
  %a = arith.constant dense<1.0> : tensor<4096xbf16>
  // expected-remark @below {{accesses of 8 bytes, not 16: the address is only known to be a multiple of 8 bytes; align it to 16 bytes [narrow-access]}}
  tile.store_tile %a, %x[%i, %zero] shape [0, 4096] : tensor<4096xbf16>, !row
  return
}

// -----

!columns = !tile.view<?x?xf32, strides = [?, ?], align = 16, stride_div = [4, 4]>

func.func @no_contiguous_dimension(%x: !columns, %i: i64) {
  %zero = arith.constant 0 : i64
  // expected-remark @below {{accesses of 4 bytes, not 16: no dimension of the tile is known to have stride 1; declare the view's strides, or take tiles along the contiguous dimension [narrow-access]}}
  %a = tile.load_tile %x[%i, %zero] shape [0, 4096] : !columns -> tensor<4096xf32>
  return
}

// -----

!row = !tile.view<?x?xbf16, strides = [?, 1], align = 16, stride_div = [8, 1]>

func.func @narrow_tiles(%x: !row, %i: i64) {
  // expected-remark @below {{accesses of 8 bytes, not 16: tiles have 4 elements along the dimension of stride 1, not a multiple of 8; use tiles of whole vectors [narrow-access]}}
  %a = tile.load_tile %x[%i, %i] shape [1024, 4] : !row -> tensor<1024x4xbf16>
  return
}

// -----

!row = !tile.view<?x?xf32, strides = [?, 1], align = 16, stride_div = [4, 1]>
!column = !tile.view<?x?xf32, strides = [1, ?], align = 16, stride_div = [1, 4]>

// Each access stays wide, and each iteration converts the tile between the two layouts.
func.func @transposed(%x: !row, %y: !column, %lo: i64, %hi: i64, %step: i64) {
  scf.for %i = %lo to %hi step %step : i64 {
    %a = tile.load_tile %x[%i, %lo] shape [64, 64] : !row -> tensor<64x64xf32>
    // expected-remark @below {{change of layout in a loop: each iteration moves 16384 bytes through shared memory; convert the tile before the loop, or load it in the shape in which it is used [layout-change-in-loop]}}
    %t = tile.permute %a [1, 0] : tensor<64x64xf32> -> tensor<64x64xf32>
    tile.store_tile %t, %x[%i, %hi] shape [64, 64] : tensor<64x64xf32>, !row
  }
  return
}

// -----

!rows = !tile.view<?x4096xf32, strides = [?, 1], align = 16, dim_div = [1, 4096], stride_div = [4, 1]>
!weight = !tile.view<4096xbf16, strides = [1], align = 16, dim_div = [4096]>

// The weight has the layout of the rows that use it, whose elements are wider.
func.func @narrow_weight(%x: !rows, %w: !weight, %i: i64) {
  %zero = arith.constant 0 : i64
  %a = tile.load_tile %x[%i, %zero] shape [4, 4096] : !rows -> tensor<4x4096xf32>
  // expected-remark @below {{accesses of 8 bytes, not 16: the layout of its uses gives each thread 4 contiguous elements; use tiles along the same dimension [narrow-layout]}}
  %b = tile.load_tile %w[%zero] shape [4096] : !weight -> tensor<4096xbf16>
  %c = arith.extf %b : tensor<4096xbf16> to tensor<4096xf32>
  %d = tile.expand_dims %c {axis = 0 : i32} : tensor<4096xf32> -> tensor<1x4096xf32>
  %e = tile.broadcast %d : tensor<1x4096xf32> -> tensor<4x4096xf32>
  %f = arith.mulf %a, %e : tensor<4x4096xf32>
  tile.store_tile %f, %x[%i, %zero] shape [4, 4096] : tensor<4x4096xf32>, !rows
  return
}
