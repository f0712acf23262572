// Remarks on resident rows. tile-keep-residents.mlir shows the rows that are kept.
// RUN: ligerdsl-opt %s -tile-keep-residents=shared-bytes=16512 -split-input-file -verify-diagnostics

!x = !tile.view<?x4096xf32, strides = [?, 1], align = 16, dim_div = [1, 4096], stride_div = [4, 1]>
!y = !tile.view<?x4096xf32, strides = [?, 1]>

func.func @one_order(%x: !x {tile.alias_class = 1 : i64}, %y: !y {tile.alias_class = 2 : i64}) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %last = arith.constant 7 : i32
  %n = arith.constant 8 : i32
  %zero = arith.constant dense<0.0> : tensor<512xf32>
  %program = tile.program_id 0 : i32
  %row = arith.extsi %program : i32 to i64
  %sum = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<512xf32>) : i32 {
    %b = arith.extsi %i : i32 to i64
    // expected-remark @below {{[tile-keep-residents] resident row: not cached: the second loop must read the blocks in reverse order: r.load(i) in the first loop, r.load(blocks - 1 - i) in the second [resident-row-not-cached]}}
    %t = tile.load_tile %x[%row, %b] shape [0, 512] {resident = 1 : i64} : !x -> tensor<512xf32>
    %s = arith.addf %acc, %t : tensor<512xf32>
    scf.yield %s : tensor<512xf32>
  }
  scf.for %j = %c0 to %n step %c1 : i32 {
    %back = arith.subi %last, %j : i32
    %b = arith.extsi %j : i32 to i64
    %t = tile.load_tile %x[%row, %b] shape [0, 512] {resident = 1 : i64} : !x -> tensor<512xf32>
    %s = arith.addf %sum, %t : tensor<512xf32>
    tile.store_tile %s, %y[%row, %b] shape [0, 512] : tensor<512xf32>, !y
  }
  return
}

// -----

!x = !tile.view<?x?xf32, strides = [?, 1], align = 16, stride_div = [4, 1]>
!y = !tile.view<?x4096xf32, strides = [?, 1]>

func.func @open_width(%x: !x {tile.alias_class = 1 : i64}, %y: !y {tile.alias_class = 2 : i64}) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %last = arith.constant 7 : i32
  %n = arith.constant 8 : i32
  %zero = arith.constant dense<0.0> : tensor<512xf32>
  %program = tile.program_id 0 : i32
  %row = arith.extsi %program : i32 to i64
  %sum = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<512xf32>) : i32 {
    %b = arith.extsi %i : i32 to i64
    // expected-remark @below {{[tile-keep-residents] resident row: not cached: its width is not known; give the view's last dimension as a number [resident-row-not-cached]}}
    %t = tile.load_tile %x[%row, %b] shape [0, 512] {resident = 1 : i64} : !x -> tensor<512xf32>
    %s = arith.addf %acc, %t : tensor<512xf32>
    scf.yield %s : tensor<512xf32>
  }
  scf.for %j = %c0 to %n step %c1 : i32 {
    %back = arith.subi %last, %j : i32
    %b = arith.extsi %back : i32 to i64
    %t = tile.load_tile %x[%row, %b] shape [0, 512] {resident = 1 : i64} : !x -> tensor<512xf32>
    %s = arith.addf %sum, %t : tensor<512xf32>
    tile.store_tile %s, %y[%row, %b] shape [0, 512] : tensor<512xf32>, !y
  }
  return
}

// -----

!x = !tile.view<?x4096xf32, strides = [1, ?], align = 16, stride_div = [1, 4]>
!y = !tile.view<?x4096xf32, strides = [?, 1]>

