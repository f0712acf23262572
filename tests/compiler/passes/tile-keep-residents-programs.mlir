// Rows of a kernel whose CTAs run several programs.
// RUN: ligerdsl-opt %s -tile-keep-residents=shared-bytes=24000 -canonicalize -cse | FileCheck %s
// RUN: ligerdsl-opt %s -tile-keep-residents=shared-bytes=16000 -canonicalize -cse | FileCheck %s --check-prefix=NONE
// RUN: ligerdsl-opt %s -tile-keep-residents="shared-bytes=6000 num-ctas=4" -canonicalize -cse | FileCheck %s --check-prefix=CLUSTER
// RUN: ligerdsl-opt %s -tile-keep-residents=shared-bytes=24000 2>&1 >/dev/null | FileCheck %s --check-prefix=NEXT-ROW
// RUN: ligerdsl-opt %s -tile-keep-residents=shared-bytes=5000 2>&1 >/dev/null | FileCheck %s --check-prefix=NOT-ALL
//
// Rows that cannot be kept get a remark.
// NEXT-ROW: programs.mlir:[[@LINE+117]]:{{.+}} remark: [tile-keep-residents] the next program's row is not read ahead: its index depends on memory that the kernel may write, or on more than arithmetic; compute it from the program id [next-row-not-ahead]
// NOT-ALL: remark: [tile-keep-residents] row of all programs: not cached: all resident rows together need 8256 bytes of shared memory in each CTA, and there are 5000; use smaller blocks or fewer resident rows [program-row-not-cached]

!x = !tile.view<?x4000xf32, strides = [?, 1], align = 16, dim_div = [1, 4000], stride_div = [4, 1]>
!labels = !tile.view<?xi32, strides = [1], align = 4, dim_div = [1], stride_div = [1]>

