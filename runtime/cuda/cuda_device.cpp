// Device for one GPU, through the driver API.
#include "runtime/cache/disk_cache.h"
#include "runtime/cache/kernel_cache.h"
#include "runtime/cache/single_flight.h"
#include "runtime/cuda/cuda_module.h"
#include "runtime/cuda/driver.h"
#include "runtime/device/device.h"
#include "runtime/environment/log.h"
#include "runtime/environment/options.h"
#include "runtime/kernel/matmul.h"
#include "runtime/system/elf_image.h"

namespace ligerdsl::runtime {
namespace {

DeviceDescription describe(const PrimaryContext& context) {
  const GpuInfo& gpu = context.info();
  DeviceDescription result;
  result.kind = DeviceKind::cuda;
  result.ordinal = gpu.ordinal;
  result.name = gpu.name;
  result.arch = gpu.arch;
  result.memory_bytes = gpu.memory_bytes;
  result.multiprocessors = gpu.multiprocessors;
  result.l2_bytes = gpu.l2_bytes;
  result.driver_version = context.driver().version();
  result.ptx_version = context.driver().ptx_version();
  return result;
}

cuda::DevicePtr address(const void* pointer) {
  return reinterpret_cast<cuda::DevicePtr>(pointer);
}

class CudaDevice final : public Device {
 public:
  CudaDevice(const DeviceConfig& config, std::shared_ptr<const PrimaryContext> context)
      : Device(config, describe(*context)), context_(std::move(context)) {}

  program::CompileOptions base_options() override {
    program::CompileOptions result;
    result.target = program::Target::nvptx;
    result.arch = description_.arch;
    result.ptx_version = description_.ptx_version;
    result.launch_overlap = options().launch_overlap;
    return result;
  }

  void* alloc(size_t bytes) override {
    const PrimaryContext::RelaxedScope scope(*context_);
    cuda::DevicePtr pointer = 0;
    const cuda::Result result = api().memory_alloc(&pointer, bytes > 0 ? bytes : 1);
    if (result != cuda::success)
      context_->driver().raise(result, ("allocating " + std::to_string(bytes) + " bytes").c_str());
    return reinterpret_cast<void*>(pointer);
  }

  void free(void* pointer) override {
    if (pointer == nullptr) return;
    quietly([&] {
      const PrimaryContext::RelaxedScope scope(*context_);
      api().memory_free(address(pointer));
    });
  }

  // Kernels can use the host pointer, because CUDA has unified addressing on 64-bit hosts.
  void* alloc_mapped(size_t bytes) override {
    const PrimaryContext::RelaxedScope scope(*context_);
    void* pointer = nullptr;
    check(
        api().host_alloc(&pointer, bytes, cuda::host_alloc_portable | cuda::host_alloc_device_map),
        "allocating host memory");
    return pointer;
  }

  void free_mapped(void* pointer) override {
    if (pointer == nullptr) return;
    quietly([&] {
      const PrimaryContext::RelaxedScope scope(*context_);
      api().host_free(pointer);
    });
  }

  void copy(void* to, const void* from, size_t bytes, Stream stream) override {
    if (bytes == 0) return;
    const PrimaryContext::Scope scope(*context_);
    check(api().copy_async(address(to), address(from), bytes, stream), "copying memory");
  }

  void fill(void* pointer, uint8_t value, size_t bytes, Stream stream) override {
    if (bytes == 0) return;
    const PrimaryContext::Scope scope(*context_);
    check(api().fill_bytes_async(address(pointer), value, bytes, stream), "filling memory");
  }

  std::string machine_code(const program::Artifact& artifact) override {
    return assemble(*context_, artifact.code).image;
  }

  int64_t free_memory() override {
    const PrimaryContext::Scope scope(*context_);
    size_t available = 0, total = 0;
    check(api().memory_info(&available, &total), "reading the free memory");
    return static_cast<int64_t>(available);
  }

  Stream create_stream() override {
    const PrimaryContext::RelaxedScope scope(*context_);
    Stream stream = nullptr;
    check(api().stream_create(&stream, cuda::stream_non_blocking), "creating a stream");
    return stream;
  }

  void destroy_stream(Stream stream) override {
    if (stream == nullptr) return;
    quietly([&] {
      const PrimaryContext::RelaxedScope scope(*context_);
      api().stream_destroy(stream);
    });
  }

  void synchronize(Stream stream) override {
    const PrimaryContext::Scope scope(*context_);
    check(api().stream_synchronize(stream), "waiting for a stream");
  }

  void synchronize_all() override {
    const PrimaryContext::Scope scope(*context_);
    check(api().context_synchronize(), "waiting for the device");
  }

  bool capturing(Stream stream) override {
    const PrimaryContext::Scope scope(*context_);
    int status = cuda::capture_status_none;
    const cuda::Result result = api().stream_capturing(stream, &status);
    // The legacy stream returns this error while a stream that synchronises with it is being
    // captured.
    if (result == cuda::error_stream_capture_implicit) return true;
    check(result, "asking whether a stream is being captured");
    return status != cuda::capture_status_none;
  }

  Event create_event() override {
    const PrimaryContext::RelaxedScope scope(*context_);
    Event event = nullptr;
    check(api().event_create(&event, 0), "creating an event");
    return event;
  }

  void destroy_event(Event event) override {
    if (event == nullptr) return;
    quietly([&] {
      const PrimaryContext::RelaxedScope scope(*context_);
      api().event_destroy(event);
    });
  }

  void record(Event event, Stream stream) override {
    const PrimaryContext::Scope scope(*context_);
    check(api().event_record(event, stream), "recording an event");
  }

