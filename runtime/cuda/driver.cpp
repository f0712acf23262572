#include "runtime/cuda/driver.h"

#include <dlfcn.h>

#include <atomic>
#include <mutex>

#include "program/gpu_arch.h"
#include "runtime/environment/options.h"
#include "runtime/system/fork.h"

namespace ligerdsl::runtime {
namespace {

constexpr int32_t kOldestDriver = 12000;  // first with PTX 8.0 and cuTensorMapEncodeTiled

// `live_since` is fork_generation() of the process in which cuInit succeeded. `opening` counts the
// threads inside Driver::open, which may call cuInit.
constexpr uint64_t kNever = UINT64_MAX;
std::atomic<uint64_t> live_since{kNever};
UseCount opening;

class Opening {
 public:
  Opening() : entered_(opening.enter()) {}
  ~Opening() { opening.leave(entered_); }
  Opening(const Opening&) = delete;

 private:
  uint32_t entered_;
};

constexpr const char* kForkedText =
    "CUDA was in use before this process was forked, and a forked child cannot use it: create the "
    "context in the child "
    "before the parent touches CUDA, or start workers with spawn/exec instead of fork";

std::string version_text(int32_t version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string result_text(const cuda::Api& api, cuda::Result result) {
  const char* name = nullptr;
  const char* text = nullptr;
  if (api.error_name != nullptr) api.error_name(result, &name);
  if (api.error_string != nullptr) api.error_string(result, &text);
  return std::string(name ? name : "CUDA error") + " (" + std::to_string(result) +
         (text ? std::string(": ") + text : "") + ")";
}

// Throws an error that explains the failure of cuInit.
[[noreturn]] void init_failed(const cuda::Api& api, const std::string& path, cuda::Result result) {
  const std::string found =
      "\"" + path + "\" was loaded, but cuInit failed with " + result_text(api, result) + ". ";
  switch (result) {
    case cuda::error_stub_library:
      fail(Status::no_device,
           found +
               "It is the toolkit's stub driver, for linking only: remove its folder (lib64/stubs) "
               "from LD_LIBRARY_PATH, or set LIGERDSL_LIBCUDA to the real driver's libcuda.so.1");
    case cuda::error_no_device:
      fail(Status::no_device,
           found + "No GPU is visible: check nvidia-smi and CUDA_VISIBLE_DEVICES");
    case cuda::error_not_initialized:
      fail(Status::forked_process, found + kForkedText);
    case cuda::error_system_driver_mismatch:
      fail(Status::no_device, found +
                                  "The kernel module and the user library have different "
                                  "versions: reboot, or reinstall the driver");
    default:
      fail(Status::no_device,
           found + "Check that the NVIDIA kernel module is loaded and /dev/nvidia* can be opened");
  }
}

void resolve(void* library, const std::string& path, cuda::Api& api) {
#define LIGERDSL_RESOLVE(member, symbol, parameters)                           \
  api.member = reinterpret_cast<decltype(api.member)>(dlsym(library, symbol)); \
  if (api.member == nullptr)                                                   \
    fail(Status::driver_too_old, "\"" + path +                                 \
                                     "\" has no function " symbol              \
                                     ": expected CUDA 12.0 (NVIDIA driver "    \
                                     "525.60) or later; update the driver");
  LIGERDSL_DRIVER_FUNCTIONS(LIGERDSL_RESOLVE)
#undef LIGERDSL_RESOLVE
}

bool is_sticky(cuda::Result result) {
  switch (result) {
    case cuda::error_ecc_uncorrectable:
    case cuda::error_nvlink_uncorrectable:
    case cuda::error_illegal_address:
    case cuda::error_launch_timeout:
    case cuda::error_assert:
      return true;
    default:
      return result >= cuda::error_hardware_stack && result <= cuda::error_launch_failed;
  }
}

std::string advice(Status status) {
  switch (status) {
    case Status::sticky_device_error:
      return ". An earlier kernel of this process failed on this GPU, and the context cannot be "
             "used any more: find this kernel, which may belong to other code, with "
             "compute-sanitizer or CUDA_LAUNCH_BLOCKING=1, and restart the process";
    case Status::out_of_device_memory:
      return ". The context is still usable: free device memory and try again";
    case Status::forked_process:
      return std::string(". ") + kForkedText;
    case Status::capture_unsafe:
      return ". This call is not allowed while a stream is being captured: make it before the "
             "capture";
    default:
      return "";
  }
}

}  // namespace

int32_t ptx_version_of_driver(int32_t driver_version) {
  const int32_t major = driver_version / 1000, minor = driver_version % 1000 / 10;
  // CUDA 12.5 and 12.6 both have PTX 8.5. The minor versions of CUDA and PTX are therefore equal up
  // to 12.5. From 12.6 on, the minor version of PTX is one less.
  if (major == 12) return 80 + (minor <= 5 ? minor : minor - 1);
  if (major == 11) return 70 + minor;
  return major >= 13 ? (major - 4) * 10 + minor : 0;
}

Status status_of_result(cuda::Result result) {
  if (is_sticky(result)) return Status::sticky_device_error;
  if (result >= cuda::error_stream_capture_first && result <= cuda::error_stream_capture_last)
    return Status::capture_unsafe;
  switch (result) {
    case cuda::success:
      return Status::success;
    case cuda::error_out_of_memory:
      return Status::out_of_device_memory;
    case cuda::error_deinitialized:
    case cuda::error_context_is_destroyed:
      return Status::driver_shutdown;
    case cuda::error_no_device:
    case cuda::error_stub_library:
    case cuda::error_system_not_ready:
    case cuda::error_system_driver_mismatch:
      return Status::no_device;
    case cuda::error_invalid_device:
      return Status::invalid_device;
    case cuda::error_not_initialized:
      return Status::forked_process;
    case cuda::error_unsupported_ptx_version:
      return Status::driver_too_old;
    case cuda::error_no_binary_for_gpu:
      return Status::arch_not_supported;
    case cuda::error_invalid_image:
    case cuda::error_invalid_ptx:
    case cuda::error_jit_compiler_not_found:
    case cuda::error_jit_compilation_disabled:
      return Status::compile_failed;
    default:
      return Status::execution_failed;
  }
}

bool forked_after_init() {
  const uint64_t since = live_since.load(std::memory_order_relaxed);
  return opening.abandoned() || (since != kNever && since != fork_generation());
}

void refuse_after_fork() {
  if (forked_after_init()) fail(Status::forked_process, kForkedText);
}

std::shared_ptr<const Driver> Driver::open(const std::string& path) {
  refuse_after_fork();
  const Opening under_way;
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    fail(Status::no_device,
         "no CUDA driver: " + std::string(why ? why : path) +
             ". Install the NVIDIA driver, or use a CPU context (device type CPU)");
  }
  std::shared_ptr<Driver> driver(new Driver);
  driver->path_ = path;
  resolve(library, path, driver->api_);
  const cuda::Api& api = driver->api_;
  if (cuda::Result result = api.init(0)) init_failed(api, path, result);
  uint64_t never = kNever;
  live_since.compare_exchange_strong(never, fork_generation());
  driver->check(api.driver_version(&driver->version_), "reading the driver's version");
  if (driver->version_ < kOldestDriver)
    fail(Status::driver_too_old, "the driver supports CUDA " + version_text(driver->version_) +
                                     ", expected CUDA " + version_text(kOldestDriver) +
                                     " (NVIDIA driver 525.60) or later: update the driver");
  driver->ptx_version_ = ptx_version_of_driver(driver->version_);
  driver->check(api.device_count(&driver->device_count_), "counting devices");
  if (driver->device_count_ == 0)
    fail(Status::no_device, "\"" + path +
                                "\" was loaded, but no GPU is visible: check nvidia-smi and "
                                "CUDA_VISIBLE_DEVICES");
  return driver;
}

std::shared_ptr<const Driver> Driver::shared() {
  static std::mutex* const mutex = new std::mutex;
  static auto* const instance = new std::shared_ptr<const Driver>;
  refuse_after_fork();
  std::lock_guard lock(*mutex);
  if (!*instance) *instance = open(options().libcuda.empty() ? "libcuda.so.1" : options().libcuda);
  return *instance;
}

GpuInfo Driver::device(int32_t ordinal) const {
  if (ordinal < 0 || ordinal >= device_count_)
    fail(Status::invalid_device,
         "cuda:" + std::to_string(ordinal) + " does not exist: " +
             (device_count_ == 1
                  ? "1 GPU is visible, cuda:0"
                  : std::to_string(device_count_) +
                        " GPUs are visible, cuda:0 to cuda:" + std::to_string(device_count_ - 1)) +
             "; CUDA_VISIBLE_DEVICES selects the visible GPUs");
  cuda::Device device = 0;
  check(api_.device_get(&device, ordinal), "opening the device");
  GpuInfo info;
  info.ordinal = ordinal;
  char name[256] = {};
  check(api_.device_name(name, sizeof name - 1, device), "reading the device's name");
  info.name = name;
  size_t bytes = 0;
  check(api_.device_memory(&bytes, device), "reading the device's memory size");
  info.memory_bytes = static_cast<int64_t>(bytes);
  auto attribute = [&](cuda::DeviceAttribute which, int32_t& to) {
    check(api_.device_attribute(&to, which, device), "reading a device attribute");
  };
  attribute(cuda::compute_capability_major, info.major);
  attribute(cuda::compute_capability_minor, info.minor);
  attribute(cuda::multiprocessor_count, info.multiprocessors);
  attribute(cuda::l2_cache_size, info.l2_bytes);
  attribute(cuda::max_shared_per_block_optin, info.max_shared_per_block);
  if (const program::GpuArch* arch = program::arch_of_capability(info.major, info.minor))
    info.arch = arch->name;
  if (info.arch.empty())
    fail(Status::arch_not_supported, "cuda:" + std::to_string(ordinal) + " (" + info.name +
                                         ") has compute capability " + std::to_string(info.major) +
                                         "." + std::to_string(info.minor) +
                                         (info.major < 8 ? "; 8.0 (Ampere) or later is needed"
                                                         : ", which this version of libligerdsl "
                                                           "does not support; use a later one"));
  return info;
}

void Driver::raise(cuda::Result result, const char* what, const std::string& detail) const {
  const Status status = status_of_result(result);
  std::string message = std::string(what) + ": " + result_text(api_, result) + advice(status);
  if (status == Status::driver_too_old)
    message += ". The driver (CUDA " + version_text(version_) + ") accepts PTX up to " +
               std::to_string(ptx_version_ / 10) + "." + std::to_string(ptx_version_ % 10) +
               ": update the driver";
  if (!detail.empty()) message += "\n" + detail;
  fail(status, message);
}

PrimaryContext::PrimaryContext(std::shared_ptr<const Driver> driver, int32_t ordinal)
    : driver_(std::move(driver)), info_(driver_->device(ordinal)) {
  driver_->check(api().device_get(&device_, ordinal), "opening the device");
  driver_->check(api().primary_retain(&context_, device_),
                 "retaining the device's primary context");
}

PrimaryContext::~PrimaryContext() {
  if (!forked_after_init()) api().primary_release(device_);
}

PrimaryContext::Scope::Scope(const PrimaryContext& context) : api_(context.api()) {
  refuse_after_fork();
  cuda::Context current = nullptr;
  context.driver().check(api_.context_current(&current), "reading the current context");
  if (current == context.context_) return;
  context.driver().check(api_.context_push(context.context_),
                         "making the device's context current");
  pushed_ = true;
}

PrimaryContext::Scope::~Scope() {
  cuda::Context popped = nullptr;
  if (pushed_) api_.context_pop(&popped);
}

PrimaryContext::RelaxedScope::RelaxedScope(const PrimaryContext& context)
    : scope_(context), api_(context.api()), mode_(cuda::capture_mode_relaxed) {
  context.driver().check(api_.exchange_capture_mode(&mode_), "relaxing the capture mode");
}

PrimaryContext::RelaxedScope::~RelaxedScope() {
  api_.exchange_capture_mode(&mode_);
}

}  // namespace ligerdsl::runtime
