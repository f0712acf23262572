// Tests the text of every diagnostic of the builder, and that it names the author's line.
#include <gtest/gtest.h>

#include <functional>

#include "ligerdsl/dsl.h"
#include "program/program.h"

namespace ligerdsl {
namespace {

struct Misuse {
  int line;  // line of the mistake
  std::function<void(KernelBuilder&)> code;
  const char* message;  // text after "file:line:col: error: "
};

Tile tile(KernelBuilder& k, const Shape& shape, DType dtype = f32) {
  return k.zeros(shape, dtype);
}

// Returns a tile made inside a loop that has ended. Each use of it is a mistake.
Tile ended(KernelBuilder& k, DType dtype = f32) {
  Tile t;
  k.for_range(0, 4, 1, [&](Scalar) { t = tile(k, {8}, dtype); });
  return t;
}

// Each row must stay on one line, because __LINE__ is the expected line of the error.
// clang-format off
const Misuse kMisuses[] = {
    // Types and shapes of operands.
    {__LINE__, [](KernelBuilder& k) { tile(k, {4096}) * tile(k, {128}); }, "operator*: shapes [4096] and [128] do not broadcast: dimension 0 must have equal sizes or be 1 in one of them"},
    {__LINE__, [](KernelBuilder& k) { tile(k, {8}) + k.arange(8); }, "operator+: operand types differ (f32 and i32); convert one with .to(f32) or .to(i32)"},
    {__LINE__, [](KernelBuilder& k) { tile(k, {8, 16}) - tile(k, {16}); }, "operator-: the operands have shapes [8, 16] and [16], expected equal ranks; raise the lower rank with .expand_dims(axis)"},
    {__LINE__, [](KernelBuilder& k) { k.arange(8) + 0.5; }, "operator+: expected an integer for i32, got the float 0.5; write an integer, or convert the operand with .to(f32)"},
    {__LINE__, [](KernelBuilder& k) { k.arange(8) + 5000000000; }, "operator+: the number 5000000000 is outside the range of i32 (-2147483648 to 2147483647); convert the operand with .to(i64)"},
    {__LINE__, [](KernelBuilder& k) { tile(k, {8}, i8) + 300; }, "operator+: the number 300 is outside the range of i8 (-128 to 127); convert the operand with .to(i32)"},
    {__LINE__, [](KernelBuilder& k) { tile(k, {8}, f16) + 1e6; }, "operator+: the number 1e+06 overflows f16, whose largest finite value is 65504; for infinity, write INFINITY"},
    {__LINE__, [](KernelBuilder& k) { (void)(k.arange(8) < k.scalar("n", i64)); }, "operator<: expected i32, got i64 scalar; convert it with .to(i32)"},
    {__LINE__, [](KernelBuilder& k) { k.scalar("a", f32) * k.scalar("b", i32); }, "operator*: operand types differ (f32 and i32); convert one with .to(f32) or .to(i32)"},
    {__LINE__, [](KernelBuilder& k) { tile(k, {8}, i1) + 1; }, "operator+: got i1 tile [8], expected a number type; convert an i1 with .to(i32)"},
    {__LINE__, [](KernelBuilder& k) { tile(k, {8}) % 2; }, "operator%: got f32 tile [8], expected an integer type"},
    {__LINE__, [](KernelBuilder& k) { tile(k, {8}) & 1; }, "operator&: got f32 tile [8], expected an integer type or i1"},
    {__LINE__, [](KernelBuilder& k) { tile(k, {8}) & tile(k, {8}); }, "operator&: got f32 tile [8], expected an integer type or i1"},
    {__LINE__, [](KernelBuilder& k) { k.arange(8) && k.arange(8); }, "operator&&: got i32 tile [8], expected i1; compare first, as in x != 0"},
    {__LINE__, [](KernelBuilder& k) { !k.arange(8); }, "operator!: got i32 tile [8], expected i1; compare first, as in x != 0"},
    {__LINE__, [](KernelBuilder& k) { (void)(tile(k, {8}, i1) < tile(k, {8}, i1)); }, "operator<: got i1 tile [8], expected a number type; convert an i1 with .to(i32)"},
    {__LINE__, [](KernelBuilder& k) { exp(tile(k, {8}, bf16)); }, "exp: got bf16 tile [8], expected f32; convert with .to(f32)"},
    {__LINE__, [](KernelBuilder& k) { floor(k.arange(8)); }, "floor: got i32 tile [8], expected a float type; convert with .to(f32)"},
    {__LINE__, [](KernelBuilder& k) { fma(k.arange(8), 2, 3); }, "fma: got i32 tile [8], expected a float type; convert with .to(f32)"},
    {__LINE__, [](KernelBuilder& k) { where(tile(k, {8}), 1.0f, tile(k, {8})); }, "where: got f32 tile [8], expected i1; compare first, as in x != 0"},
    {__LINE__, [](KernelBuilder& k) { where(tile(k, {8}, i1), 1.0f, 2.0f); }, "where: both values are numbers, so the result has no dtype; make one of them with KernelBuilder::constant or full"},
    {__LINE__, [](KernelBuilder& k) { where(tile(k, {8}, i1), tile(k, {8, 8}), 2.0f); }, "where: the condition has shape [8] and the values [8, 8], expected equal ranks; raise the lower rank with .expand_dims(axis)"},
    // Handles.
    {__LINE__, [](KernelBuilder& k) { tile(k, {8}) + Tile(); }, "operator+: the operand is an empty handle; assign it a value before use"},
    {__LINE__, [](KernelBuilder&) { Tile().to(f32); }, "to: the operand is an empty handle; assign it a value before use"},
    {__LINE__, [](KernelBuilder& k) { KernelBuilder other("other"); tile(k, {8}) + tile(other, {8}); }, "operator+: the operands were made by different KernelBuilders; use one builder"},
    {__LINE__, [](KernelBuilder& k) { Tile t; k.for_range(0, 4, 1, [&](Scalar) { t = tile(k, {8}); }); exp(t); }, "exp: the operand was made inside a loop, branch or combiner that has ended; return it through carry(...)"},
    {__LINE__, [](KernelBuilder& k) { stable_sort(ended(k), 0); }, "stable_sort: the operand was made inside a loop, branch or combiner that has ended; return it through carry(...)"},
    {__LINE__, [](KernelBuilder& k) { topk(ended(k), 2, 0); }, "topk: the operand was made inside a loop, branch or combiner that has ended; return it through carry(...)"},
    {__LINE__, [](KernelBuilder& k) { sort(ended(k), 0); }, "sort: the operand was made inside a loop, branch or combiner that has ended; return it through carry(...)"},
    {__LINE__, [](KernelBuilder& k) { flip(ended(k), 0); }, "flip: the operand was made inside a loop, branch or combiner that has ended; return it through carry(...)"},
    {__LINE__, [](KernelBuilder& k) { join(tile(k, {8}), ended(k)); }, "join: the operand was made inside a loop, branch or combiner that has ended; return it through carry(...)"},
    {__LINE__, [](KernelBuilder& k) { interleave(ended(k), tile(k, {8})); }, "interleave: the operand was made inside a loop, branch or combiner that has ended; return it through carry(...)"},
    {__LINE__, [](KernelBuilder& k) { gather(tile(k, {8}), ended(k, i32), 0); }, "gather: the operand was made inside a loop, branch or combiner that has ended; return it through carry(...)"},
    {__LINE__, [](KernelBuilder& k) { shuffle_xor(ended(k), 1, 0); }, "shuffle_xor: the operand was made inside a loop, branch or combiner that has ended; return it through carry(...)"},
    {__LINE__, [](KernelBuilder& k) { Tile t = tile(k, {8}); k.finish(); exp(t); }, "exp: the operand belongs to a finished program; record it again in this one"},
    {__LINE__, [](KernelBuilder& k) { Tile t = tile(k, {8}); k.finish(); Tile next = tile(k, {8}); exp(t); }, "exp: the operand belongs to a finished program; record it again in this one"},
    {__LINE__, [](KernelBuilder& k) { Tile t = tile(k, {8}); k.finish(); tile(k, {8}) + t; }, "operator+: the operand belongs to a finished program; record it again in this one"},
    {__LINE__, [](KernelBuilder& k) { k.for_range(0, 4, 1, [&](Scalar) { k.finish(); }); }, "finish: a loop, branch or combiner is still being recorded; call finish() after it"},
    {__LINE__, [](KernelBuilder& k) { k.view("v", i32, {dyn}).store({0}, 5000000000); }, "store: the number 5000000000 is outside the range of i32 (-2147483648 to 2147483647); use a number in this range"},
    // Read-only views.
    {__LINE__, [](KernelBuilder& k) { k.view("v", f32, {dyn}, {.read_only = true}).partition({8}).store({0}, k.zeros({8}, f32)); }, "store_tile: view 'v' is declared read_only; declare it without read_only, or store to another view"},
    {__LINE__, [](KernelBuilder& k) { store(k.view("v", f32, {dyn}, {.read_only = true}).ptr() + k.arange(8), k.zeros({8}, f32)); }, "store: view 'v' is declared read_only; declare it without read_only, or store to another view"},
    {__LINE__, [](KernelBuilder& k) { k.view("w", i64, {dyn}); atomic_add(k.view("v", i64, {dyn}, {.read_only = true}).ptr() + 3, 1); }, "atomic_rmw: view 'v' is declared read_only; declare it without read_only, or store to another view"},
    {__LINE__, [](KernelBuilder& k) { k.view("v", f32, {dyn}, {.read_only = true}).partition({8}).add({0}, 1); }, "add_tile: view 'v' is declared read_only; declare it without read_only, or store to another view"},
    // Additions to memory.
    {__LINE__, [](KernelBuilder& k) { k.view("v", i1, {dyn}).partition({8}).add({0}, k.arange(8) < 3); }, "add: expected a view of numbers other than fp8, got i1"},
    {__LINE__, [](KernelBuilder& k) { k.view("v", f8e4m3, {dyn}).partition({8}).add({0}, 1); }, "add: expected a view of numbers other than fp8, got f8e4m3"},
    {__LINE__, [](KernelBuilder& k) { k.view("v", bf16, {dyn}).partition({8}).add({0}, k.zeros({8}, f32)); }, "add: the tile is f32, but the view has elements of bf16; convert with .to(bf16)"},
    {__LINE__, [](KernelBuilder& k) { k.view("v", f32, {dyn}).partition({8}).add({0}, k.zeros({4}, f32)); }, "add: expected a tile of shape [8], as in the partition, got [4]"},
    // Shapes.
    {__LINE__, [](KernelBuilder& k) { k.zeros({100, 37}, f32); }, "full: dimension 1 of tile shape [100, 37] is 37, expected c * 2^n with odd c <= 31; use 38, and exclude the rest by the view's bounds or a mask"},
    {__LINE__, [](KernelBuilder& k) { k.arange(0); }, "arange: dimension 0 of tile shape [0] is 0, expected 1 or more"},
    {__LINE__, [](KernelBuilder& k) { k.arange(int64_t{1} << 21); }, "arange: tile [2097152] has more than 2^20 elements; use a smaller tile and a loop"},
    {__LINE__, [](KernelBuilder& k) { k.zeros({2048, 1024}, f32); }, "full: tile [2048, 1024] has more than 2^20 elements; use a smaller tile and a loop"},
    {__LINE__, [](KernelBuilder& k) { k.zeros({}, f32); }, "full: a tile needs at least one dimension, got []; use a scalar"},
    {__LINE__, [](KernelBuilder& k) { tile(k, {8}).expand_dims(3); }, "expand_dims: expected an axis from -2 to 1, got 3"},
    {__LINE__, [](KernelBuilder& k) { tile(k, {8}).broadcast_to({16}); }, "broadcast_to: cannot broadcast [8] to [16]: dimension 0 is 8, expected 1 or 16"},
    {__LINE__, [](KernelBuilder& k) { tile(k, {8}).broadcast_to({4, 8}); }, "broadcast_to: cannot broadcast [8] to [4, 8]: expected equal ranks; use .expand_dims(axis) first"},
    {__LINE__, [](KernelBuilder& k) { tile(k, {8}).reshape({4, 4}); }, "reshape: cannot reshape [8] to [4, 4]: expected 8 elements, got 16"},
    {__LINE__, [](KernelBuilder& k) { tile(k, {8, 4}).permute({0, 0}); }, "permute: expected each dimension from 0 to 1 once, got [0, 0]"},
    {__LINE__, [](KernelBuilder& k) { tile(k, {8, 4}).permute({0}); }, "permute: expected each dimension from 0 to 1 once, got [0]"},
    // Matmuls.
    {__LINE__, [](KernelBuilder& k) { dot(tile(k, {8, 4}), tile(k, {8, 4}), tile(k, {8, 4})); }, "dot: expected operands of shapes [m, k] and [k, n], got [8, 4] and [8, 4]; transpose one with .permute({1, 0})"},
    {__LINE__, [](KernelBuilder& k) { dot(tile(k, {8}), tile(k, {8, 4}), tile(k, {8, 4})); }, "dot: expected operands of shapes [m, k] and [k, n], got [8] and [8, 4]; transpose one with .permute({1, 0})"},
    {__LINE__, [](KernelBuilder& k) { dot(tile(k, {8, 4}), tile(k, {4, 2}), tile(k, {8, 4})); }, "dot: expected an accumulator of shape [8, 2], got [8, 4]"},
    {__LINE__, [](KernelBuilder& k) { dot(tile(k, {8, 4}, f8e4m3), tile(k, {4, 2}, f16), tile(k, {8, 2})); }, "dot: expected two operands of one dtype, or two of fp8, got f8e4m3 and f16; convert one with .to(...)"},
    {__LINE__, [](KernelBuilder& k) { dot(tile(k, {8, 4}, f8e4m3), tile(k, {4, 2}, f8e5m2), tile(k, {8, 2}, f16)); }, "dot: got f16 tile [8, 2], expected f32; convert with .to(f32)"},
    {__LINE__, [](KernelBuilder& k) { dot(tile(k, {8, 4}), tile(k, {4, 2}, bf16), tile(k, {8, 2})); }, "dot: expected two operands of one dtype, or two of fp8, got f32 and bf16; convert one with .to(...)"},
    {__LINE__, [](KernelBuilder& k) { dot(tile(k, {8, 4}, i8), tile(k, {4, 2}), tile(k, {8, 2})); }, "dot: expected two operands of one dtype, or two of fp8, got i8 and f32; convert one with .to(...)"},
    {__LINE__, [](KernelBuilder& k) { dot(tile(k, {8, 4}, i8), tile(k, {4, 2}, i8), tile(k, {8, 2})); }, "dot: got f32 tile [8, 2], expected i32; convert with .to(i32)"},
    {__LINE__, [](KernelBuilder& k) { dot(tile(k, {8, 4}), tile(k, {4, 2}), tile(k, {8, 2}, i32)); }, "dot: got i32 tile [8, 2], expected f32; convert with .to(f32)"},
    {__LINE__, [](KernelBuilder& k) { dot(tile(k, {8, 4}, i16), tile(k, {4, 2}, i16), tile(k, {8, 2}, i32)); }, "dot: got i16 tile [8, 4], expected f32, f16, bf16, fp8 or i8"},
    {__LINE__, [](KernelBuilder& k) { dot(tile(k, {8, 4}, f16), tile(k, {4, 2}, f16), tile(k, {8, 2}), {.input_precision = InputPrecision::tf32}); }, "dot: InputPrecision::tf32 requires f32 operands, got f16; omit input_precision"},
    // Ops that move elements along an axis: gather and others.
    {__LINE__, [](KernelBuilder& k) { gather(tile(k, {8}), tile(k, {4})); }, "gather: expected i32 or i64 indices, got f32; convert them with .to(i32)"},
    {__LINE__, [](KernelBuilder& k) { gather(tile(k, {4, 8}), tile(k, {8}, i32)); }, "gather: the indices have shape [8], expected [4, 8] with any size of dimension 1; use .broadcast_to(shape)"},
    {__LINE__, [](KernelBuilder& k) { gather(tile(k, {4, 8}), tile(k, {2, 8}, i32), 1); }, "gather: the indices have shape [2, 8], expected [4, 8] with any size of dimension 1; use .broadcast_to(shape)"},
    {__LINE__, [](KernelBuilder& k) { gather(tile(k, {8}), tile(k, {8}, i32), 1); }, "gather: expected an axis from -1 to 0, got 1"},
    {__LINE__, [](KernelBuilder& k) { shuffle_xor(tile(k, {4, 96}), 32); }, "shuffle_xor: expected a mask from 0 to 31 for a dimension of 96 elements, got 32"},
    {__LINE__, [](KernelBuilder& k) { shuffle_xor(tile(k, {8}), -1); }, "shuffle_xor: expected a mask from 0 to 7 for a dimension of 8 elements, got -1"},
    {__LINE__, [](KernelBuilder& k) { sort(tile(k, {4, 96})); }, "sort: dimension 1 has 96 elements, expected a power of two; load a larger block, padded with a value that sorts last (e.g. INFINITY for an ascending sort)"},
    {__LINE__, [](KernelBuilder& k) { topk(tile(k, {64}), 24); }, "topk: expected k to be a power of two from 1 to 64, the size of dimension 0, got 24"},
    {__LINE__, [](KernelBuilder& k) { topk(tile(k, {64}), 128); }, "topk: expected k to be a power of two from 1 to 64, the size of dimension 0, got 128"},
    {__LINE__, [](KernelBuilder& k) { stable_sort(tile(k, {64}, i64)); }, "stable_sort: expected elements of at most 32 bits, got i64: an element and its index share one i64; convert with .to(i32), or use sort(), which returns no indices"},
    {__LINE__, [](KernelBuilder& k) { join(tile(k, {8}), tile(k, {8}, i32)); }, "join: expected two tiles of the same dtype and shape, got f32 [8] and i32 [8]"},
    {__LINE__, [](KernelBuilder& k) { accumulate(OnlineSums{k.zeros({64}, f32), k.zeros({64}, f32)}, {.fold = 2, .lanes = 64}, tile(k, {96})); }, "accumulate: expected a tile of 128 elements, which these lanes hold as [2, 64]; got 96 elements"},
    {__LINE__, [](KernelBuilder& k) { accumulate(OnlineSums{k.zeros({32}, f32), k.zeros({32}, f32)}, {.lanes = 32, .run = 4, .ctas = 2}, tile(k, {256})); }, "accumulate: expected m and s of shape [2, 32], which lanes.carried() returns, got [32] and [32]"},
    {__LINE__, [](KernelBuilder& k) { accumulate(OnlineSums{k.zeros({32}, f32), k.zeros({64}, f32)}, {.lanes = 32}, tile(k, {32})); }, "accumulate: expected m and s of shape [32], which lanes.carried() returns, got [32] and [64]"},
    {__LINE__, [](KernelBuilder& k) { accumulate(OnlineSums{k.zeros({32}, f32), k.zeros({32}, f32)}, {.lanes = 32}, tile(k, {32}, bf16)); }, "accumulate: got bf16 tile [32], expected f32; convert with .to(f32)"},
    {__LINE__, [](KernelBuilder& k) { accumulate(OnlineSums{k.zeros({32}, f32), k.zeros({32}, f32)}, {.lanes = 32}, tile(k, {32}), {.counts = tile(k, {16}, i1)}); }, "accumulate: expected `counts` with 32 elements, as in the tile [32], got shape [16]"},
    {__LINE__, [](KernelBuilder& k) { accumulate(OnlineSum{k.constant(0, f32), k.constant(0, f32)}, tile(k, {32}), {.counts = tile(k, {32})}); }, "accumulate: got f32 tile [32], expected i1; compare first, as in x != 0"},
    {__LINE__, [](KernelBuilder& k) { accumulate(OnlineSum{k.constant(0, f32), k.constant(0, f32)}, tile(k, {32}), {.scale_log2 = k.constant(2, i32)}); }, "accumulate: got i32 scalar, expected f32; convert with .to(f32)"},
    {__LINE__, [](KernelBuilder& k) { accumulate(OnlineSum{k.constant(0, f32), Scalar()}, tile(k, {32})); }, "accumulate: the operand is an empty handle; assign it a value before use"},
    {__LINE__, [](KernelBuilder& k) { combine(OnlineSum{k.constant(0, f32), k.constant(0, f32)}, OnlineSum{k.constant(0, f16), k.constant(0, f16)}); }, "combine: got f16 scalar, expected f32; convert with .to(f32)"},
    {__LINE__, [](KernelBuilder& k) { combine(OnlineSums{tile(k, {32}), Tile()}); }, "combine: the operand is an empty handle; assign it a value before use"},
    {__LINE__, [](KernelBuilder&) { log_sum_exp(OnlineSum{}); }, "log_sum_exp: the operand is an empty handle; assign it a value before use"},
    {__LINE__, [](KernelBuilder& k) { accumulate(OnlineSums{k.zeros({32}, f32), Tile()}, {.lanes = 32}, tile(k, {32})); }, "accumulate: the operand is an empty handle; assign it a value before use"},
    {__LINE__, [](KernelBuilder& k) { accumulate_terms(OnlineSums{k.zeros({32}, f32), k.zeros({32}, f32)}, {.lanes = 16}, tile(k, {16}), [](const Tile& base) { return base; }); }, "accumulate_terms: expected m and s of shape [16], which lanes.carried() returns, got [32] and [32]"},
    {__LINE__, [](KernelBuilder& k) { accumulate(OnlineSum{k.constant(0, f32), k.constant(0, f32)}, tile(k, {32}, f16)); }, "accumulate: got f16 tile [32], expected f32; convert with .to(f32)"},
    {__LINE__, [](KernelBuilder& k) { BlockLanes{.lanes = 16}.distribute(tile(k, {8})); }, "distribute: expected a tile of 16 elements, which these lanes hold as [1, 16]; got 8 elements"},
    {__LINE__, [](KernelBuilder&) { BlockLanes{.lanes = 16}.max_with_index(Tile()); }, "max_with_index: the operand is an empty handle; assign it a value before use"},
    {__LINE__, [](KernelBuilder& k) { interleave(Tile(), tile(k, {8})); }, "interleave: the operand is an empty handle; assign it a value before use"},
    {__LINE__, [](KernelBuilder&) { flip(Tile()); }, "flip: the operand is an empty handle; assign it a value before use"},
    {__LINE__, [](KernelBuilder&) { topk(Tile(), 4); }, "topk: the operand is an empty handle; assign it a value before use"},
    {__LINE__, [](KernelBuilder& k) { gather(tile(k, {8}), Tile()); }, "gather: the operand is an empty handle; assign it a value before use"},
    {__LINE__, [](KernelBuilder& k) { split(tile(k, {2})); }, "split: expected a tile of rank 2 or more whose last dimension is 2, got [2]"},
    // Reductions.
    {__LINE__, [](KernelBuilder& k) { sum(tile(k, {8}), 0); }, "sum: a tile of rank 1 reduces to a scalar; omit the axis"},
    {__LINE__, [](KernelBuilder& k) { sum(tile(k, {8, 8}), 2); }, "sum: expected an axis from -2 to 1, got 2"},
    {__LINE__, [](KernelBuilder& k) { reduce_max(tile(k, {8}, i1)); }, "reduce_max: got an i1 tile, expected numbers; convert with .to(i32)"},
    {__LINE__, [](KernelBuilder& k) { cumsum(tile(k, {8}), 1); }, "cumsum: expected an axis from -1 to 0, got 1"},
    {__LINE__, [](KernelBuilder& k) { cumsum(tile(k, {8}, i1)); }, "cumsum: got an i1 tile, expected numbers; convert with .to(i32)"},
    {__LINE__, [](KernelBuilder& k) { reduce({tile(k, {8}), tile(k, {16})}, [](Scalar a, Scalar b, Scalar, Scalar) { return carry(a, b); }); }, "reduce: expected tiles of the same shape, got [8] and [16]"},
    {__LINE__, [](KernelBuilder& k) { reduce({tile(k, {8})}, [](Scalar a, Scalar b) { return a < b; }); }, "reduce: expected f32 scalar as the combiner's value 0, got i1 scalar"},
    {__LINE__, [](KernelBuilder& k) { View x = k.view("x", f32, {dyn}); reduce({tile(k, {8})}, [&](Scalar a, Scalar b) { return a + b * x.load({0}); }); }, "load_tile: a combiner may contain only arithmetic on scalars, without memory, tiles, loops or branches; compute the value before the reduction, or select with where(...)"},
    {__LINE__, [](KernelBuilder& k) { Ptr p = k.ptr("p", f32); scan({tile(k, {8})}, 0, [&](Scalar a, Scalar b) { return a + b * load(p); }); }, "load: a combiner may contain only arithmetic on scalars"},
    {__LINE__, [](KernelBuilder& k) { Ptr p = k.ptr("p", f32); reduce({tile(k, {8})}, [&](Scalar a, Scalar b) { store(p, a); return a + b; }); }, "store: a combiner may contain only arithmetic on scalars"},
    {__LINE__, [](KernelBuilder& k) { Ptr p = k.ptr("p", f32); scan({tile(k, {8})}, 0, [&](Scalar a, Scalar b) { return a + b + atomic_add(p, a); }); }, "atomic_rmw: a combiner may contain only arithmetic on scalars"},
    {__LINE__, [](KernelBuilder& k) { reduce({tile(k, {8})}, [&](Scalar a, Scalar b) { return a + b * k.program_id(0).to(f32); }); }, "program_id: a combiner may contain only arithmetic on scalars"},
    {__LINE__, [](KernelBuilder& k) { Tile t = tile(k, {8}); reduce({t}, [&](Scalar a, Scalar b) { return a + b + sum(t + a); }); }, "splat: a combiner may contain only arithmetic on scalars"},
    {__LINE__, [](KernelBuilder& k) { Tile t = tile(k, {8}); reduce({t}, [&](Scalar a, Scalar b) { return a + b + sum(t); }); }, "reduce: a combiner may contain only arithmetic on scalars"},
    {__LINE__, [](KernelBuilder& k) { Tile t = tile(k, {8}); reduce({t}, [&](Scalar a, Scalar b) { auto [m] = reduce({t}, [](Scalar c, Scalar d) { return min(c, d); }); return a + b + m; }); }, "reduce: a combiner cannot contain a reduction or scan; compute it before the outer one"},
    {__LINE__, [](KernelBuilder& k) { reduce({tile(k, {8})}, [&](Scalar a, Scalar b) { return k.if_(a > b, [&] { return a; }, [&] { return b; }); }); }, "if_else: a combiner may contain only arithmetic on scalars"},
    {__LINE__, [](KernelBuilder& k) { reduce({tile(k, {8})}, [&](Scalar a, Scalar b) { assume(a > b); return a; }); }, "assume: a combiner may contain only arithmetic on scalars"},
    // Arguments.
    {__LINE__, [](KernelBuilder& k) { k.view("x", f32, {}); }, "view: 'x' must have 1 to 8 dimensions, got 0"},
    {__LINE__, [](KernelBuilder& k) { k.view("x", f32, {dyn, 0}); }, "view: dimensions of 'x' must be dyn or at least 1, got [dyn, 0]"},
    {__LINE__, [](KernelBuilder& k) { k.view("x", f32, {dyn}, {.strides = {dyn, 1}}); }, "view: 'x' has 1 dimension but 2 strides; give one stride per dimension"},
    {__LINE__, [](KernelBuilder& k) { k.view("x", f32, {dyn}, {.strides = {-1}}); }, "view: strides of 'x' must be dyn or at least 0, got [-1]"},
    {__LINE__, [](KernelBuilder& k) { k.scalar("a", f32), k.scalar("a", f32); }, "argument 'a': another argument of the kernel has this name; choose a different name"},
    {__LINE__, [](KernelBuilder& k) { k.scalar("two words", f32); }, "argument 'two words': the name must match [a-zA-Z_][a-zA-Z0-9_]*"},
    {__LINE__, [](KernelBuilder& k) { k.for_range(0, 2, 1, [&](Scalar) { k.scalar("a", f32); }); }, "argument 'a': declare arguments outside loops and branches; move this one before them"},
    {__LINE__, [](KernelBuilder& k) { k.dynamic_persistent([&] { k.program_id(1); }); }, "program_id: the grid of a dynamic persistent kernel has only axis 0, got axis 1"},
    {__LINE__, [](KernelBuilder& k) { k.dynamic_persistent([&] { k.dynamic_persistent([] {}); }); }, "dynamic_persistent: it encloses the whole kernel: call it outside loops, branches and dynamic_persistent"},
    {__LINE__, [](KernelBuilder& k) { k.view("x", f32, {dyn}), k.dynamic_persistent([] {}); }, "dynamic_persistent: arguments were declared before it; declare the views inside the body"},
    {__LINE__, [](KernelBuilder& k) { k.for_range(0, 2, 1, [&](Scalar) { k.dynamic_persistent([] {}); }); }, "dynamic_persistent: it encloses the whole kernel: call it outside loops, branches and dynamic_persistent"},
    {__LINE__, [](KernelBuilder& k) { k.dynamic_persistent([&] { k.for_range(0, 2, 1, [&](Scalar) { k.scalar("a", f32); }); }); }, "argument 'a': declare arguments outside loops and branches; move this one before them"},
    {__LINE__, [](KernelBuilder& k) { k.dynamic_persistent([&] { k.view("next_program", i32, {1}); }); }, "argument 'next_program': another argument of the kernel has this name; choose a different name"},
    {__LINE__, [](KernelBuilder&) { KernelBuilder bad("3d"); }, "KernelBuilder: a kernel's name must match [a-zA-Z_][a-zA-Z0-9_]*, got '3d'"},
    {__LINE__, [](KernelBuilder& k) { k.program_id(3); }, "program_id: expected axis 0, 1 or 2, got 3"},
    {__LINE__, [](KernelBuilder& k) { k.constant(0.5, i32); }, "constant: expected an integer for i32, got the float 0.5; write an integer"},
    // Views.
    {__LINE__, [](KernelBuilder& k) { k.view("y", bf16, {dyn}).partition({128}).store({0}, tile(k, {128})); }, "store: the tile is f32, but the view has elements of bf16; convert with .to(bf16)"},
    {__LINE__, [](KernelBuilder& k) { k.view("y", bf16, {dyn}).store({0}, k.constant(1, f32)); }, "store: the scalar is f32, but the view has elements of bf16; convert with .to(bf16)"},
    {__LINE__, [](KernelBuilder& k) { k.view("y", f32, {dyn}).partition({128}).store({0}, tile(k, {64})); }, "store: expected a tile of shape [128], as in the partition, got [64]"},
    {__LINE__, [](KernelBuilder& k) { k.view("y", f32, {dyn, dyn}).partition({squeeze, 128}).load({0}); }, "load: expected one index per dimension of the view (2), including squeezed ones, got 1"},
    {__LINE__, [](KernelBuilder& k) { k.view("y", f32, {dyn}).load({0, 0}); }, "load: expected one index per dimension of the view (1), including squeezed ones, got 2"},
    {__LINE__, [](KernelBuilder& k) { k.view("y", f32, {dyn}).load({k.constant(1, f32)}); }, "load: an index or bound must be i32 or i64, got f32; convert it with .to(i32)"},
    {__LINE__, [](KernelBuilder& k) { k.view("y", i32, {dyn}).load({0}, {.pad = -INFINITY}); }, "load: the pad value of a view of i32 is -inf, expected an integer"},
    {__LINE__, [](KernelBuilder& k) { tile(k, {8}, i16) + 32768; }, "operator+: the number 32768 is outside the range of i16 (-32768 to 32767); convert the operand with .to(i32)"},
    {__LINE__, [](KernelBuilder& k) { atomic_add(k.ptr("p", i16), 1); }, "atomic_add: expected a pointer to i32, i64, f16, bf16 or f32, got i16"},
    {__LINE__, [](KernelBuilder& k) { tile(k, {8}, i16) << 16; }, "operator<<: expected a shift of i16 by 0 to 15 bits, got 16"},
    {__LINE__, [](KernelBuilder& k) { umulhi(tile(k, {8}, i16), 3); }, "umulhi: expected i32 or i64, got i16"},
    {__LINE__, [](KernelBuilder& k) { tile(k, {8}, f8e4m3) + 1.0; }, "operator+: got f8e4m3 tile [8], but fp8 has no arithmetic, comparisons or functions; convert it with .to(f32)"},
    {__LINE__, [](KernelBuilder& k) { tile(k, {8}, f8e5m2) == 1.0; }, "operator==: got f8e5m2 tile [8], but fp8 has no arithmetic, comparisons or functions; convert it with .to(f32)"},
    {__LINE__, [](KernelBuilder& k) { exp(tile(k, {8}, f8e4m3)); }, "exp: got f8e4m3 tile [8], but fp8 has no arithmetic, comparisons or functions; convert it with .to(f32)"},
    {__LINE__, [](KernelBuilder& k) { abs(k.scalar("s", f8e4m3)); }, "abs: got f8e4m3 scalar, but fp8 has no arithmetic, comparisons or functions; convert it with .to(f32)"},
    {__LINE__, [](KernelBuilder& k) { sum(tile(k, {8}, f8e4m3)); }, "sum: got an f8e4m3 tile, expected numbers; convert with .to(f32)"},
    {__LINE__, [](KernelBuilder& k) { reduce_max(tile(k, {8, 8}, f8e5m2), 1); }, "reduce_max: got an f8e5m2 tile, expected numbers; convert with .to(f32)"},
    {__LINE__, [](KernelBuilder& k) { cumsum(tile(k, {8}, f8e4m3), 0); }, "cumsum: got an f8e4m3 tile, expected numbers; convert with .to(f32)"},
    {__LINE__, [](KernelBuilder& k) { sort(tile(k, {8}, f8e4m3), 0); }, "sort: got f8e4m3, but fp8 has no comparisons; convert it with .to(f32)"},
    {__LINE__, [](KernelBuilder& k) { atomic_add(k.ptr("p", f8e4m3), 1.0); }, "atomic_add: expected a pointer to i32, i64, f16, bf16 or f32, got f8e4m3"},
    {__LINE__, [](KernelBuilder& k) { tile(k, {8}, i8).to(f8e4m3); }, "to: cannot convert i8 to f8e4m3: fp8 converts only from and to f16, bf16 and f32; write .to(f32).to(f8e4m3)"},
    {__LINE__, [](KernelBuilder& k) { tile(k, {8}, f8e5m2).to(i32); }, "to: cannot convert f8e5m2 to i32: fp8 converts only from and to f16, bf16 and f32; write .to(f32).to(i32)"},
    {__LINE__, [](KernelBuilder& k) { tile(k, {8}, f8e4m3).to(f8e5m2); }, "to: cannot convert f8e4m3 to f8e5m2: fp8 converts only from and to f16, bf16 and f32; write .to(f32).to(f8e5m2)"},
    {__LINE__, [](KernelBuilder& k) { k.full({8}, INFINITY, f8e4m3); }, "full: the number inf overflows f8e4m3, whose largest finite value is 448; it has no infinities"},
    {__LINE__, [](KernelBuilder& k) { k.full({8}, 60000.0, f8e5m2); }, "full: the number 60000 overflows f8e5m2, whose largest finite value is 57344; for infinity, write INFINITY"},
    {__LINE__, [](KernelBuilder& k) { k.view("y", f8e4m3, {dyn}).load({0}, {.pad = -449}); }, "load: the pad value of a view of f8e4m3 is -449, which overflows f8e4m3, whose largest finite value is 448; it has no infinities"},
    {__LINE__, [](KernelBuilder& k) { k.view("y", f8e4m3, {dyn}).partition({8}).store({0}, tile(k, {8})); }, "store: the tile is f32, but the view has elements of f8e4m3; convert with .to(f8e4m3)"},
    {__LINE__, [](KernelBuilder& k) { k.view("y", i8, {dyn}).load({0}, {.pad = 300}); }, "load: the pad value of a view of i8 is 300, expected -128 to 127"},
    {__LINE__, [](KernelBuilder& k) { k.view("y", i32, {dyn}).load({0}, {.pad = 2147483648.0}); }, "load: the pad value of a view of i32 is 2147483648, expected -2147483648 to 2147483647"},
    {__LINE__, [](KernelBuilder& k) { k.view("y", f16, {dyn}).load({0}, {.pad = 1e6}); }, "load: the pad value of a view of f16 is 1e+06, which overflows f16, whose largest finite value is 65504; for infinity, write INFINITY"},
    {__LINE__, [](KernelBuilder& k) { k.view("y", i32, {dyn}).load({0}, {.pad = 0.5}); }, "load: the pad value of a view of i32 is 0.5, expected an integer"},
    {__LINE__, [](KernelBuilder& k) { k.view("y", f32, {dyn, dyn}).partition({128}); }, "partition: expected a tile shape with one entry per dimension of the view (2), got [128]; the entry `squeeze` takes one element"},
    {__LINE__, [](KernelBuilder& k) { k.view("y", f32, {dyn, dyn}).partition({squeeze, 64}).resident({0, 1}); }, "resident: expected one index per dimension of the view except the last (1), got 2"},
    {__LINE__, [](KernelBuilder& k) { k.view("y", f32, {dyn, dyn}).partition({64, squeeze}).resident({0}); }, "resident: the last dimension is squeezed, but a resident row consists of tiles along it; give it a tile size"},
    {__LINE__, [](KernelBuilder& k) { k.view("y", f32, {dyn, dyn}).alignment_offset({0, 1}); }, "alignment_offset: expected one index per dimension of the view except the last (1), got 2"},
    {__LINE__, [](KernelBuilder& k) { View y = k.view("y", f32, {dyn, dyn}); y.partition({4, squeeze}).load({0, 0}, {.alignment_offset = y.alignment_offset({0})}); }, "load: the last dimension is squeezed, and only tiles along it have an alignment offset; omit alignment_offset"},
    {__LINE__, [](KernelBuilder& k) { k.view("y", f32, {dyn}).partition({64}).load({0}, {.alignment_offset = k.constant(1, i64)}); }, "load: the alignment offset must be i32, got i64; pass the result of View::alignment_offset unchanged"},
    {__LINE__, [](KernelBuilder& k) { View y = k.view("y", f32, {dyn}); y.partition({64}).load({0}, {.alignment_offset = y.max_alignment_offset()}); }, "load: expected the result of View::alignment_offset as the alignment offset, got another i32; pass that result unchanged"},
    {__LINE__, [](KernelBuilder& k) { View y = k.view("y", f32, {dyn}); y.partition({64}).store({0}, 1.0f, {.alignment_offset = y.alignment_offset({}) + 1}); }, "store: expected the result of View::alignment_offset as the alignment offset, got another i32; pass that result unchanged"},
    {__LINE__, [](KernelBuilder& k) { Resident().load(k.constant(0, i32)); }, "load: the operand is an empty handle; assign it a value before use"},
    {__LINE__, [](KernelBuilder& k) { k.view("y", f32, {dyn}).partition({squeeze}); }, "partition: every dimension is squeezed; use view.load({...}) and view.store({...}, value)"},
    {__LINE__, [](KernelBuilder& k) { k.view("y", f32, {dyn}).partition({33}); }, "partition: dimension 0 of tile shape [33] is 33, expected c * 2^n"},
    {__LINE__, [](KernelBuilder& k) { k.view("y", f32, {dyn}).slice(1, 0, 4); }, "slice: expected an axis from -1 to 0, got 1"},
    {__LINE__, [](KernelBuilder& k) { k.view("y", f32, {dyn}).slice(0, 0, k.constant(1, f32)); }, "slice: "},
    {__LINE__, [](KernelBuilder& k) { k.view("y", f32, {dyn}).every(1, 2, 0); }, "every: expected an axis from -1 to 0, got 1"},
    {__LINE__, [](KernelBuilder& k) { k.view("y", f32, {dyn}).every(0, 0, 0); }, "every: expected a step from 1 to 2147483647, got 0"},
    {__LINE__, [](KernelBuilder& k) { View x = k.view("x", f32, {dyn}), y; k.if_(k.scalar("c", i1), [&] { y = x.slice(0, 1, 2); }); y.load({0}); }, "load: the operand was made inside a loop, branch or combiner that has ended"},
    {__LINE__, [](KernelBuilder& k) { k.view("x", f32, {dyn}, {.read_only = true}).slice(0, 1, 2).store({0}, 1.0f); }, "store_tile: view 'x' is declared read_only"},
    {__LINE__, [](KernelBuilder& k) { k.view("y", f32, {dyn}).dim(1); }, "dim: expected an axis from -1 to 0, got 1"},
    // Pointers.
    {__LINE__, [](KernelBuilder& k) { k.ptr("p", f32) + k.constant(1, f32); }, "pointer +: an offset must be i32 or i64, got f32; convert it with .to(i64)"},
    {__LINE__, [](KernelBuilder& k) { k.ptr("p", f32) + tile(k, {4}, i32) + tile(k, {4, 4}, i32); }, "pointer +: the pointers have shape [4] and the offsets [4, 4], expected equal ranks; raise the lower rank with .expand_dims(axis)"},
    {__LINE__, [](KernelBuilder& k) { load(k.ptr("p", f32) + k.arange(8), k.arange(8)); }, "load mask: expected i1, got i32 tile [8]; convert it with .to(i1)"},
    {__LINE__, [](KernelBuilder& k) { load(k.ptr("p", f32) + k.arange(8), true, k.arange(8)); }, "load other: expected f32, got i32 tile [8]; convert it with .to(f32)"},
    {__LINE__, [](KernelBuilder& k) { store(k.ptr("p", f32), k.constant(1, i32)); }, "store: expected f32, got i32; convert it with .to(f32)"},
    {__LINE__, [](KernelBuilder& k) { store(k.ptr("p", f32) + k.arange(8), tile(k, {16})); }, "store: shapes [16] and [8] do not broadcast: dimension 0 must have equal sizes or be 1 in one of them"},
    {__LINE__, [](KernelBuilder& k) { atomic_max(k.ptr("p", bf16), 1); }, "atomic_max: expected a pointer to i32, i64 or f32, got bf16"},
    {__LINE__, [](KernelBuilder& k) { atomic_min(k.ptr("p", f16), 1); }, "atomic_min: expected a pointer to i32, i64 or f32, got f16"},
    {__LINE__, [](KernelBuilder& k) { atomic_xchg(k.ptr("p", i8), 1); }, "atomic_xchg: expected a pointer to i32, i64 or f32, got i8"},
    {__LINE__, [](KernelBuilder& k) { bitcast(tile(k, {8}), i32).to(f32); bitcast(tile(k, {8}), f16); }, "bitcast: f32 has 32 bits and f16 has 16, expected equal widths; use .to(f16) to convert values"},
    {__LINE__, [](KernelBuilder& k) { tile(k, {8}, i32) << 31; tile(k, {8}, i32) << 32; }, "operator<<: expected a shift of i32 by 0 to 31 bits, got 32"},
    {__LINE__, [](KernelBuilder& k) { tile(k, {8}, i8) >> k.constant(8, i8); }, "operator>>: expected a shift of i8 by 0 to 7 bits, got 8"},
    {__LINE__, [](KernelBuilder& k) { lshr(k.scalar("n", i64), -1); }, "lshr: expected a shift of i64 by 0 to 63 bits, got -1"},
    {__LINE__, [](KernelBuilder& k) { udiv(tile(k, {8}), 2); }, "udiv: got f32 tile [8], expected i32 or i64"},
    {__LINE__, [](KernelBuilder& k) { ult(tile(k, {8}), 2); }, "ult: expected an integer type, got f32"},
    {__LINE__, [](KernelBuilder& k) { ult(tile(k, {8}, i16), 65535); }, "ult: the number 65535 is outside the range of i16 (-32768 to 32767); write -1, which has the same bits, or convert the operand to its unsigned value with .to(i32) & 65535"},
    {__LINE__, [](KernelBuilder& k) { uge(tile(k, {8}, i8), 256); }, "uge: the number 256 is outside the range of i8 (-128 to 127); convert the operand to its unsigned value with .to(i32) & 255"},
    {__LINE__, [](KernelBuilder& k) { umulhi(tile(k, {8}, i32), int64_t{0xffff'fff0}); }, "umulhi: the number 4294967280 is outside the range of i32 (-2147483648 to 2147483647); write -16, which has the same bits, or convert the operand to its unsigned value with .to(i64) & 4294967295"},
    {__LINE__, [](KernelBuilder& k) { tile(k, {8}, i16) & 65535; }, "operator&: the number 65535 is outside the range of i16 (-32768 to 32767); convert the operand with .to(i32)"},
    {__LINE__, [](KernelBuilder& k) { any(tile(k, {8})); }, "any: got f32 tile [8], expected i1; compare first, as in x != 0"},
    // Functions that record several ops: the error must name the function that the author called.
    {__LINE__, [](KernelBuilder& k) { argmax(tile(k, {8}, f8e4m3)); }, "argmax: got an f8e4m3 tile, expected numbers; convert with .to(f32)"},
    {__LINE__, [](KernelBuilder& k) { argmin(tile(k, {8, 8}, f8e5m2), 1); }, "argmin: got an f8e5m2 tile, expected numbers; convert with .to(f32)"},
    {__LINE__, [](KernelBuilder& k) { max_with_index(tile(k, {8}, f8e4m3)); }, "max_with_index: got an f8e4m3 tile, expected numbers; convert with .to(f32)"},
    {__LINE__, [](KernelBuilder& k) { min_with_index(tile(k, {8}, i1)); }, "min_with_index: got an i1 tile, expected numbers; convert with .to(i32)"},
    {__LINE__, [](KernelBuilder& k) { argmax(ended(k)); }, "argmax: the operand was made inside a loop, branch or combiner that has ended; return it through carry(...)"},
    {__LINE__, [](KernelBuilder& k) { mean(tile(k, {8}, f8e4m3)); }, "mean: got f8e4m3 tile [8], but fp8 has no arithmetic, comparisons or functions; convert it with .to(f32)"},
    {__LINE__, [](KernelBuilder& k) { mean(tile(k, {8, 8}, i32), 1); }, "mean: got i32 tile [8, 8], expected a float type; convert with .to(f32)"},
    {__LINE__, [](KernelBuilder& k) { sum_products(tile(k, {8}), tile(k, {8}, f8e4m3)); }, "sum_products: got f8e4m3 tile [8], but fp8 has no arithmetic, comparisons or functions; convert it with .to(f32)"},
    {__LINE__, [](KernelBuilder& k) { softmax(tile(k, {8}, f8e5m2)); }, "softmax: got f8e5m2 tile [8], but fp8 has no arithmetic, comparisons or functions; convert it with .to(f32)"},
    {__LINE__, [](KernelBuilder& k) { softmax(tile(k, {8, 8}, bf16), 1); }, "softmax: got bf16 tile [8, 8], expected f32; convert with .to(f32)"},
    {__LINE__, [](KernelBuilder& k) { log_sum_exp(tile(k, {8}, f8e4m3)); }, "log_sum_exp: got f8e4m3 tile [8], but fp8 has no arithmetic, comparisons or functions; convert it with .to(f32)"},
    {__LINE__, [](KernelBuilder& k) { log_sum_exp(tile(k, {8, 8}, f16), 0); }, "log_sum_exp: got f16 tile [8, 8], expected f32; convert with .to(f32)"},
    {__LINE__, [](KernelBuilder& k) { relu(tile(k, {8}, f8e4m3)); }, "relu: got f8e4m3 tile [8], but fp8 has no arithmetic, comparisons or functions; convert it with .to(f32)"},
    {__LINE__, [](KernelBuilder& k) { silu(tile(k, {8}, f8e4m3)); }, "silu: got f8e4m3 tile [8], but fp8 has no arithmetic, comparisons or functions; convert it with .to(f32)"},
    {__LINE__, [](KernelBuilder& k) { gelu_tanh(tile(k, {8}, f8e4m3)); }, "gelu_tanh: got f8e4m3 tile [8], but fp8 has no arithmetic, comparisons or functions; convert it with .to(f32)"},
    {__LINE__, [](KernelBuilder& k) { gelu_erf(tile(k, {8}, bf16)); }, "gelu_erf: got bf16 tile [8], expected f32; convert with .to(f32)"},
    {__LINE__, [](KernelBuilder&) { silu(Tile()); }, "silu: the operand is an empty handle; assign it a value before use"},
    {__LINE__, [](KernelBuilder& k) { accumulate(OnlineSum{k.constant(0, f32), k.constant(0, f32)}, tile(k, {8}, f8e4m3)); }, "accumulate: got f8e4m3 tile [8], but fp8 has no arithmetic, comparisons or functions; convert it with .to(f32)"},
    {__LINE__, [](KernelBuilder& k) { any(tile(k, {8}, f8e4m3)); }, "any: got f8e4m3 tile [8], expected i1; convert fp8 and compare, as in x.to(f32) != 0"},
    {__LINE__, [](KernelBuilder& k) { all(tile(k, {8, 8}, f8e5m2), 0); }, "all: got f8e5m2 tile [8, 8], expected i1; convert fp8 and compare, as in x.to(f32) != 0"},
    {__LINE__, [](KernelBuilder& k) { where(tile(k, {8}, f8e4m3), 1.0f, tile(k, {8})); }, "where: got f8e4m3 tile [8], expected i1; convert fp8 and compare, as in x.to(f32) != 0"},
    {__LINE__, [](KernelBuilder& k) { Tile t = k.zeros({1, 8}, f32); t += k.zeros({4, 8}, f32); }, "operator+=: the result is f32 tile [4, 8], but the left side is f32 tile [1, 8]; write a = a + b"},
    {__LINE__, [](KernelBuilder& k) { Scalar s = k.constant(1, i32); s *= k.constant(2, i64); }, "operator*=: the result is i64 scalar, but the left side is i32 scalar; write a = a * b"},
    {__LINE__, [](KernelBuilder& k) { k.view("x", f32, {dyn, dyn}).partition({1, 8}).inside({0}); }, "inside: expected one index per dimension of the partition (2), got 1"},
    {__LINE__, [](KernelBuilder& k) { View y = k.view("y", f32, {dyn, dyn}); y.partition({4, squeeze}).inside({0, 0}, y.alignment_offset({0})); }, "inside: the last dimension is squeezed, and only tiles along it have an alignment offset; omit alignment_offset"},
    {__LINE__, [](KernelBuilder& k) { View y = k.view("y", f32, {dyn}); y.partition({64}).inside({0}, y.max_alignment_offset()); }, "inside: expected the result of View::alignment_offset as the alignment offset, got another i32; pass that result unchanged"},
    {__LINE__, [](KernelBuilder& k) { umulhi(tile(k, {8}, i8), 3); }, "umulhi: expected i32 or i64, got i8"},
    {__LINE__, [](KernelBuilder& k) { atomic_cas(k.ptr("p", f32), 1, 2); }, "atomic_cas: expected a pointer to i32 or i64, got f32"},
    {__LINE__, [](KernelBuilder& k) { atomic_add(k.ptr("p", i8), 1); }, "atomic_add: expected a pointer to i32, i64, f16, bf16 or f32, got i8"},
    // Control flow.
    {__LINE__, [](KernelBuilder& k) { k.for_range(0, 4, 0, [](Scalar) {}); }, "for_range: the step must be a positive integer, got 0"},
    {__LINE__, [](KernelBuilder& k) { k.for_range(0, INT32_MAX, 2, [](Scalar) {}); }, "for_range: hi + step - 1 must be at most 2147483647"},
    {__LINE__, [](KernelBuilder& k) { k.for_range(0, 4.5, 1, [](Scalar) {}); }, "for_range: expected an integer for i32, got the float 4.5; write an integer"},
    {__LINE__, [](KernelBuilder& k) { k.for_range(0, k.constant(2, i8), 1, [](Scalar) {}); }, "for_range: an index or bound must be i32 or i64, got i8; convert it with .to(i32)"},
    {__LINE__, [](KernelBuilder& k) { k.for_range(0, 4, 1, unrolled(-1), [](Scalar) {}); }, "for_range: unroll must be 0 (automatic) or positive, got -1"},
    {__LINE__, [](KernelBuilder& k) { k.for_range(0, 4, 1, pipelined(1025), [](Scalar) {}); }, "for_range: num_stages must be at most 1024, got 1025; use fewer stages: a few keep the memory busy"},
    {__LINE__, [](KernelBuilder& k) { k.for_range(0, 4, 1, unrolled(257), [](Scalar) {}); }, "for_range: unroll must be at most 256, got 257; unroll an inner loop as well, or use larger tiles"},
    {__LINE__, [](KernelBuilder& k) { k.view("x", f32, {dyn, 4096}).partition({2, 512}).resident({0}); }, "resident: the tiles of a resident row must be in one row, got 2 rows along dimension 0; squeeze every dimension except the last, and call resident() once per row"},
    {__LINE__, [](KernelBuilder& k) { k.for_range(0, 4, 1, carry(tile(k, {8})), [&](Scalar, Tile t) { return carry(t.to(bf16)); }); }, "for_range: carried value 0 is f32 tile [8], but the body returns bf16 tile [8]; dtype and shape must be the same"},
    {__LINE__, [](KernelBuilder& k) { k.for_range(0, 4, 1, carry(tile(k, {8})), [&](Scalar, Tile) { return carry(Tile()); }); }, "carry: the operand is an empty handle; assign it a value before use"},
    {__LINE__, [](KernelBuilder& k) { k.if_(k.scalar("n", i32), [] {}); }, "if_: the condition must be an i1 scalar, got i32 scalar; compare first, as in x != 0"},
    {__LINE__, [](KernelBuilder& k) { k.if_(k.scalar("n", i1), [&] { return tile(k, {8}); }, [&] { return tile(k, {4}); }); }, "if_: the first branch's value 0 is f32 tile [8], but the second branch returns f32 tile [4]; dtype and shape must be the same"},
    {__LINE__, [](KernelBuilder& k) { k.while_(carry(k.constant(0, i32)), [](Scalar s) { return s; }, [](Scalar s) { return carry(s); }); }, "while_: the condition must be an i1 scalar, got i32 scalar"},
    // Hints, and functions of the library.
    {__LINE__, [](KernelBuilder& k) { assume(k.scalar("n", i32)); }, "assume: expected an i1 scalar, got i32; compare first, as in x != 0"},
    {__LINE__, [](KernelBuilder& k) { (void)assume_divisible(k.scalar("n", f32), 4); }, "assume_divisible: expected an i32 or i64 scalar, got f32"},
    {__LINE__, [](KernelBuilder& k) { (void)assume_divisible(k.scalar("n", i32), 0); }, "assume_divisible: the divisor must be positive, got 0"},
    {__LINE__, [](KernelBuilder&) { device_print("x", {}); }, "device_print: expected at least one value to print, got none"},
    {__LINE__, [](KernelBuilder& k) { device_print("x", {k.ptr("p", f32)}); }, "device_print: expected scalars and tiles, got pointer to f32; print a loaded value"},
    {__LINE__, [](KernelBuilder& k) { cdiv(k.scalar("x", f32), 4); }, "cdiv: expected integers, got f32"},
    {__LINE__, [](KernelBuilder& k) { cdiv(k.scalar("x", i32), 0); }, "cdiv: the divisor must be positive, got 0"},
};
// clang-format on

TEST(Misuse, EveryDiagnosticNamesTheAuthorsLine) {
  for (const Misuse& misuse : kMisuses) {
    KernelBuilder k("misuse");
    try {
      misuse.code(k);
      ADD_FAILURE() << "line " << misuse.line << ": no error; expected: " << misuse.message;
    } catch (const Error& error) {
      const std::string text = error.what();
      const std::string place = std::string(__FILE__) + ":" + std::to_string(misuse.line) + ":";
      EXPECT_EQ(text.substr(0, place.size()), place) << text;
      const size_t start = text.find(": error: ");
      ASSERT_NE(start, std::string::npos) << text;
      EXPECT_EQ(text.substr(start + 9, std::string(misuse.message).size()), misuse.message);
    }
  }
}

TEST(Misuse, NamesTheOperandsLineInAMultiLineExpression) {
  KernelBuilder k("lines");
  Tile a = k.zeros({8}, f32), b = k.zeros({16}, f32);
  unsigned line = 0;
  try {
    // clang-format off
    line = __LINE__ + 2;
    a
        + b;
    // clang-format on
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(":" + std::to_string(line) + ":"), std::string::npos)
        << error.what();
  }
}

TEST(Misuse, RejectsLoopsNestedTooDeep) {
  KernelBuilder k("deep");
  std::function<void(int)> nest = [&](int depth) {
    if (depth > 0) k.for_range(0, 2, 1, [&](Scalar) { nest(depth - 1); });
  };
  nest(64);
  EXPECT_FALSE(k.finish_bytes().empty());
  KernelBuilder deeper("deeper");
  std::function<void()> without_end = [&] {
    deeper.for_range(0, 2, 1, [&](Scalar) { without_end(); });
  };
  try {
    without_end();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("misuse_test.cpp:"), std::string::npos)
        << error.what();
    EXPECT_NE(std::string(error.what()).find("nest deeper than 64"), std::string::npos)
        << error.what();
  }
}

// A combiner may use scalars made outside of it. After an error in a combiner, the builder still
// works.
TEST(Misuse, CombinerMayUseScalarsFromOutside) {
  KernelBuilder k("combiner");
  View x = k.view("x", f32, {dyn}), y = k.view("y", f32, {dyn});
  Tile t = x.partition({8}).load({0});
  EXPECT_THROW(reduce({t}, [&](Scalar a, Scalar b) { return a + b * x.load({1}); }), Error);
  Scalar factor = x.load({1});
  auto [total] = reduce({t}, [&](Scalar a, Scalar b) { return max(a, b * factor.to(f32)) + 1; });
  y.store({0}, total);
  EXPECT_FALSE(k.finish_bytes().empty());
}

TEST(Misuse, BuilderStaysUsableAfterAnErrorInALoop) {
  KernelBuilder k("recover");
  View out = k.view("out", f32, {dyn});
  EXPECT_THROW(k.for_range(0, 4, 1, [&](Scalar) { k.zeros({33}, f32); }), Error);
  out.store({0}, 1.0f);
  EXPECT_FALSE(k.finish_bytes().empty());
}

}  // namespace
}  // namespace ligerdsl
