#include "lib/cli/kernels/authors.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <ligerdsl/dsl/author.h>

#include "lib/abi/deterministic.h"
#include "lib/abi/validate.h"
#include "lib/instance/op_instance.h"
#include "lib/text/nearest.h"
#include "lib/text/output.h"
#include "runtime/observe/ranges.h"
#include "runtime/system/elf_image.h"
#include "runtime/system/files.h"

namespace ligerdsl::cli {

namespace {

lib::BoundTensor contiguous(void* data, const std::vector<int64_t>& shape, DType type) {
  lib::BoundTensor tensor{};
  tensor.data = static_cast<std::byte*>(data);
  tensor.rank = static_cast<int>(shape.size());
  tensor.dtype = type;
  tensor.present = true;
  const std::vector<int64_t> strides = strides_of(shape);
  for (int i = 0; i < tensor.rank; ++i) tensor.dims[i] = shape[i], tensor.strides[i] = strides[i];
  return tensor;
}

}  // namespace

namespace {

// Fails for a truncated file. The loader maps the sizes in the ELF headers, and a read beyond the
// file's end would raise SIGBUS. The loader reports other faults.
void require_whole(const std::string& path, const std::string& file) {
  constexpr size_t kMostBytes = size_t{1} << 32;
  std::string problem;
  const std::optional<std::string> image = runtime::read_file(path, kMostBytes, &problem);
  if (image && runtime::is_cut_short_elf(*image))
    throw Failure(kUsage, fmt::format("--load {}: expected a complete shared object, got a "
                                      "truncated file; build or copy it again",
                                      file));
}

// Returns the kernels in a file's table. An error names the file.
std::vector<std::unique_ptr<AnyKernel>> kernels_in(ligerdsl_author_entry_fn entry,
                                                   const std::string& file) {
  try {
    return kernels_of(entry());
  } catch (const std::exception& error) {
    throw Failure(kUsage, fmt::format("--load {}: {}", file, error.what()));
  }
}

}  // namespace

AuthorKernels::AuthorKernels(const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    // For a name without a slash, dlopen would search the library path, but the user means the
    // working folder.
    const std::string path = file.find('/') == std::string::npos ? "./" + file : file;
    require_whole(path, file);
    void* handle =
        dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);  // never closed, because kernels use its code
    if (!handle) throw Failure(kUsage, fmt::format("--load {}: {}", file, dlerror()));
    const auto entry =
        reinterpret_cast<ligerdsl_author_entry_fn>(dlsym(handle, LIGERDSL_AUTHOR_ENTRY));
    if (!entry)
      throw Failure(
          kUsage,
          fmt::format("--load {}: expected a shared object that exports kernels, got one without; "
                      "put LIGERDSL_EXPORT_KERNELS(); into one of its source files",
                      file));
    for (auto& kernel : kernels_in(*entry, file)) add(std::move(kernel), file);
  }
}

void AuthorKernels::add(std::unique_ptr<AnyKernel> kernel, const std::string& file) {
  const std::string name = kernel->name();
  for (const lib::OpInfo* op : lib::op_table()) {
    if (op->name == name)
      throw Failure(
          kUsage,
          fmt::format("--load {}: the library has an operation named '{}'; give the kernel another "
                      "name",
                      file, name));
  }
  for (size_t i = 0; i < kernels_.size(); ++i) {
    if (kernels_[i]->name() == name)
      throw Failure(
          kUsage,
          fmt::format(
              "--load {}: a kernel named '{}' was loaded already, from {}; give one of them "
              "another name",
              file, name, files_[i]));
  }
  kernels_.push_back(std::move(kernel));
  files_.push_back(file);
}

const AnyKernel* AuthorKernels::find(const std::string& name) const {
  for (const auto& kernel : kernels_) {
    if (kernel->name() == name) return kernel.get();
  }
  return nullptr;
}

const AnyKernel* AuthorKernels::find_or_op(const std::string& name) const {
  if (const AnyKernel* kernel = find(name)) return kernel;
  std::vector<std::string> names;
  for (const auto& kernel : kernels_) names.push_back(kernel->name());
  find_op(name, names);
  return nullptr;
}

constexpr uint8_t kGuardByte = 0xa5;