func.func @not_contiguous(%x: !x {tile.alias_class = 1 : i64}, %y: !y {tile.alias_class = 2 : i64}) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %last = arith.constant 7 : i32
  %n = arith.constant 8 : i32
  %zero = arith.constant dense<0.0> : tensor<512xf32>
  %program = tile.program_id 0 : i32
  %row = arith.extsi %program : i32 to i64
  %sum = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<512xf32>) : i32 {
    %b = arith.extsi %i : i32 to i64
    // expected-remark @below {{[tile-keep-residents] resident row: not cached: its elements are not contiguous; the last stride of the view must be 1 [resident-row-not-cached]}}
    %t = tile.load_tile %x[%row, %b] shape [0, 512] {resident = 1 : i64} : !x -> tensor<512xf32>
    %s = arith.addf %acc, %t : tensor<512xf32>
    scf.yield %s : tensor<512xf32>
  }
  scf.for %j = %c0 to %n step %c1 : i32 {
    %back = arith.subi %last, %j : i32
    %b = arith.extsi %back : i32 to i64
    %t = tile.load_tile %x[%row, %b] shape [0, 512] {resident = 1 : i64} : !x -> tensor<512xf32>
    %s = arith.addf %sum, %t : tensor<512xf32>
    tile.store_tile %s, %y[%row, %b] shape [0, 512] : tensor<512xf32>, !y
  }
  return
}

// -----

!x = !tile.view<?x4096xf32, strides = [?, 1], stride_div = [4, 1]>
!y = !tile.view<?x4096xf32, strides = [?, 1]>

func.func @any_address(%x: !x {tile.alias_class = 1 : i64}, %y: !y {tile.alias_class = 2 : i64}) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %last = arith.constant 7 : i32
  %n = arith.constant 8 : i32
  %zero = arith.constant dense<0.0> : tensor<512xf32>
  %program = tile.program_id 0 : i32
  %row = arith.extsi %program : i32 to i64
  %sum = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<512xf32>) : i32 {
    %b = arith.extsi %i : i32 to i64
    // expected-remark @below {{[tile-keep-residents] resident row: not cached: rows are not known to begin at multiples of 16 bytes: the view's address is only known to be a multiple of 4 bytes; load with an alignment offset (View::alignment_offset) [resident-row-not-cached]}}
    %t = tile.load_tile %x[%row, %b] shape [0, 512] {resident = 1 : i64} : !x -> tensor<512xf32>
    %s = arith.addf %acc, %t : tensor<512xf32>
    scf.yield %s : tensor<512xf32>
  }
  scf.for %j = %c0 to %n step %c1 : i32 {
    %back = arith.subi %last, %j : i32
    %b = arith.extsi %back : i32 to i64
    %t = tile.load_tile %x[%row, %b] shape [0, 512] {resident = 1 : i64} : !x -> tensor<512xf32>
    %s = arith.addf %sum, %t : tensor<512xf32>
    tile.store_tile %s, %y[%row, %b] shape [0, 512] : tensor<512xf32>, !y
  }
  return
}

// -----

!x = !tile.view<?x4096xf32, strides = [?, 1], align = 16, dim_div = [1, 4096], stride_div = [4, 1]>
!y = !tile.view<?x4096xf32, strides = [?, 1]>

func.func @several_rows(%x: !x {tile.alias_class = 1 : i64}, %y: !y {tile.alias_class = 2 : i64}) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %last = arith.constant 7 : i32
  %n = arith.constant 8 : i32
  %zero = arith.constant dense<0.0> : tensor<2x512xf32>
  %program = tile.program_id 0 : i32
  %row = arith.extsi %program : i32 to i64
  %sum = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<2x512xf32>) : i32 {
    %b = arith.extsi %i : i32 to i64
    // expected-remark @below {{[tile-keep-residents] resident row: not cached: a block has elements of several rows; use tiles of one row [resident-row-not-cached]}}
    %t = tile.load_tile %x[%row, %b] shape [2, 512] {resident = 1 : i64} : !x -> tensor<2x512xf32>
    %s = arith.addf %acc, %t : tensor<2x512xf32>
    scf.yield %s : tensor<2x512xf32>
  }
  scf.for %j = %c0 to %n step %c1 : i32 {
    %back = arith.subi %last, %j : i32
    %b = arith.extsi %back : i32 to i64
    %t = tile.load_tile %x[%row, %b] shape [2, 512] {resident = 1 : i64} : !x -> tensor<2x512xf32>
    %s = arith.addf %sum, %t : tensor<2x512xf32>
    tile.store_tile %s, %y[%row, %b] shape [2, 512] : tensor<2x512xf32>, !y
  }
  return
}

