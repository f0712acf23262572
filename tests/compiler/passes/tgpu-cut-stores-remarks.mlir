// Stores with the option `tensor_copies` for which the pass cannot use TMA copies.
// RUN: ligerdsl-opt %s -tile-assign-layouts=num-warps=8 -tgpu-cut-stores -verify-diagnostics

!c = !tile.view<?x?xbf16, strides = [?, 1], align = 16, stride_div = [8, 1], dim_div = [1, 8]>
!words = !tile.view<?x?xi32, strides = [?, 1], align = 16, stride_div = [4, 1]>
!odd = !tile.view<?x?xbf16, strides = [?, 1], align = 16>

func.func @why(%x: !c, %c: !c, %w: !words {tile.alias_class = 1 : i64}, %o: !odd {tile.alias_class = 2 : i64}, %n: i64) {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %one = arith.constant dense<1.0> : tensor<128x64xbf16>
  %number = arith.constant dense<1> : tensor<128x64xi32>
  scf.for %tile = %c0 to %n step %c1 : i64 {
    // expected-remark-re @below {{[tgpu-cut-stores] tensor_copies = true: not done: it may use the same memory as the access at {{.*}}, which would not wait for it [no-tensor-store]}}
    tile.store_tile %one, %c[%c0, %tile] shape [128, 64] {tensor_copies} : tensor<128x64xbf16>, !c
    tile.store_tile %one, %c[%tile, %c0] shape [128, 64] : tensor<128x64xbf16>, !c
    // expected-remark @below {{its elements are i32, and a TMA store needs f16, bf16 or f32 [no-tensor-store]}}
    tile.store_tile %number, %w[%c0, %tile] shape [128, 64] {tensor_copies} : tensor<128x64xi32>, !words
    // expected-remark-re @below {{accesses of 2 bytes, not {{.+}}: rows along dimension 0 are only known to begin at a multiple of 1 elements, {{.+}} [narrow-access]}}
    // expected-remark-re @below {{tensor_copies = true: not done: rows along dimension 0 are only known to begin at a multiple of 1 elements, not of {{.*}}; pad them, use an alignment offset (View::alignment_offset), or promise a divisor of the index (assume_divisible) [no-tensor-store]}}
    tile.store_tile %one, %o[%c0, %tile] shape [128, 64] {tensor_copies} : tensor<128x64xbf16>, !odd
  }
  return
}

func.func @shapes(%few: !c {tile.alias_class = 3 : i64}, %streamed: !c {tile.alias_class = 1 : i64}, %one: !c {tile.alias_class = 2 : i64}, %n: i64) {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %four = arith.constant dense<1.0> : tensor<4x64xbf16>
  %many = arith.constant dense<1.0> : tensor<128x64xbf16>
  %number = arith.constant 1.0 : bf16
  // expected-remark @below {{each CTA has 4 rows of it, and a TMA store needs 8 or more [no-tensor-store]}}
  tile.store_tile %four, %few[%c0, %c0] shape [4, 64] {tensor_copies} : tensor<4x64xbf16>, !c
  // expected-remark @below {{cache = streaming: not done: TMA copies have no such hint; use evict = first [store-hint-ignored]}}
  tile.store_tile %many, %streamed[%c0, %c0] shape [128, 64] {cache = 2 : i32, tensor_copies} : tensor<128x64xbf16>, !c
  // expected-remark @below {{tensor_copies = true: not done: the tile has 0 dimensions, and a TMA store needs 2 [no-tensor-store]}}
  tile.store_tile %number, %one[%c0, %c0] shape [0, 0] {tensor_copies} : bf16, !c
  return
}
