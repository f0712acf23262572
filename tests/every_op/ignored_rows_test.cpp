// Rows whose label is ignore_index, and rows of a grouped matmul outside of all groups, may contain
// anything. With NaN or infinity in them, results must have the same bits as with zeros.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>

#include "ligerdsl/dtype.h"
#include "tests/every_op/op_run.h"

namespace ligerdsl::test::ignored_rows_test {
namespace {

using Slot = cli::OpInstance::Slot;

constexpr int64_t kIgnoredClass = 3;  // this ignore_index is also a valid class

// Further code paths of the lm_head: our matmul kernels with stored and recomputed logits; no d_x;
// a workspace limit, under which d_weight is vocabulary-blocked or its memory holds exponentials.
constexpr const char* kMoreHeads[] = {
    "fused_linear_cross_entropy products=kernels d_weight_dtype=f32 bias_dtype=f32 "
    "d_bias_dtype=f32",
    "fused_linear_cross_entropy products=kernels d_weight_dtype=f32 label_smoothing=0.1 "
    "lse_square_scale=0.01",
    "fused_linear_cross_entropy products=kernels d_weight_dtype=f32 softcap=3 label_smoothing=0.1",
    "fused_linear_cross_entropy products=kernels d_weight_dtype=f32 with_entropy=1 "
    "with_d_entropy=1 in_place=1",
    "fused_linear_cross_entropy products=kernels d_weight_dtype=f32 with_d_x=0 reduction=none "
    "with_d_loss=1",
    "fused_linear_cross_entropy products=kernels dtype=f16 d_weight_dtype=f16 with_d_x=0 "
    "chunk_rows=3",
    "fused_linear_cross_entropy products=kernels d_weight_dtype=f32 H=40 N=200 "
    "max_workspace_bytes=120000",
    "fused_linear_cross_entropy products=kernels d_weight_dtype=f32 H=40 N=200 "
    "max_workspace_bytes=120000 bias_dtype=f32"
    " d_bias_dtype=f32",
    "fused_linear_cross_entropy products=library d_weight_dtype=f32 in_place=1 chunk_rows=7",
    "fused_linear_cross_entropy products=library d_weight_dtype=f32 with_d_x=0",
    "fused_linear_cross_entropy products=library d_weight_dtype=f32 max_workspace_bytes=80000",
    "fused_linear_cross_entropy products=library dtype=bf16 d_weight_dtype=bf16 "
    "max_workspace_bytes=4000000",
    "fused_linear_cross_entropy_backward products=kernels d_weight_dtype=f32 with_d_x=0",
    "fused_linear_cross_entropy_backward products=kernels d_weight_dtype=f32 reduction=none",
    "fused_linear_cross_entropy_backward products=kernels d_weight_dtype=f32 with_d_x=0 "
    "max_workspace_bytes=80000",
    "fused_linear_cross_entropy_backward products=library d_weight_dtype=f32 in_place=1",
    "fused_linear_jsd products=kernels d_weight_dtype=f32 label_dtype=i64",
    "fused_linear_jsd products=kernels dtype=bf16 d_weight_dtype=f32 label_dtype=i64 in_place=1 "
    "chunk_rows=3",
    "fused_linear_jsd products=library d_weight_dtype=f32 label_dtype=i64 with_d_x=0 beta=1",
};

bool has_field(const std::string& op, std::string_view name) {
  const auto& fields = cli::find_op(op).fields;
  return std::any_of(fields.begin(), fields.end(),
                     [&](const auto& field) { return field.name == name; });
}

// Returns the tensor whose first dimension contains the ignored rows, or null if no row is ignored.
const Slot* rows_of(const cli::OpInstance& instance) {
  if (instance.find("offsets")) return instance.find("a");
  return instance.integer("ignore_index", 0) != 0 ? instance.find("labels") : nullptr;
}

// Returns true if the slot is an input with data for every row, except labels.
bool is_of_rows(const Slot& slot, const Slot& rows) {
  const bool input = slot.info && slot.info->direction == lib::Direction::in && slot.info->rank > 0;
  if (!input || slot.name == "labels" || slot.shape.empty() || slot.shape[0] != rows.shape[0])
    return false;
  return slot.info->dims[0].symbol == rows.info->dims[0].symbol || slot.name == "d_loss";
}

template <class Number>
void put(std::string* bytes, size_t index, Number number) {
  std::memcpy(bytes->data() + index * sizeof number, &number, sizeof number);
}
void put_integer(std::string* bytes, DType type, int64_t index, int64_t value) {
  if (type == DType::i32)
    put(bytes, static_cast<size_t>(index), static_cast<int32_t>(value));
  else
    put(bytes, static_cast<size_t>(index), value);
}

// Every type except f16 represents 0, infinity and NaN by the upper bits of the f32.
void put_special(std::string* bytes, DType type, size_t index, float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  if (type == DType::f32)
    put(bytes, index, bits);
  else if (type == DType::bf16)
    put(bytes, index, static_cast<uint16_t>(bits >> 16));
  else
    put(bytes, index,
        static_cast<uint16_t>((bits >> 16 & 0x8000) | (value == 0          ? 0
                                                       : std::isnan(value) ? 0x7e00
                                                                           : 0x7c00)));
}

class Rows {
 public:
  Rows(cli::OpInstance& instance, int64_t ignore_index)
      : instance_(instance), rows_(*rows_of(instance)) {
    const int64_t count = rows_.shape[0];
    Slot* const offsets = instance.find("offsets");
    for (int64_t row = 0; row < count; ++row)
      if (offsets ? row < 1 || row >= count - 2 : row % 3 == 1) ignored_.push_back(row);
    if (offsets)
      cut(*offsets, count);
    else
      ignore(*instance.find("labels"), ignore_index);
  }