// -----

!x = !tile.view<?x4096xf32, strides = [?, 1], align = 16, dim_div = [1, 4096], stride_div = [4, 1]>
!y = !tile.view<?x4096xf32, strides = [?, 1]>

func.func @odd_block(%x: !x {tile.alias_class = 1 : i64}, %y: !y {tile.alias_class = 2 : i64}) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %last = arith.constant 7 : i32
  %n = arith.constant 8 : i32
  %zero = arith.constant dense<0.0> : tensor<2xf32>
  %program = tile.program_id 0 : i32
  %row = arith.extsi %program : i32 to i64
  %sum = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<2xf32>) : i32 {
    %b = arith.extsi %i : i32 to i64
    // expected-remark @below {{[tile-keep-residents] resident row: not cached: a block of 8 bytes is not a multiple of 16 bytes [resident-row-not-cached]}}
    %t = tile.load_tile %x[%row, %b] shape [0, 2] {resident = 1 : i64} : !x -> tensor<2xf32>
    %s = arith.addf %acc, %t : tensor<2xf32>
    scf.yield %s : tensor<2xf32>
  }
  scf.for %j = %c0 to %n step %c1 : i32 {
    %back = arith.subi %last, %j : i32
    %b = arith.extsi %back : i32 to i64
    %t = tile.load_tile %x[%row, %b] shape [0, 2] {resident = 1 : i64} : !x -> tensor<2xf32>
    %s = arith.addf %sum, %t : tensor<2xf32>
    tile.store_tile %s, %y[%row, %b] shape [0, 2] : tensor<2xf32>, !y
  }
  return
}

// -----

!x = !tile.view<?x4096xf32, strides = [?, 1], align = 16, dim_div = [1, 4096], stride_div = [4, 1]>
!y = !tile.view<?x4096xf32, strides = [?, 1]>

func.func @may_be_written(%x: !x, %y: !y) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %last = arith.constant 7 : i32
  %n = arith.constant 8 : i32
  %zero = arith.constant dense<0.0> : tensor<512xf32>
  %program = tile.program_id 0 : i32
  %row = arith.extsi %program : i32 to i64
  %sum = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<512xf32>) : i32 {
    %b = arith.extsi %i : i32 to i64
    // expected-remark-re @below {{resident row: not cached: the op at {{.+}}-remarks.mlir:200 may write the row before the first loop ends; if it writes another argument, promise that the arguments do not overlap (no_alias); otherwise move it after the first loop [resident-row-not-cached]}}
    %t = tile.load_tile %x[%row, %b] shape [0, 512] {resident = 1 : i64} : !x -> tensor<512xf32>
    %s = arith.addf %acc, %t : tensor<512xf32>
    tile.store_tile %t, %y[%row, %b] shape [0, 512] : tensor<512xf32>, !y
    scf.yield %s : tensor<512xf32>
  }
  scf.for %j = %c0 to %n step %c1 : i32 {
    %back = arith.subi %last, %j : i32
    %b = arith.extsi %back : i32 to i64
    %t = tile.load_tile %x[%row, %b] shape [0, 512] {resident = 1 : i64} : !x -> tensor<512xf32>
    %s = arith.addf %sum, %t : tensor<512xf32>
    tile.store_tile %s, %y[%row, %b] shape [0, 512] : tensor<512xf32>, !y
  }
  return
}

// -----

!x = !tile.view<?x8192xf32, strides = [?, 1], align = 16, dim_div = [1, 8192], stride_div = [4, 1]>
!y = !tile.view<?x4096xf32, strides = [?, 1]>

