// The part of the CUDA driver API that is in use. The declarations replace the toolkit's header.
//
// Types and values follow the driver's stable binary interface (CUDA 12.0 and later).
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {
struct CUctx_st;
struct CUmod_st;
struct CUfunc_st;
struct CUstream_st;
struct CUevent_st;
struct CUlinkState_st;
}

namespace ligerdsl::runtime::cuda {

using Result = int;
using Device = int;
using DevicePtr = unsigned long long;
using Context = CUctx_st*;
using Module = CUmod_st*;
using Function = CUfunc_st*;
using Stream = CUstream_st*;
using Event = CUevent_st*;
using LinkState = CUlinkState_st*;

enum : Result {
  success = 0,
  error_invalid_value = 1,
  error_out_of_memory = 2,
  error_not_initialized = 3,
  error_deinitialized = 4,
  error_stub_library = 34,
  error_no_device = 100,
  error_invalid_device = 101,
  error_invalid_image = 200,
  error_no_binary_for_gpu = 209,
  error_ecc_uncorrectable = 214,
  error_invalid_ptx = 218,
  error_nvlink_uncorrectable = 220,
  error_jit_compiler_not_found = 221,
  error_unsupported_ptx_version = 222,
  error_jit_compilation_disabled = 223,
  error_not_found = 500,
  error_not_ready = 600,
  error_illegal_address = 700,
  error_launch_out_of_resources = 701,
  error_launch_timeout = 702,
  error_context_is_destroyed = 709,
  error_assert = 710,
  error_hardware_stack = 714,
  error_launch_failed = 719,
  error_system_not_ready = 802,
  error_system_driver_mismatch = 803,
  error_stream_capture_first =
      900,  // 900..908: the call is not allowed in a stream capture, or ended a capture
  error_stream_capture_implicit = 906,
  error_stream_capture_last = 908,
};

enum DeviceAttribute : int {
  multiprocessor_count = 16,
  l2_cache_size = 38,
  max_threads_per_multiprocessor = 39,
  compute_capability_major = 75,
  compute_capability_minor = 76,
  max_shared_per_multiprocessor = 81,
  max_registers_per_multiprocessor = 82,
  max_shared_per_block_optin = 97,
  max_blocks_per_multiprocessor = 106,
  reserved_shared_per_block = 111,
  cluster_launch = 120,
};

enum HostAllocFlags : unsigned { host_alloc_portable = 1, host_alloc_device_map = 2 };

enum FunctionAttribute : int {
  function_max_threads = 0,
  function_static_shared = 1,
  function_local_bytes = 3,
  function_registers = 4,
  function_max_dynamic_shared = 8,
  function_non_portable_cluster = 14,
};

enum JitOption : int {
  jit_info_log = 3,
  jit_info_log_size = 4,
  jit_error_log = 5,
  jit_error_log_size = 6,
  jit_log_verbose = 12,
  jit_line_info = 13,
};

inline constexpr int jit_input_ptx = 1;
inline constexpr unsigned stream_non_blocking = 1;
inline const Stream stream_legacy = reinterpret_cast<Stream>(1);      // null means this stream, too
inline const Stream stream_per_thread = reinterpret_cast<Stream>(2);  // one stream per thread
inline constexpr int capture_mode_relaxed = 2;
inline constexpr int capture_status_none = 0;

inline void* const launch_param_end = nullptr;
inline void* const launch_param_buffer_pointer = reinterpret_cast<void*>(1);
inline void* const launch_param_buffer_size = reinterpret_cast<void*>(2);

enum LaunchAttributeId : int {
  launch_cluster_dimension = 4,
  launch_programmatic_serialization = 6
};

struct LaunchAttribute {
  int id;
  char pad[4];
  union {
    char bytes[64];
    struct {
      unsigned x, y, z;
    } cluster;
    int programmatic_serialization_allowed;
  } value;
};
static_assert(sizeof(LaunchAttribute) == 72);

// CUtensorMap: 128 bytes in the driver's private format.
struct alignas(64) TensorMap {
  uint64_t opaque[16];
};

enum TensorMapType : int {
  map_uint8 = 0,
  map_float16 = 6,
  map_float32 = 7,
  map_bfloat16 = 9,
  map_tfloat32 = 11
};
enum TensorMapSwizzle : int { map_swizzle_32 = 1, map_swizzle_64 = 2, map_swizzle_128 = 3 };
inline constexpr int map_no_interleave = 0;
inline constexpr int map_promote_256_bytes = 3;  // to L2
inline constexpr int map_outside_is_zero = 0;

using MapSizes = const uint64_t*;
using MapCounts = const unsigned*;

struct LaunchConfig {
  unsigned grid_x, grid_y, grid_z;
  unsigned block_x, block_y, block_z;
  unsigned shared_bytes;
  Stream stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};
static_assert(sizeof(LaunchConfig) == 56 && offsetof(LaunchConfig, stream) == 32);

}  // namespace ligerdsl::runtime::cuda

