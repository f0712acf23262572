// One operation with settings and tensors. Commands such as `run` and `bench` make it from texts
// like "rms_norm_forward dtype=bf16 N=16384 H=8192".
//
// A setting is name=value. The name is one of
// - a field of the descriptor (n_cols, dtype, eps, in_place ...),
// - a numeric argument (lr, step ...),
// - a size: a letter of the tensors' shapes (N, H ...),
// - config.NAME: a choice of the kernel's schedule.
// Other fields and sizes have defaults.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "lib/abi/context.h"
#include "lib/abi/op_info.h"
#include "lib/abi/plan.h"
#include "lib/instance/kernel_config.h"
#include "lib/instance/npy.h"
#include "lib/instance/op_defaults.h"
#include "lib/instance/settings.h"

namespace ligerdsl::cli {

// Returns the operation `name`. If there is none, throws Failure (kUsage) with the names of all
// operations and the names in `also`.
const lib::OpInfo& find_op(const std::string& name, const std::vector<std::string>& also = {});

// Returns the names of the operation's settings, except config.NAME.
std::vector<std::string> setting_names(const lib::OpInfo& info);

class OpInstance {
 public:
  // Throws Failure (kUsage) for a setting that the operation does not have.
  OpInstance(const lib::OpInfo& info, const std::vector<std::string>& settings);

  struct Slot {
    std::string name;
    const lib::TensorInfo* info;  // null for a tensor of a TensorList
    DType dtype;
    std::vector<int64_t> shape;
    int same_as = -1;  // slot whose memory this in-place slot shares, or -1
    void* data = nullptr;
    ligerdsl_tensor_t tensor{};
  };

  const lib::OpInfo& info() const { return info_; }
  const OpDefaults& defaults() const { return defaults_; }
  const void* desc() const { return desc_; }
  std::vector<Slot>& slots() { return slots_; }
  const std::vector<Slot>& slots() const { return slots_; }
  Slot* find(const std::string& name);
  const Slot* find(const std::string& name) const {
    return const_cast<OpInstance*>(this)->find(name);
  }
  // Return the descriptor field or numeric argument `name`, or `missing` if there is none.
  double number(const std::string& name, double missing) const;
  int64_t integer(const std::string& name, int64_t missing) const;  // exact, unlike a double
  // Returns the size with this letter.
  int64_t size(const std::string& letter) const;

  // Makes the operation's plan, with the schedule that settings choose.
  std::unique_ptr<lib::Plan> plan(const lib::ContextRef& context);
  // Returns the configurations of the last plan's kernels.
  const ConfigSettings& config() const { return config_; }

  // Gives a slot the shape of the array that will be written to it, and updates the sizes of other
  // slots. Call it before allocate(). Throws Failure (kUsage) if settings or another array
  // conflict.
  void take_shape(const std::string& name, const Array& array);

  // Gives tensors consecutive aligned addresses without memory, for a call that never runs. Call it
  // before allocate().
  void place_tensors(const lib::Plan& plan);
  // Returns the index of the schedule that the plan uses for a call with these sizes
  // (OpPlan::schedule). Call it before allocate().
  size_t schedule(const lib::Plan& plan);
  static std::byte* address_of_workspace() {
    return reinterpret_cast<std::byte*>(uintptr_t{1} << 60);
  }

  // Returns the bytes of device memory that allocate() and this number of workspaces, with guards,
  // would need. Call it before allocate().
  double bytes_to_allocate(const lib::Plan& plan, int workspaces, size_t guard);
  // Allocates device memory. Fills inputs with random numbers from a fixed seed, and outputs with a
  // pattern that kernels do not write. Fills `guard` bytes, a multiple of 256, before and after
  // each tensor for broken_guard().
  void allocate(const lib::ContextRef& context, size_t guard = 0);
  // Returns the first tensor with a changed guard byte, or "".
  std::string broken_guard() const;
  void write(Slot& slot, const std::string& bytes);
  std::string read(const Slot& slot) const;
  std::string read(const Slot& slot, size_t first) const;  // reads the first `first` bytes

  // Returns a call that is bound to a plan. Its workspace_bytes is set, its workspace is not. Valid
  // as long as this object.
  lib::Call bound(const lib::Plan& plan);
  // Makes call() ready for Plan::execute and allocates its workspace, which lives as long as this
  // object.
  void prepare(const lib::Plan& plan);
  lib::Call& call() { return call_; }

  // Returns the bytes that the operation must move: inputs read once, outputs written once.
  double bytes_moved() const;
  // Returns the bytes that a call needs in addition to its inputs: outputs that are not in place,
  // and the workspace.
  double bytes_beyond_inputs() const;
  // Returns the number of floating-point operations, or 0 if memory limits the operation's time.
  double flops() const;
  // Returns the given settings and all sizes: "dtype=bf16 N=16384 H=8192".
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
  // Returns a formula's value, or `missing` without a formula.
  double value(Formula formula, double missing) const;
  void make_slots();
  void describe_tensors(const lib::ContextRef& context);
  bool reads(const Slot& slot) const;
  bool writes(const Slot& slot) const;
  std::vector<int64_t> shape_of(const lib::TensorInfo& tensor) const;
  std::string random_bytes(const Slot& slot) const;  // random bytes of one period
  void fill_random(const Slot& slot, size_t bytes) const;

  const lib::OpInfo& info_;
  const OpDefaults& defaults_;
  alignas(8) std::byte desc_[lib::kMaxStruct];
  alignas(8) std::byte args_[lib::kMaxStruct];
  // A size that was given (-1: none), and the name of the setting or array that gave it.
  struct Chosen {
    int64_t size = -1;
    std::string from;
  };
  std::vector<Chosen> chosen_;                    // indexed by symbol
  std::vector<int64_t> sizes_;                    // indexed by symbol: chosen, derived or default
  std::set<std::string> chosen_fields_;           // fields set by settings
  int64_t list_length_ = 1, list_elements_ = -1;  // list_elements_ = -1 means the default
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
