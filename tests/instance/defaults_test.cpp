// Tests the default settings of operations: sizes, fields, and the formulas in their rows.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lib/abi/structs.h"
#include "lib/cli/kernels/recording_context.h"
#include "lib/instance/op_instance.h"

namespace ligerdsl::test {
namespace {

using Settings = std::vector<std::string>;

struct Expected {
  std::string op, sizes;
  double flops;  // -1 if the number depends on groups or sequences
};

const std::vector<Expected>& expected() {
  static const std::vector<Expected> all = {
#include "op_default_sizes.inc"
  };
  return all;
}

class Defaults : public testing::TestWithParam<Expected> {};

TEST_P(Defaults, AreThoseOfTheRow) {
  const cli::OpInstance instance(cli::find_op(GetParam().op), {});
  EXPECT_EQ(instance.title(), GetParam().sizes);
  if (GetParam().flops >= 0) {
    EXPECT_EQ(instance.flops(), GetParam().flops);
  } else {
    EXPECT_GT(instance.flops(), 0);
  }
}

TEST_P(Defaults, DescribeAValidCall) {
  const cli::OpInstance instance(cli::find_op(GetParam().op), {});
  EXPECT_NO_THROW(lib::check_desc(instance.info(), instance.desc()));
  for (const char* arch : {"cpu", "sm_90a"}) {
    SCOPED_TRACE(arch);
    program::CompileOptions base;
    base.arch = arch;
    base.target = base.arch == "cpu" ? program::Target::cpu : program::Target::nvptx;
    const auto context = std::make_shared<cli::RecordingContext>(base);
    EXPECT_NO_THROW(lib::Plan(instance.info(), context, instance.desc()));
    EXPECT_FALSE(context->recorded.empty());
  }
}

INSTANTIATE_TEST_SUITE_P(EveryOp, Defaults, testing::ValuesIn(expected()),
                         [](const auto& info) { return info.param.op; });

TEST(DefaultsTable, HasEveryOperation) {
  std::vector<std::string> operations, rows;
  for (const lib::OpInfo* info : lib::op_table()) operations.emplace_back(info->name);
  for (const Expected& row : expected()) rows.push_back(row.op);
  EXPECT_EQ(rows, operations);
}

int64_t size(const char* op, const Settings& settings, const char* letter) {
  return cli::OpInstance(cli::find_op(op), settings).size(letter);
}

int64_t field(const char* op, const Settings& settings, const char* name) {
  return cli::OpInstance(cli::find_op(op), settings).integer(name, -7);
}

TEST(DerivedDefaults, LossesWithoutAReductionAreOnePerRow) {
  EXPECT_EQ(size("cross_entropy", {"N=7"}, "L"), 1);
  EXPECT_EQ(size("cross_entropy", {"N=7", "reduction=none"}, "L"), 7);
  EXPECT_EQ(size("kl_div", {"N=7", "V=5", "reduction=none"}, "L"), 35);
  EXPECT_EQ(size("scale", {"N=7", "per_row=1"}, "L"), 7);
}

TEST(DerivedDefaults, SizesFollowOthersUnlessTheyAreGiven) {
  EXPECT_EQ(size("grouped_matmul_nt", {"E=3"}, "O"), 4);
  EXPECT_EQ(size("matmul_nt", {"N=40"}, "M"), 40);
  EXPECT_EQ(size("matmul_nt", {"N=40", "M=9"}, "M"), 9);
  EXPECT_EQ(size("vocab_parallel_cross_entropy_partials", {}, "C"), 3);
  EXPECT_EQ(size("vocab_parallel_cross_entropy_partials", {"with_smoothing=1"}, "C"), 5);
  EXPECT_EQ(size("vocab_parallel_cross_entropy", {"label_smoothing=0.1"}, "C"), 5);
}

TEST(DerivedDefaults, FieldsFollowSizesUnlessTheyAreGiven) {
  EXPECT_EQ(field("softmax_forward", {"N=7"}, "n_queries"), 0);
  EXPECT_EQ(field("softmax_forward", {"N=7", "causal=1"}, "n_queries"), 7);
  EXPECT_EQ(field("softmax_forward", {"N=8", "causal=1", "n_queries=4"}, "n_queries"), 4);
  EXPECT_EQ(field("attention_varlen_forward", {"S=100"}, "max_seqlen_q"), 100);
  EXPECT_EQ(field("attention_varlen_forward", {"S=0"}, "max_seqlen_q"), 1);
  EXPECT_EQ(field("attention_varlen_forward", {"S=100", "max_seqlen_q=60"}, "max_seqlen_q"), 60);
}

double flops(const char* op, const Settings& settings) {
  return cli::OpInstance(cli::find_op(op), settings).flops();
}

TEST(Formulas, OneSequenceHasTheFlopsOfDenseAttention) {
  for (const char* causal : {"causal=0", "causal=1"}) {
    EXPECT_EQ(flops("attention_varlen_forward", {"U=2", "S=30", "T=50", causal}),
              flops("attention_forward", {"B=1", "S=30", "T=50", causal}));
    EXPECT_EQ(flops("attention_varlen_backward", {"U=2", "S=30", "T=50", causal}),
              flops("attention_backward", {"B=1", "S=30", "T=50", causal}));
  }
  EXPECT_LT(flops("attention_varlen_forward", {"U=5", "S=40", "T=40"}),
            flops("attention_varlen_forward", {"U=2", "S=40", "T=40"}));
}

TEST(Formulas, GradientsAddMatmuls) {
  const Settings loss = {"N=2", "V=3", "H=5", "d_weight_dtype=none", "with_d_x=0"},
                 both = {"N=2", "V=3", "H=5"};
  EXPECT_EQ(flops("fused_linear_cross_entropy", loss), 60);
  EXPECT_EQ(flops("fused_linear_cross_entropy", both), 180);
}

TEST(Formulas, BytesOfIndexedAndUnreadTensors) {
  const auto bytes = [](const char* op, const Settings& settings) {
    return cli::OpInstance(cli::find_op(op), settings).bytes_moved();
  };
  // Moves 8-byte indices, the indexed rows and the result.
  EXPECT_EQ(bytes("embedding_forward", {"N=3", "V=1000", "H=8"}), 3 * 8 + 2 * 3 * 8 * 4);
  // Moves 8-byte labels, three f32 numbers per row, and one f32 loss per row.
  EXPECT_EQ(bytes("vocab_parallel_cross_entropy", {"N=3", "V=100", "with_d_logits=0"}),
            3 * 8 + 3 * 3 * 4 + 3 * 4);
}

}  // namespace
}  // namespace ligerdsl::test
