// RUN: ligerdsl-opt %s -tile-keep-residents=shared-bytes=4224 -canonicalize | FileCheck %s
// RUN: ligerdsl-opt %s -tile-keep-residents=shared-bytes=16512 | FileCheck %s --check-prefix=FITS
// RUN: ligerdsl-opt %s -tile-keep-residents=shared-bytes=1024 | FileCheck %s --check-prefix=NONE

!x = !tile.view<?x4000xf32, strides = [?, 1], align = 16, dim_div = [1, 4000], stride_div = [4, 1]>
!ragged = !tile.view<?x4001xf32, strides = [?, 1], align = 16, dim_div = [1, 1], stride_div = [4, 1]>
!odd = !tile.view<?x4001xf32, strides = [?, 1]>

// Eight blocks of 2 KB in two slots. Refills follow the order of the loops, after a barrier.
// CHECK-LABEL: func.func @two_passes
// CHECK-SAME: (%[[X:[a-z0-9]+]]: !tile.view
// CHECK: %[[RING:.*]] = tgpu.ring : <2 bulk of <512xf32>>
// CHECK: tgpu.ring_fill %[[RING]][%c0_i32] at %c0_i32 count %c2_i32 from %[[X]] shape [0, 512]
// CHECK: scf.for %[[I:[a-z0-9]+]] = %c0_i32 to %c8_i32
// CHECK: %[[SLOT:.*]] = arith.remui %[[I]], %c2_i32
// CHECK: tgpu.ring_await %[[RING]][%[[SLOT]]] parity
// CHECK: tgpu.ring_read %[[RING]][%[[SLOT]]] part 0 limit
// CHECK: %[[NEXT:.*]] = arith.addi %[[I]], %c2_i32
// CHECK: arith.cmpi ult, %[[NEXT]], %c8_i32
// CHECK: scf.if
// CHECK: tgpu.ring_release %[[RING]]
// CHECK: tgpu.ring_fill %[[RING]][%c0_i32] at %[[NEXT]] count %c1_i32 from %[[X]]
// CHECK: scf.for %[[J:[a-z0-9]+]] = %c0_i32 to %c8_i32
// CHECK: %[[BACK:.*]] = arith.subi %c7_i32, %[[J]]
// CHECK: arith.remui %{{.*}}, %c2_i32
// CHECK: %[[BEFORE:.*]] = arith.subi %c5_i32, %[[J]]
// CHECK: tgpu.ring_fill %[[RING]][%c0_i32] at %[[BEFORE]] count %c1_i32 from %[[X]]
//
// Everything fits, so no slot is filled twice.
// FITS-LABEL: func.func @two_passes
// FITS: tgpu.ring : <8 bulk of <512xf32>>
// FITS: tgpu.ring_fill
// FITS: scf.for
// FITS-NOT: tgpu.ring_fill
// FITS-LABEL: func.func @blocks_left_out
//
// NONE-NOT: tgpu.
func.func @two_passes(%x: !x, %y: !x) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c7 = arith.constant 7 : i32
  %c8 = arith.constant 8 : i32
  %zero = arith.constant dense<0.0> : tensor<512xf32>
  %program = tile.program_id 0 : i32
  %row = arith.extsi %program : i32 to i64
  %sum = scf.for %i = %c0 to %c8 step %c1 iter_args(%acc = %zero) -> (tensor<512xf32>) : i32 {
    %b = arith.extsi %i : i32 to i64
    %t = tile.load_tile %x[%row, %b] shape [0, 512] {resident = 1 : i64} : !x -> tensor<512xf32>
    %s = arith.addf %acc, %t : tensor<512xf32>
    scf.yield %s : tensor<512xf32>
  }
  scf.for %j = %c0 to %c8 step %c1 : i32 {
    %back = arith.subi %c7, %j : i32
    %b = arith.extsi %back : i32 to i64
    %t = tile.load_tile %x[%row, %b] shape [0, 512] {resident = 1 : i64} : !x -> tensor<512xf32>
    %s = arith.addf %sum, %t : tensor<512xf32>
    tile.store_tile %s, %y[%row, %b] shape [0, 512] : tensor<512xf32>, !x
  }
  return
}