func.func @in_part(%x: !x {tile.alias_class = 1 : i64}, %y: !y {tile.alias_class = 2 : i64}) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %last = arith.constant 7 : i32
  %n = arith.constant 8 : i32
  %zero = arith.constant dense<0.0> : tensor<1024xf32>
  %program = tile.program_id 0 : i32
  %row = arith.extsi %program : i32 to i64
  %sum = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<1024xf32>) : i32 {
    %b = arith.extsi %i : i32 to i64
    // expected-remark @below {{[tile-keep-residents] resident row: cached in part: 4 of 8 blocks fit in 16512 bytes of shared memory in each CTA; the others are read again [resident-row-cached-in-part]}}
    %t = tile.load_tile %x[%row, %b] shape [0, 1024] {resident = 1 : i64} : !x -> tensor<1024xf32>
    %s = arith.addf %acc, %t : tensor<1024xf32>
    scf.yield %s : tensor<1024xf32>
  }
  scf.for %j = %c0 to %n step %c1 : i32 {
    %back = arith.subi %last, %j : i32
    %b = arith.extsi %back : i32 to i64
    %t = tile.load_tile %x[%row, %b] shape [0, 1024] {resident = 1 : i64} : !x -> tensor<1024xf32>
    %s = arith.addf %sum, %t : tensor<1024xf32>
    tile.store_tile %s, %y[%row, %b] shape [0, 1024] : tensor<1024xf32>, !y
  }
  return
}

// -----

!x = !tile.view<?x65536xf32, strides = [?, 1], align = 16, dim_div = [1, 65536], stride_div = [4, 1]>
!y = !tile.view<?x4096xf32, strides = [?, 1]>

func.func @no_room(%x: !x {tile.alias_class = 1 : i64}, %y: !y {tile.alias_class = 2 : i64}) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %last = arith.constant 7 : i32
  %n = arith.constant 8 : i32
  %zero = arith.constant dense<0.0> : tensor<8192xf32>
  %program = tile.program_id 0 : i32
  %row = arith.extsi %program : i32 to i64
  %sum = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<8192xf32>) : i32 {
    %b = arith.extsi %i : i32 to i64
    // expected-remark-re @below {{[tile-keep-residents] resident row: not cached: 2 blocks of 32768 bytes must fit, and the row has 16512 bytes of shared memory in each CTA{{.*}}; use smaller blocks, more CTAs per cluster or a smaller min_ctas_per_sm [resident-row-not-cached]}}
    %t = tile.load_tile %x[%row, %b] shape [0, 8192] {resident = 1 : i64} : !x -> tensor<8192xf32>
    %s = arith.addf %acc, %t : tensor<8192xf32>
    scf.yield %s : tensor<8192xf32>
  }
  scf.for %j = %c0 to %n step %c1 : i32 {
    %back = arith.subi %last, %j : i32
    %b = arith.extsi %back : i32 to i64
    %t = tile.load_tile %x[%row, %b] shape [0, 8192] {resident = 1 : i64} : !x -> tensor<8192xf32>
    %s = arith.addf %sum, %t : tensor<8192xf32>
    tile.store_tile %s, %y[%row, %b] shape [0, 8192] : tensor<8192xf32>, !y
  }
  return
}

// -----

!x = !tile.view<?x4096xf32, strides = [?, 1], align = 16, dim_div = [1, 4096], stride_div = [4, 1]>

func.func @read_once(%x: !x) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %n = arith.constant 8 : i32
  %row = arith.constant 0 : i64
  scf.for %i = %c0 to %n step %c1 : i32 {
    %b = arith.extsi %i : i32 to i64
    // expected-remark @below {{[tile-keep-residents] resident row: not cached: only one loop reads it, and that needs the same row in all programs of a loop over programs (dynamic_persistent), and a loop from 0 to a constant; read it in a second loop, or load it without resident() [resident-row-not-cached]}}
    %t = tile.load_tile %x[%row, %b] shape [0, 512] {resident = 1 : i64} : !x -> tensor<512xf32>
    tile.print "t" %t : tensor<512xf32>
  }
  return
}

// -----

!x = !tile.view<?x4096xf32, strides = [?, 1], align = 16, dim_div = [1, 4096], stride_div = [4, 1]>

