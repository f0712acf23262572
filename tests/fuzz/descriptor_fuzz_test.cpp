// Calls every operation of the C ABI with random descriptors and tensors: sizes around every limit,
// and any strides, ranks, types, addresses and overlaps. A call must either fail with an error that
// reports the caller's mistake, or make only valid launches: each keeps its kernel's promises and
// stays inside the caller's memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string_view>

#include "checked_context.h"
#include "fuzz_budget.h"
#include "lib/abi/entry.h"
#include "lib/abi/handles.h"
#include "lib/abi/structs.h"

namespace ligerdsl::test {
namespace {

using lib::FieldInfo;
using lib::FieldRole;
using lib::FieldType;
using lib::OpInfo;
using lib::ShapeKind;
using lib::TensorInfo;

// Addresses of memory that does not exist. Each tensor starts at a multiple of kSpace.
constexpr uint64_t kSpace = uint64_t{1} << 40, kWorkspace = uint64_t{1} << 46;

// Builds one random call.
class CallFuzz {
 public:
  CallFuzz(const OpInfo& info, unsigned seed) : info_(info), random_(seed) {
    std::memcpy(desc_, info.desc_defaults, info.desc_size);
    std::memcpy(args_, info.args_defaults, info.args_size);
    for (const FieldInfo& field : info.fields) set_field(field);
    if (!once_in(8)) relate_head();
    if (!once_in(3)) relate_gradients();
    if (has_sequences() && !once_in(8)) relate_sequences();
    const lib::BindRules rules = lib::make_bind_rules(info, desc_, {LIGERDSL_CPU, 0});
    for (int i = 0; i < lib::kMaxSymbols; ++i)
      sizes_[i] = rules.sizes[i] > 0 ? rules.sizes[i] : free_size();
    if (!once_in(8)) relate_shards();
    if (!once_in(8)) relate_groups();
    if (!once_in(8)) relate_reduced();
    for (size_t i = 0; i < info.tensors.size(); ++i)
      if (rules.given[i] || once_in(40)) make_tensor(info.tensors[i], rules.dtypes[i]);
    if (rules.in_place) share();
    if (info.list_offset >= 0) make_list();
    for (const lib::ValueInfo& value : info.values) set_value(value);
    while (once_in(3)) spoil();
  }

  const void* desc() const { return desc_; }
  const void* args() const { return args_; }
  // Returns the row count that the call had before mistakes were added to it.
  int64_t rows_meant() const {
    const auto found = std::find(info_.symbols.begin(), info_.symbols.end(), std::string_view("N"));
    return found == info_.symbols.end() ? -1 : sizes_[found - info_.symbols.begin()];
  }

  // Returns all memory that the call may access: the tensors as described, and the workspace.
  std::vector<Memory> memory(size_t workspace) const {
    std::vector<Memory> all{{"workspace", kWorkspace, kWorkspace + workspace}};
    for (const auto& tensor : tensors_) all.push_back(reach(tensor->tensor, tensor->shape.size()));
    for (const ligerdsl_tensor_t& tensor : list_)
      all.push_back(reach(tensor, static_cast<size_t>(tensor.ndim)));
    return all;
  }

