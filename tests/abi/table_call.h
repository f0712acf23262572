// Builds a descriptor and arguments for any operation from its row of the operation table. Tensors
// have unmapped addresses, so they may have any number of rows. Kernels do not run
// (tests/fuzz/checked_context.h).
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/abi/bind.h"
#include "lib/abi/entry.h"
#include "lib/abi/handles.h"
#include "lib/abi/structs.h"
#include "tests/fuzz/checked_context.h"

namespace ligerdsl::test {

// A context of the C ABI for one of the two targets.
class TableContext {
 public:
  explicit TableContext(program::Target target)
      : owner_(std::make_unique<lib::ContextRef>(std::make_shared<CheckedContext>(target))),
        handle_(static_cast<ligerdsl_context_t>(
            lib::make_handle(lib::HandleKind::context, owner_.get()))) {}
  ~TableContext() { lib::remove_handle(lib::HandleKind::context, handle_); }
  TableContext(const TableContext&) = delete;

  operator ligerdsl_context_t() const { return handle_; }
  lib::PlanCache& plans() const { return (*owner_)->plans(); }
  int64_t loads() const { return static_cast<const CheckedContext&>(**owner_).loads; }

 private:
  std::unique_ptr<lib::ContextRef> owner_;
  ligerdsl_context_t handle_;
};

// Returns true if a library may run the operation's matmuls. Tests make only invalid calls of such
// an operation, because valid ones would access unmapped memory.
inline bool multiplies(const lib::OpInfo& info) {
  return std::any_of(info.fields.begin(), info.fields.end(), [](const lib::FieldInfo& field) {
    return std::string_view(field.name) == "products";
  });
}

class TableCall {
 public:
  // Sets every width to `width`. `everything` passes all optional tensors.
  TableCall(const lib::OpInfo& info, int64_t width, bool everything) : info_(info) {
    std::memcpy(desc_, info.desc_defaults, info.desc_size);
    std::memcpy(args_, info.args_defaults, info.args_size);
    for (const lib::FieldInfo& field : info.fields) {
      if (field.role == lib::FieldRole::dim && (!field.optional || everything))
        set(field.name, width);
      if (field.role == lib::FieldRole::present) set(field.name, everything);
      if (field.role == lib::FieldRole::dtype && (!field.optional || everything))
        set(field.name, code_of(usual(field.dtypes)));
    }
    for (const char* longest : {"max_seqlen_q", "max_seqlen_k"})
      set(longest, static_cast<double>(width));
    set("n_modulations", 1);  // divides every number of rows
    if (!is_set("reduction")) set("reduction", LIGERDSL_REDUCTION_SUM);  // a result of one element
  }

  const lib::OpInfo& info() const { return info_; }
  const void* desc() const { return desc_; }
  const void* args() const { return args_; }

  // Sets a field of the description or a number of the arguments.
  void set(const std::string& name, double value) {
    for (const lib::FieldInfo& field : info_.fields)
      if (field.name == name) store(desc_ + field.offset, field.type, value);
    for (const lib::ValueInfo& number : info_.values)
      if (number.name == name) store(args_ + number.offset, number.type, value);
  }

  ligerdsl_status_t plan(ligerdsl_context_t context, ligerdsl_plan_t* plan) const {
    return lib::plan_entry(info_, context, desc_, plan);
  }

  // Makes tensors with `rows` rows; each operation defines what a row is.
  void make_tensors(int64_t rows) {
    tensors_.clear();
    const lib::BindRules rules = lib::make_bind_rules(info_, desc_, {LIGERDSL_CPU, 0});
    for (size_t i = 0; i < info_.tensors.size(); ++i) {
      const lib::TensorInfo& tensor = info_.tensors[i];
      if (!rules.given[i]) continue;
      const lib::FieldInfo& width = info_.fields[0];  // rope's tables: the width of a head
      std::vector<int64_t> shape{rows, lib::read_integer(desc_, width.offset, width.type)};
      if (tensor.shape != lib::ShapeKind::free) shape.clear();
      for (int d = 0; d < tensor.rank; ++d)
        shape.push_back(size_of_dim(rules, tensor.dims[d], rows));
      const ligerdsl_tensor_t* made = add(rules.dtypes[i], std::move(shape));
      std::memcpy(args_ + tensor.offset, &made, sizeof made);
    }
    if (info_.list_offset >= 0) make_list(rows);
  }

  // Returns true if the call writes a tensor.
  bool has_result() const {
    const lib::BindRules rules = lib::make_bind_rules(info_, desc_, {LIGERDSL_CPU, 0});
    for (size_t i = 0; i < info_.tensors.size(); ++i)
      if (rules.given[i] && info_.tensors[i].direction != lib::Direction::in) return true;
    return false;
  }

