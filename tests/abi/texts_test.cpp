// Tests that messages name the expected value, the given value and a remedy. They must not mention
// anything that does not apply to the call.
#include "table_call.h"

namespace ligerdsl::test::texts_test {
namespace {

class Texts : public testing::Test {
 protected:
  const TableContext context_{program::Target::cpu};

  // Returns execute's message after `spoil` changed the arguments.
  template <class Args>
  std::string message(const char* op, void (*spoil)(Args&), ligerdsl_status_t status) {
    TableCall call(op_named(op), 64, false);
    call.make_tensors(4);
    ligerdsl_plan_t plan = nullptr;
    EXPECT_EQ(call.plan(context_, &plan), LIGERDSL_SUCCESS) << ligerdsl_last_error();
    Args args = *static_cast<const Args*>(call.args());
    spoil(args);
    EXPECT_EQ(lib::execute_entry(call.info(), plan, &args, nullptr, 0, nullptr), status)
        << ligerdsl_last_error();
    ligerdsl_plan_destroy(plan);
    return ligerdsl_last_error();
  }
};

TEST_F(Texts, InPlaceIsNamedWhereItExists) {
  EXPECT_EQ(message<ligerdsl_rms_norm_forward_args_t>(
                "rms_norm_forward", [](auto& args) { args.y = args.x; }, LIGERDSL_INVALID_ALIAS),
            "rms_norm_forward: `y`: shares memory with `x`; expected separate memory");
  EXPECT_EQ(message<ligerdsl_softmax_forward_args_t>(
                "softmax_forward", [](auto& args) { args.y = args.x; }, LIGERDSL_INVALID_ALIAS),
            "softmax_forward: `y`: shares memory with `x`; expected separate memory, or `in_place` "
            "set in the "
            "description");
}

TEST_F(Texts, DevicesHaveNames) {
  static ligerdsl_tensor_t elsewhere;
  const auto on = [&](int32_t type, int32_t id) {
    elsewhere.device = {type, id};
    return message<ligerdsl_softmax_forward_args_t>(
        "softmax_forward",
        [](auto& args) {
          const ligerdsl_device_t device = elsewhere.device;
          elsewhere = *args.x;
          elsewhere.device = device;
          args.x = &elsewhere;
        },
        LIGERDSL_INVALID_DEVICE);
  };
  const std::string expected =
      "softmax_forward: `x`: expected a tensor on cpu, the context's device, got one on ";
  EXPECT_EQ(on(LIGERDSL_CUDA, 3), expected + "cuda:3");
  EXPECT_EQ(on(7, 0),
            expected + "an unknown device type 7 (LIGERDSL_CPU is 1, LIGERDSL_CUDA is 2)");
}

TEST_F(Texts, BoundsAreShort) {
  TableCall call(op_named("fused_linear_cross_entropy"), 64, false);
  ligerdsl_plan_t plan = nullptr;
  call.set("max_workspace_bytes", -1);
  EXPECT_EQ(call.plan(context_, &plan), LIGERDSL_INVALID_ARGUMENT);
  EXPECT_STREQ(ligerdsl_last_error(),
               "fused_linear_cross_entropy: `max_workspace_bytes`: expected 0 or more, got -1");
  call.set("max_workspace_bytes", 0);
  call.set("softcap", -3e38);
  EXPECT_EQ(call.plan(context_, &plan), LIGERDSL_INVALID_ARGUMENT);
  EXPECT_STREQ(ligerdsl_last_error(),
               "fused_linear_cross_entropy: `softcap`: expected 0, or 1e-30 <= softcap <= 1e+30, "
               "got -3e+38");
  call.set("softcap", 0);
  call.set("label_smoothing", 1.0000001);
  EXPECT_EQ(call.plan(context_, &plan), LIGERDSL_INVALID_ARGUMENT);
  EXPECT_STREQ(ligerdsl_last_error(),
               "fused_linear_cross_entropy: `label_smoothing`: expected 0 <= label_smoothing <= 1, "
               "got 1.0000001");
}

TEST_F(Texts, EmptyWeightsAreNamed) {
  TableCall call(op_named("fused_linear_cross_entropy"), 64, false);
  call.make_tensors(4);
  auto args = *static_cast<const ligerdsl_fused_linear_cross_entropy_args_t*>(call.args());
  int64_t shape[] = {0, 64};
  const ligerdsl_tensor_t shard =
      ligerdsl_tensor_make(nullptr, {LIGERDSL_CPU, 0}, LIGERDSL_F32, 2, shape);
  args.weight = &shard;
  const ligerdsl_fused_linear_cross_entropy_desc_t desc =
      LIGERDSL_FUSED_LINEAR_CROSS_ENTROPY_DESC_INIT;
  EXPECT_EQ(lib::call_entry(call.info(), context_, &desc, &args, nullptr), LIGERDSL_INVALID_SHAPE);
  EXPECT_STREQ(
      ligerdsl_last_error(),
      "fused_linear_cross_entropy: `weight`: expected at least 1 along dimension 0 (`n_classes`), "
      "got 0; gather a tensor that is sharded over devices before the call");
}

TEST_F(Texts, EmbeddingGradientPositionsAreNamed) {
  TableCall call(op_named("embedding_backward"), 64, false);
  ligerdsl_plan_t plan = nullptr;
  const auto refused = [&](ligerdsl_status_t status) {
    EXPECT_EQ(call.plan(context_, &plan), status);
    return std::string(ligerdsl_last_error());
  };
  call.set("accumulate_positions", 1);
  call.set("d_position_weight_dtype", LIGERDSL_BF16);
  call.set("dtype", LIGERDSL_BF16);
  EXPECT_EQ(refused(LIGERDSL_INVALID_DTYPE),
            "embedding_backward: `d_position_weight_dtype`: expected f32 with "
            "`accumulate_positions`, got bf16");
  call.set("accumulate_positions", 0);
  call.set("d_position_weight_dtype", LIGERDSL_F16);
  EXPECT_EQ(refused(LIGERDSL_INVALID_DTYPE),
            "embedding_backward: `d_position_weight_dtype`: expected f32 or bf16, got f16");
  call.set("d_position_weight_dtype", LIGERDSL_F32);
  call.set("n_positions", 0);
  EXPECT_EQ(refused(LIGERDSL_INVALID_SHAPE),
            "embedding_backward: `n_positions`: expected at least 1 with d_position_weight, got 0");
}

// The reciprocal of these temperatures makes ordinary logits too large for f32.
TEST_F(Texts, LowTemperaturesAreRefused) {
  for (const char* op : {"cross_entropy", "fused_linear_cross_entropy",
                         "fused_linear_cross_entropy_backward", "fused_linear_jsd"}) {
    TableCall call(op_named(op), 64, false);
    ligerdsl_plan_t plan = nullptr;
    call.set("temperature", 1e-30);
    EXPECT_EQ(call.plan(context_, &plan), LIGERDSL_INVALID_ARGUMENT);
    EXPECT_EQ(ligerdsl_last_error(),
              std::string(op) +
                  ": `temperature`: expected 0, or 1e-04 <= temperature <= 1e+30, got 1e-30");
  }
}

// n_groups comes from mean or rstd. If both are omitted, the error requests one of them.
TEST_F(Texts, GroupNormNamesItsGroups) {
  float values[48] = {};
  const auto tensor = [&](std::vector<int64_t>& shape) {
    return ligerdsl_tensor_make(values, {LIGERDSL_CPU, 0}, LIGERDSL_F32,
                                static_cast<int32_t>(shape.size()), shape.data());
  };
  std::vector<int64_t> x_shape{1, 4, 6}, weight_shape{4}, groups{1, 2};
  std::vector<float> y(48), rstd(2);
  const ligerdsl_tensor_t x = tensor(x_shape), weight = tensor(weight_shape);
  ligerdsl_tensor_t out = tensor(x_shape), statistics = tensor(groups);
  out.data = y.data();
  statistics.data = rstd.data();
  ligerdsl_group_norm_forward_args_t args = LIGERDSL_GROUP_NORM_FORWARD_ARGS_INIT;
  args.x = &x;
  args.weight = &weight;
  args.y = &out;
  const auto call = [&] {
    const ligerdsl_group_norm_forward_desc_t desc = LIGERDSL_GROUP_NORM_FORWARD_DESC_INIT;
    expectations() = {{{"everything", 0, uint64_t{1} << 63}}};
    return ligerdsl_group_norm_forward(context_, &desc, &args, nullptr);
  };
  EXPECT_EQ(call(), LIGERDSL_INVALID_SHAPE);
  EXPECT_STREQ(
      ligerdsl_last_error(),
      "group_norm_forward: `n_groups`: expected at least 1, got 0, and no tensor with this "
      "size (mean, rstd) is passed; set it in the description, or pass one of these "
      "tensors");
  args.rstd = &statistics;
  EXPECT_EQ(call(), LIGERDSL_SUCCESS) << ligerdsl_last_error();
}

// The error names the image, not the weight, and says what to pass.
TEST_F(Texts, GroupNormImagesNeedThreeDimensions) {
  float values[48] = {};
  int64_t shape[] = {1, 4, 2, 6}, channels[] = {4}, groups[] = {1, 2};
  const ligerdsl_tensor_t image =
      ligerdsl_tensor_make(values, {LIGERDSL_CPU, 0}, LIGERDSL_F32, 4, shape);
  const ligerdsl_tensor_t weight =
      ligerdsl_tensor_make(values, {LIGERDSL_CPU, 0}, LIGERDSL_F32, 1, channels);
  const ligerdsl_tensor_t mean =
      ligerdsl_tensor_make(values, {LIGERDSL_CPU, 0}, LIGERDSL_F32, 2, groups);
  const ligerdsl_group_norm_forward_desc_t desc = LIGERDSL_GROUP_NORM_FORWARD_DESC_INIT;
  ligerdsl_group_norm_forward_args_t args = LIGERDSL_GROUP_NORM_FORWARD_ARGS_INIT;
  args.x = args.y = &image;
  args.weight = &weight;
  args.mean = &mean;
  EXPECT_EQ(ligerdsl_group_norm_forward(context_, &desc, &args, nullptr), LIGERDSL_INVALID_SHAPE);
  EXPECT_STREQ(ligerdsl_last_error(),
               "group_norm_forward: `x`: expected [N..., C, S] = [?, 4, 6], got [1, 4, 2, 6]; an "
               "image [N, C, height, "
               "width] is passed as [N, C, height * width]");
}

TEST_F(Texts, ModulationShapeIsNamed) {
  float values[24] = {};
  int64_t rows[] = {3, 8}, row[] = {8};
  const ligerdsl_tensor_t x =
      ligerdsl_tensor_make(values, {LIGERDSL_CPU, 0}, LIGERDSL_F32, 2, rows);
  const ligerdsl_tensor_t scale =
      ligerdsl_tensor_make(values, {LIGERDSL_CPU, 0}, LIGERDSL_F32, 1, row);
  const ligerdsl_modulated_rms_norm_forward_desc_t desc =
      LIGERDSL_MODULATED_RMS_NORM_FORWARD_DESC_INIT;
  ligerdsl_modulated_rms_norm_forward_args_t args = LIGERDSL_MODULATED_RMS_NORM_FORWARD_ARGS_INIT;
  args.x = args.y = &x;
  args.scale = &scale;
  EXPECT_EQ(ligerdsl_modulated_rms_norm_forward(context_, &desc, &args, nullptr),
            LIGERDSL_INVALID_SHAPE);
  EXPECT_STREQ(
      ligerdsl_last_error(),
      "modulated_rms_norm_forward: `scale`: expected [K, H] = [?, 8], got [8], which does not "
      "determine `n_modulations`; one row for all rows of x is [1, n_cols]");
}

// The one-call form reads the dtype from the list of tensors, which may be NULL or empty.
TEST_F(Texts, TensorListsAreChecked) {
  const lib::OpInfo& info = op_named("global_norm");
  const auto call = [&](const ligerdsl_tensor_t* tensors, int64_t count) {
    float norm = -1;
    int64_t one = 1;
    const ligerdsl_tensor_t result =
        ligerdsl_tensor_make(&norm, {LIGERDSL_CPU, 0}, LIGERDSL_F32, 1, &one);
    ligerdsl_global_norm_desc_t desc = LIGERDSL_GLOBAL_NORM_DESC_INIT;
    ligerdsl_global_norm_args_t args = LIGERDSL_GLOBAL_NORM_ARGS_INIT;
    args.tensors = tensors;
    args.n_tensors = count;
    args.norm = &result;
    expectations() = {{{"everything", 0, uint64_t{1} << 63}}};
    return lib::call_entry(info, context_, &desc, &args, nullptr);
  };
  EXPECT_EQ(call(nullptr, 0), LIGERDSL_SUCCESS)
      << "an empty list has a norm of 0: " << ligerdsl_last_error();
  EXPECT_EQ(call(nullptr, 2), LIGERDSL_INVALID_NULL_POINTER);
  EXPECT_STREQ(ligerdsl_last_error(),
               "global_norm: `tensors` is NULL: expected n_tensors = 2 tensors; an empty list has "
               "n_tensors = 0");
  EXPECT_EQ(call(nullptr, -1), LIGERDSL_INVALID_ARGUMENT);
  EXPECT_STREQ(ligerdsl_last_error(), "global_norm: `n_tensors`: expected 0 or more, got -1");
  float values[4] = {};
  int64_t shape[] = {2, 2}, strides[] = {4, 1};
  ligerdsl_tensor_t tensors[2] = {
      ligerdsl_tensor_make(values, {LIGERDSL_CPU, 0}, LIGERDSL_F32, 2, shape)};
  tensors[1] = tensors[0];
  tensors[1].strides = strides;
  EXPECT_EQ(call(tensors, 2), LIGERDSL_INVALID_SHAPE);
  EXPECT_STREQ(ligerdsl_last_error(),
               "global_norm: `tensors[1]`: expected a contiguous tensor, with a stride of 2 in "
               "dimension 0, got 4; pass a contiguous copy");
}

}  // namespace
}  // namespace ligerdsl::test::texts_test