// Every block but one is resident, in an order that the kernel computes. The remaining block is a
// plain load.
// CHECK-LABEL: func.func @blocks_left_out
// CHECK: tgpu.ring_fill
// CHECK: tile.load_tile
// CHECK: scf.for
// CHECK-NOT: tile.load_tile
// CHECK: tgpu.ring_read
// CHECK: scf.for
// CHECK-NOT: tile.load_tile
// CHECK: tgpu.ring_read
func.func @blocks_left_out(%x: !x, %y: !x, %home: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c6 = arith.constant 6 : i32
  %c7 = arith.constant 7 : i32
  %program = tile.program_id 0 : i32
  %row = arith.extsi %program : i32 to i64
  %wide = arith.extsi %home : i32 to i64
  %first = tile.load_tile %x[%row, %wide] shape [0, 512] {resident = 2 : i64} : !x -> tensor<512xf32>
  %sum = scf.for %i = %c0 to %c7 step %c1 iter_args(%acc = %first) -> (tensor<512xf32>) : i32 {
    %after = arith.cmpi sge, %i, %home : i32
    %one = arith.extui %after : i1 to i32
    %other = arith.addi %i, %one : i32
    %b = arith.extsi %other : i32 to i64
    %t = tile.load_tile %x[%row, %b] shape [0, 512] {resident = 2 : i64} : !x -> tensor<512xf32>
    %s = arith.addf %acc, %t : tensor<512xf32>
    scf.yield %s : tensor<512xf32>
  }
  scf.for %j = %c0 to %c7 step %c1 : i32 {
    %back = arith.subi %c6, %j : i32
    %after = arith.cmpi sge, %back, %home : i32
    %one = arith.extui %after : i1 to i32
    %other = arith.addi %back, %one : i32
    %b = arith.extsi %other : i32 to i64
    %t = tile.load_tile %x[%row, %b] shape [0, 512] {resident = 2 : i64} : !x -> tensor<512xf32>
    %s = arith.addf %sum, %t : tensor<512xf32>
    tile.store_tile %s, %y[%row, %b] shape [0, 512] : tensor<512xf32>, !x
  }
  return
}

// Both passes have the same order, or the row does not consist of whole groups of 16 bytes: the
// loads stay.
// CHECK-LABEL: func.func @stays
// CHECK-NOT: tgpu.
func.func @stays(%x: !x, %u: !odd, %y: !x) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c7 = arith.constant 7 : i32
  %c8 = arith.constant 8 : i32
  %zero = arith.constant dense<0.0> : tensor<512xf32>
  %row = arith.constant 0 : i64
  %sum = scf.for %i = %c0 to %c8 step %c1 iter_args(%acc = %zero) -> (tensor<512xf32>) : i32 {
    %b = arith.extsi %i : i32 to i64
    %t = tile.load_tile %x[%row, %b] shape [0, 512] {resident = 1 : i64} : !x -> tensor<512xf32>
    %v = tile.load_tile %u[%row, %b] shape [0, 512] {resident = 2 : i64} : !odd -> tensor<512xf32>
    %s = arith.addf %acc, %t : tensor<512xf32>
    %r = arith.addf %s, %v : tensor<512xf32>
    scf.yield %r : tensor<512xf32>
  }
  scf.for %j = %c0 to %c8 step %c1 : i32 {
    %back = arith.subi %c7, %j : i32
    %b = arith.extsi %j : i32 to i64
    %d = arith.extsi %back : i32 to i64
    %t = tile.load_tile %x[%row, %b] shape [0, 512] {resident = 1 : i64} : !x -> tensor<512xf32>
    %v = tile.load_tile %u[%row, %d] shape [0, 512] {resident = 2 : i64} : !odd -> tensor<512xf32>
    %s = arith.addf %t, %v : tensor<512xf32>
    %r = arith.addf %s, %sum : tensor<512xf32>
    tile.store_tile %r, %y[%row, %b] shape [0, 512] : tensor<512xf32>, !x
  }
  return
}

