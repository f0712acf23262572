// RUN: ligerdsl-opt %s -tgpu-insert-barriers | FileCheck %s

#row = #tgpu.layout<register = [[1], [2]], lane = [[4], [8], [16], [32], [64]], warp = [[128]], cta = [], rank = 1>
#strided = #tgpu.layout<register = [[64], [128]], lane = [[1], [2], [4], [8], [16]], warp = [[32]], cta = [], rank = 1>
#few = #tgpu.layout<register = [], lane = [[1], [2], [4], [8], [0]], warp = [[0]], cta = [], rank = 1>
!buffer = !tgpu.memdesc<256xf32>
!vec = !tile.view<?xf32, strides = [1]>

// A buffer is written, then read: one barrier in between.
// CHECK-LABEL: func @raw
// CHECK: tgpu.local_store
// CHECK-NEXT: tgpu.barrier
// CHECK-NEXT: tgpu.local_load
// CHECK-NEXT: return
func.func @raw(%a: tensor<256xf32, #row>) -> tensor<256xf32, #strided> {
  %m = tgpu.local_alloc {offset = 0 : i64} : !buffer
  tgpu.local_store %a, %m : tensor<256xf32, #row>, !buffer
  %b = tgpu.local_load %m : !buffer -> tensor<256xf32, #strided>
  return %b : tensor<256xf32, #strided>
}

// One barrier separates the writes of two buffers from their reads.
// CHECK-LABEL: func @one_barrier_for_two
// CHECK: tgpu.local_store
// CHECK-NOT: tgpu.barrier
// CHECK: tgpu.local_store
// CHECK-NEXT: tgpu.barrier
// CHECK-NEXT: tgpu.local_load
// CHECK-NEXT: tgpu.local_load
// CHECK-NEXT: return
func.func @one_barrier_for_two(%a: tensor<256xf32, #row>) -> (tensor<256xf32, #strided>, tensor<256xf32, #strided>) {
  %m = tgpu.local_alloc {offset = 0 : i64} : !buffer
  %n = tgpu.local_alloc {offset = 1024 : i64} : !buffer
  tgpu.local_store %a, %m : tensor<256xf32, #row>, !buffer
  tgpu.local_store %a, %n : tensor<256xf32, #row>, !buffer
  %b = tgpu.local_load %m : !buffer -> tensor<256xf32, #strided>
  %c = tgpu.local_load %n : !buffer -> tensor<256xf32, #strided>
  return %b, %c : tensor<256xf32, #strided>, tensor<256xf32, #strided>
}

// Memory is read, then overwritten through another buffer: one barrier in between.
// CHECK-LABEL: func @war
// CHECK: tgpu.local_load
// CHECK-NEXT: tgpu.barrier
// CHECK-NEXT: tgpu.local_store
func.func @war(%a: tensor<256xf32, #row>) -> tensor<256xf32, #strided> {
  %m = tgpu.local_alloc {offset = 0 : i64} : !buffer
  %n = tgpu.local_alloc {offset = 512 : i64} : !buffer
  %b = tgpu.local_load %m : !buffer -> tensor<256xf32, #strided>
  tgpu.local_store %a, %n : tensor<256xf32, #row>, !buffer
  return %b : tensor<256xf32, #strided>
}

// Loop-carried hazard: the next iteration's store waits for this one's load.
// CHECK-LABEL: func @loop
// CHECK: scf.for
// CHECK-NEXT: tgpu.barrier
// CHECK-NEXT: tgpu.local_store
// CHECK-NEXT: tgpu.barrier
// CHECK-NEXT: tgpu.local_load
// CHECK-NEXT: }
// CHECK-NEXT: return
func.func @loop(%a: tensor<256xf32, #row>, %lo: index, %hi: index, %step: index) {
  %m = tgpu.local_alloc {offset = 0 : i64} : !buffer
  scf.for %i = %lo to %hi step %step {
    tgpu.local_store %a, %m : tensor<256xf32, #row>, !buffer
    %b = tgpu.local_load %m : !buffer -> tensor<256xf32, #strided>
  }
  return
}