  // Returns a tensor that make_tensors made, for the test to change, or NULL if the call does not
  // pass it.
  ligerdsl_tensor_t* tensor(size_t index) {
    const ligerdsl_tensor_t* given = lib::read_tensor(args_, info_.tensors[index]);
    for (const auto& owned : tensors_)
      if (&owned->tensor == given) return &owned->tensor;
    return nullptr;
  }
  void set_strides(size_t index, std::vector<int64_t> strides) {
    for (const auto& owned : tensors_) {
      if (&owned->tensor != tensor(index)) continue;
      owned->strides = std::move(strides);
      owned->tensor.strides = owned->strides.data();
    }
  }

 private:
  static constexpr int64_t kListOverhead = 65536;  // rows that global_norm counts per tensor

  struct Owned {
    ligerdsl_tensor_t tensor;
    std::vector<int64_t> shape, strides;
  };

  static void store(std::byte* at, lib::FieldType type, double value) {
    const auto copy = [at](auto number) { std::memcpy(at, &number, sizeof number); };
    if (type == lib::FieldType::f32) return copy(static_cast<float>(value));
    if (type == lib::FieldType::i64) return copy(static_cast<int64_t>(value));
    copy(static_cast<int32_t>(value));
  }

  // Returns the size of a dimension that the descriptor does not determine, by its symbol:
  // - N, S (positions of rope), M, K, and all symbols of attention: `rows`
  // - C: statistics that a shard reports per row
  // - O: the E + 1 bounds of E groups
  // - others: 1, the size of a result of one element
  int64_t size_of_dim(const lib::BindRules& rules, const lib::DimSpec& dim, int64_t rows) const {
    if (dim.symbol < 0) return dim.factor;
    if (rules.sizes[dim.symbol] >= 0) return rules.sizes[dim.symbol] * dim.factor;
    const std::string symbol = info_.symbols[dim.symbol];
    if (symbol == "O") return rules.sizes[number_of("E")] + 1;
    if (symbol == "C") return is_set("with_smoothing") || is_set("label_smoothing") ? 5 : 3;
    if (std::string_view(info_.name).starts_with("attention_")) return rows;  // batches or tokens
    return symbol == "N" || symbol == "S" || symbol == "M" || symbol == "K" ? rows : 1;
  }

  size_t number_of(std::string_view symbol) const {
    size_t number = 0;
    while (symbol != info_.symbols[number]) ++number;
    return number;
  }

  bool is_set(const std::string& name) const {
    for (const lib::FieldInfo& field : info_.fields)
      if (field.name == name)
        return std::any_of(desc_ + field.offset, desc_ + field.offset + 4,
                           [](std::byte each) { return each != std::byte{0}; });
    return false;
  }

  static int32_t code_of(DType type) {
    return dtype_info(type).dlpack | static_cast<int32_t>(size_of(type)) * 8 << 8 | 1 << 16;
  }
  // Returns f32 or i64 if allowed, else f8e4m3.
  static DType usual(uint32_t dtypes) {
    for (const DType type : {DType::f32, DType::i64})
      if (dtypes & lib::bit(type)) return type;
    return DType::f8e4m3;
  }

  const ligerdsl_tensor_t* add(DType dtype, std::vector<int64_t> shape) {
    tensors_.push_back(std::make_unique<Owned>());
    Owned& owned = *tensors_.back();
    owned.shape = std::move(shape);
    owned.tensor = ligerdsl_tensor_make(
        reinterpret_cast<void*>(tensors_.size() << 59), {LIGERDSL_CPU, 0}, code_of(dtype),
        static_cast<int32_t>(owned.shape.size()), owned.shape.data());
    return &owned.tensor;
  }

  void make_list(int64_t rows) {
    const int64_t count = rows > kListOverhead ? 1 : 0;
    const ligerdsl_tensor_t* first = add(DType::f32, {rows - kListOverhead});
    std::memcpy(args_ + info_.list_offset, &first, sizeof first);
    std::memcpy(args_ + info_.list_offset + sizeof first, &count, sizeof count);
  }

  const lib::OpInfo& info_;
  alignas(8) std::byte desc_[lib::kMaxStruct] = {};
  alignas(8) std::byte args_[lib::kMaxStruct] = {};
  std::vector<std::unique_ptr<Owned>> tensors_;
};

inline std::vector<std::string> names_of_table() {
  std::vector<std::string> names;
  for (const lib::OpInfo* info : lib::op_table()) names.emplace_back(info->name);
  return names;
}
inline const lib::OpInfo& op_named(const std::string& name) {
  for (const lib::OpInfo* info : lib::op_table())
    if (info->name == name) return *info;
  throw std::invalid_argument(name);
}

}  // namespace ligerdsl::test
