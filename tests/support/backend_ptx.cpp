// Compiles each launched kernel for a GPU, and runs its PTX on the emulator of ptx/. As in the
// library's launcher, the arguments decide which variant of the kernel runs. With ptx-cluster2 and
// ptx-cluster4, launches without clusters get clusters of 2 or 4 CTAs. ptx-sm80 compiles for sm_80,
// the supported GPU with the fewest instructions.

#include <dlfcn.h>

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "compiler/compiler_api.h"
#include "kernels/core/compile_options.h"
#include "program/serialize.h"
#include "runtime/cuda/tensor_map.h"
#include "tests/support/backend.h"
#include "tests/support/ptx/machine.h"

namespace ligerdsl::test {
namespace {

constexpr int64_t kAtATime = 2;               // programs in a dynamic persistent grid
constexpr int64_t kSharedBytes = 227 * 1024;  // limit per CTA on sm_90

struct Compiled {
  ptx::Program program;
  int64_t shared_bytes = 0, cluster = 1;
  bool dynamic_persistent = false;
  std::vector<program::TensorMap> maps;
};

// The arguments of a launch, packed into slots, and the variant to run.
struct Packed {
  std::vector<uint64_t> slots;
  kernels::Variant variant = kernels::Variant::aligned;
  bool disjoint = true;  // true if no two arguments share memory
  ptx::GlobalMemory memory;
};

void pack_view(Packed& packed, const Tensor& tensor, const program::Type& type) {
  const size_t rank = type.shape.size();
  packed.slots.push_back(reinterpret_cast<uintptr_t>(tensor.data()));
  for (int64_t size : tensor.shape()) packed.slots.push_back(static_cast<uint64_t>(size));
  for (size_t i = 0; i < rank; ++i) {
    const bool unit = i + 1 == rank && type.strides[i] == 1;
    packed.slots.push_back(static_cast<uint64_t>(unit ? 1 : tensor.strides()[i]));
  }
}

uint64_t bits_of(const program::Type& type, const Arguments::Entry& entry) {
  if (type.dtype == DType::f32) return std::bit_cast<uint32_t>(static_cast<float>(entry.number));
  if (type.dtype == DType::i32) return static_cast<uint32_t>(entry.integer);
  if (type.dtype == DType::i64) return static_cast<uint64_t>(entry.integer);
  if (is_fp8(type.dtype)) return to_fp8(type.dtype == DType::f8e4m3 ? kE4m3 : kE5m2, entry.number);
  throw std::logic_error(std::string("no scalar arguments of type ") + name(type.dtype));
}

// Returns the first variant whose facts hold for the arguments.
kernels::Variant variant_for(const program::Program& program, const Arguments& arguments) {
  const std::vector<kernels::Variant> variants = kernels::variants_of(program);
  return *std::find_if(variants.begin(), variants.end() - 1, [&](kernels::Variant variant) {
    const std::vector<program::ArgFacts> facts = kernels::argument_facts(program, variant);
    for (size_t i = 0; i < facts.size(); ++i) {
      const auto& entry = arguments.find(program.arguments[i].name);
      if (entry.is_tensor &&
          !kernels::is_aligned(facts[i], entry.tensor.data(), entry.tensor.shape().data(),
                               entry.tensor.strides().data()))
        return false;
    }
    return true;
  });
}

Packed pack(const program::Program& program, const Arguments& arguments) {
  Packed packed;
  packed.variant = variant_for(program, arguments);
  std::set<Storage*> storages;
  for (size_t i = 0; i < program.arguments.size(); ++i) {
    const program::Argument& argument = program.arguments[i];
    const auto& entry = arguments.find(argument.name);
    const program::Type& type = program.values[argument.value];
    if (!entry.is_tensor) {
      packed.slots.push_back(bits_of(type, entry));
      continue;
    }
    Storage& storage = *entry.tensor.storage();
    if (storages.insert(&storage).second) {
      packed.memory.add(storage.begin() + kCanary, storage.size() - 2 * kCanary);
    } else {
      packed.disjoint = false;
    }
    pack_view(packed, entry.tensor, type);
  }
  return packed;
}

bool has_maps(const Compiled& kernel, const Packed& packed) {
  for (const program::TensorMap& map : kernel.maps)
    if (!runtime::reason_not_mapped(map, packed.slots.data()).empty()) return false;
  return true;
}

std::vector<ptx::TensorMap> encoded(const std::vector<program::TensorMap>& maps,
                                    const Packed& packed) {
  runtime::cuda::Api api;
  api.encode_map = ptx::encode;
  std::vector<ptx::TensorMap> all(maps.size());
  for (size_t i = 0; i < maps.size(); ++i)
    if (runtime::encode_map(api, maps[i], packed.slots.data(),
                            reinterpret_cast<runtime::cuda::TensorMap*>(&all[i])))
      throw std::runtime_error("the driver rejects a tensor map");
  return all;
}

// The artifact and the PTX must agree on whether the kernel contains griddepcontrol.wait. The
// emulator reports accesses before this wait.
void check_overlap(const program::Artifact& artifact) {
  const bool waits = artifact.code.find("griddepcontrol.wait;") != std::string::npos;
  if (artifact.launch_overlap == waits) return;
  throw std::runtime_error("griddepcontrol.wait is not where the artifact says:\n" + artifact.code);
}

class PtxBackend : public Backend {
 public:
  PtxBackend(const ligerdsl_compiler_table* compiler, int cluster, std::string arch)
      : compiler_(compiler), cluster_(cluster), arch_(std::move(arch)) {}

