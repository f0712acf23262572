// Tests the numbers in the table of operations, and that unknown operations are rejected.
#include <gtest/gtest.h>

#include <map>

#include "interpreter/interpreter.h"
#include "ligerdsl/dsl.h"
#include "program/op_info.h"
#include "program/serialize.h"

namespace ligerdsl::program {
namespace {

// Caches and authors' libraries store these numbers. A new operation adds a line; existing lines
// must not change.
const std::map<std::string, int> kNumbers = {
    {"program_id", 0},
    {"num_programs", 1},
    {"constant", 2},
    {"arange", 3},
    {"dim", 4},
    {"stride", 5},
    {"alignment_offset", 6},
    {"max_alignment_offset", 7},
    {"slice", 78},
    {"splat", 10},
    {"expand_dims", 11},
    {"broadcast", 12},
    {"reshape", 13},
    {"permute", 14},
    {"shuffle_xor", 15},
    {"gather", 16},
    {"dot", 62},
    {"cast", 20},
    {"select", 21},
    {"add", 22},
    {"sub", 23},
    {"mul", 24},
    {"div", 25},
    {"rem", 26},
    {"min", 27},
    {"max", 28},
    {"bit_and", 29},
    {"bit_or", 30},
    {"bit_xor", 31},
    {"shl", 32},
    {"shr", 33},
    {"compare", 34},
    {"fma", 35},
    {"neg", 36},
    {"abs", 37},
    {"floor", 38},
    {"ceil", 39},
    {"exp", 40},
    {"exp2", 41},
    {"log", 42},
    {"log2", 43},
    {"sqrt", 44},
    {"rsqrt", 45},
    {"tanh", 46},
    {"erf", 47},
    {"sigmoid", 48},
    {"sin", 49},
    {"lshr", 50},
    {"udiv", 51},
    {"urem", 52},
    {"bitcast", 53},
    {"round", 54},
    {"cos", 55},
    {"log1p", 56},
    {"expm1", 57},
    {"pow", 58},
    {"reduce", 60},
    {"scan", 61},
    {"load_tile", 70},
    {"store_tile", 71},
    {"add_tile", 79},
    {"view_ptr", 72},
    {"addptr", 73},
    {"load", 74},
    {"store", 75},
    {"atomic_rmw", 76},
    {"atomic_cas", 77},
    {"for_range", 90},
    {"if_else", 91},
    {"while_loop", 92},
    {"yield", 93},
    {"assume", 100},
    {"assume_divisible", 101},
    {"device_print", 102},
};

TEST(OpTable, NumbersNeverChange) {
  for (const auto& [name, number] : kNumbers) {
    const OpInfo* operation = find(static_cast<OpCode>(number));
    ASSERT_NE(operation, nullptr) << name;
    EXPECT_EQ(operation->name, name);
  }
  EXPECT_EQ(operations().size(), kNumbers.size());
}

TEST(OpTable, OperationsOnPointersHaveAnEffect) {
  for (const OpInfo& operation : operations()) {
    const bool moves = operation.operands.has(Term::pointee) ||
                       operation.results.has(Term::pointee) ||
                       operation.operands.has(Term::block) || operation.results.has(Term::block);
    EXPECT_EQ(moves, reads(operation.effect) || writes(operation.effect)) << operation.name;
    const bool stores =
        operation.operands.has(Term::pointee) || operation.operands.has(Term::block);
    EXPECT_EQ(stores, writes(operation.effect)) << operation.name;
  }
}

// Returns a program that loads a tile, applies an operation with this code, and stores the result.
Program with_code(uint16_t code) {
  KernelBuilder k("unknown");
  View x = k.view("x", f32, {8});
  x.partition({8}).store({0}, erf(x.partition({8}).load({0})));
  Program program = k.finish();
  for (Op& op : program.body.ops) {
    if (op.code == OpCode::erf) op.code = static_cast<OpCode>(code);
  }
  return program;
}

template <class Run>
void expect_refused(uint16_t code, Run run) {
  try {
    run();
    ADD_FAILURE() << "operation number " << code << " was accepted, expected an error";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("no operation with number " + std::to_string(code)),
              std::string::npos)
        << error.what();
  }
}

TEST(OpTable, RejectsUnknownNumbers) {
  for (uint16_t code : {19, 59, 63, 80, 127, 128, 4711, 65535}) {
    const Program program = with_code(code);
    expect_refused(code, [&] { parseProgram(serialize(program)); });
    float values[8] = {};
    interpreter::Arguments arguments;
    arguments.view(values, f32, {8}, {1});
    expect_refused(code, [&] { interpreter::run(program, arguments, {1, 1, 1}); });
  }
}

}  // namespace
}  // namespace ligerdsl::program
