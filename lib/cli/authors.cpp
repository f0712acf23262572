#include "lib/cli/authors.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ligerdsl/dsl/author.h>

#include <algorithm>
#include <random>

#include "kernels/launch.h"
#include "lib/cli/nearest.h"
#include "lib/cli/numbers.h"
#include "lib/cli/settings.h"
#include "program/op_info.h"
#include "program/serialize.h"

namespace ligerdsl::cli {

namespace {

std::vector<int64_t> parse_shape(const std::string& name, const std::string& text) {
  std::vector<int64_t> shape;
  size_t at = 0;
  while (at <= text.size()) {
    const size_t end = std::min(text.find('x', at), text.size());
    shape.push_back(parse_integer(fmt::format("{}={}, a shape like 4096x512 or the name of another view", name, text),
                                  text.substr(at, end - at), 0, kMaxSize));
    at = end + 1;
  }
  return shape;
}

std::string random_bytes(DType type, int64_t n, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::string bytes;
  for (int64_t i = 0; i < n; ++i) append(&bytes, type, is_float(type) ? normal(random) : 0.0);
  return bytes;
}

lib::BoundTensor contiguous(void* data, const std::vector<int64_t>& shape, DType type) {
  lib::BoundTensor tensor{};
  tensor.data = static_cast<std::byte*>(data);
  tensor.rank = static_cast<int>(shape.size());
  tensor.dtype = type;
  tensor.present = true;
  int64_t stride = 1;
  for (int i = tensor.rank - 1; i >= 0; --i) {
    tensor.dims[i] = shape[i];
    tensor.strides[i] = stride;
    stride *= shape[i];
  }
  return tensor;
}

}  // namespace

AuthorKernels::AuthorKernels(const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    // A path without a slash means the working folder here, not the linker's search path.
    const std::string path = file.find('/') == std::string::npos ? "./" + file : file;
    void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);  // never closed: kernels keep code in it
    if (!handle) throw Failure(kUsage, fmt::format("--load {}: {}", file, dlerror()));
    const auto entry = reinterpret_cast<ligerdsl_author_entry_fn>(dlsym(handle, LIGERDSL_AUTHOR_ENTRY));
    if (!entry)
      throw Failure(kUsage, fmt::format("--load {}: no kernels; a file of it needs LIGERDSL_EXPORT_KERNELS();", file));
    for (auto& kernel : kernels_of(entry())) kernels_.push_back(std::move(kernel));
  }
}

const AnyKernel* AuthorKernels::find(const std::string& name) const {
  for (const auto& kernel : kernels_) {
    if (kernel->name() == name) return kernel.get();
  }
  return nullptr;
}

MetaValues take_meta(const AnyKernel& kernel, const std::vector<std::string>& settings,
                     std::map<std::string, std::string>* rest) {
  MetaValues meta;
  const std::vector<MetaField> fields = kernel.fields();
  for (const std::string& setting : settings) {
    const auto [name, value] = parse_setting(setting);
    bool is_meta = false;
    for (const MetaField& field : fields) is_meta = is_meta || field.name == name;
    if (is_meta)
      meta[name] = value;
    else
      (*rest)[name] = value;
  }
  return meta;
}

AuthorInstance::AuthorInstance(const AnyKernel& kernel, const std::vector<std::string>& settings,
                               const std::map<std::string, Array>& inputs, const lib::ContextRef& context)
    : context_(context) {
  std::map<std::string, std::string> rest;
  const MetaValues meta = take_meta(kernel, settings, &rest);
  program_ = program::parseProgram(kernel.program_bytes(meta));
  set_arguments(std::move(rest), inputs);

  std::vector<LaunchArguments::Argument> launch_arguments;
  for (const Argument& argument : arguments_) {
    std::vector<int64_t> strides(argument.shape.size());
    int64_t stride = 1;
    for (size_t i = strides.size(); i-- > 0; stride *= argument.shape[i]) strides[i] = stride;
    launch_arguments.push_back({argument.name, argument.shape, strides, argument.number});
  }
  const Launch launch = kernel.launch(meta, LaunchArguments(launch_arguments));
  const auto axis = [&](size_t i) { return i < launch.grid.size() ? launch.grid[i] : 1; };
  grid_ = {axis(0), axis(1), axis(2)};
  if (ticket_arguments_) arguments_[1].number = static_cast<double>(grid_.x);
  launcher_ = std::make_unique<lib::Launcher>(*context_, program_, launch);
  allocate(inputs);
}

AuthorInstance::~AuthorInstance() {
  for (void* memory : memory_) context_->device().free(memory);
}

