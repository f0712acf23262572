// Runs operations on the CPU or a GPU, through the kernel functions of the C ABI
// (ligerdsl_kernel_create, ligerdsl_kernel_launch).
#include <iostream>
#include <map>
#include <set>
#include <stdexcept>

#include "ligerdsl/dsl.h"
#include "ligerdsl/ligerdsl.h"
#include "program/serialize.h"
#include "tests/support/backend.h"

namespace ligerdsl::test {
namespace {

void check(ligerdsl_status_t status, const char* what) {
  if (status == LIGERDSL_SUCCESS) return;
  throw std::runtime_error(std::string(what) + ": " + ligerdsl_status_name(status) + ": " +
                           ligerdsl_last_error());
}

int32_t dtype_code(DType type) {
  switch (type) {
    case DType::f32:
      return LIGERDSL_F32;
    case DType::f16:
      return LIGERDSL_F16;
    case DType::bf16:
      return LIGERDSL_BF16;
    case DType::i32:
      return LIGERDSL_I32;
    case DType::i64:
      return LIGERDSL_I64;
    case DType::i8:
      return LIGERDSL_I8;
    case DType::i16:
      return LIGERDSL_I16;
    case DType::f8e4m3:
      return LIGERDSL_F8E4M3;
    case DType::f8e5m2:
      return LIGERDSL_F8E5M2;
    case DType::i1:
      return LIGERDSL_BOOL;
  }
  throw std::logic_error("the dtype has no case in this switch");
}

// Returns true if the device compiles and loads a kernel with clusters. Otherwise prints the reason
// and returns false.
bool takes_clusters(ligerdsl_context_t context) {
  KernelBuilder k("clusters");
  View x = k.view("x", DType::f32, {1024});
  x.partition({1024}).store({0}, k.zeros({1024}, DType::f32));
  const std::string bytes = program::serialize(k.finish());
  ligerdsl_kernel_options_t options = LIGERDSL_KERNEL_OPTIONS_INIT;
  options.num_ctas = 2;
  ligerdsl_kernel_t kernel = nullptr;
  if (ligerdsl_kernel_create(context, bytes.data(), bytes.size(), &options, &kernel) ==
      LIGERDSL_SUCCESS) {
    ligerdsl_kernel_destroy(kernel);
    return true;
  }
  std::cerr << "the tests use no clusters: " << ligerdsl_last_error() << "\n";
  return false;
}

class LibraryBackend : public Backend {
 public:
  LibraryBackend(bool cuda, ligerdsl_context_t context)
      : cuda_(cuda), clusters_(cuda && takes_clusters(context)), context_(context) {}
  ~LibraryBackend() override { release(); }

  std::string name() const override { return cuda_ ? "cuda" : "cpu"; }
  kernels::Machine machine() const override {
    return cuda_ ? kernels::gpu("sm_90a", 132, clusters_ ? 90 : 80) : kernels::Machine{};
  }
  int64_t budget() const override { return cuda_ ? 1 << 22 : 1 << 19; }

  void set_threads(int threads) override {
    if (cuda_) return;
    release();
    ligerdsl_context_config_t config = LIGERDSL_CONTEXT_CONFIG_INIT;
    config.num_threads = threads;
    check(ligerdsl_context_create(&config, &context_), "ligerdsl_context_create");
  }

 protected:
  void launch(const kernels::Step& step, const kernels::Grid& grid,
              const Arguments& arguments) override {
    Mirror mirror(*this);
    const size_t count = step.program.arguments.size();
    std::vector<ligerdsl_kernel_arg_t> args(count);
    std::vector<ligerdsl_tensor_t> tensors(count);
    std::vector<Sizes> shapes(count), strides(count);
    std::set<Storage*> storages;
    bool shared = false;
    for (size_t i = 0; i < count; ++i) {
      const auto& entry = arguments.find(step.program.arguments[i].name);
      const program::Type& type = step.program.values[step.program.arguments[i].value];
      args[i] = {};
      if (entry.is_tensor) {
        shared = shared || !storages.insert(entry.tensor.storage().get()).second;
        shapes[i] = entry.tensor.shape();
        strides[i] = entry.tensor.strides();
        tensors[i] = {mirror.data(entry.tensor),
                      device(),
                      static_cast<int32_t>(shapes[i].size()),
                      ligerdsl_dtype_of(dtype_code(entry.tensor.type())),
                      shapes[i].data(),
                      strides[i].data(),
                      0};
        args[i].kind = LIGERDSL_ARG_TENSOR;
        args[i].tensor = &tensors[i];
      } else {
        args[i].kind = is_float(type.dtype) ? LIGERDSL_ARG_NUMBER : LIGERDSL_ARG_INTEGER;
        args[i].number = entry.number;
        args[i].integer = entry.integer;
      }
    }
    int32_t programs[3] = {1, 1, 1};
    for (size_t i = 0; i < grid.size(); ++i) programs[i] = static_cast<int32_t>(grid[i]);
    check(ligerdsl_kernel_launch(kernel(step, !shared), args.data(), count, programs, nullptr),
          "launch");
    mirror.copy_back();
  }

