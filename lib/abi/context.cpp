#include "lib/abi/context.h"

#include <algorithm>
#include <atomic>

#include "lib/abi/failure.h"
#include "lib/abi/plan.h"
#include "runtime/cuda/driver.h"
#include "runtime/environment/log.h"
#include "runtime/environment/options.h"

namespace ligerdsl::lib {

Context::Context(const runtime::DeviceConfig& config, const ContextOptions& options)
    : options_(options),
      calls_(std::make_unique<std::atomic<int64_t>[]>(op_table().size())),
      log_(options),
      tuned_(open_tables()),
      kernel_configs_(tuned_.get()),
      device_(runtime::Device::create(config)),
      api_device_{static_cast<int32_t>(config.kind), config.ordinal},
      faults_(*device_) {}

std::unique_ptr<TunedConfigs> Context::open_tables() {
  const runtime::Options& environment = runtime::options();
  if (environment.tuning == runtime::Tuning::off) return nullptr;
  std::vector<std::shared_ptr<const TunedTable>> tables = shipped_tables();
  const std::string& path = options_.table.empty() ? environment.table : options_.table;
  if (!path.empty())
    tables.insert(tables.begin(), std::make_shared<const TunedTable>(TunedTable::read(path)));
  if (tables.empty()) return nullptr;
  return std::make_unique<TunedConfigs>(
      std::move(tables), environment.tuning, [this] { return machine().is_gpu(); },
      [this] { return tuned_device(); });
}

const char* Context::tuned_author_kernel(std::string_view kernel, std::string_view options) {
  if (!tuned_) return "";
  const auto entry = tuned_->author_entry(kernel, options);
  if (!entry) return "";
  using runtime::LogLevel;
  if (runtime::log_enabled(LogLevel::info))
    runtime::log(LogLevel::info, taken_text(std::string(kernel).append(" ").append(options),
                                            *entry->table, entry->model));
  const std::string_view config = entry->config;
  const std::lock_guard lock(texts_mutex_);
  const auto known = texts_.find(config);
  return (known == texts_.end() ? *texts_.emplace(config).first : *known).c_str();
}

TunedDevice Context::tuned_device() {
  const kernels::Machine target = machine();
  const runtime::DeviceDescription& here = device_->description();
  if (!target.is_gpu()) return {device_->base_options().arch, here.threads, here.name};
  return {target.name, target.sms,
          device_->is_cpu() ? "" : here.name};  // a GPU that is not present has no model
}

Context::~Context() {
  plans_.clear();
  for (const Lease::Block& block : idle_) device_->free(block.data);
  for (const auto& [stream, scratch] : by_stream_) device_->free(scratch.block.data);
  for (void* pointer : retired_) device_->free(pointer);
}

Target cpu_target() {
  const std::string& level = runtime::options().cpu;
  return target_named(level.empty() ? "cpu" : level);
}

kernels::Machine Context::machine() const {
  if (device_->is_cpu()) return cpu_target();
  const program::CompileOptions& options = device_->base_options();
  kernels::Machine machine =
      kernels::gpu(options.arch, device_->description().multiprocessors, options.ptx_version);
  if (const int64_t l2_bytes = device_->description().l2_bytes; l2_bytes > 0)
    machine.l2_bytes = l2_bytes;
  return machine;
}

void Context::check(runtime::Stream stream) {
  device_->synchronize(stream);
  if (const auto fault = poll()) throw error_of(*fault);
}

std::optional<Fault> Context::poll() {
  if (!device_->is_cpu()) runtime::refuse_after_fork();  // a forked process cannot read the words
  return faults_.take();
}

namespace {

// Returns 1.5 times the bytes, because later calls often need slightly more; at least 4 KiB.
size_t scratch_size(size_t bytes) {
  return std::max<size_t>(bytes + bytes / 2, 4096);
}

}  // namespace

// Removes and returns the largest idle block; its `data` is null if there is none.
Context::Lease::Block Context::largest_idle() {
  const std::lock_guard lock(scratch_mutex_);
  const auto smaller = [](const Lease::Block& a, const Lease::Block& b) {
    return a.bytes < b.bytes;
  };
  const auto largest = std::max_element(idle_.begin(), idle_.end(), smaller);
  if (largest == idle_.end()) return {};
  const Lease::Block block = *largest;
  idle_.erase(largest);
  return block;
}

Context::Lease::Block Context::take_idle(size_t bytes) {
  const Lease::Block idle = largest_idle();
  if (idle.data && idle.bytes >= bytes) return idle;
  device_->free(idle.data);
  const size_t size = scratch_size(bytes);
  return {device_->alloc(size), size};
}

Context::Lease::OfStream& Context::scratch_of(runtime::Stream stream) {
  static std::atomic<uint64_t> threads{0};
  thread_local const uint64_t thread = ++threads;
  const std::lock_guard lock(scratch_mutex_);
  return by_stream_[{stream, stream == runtime::cuda::stream_per_thread ? thread : 0}];
}

void Context::grow(Lease::OfStream& scratch, const OpInfo& info, size_t bytes,
                   runtime::Stream stream) {
  if (device_->capturing(stream)) {
    fail(Status::capture_unsafe,
         "the stream is being captured, and the one-call form needs " + std::to_string(bytes) +
             " bytes of scratch memory, but this stream has " +
             std::to_string(scratch.block.bytes) +
             "; make the same call once before the capture, or create a plan before it (ligerdsl_" +
             info.name + "_plan) and capture ligerdsl_" + info.name +
             "_execute with a workspace of your own");
  }
  if (scratch.block.data) {
    const std::lock_guard lock(scratch_mutex_);
    retired_.push_back(scratch.block.data);
  }
  scratch.block = {};
  const size_t size = scratch_size(bytes);
  scratch.block = {device_->alloc(size), size};
}

Context::Lease::Block Context::from_caller(size_t bytes, runtime::Stream stream) {
  const WorkspaceSource& source = options_.workspace;
  void* data = source.alloc(source.user, bytes, kWorkspaceAlign,
                            reinterpret_cast<ligerdsl_stream_t>(stream));
  if (!data)
    fail(device_->is_cpu() ? Status::out_of_host_memory : Status::out_of_device_memory,
         "`workspace_alloc` returned NULL for " + std::to_string(bytes) + " bytes");
  return {data, bytes};
}

Context::Lease::Lease(Context& context, const OpInfo& info, size_t bytes, runtime::Stream stream)
    : context_(context), stream_(stream) {
  if (bytes == 0) return;
  if (context.options_.workspace.alloc) {
    if (!context.device().is_cpu()) runtime::refuse_after_fork();
    block_ = context.from_caller(bytes, stream);
    return;
  }
  if (context.device().is_cpu()) {
    block_ = context.take_idle(bytes);
    return;
  }
  runtime::refuse_after_fork();  // after fork(), a child process would wait forever for a lock that
                                 // a parent's thread held
  OfStream& scratch = context.scratch_of(stream);
  call_ = std::unique_lock(scratch.calls);
  if (scratch.block.bytes < bytes) context.grow(scratch, info, bytes, stream);
  block_ = scratch.block;
}

Context::Lease::~Lease() {
  if (!block_.data) return;
  if (const WorkspaceSource& source = context_.options_.workspace; source.alloc) {
    source.free(source.user, block_.data, reinterpret_cast<ligerdsl_stream_t>(stream_));
    return;
  }
  if (!context_.device().is_cpu()) return;
  try {
    const std::lock_guard lock(context_.scratch_mutex_);
    context_.idle_.push_back(block_);
  } catch (...) {
    context_.device().free(block_.data);
  }
}

}  // namespace ligerdsl::lib