AuthorInstance::AuthorInstance(const AuthorCall& call, const lib::ContextRef& context, size_t guard)
    : call_(call), context_(context), bound_(call.arguments().size()), guard_(guard) {
  program::Program program = call.program();
  lib::require_deterministic(*context_, program);
  assumptions_ = lib::AssumptionWord::of(*context_, &program);
  {
    const runtime::Range range(runtime::RangeKind::plan, program.name);
    launcher_ = std::make_unique<lib::Launcher>(*context_, program, call.launch());
  }
  allocate();
}

AuthorInstance::~AuthorInstance() {
  for (void* memory : memory_) context_->device().free(memory);
}

void AuthorInstance::allocate() {
  for (size_t i = 0; i < bound_.size(); ++i) {
    const AuthorArgument& argument = call_.arguments()[i];
    if (!argument.is_memory()) continue;
    const std::string bytes = argument.initial_bytes(i);
    auto* base = static_cast<std::byte*>(context_->device().alloc(bytes.size() + 2 * guard_));
    memory_.push_back(base);
    if (guard_ > 0) context_->device().fill(base, kGuardByte, bytes.size() + 2 * guard_, nullptr);
    std::byte* data = base + guard_;
    context_->device().copy(data, bytes.data(), bytes.size(), nullptr);
    bound_[i] = contiguous(data, argument.shape, argument.type.dtype);
  }
  context_->device().synchronize(nullptr);
}

void AuthorInstance::write_initial(const std::vector<bool>& poisoned) {
  for (size_t i = 0; i < bound_.size(); ++i) {
    const AuthorArgument& argument = call_.arguments()[i];
    if (!argument.is_memory()) continue;
    std::string bytes = argument.initial_bytes(i);
    if (poisoned[i]) bytes.assign(bytes.size(), '\xff');
    context_->device().copy(bound_[i].data, bytes.data(), bytes.size(), nullptr);
    context_->device().synchronize(nullptr);
  }
}

std::string AuthorInstance::broken_guard() const {
  std::string bytes(guard_, '\0');
  for (size_t i = 0; i < bound_.size(); ++i) {
    const AuthorArgument& argument = call_.arguments()[i];
    if (!argument.is_memory()) continue;
    const auto* data = bound_[i].data;
    for (const std::byte* at :
         {data - guard_, data + elements(argument.shape) * size_of(argument.type.dtype)}) {
      context_->device().copy(bytes.data(), at, bytes.size(), nullptr);
      context_->device().synchronize(nullptr);
      if (bytes.find_first_not_of(static_cast<char>(kGuardByte)) != std::string::npos)
        return argument.name;
    }
  }
  return "";
}

void AuthorInstance::launch(runtime::Stream stream) const {
  if (call_.dynamic_persistent())
    context_->device().fill(bound_[0].data, 0, sizeof(int32_t), stream);
  lib::Launcher::Pack pack(*launcher_);
  for (size_t i = 0; i < bound_.size(); ++i) {
    const AuthorArgument& argument = call_.arguments()[i];
    if (argument.is_view())
      pack.view(bound_[i]);
    else if (argument.is_memory())
      pack.bits(reinterpret_cast<uintptr_t>(bound_[i].data));
    else if (is_float(argument.type.dtype))
      pack.bits(lib::bits_of(argument.type.dtype, argument.number));
    else
      pack.bits(lib::bits_of(argument.type.dtype, argument.integer));
  }
  if (assumptions_) pack.bits(assumptions_->address());
  const auto run = [&] {
    pack.launch(call_.grid(), stream);
    if (assumptions_) assumptions_->check(stream);
  };
  if (!context_->options().validate) return run();
  std::vector<lib::Watched> watched;
  for (size_t i = 0; i < bound_.size(); ++i) {
    const bool written = launcher_->aliasing().written()[i];
    if (call_.arguments()[i].is_view())
      watched.push_back({call_.arguments()[i].name.c_str(), &bound_[i], !written, written});
  }
  lib::run_validated(*context_, watched, stream, run);
}

std::string AuthorInstance::read(size_t i) const {
  const AuthorArgument& argument = call_.arguments()[i];
  std::string bytes(static_cast<size_t>(elements(argument.shape) * size_of(argument.type.dtype)),
                    '\0');
  context_->device().copy(bytes.data(), bound_[i].data, bytes.size(), nullptr);
  context_->device().synchronize(nullptr);
  return bytes;
}

}  // namespace ligerdsl::cli
