// Tests rows with strides of more than 2^31 elements, and indices into tables of more than 2^31
// elements. On a CPU, only written memory is committed. The emulated GPU lacks such memory and uses
// smaller distances.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tests/every_op/far.h"
#include "tests/every_op/op_run.h"

namespace ligerdsl::test::distant_rows_test {
namespace {

using Slot = cli::OpInstance::Slot;

int64_t limit() {
  return session().emulated ? 1 << 12 : int64_t{1} << 31;
}

int64_t elements_of(const std::vector<int64_t>& shape) {
  int64_t n = 1;
  for (const int64_t dim : shape) n *= dim;
  return n;
}

// Returns true if the tensor's first dimension is the operation's rows, with a stride of its own.
bool has_rows(const cli::OpInstance& instance, const Slot& slot) {
  if (!slot.info || slot.info->rank < 2 || slot.info->dims[0].symbol < 0) return false;
  const cli::OpDefaults& defaults = instance.defaults();
  return !defaults.of(slot.name).contiguous &&
         instance.info().symbols[static_cast<size_t>(slot.info->dims[0].symbol)] == defaults.rows;
}

void copy(ligerdsl_context_t context, void* to, const void* from, size_t bytes) {
  must(ligerdsl_buffer_copy(context, to, from, bytes, nullptr), "ligerdsl_buffer_copy");
  must(ligerdsl_stream_sync(context, nullptr), "ligerdsl_stream_sync");
}

// A copy of the operation's tensor `near` with distant rows. A tensor without rows keeps its
// layout.
class Far {
 public:
  Far(ligerdsl_context_t context, Slot& near, bool has_rows)
      : context_(context),
        near_(near),
        shape_(near.shape),
        rows_(has_rows ? near.shape[0] : 1),
        row_(elements_of(near.shape) / rows_),
        stride_(has_rows ? limit() + row_
                         : row_),  // same alignment as near rows: same kernel variant
        memory_(context, bytes(stride_ * (rows_ - 1) + row_), true) {
    int64_t step = 1;
    for (size_t i = shape_.size(); i-- > 1; step *= shape_[i])
      strides_.insert(strides_.begin(), step);
    strides_.insert(strides_.begin(), has_rows ? stride_ : step);
    for (int64_t row = 0; row < rows_; ++row)
      copy(context, far_row(row), near_row(row), bytes(row_));
  }
  ligerdsl_tensor_t tensor() {
    ligerdsl_tensor_t made =
        ligerdsl_tensor_make(memory_.data(), session().device(), code_of(near_.dtype),
                             static_cast<int32_t>(shape_.size()), shape_.data());
    made.strides = strides_.data();
    return made;
  }
  bool same() const {
    for (int64_t row = 0; row < rows_; ++row) {
      std::string a(bytes(row_), '\0'), b = a;
      copy(context_, a.data(), far_row(row), a.size());
      copy(context_, b.data(), near_row(row), b.size());
      if (a != b) return false;
    }
    return true;
  }
  bool has_distant_rows() const { return rows_ > 1; }

 private:
  size_t bytes(int64_t elements) const {
    return static_cast<size_t>(elements * size_of(near_.dtype));
  }
  std::byte* far_row(int64_t row) const { return memory_.data() + bytes(row * stride_); }
  std::byte* near_row(int64_t row) const {
    return static_cast<std::byte*>(near_.data) + bytes(row * row_);
  }

  ligerdsl_context_t context_;
  Slot& near_;
  std::vector<int64_t> shape_, strides_;
  int64_t rows_, row_, stride_;
  Memory memory_;
};

class DistantRows : public testing::TestWithParam<Case> {};

TEST_P(DistantRows, GiveEqualResults) {
  const ContextHandle context;
  const PlanHandle plan(context, GetParam());
  if (!plan.not_supported().empty()) GTEST_SKIP() << plan.not_supported();
  OpRun near(context, GetParam(), plan);
  near.set(0, nullptr);
  std::vector<std::unique_ptr<Far>> far;
  std::vector<ligerdsl_tensor_t> tensors;
  bool any = false;
  for (Slot& slot : near.instance().slots()) {
    far.push_back(std::make_unique<Far>(context, slot, has_rows(near.instance(), slot)));
    tensors.push_back(far.back()->tensor());
    any = any || far.back()->has_distant_rows();
  }
  ASSERT_TRUE(any) << "no tensor has rows";
  near.execute(nullptr);
  near.results(nullptr);  // waits for the stream
  const ligerdsl_status_t status = execute_on(context, plan, near.instance(), tensors);
  if (status == LIGERDSL_NOT_SUPPORTED)
    GTEST_SKIP() << ligerdsl_last_error();  // a CBLAS with 32-bit sizes
  must(status, GetParam().op.c_str());
  for (size_t i = 0; i < far.size(); ++i)
    EXPECT_TRUE(far[i]->same()) << near.instance().slots()[i].name;
}

// Returns true if all tensors of the operation have one dimension.
bool is_without_rows(const std::string& op) {
  const auto& tensors = cli::find_op(op).tensors;
  return std::all_of(tensors.begin(), tensors.end(),
                     [](const lib::TensorInfo& tensor) { return tensor.rank < 2; });
}

// Returns all cases of operations with rows. In-place cases are omitted, because two of their
// tensors would share the far memory.
std::vector<Case> distant_rows_cases() {
  std::vector<Case> list;
  for (const Case& which : cases(3)) {
    const bool in_place = std::find(which.settings.begin(), which.settings.end(), "in_place=1") !=
                          which.settings.end();
    if (!is_without_rows(which.op) && !in_place) list.push_back(which);
  }
  return list;
}
INSTANTIATE_TEST_SUITE_P(EveryOp, DistantRows, testing::ValuesIn(distant_rows_cases()),
                         [](const auto& info) { return name_of(info.param); });

TEST(DistantRowsCases, CoverEveryOperationWithRows) {
  for (const std::string& op : operations_without(distant_rows_cases()))
    EXPECT_TRUE(is_without_rows(op)) << op;
}

// A table of more than 2^31 elements, with indices of its first, middle and last rows.
class LargeTable : public testing::Test {
 protected:
  static constexpr int64_t kCols = 4096, kIndices = 40;