// X(member name, exported symbol, parameters) for each driver function in use.
#define LIGERDSL_DRIVER_FUNCTIONS(X)                                                              \
  X(init, "cuInit", (unsigned))                                                                   \
  X(driver_version, "cuDriverGetVersion", (int*))                                                 \
  X(error_name, "cuGetErrorName", (Result, const char**))                                         \
  X(error_string, "cuGetErrorString", (Result, const char**))                                     \
  X(device_count, "cuDeviceGetCount", (int*))                                                     \
  X(device_get, "cuDeviceGet", (Device*, int))                                                    \
  X(device_name, "cuDeviceGetName", (char*, int, Device))                                         \
  X(device_memory, "cuDeviceTotalMem_v2", (size_t*, Device))                                      \
  X(device_attribute, "cuDeviceGetAttribute", (int*, int, Device))                                \
  X(primary_retain, "cuDevicePrimaryCtxRetain", (Context*, Device))                               \
  X(primary_release, "cuDevicePrimaryCtxRelease_v2", (Device))                                    \
  X(context_current, "cuCtxGetCurrent", (Context*))                                               \
  X(context_push, "cuCtxPushCurrent_v2", (Context))                                               \
  X(context_pop, "cuCtxPopCurrent_v2", (Context*))                                                \
  X(context_synchronize, "cuCtxSynchronize", ())                                                  \
  X(link_create, "cuLinkCreate_v2", (unsigned, int*, void**, LinkState*))                         \
  X(link_add, "cuLinkAddData_v2",                                                                 \
    (LinkState, int, void*, size_t, const char*, unsigned, int*, void**))                         \
  X(link_complete, "cuLinkComplete", (LinkState, void**, size_t*))                                \
  X(link_destroy, "cuLinkDestroy", (LinkState))                                                   \
  X(module_load, "cuModuleLoadData", (Module*, const void*))                                      \
  X(module_unload, "cuModuleUnload", (Module))                                                    \
  X(module_function, "cuModuleGetFunction", (Function*, Module, const char*))                     \
  X(function_attribute, "cuFuncGetAttribute", (int*, int, Function))                              \
  X(function_set_attribute, "cuFuncSetAttribute", (Function, int, int))                           \
  X(occupancy, "cuOccupancyMaxActiveBlocksPerMultiprocessor", (int*, Function, int, size_t))      \
  X(occupancy_of_clusters, "cuOccupancyMaxActiveClusters", (int*, Function, const LaunchConfig*)) \
  X(launch, "cuLaunchKernelEx", (const LaunchConfig*, Function, void**, void**))                  \
  X(encode_map, "cuTensorMapEncodeTiled",                                                         \
    (TensorMap*, int, unsigned, void*, MapSizes, MapSizes, MapCounts, MapCounts, int, int, int,   \
     int))                                                                                        \
  X(memory_info, "cuMemGetInfo_v2", (size_t*, size_t*))                                           \
  X(memory_alloc, "cuMemAlloc_v2", (DevicePtr*, size_t))                                          \
  X(memory_free, "cuMemFree_v2", (DevicePtr))                                                     \
  X(host_alloc, "cuMemHostAlloc", (void**, size_t, unsigned))                                     \
  X(host_free, "cuMemFreeHost", (void*))                                                          \
  X(copy_async, "cuMemcpyAsync", (DevicePtr, DevicePtr, size_t, Stream))                          \
  X(fill_bytes_async, "cuMemsetD8Async", (DevicePtr, unsigned char, size_t, Stream))              \
  X(stream_create, "cuStreamCreate", (Stream*, unsigned))                                         \
  X(stream_destroy, "cuStreamDestroy_v2", (Stream))                                               \
  X(stream_synchronize, "cuStreamSynchronize", (Stream))                                          \
  X(stream_capturing, "cuStreamIsCapturing", (Stream, int*))                                      \
  X(exchange_capture_mode, "cuThreadExchangeStreamCaptureMode", (int*))                           \
  X(event_create, "cuEventCreate", (Event*, unsigned))                                            \
  X(event_destroy, "cuEventDestroy_v2", (Event))                                                  \
  X(event_record, "cuEventRecord", (Event, Stream))                                               \
  X(event_synchronize, "cuEventSynchronize", (Event))                                             \
  X(event_elapsed, "cuEventElapsedTime", (float*, Event, Event))
