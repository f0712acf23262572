// A device that kernels run on: the CPU or one GPU. A context of the C ABI holds one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "program/options.h"
#include "runtime/device/thread_pool.h"
#include "runtime/environment/options.h"
#include "runtime/kernel/kernel.h"
#include "runtime/system/fork.h"
#include "runtime/system/status.h"

namespace ligerdsl::runtime {

class CompilerLibrary;
class DiskCache;
class Driver;
class KernelCache;
class Matmul;
struct EditedStages;

enum class DeviceKind : int32_t { cpu = 1, cuda = 2 };  // DLPack's numbers

struct DeviceConfig {
  DeviceKind kind = DeviceKind::cpu;
  int32_t ordinal = 0;
  int32_t num_threads = 0;               // cpu; 0 means LIGERDSL_NUM_THREADS, else every usable CPU
  std::optional<std::string> cache_dir;  // if unset, the default of disk_cache.h
  int64_t cache_limit_bytes = 0;         // 0 means LIGERDSL_CACHE_SIZE, else 1 GiB
  std::optional<CacheMode> cache_mode;   // if unset, the value of LIGERDSL_CACHE
  bool no_jit = false;  // never compile, as with LIGERDSL_NO_JIT: an uncached kernel is an error
  HostAllocator allocator;
  std::shared_ptr<const Driver> driver;       // if null, Driver::shared()
  std::shared_ptr<CompilerLibrary> compiler;  // if null, CompilerLibrary::shared()
};

struct DeviceDescription {
  DeviceKind kind = DeviceKind::cpu;
  int32_t ordinal = 0;
  std::string name;  // "NVIDIA H200", or the CPU's model name
  std::string arch;  // "sm_90a"; empty for the CPU
  int64_t memory_bytes = 0;
  int32_t multiprocessors = 0;  // GPU
  int32_t threads = 0;          // CPU
  int64_t l2_bytes = 0;         // GPU
  int32_t driver_version = 0;   // GPU; 13000 means 13.0
  int32_t ptx_version = 0;      // GPU; 90 means 9.0
};

using Event = cuda::Event;

class Device {
 public:
  static std::shared_ptr<Device> create(const DeviceConfig& config);
  virtual ~Device();

  const DeviceDescription& description() const { return description_; }
  bool is_cpu() const { return description_.kind == DeviceKind::cpu; }

  // Returns default options with this device's target, arch, features and PTX version. For the CPU
  // this loads the compiler library, which detects the host's CPU.
  virtual program::CompileOptions base_options() = 0;

  // Returns the kernel of these program bytes (program::serialize) with `options`: from memory,
  // else from disk, else by a compile. The options are base_options() with the launch settings of
  // the kernel, and their `emit` must be empty. Thread-safe; one thread at a time compiles a key.
  std::shared_ptr<LoadedKernel> load(std::string_view program_bytes,
                                     const program::CompileOptions& options,
                                     LoadReport* report = nullptr);

  // Returns the text of one stage (CompileOptions::emit) for dumps. Machine code is no such stage:
  // see machine_code().
  std::string emit(std::string_view program_bytes, const program::CompileOptions& options,
                   const std::string& stage);

  // Returns the machine code of an artifact: a cubin for this device, or the CPU's object.
  virtual std::string machine_code(const program::Artifact& artifact) = 0;

  const DiskCache& disk_cache() const;

  // Returns the matmul library (matmul.h), which the first call loads. Throws NOT_SUPPORTED if
  // there is none.
  std::shared_ptr<Matmul> matmul();

  // ---- Memory. Kernels of this device can use the pointers. Their alignment is at least 256
  // bytes. A size of 0 returns a pointer that may be freed but not used. copy() copies between any
  // host and device memory, in the order of `stream`. A copy of pageable host memory returns after
  // it has read or written the host side.
  virtual void* alloc(size_t bytes) = 0;
  virtual void free(void* pointer) = 0;  // null is allowed; never throws
  virtual void copy(void* to, const void* from, size_t bytes, Stream stream) = 0;
  virtual void fill(void* pointer, uint8_t value, size_t bytes, Stream stream) = 0;
  virtual int64_t free_memory() = 0;  // bytes

  // Allocates host memory that kernels write while the host reads it. Use it for a few words.
  virtual void* alloc_mapped(size_t bytes) = 0;
  virtual void free_mapped(void* pointer) = 0;  // null is allowed; never throws

  // ---- Streams and timing. On the CPU, streams are null and each call finishes its work.
  virtual Stream create_stream() = 0;
  virtual void destroy_stream(Stream stream) = 0;  // never throws
  virtual void synchronize(Stream stream) = 0;
  virtual void synchronize_all() = 0;
  // Returns true while `stream` is being captured into a graph. For the legacy stream (null),
  // returns true while any blocking stream of this context is being captured.
  virtual bool capturing(Stream stream) = 0;

  virtual Event create_event() = 0;
  virtual void destroy_event(Event event) = 0;  // never throws
  virtual void record(Event event, Stream stream) = 0;
  virtual double elapsed_ms(Event begin, Event end) = 0;  // waits for `end`

 protected:
  Device(const DeviceConfig& config, DeviceDescription description);

  // Loads an artifact, or its edited stages, as a kernel. Adds the load's phases to the report.
  virtual std::shared_ptr<LoadedKernel> instantiate(program::Artifact artifact,
                                                    const EditedStages& edited,
                                                    LoadReport& report) = 0;
  virtual std::shared_ptr<Matmul> make_matmul() = 0;
  std::shared_ptr<CompilerLibrary> compiler();
  program::CompileOptions complete(program::CompileOptions options);

  DeviceConfig config_;
  DeviceDescription description_;
  std::unique_ptr<DiskCache> disk_;
  std::unique_ptr<KernelCache> cache_;

 private:
  ForkMutex matmul_mutex_;
  std::shared_ptr<Matmul> matmul_;
};

// Implementations of Device::create().
std::shared_ptr<Device> make_cpu_device(const DeviceConfig& config);
std::shared_ptr<Device> make_cuda_device(const DeviceConfig& config);

}  // namespace ligerdsl::runtime
