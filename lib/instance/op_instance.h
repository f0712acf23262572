// One operation with settings and tensors: what `run`, `bench` and `compile` make of "rms_norm_forward dtype=bf16
// N=16384 H=8192".
//
// A setting is name=value, where the name is a field of the description (n_cols, dtype, eps, in_place ...), a number
// among the arguments (lr, step ...), or a size: a letter of the tensors' shapes (N, H ...). What is not set takes a
// default. config.NAME=VALUE is a choice of the kernel's schedule.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "lib/instance/kernel_config.h"
#include "lib/instance/npy.h"
#include "lib/instance/settings.h"
#include "lib/src/context.h"
#include "lib/src/op_info.h"
#include "lib/src/plan.h"

namespace ligerdsl::cli {

// The operation of this name. Throws Failure (kUsage) with the names that exist, and `also` with them.
const lib::OpInfo& find_op(const std::string& name, const std::vector<std::string>& also = {});

// What may stand before = in a setting, but for config.NAME.
std::vector<std::string> setting_names(const lib::OpInfo& info);

// Tensors of sorted numbers from 0 to all rows: bounds of groups and of sequences.
bool is_bounds(const std::string& tensor);

class OpInstance {
 public:
  // Throws Failure (kUsage) for a setting that the operation does not have.
  OpInstance(const lib::OpInfo& info, const std::vector<std::string>& settings);

  struct Slot {
    std::string name;
    const lib::TensorInfo* info;  // null: a tensor of the list
    DType dtype;
    std::vector<int64_t> shape;
    int same_as = -1;  // in place: the slot whose memory this one shares
    void* data = nullptr;
    ligerdsl_tensor_t tensor{};
  };

  const lib::OpInfo& info() const { return info_; }
  const void* desc() const { return desc_; }
  std::vector<Slot>& slots() { return slots_; }
  const std::vector<Slot>& slots() const { return slots_; }
  Slot* find(const std::string& name);
  const Slot* find(const std::string& name) const { return const_cast<OpInstance*>(this)->find(name); }
  // A field of the description or a number among the arguments, or `missing` when the operation has none of the name.
  double number(const std::string& name, double missing) const;
  int64_t integer(const std::string& name, int64_t missing) const;  // all bits of one that is no float
  // What a letter of the tensors' shapes stands for.
  int64_t size(const std::string& letter) const;

  // The operation's plan, with the schedule that the settings choose.
  std::unique_ptr<lib::Plan> plan(const lib::ContextRef& context);
  // The kernels of the last plan that have a schedule to choose, and theirs.
  const ConfigSettings& config() const { return config_; }

  // A slot's shape follows an array that will be put there; sizes of other slots follow it. Call before allocate().
  // Throws Failure (kUsage) when settings or another array say otherwise.
  void take_shape(const std::string& name, const Array& array);

  // Aligned addresses that are never followed, one tensor behind the other, for a call that nothing runs. Call before
  // allocate().
  void place_tensors(const lib::Plan& plan);
  // Which of the plan's schedules such a call takes (OpPlan::schedule). Call before allocate().
  size_t schedule(const lib::Plan& plan);
  static std::byte* address_of_workspace() { return reinterpret_cast<std::byte*>(uintptr_t{1} << 60); }

  // Device memory that allocate() and so many workspaces for the plan would take. Call before allocate().
  double bytes_to_allocate(const lib::Plan& plan, int workspaces, size_t guard);
  // Device memory, inputs filled with numbers of a fixed seed, outputs with a pattern that no kernel writes by chance.
  // `guard` bytes before and behind each tensor, a multiple of 256, are filled for broken_guard() to look at.
  void allocate(const lib::ContextRef& context, size_t guard = 0);
  // The first tensor with a byte beside it that was written; empty: none.
  std::string broken_guard() const;
  void write(Slot& slot, const std::string& bytes);
  std::string read(const Slot& slot) const;
  std::string read(const Slot& slot, size_t first) const;  // bytes

  // Checked and counted for a plan, but without a workspace; valid as long as this object.
  lib::Call bound(const lib::Plan& plan);
  // The same ready for Plan::execute; allocates the workspace. Valid as long as this object.
  void prepare(const lib::Plan& plan);
  lib::Call& call() { return call_; }

  // Bytes that the operation must move: inputs read once, outputs written once.
  double bytes_moved() const;
  // Memory that a call needs besides its inputs: outputs that share no input's memory, and the workspace.
  double bytes_beyond_inputs() const;
  // Floating-point operations of an operation that multiplies matrices; 0 for others.
  double flops() const;
  // "dtype=bf16 N=16384 H=8192": the settings that differ from the defaults, and all sizes.
  std::string title() const;

  ~OpInstance();
  OpInstance(const OpInstance&) = delete;
  OpInstance& operator=(const OpInstance&) = delete;

 private:
  void apply_defaults();
  void apply(const Setting& setting);
  bool set_field(const Setting& setting);
  bool set_value(const Setting& setting);
  void choose_size(int symbol, int64_t size, const std::string& from);
  void finish_sizes();
  void make_slots();
  void describe_tensors(const lib::ContextRef& context);
  bool reads(const Slot& slot) const;
  bool writes(const Slot& slot) const;
  std::vector<int64_t> shape_of(const lib::TensorInfo& tensor) const;
  const char* rows_of_bounds(const std::string& tensor) const;  // their letter
  std::string random_bytes(const Slot& slot) const;             // the first, which repeat
  void fill_random(const Slot& slot, size_t bytes) const;

  const lib::OpInfo& info_;
  alignas(8) std::byte desc_[lib::kMaxStruct];
  alignas(8) std::byte args_[lib::kMaxStruct];
  // What a setting or an array says about a size, and which of them; -1: nothing did.
  struct Chosen {
    int64_t size = -1;
    std::string from;
  };
  std::vector<Chosen> chosen_;  // by symbol
  std::vector<int64_t> sizes_;  // by symbol: chosen, derived from others, or default
  bool queries_chosen_ = false;
  std::set<std::string> longest_chosen_;          // names of fields
  int64_t list_length_ = 1, list_elements_ = -1;  // -1: default
  std::vector<Slot> slots_;
  std::vector<ligerdsl_tensor_t> list_;
  std::vector<std::string> settings_;
  ConfigSettings config_;
  lib::ContextRef context_;
  std::vector<void*> memory_;
  size_t guard_ = 0;
  lib::Call call_{};
};

}  // namespace ligerdsl::cli
