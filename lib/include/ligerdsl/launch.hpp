// Launches a Kernel<Meta> on named tensors. The kernel is recorded and compiled at its first use,
// then reused.
//
//   ligerdsl::Context context = ligerdsl::Context::cpu();
//   ligerdsl::Tensor x(...), y(...);
//   ligerdsl::KernelLauncher launcher(context, squared_relu_kernel);
//   launcher({.type = ligerdsl::f32}, {{"y", y}, {"x", x}, {"scale", 0.5f}}, stream);
//
// The kernel's launch rule gets the sizes and returns the grid and the options. Needs C++20 and the
// CMake targets ligerdsl::ligerdsl and ligerdsl::dsl.
#ifndef LIGERDSL_LAUNCH_HPP_
#define LIGERDSL_LAUNCH_HPP_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "ligerdsl/dsl.h"
#include "ligerdsl/dsl/arguments.h"
#include "ligerdsl/dsl/interpreter.h"
#include "ligerdsl/dsl/kernel.h"
#include "ligerdsl/ligerdsl.hpp"

namespace ligerdsl {

// An argument with the name that the kernel declares. A Tensor must outlive the call.
struct NamedArg {
  std::string name;
  KernelArg value;
};

namespace detail {

// Returns one argument per declared argument, in the declared order. A float scalar also accepts an
// integer. Throws Error for a value that the argument cannot hold. If names are missing, given
// twice or unknown, the Error lists them all.
std::vector<ligerdsl_kernel_arg_t> in_order(const std::string& kernel, const std::vector<DeclaredArgument>& declared,
                                            const std::vector<NamedArg>& given);
LaunchArguments launch_arguments(const std::vector<DeclaredArgument>& declared,
                                 const std::vector<ligerdsl_kernel_arg_t>& args, const Target& target);
// Returns the interpreter's arguments for tensors in host memory. `programs` is the number of
// programs of a dynamic persistent kernel.
interpreter::Arguments host_arguments(const std::string& kernel, const std::vector<DeclaredArgument>& declared,
                                      const std::vector<ligerdsl_kernel_arg_t>& args, int64_t programs);
// Returns the C ABI's grid with three axes. Throws Error for a launch that no device supports.
std::vector<int32_t> launch_grid(const std::string& kernel, const Launch& launch);

template <class Meta>
concept ListsFields = requires(Meta meta, MetaReader reader) {
  meta.visit(reader);
};

// Returns the bytes of a trivially copyable Meta. Padding between fields is 0 if the compiler can
// clear it.
template <class Meta>
std::string bytes_of(const Meta& meta) {
  static_assert(std::is_trivially_copyable_v<Meta>);
  alignas(Meta) char copy[sizeof(Meta)];
  std::memcpy(copy, &meta, sizeof meta);
#if defined(__has_builtin)
#if __has_builtin(__builtin_clear_padding)
  __builtin_clear_padding(reinterpret_cast<Meta*>(copy));
#endif
#endif
  return std::string(copy, sizeof copy);
}

}  // namespace detail

// Returns `meta` with the fields that `ligerdsl --load FILE.so tune KERNEL SETTINGS --export TABLE`
// found fastest for these settings ("x=8192x4096 y=x", in any order) and this device. Returns
// `meta` unchanged if the context's table (LIGERDSL_TABLE) has no such entry. Call it once, not at
// every launch. Throws Error for an entry that sets a field to an invalid value, or that sets a
// field with Bits::fixed.
template <class Meta>
Meta tuned(const Context& context, const Kernel<Meta>& kernel, const Meta& meta, const std::string& settings) {
  const char* config = "";
  const std::string options = tuned_options(meta_fields(meta), settings);
  check(ligerdsl_context_tuned(context.get(), kernel.name.c_str(), options.c_str(), &config));
  const MetaValues values = tuned_values(config);
  for (const MetaField& field : meta_fields(meta)) {
    if (field.bits == Bits::fixed && values.count(field.name))
      throw Error("error: kernel '" + kernel.name + "': the table's entry sets '" + field.name +
                  "', which is not a schedule field (it has Bits::fixed); tune the kernel again");
  }
  return meta_from<Meta>(kernel.name, values, meta);
}

// A kernel on a context, which must outlive the launcher. Any number of threads may launch at the
// same time. A compiled kernel is cached by its recorded program and the fields of its Launch
// except the grid.
//
// A trivially copyable Meta with `visit` is recorded once per distinct value. All fields count,
// also those that `visit` does not list. The Meta must not point to data that changes. Any other
// Meta is recorded at every launch.
template <class Meta>
class KernelLauncher {
 public:
  KernelLauncher(const Context& context, Kernel<Meta> kernel)
      : context_(context), target_(context.target()), kernel_(std::move(kernel)) {
    detail::require_complete(kernel_.name, kernel_.build != nullptr, kernel_.launch != nullptr);
  }