  std::string name() const override {
    if (arch_ == "sm_80") return "ptx-sm80";
    return cluster_ == 1 ? "ptx" : "ptx-cluster" + std::to_string(cluster_);
  }
  kernels::Machine machine() const override { return kernels::gpu(arch_, 4, 90); }
  int64_t budget() const override { return (1 << 17) / cluster_; }
  std::vector<std::string> took_generic() override { return std::exchange(took_generic_, {}); }

 protected:
  void launch(const kernels::Step& step, const kernels::Grid& grid,
              const Arguments& arguments) override {
    Packed packed = pack(step.program, arguments);
    if (packed.variant != kernels::Variant::any &&
        !has_maps(compiled(step, packed.variant, packed.disjoint), packed))
      packed.variant = kernels::Variant::any;
    if (packed.variant != kernels::Variant::aligned &&
        packed.variant != kernels::Variant::contiguous)
      took_generic_.push_back(step.program.name);
    const Compiled& kernel = compiled(step, packed.variant, packed.disjoint);
    ptx::Launch parameters;
    parameters.maps = encoded(kernel.maps, packed);
    parameters.slots = std::move(packed.slots);
    parameters.grid = grid;
    parameters.shared_bytes = kernel.shared_bytes;
    parameters.seed = ++launches_;
    if (kernel.dynamic_persistent)
      parameters.grid[0] = std::min<int64_t>(parameters.grid[0], kAtATime);
    parameters.grid[0] *= kernel.cluster;
    parameters.cluster[0] = kernel.cluster;
    ptx::run(kernel.program, parameters, packed.memory);
  }

 private:
  const Compiled& compiled(const kernels::Step& step, kernels::Variant variant, bool disjoint) {
    program::CompileOptions options;
    options.target = program::Target::nvptx;
    options.arch = arch_;
    options = kernels::compile_options(
        std::move(options), step.program, step.launch, variant,
        disjoint ? kernels::all_disjoint(step.program) : std::vector<kernels::ArgPromise>());
    options.num_ctas = step.launch.num_ctas > 1 ? step.launch.num_ctas : cluster_;
    const std::string program = program::serialize(step.program),
                      facts = program::serialize(options);
    const auto known = kernels_.find({program, facts});
    if (known != kernels_.end()) return known->second;
    const program::Artifact artifact = program::parseArtifact(compile(program, facts));
    check_overlap(artifact);
    if (artifact.shared_bytes > kSharedBytes) {
      throw std::runtime_error(std::to_string(artifact.shared_bytes) +
                               " bytes of shared memory; a CTA has " +
                               std::to_string(kSharedBytes));
    }
    const Compiled kernel{ptx::parse(artifact.code), artifact.shared_bytes, artifact.cluster,
                          artifact.dynamic_persistent, artifact.maps};
    if (kernel.program.threads != artifact.threads)
      throw std::runtime_error(".reqntid differs from the artifact's number of threads");
    return kernels_[{program, facts}] = kernel;
  }

  std::string compile(const std::string& program, const std::string& options) const {
    ligerdsl_bytes artifact{}, error{};
    const int32_t status = compiler_->compile(
        reinterpret_cast<const uint8_t*>(program.data()), program.size(),
        reinterpret_cast<const uint8_t*>(options.data()), options.size(), &artifact, &error);
    const ligerdsl_bytes& bytes = status ? error : artifact;
    const std::string text(reinterpret_cast<const char*>(bytes.data), bytes.size);
    compiler_->free_bytes(bytes);
    if (status) throw std::runtime_error("compile: " + text);
    return text;
  }

  const ligerdsl_compiler_table* compiler_;
  int cluster_;
  std::string arch_;
  std::map<std::tuple<std::string, std::string>, Compiled> kernels_;
  uint64_t launches_ = 0;
  std::vector<std::string> took_generic_;
};

template <int cluster, bool old = false>
BackendChoice make() {
  void* library = dlopen(LIGERDSL_TEST_COMPILER, RTLD_NOW | RTLD_LOCAL);
  if (!library) return {nullptr, dlerror()};
  const auto open =
      reinterpret_cast<ligerdsl_compiler_entry_fn>(dlsym(library, LIGERDSL_COMPILER_ENTRY));
  if (!open) return {nullptr, dlerror()};
  return {std::make_unique<PtxBackend>(open(), cluster, old ? "sm_80" : "sm_90a"), ""};
}

const BackendEntry entry("ptx", make<1>), cluster2("ptx-cluster2", make<2>),
    cluster4("ptx-cluster4", make<4>), sm80("ptx-sm80", make<1, true>);

}  // namespace
}  // namespace ligerdsl::test
