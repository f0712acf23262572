// A fake CUDA driver on host memory. It records calls and fails on request. Work runs when it is
// enqueued. If its stream is being captured, it runs when the graph is launched.
#include "fake_cuda.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fake_launch.h"
#include "runtime/kernel/cuda_api.h"

using namespace ligerdsl::runtime::cuda;

Result (*fake_kernel)(const FakeLaunch&) = nullptr;

namespace {

constexpr Result kInvalidContext = 201;

using Work = std::function<Result()>;
using Graph = std::vector<Work>;

struct State {
  std::mutex mutex;
  int version = 13000, init_result = 0, devices = 1, major = 9, minor = 0;
  int64_t calls = 0, fail_at = 0;
  Result fail_result = 0, sticky = 0;
  bool capturing = false;
  int registers = 32, local_bytes = 0, ctas_per_sm = 8;
  std::map<std::string_view, int64_t>
      by_name;                     // keys are literals: a known function's count allocates nothing
  std::set<void*> objects;         // from malloc
  std::map<void*, size_t> memory;  // device allocations and their sizes in bytes
  std::map<Stream, Graph> captures;  // streams under capture
  int64_t links = 0;
  std::map<void*, std::string> modules;  // module -> image
  int64_t retained = 0;
  bool launched = false;
  FakeCudaControl::Launch launch{};
  const void* functions[64] = {};
  int function_count = 0;
  int shared_limit = 0;
  bool large_clusters = false;
};

State& state() {
  static State* const instance = new State;
  return *instance;
}

char primary_context[64];

// Needs no destructor, so the driver can be called until the process ends.
struct ContextStack {
  void* contexts[64];
  int count;

  bool empty() const { return count == 0; }
  void* back() const { return contexts[count - 1]; }
  void push_back(void* context) { contexts[count++] = context; }
  void pop_back() { --count; }
  void clear() { count = 0; }
};
thread_local ContextStack context_stack{};
thread_local int thread_capture_mode = 0;

// Records a call. Returns success (0) if the call is to proceed, or else its error code.
Result enter(const char* name, bool needs_context = false, bool can_be_sticky = false) {
  State& s = state();
  std::lock_guard lock(s.mutex);
  ++s.by_name[name];
  if (++s.calls == s.fail_at) return s.fail_result;
  if (can_be_sticky && s.sticky != 0) return s.sticky;
  if (needs_context && (context_stack.empty() || context_stack.back() != primary_context))
    return kInvalidContext;
  return 0;
}

template <class Handle>
Handle make_object() {
  void* object = malloc(16);
  std::lock_guard lock(state().mutex);
  state().objects.insert(object);
  return reinterpret_cast<Handle>(object);
}

Result drop_object(void* object) {
  std::lock_guard lock(state().mutex);
  if (state().objects.erase(object) == 0) return error_invalid_value;
  state().memory.erase(object);
  free(object);
  return success;
}

// Returns true if a capture is active and this thread's capture mode is not relaxed. Calls that a
// capture forbids must then fail.
bool breaks_capture() {
  std::lock_guard lock(state().mutex);
  return (state().capturing || !state().captures.empty()) &&
         thread_capture_mode != capture_mode_relaxed;
}

// Runs the work. If the stream is under capture, appends the work to its graph instead.
Result queue(Stream stream, Work work) {
  {
    std::lock_guard lock(state().mutex);
    const auto capture = state().captures.find(stream);
    if (capture != state().captures.end()) {
      capture->second.push_back(std::move(work));
      return success;
    }
  }
  return work();
}

// Runs the kernel through `fake_kernel`. Without it, computes and allocates nothing.
Result run_kernel(const LaunchConfig& config, Function function,
                  const FakeCudaControl::Launch& launch, void** maps) {
  if (fake_kernel == nullptr) return success;
  FakeLaunch run{{}, config, launch.cluster, nullptr, launch.slot_bytes, {}, {}};
  for (int map = 0; map < launch.maps; ++map)
    run.maps.push_back(*static_cast<const ligerdsl::test::ptx::TensorMap*>(maps[map]));
  {
    std::lock_guard lock(state().mutex);
    run.image = state().modules[function];
    run.memory = state().memory;
  }
  return queue(config.stream,
               [run, slots = std::vector<uint64_t>(std::begin(launch.slots),
                                                   std::end(launch.slots))]() mutable {
                 run.slots = slots.data();
                 return fake_kernel(run);
               });
}

struct Link {
  std::string ptx, cubin;
  char* info = nullptr;
  char* errors = nullptr;
};

}  // namespace