  // Queues the launch. Compiles the kernel at its first use.
  void operator()(const Meta& meta, const std::vector<NamedArg>& args, ligerdsl_stream_t stream = nullptr) {
    Ready ready = prepare_launch(meta, args, stream);
    ready.compiled->kernel.launch(ready.grid, ready.args, stream);
  }

  // Compiles the kernel that operator() would launch with these arguments. Runs nothing.
  void prepare(const Meta& meta, const std::vector<NamedArg>& args, ligerdsl_stream_t stream = nullptr) {
    prepare_launch(meta, args, stream);
  }

 private:
  struct Recorded {
    std::string program;
    std::vector<DeclaredArgument> arguments;
  };
  struct Compiled {
    CompiledKernel kernel;
    // One counter per stream, because launches on two streams may overlap.
    std::map<ligerdsl_stream_t, std::pair<Buffer, Tensor>> next_program;
  };
  struct Ready {
    std::shared_ptr<Compiled> compiled;
    int32_t grid[3];
    std::vector<ligerdsl_kernel_arg_t> args;
  };

  Ready prepare_launch(const Meta& meta, const std::vector<NamedArg>& named, ligerdsl_stream_t stream) {
    const std::lock_guard lock(mutex_);
    const Recorded& recorded = find_recorded(meta);
    Ready ready{nullptr, {}, detail::in_order(kernel_.name, recorded.arguments, named)};
    const Launch launch = kernel_.launch(meta, detail::launch_arguments(recorded.arguments, ready.args, target_));
    const std::vector<int32_t> grid = detail::launch_grid(kernel_.name, launch);
    std::copy(grid.begin(), grid.end(), ready.grid);
    ready.compiled = find_compiled(recorded, launch);
    if (!recorded.arguments.empty() && recorded.arguments.front().hidden) add_next_program(&ready, stream);
    return ready;
  }

  const Recorded& find_recorded(const Meta& meta) {
    if constexpr (detail::ListsFields<Meta> && std::is_trivially_copyable_v<Meta>) {
      std::string key = detail::bytes_of(meta);
      for (const MetaField& field : meta_fields(meta)) key += field.value + "\n";  // may read data beyond the Meta
      const auto found = known_.find(key);
      if (found != known_.end()) return *found->second;
      constexpr size_t kMostKnown = 4096;  // padding can give one value many keys
      if (known_.size() == kMostKnown) known_.clear();
      return *known_.emplace(std::move(key), &record_now(meta)).first->second;
    } else {
      return record_now(meta);
    }
  }

  const Recorded& record_now(const Meta& meta) {
    std::string program = program_bytes(kernel_, meta, target_);
    const auto found = recorded_.find(program);
    if (found != recorded_.end()) return found->second;
    Recorded recorded{program, arguments_of(program)};
    return recorded_.emplace(std::move(program), std::move(recorded)).first->second;
  }

  std::shared_ptr<Compiled> find_compiled(const Recorded& recorded, const Launch& launch) {
    ligerdsl_kernel_options_t options = kernel_options();
    options.num_warps = launch.num_warps;
    options.num_ctas = launch.num_ctas;
    options.num_stages = launch.num_stages;
    options.min_ctas_per_sm = launch.min_ctas_per_sm;
    options.max_registers = launch.max_registers;
    options.no_alias = launch.no_alias ? 1 : 0;
    const std::vector<int> resources = {options.num_warps,       options.num_ctas,      options.num_stages,
                                        options.min_ctas_per_sm, options.max_registers, options.no_alias};
    std::shared_ptr<Compiled>& compiled = compiled_[{&recorded, resources}];
    if (!compiled) compiled.reset(new Compiled{CompiledKernel(context_, recorded.program, options), {}});
    return compiled;
  }

  // Sets the arguments that KernelBuilder::dynamic_persistent adds: the counter and the number of
  // programs.
  void add_next_program(Ready* ready, ligerdsl_stream_t stream) {
    auto& [buffer, tensor] = ready->compiled->next_program[stream];
    if (!buffer.data()) {
      buffer = Buffer(context_, sizeof(int32_t));
      tensor = Tensor(buffer.data(), context_.device(), LIGERDSL_I32, {1});
    }
    context_.fill(buffer.data(), 0, sizeof(int32_t), stream);
    ready->args[0] = KernelArg(tensor).raw();
    ready->args[1] = KernelArg(ready->grid[0]).raw();
  }