// Slots would be set up in every iteration, so the loads stay.
// CHECK-LABEL: func.func @inside_a_loop
// CHECK-NOT: tgpu.
func.func @inside_a_loop(%x: !x, %y: !x, %rows: i64) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c7 = arith.constant 7 : i32
  %c8 = arith.constant 8 : i32
  %first = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %zero = arith.constant dense<0.0> : tensor<512xf32>
  scf.for %row = %first to %rows step %one : i64 {
    %sum = scf.for %i = %c0 to %c8 step %c1 iter_args(%acc = %zero) -> (tensor<512xf32>) : i32 {
      %b = arith.extsi %i : i32 to i64
      %t = tile.load_tile %x[%row, %b] shape [0, 512] {resident = 1 : i64} : !x -> tensor<512xf32>
      %s = arith.addf %acc, %t : tensor<512xf32>
      scf.yield %s : tensor<512xf32>
    }
    scf.for %j = %c0 to %c8 step %c1 : i32 {
      %back = arith.subi %c7, %j : i32
      %b = arith.extsi %back : i32 to i64
      %t = tile.load_tile %x[%row, %b] shape [0, 512] {resident = 1 : i64} : !x -> tensor<512xf32>
      %s = arith.addf %sum, %t : tensor<512xf32>
      tile.store_tile %s, %y[%row, %b] shape [0, 512] : tensor<512xf32>, !x
    }
  }
  return
}

// A store before the loops may write the row, and copies would overtake it. A store to other memory
// cannot write the row.
// CHECK-LABEL: func.func @written_before
// CHECK: tile.store_tile
// CHECK-NOT: tgpu.ring_fill
// CHECK-LABEL: func.func @others_written_before
// CHECK: tile.store_tile
// CHECK: tgpu.ring_fill
func.func @written_before(%x: !x, %y: !x) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c7 = arith.constant 7 : i32
  %c8 = arith.constant 8 : i32
  %zero = arith.constant dense<0.0> : tensor<512xf32>
  %row = arith.constant 0 : i64
  tile.store_tile %zero, %y[%row, %row] shape [0, 512] : tensor<512xf32>, !x
  scf.for %i = %c0 to %c8 step %c1 : i32 {
    %b = arith.extsi %i : i32 to i64
    %t = tile.load_tile %x[%row, %b] shape [0, 512] {resident = 1 : i64} : !x -> tensor<512xf32>
  }
  scf.for %j = %c0 to %c8 step %c1 : i32 {
    %back = arith.subi %c7, %j : i32
    %b = arith.extsi %back : i32 to i64
    %t = tile.load_tile %x[%row, %b] shape [0, 512] {resident = 1 : i64} : !x -> tensor<512xf32>
  }
  return
}

func.func @others_written_before(%x: !x {tile.alias_class = 1 : i64}, %y: !x {tile.alias_class = 2 : i64}) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c7 = arith.constant 7 : i32
  %c8 = arith.constant 8 : i32
  %zero = arith.constant dense<0.0> : tensor<512xf32>
  %row = arith.constant 0 : i64
  tile.store_tile %zero, %y[%row, %row] shape [0, 512] : tensor<512xf32>, !x
  scf.for %i = %c0 to %c8 step %c1 : i32 {
    %b = arith.extsi %i : i32 to i64
    %t = tile.load_tile %x[%row, %b] shape [0, 512] {resident = 1 : i64} : !x -> tensor<512xf32>
  }
  scf.for %j = %c0 to %c8 step %c1 : i32 {
    %back = arith.subi %c7, %j : i32
    %b = arith.extsi %back : i32 to i64
    %t = tile.load_tile %x[%row, %b] shape [0, 512] {resident = 1 : i64} : !x -> tensor<512xf32>
  }
  return
}

// Rows that end inside a group of 16 bytes: fills and loads access the whole group.
// CHECK-LABEL: func.func @ends_inside_a_group
// CHECK: tgpu.ring_fill
// CHECK: %[[UP:.*]] = arith.addi %{{.*}}, %c3_i32
// CHECK: %[[GROUPS:.*]] = arith.andi %[[UP]], %c-4_i32
// CHECK: tgpu.ring_read {{.*}} limit %[[GROUPS]]
func.func @ends_inside_a_group(%x: !ragged, %y: !ragged) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c7 = arith.constant 7 : i32
  %c8 = arith.constant 8 : i32
  %zero = arith.constant dense<0.0> : tensor<512xf32>
  %program = tile.program_id 0 : i32
  %row = arith.extsi %program : i32 to i64
  %sum = scf.for %i = %c0 to %c8 step %c1 iter_args(%acc = %zero) -> (tensor<512xf32>) : i32 {
    %b = arith.extsi %i : i32 to i64
    %t = tile.load_tile %x[%row, %b] shape [0, 512] {resident = 1 : i64} : !ragged -> tensor<512xf32>
    %s = arith.addf %acc, %t : tensor<512xf32>
    scf.yield %s : tensor<512xf32>
  }
  scf.for %j = %c0 to %c8 step %c1 : i32 {
    %back = arith.subi %c7, %j : i32
    %b = arith.extsi %back : i32 to i64
    %t = tile.load_tile %x[%row, %b] shape [0, 512] {resident = 1 : i64} : !ragged -> tensor<512xf32>
    %s = arith.addf %sum, %t : tensor<512xf32>
    tile.store_tile %s, %y[%row, %b] shape [0, 512] : tensor<512xf32>, !ragged
  }
  return
}

