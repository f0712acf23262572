// RUN: ligerdsl-opt %s -split-input-file -verify-diagnostics

// A layout must fit its tile. The verifier names the broken rule (compiler/layout/linear_layout.h).

// expected-error @+1 {{layout: the basis vectors reach 2^6 of the tile's 2^7 elements: no thread would hold the others}}
func.func private @hole(tensor<128xf32, #tgpu.layout<register = [[1]], lane = [[2], [4], [8], [16], [32]], warp = [], cta = [], rank = 1>>)

// -----

// expected-error @+1 {{layout: a lane basis vector moves by 64 in dimension 0; expected 0 <= offset < 64}}
func.func private @outside(tensor<64xf32, #tgpu.layout<register = [[1], [2]], lane = [[4], [8], [16], [32], [64]], warp = [], cta = [], rank = 1>>)

// -----

// expected-error @+1 {{a layout of rank 1 on a tile of rank 2}}
func.func private @rank(tensor<8x8xf32, #tgpu.layout<register = [[1], [2]], lane = [[4], [8], [16], [32], [0]], warp = [], cta = [], rank = 1>>)

// -----

// expected-error @+1 {{every basis vector needs one offset per tile dimension (rank = 2)}}
func.func private @ragged(tensor<8x8xf32, #tgpu.layout<register = [[1]], lane = [], warp = [], cta = [], rank = 2>>)
