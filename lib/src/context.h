// What a context of the C ABI holds: a device, the plans of the one-call form, scratch memory for them, and the words
// that kernels report faults in.
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
#include "lib/src/bind.h"
#include "lib/src/fault_words.h"
#include "lib/src/kernel_configs.h"
#include "lib/src/op_info.h"
#include "lib/src/plan_cache.h"
#include "lib/src/tuned_configs.h"
#include "runtime/device/device.h"
#include "runtime/environment/log.h"
#include "runtime/system/fork.h"

namespace ligerdsl::lib {

class Plan;

// Who brings the workspace of one-call forms; without functions, the context keeps some.
struct WorkspaceSource {
  void* user = nullptr;
  void* (*alloc)(void* user, size_t bytes, size_t align, ligerdsl_stream_t stream) = nullptr;
  void (*free)(void* user, void* pointer, ligerdsl_stream_t stream) = nullptr;
};

struct ContextOptions {
  bool validate = false;       // calls go through run_validated
  bool deterministic = false;  // authors' kernels with an order of their own are refused
  std::string table = {};      // path of a table of tuned kernels; empty: LIGERDSL_TABLE
  runtime::LogCallback log = nullptr;
  void* log_user = nullptr;
  WorkspaceSource workspace = {};
};

// The processor that CPU kernels are made for: LIGERDSL_CPU, else this one.
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

  // What plans ask when they choose and load kernels. The command's `compile` records the kernels of a plan here
  // instead.
  virtual kernels::Machine machine() const;
  virtual program::CompileOptions base_options() { return device_->base_options(); }
  virtual std::shared_ptr<runtime::LoadedKernel> load(const std::string& program_bytes,
                                                      const program::CompileOptions& options) {
    return device_->load(program_bytes, options);
  }
  virtual std::shared_ptr<runtime::Matmul> matmul() { return device_->matmul(); }

  // How plans configure their kernels: as tables of tuned kernels say; null: as the heuristics say. Not to change while
  // a plan is made.
  KernelConfigs* kernel_configs() const { return kernel_configs_; }
  void set_kernel_configs(KernelConfigs* configs) { kernel_configs_ = configs; }
  // The tables that kernel_configs() is at first, or null.
  TunedConfigs* tuned() { return tuned_.get(); }
  // What tables say of a kernel that is not the library's; "": nothing. It stays as long as the context.
  const char* tuned_author_kernel(std::string_view kernel, std::string_view options);
  // What tables name this device by. A CPU's architecture is known to the compiler only, which this loads.
  virtual TunedDevice tuned_device();

  // The word in which kernels of an operation report a label, an index or bounds out of range.
  BoundTensor error_word(const OpInfo& info) const { return faults_.word(info.index); }
  // What was reported so far, of one operation, which is cleared. Does not wait.
  std::optional<Fault> poll();
  // Waits for the stream, then polls. Throws INVALID_LABEL or INVALID_BOUNDS.
  void check(runtime::Stream stream);

  // Of the one-call form, by operation and description. A trainer's step has some dozens; a plan takes 20 to 170 KB.
  static constexpr size_t kMostPlans = 512;
  PlanCache& plans() { return plans_; }

  // How often an operation of the table ran; plans count there.
  std::atomic<int64_t>& calls_of(const OpInfo& info) { return calls_[info.index]; }

  // Scratch memory for one call. The caller's where the options name a source. Else of a stream on a GPU, where calls
  // are in order; borrowed on a CPU. Grows by allocating, which a captured stream does not allow (CAPTURE_UNSAFE). While
  // it lives, calls of other threads on the same stream wait: launches of two calls that share scratch must not
  // alternate.
  class Lease {
   public:
    Lease(Context& context, size_t bytes, runtime::Stream stream);
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
  void grow(Lease::OfStream& scratch, size_t bytes, runtime::Stream stream);

  // Gets the log's lines as long as it lives: before the device is made and until it is gone.
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
  std::unique_ptr<std::atomic<int64_t>[]> calls_;  // by OpInfo::index
  LogSubscription log_;
  std::unique_ptr<TunedConfigs> tuned_;  // null: there is no table
  KernelConfigs* kernel_configs_ = nullptr;
  std::shared_ptr<runtime::Device> device_;
  ligerdsl_device_t api_device_;
  FaultWords faults_;

  runtime::ForkMutex texts_mutex_;
  std::set<std::string, std::less<>> texts_;  // that were given away

  PlanCache plans_{kMostPlans};

  runtime::ForkMutex scratch_mutex_;
  std::vector<Lease::Block> idle_;  // CPU
  // GPU, by stream, and by thread where each thread has a stream of its own behind the same handle.
  std::map<std::pair<runtime::Stream, uint64_t>, Lease::OfStream> by_stream_;
  std::vector<void*> retired_;  // GPU: outgrown, perhaps still in use by queued work
};

}  // namespace ligerdsl::lib