// The alignment offset of the row gives the start of its first group.
// CHECK-LABEL: func.func @begins_anywhere
// CHECK: %[[ROW:.*]] = arith.extsi
// CHECK: %[[OFFSET:.*]] = tile.alignment_offset %{{.*}}[%[[ROW]]]
// CHECK: tgpu.ring_fill
// CHECK: %[[WIDE:.*]] = arith.extui %[[OFFSET]] : i32 to i64
// CHECK: arith.addi %[[WIDE]], %c4001_i64
// CHECK: tgpu.yield %[[ROW]], %{{.*}}, %[[OFFSET]], %{{.*}} : i64, i64, i32, i32
// CHECK: tgpu.ring_read
// CHECK: tgpu.ring_read
// CHECK: tile.store_tile %{{.*}} alignment_offset %[[OFFSET]]
func.func @begins_anywhere(%x: !odd, %y: !odd) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c7 = arith.constant 7 : i32
  %c8 = arith.constant 8 : i32
  %zero = arith.constant dense<0.0> : tensor<512xf32>
  %program = tile.program_id 0 : i32
  %row = arith.extsi %program : i32 to i64
  %offset = tile.alignment_offset %x[%row] : !odd
  %sum = scf.for %i = %c0 to %c8 step %c1 iter_args(%acc = %zero) -> (tensor<512xf32>) : i32 {
    %b = arith.extsi %i : i32 to i64
    %t = tile.load_tile %x[%row, %b] alignment_offset %offset shape [0, 512] {resident = 1 : i64} : !odd -> tensor<512xf32>
    %s = arith.addf %acc, %t : tensor<512xf32>
    scf.yield %s : tensor<512xf32>
  }
  scf.for %j = %c0 to %c8 step %c1 : i32 {
    %back = arith.subi %c7, %j : i32
    %b = arith.extsi %back : i32 to i64
    %t = tile.load_tile %x[%row, %b] alignment_offset %offset shape [0, 512] {resident = 1 : i64} : !odd -> tensor<512xf32>
    %s = arith.addf %sum, %t : tensor<512xf32>
    tile.store_tile %s, %y[%row, %b] alignment_offset %offset shape [0, 512] : tensor<512xf32>, !odd
  }
  return
}

// The alignment offset of another row does not apply.
// CHECK-LABEL: func.func @offset_of_another_row
// CHECK-NOT: tgpu.
func.func @offset_of_another_row(%x: !odd, %y: !odd) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c7 = arith.constant 7 : i32
  %c8 = arith.constant 8 : i32
  %zero = arith.constant dense<0.0> : tensor<512xf32>
  %program = tile.program_id 0 : i32
  %row = arith.extsi %program : i32 to i64
  %zeroth = arith.constant 0 : i64
  %offset = tile.alignment_offset %x[%zeroth] : !odd
  %sum = scf.for %i = %c0 to %c8 step %c1 iter_args(%acc = %zero) -> (tensor<512xf32>) : i32 {
    %b = arith.extsi %i : i32 to i64
    %t = tile.load_tile %x[%row, %b] alignment_offset %offset shape [0, 512] {resident = 1 : i64} : !odd -> tensor<512xf32>
    %s = arith.addf %acc, %t : tensor<512xf32>
    scf.yield %s : tensor<512xf32>
  }
  scf.for %j = %c0 to %c8 step %c1 : i32 {
    %back = arith.subi %c7, %j : i32
    %b = arith.extsi %back : i32 to i64
    %t = tile.load_tile %x[%row, %b] alignment_offset %offset shape [0, 512] {resident = 1 : i64} : !odd -> tensor<512xf32>
    %s = arith.addf %sum, %t : tensor<512xf32>
    tile.store_tile %s, %y[%row, %b] alignment_offset %offset shape [0, 512] : tensor<512xf32>, !odd
  }
  return
}