 private:
  ligerdsl_device_t device() const { return {cuda_ ? LIGERDSL_CUDA : LIGERDSL_CPU, 0}; }

  ligerdsl_kernel_t kernel(const kernels::Step& step, bool no_alias) {
    const std::string bytes = program::serialize(step.program);
    ligerdsl_kernel_t& kernel =
        kernels_[{bytes, step.launch.num_warps, step.launch.num_ctas, no_alias}];
    if (kernel) return kernel;
    ligerdsl_kernel_options_t options = LIGERDSL_KERNEL_OPTIONS_INIT;
    options.num_warps = step.launch.num_warps;
    options.num_ctas = step.launch.num_ctas;
    options.num_stages = step.launch.num_stages;
    options.min_ctas_per_sm = step.launch.min_ctas_per_sm;
    options.no_alias = no_alias;
    check(ligerdsl_kernel_create(context_, bytes.data(), bytes.size(), &options, &kernel),
          step.program.name.c_str());
    return kernel;
  }

  void release() {
    for (auto& entry : kernels_) ligerdsl_kernel_destroy(entry.second);
    kernels_.clear();
    if (context_) ligerdsl_context_destroy(context_);
    context_ = nullptr;
  }

  // Copies of storages in device memory, with canaries and gaps. Sparse storages are copied row by
  // row, without gaps. On a CPU, kernels use the storages themselves.
  class Mirror {
   public:
    explicit Mirror(LibraryBackend& backend) : backend_(backend) {}
    ~Mirror() {
      for (auto& [storage, memory] : copies_)
        (void)!ligerdsl_buffer_free(backend_.context_, memory);
    }
    void* data(const Tensor& tensor) {
      if (!backend_.cuda_) return tensor.data();
      const Storage& host = *tensor.storage();
      void*& memory = copies_[tensor.storage().get()];
      if (!memory) {
        check(ligerdsl_buffer_alloc(backend_.context_, host.size(), &memory),
              "ligerdsl_buffer_alloc");
        if (!host.is_sparse()) copy(memory, host.begin(), host.size());
      }
      if (host.is_sparse()) {
        sparse_.push_back(tensor);
        for_each_row(tensor, [&](int64_t at, int64_t bytes) {
          copy(static_cast<uint8_t*>(memory) + at, host.begin() + at, bytes);
        });
      }
      return static_cast<uint8_t*>(memory) + tensor.byte_offset();
    }
    void copy_back() {
      if (!backend_.cuda_) return;
      for (auto& [storage, memory] : copies_) {
        if (!storage->is_sparse()) copy(storage->begin(), memory, storage->size());
      }
      for (const Tensor& tensor : sparse_) {
        Storage& host = *tensor.storage();
        const auto* memory = static_cast<const uint8_t*>(copies_.at(&host));
        for_each_row(tensor, [&](int64_t at, int64_t bytes) {
          copy(host.begin() + at, memory + at, bytes);
        });
      }
      check(ligerdsl_stream_sync(backend_.context_, nullptr), "ligerdsl_stream_sync");
    }

   private:
    void copy(void* to, const void* from, int64_t bytes) {
      check(ligerdsl_buffer_copy(backend_.context_, to, from, static_cast<size_t>(bytes), nullptr),
            "copy");
    }
    // Calls body(offset, size) for each row of a sparse tensor: offset in the storage and size of
    // the row, both in bytes.
    template <class Body>
    static void for_each_row(const Tensor& tensor, const Body& body) {
      const int64_t size = size_of(tensor.type());
      for (int64_t row = 0; row < tensor.shape()[0]; ++row)
        body(tensor.byte_offset() + row * tensor.strides()[0] * size, tensor.shape()[1] * size);
    }

    LibraryBackend& backend_;
    std::map<Storage*, void*> copies_;
    std::vector<Tensor> sparse_;
  };

  bool cuda_, clusters_;
  ligerdsl_context_t context_;
  std::map<std::tuple<std::string, int, int, bool>, ligerdsl_kernel_t> kernels_;
};

BackendChoice make(bool cuda) {
  ligerdsl_context_config_t config = LIGERDSL_CONTEXT_CONFIG_INIT;
  if (cuda) config.device = {LIGERDSL_CUDA, 0};
  ligerdsl_context_t context = nullptr;
  if (ligerdsl_context_create(&config, &context) != LIGERDSL_SUCCESS)
    return {nullptr, ligerdsl_last_error()};
  return {std::make_unique<LibraryBackend>(cuda, context), ""};
}

const BackendEntry cpu_entry("cpu", [] { return make(false); });
const BackendEntry cuda_entry("cuda", [] { return make(true); });

}  // namespace
}  // namespace ligerdsl::test