// Two exchanges in one iteration separate each other: two barriers suffice instead of four.
// CHECK-LABEL: func @ping_pong
// CHECK: scf.for
// CHECK-NEXT: tgpu.local_store
// CHECK-NEXT: tgpu.barrier
// CHECK-NEXT: tgpu.local_load
// CHECK-NEXT: tgpu.local_store
// CHECK-NEXT: tgpu.barrier
// CHECK-NEXT: tgpu.local_load
// CHECK-NEXT: }
func.func @ping_pong(%a: tensor<256xf32, #row>, %lo: index, %hi: index, %step: index) {
  %m = tgpu.local_alloc {offset = 0 : i64} : !buffer
  %n = tgpu.local_alloc {offset = 1024 : i64} : !buffer
  scf.for %i = %lo to %hi step %step {
    tgpu.local_store %a, %m : tensor<256xf32, #row>, !buffer
    %b = tgpu.local_load %m : !buffer -> tensor<256xf32, #strided>
    tgpu.local_store %a, %n : tensor<256xf32, #row>, !buffer
    %c = tgpu.local_load %n : !buffer -> tensor<256xf32, #strided>
  }
  return
}

// A loop overwrites memory that was read before it: one barrier before the loop, none in it.
// CHECK-LABEL: func @before_loop
// CHECK: tile.load_tile
// CHECK-NEXT: tgpu.barrier
// CHECK-NEXT: scf.for
// CHECK-NEXT: tile.load_tile
// CHECK-NEXT: tile.store_tile
// CHECK-NEXT: }
// CHECK-NEXT: return
func.func @before_loop(%x: !vec, %lo: i64, %hi: i64, %step: i64) {
  %t = tile.load_tile %x[%lo] shape [0] : !vec -> f32
  scf.for %i = %lo to %hi step %step : i64 {
    %b = tile.load_tile %x[%i] shape [256] : !vec -> tensor<256xf32, #row>
    tile.store_tile %b, %x[%i] shape [256] : tensor<256xf32, #row>, !vec
  }
  return
}

// The loop writes memory that is read after it.
// CHECK-LABEL: func @after_loop
// CHECK: scf.for
// CHECK-NEXT: tile.store_tile
// CHECK-NEXT: }
// CHECK-NEXT: tgpu.barrier
// CHECK-NEXT: tile.load_tile
func.func @after_loop(%x: !vec, %b: tensor<256xf32, #row>, %lo: i64, %hi: i64, %step: i64) -> f32 {
  scf.for %i = %lo to %hi step %step : i64 {
    tile.store_tile %b, %x[%i] shape [256] : tensor<256xf32, #row>, !vec
  }
  %t = tile.load_tile %x[%lo] shape [0] : !vec -> f32
  return %t : f32
}

// A condition reads memory that the body writes.
// CHECK-LABEL: func @while
// CHECK: scf.while
// CHECK-NEXT: tgpu.barrier
// CHECK-NEXT: tile.load_tile
// CHECK: } do {
// CHECK-NEXT: tgpu.barrier
// CHECK-NEXT: tile.store_tile
func.func @while(%x: !vec, %b: tensor<256xf32, #row>, %i: i64, %limit: f32) {
  scf.while : () -> () {
    %t = tile.load_tile %x[%i] shape [0] : !vec -> f32
    %c = arith.cmpf olt, %t, %limit : f32
    scf.condition(%c)
  } do {
    tile.store_tile %b, %x[%i] shape [256] : tensor<256xf32, #row>, !vec
    scf.yield
  }
  return
}

// A branch may have read the memory.
// CHECK-LABEL: func @branch
// CHECK: scf.if
// CHECK: tgpu.local_load
// CHECK: }
// CHECK-NEXT: tgpu.barrier
// CHECK-NEXT: tgpu.local_store
func.func @branch(%a: tensor<256xf32, #row>, %c: i1) {
  %m = tgpu.local_alloc {offset = 0 : i64} : !buffer
  scf.if %c {
    %b = tgpu.local_load %m : !buffer -> tensor<256xf32, #strided>
  }
  tgpu.local_store %a, %m : tensor<256xf32, #row>, !buffer
  return
}