func.func @no_loop(%x: !x) {
  %row = arith.constant 0 : i64
  // expected-remark @below {{[tile-keep-residents] resident row: not cached: 0 loads in loops read its blocks; a resident row needs two, or one if the row is the same for all programs [resident-row-not-cached]}}
  %t = tile.load_tile %x[%row, %row] shape [0, 512] {resident = 1 : i64} : !x -> tensor<512xf32>
  tile.print "t" %t : tensor<512xf32>
  return
}

// -----

!x = !tile.view<?x4096xf32, strides = [?, 1], align = 16, dim_div = [1, 4096], stride_div = [4, 1]>
!y = !tile.view<?x4096xf32, strides = [?, 1]>

func.func @loops_in_different_blocks(%x: !x {tile.alias_class = 1 : i64}, %y: !y {tile.alias_class = 2 : i64}, %test: i1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %last = arith.constant 7 : i32
  %n = arith.constant 8 : i32
  %zero = arith.constant dense<0.0> : tensor<512xf32>
  %program = tile.program_id 0 : i32
  %row = arith.extsi %program : i32 to i64
  %sum = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<512xf32>) : i32 {
    %b = arith.extsi %i : i32 to i64
    // expected-remark @below {{[tile-keep-residents] resident row: not cached: its two loops are not consecutive loops at the same nesting level; put them one after the other [resident-row-not-cached]}}
    %t = tile.load_tile %x[%row, %b] shape [0, 512] {resident = 1 : i64} : !x -> tensor<512xf32>
    %s = arith.addf %acc, %t : tensor<512xf32>
    scf.yield %s : tensor<512xf32>
  }
  scf.if %test {
    scf.for %j = %c0 to %n step %c1 : i32 {
      %back = arith.subi %last, %j : i32
      %b = arith.extsi %back : i32 to i64
      %t = tile.load_tile %x[%row, %b] shape [0, 512] {resident = 1 : i64} : !x -> tensor<512xf32>
      %s = arith.addf %sum, %t : tensor<512xf32>
      tile.store_tile %s, %y[%row, %b] shape [0, 512] : tensor<512xf32>, !y
    }
  }
  return
}

// -----

!x = !tile.view<?x4096xf32, strides = [?, 1], align = 16, dim_div = [1, 4096], stride_div = [4, 1]>
!y = !tile.view<?x4096xf32, strides = [?, 1]>

func.func @enclosed(%x: !x {tile.alias_class = 1 : i64}, %y: !y {tile.alias_class = 2 : i64}) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %last = arith.constant 7 : i32
  %n = arith.constant 8 : i32
  %zero = arith.constant dense<0.0> : tensor<512xf32>
  %program = tile.program_id 0 : i32
  %row = arith.extsi %program : i32 to i64
  scf.for %k = %c0 to %n step %c1 : i32 {
    %sum = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<512xf32>) : i32 {
      %b = arith.extsi %i : i32 to i64
      // expected-remark @below {{[tile-keep-residents] resident row: not cached: its two loops are inside another loop, which is not the loop over programs (dynamic_persistent); remove the outer loop [resident-row-not-cached]}}
      %t = tile.load_tile %x[%row, %b] shape [0, 512] {resident = 1 : i64} : !x -> tensor<512xf32>
      %s = arith.addf %acc, %t : tensor<512xf32>
      scf.yield %s : tensor<512xf32>
    }
    scf.for %j = %c0 to %n step %c1 : i32 {
      %back = arith.subi %last, %j : i32
      %b = arith.extsi %back : i32 to i64
      %t = tile.load_tile %x[%row, %b] shape [0, 512] {resident = 1 : i64} : !x -> tensor<512xf32>
      %s = arith.addf %sum, %t : tensor<512xf32>
      tile.store_tile %s, %y[%row, %b] shape [0, 512] : tensor<512xf32>, !y
    }
  }
  return
}

// -----

!x = !tile.view<?x4096xf32, strides = [?, 1], align = 16, dim_div = [1, 4096], stride_div = [4, 1]>
!y = !tile.view<?x4096xf32, strides = [?, 1]>

