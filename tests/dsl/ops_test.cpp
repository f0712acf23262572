// Tests the ops that each function records: op code, types and attributes.
#include <gtest/gtest.h>

#include <set>

#include "program/op_info.h"
#include "program/print.h"
#include "program/verify.h"
#include "sample.h"

namespace ligerdsl {
namespace {

using program::Op;
using program::OpCode;

void collect(const program::Region& region, std::set<OpCode>& codes) {
  for (const Op& op : region.ops) {
    codes.insert(op.code);
    for (const program::Region& inner : op.regions) collect(inner, codes);
  }
}

// Returns the text of the body that `code` records, without locations.
template <class Code>
std::string recorded(Code code) {
  KernelBuilder k("ops");
  code(k);
  const program::Program program = k.finish();
  program::verify(program);
  const std::string text = program::print(program, {.locations = false});
  return text.substr(text.find(") {\n") + 4);
}

TEST(Ops, EveryOpCodeIsRecordedAndVerifies) {
  const program::Program program = test::every_op();
  EXPECT_NO_THROW(program::verify(program));
  std::set<OpCode> codes;
  collect(program.body, codes);
  for (int code = 0; code < 200; ++code) {
    const char* name = program::opName(static_cast<OpCode>(code));
    if (name) {
      EXPECT_TRUE(codes.count(static_cast<OpCode>(code))) << name;
    }
  }
}

TEST(Ops, NumbersTakeTheTypeOfTheTile) {
  EXPECT_EQ(recorded([](KernelBuilder& k) { k.zeros({8}, bf16) + 1; }),
            "  %0 = constant value=0 : bf16[8]\n  %1 = constant value=1 : bf16[8]\n  %2 = add %0, "
            "%1 : bf16[8]\n}\n");
}

TEST(Ops, ScalarsSplatToTilesAndNarrowIntegersWiden) {
  EXPECT_EQ(recorded([](KernelBuilder& k) {
              Scalar n = k.scalar("n", i32);
              k.zeros({8}, i64) + n;
            }),
            "  %1 = constant value=0 : i64[8]\n  %2 = cast %0 : i64\n  %3 = splat %2 : i64[8]\n"
            "  %4 = add %1, %3 : i64[8]\n}\n");
}

TEST(Ops, IntegerScalarsWidenToTheWider) {
  EXPECT_EQ(
      recorded([](KernelBuilder& k) { k.scalar("a", i32) * k.scalar("b", i64); }).find("cast"),
      size_t{7});
  EXPECT_EQ(
      recorded([](KernelBuilder& k) { k.scalar("a", i32) * 5000000000; }),
      "  %1 = constant value=5000000000 : i64\n  %2 = cast %0 : i64\n  %3 = mul %2, %1 : i64\n}\n");
}

TEST(Ops, DimensionsOfOneBroadcast) {
  EXPECT_EQ(recorded([](KernelBuilder& k) {
              Tile column = k.zeros({8, 1}, f32);
              column + k.zeros({1, 16}, f32);
            }),
            "  %0 = constant value=0 : f32[8, 1]\n  %1 = constant value=0 : f32[1, 16]\n"
            "  %2 = broadcast %0 : f32[8, 16]\n  %3 = broadcast %1 : f32[8, 16]\n  %4 = add %2, %3 "
            ": f32[8, 16]\n}\n");
}

TEST(Ops, CompoundAssignmentKeepsTypeAndOtherHandles) {
  EXPECT_EQ(recorded([](KernelBuilder& k) {
              Tile x = k.zeros({8}, bf16), before = x;
              x += 1;
              x -= before;
            }),
            "  %0 = constant value=0 : bf16[8]\n  %1 = constant value=1 : bf16[8]\n  %2 = add %0, "
            "%1 : bf16[8]\n"
            "  %3 = sub %2, %0 : bf16[8]\n}\n");
  EXPECT_EQ(recorded([](KernelBuilder& k) {
              Scalar n = k.scalar("n", i64);
              n <<= 2;
              n %= k.scalar("m", i32);
            }),
            "  %1 = constant value=2 : i64\n  %2 = shl %0, %1 : i64\n  %4 = cast %3 : i64\n  %5 = "
            "rem %2, %4 : i64\n}\n");
}

TEST(Ops, CastToTheSameTypeRecordsNothing) {
  EXPECT_EQ(recorded([](KernelBuilder& k) { k.scalar("a", f32).to(f32); }), "}\n");
}

TEST(Ops, FastVariantsCarryTheFlag) {
  const auto one = [](auto fn) {
    return recorded([&](KernelBuilder& k) { fn(k.scalar("a", f32)); });
  };
  EXPECT_EQ(one([](Scalar a) { fast_exp(a); }), "  %1 = exp %0 fast : f32\n}\n");
  EXPECT_EQ(one([](Scalar a) { fast_exp2(a); }), "  %1 = exp2 %0 fast : f32\n}\n");
  EXPECT_EQ(one([](Scalar a) { fast_log(a); }), "  %1 = log %0 fast : f32\n}\n");
  EXPECT_EQ(one([](Scalar a) { fast_log2(a); }), "  %1 = log2 %0 fast : f32\n}\n");
  EXPECT_EQ(one([](Scalar a) { fast_sqrt(a); }), "  %1 = sqrt %0 fast : f32\n}\n");
  EXPECT_EQ(one([](Scalar a) { fast_rsqrt(a); }), "  %1 = rsqrt %0 fast : f32\n}\n");
  EXPECT_EQ(one([](Scalar a) { fast_tanh(a); }), "  %1 = tanh %0 fast : f32\n}\n");
  EXPECT_EQ(one([](Scalar a) { fast_sigmoid(a); }), "  %1 = sigmoid %0 fast : f32\n}\n");
  EXPECT_EQ(one([](Scalar a) { fast_div(a, a); }), "  %1 = div %0, %0 fast : f32\n}\n");
}

TEST(Ops, ExactRoundingForbidsContraction) {
  EXPECT_EQ(
      recorded([](KernelBuilder& k) {
        Scalar a = k.scalar("a", f32);
        Scalar b = a * a;
        {
          auto guard = k.exact_rounding();
          b = b + a;
        }
        b - a;
      }),
      "  %1 = mul %0, %0 : f32\n  %2 = add %1, %0 no_contract : f32\n  %3 = sub %2, %0 : f32\n}\n");
}

TEST(Ops, PartitionsLoadAndStore) {
  EXPECT_EQ(
      recorded([](KernelBuilder& k) {
        View x = k.view("x", i64, {dyn, dyn, 4});
        Tile t = x.partition({squeeze, 8, 4}).load({k.program_id(1), 5000000000, 0}, {.pad = -100});
        x.partition({squeeze, 8, 4}).store({0, 1, 0}, t, {.evict = Evict::last});
      }),
      "  %1 = program_id axis=1 : i32\n  %2 = constant value=5000000000 : i64\n  %3 = constant "
      "value=0 : i32\n"
      "  %4 = load_tile %0, %1, %2, %3 tile_shape=[squeeze, 8, 4] pad=-100 : i64[8, 4]\n"
      "  %5 = constant value=0 : i32\n  %6 = constant value=1 : i32\n  %7 = constant value=0 : "
      "i32\n"
      "  store_tile %0, %5, %6, %7, %4 tile_shape=[squeeze, 8, 4] evict=last\n}\n");
}

TEST(Ops, ResidentRowsAreNumberedLoads) {
  EXPECT_EQ(
      recorded([](KernelBuilder& k) {
        View x = k.view("x", f32, {dyn, 4096});
        Resident a = x.partition({squeeze, 1024}).resident({3}, {.pad = 1});
        Resident b = x.partition({squeeze, 1024}).resident({3});
        a.load(2);
        b.load(1);
      }),
      "  %1 = constant value=3 : i32\n  %2 = constant value=3 : i32\n  %3 = constant value=2 : "
      "i32\n"
      "  %4 = load_tile %0, %1, %3 tile_shape=[squeeze, 1024] pad=1 resident=1 : f32[1024]\n"
      "  %5 = constant value=1 : i32\n"
      "  %6 = load_tile %0, %2, %5 tile_shape=[squeeze, 1024] pad=0 resident=2 : f32[1024]\n}\n");
}

TEST(Ops, WholeTileReductionsFlattenFirst) {
  EXPECT_EQ(recorded([](KernelBuilder& k) {
              sum(k.zeros({4, 8}, f32));
            }),
            "  %0 = constant value=0 : f32[4, 8]\n  %1 = reshape %0 : f32[32]\n"
            "  %2 = reduce %1 axis=0 reduction=sum : f32\n}\n");
}

TEST(Ops, NegativeAxesCountFromTheEnd) {
  EXPECT_EQ(
      recorded([](KernelBuilder& k) {
        sum(k.zeros({4, 8}, f32), -1);
      }),
      "  %0 = constant value=0 : f32[4, 8]\n  %1 = reduce %0 axis=1 reduction=sum : f32[4]\n}\n");
  EXPECT_EQ(recorded([](KernelBuilder& k) { k.zeros({4}, f32).expand_dims(-1); }),
            "  %0 = constant value=0 : f32[4]\n  %1 = expand_dims %0 axis=1 : f32[4, 1]\n}\n");
}

TEST(Ops, PointersBroadcastWithOffsetsAndMasks) {
  EXPECT_EQ(
      recorded([](KernelBuilder& k) {
        Ptr p = k.ptr("p", f32);
        Tile rows = k.arange(4).expand_dims(1);
        Tile columns = k.arange(8).expand_dims(0);
        load(p + rows + columns, columns < 5);
      }),
      "  %1 = arange : i32[4]\n  %2 = expand_dims %1 axis=1 : i32[4, 1]\n  %3 = arange : i32[8]\n"
      "  %4 = expand_dims %3 axis=0 : i32[1, 8]\n  %5 = constant value=5 : i32[1, 8]\n"
      "  %6 = compare %4, %5 predicate=lt : i1[1, 8]\n  %7 = splat %0 : ptr f32[4, 1]\n"
      "  %8 = addptr %7, %2 : ptr f32[4, 1]\n  %9 = broadcast %8 : ptr f32[4, 8]\n"
      "  %10 = broadcast %4 : i32[4, 8]\n  %11 = addptr %9, %10 : ptr f32[4, 8]\n"
      "  %12 = broadcast %6 : i1[4, 8]\n  %13 = load %11, %12 has_mask : f32[4, 8]\n}\n");
}

}  // namespace
}  // namespace ligerdsl