// Eight blocks, eleven slots. A program fills its row unless it is in flight. The next program's label
// says if it visits its row. The first loop fills the three free slots, the second the five it empties.
// CHECK-LABEL: func.func @labelled_rows
// CHECK: %[[RING:.*]] = tgpu.ring : <11 bulk of <512xf32>>
// CHECK: scf.while ({{.*}} = %c0_i32, {{.*}} = %c0_i32, {{.*}} = %false)
// CHECK: ^bb0(%{{.*}}: i32, %[[NEXT:.*]]: i32, %[[BASE:.*]]: i32, %[[PARITY:.*]]: i32, %[[FILLED:.*]]: i1):
// CHECK: %[[LEFT:.*]]:3 = scf.if
// CHECK-NEXT: tgpu.ring_release %[[RING]]
// CHECK-NEXT: %[[LATE:.*]] = arith.xori %[[FILLED]], %true
// CHECK-NEXT: scf.if %[[LATE]]
// CHECK-NEXT: tgpu.ring_fill %[[RING]][%[[BASE]]] at %c0_i32 count %c8_i32
// CHECK: arith.addi %[[BASE]], %c8_i32
// CHECK: %[[MORE:.*]] = arith.cmpi slt, %[[NEXT]]
// CHECK-NEXT: %[[AFTER:.*]]:2 = scf.if %[[MORE]] -> (i1, i64)
// CHECK: tile.load_tile
// CHECK: } else {
// CHECK-NEXT: scf.yield %false, %c0_i64
// CHECK: scf.for %[[I:[a-z0-9]+]] =
// CHECK: tgpu.ring_await
// CHECK: tgpu.ring_read
// CHECK: arith.cmpi ult, %[[I]], %c3_i32
// CHECK: arith.andi {{.*}} %[[AFTER]]#0
// CHECK-NEXT: scf.if
// CHECK-NEXT: tgpu.ring_fill {{.*}} at %[[I]] count %c1_i32
// CHECK: tgpu.yield %[[AFTER]]#1
// CHECK: scf.for
// CHECK: %[[P:.*]] = arith.subi %c7_i32
// CHECK: arith.cmpi ult, %[[P]], %c5_i32
// CHECK: arith.andi {{.*}} %[[AFTER]]#0
// CHECK-NEXT: scf.if
// CHECK-NEXT: tgpu.ring_release %[[RING]]
// CHECK: tgpu.ring_fill
// CHECK: scf.yield %{{.*}}, %{{.*}}, %[[AFTER]]#0
// CHECK-NEXT: } else {
// CHECK-NEXT: scf.yield %[[BASE]], %[[PARITY]], %false
// CHECK: scf.yield %[[NEXT]], %{{.*}}, %[[LEFT]]#0, %[[LEFT]]#1, %[[LEFT]]#2
//
// A row that does not fit as a whole is not kept.
// NONE-LABEL: func.func @labelled_rows
// NONE-NOT: tgpu.
// NONE: return
//
// Every CTA of a cluster has slots for its part.
// CLUSTER: tgpu.ring : <11 bulk of <128xf32>>
func.func @labelled_rows(%x: !x {tile.alias_class = 1, tile.read_only}, %y: !x {tile.alias_class = 2},
                         %labels: !labels {tile.alias_class = 3, tile.read_only}, %n: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c7 = arith.constant 7 : i32
  %c8 = arith.constant 8 : i32
  %zero = arith.constant dense<0.0> : tensor<512xf32>
  %first = tile.program_id 0 : i32
  %ctas = tile.num_programs 0 : i32
  %second = arith.addi %first, %ctas : i32
  scf.while (%a = %first, %b = %second) : (i32, i32) -> (i32, i32) {
    %more = arith.cmpi slt, %a, %n : i32
    scf.condition(%more) %a, %b : i32, i32
  } do {
  ^bb0(%program: i32, %next: i32):
    %row = arith.extsi %program : i32 to i64
    %label = tile.load_tile %labels[%row] shape [0] : !labels -> i32
    %counts = arith.cmpi ne, %label, %c0 : i32
    scf.if %counts {
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
    %after = arith.addi %next, %ctas : i32
    scf.yield %next, %after : i32, i32
  } attributes {tile.independent}
  return
}

// The next program's row depends on memory that the kernel writes: each program fills its own row.
// CHECK-LABEL: func.func @next_is_written
// CHECK: scf.while
// CHECK: tgpu.ring_fill
// CHECK-NOT: tgpu.ring_fill
// CHECK: scf.for
// CHECK: tgpu.ring_await
// CHECK: scf.for
// CHECK-NOT: tgpu.ring_fill
// CHECK: return
func.func @next_is_written(%x: !x {tile.alias_class = 1, tile.read_only}, %y: !x {tile.alias_class = 2},
                           %order: !labels {tile.alias_class = 3}, %n: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c7 = arith.constant 7 : i32
  %c8 = arith.constant 8 : i32
  %zero = arith.constant dense<0.0> : tensor<512xf32>
  %first = tile.program_id 0 : i32
  scf.while (%a = %first) : (i32) -> (i32) {
    %more = arith.cmpi slt, %a, %n : i32
    scf.condition(%more) %a : i32
  } do {
  ^bb0(%program: i32):
    %at = arith.extsi %program : i32 to i64
    %place = tile.load_tile %order[%at] shape [0] : !labels -> i32
    %row = arith.extsi %place : i32 to i64
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
    tile.store_tile %c0, %order[%at] shape [0] : i32, !labels
    %next = arith.addi %program, %c1 : i32
    scf.yield %next : i32
  } attributes {tile.independent}
  return
}

// Weights that all programs read in the second pass are filled and awaited once, before all
// programs. Blocks of the row are awaited in the first pass.
// CHECK-LABEL: func.func @weighted_rows
// CHECK: %[[WEIGHTS:.*]] = tgpu.ring : <2 bulk of <512xf32>>
// CHECK: tgpu.ring_fill %[[WEIGHTS]]{{.*}} count %c2_i32 from %{{.*}} shape [512]
// CHECK: tgpu.ring_await %[[WEIGHTS]][%c0_i32]
// CHECK: tgpu.ring_await %[[WEIGHTS]][%c1_i32]
// CHECK: tgpu.ring : <4 bulk of <512xf32>>
// CHECK: scf.while
// CHECK-NOT: ring_fill %[[WEIGHTS]]
// CHECK: scf.for
// CHECK: tgpu.ring_await
// CHECK: tgpu.ring_read {{.*}} limit
// CHECK: scf.for
// CHECK-NOT: tgpu.ring_await
// CHECK-NOT: ring_fill %[[WEIGHTS]]
// CHECK: tgpu.ring_read %[[WEIGHTS]][%{{.*}}] part 0
// CHECK-NOT: tgpu.ring_await
// CHECK-NOT: ring_fill %[[WEIGHTS]]
// CHECK: return
//
!row = !tile.view<?x1000xf32, strides = [?, 1], align = 16, dim_div = [1, 1000], stride_div = [4, 1]>
!weights = !tile.view<1000xf32, strides = [1], align = 16>
func.func @weighted_rows(%x: !row {tile.alias_class = 1, tile.read_only}, %y: !row {tile.alias_class = 2},
                         %w: !weights {tile.alias_class = 3, tile.read_only}, %n: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %zero = arith.constant dense<0.0> : tensor<512xf32>
  %first = tile.program_id 0 : i32
  scf.while (%a = %first) : (i32) -> (i32) {
    %more = arith.cmpi slt, %a, %n : i32
    scf.condition(%more) %a : i32
  } do {
  ^bb0(%program: i32):
    %row = arith.extsi %program : i32 to i64
    %sum = scf.for %i = %c0 to %c2 step %c1 iter_args(%acc = %zero) -> (tensor<512xf32>) : i32 {
      %b = arith.extsi %i : i32 to i64
      %t = tile.load_tile %x[%row, %b] shape [0, 512] {resident = 1 : i64} : !row -> tensor<512xf32>
      %s = arith.addf %acc, %t : tensor<512xf32>
      scf.yield %s : tensor<512xf32>
    }
    scf.for %j = %c0 to %c2 step %c1 : i32 {
      %back = arith.subi %c1, %j : i32
      %b = arith.extsi %back : i32 to i64
      %t = tile.load_tile %x[%row, %b] shape [0, 512] {resident = 1 : i64} : !row -> tensor<512xf32>
      %v = tile.load_tile %w[%b] shape [512] {resident = 2 : i64} : !weights -> tensor<512xf32>
      %s = arith.addf %sum, %t : tensor<512xf32>
      %p = arith.mulf %s, %v : tensor<512xf32>
      tile.store_tile %p, %y[%row, %b] shape [0, 512] : tensor<512xf32>, !row
    }
    %next = arith.addi %program, %c1 : i32
    scf.yield %next : i32
  } attributes {tile.independent}
  return
}

// Rows are whole blocks and are promised to exist, so reads of rows and weights need no limit.
// CHECK-LABEL: func.func @promised_rows
// CHECK: scf.while
// CHECK-NOT: tgpu.ring_read {{.*}} limit
// CHECK: return
//
// Without the promise the row may not exist, so its reads have a limit.
// CHECK-LABEL: func.func @rows_that_may_not_exist
// CHECK: scf.while
// CHECK: tgpu.ring_read {{.*}} limit
// CHECK: tgpu.ring_read {{.*}} limit
// CHECK: tgpu.ring_read %{{[0-9]+}}[%{{.*}}] part 0 :
// CHECK: return
!whole = !tile.view<?x1024xf32, strides = [?, 1], align = 16, dim_div = [1, 1024], stride_div = [4, 1]>
!gain = !tile.view<1024xf32, strides = [1], align = 16>
func.func @promised_rows(%x: !whole {tile.alias_class = 1, tile.read_only}, %y: !whole {tile.alias_class = 2},
                         %w: !gain {tile.alias_class = 3, tile.read_only}, %n: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %zero = arith.constant dense<0.0> : tensor<512xf32>
  %first = tile.program_id 0 : i32
  scf.while (%a = %first) : (i32) -> (i32) {
    %more = arith.cmpi slt, %a, %n : i32
    scf.condition(%more) %a : i32
  } do {
  ^bb0(%program: i32):
    %row = arith.extsi %program : i32 to i64
    %rows = tile.dim %x, 0 : !whole
    %exists = arith.cmpi slt, %row, %rows : i64
    tile.assume %exists : i1
    %sum = scf.for %i = %c0 to %c2 step %c1 iter_args(%acc = %zero) -> (tensor<512xf32>) : i32 {
      %b = arith.extsi %i : i32 to i64
      %t = tile.load_tile %x[%row, %b] shape [0, 512] {resident = 1 : i64} : !whole -> tensor<512xf32>
      %s = arith.addf %acc, %t : tensor<512xf32>
      scf.yield %s : tensor<512xf32>
    }
    scf.for %j = %c0 to %c2 step %c1 : i32 {
      %back = arith.subi %c1, %j : i32
      %b = arith.extsi %back : i32 to i64
      %t = tile.load_tile %x[%row, %b] shape [0, 512] {resident = 1 : i64} : !whole -> tensor<512xf32>
      %v = tile.load_tile %w[%b] shape [512] {resident = 2 : i64} : !gain -> tensor<512xf32>
      %s = arith.addf %sum, %t : tensor<512xf32>
      %p = arith.mulf %s, %v : tensor<512xf32>
      tile.store_tile %p, %y[%row, %b] shape [0, 512] : tensor<512xf32>, !whole
    }
    %next = arith.addi %program, %c1 : i32
    scf.yield %next : i32
  } attributes {tile.independent}
  return
}

func.func @rows_that_may_not_exist(%x: !whole {tile.alias_class = 1, tile.read_only}, %y: !whole {tile.alias_class = 2},
                         %w: !gain {tile.alias_class = 3, tile.read_only}, %n: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %zero = arith.constant dense<0.0> : tensor<512xf32>
  %first = tile.program_id 0 : i32
  scf.while (%a = %first) : (i32) -> (i32) {
    %more = arith.cmpi slt, %a, %n : i32
    scf.condition(%more) %a : i32
  } do {
  ^bb0(%program: i32):
    %row = arith.extsi %program : i32 to i64
    %rows = tile.dim %x, 0 : !whole
    %exists = arith.cmpi slt, %row, %rows : i64
    %sum = scf.for %i = %c0 to %c2 step %c1 iter_args(%acc = %zero) -> (tensor<512xf32>) : i32 {
      %b = arith.extsi %i : i32 to i64
      %t = tile.load_tile %x[%row, %b] shape [0, 512] {resident = 1 : i64} : !whole -> tensor<512xf32>
      %s = arith.addf %acc, %t : tensor<512xf32>
      scf.yield %s : tensor<512xf32>
    }
    scf.for %j = %c0 to %c2 step %c1 : i32 {
      %back = arith.subi %c1, %j : i32
      %b = arith.extsi %back : i32 to i64
      %t = tile.load_tile %x[%row, %b] shape [0, 512] {resident = 1 : i64} : !whole -> tensor<512xf32>
      %v = tile.load_tile %w[%b] shape [512] {resident = 2 : i64} : !gain -> tensor<512xf32>
      %s = arith.addf %sum, %t : tensor<512xf32>
      %p = arith.mulf %s, %v : tensor<512xf32>
      tile.store_tile %p, %y[%row, %b] shape [0, 512] : tensor<512xf32>, !whole
    }
    %next = arith.addi %program, %c1 : i32
    scf.yield %next : i32
  } attributes {tile.independent}
  return
}

// Only some programs promise that the row exists, so the fill before the first program has a limit.
// CHECK-LABEL: func.func @promise_of_some_programs
// CHECK: tgpu.ring_fill
// CHECK: arith.cmpi ult, %{{.*}}, %{{.*}} : i64
// CHECK: arith.select
// CHECK: tgpu.yield
// CHECK: scf.while
func.func @promise_of_some_programs(%x: !whole {tile.alias_class = 1, tile.read_only},
                                    %y: !whole {tile.alias_class = 2}, %n: i32, %row: i64) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %first = tile.program_id 0 : i32
  scf.while (%a = %first) : (i32) -> (i32) {
    %more = arith.cmpi slt, %a, %n : i32
    scf.condition(%more) %a : i32
  } do {
  ^bb0(%program: i32):
    %wants = arith.cmpi eq, %program, %c2 : i32
    scf.if %wants {
      %rows = tile.dim %x, 0 : !whole
      %exists = arith.cmpi ult, %row, %rows : i64
      tile.assume %exists : i1
      scf.for %i = %c0 to %c2 step %c1 : i32 {
        %b = arith.extsi %i : i32 to i64
        %t = tile.load_tile %x[%row, %b] shape [0, 512] {resident = 1 : i64} : !whole -> tensor<512xf32>
        tile.store_tile %t, %y[%row, %b] shape [0, 512] : tensor<512xf32>, !whole
      }
    }
    %next = arith.addi %program, %c1 : i32
    scf.yield %next : i32
  } attributes {tile.independent}
  return
}