// In place: both views are one memory (class 1), and one thread owns each element on both sides.
// CHECK-LABEL: func @in_place
// CHECK-NOT: tgpu.barrier
// CHECK: return
func.func @in_place(%y: !vec {tile.alias_class = 1 : i64}, %x: !vec {tile.alias_class = 1 : i64}, %i: i64, %j: i64) {
  %a = tile.load_tile %x[%i] shape [256] : !vec -> tensor<256xf32, #row>
  tile.store_tile %a, %y[%i] shape [256] : tensor<256xf32, #row>, !vec
  %b = tile.load_tile %x[%j] shape [256] : !vec -> tensor<256xf32, #row>
  tile.store_tile %b, %y[%j] shape [256] : tensor<256xf32, #row>, !vec
  return
}

// In place with other layouts: the thread that stores an element did not load it.
// CHECK-LABEL: func @in_place_other_layout
// CHECK: tile.load_tile
// CHECK-NEXT: tgpu.barrier
// CHECK-NEXT: tile.store_tile
func.func @in_place_other_layout(%y: !vec {tile.alias_class = 1 : i64}, %x: !vec {tile.alias_class = 1 : i64}, %i: i64,
                                 %b: tensor<256xf32, #strided>) {
  %a = tile.load_tile %x[%i] shape [256] : !vec -> tensor<256xf32, #row>
  tile.store_tile %b, %y[%i] shape [256] : tensor<256xf32, #strided>, !vec
  return
}

// A replicated tile: every thread that holds an element loads it, and one thread stores it.
// CHECK-LABEL: func @in_place_replicated
// CHECK: tgpu.barrier
// CHECK-NEXT: tile.store_tile
func.func @in_place_replicated(%x: !vec, %i: i64) {
  %a = tile.load_tile %x[%i] shape [16] : !vec -> tensor<16xf32, #few>
  tile.store_tile %a, %x[%i] shape [16] : tensor<16xf32, #few>, !vec
  return
}

// Nothing is known about the arguments, so they may overlap in any way. A read-only argument, or
// one of another class, does not overlap.
// CHECK-LABEL: func @unknown
// CHECK: tgpu.barrier
// CHECK-NEXT: tile.store_tile
func.func @unknown(%y: !vec, %x: !vec, %i: i64) {
  %a = tile.load_tile %x[%i] shape [256] : !vec -> tensor<256xf32, #row>
  tile.store_tile %a, %y[%i] shape [256] : tensor<256xf32, #row>, !vec
  return
}

// CHECK-LABEL: func @known
// CHECK-NOT: tgpu.barrier
// CHECK: return
func.func @known(%y: !vec {tile.alias_class = 1 : i64}, %x: !vec {tile.alias_class = 2 : i64}, %w: !vec {tile.read_only},
                 %i: i64) {
  %a = tile.load_tile %x[%i] shape [16] : !vec -> tensor<16xf32, #few>
  %b = tile.load_tile %w[%i] shape [16] : !vec -> tensor<16xf32, #few>
  tile.store_tile %a, %y[%i] shape [16] : tensor<16xf32, #few>, !vec
  return
}

// One thread stores a scalar that all threads load. The correction at a row's label follows the
// store of the row.
// CHECK-LABEL: func @fix_up
// CHECK: tile.store_tile {{.*}} shape [256]
// CHECK-NEXT: tgpu.barrier
// CHECK-NEXT: tile.load_tile {{.*}} shape [0]
// CHECK-NEXT: tgpu.barrier
// CHECK-NEXT: tile.store_tile {{.*}} shape [0]
func.func @fix_up(%y: !vec, %a: tensor<256xf32, #row>, %i: i64) {
  tile.store_tile %a, %y[%i] shape [256] : tensor<256xf32, #row>, !vec
  %t = tile.load_tile %y[%i] shape [0] : !vec -> f32
  tile.store_tile %t, %y[%i] shape [0] : f32, !vec
  return
}