#define API extern "C" __attribute__((visibility("default"))) Result
#define ENTER(...) \
  if (Result early = enter(__VA_ARGS__)) return early

API cuInit(unsigned) {
  ENTER("cuInit");
  return state().init_result;
}
API cuDriverGetVersion(int* version) {
  ENTER("cuDriverGetVersion");
  *version = state().version;
  return success;
}
API cuGetErrorName(Result result, const char** name) {
  *name = result == error_illegal_address ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR_FAKE";
  return success;
}
API cuGetErrorString(Result, const char** text) {
  *text = "error text of the fake driver";
  return success;
}
API cuDeviceGetCount(int* count) {
  ENTER("cuDeviceGetCount");
  *count = state().devices;
  return success;
}
API cuDeviceGet(Device* device, int ordinal) {
  ENTER("cuDeviceGet");
  *device = ordinal;
  return success;
}
API cuDeviceGetName(char* name, int size, Device) {
  ENTER("cuDeviceGetName");
  strncpy(name, "Fake GPU", static_cast<size_t>(size));
  return success;
}
API cuDeviceTotalMem_v2(size_t* bytes, Device) {
  ENTER("cuDeviceTotalMem");
  *bytes = size_t{1} << 30;
  return success;
}
API cuDeviceGetAttribute(int* value, int attribute, Device) {
  ENTER("cuDeviceGetAttribute");
  switch (attribute) {
    case compute_capability_major:
      *value = state().major;
      break;
    case compute_capability_minor:
      *value = state().minor;
      break;
    case max_shared_per_block_optin:
      *value = 227 << 10;
      break;
    case multiprocessor_count:
      *value = 132;
      break;
    default:
      *value = 1 << 20;
      break;
  }
  return success;
}
API cuDevicePrimaryCtxRetain(Context* context, Device) {
  ENTER("cuDevicePrimaryCtxRetain");
  std::lock_guard lock(state().mutex);
  ++state().retained;
  *context = reinterpret_cast<Context>(primary_context);
  return success;
}
API cuDevicePrimaryCtxRelease_v2(Device) {
  ENTER("cuDevicePrimaryCtxRelease");
  std::lock_guard lock(state().mutex);
  --state().retained;
  return success;
}
API cuCtxGetCurrent(Context* context) {
  ENTER("cuCtxGetCurrent");
  *context = context_stack.empty() ? nullptr : static_cast<Context>(context_stack.back());
  return success;
}
API cuCtxPushCurrent_v2(Context context) {
  ENTER("cuCtxPushCurrent");
  context_stack.push_back(context);
  return success;
}
API cuCtxPopCurrent_v2(Context* context) {
  ENTER("cuCtxPopCurrent");
  if (context_stack.empty()) return kInvalidContext;
  *context = static_cast<Context>(context_stack.back());
  context_stack.pop_back();
  return success;
}
API cuCtxSynchronize() {
  ENTER("cuCtxSynchronize", true, true);
  return success;
}