  // Writes `value` to the ignored rows of all inputs. Returns false if there is no such input.
  bool fill(float value) {
    bool any = false;
    for (Slot& slot : instance_.slots()) {
      if (!is_of_rows(slot, rows_)) continue;
      any = true;
      std::string bytes = instance_.read(slot);
      const size_t row_elements =
          bytes.size() / static_cast<size_t>(size_of(slot.dtype) * slot.shape[0]);
      for (const int64_t row : ignored_)
        for (size_t i = 0; i < row_elements; ++i)
          put_special(&bytes, slot.dtype, static_cast<size_t>(row) * row_elements + i, value);
      instance_.write(slot, bytes);
    }
    return any;
  }

 private:
  void ignore(Slot& labels, int64_t ignore_index) {
    std::string bytes = instance_.read(labels);
    for (const int64_t row : ignored_) put_integer(&bytes, labels.dtype, row, ignore_index);
    instance_.write(labels, bytes);
  }
  // Sets group offsets such that the first row and the last two rows belong to no group.
  void cut(Slot& offsets, int64_t rows) {
    std::string bytes = instance_.read(offsets);
    const int64_t last = offsets.shape[0] - 1;
    for (int64_t i = 0; i <= last; ++i)
      put_integer(&bytes, offsets.dtype, i, 1 + i * (rows - 3) / last);
    instance_.write(offsets, bytes);
  }

  cli::OpInstance& instance_;
  const Slot& rows_;
  std::vector<int64_t> ignored_;
};

class IgnoredRows : public testing::TestWithParam<Case> {
 protected:
  void check(Case which, int64_t ignore_index) {
    if (ignore_index != -100)
      which.settings.push_back("ignore_index=" + std::to_string(ignore_index));
    const ContextHandle context;
    const PlanHandle plan(context, which);
    if (!plan.not_supported().empty()) GTEST_SKIP() << plan.not_supported();
    OpRun run(context, which, plan);
    std::string expected;
    for (const float value :
         {0.0f, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
          -std::numeric_limits<float>::infinity()}) {
      run.set(0, nullptr);
      Rows rows(run.instance(), ignore_index);
      if (!rows.fill(value)) GTEST_SKIP() << "only the labels have rows";
      run.execute(nullptr);
      const std::string found = run.results(nullptr);
      if (expected.empty()) expected = found;
      EXPECT_TRUE(found == expected)
          << "ignored rows hold " << value << ", ignore_index is " << ignore_index;
    }
  }
};

TEST_P(IgnoredRows, MayHoldAnything) {
  check(GetParam(), -100);
}

TEST_P(IgnoredRows, MayHoldAnythingIfIgnoreIndexIsAClass) {
  if (!has_field(GetParam().op, "ignore_index")) GTEST_SKIP() << "groups have no labels";
  if (session().emulated) GTEST_SKIP() << "the emulator takes too long";
  check(GetParam(), kIgnoredClass);
}

// Reduces the sizes of matmuls, so that the emulator needs only seconds.
void shrink(Case* which) {
  for (std::string& setting : which->settings) {
    if (setting.starts_with("V=")) setting = "V=137";
    if (setting.starts_with("H=")) setting = "H=72";
  }
  const auto& letters = cli::find_op(which->op).symbols;
  if (std::find(letters.begin(), letters.end(), std::string_view("T")) != letters.end() &&
      std::none_of(which->settings.begin(), which->settings.end(),
                   [](const std::string& setting) { return setting.starts_with("T="); }))
    which->settings.push_back("T=40");
}

std::vector<Case> ignoring_cases() {
  std::vector<Case> list;
  for (Case which : cases(session().rows, kMoreHeads)) {
    if (session().emulated) shrink(&which);
    const cli::OpInstance instance(cli::find_op(which.op), which.settings);
    if (rows_of(instance)) list.push_back(which);
  }
  return list;
}
INSTANTIATE_TEST_SUITE_P(EveryOp, IgnoredRows, testing::ValuesIn(ignoring_cases()),
                         [](const auto& info) { return name_of(info.param); });

TEST(IgnoredRowsCases, CoverEveryOperationWithIgnoreIndex) {
  const std::vector<std::string> without = operations_without(ignoring_cases());
  for (const std::string& op : without) {
    EXPECT_FALSE(has_field(op, "ignore_index")) << op;
  }
}

}  // namespace
}  // namespace ligerdsl::test::ignored_rows_test
