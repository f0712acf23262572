// Table of misuse: each row is one mistake in an otherwise valid call, the resulting status, and
// words of its message.
#include <cmath>
#include <functional>

#include "support.h"

namespace ligerdsl::test::misuse_test {
namespace {

// A valid call of rms_norm_forward, for tests to break.
struct NormCall {
  RmsNormForwardDesc desc = rms_norm_forward_desc();
  RmsNormForwardArgs args = rms_norm_forward_args();
  Owned x{LIGERDSL_F32, {4, 8}}, weight{LIGERDSL_F32, {8}}, y{LIGERDSL_F32, {4, 8}},
      rstd{LIGERDSL_F32, {4}};

  NormCall() {
    args.x = x;
    args.weight = weight;
    args.y = y;
    args.rstd = rstd;
  }
  ligerdsl_status_t run(const Context& context) {
    return ligerdsl_rms_norm_forward(context.get(), &desc, &args, nullptr);
  }
};

struct NormRow {
  const char* name;
  std::function<void(NormCall&)> spoil;
  ligerdsl_status_t status;
  std::vector<const char*> words;
};

// Replaces one tensor of the call.
void replace(Owned& old, const ligerdsl_tensor_t*& field, int32_t dtype, std::vector<int64_t> shape,
             std::vector<int64_t> strides = {}) {
  old = Owned(dtype, std::move(shape), std::move(strides));
  field = old;
}

const NormRow kNormRows[] = {
    {"NullInput",
     [](NormCall& c) { c.args.x = nullptr; },
     LIGERDSL_INVALID_NULL_POINTER,
     {"rms_norm_forward", "`x`"}},
    {"NullOutput",
     [](NormCall& c) { c.args.y = nullptr; },
     LIGERDSL_INVALID_NULL_POINTER,
     {"rms_norm_forward", "`y`"}},
    {"WrongDtype",
     [](NormCall& c) {
       replace(c.x, c.args.x, LIGERDSL_I64, {4, 8});
     },
     LIGERDSL_INVALID_DTYPE,
     {"`dtype`", "f32, ", "got i64"}},
    {"Fp8",
     [](NormCall& c) {
       replace(c.x, c.args.x, LIGERDSL_F8E4M3, {4, 8});
     },
     LIGERDSL_INVALID_DTYPE,
     {"`dtype`", "expected one of f16, bf16, f32, got f8e4m3"}},
    {"Fp8Weight",
     [](NormCall& c) { replace(c.weight, c.args.weight, LIGERDSL_F8E5M2, {8}); },
     LIGERDSL_INVALID_DTYPE,
     {"`weight_dtype`", "got f8e5m2"}},
    {"OutputDtype",
     [](NormCall& c) {
       replace(c.y, c.args.y, LIGERDSL_BF16, {4, 8});
     },
     LIGERDSL_INVALID_DTYPE,
     {"`y`", "expected f32", "got bf16"}},
    {"StatisticsDtype",
     [](NormCall& c) { replace(c.rstd, c.args.rstd, LIGERDSL_BF16, {4}); },
     LIGERDSL_INVALID_DTYPE,
     {"`rstd`", "expected f32"}},
    {"UnknownDtype",
     [](NormCall& c) {
       replace(c.x, c.args.x, 0x00010801, {4, 8});
     },
     LIGERDSL_INVALID_DTYPE,
     {"8 bits"}},
    {"WrongWidth",
     [](NormCall& c) { replace(c.weight, c.args.weight, LIGERDSL_F32, {9}); },
     LIGERDSL_INVALID_SHAPE,
     {"`weight`", "[H] = [8]", "got [9]"}},
    {"WrongRows",
     [](NormCall& c) {
       replace(c.y, c.args.y, LIGERDSL_F32, {5, 8});
     },
     LIGERDSL_INVALID_SHAPE,
     {"`y`", "[4, 8]", "got [5, 8]"}},
    {"WrongRank",
     [](NormCall& c) {
       replace(c.weight, c.args.weight, LIGERDSL_F32, {1, 8});
     },
     LIGERDSL_INVALID_SHAPE,
     {"`weight`", "got [1, 8]"}},
    {"RankZero",
     [](NormCall& c) { replace(c.x, c.args.x, LIGERDSL_F32, {}); },
     LIGERDSL_INVALID_SHAPE,
     {"n_cols"}},
    {"NegativeSize",
     [](NormCall& c) {
       replace(c.x, c.args.x, LIGERDSL_F32, {-4, 8});
     },
     LIGERDSL_INVALID_SHAPE,
     {"`x`", "sizes of 0 or more", "[-4, 8]"}},
    {"ZeroWidth",
     [](NormCall& c) {
       replace(c.x, c.args.x, LIGERDSL_F32, {4, 0});
     },
     LIGERDSL_INVALID_SHAPE,
     {"n_cols", "got 0"}},
    {"HugeProduct",
     [](NormCall& c) {
       replace(c.x, c.args.x, LIGERDSL_F32, {int64_t{1} << 40, int64_t{1} << 40, 8});
     },
     LIGERDSL_INVALID_SHAPE,
     {"`x`", "expected at most 2^56 elements", "got shape [1099511627776, 1099511627776, 8]"}},
    {"WidthBeyond31Bits",
     [](NormCall& c) {
       replace(c.x, c.args.x, LIGERDSL_F32, {1, int64_t{1} << 31});
     },
     LIGERDSL_INVALID_SHAPE,
     {"n_cols"}},
    {"LastStride",
     [](NormCall& c) {
       replace(c.x, c.args.x, LIGERDSL_F32, {4, 8}, {16, 2});
     },
     LIGERDSL_INVALID_SHAPE,
     {"`x`", "last dimension", "stride of 1", "[16, 2]"}},
    {"NegativeStride",
     [](NormCall& c) {
       replace(c.x, c.args.x, LIGERDSL_F32, {4, 8}, {-8, 1});
     },
     LIGERDSL_INVALID_SHAPE,
     {"`x`", "expected strides of 0 or more"}},
    {"UnevenLeading",
     [](NormCall& c) {
       replace(c.x, c.args.x, LIGERDSL_F32, {2, 2, 8}, {40, 8, 1});
     },
     LIGERDSL_INVALID_SHAPE,
     {"`x`", "not evenly strided"}},
    {"OutputRowsOverlap",
     [](NormCall& c) {
       replace(c.y, c.args.y, LIGERDSL_F32, {4, 8}, {4, 1});
     },
     LIGERDSL_INVALID_ALIAS,
     {"`y`", "two indices"}},
    {"OutputBroadcast",
     [](NormCall& c) {
       replace(c.y, c.args.y, LIGERDSL_F32, {4, 8}, {0, 1});
     },
     LIGERDSL_INVALID_ALIAS,
     {"`y`"}},
    {"InPlaceWhereItIsNot",
     [](NormCall& c) { c.args.y = c.x; },
     LIGERDSL_INVALID_ALIAS,
     {"`y`: shares memory with `x`; expected separate memory"}},
    {"OutputsShare",
     [](NormCall& c) {
       c.rstd.tensor = Tensor(c.y.storage.data(), {LIGERDSL_CPU, 0}, LIGERDSL_F32, {4});
       c.args.rstd = c.rstd;
     },
     LIGERDSL_INVALID_ALIAS,
     {"shares memory"}},
    {"NullData",
     [](NormCall& c) {
       c.x.tensor = Tensor(nullptr, {LIGERDSL_CPU, 0}, LIGERDSL_F32, {4, 8});
       c.args.x = c.x;
     },
     LIGERDSL_INVALID_NULL_POINTER,
     {"`x`", "data is NULL"}},
    {"HugeByteOffset",
     [](NormCall& c) {
       static ligerdsl_tensor_t x;
       x = *c.args.x;
       x.byte_offset = UINT64_MAX - 7;
       c.args.x = &x;
     },
     LIGERDSL_INVALID_SHAPE,
     {"`x`", "byte_offset", "2^62"}},
    {"OddAddress",
     [](NormCall& c) {
       c.x.tensor = Tensor(reinterpret_cast<char*>(c.x.storage.data()) + 2, {LIGERDSL_CPU, 0},
                           LIGERDSL_F32, {4, 8});
       c.args.x = c.x;
     },
     LIGERDSL_INVALID_MISALIGNED,
     {"`x`", "4 bytes"}},
    {"OtherDevice",
     [](NormCall& c) {
       c.x.tensor = Tensor(c.x.storage.data(), {LIGERDSL_CUDA, 0}, LIGERDSL_F32, {4, 8});
       c.args.x = c.x;
     },
     LIGERDSL_INVALID_DEVICE,
     {"`x`", "expected a tensor on cpu, the context's device", "got one on cuda:0"}},
    {"DescContradictsTensor",
     [](NormCall& c) { c.desc.n_cols = 16; },
     LIGERDSL_INVALID_SHAPE,
     {"`x`", "[4, 16]", "got [4, 8]"}},
    {"NotAMode",
     [](NormCall& c) { c.desc.casting = 3; },
     LIGERDSL_INVALID_ARGUMENT,
     {"`casting`", "0 to 2", "got 3"}},
    {"NegativeEps",
     [](NormCall& c) { c.desc.eps = -1; },
     LIGERDSL_INVALID_ARGUMENT,
     {"`eps`", ">= 0", "got -1"}},
    {"NotANumber",
     [](NormCall& c) { c.desc.offset = __builtin_nanf(""); },
     LIGERDSL_INVALID_ARGUMENT,
     {"`offset`", "finite"}},
};

class NormMisuse : public testing::TestWithParam<NormRow> {};

TEST_P(NormMisuse, IsReported) {
  const Context context = Context::cpu(1);
  NormCall call;
  GetParam().spoil(call);
  const ligerdsl_status_t status = call.run(context);
  const std::string text = ligerdsl_last_error();
  EXPECT_STREQ(ligerdsl_status_name(status), ligerdsl_status_name(GetParam().status)) << text;
  for (const char* word : GetParam().words)
    EXPECT_NE(text.find(word), std::string::npos) << "no \"" << word << "\" in: " << text;
}

INSTANTIATE_TEST_SUITE_P(Table, NormMisuse, testing::ValuesIn(kNormRows),
                         [](const auto& row) { return row.param.name; });

class Misuse : public testing::Test {
 protected:
  Context context_ = Context::cpu(1);
};

// The one-call form reads sizes before it has checked the tensor.
TEST_F(Misuse, UnreadableShapes) {
  NormCall call;
  ligerdsl_tensor_t x = *call.args.x;
  call.args.x = &x;
  for (const int32_t ndim : {-3, 9, INT32_MAX}) {
    x.ndim = ndim;
    expect_failure(call.run(context_), LIGERDSL_INVALID_SHAPE,
                   {"`x`", "0 to 8 dimensions", "got "});
  }
  x.ndim = 2;
  x.shape = nullptr;
  expect_failure(call.run(context_), LIGERDSL_INVALID_NULL_POINTER, {"`x`", "shape is NULL"});
}

TEST_F(Misuse, PlanNeedsWidthAndDtype) {
  ligerdsl_plan_t plan = nullptr;
  RmsNormForwardDesc desc = rms_norm_forward_desc();
  expect_failure(ligerdsl_rms_norm_forward_plan(context_.get(), &desc, &plan),
                 LIGERDSL_INVALID_SHAPE, {"n_cols", "one-call form"});
  desc.n_cols = 8;
  expect_failure(ligerdsl_rms_norm_forward_plan(context_.get(), &desc, &plan),
                 LIGERDSL_INVALID_DTYPE, {"`dtype`", "none"});
  EXPECT_EQ(plan, nullptr);
}

TEST_F(Misuse, GradientOfAnAbsentWeight) {
  ligerdsl_plan_t plan = nullptr;
  RmsNormBackwardDesc desc = rms_norm_backward_desc();
  desc.n_cols = 8;
  desc.dtype = LIGERDSL_BF16;
  desc.d_weight_dtype = LIGERDSL_F32;
  expect_failure(ligerdsl_rms_norm_backward_plan(context_.get(), &desc, &plan),
                 LIGERDSL_INVALID_ARGUMENT, {"d_weight_dtype", "without weight"});
  desc.weight_dtype = LIGERDSL_BF16;
  desc.d_weight_dtype = LIGERDSL_F16;
  expect_failure(ligerdsl_rms_norm_backward_plan(context_.get(), &desc, &plan),
                 LIGERDSL_INVALID_DTYPE, {"expected f32 or bf16", "got f16"});
  desc.d_weight_dtype = LIGERDSL_BF16;
  desc.accumulate = 1;
  expect_failure(ligerdsl_rms_norm_backward_plan(context_.get(), &desc, &plan),
                 LIGERDSL_INVALID_DTYPE, {"accumulate", "f32"});
}

TEST_F(Misuse, SmoothingOutOfRange) {
  ligerdsl_plan_t plan = nullptr;
  CrossEntropyDesc desc = cross_entropy_desc();
  desc.n_classes = 10;
  desc.dtype = LIGERDSL_F32;
  desc.label_dtype = LIGERDSL_I64;
  desc.label_smoothing = 1.5f;
  expect_failure(ligerdsl_cross_entropy_plan(context_.get(), &desc, &plan),
                 LIGERDSL_INVALID_ARGUMENT,
                 {"`label_smoothing`: expected 0 <= label_smoothing <= 1, got 1.5"});
  desc.label_smoothing = 0;
  desc.label_dtype = LIGERDSL_F32;
  expect_failure(ligerdsl_cross_entropy_plan(context_.get(), &desc, &plan), LIGERDSL_INVALID_DTYPE,
                 {"label_dtype", "i32, i64", "got f32"});
}

TEST_F(Misuse, DivergenceArgumentsAreChecked) {
  Owned x(LIGERDSL_F32, {4, 8}), y(LIGERDSL_F32, {4, 8}), wide(LIGERDSL_F32, {4, 9}),
      one(LIGERDSL_F32, {1}), factor(LIGERDSL_F32, {1}), each(LIGERDSL_F32, {4, 8}),
      real(LIGERDSL_F32, {4});
  JsdDesc desc = jsd_desc();
  JsdArgs args = jsd_args();
  const auto refused = [&](ligerdsl_status_t status, std::initializer_list<const char*> words) {
    expect_failure(ligerdsl_jsd(context_.get(), &desc, &args, nullptr), status, words);
  };
  args.input = x;
  args.target = y;
  refused(LIGERDSL_INVALID_ARGUMENT,
          {"`without_loss`", "expected 0 without d_input, got 1; pass loss"});
  args.loss = one;
  args.d_loss = factor;
  refused(LIGERDSL_INVALID_ARGUMENT, {"`with_d_loss`", "expected 0 without d_input"});
  args.d_loss = ligerdsl_jsd_args_t LIGERDSL_JSD_ARGS_INIT.d_loss;
  args.target = wide;
  refused(LIGERDSL_INVALID_SHAPE, {"`target`", "expected [N..., V] = [4, 8]", "got [4, 9]"});
  args.target = y;
  args.labels = real;
  refused(LIGERDSL_INVALID_DTYPE, {"label", "got f32"});
  args.labels = ligerdsl_jsd_args_t LIGERDSL_JSD_ARGS_INIT.labels;
  desc.reduction = LIGERDSL_REDUCTION_NONE;
  args.loss = x;
  refused(LIGERDSL_INVALID_ALIAS, {"`loss`", "`input`"});
  args.loss = each;
  desc.beta = 1.5f;
  refused(LIGERDSL_INVALID_ARGUMENT, {"`beta`: expected 0 <= beta <= 1, got 1.5"});
  desc.beta = 0.5f;
  args.d_input = y;
  refused(LIGERDSL_INVALID_ALIAS, {"`d_input`", "`target`"});
  // Only divergences accept the mean over rows; losses with class labels refuse it.
  ligerdsl_plan_t plan = nullptr;
  CrossEntropyDesc loss_desc = cross_entropy_desc();
  loss_desc.n_classes = 10;
  loss_desc.dtype = LIGERDSL_F32;
  loss_desc.label_dtype = LIGERDSL_I64;
  loss_desc.reduction = LIGERDSL_REDUCTION_BATCHMEAN;
  expect_failure(ligerdsl_cross_entropy_plan(context_.get(), &loss_desc, &plan),
                 LIGERDSL_INVALID_ARGUMENT, {"`reduction`", "got 3"});
}

TEST_F(Misuse, CausalNeedsQueries) {
  ligerdsl_plan_t plan = nullptr;
  SoftmaxForwardDesc desc = softmax_forward_desc();
  desc.n_cols = 8;
  desc.dtype = LIGERDSL_F32;
  desc.causal = 1;
  expect_failure(ligerdsl_softmax_forward_plan(context_.get(), &desc, &plan),
                 LIGERDSL_INVALID_SHAPE, {"n_queries"});
}

TEST_F(Misuse, PartialOverlapInPlace) {
  Owned a(LIGERDSL_F32, {16}), b(LIGERDSL_F32, {16});
  const Tensor out(a.floats() + 4, {LIGERDSL_CPU, 0}, LIGERDSL_F32, {16});
  VectorAddDesc desc = vector_add_desc();
  desc.in_place = 1;
  VectorAddArgs args = vector_add_args();
  args.a = a;
  args.b = b;
  args.out = out;
  expect_failure(
      ligerdsl_vector_add(context_.get(), &desc, &args, nullptr), LIGERDSL_INVALID_ALIAS,
      {"`out`", "`a`", "not with the same address", "exactly the same memory or separate memory"});
}

TEST_F(Misuse, BiasOfAnotherWidthOrType) {
  Owned x(LIGERDSL_BF16, {2, 8}), y(LIGERDSL_BF16, {2, 8}), wide(LIGERDSL_BF16, {9}),
      half(LIGERDSL_F16, {8});
  const BiasAddForwardDesc forward = bias_add_forward_desc();
  BiasAddForwardArgs sum = bias_add_forward_args();
  sum.x = x;
  sum.y = y;
  sum.bias = wide;
  expect_failure(ligerdsl_bias_add_forward(context_.get(), &forward, &sum, nullptr),
                 LIGERDSL_INVALID_SHAPE, {"`bias`", "[8]", "got [9]"});
  BiasAddBackwardDesc backward = bias_add_backward_desc();
  BiasAddBackwardArgs gradient = bias_add_backward_args();
  gradient.d_y = x;
  gradient.d_bias = half;
  expect_failure(ligerdsl_bias_add_backward(context_.get(), &backward, &gradient, nullptr),
                 LIGERDSL_INVALID_DTYPE, {"`d_bias_dtype`", "expected f32 or bf16", "got f16"});
}

TEST_F(Misuse, ActivationKindsAndAliases) {
  Owned x(LIGERDSL_F32, {4, 8}), d_y(LIGERDSL_F32, {4, 8});
  const Owned other(LIGERDSL_BF16, {4, 8});
  const Tensor lower(x.floats() + 8, context_.device(), LIGERDSL_F32, {3, 8});
  const Tensor upper(x.floats(), context_.device(), LIGERDSL_F32, {3, 8});
  ActivationForwardDesc forward = activation_forward_desc();
  ActivationForwardArgs values = activation_forward_args();
  values.x = upper;
  values.y = lower;
  expect_failure(ligerdsl_activation_forward(context_.get(), &forward, &values, nullptr),
                 LIGERDSL_INVALID_ALIAS, {"`y`", "`x`", "separate memory"});
  forward.kind = 5;
  expect_failure(ligerdsl_activation_forward(context_.get(), &forward, &values, nullptr),
                 LIGERDSL_INVALID_ARGUMENT, {"`kind`", "0 to 4", "got 5"});
  ActivationBackwardDesc backward = activation_backward_desc();
  backward.accumulate = 1;
  ActivationBackwardArgs gradients = activation_backward_args();
  gradients.x = x;
  gradients.d_y = gradients.d_x = d_y;
  expect_failure(ligerdsl_activation_backward(context_.get(), &backward, &gradients, nullptr),
                 LIGERDSL_INVALID_ARGUMENT,
                 {"`in_place`: expected 0 with `accumulate`, got 1", "d_y or x"});
  backward.accumulate = 0;
  gradients.d_x = other;
  expect_failure(ligerdsl_activation_backward(context_.get(), &backward, &gradients, nullptr),
                 LIGERDSL_INVALID_DTYPE, {"`d_x`", "expected f32", "got bf16"});
}

TEST_F(Misuse, DropoutProbabilityAndSeedAreChecked) {
  Owned x(LIGERDSL_F32, {4, 8}), y(LIGERDSL_F32, {4, 8}), seed(LIGERDSL_I64, {1}),
      narrow(LIGERDSL_I32, {1});
  DropoutForwardDesc forward = dropout_forward_desc();
  DropoutForwardArgs values = dropout_forward_args();
  values.x = x;
  values.y = y;
  for (float p : {1.0f, -0.1f, std::nanf("")}) {
    values.p = p;
    expect_failure(ligerdsl_dropout_forward(context_.get(), &forward, &values, nullptr),
                   LIGERDSL_INVALID_ARGUMENT, {"`p`", "0 <= p < 1", "got"});
  }
  values.p = 0.5f;
  values.device_seed = seed;
  expect_failure(ligerdsl_dropout_forward(context_.get(), &forward, &values, nullptr),
                 LIGERDSL_INVALID_NULL_POINTER, {"`device_offset`"});
  values.device_offset = narrow;
  expect_failure(ligerdsl_dropout_forward(context_.get(), &forward, &values, nullptr),
                 LIGERDSL_INVALID_DTYPE, {"`device_offset`", "expected i64", "got i32"});
  DropoutBackwardDesc backward = dropout_backward_desc();
  backward.accumulate = 1;
  DropoutBackwardArgs gradients = dropout_backward_args();
  gradients.d_y = gradients.d_x = x;
  expect_failure(ligerdsl_dropout_backward(context_.get(), &backward, &gradients, nullptr),
                 LIGERDSL_INVALID_ARGUMENT,
                 {"`in_place`: expected 0 with `accumulate`, got 1", "d_y"});
}

TEST_F(Misuse, SwigluHalvesAndFused) {
  Owned gate(LIGERDSL_F32, {2, 8}), up(LIGERDSL_F32, {2, 8}), both(LIGERDSL_F32, {2, 16}),
      odd(LIGERDSL_F32, {2, 15}), out(LIGERDSL_F32, {2, 8});
  const SwigluForwardDesc desc = swiglu_forward_desc();
  SwigluForwardArgs args = swiglu_forward_args();
  args.out = out;
  args.gate = gate;
  expect_failure(ligerdsl_swiglu_forward(context_.get(), &desc, &args, nullptr),
                 LIGERDSL_INVALID_NULL_POINTER, {"`up`"});
  args.gate_up = both;
  expect_failure(ligerdsl_swiglu_forward(context_.get(), &desc, &args, nullptr),
                 LIGERDSL_INVALID_ARGUMENT, {"`gate`", "expected NULL"});
  args.gate = nullptr;
  args.gate_up = odd;
  expect_failure(ligerdsl_swiglu_forward(context_.get(), &desc, &args, nullptr),
                 LIGERDSL_INVALID_SHAPE, {"`gate_up`", "[N..., 2F] = [2, 16]", "got [2, 15]"});
}

TEST_F(Misuse, KernelOptions) {
  const auto create = [&](const ligerdsl_kernel_options_t& options) {
    ligerdsl_kernel_t kernel = nullptr;
    return ligerdsl_kernel_create(context_.get(), "x", 1, &options, &kernel);
  };
  ligerdsl_kernel_options_t options = kernel_options();
  options.num_warps = 3;
  expect_failure(create(options), LIGERDSL_INVALID_ARGUMENT,
                 {"num_warps", "power of two", "got 3"});
  options = kernel_options();
  options.max_registers = 23;  // below the minimum of ptxas
  expect_failure(create(options), LIGERDSL_INVALID_ARGUMENT,
                 {"max_registers", "expected 0 or 24 to 255", "got 23"});
  struct {
    const char* name;
    int32_t ligerdsl_kernel_options_t::*member;
    int32_t most;
  } const rows[] = {{"num_warps", &ligerdsl_kernel_options_t::num_warps, 32},
                    {"num_ctas", &ligerdsl_kernel_options_t::num_ctas, 16},
                    {"num_stages", &ligerdsl_kernel_options_t::num_stages, 16},
                    {"max_registers", &ligerdsl_kernel_options_t::max_registers, 255},
                    {"no_alias", &ligerdsl_kernel_options_t::no_alias, 1},
                    {"forbid_contract", &ligerdsl_kernel_options_t::forbid_contract, 1},
                    {"min_ctas_per_sm", &ligerdsl_kernel_options_t::min_ctas_per_sm, 32}};
  for (const auto& row : rows) {
    for (const int32_t wrong : {-1, row.most + 1, INT32_MIN, INT32_MAX}) {
      options = kernel_options();
      options.*row.member = wrong;
      const std::string got = "got " + std::to_string(wrong),
                        most = "to " + std::to_string(row.most);
      expect_failure(create(options), LIGERDSL_INVALID_ARGUMENT,
                     {row.name, most.c_str(), got.c_str()});
    }
  }
}

}  // namespace
}  // namespace ligerdsl::test::misuse_test
