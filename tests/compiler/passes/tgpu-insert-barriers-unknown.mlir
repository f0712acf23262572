// RUN: ligerdsl-opt %s -allow-unregistered-dialect -tgpu-insert-barriers -verify-diagnostics -split-input-file

// The op's effects on memory are unknown, so barriers cannot be placed safely.
func.func @unknown(%p: !tile.ptr<f32>) {
  // expected-error @+1 {{'test.mystery' op has unknown effects on memory}}
  "test.mystery"(%p) : (!tile.ptr<f32>) -> ()
  return
}

// -----

func.func @unknown_in_a_loop(%n: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  scf.for %i = %c0 to %n step %c1 : i32 {
    // expected-error @+1 {{'test.mystery' op has unknown effects on memory}}
    "test.mystery"(%i) : (i32) -> ()
  }
  return
}