API cuLinkCreate_v2(unsigned count, int* options, void** values, LinkState* out) {
  ENTER("cuLinkCreate", true);
  Link* link = new Link;
  for (unsigned i = 0; i < count; ++i) {
    if (options[i] == jit_info_log) link->info = static_cast<char*>(values[i]);
    if (options[i] == jit_error_log) link->errors = static_cast<char*>(values[i]);
  }
  std::lock_guard lock(state().mutex);
  ++state().links;
  *out = reinterpret_cast<LinkState>(link);
  return success;
}
API cuLinkAddData_v2(LinkState handle, int, void* data, size_t size, const char*, unsigned, int*,
                     void**) {
  ENTER("cuLinkAddData", true);
  Link* link = reinterpret_cast<Link*>(handle);
  const char* text = static_cast<const char*>(data);
  if (size == 0 || text[size - 1] != '\0') return error_invalid_value;
  link->ptx = text;
  if (link->ptx.find("syntax error") != std::string::npos) {
    strcpy(link->errors, "ptxas kernel.ptx, line 3; fatal : Parsing error");
    return error_invalid_ptx;
  }
  if (link->ptx.find(".version 9.9") != std::string::npos) {
    strcpy(link->errors, "Unsupported .version 9.9");
    return error_unsupported_ptx_version;
  }
  return success;
}
API cuLinkComplete(LinkState handle, void** cubin, size_t* size) {
  ENTER("cuLinkComplete", true);
  Link* link = reinterpret_cast<Link*>(handle);
  link->cubin = "CUBIN " + link->ptx;
  strcpy(link->info, "ptxas info : 0 bytes spill stores, Used 32 registers");
  *cubin = link->cubin.data();
  *size = link->cubin.size();
  return success;
}
API cuLinkDestroy(LinkState handle) {
  Link* link = reinterpret_cast<Link*>(handle);
  delete link;
  std::lock_guard lock(state().mutex);
  --state().links;
  return success;
}
API cuModuleLoadData(Module* module, const void* image) {
  ENTER("cuModuleLoadData", true);
  if (breaks_capture()) return error_stream_capture_first;
  if (memcmp(image, "CUBIN ", 6) != 0) return error_invalid_image;
  *module = make_object<Module>();
  std::lock_guard lock(state().mutex);
  state().modules[*module] = static_cast<const char*>(image);
  return success;
}
API cuModuleUnload(Module module) {
  ENTER("cuModuleUnload", true);
  return drop_object(module);
}
API cuModuleGetFunction(Function* function, Module module, const char* name) {
  ENTER("cuModuleGetFunction", true);
  std::lock_guard lock(state().mutex);
  if (state().modules[module].find(name) == std::string::npos) return error_not_found;
  *function = reinterpret_cast<Function>(module);
  return success;
}
API cuFuncGetAttribute(int* value, int attribute, Function) {
  ENTER("cuFuncGetAttribute", true);
  std::lock_guard lock(state().mutex);
  *value = attribute == function_registers ? state().registers : 0;
  if (attribute == function_local_bytes) *value = state().local_bytes;
  return success;
}
API cuFuncSetAttribute(Function, int attribute, int value) {
  ENTER("cuFuncSetAttribute", true);
  if (attribute == function_max_dynamic_shared) state().shared_limit = value;
  if (attribute == function_non_portable_cluster) state().large_clusters = value != 0;
  return success;
}
API cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Function, int, size_t) {
  ENTER("cuOccupancyMaxActiveBlocksPerMultiprocessor", true);
  std::lock_guard lock(state().mutex);
  *blocks = state().ctas_per_sm;
  return success;
}
API cuOccupancyMaxActiveClusters(int* clusters, Function, const LaunchConfig* config) {
  ENTER("cuOccupancyMaxActiveClusters", true);
  if (config->attribute_count == 0) return error_invalid_value;
  *clusters = 30;
  return success;
}
// Returns the number of `kind` parameters of the module's PTX entry: 8-byte words, or 128-byte
// tensor maps.
int parameters_of(Function function, std::string_view kind) {
  std::lock_guard lock(state().mutex);
  const std::string& image = state().modules[function];
  const std::string_view head = std::string_view(image).substr(0, image.find("\n{"));
  int count = 0;
  for (size_t at = head.find(kind); at != head.npos; at = head.find(kind, at + 1)) ++count;
  return count;
}

API cuTensorMapEncodeTiled(TensorMap* map, int type, unsigned rank, void* address,
                           const uint64_t* sizes, const uint64_t* strides, const unsigned* box,
                           const unsigned* steps, int interleave, int swizzle, int promotion,
                           int outside) {
  ENTER("cuTensorMapEncodeTiled");
  return ligerdsl::test::ptx::encode(map, type, rank, address, sizes, strides, box, steps,
                                     interleave, swizzle, promotion, outside);
}
API cuLaunchKernelEx(const LaunchConfig* config, Function function, void** parameters,
                     void** extra) {
  ENTER("cuLaunchKernelEx", true, true);
  const bool buffered = parameters == nullptr;
  if (buffered && (extra[0] != launch_param_buffer_pointer ||
                   extra[2] != launch_param_buffer_size || extra[4] != launch_param_end))
    return error_invalid_value;
  FakeCudaControl::Launch launch;
  launch = {{config->grid_x, config->grid_y, config->grid_z},
            config->block_x,
            config->shared_bytes,
            1,
            {},
            0,
            config->stream,
            false,
            0};
  for (unsigned i = 0; i < config->attribute_count; ++i) {
    const LaunchAttribute& attribute = config->attributes[i];
    if (attribute.id == launch_cluster_dimension) launch.cluster = attribute.value.cluster.x;
    if (attribute.id == launch_programmatic_serialization)
      launch.overlaps = attribute.value.programmatic_serialization_allowed == 1;
  }
  void** maps = nullptr;
  if (buffered) {
    launch.slot_bytes = *static_cast<size_t*>(extra[3]);
    memcpy(launch.slots, extra[1], launch.slot_bytes);
  } else {
    const int slots = parameters_of(function, ".param .u64 ");
    launch.slot_bytes = slots * sizeof(uint64_t);
    for (int slot = 0; slot < slots; ++slot)
      memcpy(&launch.slots[slot], parameters[slot], sizeof(uint64_t));
    launch.maps = parameters_of(function, ".param .align 64 .b8 ");
    maps = parameters + slots;
  }
  {
    std::lock_guard lock(state().mutex);
    state().launch = launch;
    state().launched = true;
    if (state().function_count < 64) state().functions[state().function_count++] = function;
  }
  return run_kernel(*config, function, launch, maps);
}