// One tile of distinct pointers: each thread accesses only its own elements. In a loop the pointers
// change, so a barrier is needed.
// CHECK-LABEL: func @pointers
// CHECK-NOT: tgpu.barrier
// CHECK: scf.for
// CHECK: tgpu.barrier
// CHECK: tile.load
func.func @pointers(%base: !tile.ptr<f32>, %n: index) {
  %range = tile.make_range : tensor<256xi32, #row>
  %start = tile.splat %base : !tile.ptr<f32> -> tensor<256x!tile.ptr<f32>, #row>
  %p = tile.addptr %start, %range : tensor<256x!tile.ptr<f32>, #row>, tensor<256xi32, #row> -> tensor<256x!tile.ptr<f32>, #row>
  %a = tile.load %p : tensor<256x!tile.ptr<f32>, #row> -> tensor<256xf32, #row>
  tile.store %a, %p : tensor<256xf32, #row>, tensor<256x!tile.ptr<f32>, #row>
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  scf.for %i = %zero to %n step %one {
    %k = arith.index_cast %i : index to i32
    %s = tile.splat %k : i32 -> tensor<256xi32, #row>
    %q = tile.addptr %p, %s : tensor<256x!tile.ptr<f32>, #row>, tensor<256xi32, #row> -> tensor<256x!tile.ptr<f32>, #row>
    %b = tile.load %q : tensor<256x!tile.ptr<f32>, #row> -> tensor<256xf32, #row>
    tile.store %b, %q : tensor<256xf32, #row>, tensor<256x!tile.ptr<f32>, #row>
  }
  return
}

// Pointers may be equal: one thread loads what another one stores.
// CHECK-LABEL: func @equal_pointers
// CHECK: tile.store
// CHECK-NEXT: tgpu.barrier
// CHECK-NEXT: tile.load
// CHECK-NEXT: tgpu.barrier
// CHECK-NEXT: tile.store
func.func @equal_pointers(%p: tensor<256x!tile.ptr<f32>, #row>, %a: tensor<256xf32, #row>, %m: tensor<256xi1, #row>) {
  tile.store %a, %p mask %m : tensor<256xi1, #row> : tensor<256xf32, #row>, tensor<256x!tile.ptr<f32>, #row>
  %b = tile.load %p : tensor<256x!tile.ptr<f32>, #row> -> tensor<256xf32, #row>
  tile.store %b, %p : tensor<256xf32, #row>, tensor<256x!tile.ptr<f32>, #row>
  return
}

// Alternating stages: one barrier per iteration, between its own store and load.
// CHECK-LABEL: func @stages
// CHECK: scf.for
// CHECK-NEXT: tgpu.local_stage
// CHECK-NEXT: tgpu.local_store
// CHECK-NEXT: tgpu.barrier
// CHECK-NEXT: tgpu.local_load
// CHECK-NEXT: arith.xori
func.func @stages(%a: tensor<256xf32, #row>, %lo: index, %hi: index, %step: index) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %m = tgpu.local_alloc {offset = 0 : i64} : !tgpu.memdesc<2x256xf32>
  scf.for %i = %lo to %hi step %step iter_args(%phase = %zero) -> (i32) {
    %s = tgpu.local_stage %m[%phase] : !tgpu.memdesc<2x256xf32> -> !buffer
    tgpu.local_store %a, %s : tensor<256xf32, #row>, !buffer
    %b = tgpu.local_load %s : !buffer -> tensor<256xf32, #strided>
    %other = arith.xori %phase, %one : i32
    scf.yield %other : i32
  }
  return
}

