// A context of the C ABI holds a device, the plans of the one-call form, their scratch memory, and
// the words in which kernels report faults.
#pragma once

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/core/launch.h"
#include "lib/abi/bind.h"
#include "lib/abi/error_flags.h"
#include "lib/abi/kernel_configs.h"
#include "lib/abi/op_info.h"
#include "lib/abi/plan_cache.h"
#include "lib/abi/tuned_configs.h"
#include "runtime/device/device.h"
#include "runtime/environment/log.h"
#include "runtime/system/fork.h"

namespace ligerdsl::lib {

class Plan;

// Caller's functions that allocate the workspace of the one-call form. Without these functions, the
// context keeps scratch memory of its own.
struct WorkspaceSource {
  void* user = nullptr;
  void* (*alloc)(void* user, size_t bytes, size_t align, ligerdsl_stream_t stream) = nullptr;
  void (*free)(void* user, void* pointer, ligerdsl_stream_t stream) = nullptr;
};

struct ContextOptions {
  bool validate = false;       // runs calls by run_validated()
  bool deterministic = false;  // rejects authors' kernels that add floats atomically
  bool no_jit = false;         // loads all kernels from the cache and never compiles
  std::string table = {};      // path of a table of tuned kernels; empty: LIGERDSL_TABLE
  runtime::LogCallback log = nullptr;
  void* log_user = nullptr;
  WorkspaceSource workspace = {};
};

// Returns the processor for which CPU kernels are compiled: LIGERDSL_CPU, or this one.
Target cpu_target();

class Context {
 public:
  explicit Context(const runtime::DeviceConfig& config, const ContextOptions& options = {});
  virtual ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  runtime::Device& device() { return *device_; }
  ligerdsl_device_t api_device() const { return api_device_; }
  const ContextOptions& options() const { return options_; }

  // Plans call these functions when they choose and load kernels. The `ligerdsl` command overrides
  // them, for example to record the kernels of a plan.
  virtual kernels::Machine machine() const;
  virtual program::CompileOptions base_options() { return device_->base_options(); }
  virtual std::shared_ptr<runtime::LoadedKernel> load(const std::string& program_bytes,
                                                      const program::CompileOptions& options) {
    return device_->load(program_bytes, options);
  }
  virtual std::shared_ptr<runtime::Matmul> matmul() { return device_->matmul(); }

  // Source of kernel configurations for plans: tables of tuned kernels, or null for the heuristics.
  // Must not change while a plan is made.
  KernelConfigs* kernel_configs() const { return kernel_configs_; }
  void set_kernel_configs(KernelConfigs* configs) { kernel_configs_ = configs; }
  // Returns the tables of tuned kernels (the initial kernel_configs()), or null.
  TunedConfigs* tuned() { return tuned_.get(); }
  // Returns the configuration of an author's kernel in the tables, or "". The text lives as long as
  // the context.
  const char* tuned_author_kernel(std::string_view kernel, std::string_view options);
  // Returns the name of this device in tables. For a CPU this loads the compiler, because only the
  // compiler knows the CPU's architecture.
  virtual TunedDevice tuned_device();

  // Returns the word in which an operation's kernels report an out-of-range label, index or bounds.
  BoundTensor error_word(const OpInfo& info) const { return faults_.word(info.index); }
  // Returns and clears the fault of one operation, or returns nothing if no operation has reported
  // a fault. Does not wait for the device.
  std::optional<Fault> poll();
  // Waits for the stream, then polls. Throws INVALID_LABEL or INVALID_BOUNDS.
  void check(runtime::Stream stream);

  // Maximum number of plans of the one-call form. A training step uses some dozens; a plan needs 20
  // to 170 KB.
  static constexpr size_t kMostPlans = 512;
  PlanCache& plans() { return plans_; }

  // Returns the number of calls of an operation that ran. Plans increment it.
  std::atomic<int64_t>& calls_of(const OpInfo& info) { return calls_[info.index]; }

  // Scratch memory for one call of an operation:
  // - from the caller, if the options name a WorkspaceSource,
  // - on a GPU, the stream's memory, because calls on one stream run in order,
  // - on a CPU, an idle block, which the destructor gives back.
  // Allocates memory if there is too little; on a captured stream it throws CAPTURE_UNSAFE instead.
  // On a GPU, other threads' calls on the stream wait until the lease ends, so that launches of two
  // calls that share scratch memory do not interleave.
  class Lease {
   public:
    Lease(Context& context, const OpInfo& info, size_t bytes, runtime::Stream stream);
    ~Lease();
    std::byte* data() const { return static_cast<std::byte*>(block_.data); }

   private:
    friend class Context;
    struct Block {
      void* data = nullptr;
      size_t bytes = 0;
    };
    struct OfStream {
      std::mutex calls;
      Block block;
    };
    Context& context_;
    runtime::Stream stream_;
    std::unique_lock<std::mutex> call_;  // GPU
    Block block_;
  };

 private:
  std::unique_ptr<TunedConfigs> open_tables();
  Lease::Block largest_idle();
  Lease::Block take_idle(size_t bytes);
  Lease::Block from_caller(size_t bytes, runtime::Stream stream);
  Lease::OfStream& scratch_of(runtime::Stream stream);
  void grow(Lease::OfStream& scratch, const OpInfo& info, size_t bytes, runtime::Stream stream);

  // Passes log lines to the caller's function, from before the device is created until after its
  // destruction.
  class LogSubscription {
   public:
    explicit LogSubscription(const ContextOptions& options)
        : id_(options.log ? runtime::add_log_callback(options.log, options.log_user) : 0) {}
    ~LogSubscription() {
      if (id_ != 0) runtime::remove_log_callback(id_);
    }
    LogSubscription(const LogSubscription&) = delete;

   private:
    int id_;
  };

  ContextOptions options_;
  std::unique_ptr<std::atomic<int64_t>[]> calls_;  // indexed by OpInfo::index
  LogSubscription log_;
  std::unique_ptr<TunedConfigs> tuned_;  // null: no table
  KernelConfigs* kernel_configs_ = nullptr;
  std::shared_ptr<runtime::Device> device_;
  ligerdsl_device_t api_device_;
  ErrorFlags faults_;

  runtime::ForkMutex texts_mutex_;
  std::set<std::string, std::less<>> texts_;  // results of tuned_author_kernel()

  PlanCache plans_{kMostPlans};

  runtime::ForkMutex scratch_mutex_;
  std::vector<Lease::Block> idle_;  // CPU
  // GPU: by stream, and also by thread for the handle of the per-thread stream (stream_per_thread).
  std::map<std::pair<runtime::Stream, uint64_t>, Lease::OfStream> by_stream_;
  std::vector<void*> retired_;  // GPU: replaced blocks; queued work may still use them
};

}  // namespace ligerdsl::lib
