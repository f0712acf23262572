// Tests that the verifier rejects programs that the builder would not record.
#include "program/verify.h"

#include <gtest/gtest.h>

#include <functional>

#include "sample.h"

namespace ligerdsl::program {
namespace {

// Returns the first op with this code in the region or in a nested region.
Op* find(Region& region, OpCode code) {
  for (Op& op : region.ops) {
    if (op.code == code) return &op;
    for (Region& inner : op.regions) {
      if (Op* found = find(inner, code)) return found;
    }
  }
  return nullptr;
}

struct Defect {
  const char* message;  // part of the expected error
  std::function<void(Program&)> apply;
};

template <class Change>
std::function<void(Program&)> on(OpCode code, Change change) {
  return [=](Program& program) { change(*find(program.body, code), program); };
}

void set(Op& op, AttrKey key, AttrValue value) {
  for (Attr& attr : op.attrs) {
    if (attr.key == key) {
      attr.value = value;
      return;
    }
  }
  op.attrs.push_back({key, value});
}

Scalar add(const Ptr& p, const Scalar& value) {
  return atomic_add(p, value);
}
Scalar swap(const Ptr& p, const Scalar& value) {
  return atomic_cas(p, value, value);
}

// Records an atomic on i32 and then changes all types to `dtype`. The builder rejects the atomic on
// such memory.
template <class Atomic>
Program atomic_on(DType dtype, Atomic atomic) {
  KernelBuilder k("atomic");
  Ptr p = k.ptr("p", i32);
  atomic(p, load(p));
  Program program = k.finish();
  for (Type& type : program.values) type.dtype = dtype;
  return program;
}

Program print_in_combiner() {
  KernelBuilder k("combiner");
  auto [longest] = reduce({k.zeros({8}, f32)}, [](Scalar a, Scalar b) { return max(a, b); });
  device_print("longest", {longest});
  Program program = k.finish();
  Op& combiner = *find(program.body, OpCode::reduce);
  Op print = *find(program.body, OpCode::device_print);
  print.operands = {combiner.regions[0].arguments[0]};
  combiner.regions[0].ops.insert(combiner.regions[0].ops.begin(), print);
  return program;
}

// Records an op on bf16 and then changes the type to fp8. The builder rejects the op on fp8.
Program on_fp8(void (*record)(const Tile&)) {
  KernelBuilder k("fp8");
  record(k.zeros({8}, bf16));
  Program program = k.finish();
  for (Type& type : program.values)
    if (type.dtype == DType::bf16) type.dtype = DType::f8e4m3;
  return program;
}

const Defect kDefects[] = {
    {"the name must match [a-zA-Z_]", [](Program& p) { p.name = "a b"; }},
    {"two arguments are named 'x'", [](Program& p) { p.arguments[1].name = "x"; }},
    {"is not in the value table", [](Program& p) { p.arguments[0].value = 1u << 30; }},
    {"is defined twice", [](Program& p) { p.arguments[1].value = p.arguments[0].value; }},
    {"a view stride must be dynamic, 0 or positive, got -4",
     [](Program& p) { p.values[p.arguments[0].value].strides[0] = -4; }},
    {"a view must have one stride per dimension",
     [](Program& p) { p.values[p.arguments[0].value].strides.pop_back(); }},
    {"the body must have no arguments", [](Program& p) { p.body.arguments.push_back(0); }},
    {"the body must have no yield",
     [](Program& p) { p.body.ops.push_back({OpCode::yield, {}, {}, {}, {}, {}}); }},
    {"file number 9", on(OpCode::program_id, [](Op& op, Program&) { op.loc.file = 9; })},
    {"the attribute axis is 3, expected 0 to 2",
     on(OpCode::program_id, [](Op& op, Program&) { set(op, AttrKey::axis, int64_t{3}); })},
    {"axis must be an integer, got a float",
     on(OpCode::program_id, [](Op& op, Program&) { set(op, AttrKey::axis, 1.0); })},
    {"must have the attribute axis",
     on(OpCode::program_id, [](Op& op, Program&) { op.attrs.clear(); })},
    {"must have the attribute axis only once",
     on(OpCode::program_id, [](Op& op, Program&) { op.attrs.push_back(op.attrs[0]); })},
    {"must not have the attribute axis",
     on(OpCode::add, [](Op& op, Program&) { set(op, AttrKey::axis, int64_t{0}); })},
    {"must not have the attribute fast",
     on(OpCode::erf, [](Op& op, Program&) { set(op, AttrKey::fast, int64_t{1}); })},
    {"no operation with number 4711",
     on(OpCode::erf, [](Op& op, Program&) { op.code = static_cast<OpCode>(4711); })},
    {"the mask must be i1",
     on(OpCode::atomic_rmw, [](Op& op, Program&) {
       set(op, AttrKey::has_mask, int64_t{1});
       op.operands.resize(2);
       op.operands.push_back(op.operands[1]);
     })},
    {"pointer to i32, i64, f16, bf16 or f32, got i8",
     [](Program& p) { p = atomic_on(DType::i8, add); }},
    {"f16, bf16 or f32, got i16", [](Program& p) { p = atomic_on(DType::i16, add); }},
    {"f16, bf16 or f32, got f8e4m3", [](Program& p) { p = atomic_on(DType::f8e4m3, add); }},
    {"must take a number type", [](Program& p) { p = on_fp8([](const Tile& x) { x + x; }); }},
    {"must not compare fp8", [](Program& p) { p = on_fp8([](const Tile& x) { x == x; }); }},
    {"must not take i1 or fp8",
     [](Program& p) { p = on_fp8([](const Tile& x) { reduce_max(x); }); }},
    {"fp8 converts from and to f16, bf16 and f32 only",
     [](Program& p) { p = on_fp8([](const Tile& x) { x.to(i32); }); }},
    {"f16 and bf16 have only atomic add, got max",
     [](Program& p) {
       p = atomic_on(DType::bf16, add);
       set(*find(p.body, OpCode::atomic_rmw), AttrKey::atomic,
           static_cast<int64_t>(AtomicKind::max));
     }},
    {"pointer to i32 or i64, got f32", [](Program& p) { p = atomic_on(DType::f32, swap); }},
    {"to one of the same width",
     on(OpCode::bitcast, [](Op& op, Program& p) {
       op.operands[0] = find(p.body, OpCode::load_tile)->results[0];
     })},
    {"must take 3 operands",
     on(OpCode::atomic_cas, [](Op& op, Program&) { op.operands.pop_back(); })},
    {"must take 2 operands", on(OpCode::add, [](Op& op, Program&) { op.operands.pop_back(); })},
    {"must have 1 result, got 0", on(OpCode::add, [](Op& op, Program&) { op.results.clear(); })},
    {"used before its definition",
     on(OpCode::add, [](Op& op, Program&) { op.operands[0] = op.results[0]; })},
    {"operands and result must have one type",
     on(OpCode::add, [](Op& op, Program& p) { p.values[op.results[0]].dtype = DType::i64; })},
    {"permutation must have each dimension once",
     on(OpCode::permute, [](Op& op, Program&) {
       set(op, AttrKey::permutation, std::vector<int64_t>{1, 1});
     })},
    {"xor_mask is 64, expected 1 to 63",
     on(OpCode::shuffle_xor, [](Op& op, Program&) { set(op, AttrKey::xor_mask, int64_t{64}); })},
    {"must keep the shape",
     on(OpCode::shuffle_xor, [](Op& op, Program& p) { p.values[op.results[0]].shape = {4, 128}; })},
    {"axis is 2, expected 0 to 1",
     on(OpCode::gather, [](Op& op, Program&) { set(op, AttrKey::axis, int64_t{2}); })},
    {"i32 or i64 indices",
     on(OpCode::gather, [](Op& op, Program&) { op.operands[1] = op.operands[0]; })},
    {"one element for each index",
     on(OpCode::gather, [](Op& op, Program& p) { p.values[op.results[0]].shape = {8, 32}; })},
    {"must multiply [m, k] by [k, n]",
     on(OpCode::dot, [](Op& op, Program&) {
       std::swap(op.operands[1], op.operands[0]);
       op.operands[0] = op.operands[1];
     })},
    {"must accumulate in f32 [m, n]",
     on(OpCode::dot, [](Op& op, Program&) { op.operands[2] = op.operands[0]; })},
    {"must give f32 [m, n]",
     on(OpCode::dot, [](Op& op, Program& p) { p.values[op.results[0]].dtype = DType::f16; })},
    {"must take f32",
     on(OpCode::shl, [](Op& op, Program&) { op.code = OpCode::erf; op.operands.pop_back(); })},
    {"tile_shape must have one entry",
     on(OpCode::load_tile, [](Op& op, Program&) {
       set(op, AttrKey::tile_shape, std::vector<int64_t>{8});
     })},
    {"c * 2^n",
     on(OpCode::load_tile, [](Op& op, Program&) {
       set(op, AttrKey::tile_shape, std::vector<int64_t>{8, 67});
     })},
    {"must take a view; its operands are (i32, i32, i32), its results (",
     on(OpCode::load_tile, [](Op& op, Program&) { op.operands[0] = op.operands[1]; })},
    {"one index", on(OpCode::load_tile, [](Op& op, Program&) { op.operands.pop_back(); })},
    {"an index must be an i32 or i64",
     on(OpCode::alignment_offset, [](Op& op, Program&) { op.operands[1] = op.operands[0]; })},
    {"must take 2 operands",
     on(OpCode::alignment_offset, [](Op& op, Program&) { op.operands.push_back(op.operands[1]); })},
    {"must take 1 operand, got 2",
     on(OpCode::max_alignment_offset, [](Op& op, Program&) {
       op.operands.push_back(op.operands[0]);
     })},
    {"the alignment offset must be an i32 scalar",
     on(OpCode::load_tile, [](Op& op, Program&) {
       set(op, AttrKey::has_alignment_offset, int64_t{1});
     })},
    {"a combiner",
     on(OpCode::reduce, [](Op& op, Program&) {
       op.operands.push_back(op.operands[0]);
       op.results.push_back(op.results[0]);
     })},
    {"the combiner must take two values",
     on(OpCode::scan, [](Op& op, Program&) {
       op.regions.clear();
       op.regions.emplace_back();
       set(op, AttrKey::reduction, int64_t{3});
     })},
    {"arithmetic on scalars", [](Program& p) { p = print_in_combiner(); }},
    {"a region must end in a yield",
     on(OpCode::for_range, [](Op& op, Program&) { op.regions[0].ops.clear(); })},
    {"yields 0 values, expected",
     on(OpCode::for_range, [](Op& op, Program&) { op.regions[0].ops.back().operands.clear(); })},
    {"used outside its region",
     [](Program& p) {
       find(p.body, OpCode::while_loop)->operands[0] =
           find(p.body, OpCode::for_range)->regions[0].arguments[1];
     }},
    {"with results must have both branches",
     on(OpCode::if_else, [](Op& op, Program&) { op.regions[1] = {}; })},
    {"must have two regions",
     on(OpCode::while_loop, [](Op& op, Program&) { op.regions.pop_back(); })},
    {"must have the program counter",
     on(OpCode::while_loop, [](Op& op, Program&) { set(op, AttrKey::independent, int64_t{1}); })},
    {"must have a mask if it has the operand `other`",
     on(OpCode::load, [](Op& op, Program&) { set(op, AttrKey::has_other, int64_t{1}); })},
    {"the attribute atomic is 4, expected 0 to 3",
     on(OpCode::atomic_rmw, [](Op& op, Program&) { set(op, AttrKey::atomic, int64_t{4}); })},
};

TEST(Verify, ErrorNamesEachDefect) {
  for (const Defect& defect : kDefects) {
    Program program = test::every_op();
    defect.apply(program);
    try {
      verify(program);
      ADD_FAILURE() << "accepted, expected the error: " << defect.message;
    } catch (const std::runtime_error& error) {
      EXPECT_NE(std::string(error.what()).find(defect.message), std::string::npos)
          << error.what() << "\nexpected: " << defect.message;
    }
  }
}

// The dtype of the operands determines the accumulator's dtype, and whether the op may set a
// precision.
TEST(Verify, DotAccumulatorMatchesItsOperands) {
  const auto product = [](DType type, DType sums, DType given, bool tf32) {
    KernelBuilder k("product");
    const Tile factor = k.zeros({16, 16}, type);
    dot(factor, factor, k.zeros({16, 16}, sums));
    Program program = k.finish();
    Op& op = *find(program.body, OpCode::dot);
    program.values[op.operands[2]].dtype = program.values[op.results[0]].dtype = given;
    if (tf32) set(op, AttrKey::input_precision, static_cast<int64_t>(InputPrecision::tf32));
    for (Op& constant : program.body.ops) {
      if (constant.code != OpCode::constant || constant.results[0] != op.operands[2]) continue;
      constant.attrs.clear();
      constant.attrs.push_back({is_float(given) ? AttrKey::value_float : AttrKey::value_int,
                                is_float(given) ? AttrValue(0.0) : AttrValue(int64_t{0})});
    }
    return program;
  };
  const auto refused = [&](const Program& program) -> std::string {
    try {
      verify(program);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refused(product(i8, i32, i32, false)), "");
  EXPECT_EQ(refused(product(f32, f32, f32, true)), "");
  EXPECT_NE(refused(product(i8, i32, f32, false)).find("must accumulate i8 in i32 [m, n]"),
            std::string::npos);
  EXPECT_NE(refused(product(f32, f32, i32, false)).find("must accumulate in f32 [m, n]"),
            std::string::npos);
  EXPECT_NE(
      refused(product(bf16, f32, f32, true)).find("input precision for other dtypes than f32"),
      std::string::npos);
  EXPECT_NE(refused(product(i8, i32, i32, true)).find("input precision for other dtypes than f32"),
            std::string::npos);
}

TEST(Verify, ErrorNamesTheAuthorsLine) {
  Program program = test::every_op();
  Op& op = *find(program.body, OpCode::erf);
  op.operands.clear();
  try {
    verify(program);
    FAIL();
  } catch (const std::runtime_error& error) {
    const std::string place = "sample.h:" + std::to_string(op.loc.line) + ":";
    EXPECT_NE(std::string(error.what()).find(place), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace ligerdsl::program