// The inner loop restarts, and the stage in which it ended is unknown. One barrier is placed before
// it.
// CHECK-LABEL: func @stages_again
// CHECK: scf.for
// CHECK-NEXT: tgpu.barrier
// CHECK-NEXT: scf.for
// CHECK-NEXT: tgpu.local_stage
// CHECK-NEXT: tgpu.local_store
// CHECK-NEXT: tgpu.barrier
// CHECK-NEXT: tgpu.local_load
func.func @stages_again(%a: tensor<256xf32, #row>, %lo: index, %hi: index, %step: index) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %m = tgpu.local_alloc {offset = 0 : i64} : !tgpu.memdesc<2x256xf32>
  scf.for %j = %lo to %hi step %step {
    %last = scf.for %i = %lo to %hi step %step iter_args(%phase = %zero) -> (i32) {
      %s = tgpu.local_stage %m[%phase] : !tgpu.memdesc<2x256xf32> -> !buffer
      tgpu.local_store %a, %s : tensor<256xf32, #row>, !buffer
      %b = tgpu.local_load %s : !buffer -> tensor<256xf32, #strided>
      %other = arith.xori %phase, %one : i32
      scf.yield %other : i32
    }
  }
  return
}

// An index that does not alternate separates no accesses.
// CHECK-LABEL: func @fixed_stage
// CHECK: scf.for
// CHECK: tgpu.barrier
// CHECK-NEXT: tgpu.local_store
// CHECK-NEXT: tgpu.barrier
// CHECK-NEXT: tgpu.local_load
func.func @fixed_stage(%a: tensor<256xf32, #row>, %lo: index, %hi: index, %step: index, %which: i32) {
  %m = tgpu.local_alloc {offset = 0 : i64} : !tgpu.memdesc<2x256xf32>
  scf.for %i = %lo to %hi step %step {
    %s = tgpu.local_stage %m[%which] : !tgpu.memdesc<2x256xf32> -> !buffer
    tgpu.local_store %a, %s : tensor<256xf32, #row>, !buffer
    %b = tgpu.local_load %s : !buffer -> tensor<256xf32, #strided>
  }
  return
}

// Tiles of two slices start at different elements; tiles of one slice start at the same element.
// CHECK-LABEL: func @slices
// CHECK: tile.store_tile
// CHECK-NEXT: tile.store_tile
// CHECK-NEXT: tgpu.barrier
// CHECK-NEXT: tile.store_tile
// CHECK-NEXT: return
func.func @slices(%x: !vec, %a: tensor<256xf32, #row>, %i: i64, %j: i64) {
  %c0 = arith.constant 0 : i64
  %one = tile.slice %x, 0 from %i to %j : !vec -> !vec
  %other = tile.slice %x, 0 from %j to %i : !vec -> !vec
  tile.store_tile %a, %one[%c0] shape [256] : tensor<256xf32, #row>, !vec
  tile.store_tile %a, %one[%c0] shape [256] : tensor<256xf32, #row>, !vec
  tile.store_tile %a, %other[%c0] shape [256] : tensor<256xf32, #row>, !vec
  return
}

#rows = #tgpu.layout<register = [[0, 1]], lane = [[0, 2], [0, 4], [0, 8], [0, 16], [1, 0]], warp = [[2, 0], [4, 0]], cta = [], rank = 2>
!rows = !tgpu.memdesc<8x32xf32, swizzle = 128>
!matrix = !tile.view<?x32xf32, strides = [32, 1], align = 16>

// Threads write what TMA stores read, before a proxy fence. They write again after the thread that
// starts the stores has waited.
// CHECK-LABEL: func @tensor_stores
// CHECK: scf.for
// CHECK-NEXT: tgpu.tensor_wait
// CHECK-NEXT: tgpu.barrier{{$}}
// CHECK-NEXT: tgpu.local_store
// CHECK-NEXT: tgpu.barrier {tgpu.proxy_fence}
// CHECK-NEXT: tgpu.tensor_store
// CHECK-NEXT: }
// CHECK-NEXT: tgpu.tensor_wait
// CHECK-NEXT: return
func.func @tensor_stores(%a: tensor<8x32xf32, #rows>, %c: !matrix, %n: i64) {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %m = tgpu.local_alloc {offset = 0 : i64} : !rows
  scf.for %i = %c0 to %n step %c1 : i64 {
    tgpu.tensor_wait %m : !rows
    tgpu.local_store %a, %m : tensor<8x32xf32, #rows>, !rows
    tgpu.tensor_store %m, %c[%i, %c0] shape [8, 32] : !rows, !matrix
  }
  tgpu.tensor_wait %m : !rows
  return
}