func.func @begins_late(%x: !x {tile.alias_class = 1 : i64}, %y: !y {tile.alias_class = 2 : i64}) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %last = arith.constant 7 : i32
  %n = arith.constant 8 : i32
  %zero = arith.constant dense<0.0> : tensor<512xf32>
  %program = tile.program_id 0 : i32
  %row = arith.extsi %program : i32 to i64
  %sum = scf.for %i = %c1 to %n step %c1 iter_args(%acc = %zero) -> (tensor<512xf32>) : i32 {
    %b = arith.extsi %i : i32 to i64
    // expected-remark @below {{[tile-keep-residents] resident row: not cached: both loops must run from 0 to the same constant number of blocks, 2 or more, in steps of 1 [resident-row-not-cached]}}
    %t = tile.load_tile %x[%row, %b] shape [0, 512] {resident = 1 : i64} : !x -> tensor<512xf32>
    %s = arith.addf %acc, %t : tensor<512xf32>
    scf.yield %s : tensor<512xf32>
  }
  scf.for %j = %c1 to %n step %c1 : i32 {
    %back = arith.subi %last, %j : i32
    %b = arith.extsi %back : i32 to i64
    %t = tile.load_tile %x[%row, %b] shape [0, 512] {resident = 1 : i64} : !x -> tensor<512xf32>
    %s = arith.addf %sum, %t : tensor<512xf32>
    tile.store_tile %s, %y[%row, %b] shape [0, 512] : tensor<512xf32>, !y
  }
  return
}

// -----

!x = !tile.view<?x4096xf32, strides = [?, 1], align = 16, dim_div = [1, 4096], stride_div = [4, 1]>
!y = !tile.view<?x4096xf32, strides = [?, 1]>

func.func @two_pads(%x: !x {tile.alias_class = 1 : i64}, %y: !y {tile.alias_class = 2 : i64}) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %last = arith.constant 7 : i32
  %n = arith.constant 8 : i32
  %zero = arith.constant dense<0.0> : tensor<512xf32>
  %program = tile.program_id 0 : i32
  %row = arith.extsi %program : i32 to i64
  %sum = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<512xf32>) : i32 {
    %b = arith.extsi %i : i32 to i64
    // expected-remark @below {{[tile-keep-residents] resident row: not cached: its two loads differ in view, tile shape, pad or alignment offset; use the same in both loops [resident-row-not-cached]}}
    %t = tile.load_tile %x[%row, %b] shape [0, 512] {resident = 1 : i64} : !x -> tensor<512xf32>
    %s = arith.addf %acc, %t : tensor<512xf32>
    scf.yield %s : tensor<512xf32>
  }
  scf.for %j = %c0 to %n step %c1 : i32 {
    %back = arith.subi %last, %j : i32
    %b = arith.extsi %back : i32 to i64
    %t = tile.load_tile %x[%row, %b] shape [0, 512] {resident = 1 : i64, pad = 1.0 : f32} : !x -> tensor<512xf32>
    %s = arith.addf %sum, %t : tensor<512xf32>
    tile.store_tile %s, %y[%row, %b] shape [0, 512] : tensor<512xf32>, !y
  }
  return
}

// -----

!x = !tile.view<?x4096xf32, strides = [?, 1], align = 16, dim_div = [1, 4096], stride_div = [4, 1]>
!y = !tile.view<?x4096xf32, strides = [?, 1]>

func.func @row_from_inside(%x: !x {tile.alias_class = 1 : i64}, %y: !y {tile.alias_class = 2 : i64}) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %last = arith.constant 7 : i32
  %n = arith.constant 8 : i32
  %zero = arith.constant dense<0.0> : tensor<512xf32>
  %program = tile.program_id 0 : i32
  %row = arith.extsi %program : i32 to i64
  %sum = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<512xf32>) : i32 {
    %b = arith.extsi %i : i32 to i64
    %r = arith.addi %row, %b : i64
    // expected-remark @below {{[tile-keep-residents] resident row: not cached: its row index or alignment offset is computed inside the loops; compute it before the first loop [resident-row-not-cached]}}
    %t = tile.load_tile %x[%r, %b] shape [0, 512] {resident = 1 : i64} : !x -> tensor<512xf32>
    %s = arith.addf %acc, %t : tensor<512xf32>
    scf.yield %s : tensor<512xf32>
  }
  scf.for %j = %c0 to %n step %c1 : i32 {
    %back = arith.subi %last, %j : i32
    %b = arith.extsi %back : i32 to i64
    %r = arith.addi %row, %b : i64
    %t = tile.load_tile %x[%r, %b] shape [0, 512] {resident = 1 : i64} : !x -> tensor<512xf32>
    %s = arith.addf %sum, %t : tensor<512xf32>
    tile.store_tile %s, %y[%row, %b] shape [0, 512] : tensor<512xf32>, !y
  }
  return
}