void AuthorInstance::set_arguments(std::map<std::string, std::string> rest,
                                   const std::map<std::string, Array>& inputs) {
  const std::vector<bool> written = kernels::written_arguments(program_);
  for (size_t i = 0; i < program_.arguments.size(); ++i) {
    arguments_.push_back({program_.arguments[i].name, program_.values[program_.arguments[i].value]});
    arguments_.back().written = written[i];
  }
  const auto take = [&](const std::string& name) {
    const auto found = rest.find(name);
    if (found == rest.end())
      throw Failure(kUsage, fmt::format("argument '{}' is missing: give {}=... or --in {}=FILE.npy", name, name, name));
    const std::string text = found->second;
    rest.erase(found);
    return text;
  };
  ticket_arguments_ = program::runsByTickets(program_) ? 2 : 0;
  std::map<std::string, std::string> like;
  for (size_t i = 0; i < arguments_.size(); ++i) {
    Argument& argument = arguments_[i];
    const auto input = inputs.find(argument.name);
    if (i < ticket_arguments_) {  // tickets [1], then the number of programs
      if (i == 0) argument.shape = {1};
    } else if (argument.type.kind != program::TypeKind::view) {
      argument.number = parse_real(argument.name, take(argument.name));
    } else if (input != inputs.end()) {
      argument.shape = input->second.shape;
      const auto also = rest.find(argument.name);
      if (also != rest.end() && parse_shape(argument.name, also->second) != argument.shape)
        throw Failure(kUsage, fmt::format("{} has the shape [{}] by --in {}={}, but {} by the setting; leave it out",
                                          argument.name, fmt::join(argument.shape, ", "), argument.name,
                                          input->second.source, also->second));
      rest.erase(argument.name);
    } else if (const std::string text = take(argument.name);
               !text.empty() && !std::isdigit(static_cast<unsigned char>(text[0]))) {
      like[argument.name] = text;
    } else {
      argument.shape = parse_shape(argument.name, text);
    }
  }
  for (Argument& argument : arguments_) {
    if (!like.count(argument.name)) continue;
    const auto other = std::find_if(arguments_.begin(), arguments_.end(),
                                    [&](const Argument& each) { return each.name == like[argument.name]; });
    if (other == arguments_.end())
      throw Failure(kUsage, fmt::format("{}={}: expected a shape like 4096x512, or the name of another view",
                                        argument.name, like[argument.name]));
    argument.shape = other->shape;
  }
  for (const Argument& argument : arguments_) {
    if (argument.type.kind == program::TypeKind::view && argument.shape.size() != argument.type.shape.size()) {
      throw Failure(kUsage, fmt::format("{}: expected {} dimensions, got {}", argument.name, argument.type.shape.size(),
                                        argument.shape.size()));
    }
  }
  std::vector<std::string> names;
  for (const Argument& argument : arguments_) names.push_back(argument.name);
  const auto unknown = [&](const char* what, const std::string& name) {
    return Failure(kUsage, fmt::format("{} has no {} '{}'{}; its arguments are {}", program_.name, what, name,
                                       did_you_mean(name, names), fmt::join(names, ", ")));
  };
  if (!rest.empty()) throw unknown("setting or argument", rest.begin()->first);
  for (const auto& [name, array] : inputs) {
    if (!std::count(names.begin(), names.end(), name)) throw unknown("argument", name);
  }
}

void AuthorInstance::allocate(const std::map<std::string, Array>& inputs) {
  for (size_t i = 0; i < arguments_.size(); ++i) {
    Argument& argument = arguments_[i];
    if (argument.type.kind != program::TypeKind::view) continue;
    const auto input = inputs.find(argument.name);
    const int64_t n = elements(argument.shape);
    const std::string bytes = input != inputs.end() ? convert(input->second, argument.type.dtype)
                              : argument.written
                                  ? std::string(static_cast<size_t>(n * size_of(argument.type.dtype)), '\0')
                                  : random_bytes(argument.type.dtype, n, i);
    void* data = context_->device().alloc(bytes.size());
    memory_.push_back(data);
    context_->device().copy(data, bytes.data(), bytes.size(), nullptr);
    argument.bound = contiguous(data, argument.shape, argument.type.dtype);
  }
  context_->device().synchronize(nullptr);
}

void AuthorInstance::launch(runtime::Stream stream) const {
  if (ticket_arguments_) context_->device().fill(arguments_[0].bound.data, 0, sizeof(int32_t), stream);
  lib::Launcher::Pack pack(*launcher_);
  for (const Argument& argument : arguments_) {
    if (argument.type.kind == program::TypeKind::view)
      pack.view(argument.bound);
    else if (is_float(argument.type.dtype))
      pack.bits(lib::bits_of(argument.type.dtype, argument.number));
    else
      pack.bits(lib::bits_of(argument.type.dtype, static_cast<int64_t>(argument.number)));
  }
  pack.launch(grid_, stream);
}

std::string AuthorInstance::read(const Argument& argument) const {
  std::string bytes(static_cast<size_t>(elements(argument.shape) * size_of(argument.type.dtype)), '\0');
  context_->device().copy(bytes.data(), argument.bound.data, bytes.size(), nullptr);
  context_->device().synchronize(nullptr);
  return bytes;
}

double AuthorInstance::bytes_moved() const {
  double bytes = 0;
  for (const Argument& argument : arguments_) {
    if (argument.type.kind == program::TypeKind::view)
      bytes += static_cast<double>(elements(argument.shape) * size_of(argument.type.dtype));
  }
  return bytes;
}

}  // namespace ligerdsl::cli