API cuMemGetInfo_v2(size_t* available, size_t* total) {
  ENTER("cuMemGetInfo", true);
  *available = *total = size_t{1} << 30;
  return success;
}
API cuMemAlloc_v2(DevicePtr* pointer, size_t bytes) {
  ENTER("cuMemAlloc", true);
  if (breaks_capture()) return error_stream_capture_first;
  void* memory = aligned_alloc(256, (bytes + 255) / 256 * 256);  // alignment of the real driver
  std::lock_guard lock(state().mutex);
  state().objects.insert(memory);
  state().memory[memory] = bytes;
  *pointer = reinterpret_cast<DevicePtr>(memory);
  return success;
}
API cuMemFree_v2(DevicePtr pointer) {
  ENTER("cuMemFree", true);
  return drop_object(reinterpret_cast<void*>(pointer));
}
API cuMemHostAlloc(void** pointer, size_t bytes, unsigned) {
  ENTER("cuMemHostAlloc", true);
  if (breaks_capture()) return error_stream_capture_first;
  *pointer = malloc(bytes);
  std::lock_guard lock(state().mutex);
  state().objects.insert(*pointer);
  return success;
}
API cuMemFreeHost(void* pointer) {
  ENTER("cuMemFreeHost", true);
  return drop_object(pointer);
}
API cuMemcpyAsync(DevicePtr to, DevicePtr from, size_t bytes, Stream stream) {
  ENTER("cuMemcpyAsync", true, true);
  return queue(stream, [=] {
    memcpy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes);
    return success;
  });
}
API cuMemsetD8Async(DevicePtr to, unsigned char value, size_t bytes, Stream stream) {
  ENTER("cuMemsetD8Async", true, true);
  return queue(stream, [=] {
    memset(reinterpret_cast<void*>(to), value, bytes);
    return success;
  });
}
API cuStreamCreate(Stream* stream, unsigned) {
  ENTER("cuStreamCreate", true);
  *stream = make_object<Stream>();
  return success;
}
API cuStreamDestroy_v2(Stream stream) {
  ENTER("cuStreamDestroy", true);
  return drop_object(stream);
}
API cuStreamSynchronize(Stream) {
  ENTER("cuStreamSynchronize", true, true);
  return success;
}
API cuStreamIsCapturing(Stream stream, int* status) {
  ENTER("cuStreamIsCapturing", true);
  if (stream == nullptr && state().capturing) return error_stream_capture_implicit;
  std::lock_guard lock(state().mutex);
  *status = state().capturing || state().captures.contains(stream) ? 1 : capture_status_none;
  return success;
}
API cuStreamBeginCapture_v2(Stream stream, int) {
  ENTER("cuStreamBeginCapture", true);
  std::lock_guard lock(state().mutex);
  return state().captures.try_emplace(stream).second ? success : error_invalid_value;
}
API cuStreamEndCapture(Stream stream, Graph** graph) {
  ENTER("cuStreamEndCapture", true);
  std::lock_guard lock(state().mutex);
  const auto capture = state().captures.find(stream);
  if (capture == state().captures.end()) return error_invalid_value;
  *graph = new Graph(std::move(capture->second));
  state().captures.erase(capture);
  return success;
}
API cuGraphGetNodes(Graph* graph, void**, size_t* count) {
  *count = graph->size();
  return success;
}
API cuGraphInstantiateWithFlags(Graph** executable, Graph* graph, unsigned long long) {
  ENTER("cuGraphInstantiate", true);
  *executable = new Graph(*graph);
  return success;
}
API cuGraphLaunch(Graph* executable, Stream) {
  ENTER("cuGraphLaunch", true, true);
  for (const Work& work : *executable) {
    if (const Result result = work()) return result;
  }
  return success;
}
API cuGraphExecDestroy(Graph* executable) {
  delete executable;
  return success;
}
API cuGraphDestroy(Graph* graph) {
  delete graph;
  return success;
}
API cuThreadExchangeStreamCaptureMode(int* mode) {
  ENTER("cuThreadExchangeStreamCaptureMode");
  std::swap(*mode, thread_capture_mode);
  return success;
}
API cuEventCreate(Event* event, unsigned) {
  ENTER("cuEventCreate", true);
  *event = make_object<Event>();
  return success;
}
API cuEventDestroy_v2(Event event) {
  ENTER("cuEventDestroy", true);
  return drop_object(event);
}
API cuEventRecord(Event, Stream) {
  ENTER("cuEventRecord", true);
  return success;
}
API cuEventSynchronize(Event) {
  ENTER("cuEventSynchronize", true, true);
  return success;
}
API cuEventElapsedTime(float* milliseconds, Event, Event) {
  ENTER("cuEventElapsedTime", true);
  *milliseconds = 0.25f;
  return success;
}