// -----

!x = !tile.view<?x4096xf32, strides = [?, 1], align = 16, dim_div = [1, 4096], stride_div = [4, 1]>
!y = !tile.view<?x4096xf32, strides = [?, 1]>

func.func @hinted(%x: !x {tile.alias_class = 1 : i64}, %y: !y {tile.alias_class = 2 : i64}) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %last = arith.constant 7 : i32
  %n = arith.constant 8 : i32
  %zero = arith.constant dense<0.0> : tensor<512xf32>
  %program = tile.program_id 0 : i32
  %row = arith.extsi %program : i32 to i64
  %sum = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<512xf32>) : i32 {
    %b = arith.extsi %i : i32 to i64
    // expected-remark @below {{[tile-keep-residents] the cache hint of a resident row is ignored: bulk copies bypass L1; omit it, or load the row without resident() [resident-hint-ignored]}}
    %t = tile.load_tile %x[%row, %b] shape [0, 512] {resident = 1 : i64, cache = 2 : i32} : !x -> tensor<512xf32>
    %s = arith.addf %acc, %t : tensor<512xf32>
    scf.yield %s : tensor<512xf32>
  }
  scf.for %j = %c0 to %n step %c1 : i32 {
    %back = arith.subi %last, %j : i32
    %b = arith.extsi %back : i32 to i64
    %t = tile.load_tile %x[%row, %b] shape [0, 512] {resident = 1 : i64, cache = 2 : i32} : !x -> tensor<512xf32>
    %s = arith.addf %sum, %t : tensor<512xf32>
    tile.store_tile %s, %y[%row, %b] shape [0, 512] : tensor<512xf32>, !y
  }
  return
}

// -----

!x = !tile.view<?x4097xf32, strides = [?, 1], align = 4, stride_div = [1, 1]>
!y = !tile.view<?x4096xf32, strides = [?, 1]>

func.func @offset_of_another_row(%x: !x {tile.alias_class = 1 : i64}, %y: !y {tile.alias_class = 2 : i64}, %other: i64) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %last = arith.constant 7 : i32
  %n = arith.constant 8 : i32
  %zero = arith.constant dense<0.0> : tensor<512xf32>
  %program = tile.program_id 0 : i32
  %row = arith.extsi %program : i32 to i64
  %offset = tile.alignment_offset %x[%other] : !x
  %sum = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (tensor<512xf32>) : i32 {
    %b = arith.extsi %i : i32 to i64
    // expected-remark @below {{[tile-keep-residents] resident row: not cached: its alignment offset is not provably that of its row; use View::alignment_offset of this row [resident-row-not-cached]}}
    %t = tile.load_tile %x[%row, %b] alignment_offset %offset shape [0, 512] {resident = 1 : i64} : !x -> tensor<512xf32>
    %s = arith.addf %acc, %t : tensor<512xf32>
    scf.yield %s : tensor<512xf32>
  }
  scf.for %j = %c0 to %n step %c1 : i32 {
    %back = arith.subi %last, %j : i32
    %b = arith.extsi %back : i32 to i64
    %t = tile.load_tile %x[%row, %b] alignment_offset %offset shape [0, 512] {resident = 1 : i64} : !x -> tensor<512xf32>
    %s = arith.addf %sum, %t : tensor<512xf32>
    tile.store_tile %s, %y[%row, %b] shape [0, 512] : tensor<512xf32>, !y
  }
  return
}