  const Context& context_;
  const Target target_;  // the context's target; the caches below are only for it
  Kernel<Meta> kernel_;
  std::mutex mutex_;
  std::map<std::string, Recorded> recorded_;      // key: program bytes
  std::map<std::string, const Recorded*> known_;  // key: bytes and fields of the Meta
  std::map<std::pair<const Recorded*, std::vector<int>>, std::shared_ptr<Compiled>> compiled_;
};

// Launches the kernel on host memory with the reference interpreter, one program after the other.
// Tests compare a compiled kernel's results with the interpreter's. A wrong index throws Error with
// the author's file and line. For kernels with pointers use interpreter::run, which takes the
// number of bytes at each pointer. The kernel is recorded for `target`; pass
// Target(context.target()) to get the program that `context` runs.
template <class Meta>
void interpret(const Kernel<Meta>& kernel, const Meta& meta, const std::vector<NamedArg>& named,
               const interpreter::Options& options = {}, const Target& target = target_named("cpu")) {
  detail::require_complete(kernel.name, kernel.build != nullptr, kernel.launch != nullptr);
  const std::string program = program_bytes(kernel, meta, target);
  const std::vector<DeclaredArgument> declared = arguments_of(program);
  const std::vector<ligerdsl_kernel_arg_t> args = detail::in_order(kernel.name, declared, named);
  const Launch launch = kernel.launch(meta, detail::launch_arguments(declared, args, target));
  const std::vector<int32_t> grid = detail::launch_grid(kernel.name, launch);
  interpreter::Options as_launched = options;
  as_launched.no_alias = options.no_alias || launch.no_alias;
  interpreter::run(program, detail::host_arguments(kernel.name, declared, args, grid[0]), {grid[0], grid[1], grid[2]},
                   as_launched);
}

namespace detail {

inline void accept(const std::string& kernel, const DeclaredArgument& declared, ligerdsl_kernel_arg_t* arg) {
  using Kind = DeclaredArgument::Kind;
  const auto refuse = [&](const std::string& expected) {
    throw Error("error: kernel '" + kernel + "', argument '" + declared.name + "': expected " + expected);
  };
  const auto refuse_kind = [&](const std::string& expected) {
    const char* got = arg->kind == LIGERDSL_ARG_TENSOR    ? "a Tensor"
                      : arg->kind == LIGERDSL_ARG_POINTER ? "a pointer"
                      : arg->kind == LIGERDSL_ARG_INTEGER ? "an integer"
                                                          : "a float";
    refuse(expected + ", got " + got);
  };
  const std::string type = name(declared.dtype);
  if (declared.kind == Kind::view) {
    if (arg->kind != LIGERDSL_ARG_TENSOR) refuse_kind("a Tensor of " + type);
    if (arg->tensor->ndim != declared.rank)
      refuse("a Tensor of rank " + std::to_string(declared.rank) + ", got rank " + std::to_string(arg->tensor->ndim));
  } else if (declared.kind == Kind::pointer) {
    if (arg->kind != LIGERDSL_ARG_POINTER) refuse_kind("a pointer to " + type);
  } else if (is_float(declared.dtype)) {
    if (arg->kind == LIGERDSL_ARG_INTEGER) *arg = KernelArg(static_cast<double>(arg->integer)).raw();
    if (arg->kind != LIGERDSL_ARG_NUMBER) refuse_kind("a number");
  } else {
    if (arg->kind != LIGERDSL_ARG_INTEGER) refuse_kind("an integer for " + type);
    const int64_t least = least_of(declared.dtype), most = most_of(declared.dtype);
    if (arg->integer < least || arg->integer > most)
      refuse("an " + type + " from " + std::to_string(least) + " to " + std::to_string(most) + ", got " +
             std::to_string(arg->integer));
  }
}

inline std::vector<ligerdsl_kernel_arg_t> in_order(const std::string& kernel,
                                                   const std::vector<DeclaredArgument>& declared,
                                                   const std::vector<NamedArg>& given) {
  std::vector<ligerdsl_kernel_arg_t> args(declared.size());
  std::vector<bool> set(declared.size(), false);
  std::string wrong;
  const auto note = [&](const char* what, const std::string& name) {
    wrong += (wrong.empty() ? "" : ", ") + (what + (" '" + name + "'"));
  };
  for (const NamedArg& one : given) {
    size_t i = 0;
    while (i < declared.size() && (declared[i].hidden || declared[i].name != one.name)) ++i;
    if (i == declared.size() || set[i]) {
      note(i == declared.size() ? "unknown" : "given twice:", one.name);
      continue;
    }
    set[i] = true;
    args[i] = one.value.raw();
    accept(kernel, declared[i], &args[i]);
  }
  for (size_t i = 0; i < declared.size(); ++i) {
    if (!set[i] && !declared[i].hidden) note("missing", declared[i].name);
  }
  if (!wrong.empty()) {
    std::string names;
    for (const DeclaredArgument& one : declared)
      if (!one.hidden) names += (names.empty() ? "" : ", ") + one.name;
    throw Error("error: kernel '" + kernel + "': arguments: " + wrong + "; the kernel's arguments are " +
                (names.empty() ? "none" : names));
  }
  return args;
}

inline LaunchArguments launch_arguments(const std::vector<DeclaredArgument>& declared,
                                        const std::vector<ligerdsl_kernel_arg_t>& args, const Target& target) {
  std::vector<LaunchArguments::Argument> list;
  for (size_t i = 0; i < args.size(); ++i) {
    LaunchArguments::Argument argument{.name = declared[i].name};
    argument.pointer = declared[i].kind == DeclaredArgument::Kind::pointer;
    if (const ligerdsl_tensor_t* tensor = args[i].tensor) {
      argument.dims.assign(tensor->shape, tensor->shape + tensor->ndim);
      argument.strides.assign(argument.dims.size(), 1);
      for (size_t axis = argument.dims.size(); !tensor->strides && axis-- > 1;)
        argument.strides[axis - 1] = argument.strides[axis] * argument.dims[axis];
      if (tensor->strides) argument.strides.assign(tensor->strides, tensor->strides + tensor->ndim);
    }
    if (args[i].kind == LIGERDSL_ARG_INTEGER) argument.integer = args[i].integer;
    if (args[i].kind == LIGERDSL_ARG_NUMBER) argument.number = args[i].number;
    list.push_back(std::move(argument));
  }
  return LaunchArguments(std::move(list), target);
}

// Checks a tensor's device, dtype and memory, like the C ABI at a launch.
inline void require_host_tensor(const std::string& kernel, const DeclaredArgument& declared,
                                const ligerdsl_tensor_t& tensor) {
  const std::string what = "error: kernel '" + kernel + "', argument '" + declared.name + "': expected ";
  if (tensor.device.type != LIGERDSL_CPU) throw Error(what + "host memory, got DLPack device type " + std::to_string(tensor.device.type) +
                "; copy the tensor to the host");
  const int64_t bits = 8 * size_of(declared.dtype);
  if (tensor.dtype.code != dtype_info(declared.dtype).dlpack || tensor.dtype.bits != bits)
    throw Error(what + "a tensor of " + name(declared.dtype) + ", got DLPack type code " +
                std::to_string(tensor.dtype.code) + " with " + std::to_string(tensor.dtype.bits) + " bits");
  const bool empty = std::any_of(tensor.shape, tensor.shape + tensor.ndim, [](int64_t size) { return size == 0; });
  if (!tensor.data && !empty) throw Error(what + "memory, got NULL");
}

inline interpreter::Arguments host_arguments(const std::string& kernel, const std::vector<DeclaredArgument>& declared,
                                             const std::vector<ligerdsl_kernel_arg_t>& args, int64_t programs) {
  static thread_local int32_t next_program;
  next_program = 0;
  const LaunchArguments sizes = launch_arguments(declared, args, Target());
  interpreter::Arguments list;
  for (size_t i = 0; i < args.size(); ++i) {
    if (declared[i].kind == DeclaredArgument::Kind::pointer)
      throw Error("error: kernel '" + kernel + "', argument '" + declared[i].name +
                  "' is a pointer, which interpret() does not support; use interpreter::run, and pass the number of "
                  "bytes at the pointer");
    if (declared[i].hidden && i == 0) {
      list.view(&next_program, i32, {1}, {1});
    } else if (declared[i].hidden) {
      list.scalar(i32, programs);
    } else if (declared[i].kind == DeclaredArgument::Kind::view) {
      require_host_tensor(kernel, declared[i], *args[i].tensor);
      std::byte* data = static_cast<std::byte*>(args[i].tensor->data) + args[i].tensor->byte_offset;
      list.view(data, declared[i].dtype, sizes.all()[i].dims, sizes.all()[i].strides);
    } else if (args[i].kind == LIGERDSL_ARG_INTEGER) {
      list.scalar(declared[i].dtype, args[i].integer);
    } else {
      list.scalar(declared[i].dtype, args[i].number);
    }
  }
  return list;
}

inline std::vector<int32_t> launch_grid(const std::string& kernel, const Launch& launch) {
  require_possible(kernel, launch);
  std::vector<int32_t> grid(3, 1);
  const auto programs = launch.programs();
  std::copy(programs.begin(), programs.end(), grid.begin());
  return grid;
}

}  // namespace detail
}  // namespace ligerdsl

#endif  // LIGERDSL_LAUNCH_HPP_