namespace {

void reset() {
  State& s = state();
  std::lock_guard lock(s.mutex);
  s.version = 13000, s.init_result = 0, s.devices = 1, s.major = 9, s.minor = 0;
  s.calls = s.fail_at = 0;
  s.fail_result = s.sticky = 0;
  s.capturing = s.launched = false;
  s.registers = 32, s.local_bytes = 0, s.ctas_per_sm = 8;
  s.function_count = 0;
  s.by_name.clear();
  for (void* object : s.objects) free(object);
  s.objects.clear();
  s.memory.clear();
  s.captures.clear();
  s.links = 0;
  s.modules.clear();
  s.retained = 0;
  s.shared_limit = 0;
  s.large_clusters = false;
  context_stack.clear();
  thread_capture_mode = 0;
}

template <class Work>
auto locked(Work work) {
  std::lock_guard lock(state().mutex);
  return work(state());
}

int launched(const void** functions, int most) {
  return locked([&](State& s) {
    const int count = std::min(most, std::exchange(s.function_count, 0));
    std::copy_n(s.functions, count, functions);
    return count;
  });
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const FakeCudaControl fake_cuda_control = {
    reset,
    [](int version, int init_result, int devices) {
      locked(
          [&](State& s) { s.version = version, s.init_result = init_result, s.devices = devices; });
    },
    [](int major, int minor) { locked([&](State& s) { s.major = major, s.minor = minor; }); },
    [](int64_t k, int result) {
      locked([&](State& s) { s.fail_at = k > 0 ? s.calls + k : 0, s.fail_result = result; });
    },
    [](int result) { locked([&](State& s) { s.sticky = result; }); },
    [](bool capturing) { locked([&](State& s) { s.capturing = capturing; }); },
    [](int registers, int local_bytes, int ctas_per_sm) {
      locked([&](State& s) {
        s.registers = registers, s.local_bytes = local_bytes, s.ctas_per_sm = ctas_per_sm;
      });
    },
    [] { return locked([](State& s) { return s.calls; }); },
    [](const char* function) {
      return locked(
          [&](State& s) { return s.by_name.contains(function) ? s.by_name.at(function) : 0; });
    },
    [] {
      return locked(
          [](State& s) { return static_cast<int64_t>(s.objects.size()) + s.links + s.retained; });
    },
    []() -> void* { return context_stack.empty() ? nullptr : context_stack.back(); },
    [](void* context) { context_stack.push_back(context); },
    [] { context_stack.pop_back(); },
    [] { return thread_capture_mode; },
    [](FakeCudaControl::Launch* launch) {
      return locked([&](State& s) {
        *launch = s.launch;
        return std::exchange(s.launched, false);
      });
    },
    launched,
    [] { return locked([](State& s) { return s.shared_limit; }); },
    [] { return locked([](State& s) { return s.large_clusters; }); },
};
