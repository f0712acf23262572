#include "runtime/cuda/cuda_module.h"

#include <algorithm>
#include <cstring>

#include "runtime/cuda/tensor_map.h"

namespace ligerdsl::runtime {
namespace {

constexpr size_t kLogSize = 16384;
constexpr int64_t kDefaultShared = 48 << 10;  // more shared memory requires an attribute
constexpr int32_t kPortableCluster = 8;
constexpr int32_t kOverlapDriver =
    12030;  // first driver that captures the overlap into a graph, as a programmatic edge
constexpr size_t kMostMaps = 16,
                 kMostSlots = 256;  // limits of a kernel with tensor maps: 4 KB of parameters
constexpr int64_t kMaxGridX = INT32_MAX, kMaxGridYZ = 65535;

class LinkScope {
 public:
  LinkScope(const cuda::Api& api, cuda::LinkState state) : api_(api), state_(state) {}
  ~LinkScope() { api_.link_destroy(state_); }

 private:
  const cuda::Api& api_;
  cuda::LinkState state_;
};

void* as_pointer(size_t value) {
  return reinterpret_cast<void*>(value);
}

std::string text_of(const Grid& grid) {
  return std::to_string(grid.x) + " x " + std::to_string(grid.y) + " x " + std::to_string(grid.z);
}

std::string joined(const std::string& errors, const std::string& info) {
  std::string text;
  if (errors[0] != '\0') text += std::string("assembler errors:\n") + errors.c_str();
  if (info[0] != '\0') text += std::string("assembler log:\n") + info.c_str();
  return text;
}

// Returns the PTX version, such as "8.0" for ".version 8.0".
std::string version_of(const std::string& ptx) {
  constexpr std::string_view directive = ".version ";
  const size_t at = ptx.find(directive);
  if (at == std::string::npos) return "unknown";
  const size_t begin = at + directive.size();
  return ptx.substr(begin, ptx.find_first_not_of("0123456789.", begin) - begin);
}

}  // namespace

Cubin assemble(const PrimaryContext& context, const std::string& ptx) {
  const PrimaryContext::RelaxedScope scope(context);
  const cuda::Api& api = context.api();
  std::string info(kLogSize, '\0'), errors(kLogSize, '\0');
  // The machine code gets line numbers only if the PTX has them.
  const bool lines = ptx.find("\t.loc\t") != std::string::npos;
  int options[] = {cuda::jit_info_log,       cuda::jit_info_log_size, cuda::jit_error_log,
                   cuda::jit_error_log_size, cuda::jit_log_verbose,   cuda::jit_line_info};
  void* values[] = {info.data(),          as_pointer(kLogSize), errors.data(),
                    as_pointer(kLogSize), as_pointer(1),        as_pointer(lines)};
  cuda::LinkState state = nullptr;
  context.driver().check(api.link_create(6, options, values, &state),
                         "preparing the driver's assembler");
  const LinkScope link(api, state);
  // The driver expects a null-terminated string. The size includes the terminator.
  cuda::Result result = api.link_add(state, cuda::jit_input_ptx, const_cast<char*>(ptx.c_str()),
                                     ptx.size() + 1, "kernel.ptx", 0, nullptr, nullptr);
  void* image = nullptr;
  size_t size = 0;
  if (result == cuda::success) result = api.link_complete(state, &image, &size);
  if (result != cuda::success)
    context.driver().raise(result,
                           ("assembling a kernel of PTX version " + version_of(ptx)).c_str(),
                           joined(errors, info));
  return {std::string(static_cast<const char*>(image), size), info.c_str()};
}

CudaKernel::CudaKernel(std::shared_ptr<const PrimaryContext> context, program::Artifact artifact,
                       std::string_view image, std::string log)
    : context_(std::move(context)) {
  artifact_ = std::move(artifact);
  resources_.log = std::move(log);
  resources_.code_bytes = static_cast<int64_t>(image.size());
  const PrimaryContext::RelaxedScope scope(*context_);
  const Driver& driver = context_->driver();
  driver.check(driver.api().module_load(&module_, image.data()), "loading a kernel");
  try {
    prepare();
  } catch (...) {
    driver.api().module_unload(module_);
    throw;
  }
}

void CudaKernel::refuse_parameters() const {
  const size_t maps = artifact_.maps.size();
  for (const program::TensorMap& map : artifact_.maps)
    if (map.box.size() < 2 || map.dims() > program::TensorMap::kMostDims ||
        map.slot + 2 * map.box.size() >= artifact_.slots)
      fail(Status::internal_error, artifact_.entry + ": the tensor map of argument slot " +
                                       std::to_string(map.slot) +
                                       ": expected an argument with 2 to 5 dimensions within " +
                                       std::to_string(artifact_.slots) + " slots, got " +
                                       std::to_string(map.box.size()) + " dimensions");
  if (maps == 0 || (maps <= kMostMaps && artifact_.slots <= kMostSlots)) return;
  fail(Status::not_supported,
       artifact_.entry + " takes " + std::to_string(artifact_.slots) + " argument slots and " +
           std::to_string(maps) + " tensor maps; at most " + std::to_string(kMostSlots) + " and " +
           std::to_string(kMostMaps) + " are supported; remove tensor_copies");
}

void CudaKernel::prepare() {
  refuse_parameters();
  const Driver& driver = context_->driver();
  const cuda::Api& api = driver.api();
  driver.check(api.module_function(&function_, module_, artifact_.entry.c_str()),
               "finding the kernel in its module");
  int static_shared = 0;
  auto attribute = [&](cuda::FunctionAttribute which, int32_t& to) {
    driver.check(api.function_attribute(&to, which, function_), "reading the kernel's attributes");
  };
  attribute(cuda::function_registers, resources_.registers);
  attribute(cuda::function_local_bytes, resources_.spill_bytes);
  attribute(cuda::function_static_shared, static_shared);
  resources_.shared_bytes = static_shared + artifact_.shared_bytes;
  resources_.threads = artifact_.threads;
  resources_.cluster = artifact_.cluster;
  if (resources_.shared_bytes > context_->info().max_shared_per_block)
    fail(Status::not_supported, artifact_.entry + " needs " +
                                    std::to_string(resources_.shared_bytes) +
                                    " bytes of shared memory " + "per CTA; this GPU has " +
                                    std::to_string(context_->info().max_shared_per_block) +
                                    "; use smaller tiles or fewer stages, or compile for this GPU");
  if (resources_.shared_bytes > kDefaultShared)
    driver.check(api.function_set_attribute(function_, cuda::function_max_dynamic_shared,
                                            static_cast<int>(artifact_.shared_bytes)),
                 "allowing more than 48 KB of shared memory");
  if (artifact_.cluster > kPortableCluster)
    driver.check(api.function_set_attribute(function_, cuda::function_non_portable_cluster, 1),
                 "allowing a large cluster");
  driver.check(api.occupancy(&resources_.ctas_per_sm, function_, artifact_.threads,
                             static_cast<size_t>(artifact_.shared_bytes)),
               "reading the kernel's occupancy");
  if (artifact_.cluster > 1) {
    cuda::LaunchAttribute& cluster = attributes_[attribute_count_++];
    cluster.id = cuda::launch_cluster_dimension;
    cluster.value.cluster = {static_cast<unsigned>(artifact_.cluster), 1, 1};
  }
  cuda::LaunchAttribute& overlap = attributes_[attribute_count_];
  overlap.id = cuda::launch_programmatic_serialization;
  overlap.value.programmatic_serialization_allowed = 1;
  overlap_from_ = smallest_overlapped_grid();
  if (artifact_.dynamic_persistent) most_programs_ = programs_at_a_time();
}

int64_t CudaKernel::programs_at_a_time() {
  int clusters = resources_.ctas_per_sm * context_->info().multiprocessors;
  if (artifact_.cluster > 1) {
    const cuda::LaunchConfig config = config_of({1, 1, 1}, nullptr);
    context_->driver().check(context_->api().occupancy_of_clusters(&clusters, function_, &config),
                             "reading how many of the kernel's clusters run at a time");
  }
  return std::max(clusters, 1);
}

cuda::LaunchConfig CudaKernel::config_of(const Grid& grid, Stream stream) {
  return {.grid_x = static_cast<unsigned>(grid.x * artifact_.cluster),
          .grid_y = static_cast<unsigned>(grid.y),
          .grid_z = static_cast<unsigned>(grid.z),
          .block_x = static_cast<unsigned>(artifact_.threads),
          .block_y = 1,
          .block_z = 1,
          .shared_bytes = static_cast<unsigned>(artifact_.shared_bytes),
          .stream = stream,
          .attributes = attributes_,
          .attribute_count = attribute_count_};
}

// Returns the smallest number of CTAs of a launch that may overlap the previous kernel.
//
// A persistent kernel must not overlap if its CTAs, spread evenly, leave room for another CTA on
// every SM. While the last CTAs of the previous kernel occupy some SMs, other SMs would get an
// additional CTA. The SM with the most CTAs would determine the kernel's time.
int64_t CudaKernel::smallest_overlapped_grid() const {
  if (!artifact_.launch_overlap || context_->driver().version() < kOverlapDriver) return INT64_MAX;
  if (!artifact_.persistent) return 0;
  return int64_t{resources_.ctas_per_sm - 1} * context_->info().multiprocessors + 1;
}

CudaKernel::~CudaKernel() {
  try {
    const PrimaryContext::RelaxedScope scope(*context_);
    context_->api().module_unload(module_);
  } catch (const std::exception&) {
    // In a forked child and after the driver's shutdown, there is nothing to unload. If there is no
    // memory for the call, the module stays loaded.
  }
}

void CudaKernel::refuse_grid(const Grid& grid) const {
  fail(Status::invalid_shape, artifact_.entry + ": expected a grid from 0 to " +
                                  text_of(largest_grid()) + " programs, got " + text_of(grid) +
                                  "; split the call");
}

// A dynamic persistent kernel counts programs in an i32. Its number of CTAs does not limit the
// number of programs.
Grid CudaKernel::largest_grid() const {
  return {artifact_.dynamic_persistent ? INT32_MAX : kMaxGridX / artifact_.cluster, kMaxGridYZ,
          kMaxGridYZ};
}

// Passes each parameter separately, because the assembler chooses the offsets of maps in a buffer.
cuda::Result CudaKernel::launch_with_maps(const cuda::LaunchConfig& config,
                                          const uint64_t* slots) const {
  cuda::TensorMap maps[kMostMaps];
  void* parameters[kMostSlots + kMostMaps];
  size_t count = 0;
  for (; count < artifact_.slots; ++count) parameters[count] = const_cast<uint64_t*>(slots + count);
  cuda::TensorMap* to = maps;
  for (const program::TensorMap& map : artifact_.maps) {
    if (const std::string why = reason_not_mapped(map, slots); !why.empty())
      fail(Status::invalid_argument, artifact_.entry +
                                         ": TMA copies cannot read the view at argument slot " +
                                         std::to_string(map.slot) + ": " + why);
    const cuda::Result result = encode_map(context_->api(), map, slots, to);
    if (result != cuda::success) return result;
    parameters[count++] = to++;
  }
  return context_->api().launch(&config, function_, parameters, nullptr);
}

void CudaKernel::launch(const uint64_t* slots, const Grid& programs, Stream stream) {
  const Grid most = largest_grid();
  if (std::min({programs.x, programs.y, programs.z}) < 0 || programs.x > most.x ||
      programs.y > most.y || programs.z > most.z)
    refuse_grid(programs);
  const Grid grid{std::min(programs.x, most_programs_), programs.y, programs.z};
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  const PrimaryContext::Scope scope(*context_);
  cuda::LaunchConfig config = config_of(grid, stream);
  // A launch on the legacy stream does not overlap. It must also wait for other streams, and the
  // wait inside the kernel does not cover them.
  config.attribute_count += stream != nullptr && stream != cuda::stream_legacy &&
                            grid.x * artifact_.cluster * grid.y * grid.z >= overlap_from_;
  if (!artifact_.maps.empty()) {
    const cuda::Result result = launch_with_maps(config, slots);
    if (result != cuda::success)
      context_->driver().raise(result, ("launching " + artifact_.entry).c_str());
    return;
  }
  size_t bytes = artifact_.slots * sizeof(uint64_t);
  void* extra[] = {cuda::launch_param_buffer_pointer, const_cast<uint64_t*>(slots),
                   cuda::launch_param_buffer_size, &bytes, cuda::launch_param_end};
  const cuda::Result result = context_->api().launch(&config, function_, nullptr, extra);
  if (result != cuda::success)
    context_->driver().raise(result, ("launching " + artifact_.entry).c_str());
}

}  // namespace ligerdsl::runtime