  LargeTable() {
    const int64_t limit_rows = limit() / kCols;
    rows_ = 2 * limit_rows + 3;
    for (int64_t i = 0; i < kIndices; ++i) indices_.push_back(i * 7919 % rows_);
    for (const int64_t row : {int64_t{0}, limit_rows - 1, limit_rows, 2 * limit_rows, rows_ - 1}) {
      indices_.push_back(row);
      indices_.push_back(row);
    }
    for (size_t i = 0; i < indices_.size() * kCols; ++i)
      values_.push_back(static_cast<float>(static_cast<int64_t>(i % 8191) - 4000) / 64.0f);
  }
  Case which(const char* op) const {
    return {op, {"N=" + std::to_string(indices_.size()), "H=4096", "V=" + std::to_string(rows_)}};
  }
  std::byte* row_of(const Memory& table, int64_t row) const {
    return table.data() + static_cast<size_t>(row * kCols) * sizeof(float);
  }
  // Runs the operation on the indices, the table and `values`, which has one row per index. The
  // table is the second tensor, or with `table_last` the third. Returns `values` after the call.
  std::vector<float> run(const char* op, const Memory& table, std::vector<float> values,
                         bool table_last) {
    const Memory indices(context_, indices_.size() * sizeof(int64_t)),
        rows(context_, values.size() * sizeof(float));
    copy(context_, indices.data(), indices_.data(), indices.bytes());
    copy(context_, rows.data(), values.data(), rows.bytes());
    int64_t n = static_cast<int64_t>(indices_.size()), row_shape[] = {n, kCols},
            table_shape[] = {rows_, kCols};
    const auto tensor = [](const Memory& memory, int32_t type, int rank, int64_t* shape) {
      return ligerdsl_tensor_make(memory.data(), session().device(), type, rank, shape);
    };
    std::vector<ligerdsl_tensor_t> tensors = {tensor(indices, LIGERDSL_I64, 1, &n),
                                              tensor(rows, LIGERDSL_F32, 2, row_shape)};
    tensors.insert(tensors.begin() + (table_last ? 2 : 1),
                   tensor(table, LIGERDSL_F32, 2, table_shape));
    const PlanHandle plan(context_, which(op));
    cli::OpInstance instance(cli::find_op(op), which(op).settings);
    must(execute_on(context_, plan, instance, tensors), op);
    copy(context_, values.data(), rows.data(), rows.bytes());
    return values;
  }

  ContextHandle context_;
  int64_t rows_ = 0;
  std::vector<int64_t> indices_;
  std::vector<float> values_;  // kCols values per index
};

TEST_F(LargeTable, EmbeddingForward) {
  const Memory table(context_, static_cast<size_t>(rows_ * kCols) * sizeof(float), true);
  std::vector<float> expected;
  for (size_t i = 0; i < indices_.size(); ++i) {
    const size_t first = static_cast<size_t>(
        std::find(indices_.begin(), indices_.end(), indices_[i]) - indices_.begin());
    const float* row = values_.data() + first * kCols;
    copy(context_, row_of(table, indices_[i]), row, kCols * sizeof(float));
    expected.insert(expected.end(), row, row + kCols);
  }
  const std::vector<float> got =
      run("embedding_forward", table, std::vector<float>(values_.size(), -1.0f), false);
  EXPECT_TRUE(got == expected);
}

TEST_F(LargeTable, EmbeddingBackward) {
  if (!session().cuda)
    GTEST_SKIP() << "a gradient of every row of the table: too much memory for a CPU test";
  const Memory table(context_, static_cast<size_t>(rows_ * kCols) * sizeof(float));
  must(ligerdsl_buffer_fill(context_, table.data(), 0xee, table.bytes(), nullptr),
       "ligerdsl_buffer_fill");
  run("embedding_backward", table, values_, true);
  std::map<int64_t, std::vector<float>> expected;
  for (size_t i = 0; i < indices_.size(); ++i) {
    std::vector<float>& row = expected.try_emplace(indices_[i], kCols).first->second;
    for (size_t c = 0; c < kCols; ++c) row[c] += values_[i * kCols + c];
  }
  // Compares the indexed rows and then clears them. Afterwards the whole table must be 0.
  for (const auto& [row, sum] : expected) {
    std::vector<float> got(kCols);
    copy(context_, got.data(), row_of(table, row), kCols * sizeof(float));
    EXPECT_TRUE(got == sum) << "row " << row;
    must(ligerdsl_buffer_fill(context_, row_of(table, row), 0, kCols * sizeof(float), nullptr),
         "fill");
  }
  const Memory zeros(context_, kCols * sizeof(float));
  must(ligerdsl_buffer_fill(context_, zeros.data(), 0, zeros.bytes(), nullptr), "fill");
  const Comparison comparison(context_, DType::f32);
  EXPECT_EQ(comparison.differences(Regions(1, {}, rows_), kCols, zeros.data(), table.data(), {}),
            "");
}

}  // namespace
}  // namespace ligerdsl::test::distant_rows_test