  double elapsed_ms(Event begin, Event end) override {
    const PrimaryContext::Scope scope(*context_);
    check(api().event_synchronize(end), "waiting for an event");
    float milliseconds = 0;
    check(api().event_elapsed(&milliseconds, begin, end), "reading the time between two events");
    return milliseconds;
  }

 protected:
  std::shared_ptr<Matmul> make_matmul() override { return make_cuda_matmul(context_); }

  std::shared_ptr<LoadedKernel> instantiate(program::Artifact artifact, const EditedStages& edited,
                                            LoadReport& report) override {
    if (edited.any()) return instantiate_edited(std::move(artifact), edited, report);
    constexpr const char *kOnDisk = "cubin hit on disk: ",
                         *kOfThread = "cubin assembled by another thread: ";
    PhaseClock clock(report);
    const Digest key = cubin_key(artifact.code);
    const FileStamp seen = disk_->stamp(key, kCubinSuffix);
    if (auto kernel =
            from_cubin(artifact, key, disk_->read(key, kCubinSuffix), kOnDisk, report, clock))
      return kernel;
    SingleFlight flight(*disk_, key, kCubinSuffix, seen);
    if (flight.waited()) clock.lap("wait");
    if (flight.made()) {
      if (auto kernel = from_cubin(artifact, key, *flight.made(), kOfThread, report, clock))
        return kernel;
    } else if (flight.entry_changed()) {
      if (auto kernel =
              from_cubin(artifact, key, disk_->read(key, kCubinSuffix), kOnDisk, report, clock))
        return kernel;
    }
    Cubin cubin = assemble(*context_, artifact.code);
    auto kernel = std::make_shared<CudaKernel>(context_, std::move(artifact), cubin.image,
                                               std::move(cubin.log));
    clock.lap("driver");
    log_cubin("cubin assembled by the driver: ", kernel->artifact().entry, key);
    if (!flight.made()) flight.land(cubin.image);
    disk_->write(
        key, kCubinSuffix, cubin.image,
        {.kernel = kernel->artifact().entry, .target = description_.arch + ", " + driver_text()});
    clock.lap("store");
    return kernel;
  }

 private:
  const cuda::Api& api() const { return context_->api(); }
  void check(cuda::Result result, const char* what) const {
    context_->driver().check(result, what);
  }

  // Returns the kernel from cached machine code, or null if there is none or the driver rejects it.
  std::shared_ptr<LoadedKernel> from_cubin(const program::Artifact& artifact, const Digest& key,
                                           const std::optional<std::string>& image,
                                           const char* origin, LoadReport& report,
                                           PhaseClock& clock) {
    if (!image) return nullptr;
    try {
      auto kernel = std::make_shared<CudaKernel>(context_, artifact, *image, "");
      report.cubin_from_disk = true;
      clock.lap("driver");
      log_cubin(origin, artifact.entry, key);
      return kernel;
    } catch (const Error& error) {
      if (error.status() != Status::compile_failed && error.status() != Status::arch_not_supported)
        throw;
      log(LogLevel::warning,
          std::string(
              "cached machine code could not be loaded, so the kernel is assembled again: ") +
              error.what());
    }
    return nullptr;
  }

  // Runs `work`, which releases a resource. A release may fail in a forked child, after a sticky
  // error or after the driver's shutdown; such a failure is only logged.
  template <class Work>
  static void quietly(Work work) {
    try {
      work();
    } catch (const std::exception& error) {
      log_quietly(LogLevel::debug, "a resource could not be released", error);
    }
  }

  std::shared_ptr<LoadedKernel> instantiate_edited(program::Artifact artifact,
                                                   const EditedStages& edited, LoadReport& report) {
    PhaseClock clock(report);
    if (edited.ptx) artifact.code = edited.ptx.content;
    // An edited stage may lack the wait for earlier kernels. In machine code the wait is not
    // visible.
    if (edited.code || artifact.code.find("griddepcontrol.wait") == std::string::npos)
      artifact.launch_overlap = false;
    const EditedStages::File& last = edited.code ? edited.code : edited.ptx;
    return naming(last, [&] {
      if (edited.code && is_cut_short_elf(edited.code.content))
        fail(Status::compile_failed,
             "loading a kernel: the file is cut short: its headers refer to data after its " +
                 std::to_string(edited.code.content.size()) + " bytes");
      const Cubin cubin =
          edited.code ? Cubin{edited.code.content, ""} : assemble(*context_, artifact.code);
      auto kernel =
          std::make_shared<CudaKernel>(context_, std::move(artifact), cubin.image, cubin.log);
      clock.lap("driver");
      return kernel;
    });
  }

  std::string driver_text() const {
    const int32_t version = description_.driver_version;
    return "driver " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
  }

  void log_cubin(const char* what, const std::string& kernel, const Digest& key) const {
    if (log_enabled(LogLevel::debug))
      log(LogLevel::debug,
          what + kernel + " for " + description_.arch + ", " + driver_text() + ", key " + hex(key));
  }

  Digest cubin_key(const std::string& ptx) const {
    const GpuInfo& gpu = context_->info();
    return Sha256()
        .field(ptx)
        .field(std::to_string(gpu.major) + "." + std::to_string(gpu.minor))
        .field(std::to_string(description_.driver_version))
        .finish();
  }

  std::shared_ptr<const PrimaryContext> context_;
};

}  // namespace

std::shared_ptr<Device> make_cuda_device(const DeviceConfig& config) {
  std::shared_ptr<const Driver> driver = config.driver ? config.driver : Driver::shared();
  return std::make_shared<CudaDevice>(
      config, std::make_shared<const PrimaryContext>(std::move(driver), config.ordinal));
}

}  // namespace ligerdsl::runtime