 private:
  int pick(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  bool once_in(int n) { return pick(n) == 0; }

  int64_t width() {
    constexpr int64_t usual[] = {1, 2, 3, 7, 8, 16, 31, 64, 100, 128, 1000, 1024, 4096, 4097};
    constexpr int64_t odd[] = {
        0, -1, 128256, INT32_MAX, int64_t{1} << 31, int64_t{1} << 40, INT64_MAX, INT64_MIN};
    return once_in(30) ? odd[pick(8)] : usual[pick(14)];
  }
  int64_t rows() {
    constexpr int64_t usual[] = {0, 1, 2, 3, 4, 5, 8, 64, 1000, 65536};
    constexpr int64_t odd[] = {
        -1, INT32_MAX, int64_t{1} << 31, (int64_t{1} << 32) + 1, int64_t{1} << 50, INT64_MAX};
    return once_in(10) ? odd[pick(6)] : usual[pick(10)];
  }

  int64_t* size(std::string_view letter) {
    const auto found = std::find(info_.symbols.begin(), info_.symbols.end(), letter);
    return found == info_.symbols.end() ? nullptr : &sizes_[found - info_.symbols.begin()];
  }

  // Returns true if the size with this letter is a field of the descriptor.
  bool is_held(std::string_view letter) const {
    return std::any_of(info_.fields.begin(), info_.fields.end(), [&](const FieldInfo& field) {
      return field.role == FieldRole::dim && info_.symbols[field.symbol] == letter;
    });
  }
  bool has_field(std::string_view beginning) const {
    return std::any_of(info_.fields.begin(), info_.fields.end(), [&](const FieldInfo& field) {
      return std::string_view(field.name).starts_with(beginning);
    });
  }
  bool has_sequences() const { return has_field("max_seqlen_"); }

  // Vocabulary-parallel losses: sets the number of statistics per row (3 or 5), and the row count
  // over all shards.
  void relate_shards() {
    if (!size("C") || is_held("C")) return;
    *size("C") = once_in(2) ? 3 : 5;
    const int64_t rows = *size("N");
    if (int64_t* all = size("M"); all && rows < (int64_t{1} << 40)) *all = rows * (1 + pick(3));
  }

  // Grouped operations: sets the number of group offsets to the number of groups + 1.
  void relate_groups() {
    if (int64_t* bounds = size("O"); bounds && *size("E") < INT64_MAX) *bounds = *size("E") + 1;
  }

  // Attention of sequences: sets the length of the longest sequence.
  void relate_sequences() {
    for (const FieldInfo& field : info_.fields)
      if (std::string_view(field.name).starts_with("max_seqlen_"))
        set(field.offset, field.type, 0, 1 + pick(4096), desc_);
  }

  // Gives the gradients of weight and bias one dtype.
  void relate_gradients() {
    int64_t dtype = 0;
    for (const FieldInfo& field : info_.fields) {
      const std::string_view name = field.name;
      if (name != "d_weight_dtype" && name != "d_bias_dtype") continue;
      const int64_t own = lib::read_integer(desc_, field.offset, field.type);
      if (own && dtype) set(field.offset, field.type, 0, dtype, desc_);
      if (own && !dtype) dtype = own;
    }
  }

  bool is_head() const { return has_field("products"); }

  // Gives each optional tensor of an lm_head its dtype or f32, or omits the tensor. Sets a
  // workspace limit that can be met.
  void relate_head() {
    if (!is_head()) return;
    int64_t dtype = 0;
    for (const FieldInfo& field : info_.fields) {
      const std::string_view name = field.name;
      if (name == "dtype") dtype = lib::read_integer(desc_, field.offset, field.type);
      if (field.role == FieldRole::dtype && field.optional && name != "label_dtype") {
        const int64_t choices[] = {0, dtype, LIGERDSL_F32};
        set(field.offset, field.type, 0, choices[pick(3)], desc_);
      }
      if (name == "max_workspace_bytes")
        set(field.offset, field.type, 0, once_in(2) ? int64_t{1} << (16 + pick(24)) : 0, desc_);
    }
  }

  // Gives the loss, statistics and upstream gradient of an lm_head one element per row, or with a
  // reduced loss a single element.
  void relate_reduced() {
    if (!is_head()) return;
    bool by_row = false;
    for (const FieldInfo& field : info_.fields)
      if (std::string_view(field.name) == "reduction")
        by_row = lib::read_integer(desc_, field.offset, field.type) == LIGERDSL_REDUCTION_NONE;
    for (size_t i = 0; i < info_.symbols.size(); ++i)
      if (std::string_view("LZRG").find(info_.symbols[i]) != std::string_view::npos)
        sizes_[i] = by_row ? rows_meant() : 1;
  }

  // Returns 1, for a reduced result, or a random number of rows.
  int64_t free_size() { return once_in(3) ? 1 : rows(); }

  void set(size_t offset, FieldType type, double number, int64_t integer, std::byte* base) {
    if (type == FieldType::f32) {
      const float value = static_cast<float>(number);
      std::memcpy(base + offset, &value, sizeof value);
    } else if (type == FieldType::i64) {
      std::memcpy(base + offset, &integer, sizeof integer);
    } else {
      const auto value = static_cast<int32_t>(integer);
      std::memcpy(base + offset, &value, sizeof value);
    }
  }
  double number() {
    constexpr double values[] = {0, 1e-6, 0.1, 1, 2, -1, 1e30};
    return once_in(30) ? (once_in(2) ? NAN : INFINITY) : values[pick(7)];
  }
  int64_t dtype_code(uint32_t allowed) {
    constexpr int32_t codes[] = {LIGERDSL_F32, LIGERDSL_F16, LIGERDSL_BF16,   LIGERDSL_I32,
                                 LIGERDSL_I64, LIGERDSL_I8,  LIGERDSL_F8E4M3, LIGERDSL_F8E5M2};
    std::vector<int32_t> fitting;
    for (const int32_t code : codes) {
      DType type;
      if (lib::dtype_from_code(code, &type) && (allowed & lib::bit(type))) fitting.push_back(code);
    }
    if (fitting.empty() || once_in(60)) return once_in(2) ? 0 : pick(1 << 20);
    return fitting[static_cast<size_t>(pick(static_cast<int>(fitting.size())))];
  }
  void set_field(const FieldInfo& field) {
    int64_t value = 0;
    switch (field.role) {
      case FieldRole::dim:
      case FieldRole::queries:
        value = width();
        break;
      case FieldRole::dtype:
        value = field.optional && once_in(3) ? 0 : dtype_code(field.dtypes);
        break;
      case FieldRole::present:
      case FieldRole::absent:
      case FieldRole::in_place:
        value = pick(2);
        break;
      case FieldRole::option:
        if (field.type != FieldType::f32 && !once_in(3)) return;  // keeps the default
        value = field.range.high < 100 ? pick(static_cast<int>(field.range.high) + 1) : width();
        if (once_in(30)) value = -7;
        break;
    }
    set(field.offset, field.type,
        once_in(3) ? number() : static_cast<double>(lib::read_float(desc_, field.offset)), value,
        desc_);
  }
  void set_value(const lib::ValueInfo& value) {
    set(value.offset, value.type, number(), width(), args_);
  }

  struct Owned {
    ligerdsl_tensor_t tensor{};
    std::vector<int64_t> shape, strides;
  };

  uint64_t address(int64_t element) {
    const uint64_t base = kSpace * (tensors_.size() + 1);
    return once_in(4)    ? base + static_cast<uint64_t>(element * pick(9))
           : once_in(40) ? base + 1
                         : base;
  }

  ligerdsl_tensor_t* add(DType dtype, std::vector<int64_t> shape) {
    auto owned = std::make_unique<Owned>();
    owned->shape = std::move(shape);
    ligerdsl_tensor_t& t = owned->tensor;
    t.data = reinterpret_cast<void*>(address(size_of(dtype)));
    t.device = {LIGERDSL_CPU, 0};
    t.ndim = static_cast<int32_t>(owned->shape.size());
    for (const int32_t code :
         {LIGERDSL_F32, LIGERDSL_F16, LIGERDSL_BF16, LIGERDSL_I32, LIGERDSL_I64, LIGERDSL_I8,
          LIGERDSL_BOOL, LIGERDSL_F8E4M3, LIGERDSL_F8E5M2}) {
      DType type;
      if (lib::dtype_from_code(code, &type) && type == dtype) t.dtype = ligerdsl_dtype_of(code);
    }
    if (once_in(3)) pad_rows(*owned);
    t.shape = owned->shape.data();
    t.strides = owned->strides.empty() ? nullptr : owned->strides.data();
    if (once_in(10)) t.byte_offset = static_cast<uint64_t>(size_of(dtype)) * pick(20);
    tensors_.push_back(std::move(owned));
    return &tensors_.back()->tensor;
  }
  // Adds unused elements between rows, as in a slice of a wider tensor.
  void pad_rows(Owned& owned) {
    owned.strides.resize(owned.shape.size());
    int64_t step = 1;
    for (size_t i = owned.shape.size(); i-- > 0;) {
      owned.strides[i] = step;
      const int64_t n =
          std::min(owned.shape[i], int64_t{1} << 60) + (i + 1 == owned.shape.size() ? pick(9) : 0);
      step = n > 0 && step < (int64_t{1} << 50) / n ? step * n : step;
    }
  }

  void make_tensor(const TensorInfo& info, DType dtype) {
    std::vector<int64_t> shape;
    for (int i = 0; i < info.rank; ++i) {
      const lib::DimSpec& dim = info.dims[i];
      const int64_t size = dim.symbol < 0 ? 1 : sizes_[dim.symbol];
      const bool small = size >= 0 && size < (int64_t{1} << 55);
      if (info.shape == ShapeKind::leading && i == 0 && once_in(4) && size % 2 == 0) {
        shape.push_back(2);
        shape.push_back(size / 2);
        continue;
      }
      shape.push_back(small ? size * dim.factor : size);
    }
    if (info.shape == ShapeKind::free)  // the tables of rope have free shapes
      shape = {sizes_[static_cast<size_t>(pick(4))], sizes_[static_cast<size_t>(pick(6))]};
    const ligerdsl_tensor_t* tensor = add(dtype, shape);
    std::memcpy(args_ + info.offset, &tensor, sizeof tensor);
  }
  void make_list() {
    for (int i = 0, n = pick(4); i < n; ++i) add(DType::f32, {width()});
    for (const auto& owned : tensors_) list_.push_back(owned->tensor);
    const ligerdsl_tensor_t* first = list_.data();
    const int64_t count = once_in(30) ? width() % 100 : static_cast<int64_t>(list_.size());
    const int64_t known = std::min<int64_t>(count, static_cast<int64_t>(list_.size()));
    std::memcpy(args_ + info_.list_offset, &first, sizeof first);
    std::memcpy(args_ + info_.list_offset + sizeof first, &known, sizeof known);
  }
  // Passes an input as the output that may overwrite it, in half of the cases.
  void share() {
    for (const lib::AliasInfo& alias : info_.aliases) {
      const ligerdsl_tensor_t* input = lib::read_tensor(args_, info_.tensors[alias.input]);
      if (input && lib::read_tensor(args_, info_.tensors[alias.output]) && once_in(2))
        std::memcpy(args_ + info_.tensors[alias.output].offset, &input, sizeof input);
    }
  }

  // Adds one mistake to the call.
  void spoil() {
    if (tensors_.empty()) return;
    Owned& owned = *tensors_[pick(static_cast<int>(tensors_.size()))];
    ligerdsl_tensor_t& t = owned.tensor;
    switch (pick(11)) {
      case 0:
        t.ndim = once_in(2) ? pick(10) - 1 : t.ndim - 1;
        if (t.ndim > static_cast<int32_t>(owned.shape.size())) t.ndim = 9;
        break;
      case 1:
        if (!owned.shape.empty())
          owned.shape[pick(static_cast<int>(owned.shape.size()))] = once_in(2) ? width() : rows();
        break;
      case 2:
        if (!owned.strides.empty())
          owned.strides[pick(static_cast<int>(owned.strides.size()))] = width();
        break;
      case 3:
        t.dtype = ligerdsl_dtype_of(static_cast<int32_t>(dtype_code(~0u)));
        break;
      case 4:
        t.device = {pick(4), pick(3)};
        break;
      case 5:
        t.data = nullptr;
        break;
      case 6:
        t.data = tensors_[pick(static_cast<int>(tensors_.size()))]->tensor.data;
        break;
      case 7:
        t.byte_offset = once_in(2) ? 1 : static_cast<uint64_t>(width());
        break;
      case 8:
        t.shape = nullptr;
        break;
      case 9:
        desc_[pick(16)] ^= std::byte{1};  // struct_size or version of the descriptor
        break;
      default: {
        const FieldInfo& field = info_.fields[pick(static_cast<int>(info_.fields.size()))];
        set(field.offset, field.type, number(), width(), desc_);
      }
    }
  }

  // Returns the memory that the tensor's description covers, computed without overflow. Returns no
  // memory if the description is invalid.
  static Memory reach(const ligerdsl_tensor_t& t, size_t rank) {
    const uint64_t begin = reinterpret_cast<uintptr_t>(t.data) + t.byte_offset;
    if (t.ndim < 0 || t.ndim > static_cast<int32_t>(rank) || (t.ndim > 0 && !t.shape))
      return {"", 0, 0};
    __int128 last = 0, step = 1;
    for (int i = t.ndim - 1; i >= 0; --i) {
      if (t.shape[i] <= 0) return {"", begin, begin};
      last += (t.shape[i] - 1) * (t.strides ? static_cast<__int128>(t.strides[i]) : step);
      step *= t.shape[i];
    }
    const __int128 end = static_cast<__int128>(begin) + (last + 1) * (t.dtype.bits / 8);
    if (end < 0 || end > static_cast<__int128>(UINT64_MAX)) return {"", 0, 0};
    return {"tensor", begin, static_cast<uint64_t>(end)};
  }

  const OpInfo& info_;
  std::mt19937 random_;
  alignas(8) std::byte desc_[lib::kMaxStruct] = {};
  alignas(8) std::byte args_[lib::kMaxStruct] = {};
  int64_t sizes_[lib::kMaxSymbols];
  std::vector<std::unique_ptr<Owned>> tensors_;
  std::vector<ligerdsl_tensor_t> list_;
};

// Returns true if the status reports a mistake of the caller or a limit of this machine, and false
// for a fault of the library.
bool is_callers(ligerdsl_status_t status) {
  return status / 1000 == 2 || status == LIGERDSL_ABI_MISMATCH || status == LIGERDSL_NOT_SUPPORTED;
}

const OpInfo& op_named(const std::string& name) {
  const auto table = lib::op_table();
  return **std::find_if(table.begin(), table.end(),
                        [&](const OpInfo* info) { return info->name == name; });
}

class DescriptorFuzz : public testing::TestWithParam<std::string> {};

TEST_P(DescriptorFuzz, IsRefusedOrKeepsPromises) {
  const OpInfo& info = op_named(GetParam());
  constexpr unsigned kUsualSeeds = 400;
  const Budget budget = test::budget(kUsualSeeds);
  int accepted = 0, launches = 0;
  for (unsigned seed = budget.first_seed; seed < budget.first_seed + budget.count; ++seed) {
    SCOPED_TRACE(std::string(info.name) + " --seed=" + std::to_string(seed) + " --count=1");
    CallFuzz call(info, seed);
    auto owner = std::make_unique<lib::ContextRef>(
        std::make_shared<CheckedContext>(seed % 2 ? program::Target::nvptx : program::Target::cpu));
    const auto error_word = reinterpret_cast<uintptr_t>((*owner)->error_word(info).data);
    const auto context =
        static_cast<ligerdsl_context_t>(lib::make_handle(lib::HandleKind::context, owner.get()));
    ligerdsl_plan_t plan = nullptr;
    expectations() = {};
    const ligerdsl_status_t planned = lib::plan_entry(info, context, call.desc(), &plan);
    EXPECT_TRUE(planned == LIGERDSL_SUCCESS || is_callers(planned))
        << ligerdsl_status_name(planned) << ligerdsl_last_error();
    for (const std::string& violation : expectations().violations) ADD_FAILURE() << violation;
    if (planned == LIGERDSL_SUCCESS) {
      // The workspace is larger than any call needs or, for half of the seeds, as large as the plan
      // reports.
      size_t workspace = size_t{1} << 44;
      if (const int64_t rows = call.rows_meant(); rows >= 0 && seed % 4 < 2)
        workspace = std::min(workspace, ligerdsl_plan_workspace_bytes_for(plan, rows));
      expectations() = {call.memory(workspace)};
      expectations().allowed.push_back({"error word", error_word, error_word + sizeof(int64_t)});
      const ligerdsl_status_t status = lib::execute_entry(
          info, plan, call.args(), reinterpret_cast<void*>(kWorkspace), workspace, nullptr);
      EXPECT_TRUE(status == LIGERDSL_SUCCESS || is_callers(status))
          << ligerdsl_status_name(status) << ligerdsl_last_error();
      for (const std::string& violation : expectations().violations) ADD_FAILURE() << violation;
      accepted += status == LIGERDSL_SUCCESS;
      launches += expectations().launches;
      if (status != LIGERDSL_SUCCESS) {
        EXPECT_GT(std::strlen(ligerdsl_last_error()), std::strlen(info.name) + 10)
            << ligerdsl_last_error();
        EXPECT_EQ(std::strncmp(ligerdsl_last_error(), info.name, std::strlen(info.name)), 0)
            << ligerdsl_last_error();
      }
    }
    ligerdsl_plan_destroy(plan);
    lib::remove_handle(lib::HandleKind::context, context);
    if (HasFailure()) break;
  }
  if (budget.count < kUsualSeeds) return;  // too few seeds for the counts below
  EXPECT_GT(accepted, static_cast<int>(budget.count) / 80)
      << "the fuzzer generates too few valid calls";
  EXPECT_GT(launches, 0);
}

std::vector<std::string> ops() {
  std::vector<std::string> all;
  for (const OpInfo* info : lib::op_table()) all.emplace_back(info->name);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Ops, DescriptorFuzz, testing::ValuesIn(ops()),
                         [](const auto& row) { return row.param; });

}  // namespace
}  // namespace ligerdsl::test
