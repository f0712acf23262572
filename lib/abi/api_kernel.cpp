// C functions for kernels that an author recorded.
#include <cstring>
#include <memory>
#include <string_view>

#include "lib/abi/assumption_word.h"
#include "lib/abi/context.h"
#include "lib/abi/deterministic.h"
#include "lib/abi/entry.h"
#include "lib/abi/failure.h"
#include "lib/abi/handles.h"
#include "lib/abi/launcher.h"
#include "lib/abi/structs.h"
#include "lib/abi/validate.h"
#include "program/serialize.h"
#include "runtime/observe/ranges.h"

using namespace ligerdsl;
using namespace ligerdsl::lib;

namespace {

constexpr size_t kMaxViews = 24;

// An author's kernel: its launcher, and the context on which it runs.
struct AuthorKernel {
  ContextRef context;
  std::unique_ptr<AssumptionWord>
      assumptions;  // holds the launcher's last argument; null if assumptions are not checked
  std::unique_ptr<Launcher> launcher;
  size_t arguments() const { return launcher->program().arguments.size() - (assumptions ? 1 : 0); }
};

ligerdsl_kernel_options_t read_options(const ligerdsl_kernel_options_t* given) {
  const ligerdsl_kernel_options_t defaults = LIGERDSL_KERNEL_OPTIONS_INIT;
  if (!given) return defaults;
  ligerdsl_kernel_options_t options;
  read_struct("options", given, sizeof options,
              offsetof(ligerdsl_kernel_options_t, forbid_contract) + sizeof options.forbid_contract,
              &defaults, &options);
  const auto range = [](const char* name, int32_t value, int32_t low, int32_t high,
                        bool or_zero = false) {
    if ((value >= low && value <= high) || (or_zero && value == 0)) return;
    fail(Status::invalid_argument, std::string("`") + name + "`: expected " +
                                       (or_zero ? "0 or " : "") + std::to_string(low) + " to " +
                                       std::to_string(high) + ", got " + std::to_string(value));
  };
  range("num_warps", options.num_warps, 1, 32);
  range("num_ctas", options.num_ctas, 1, 16);
  range("num_stages", options.num_stages, 1, 16);
  range("max_registers", options.max_registers, 24, 255, /*or_zero=*/true);
  range("no_alias", options.no_alias, 0, 1);
  range("forbid_contract", options.forbid_contract, 0, 1);
  range("min_ctas_per_sm", options.min_ctas_per_sm, 0, 32);
  if (options.num_warps & (options.num_warps - 1)) {
    fail(Status::invalid_argument,
         "`num_warps`: expected a power of two, got " + std::to_string(options.num_warps));
  }
  if (options.num_ctas & (options.num_ctas - 1)) {
    fail(Status::invalid_argument,
         "`num_ctas`: expected a power of two, got " + std::to_string(options.num_ctas));
  }
  return options;
}

program::Program parse(const void* bytes, size_t size) {
  try {
    return program::parseProgram({static_cast<const char*>(bytes), size});
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    fail(Status::invalid_program, std::string("`program`: ") + error.what());
  }
}

std::unique_ptr<AuthorKernel> create(const ContextRef& context, const void* bytes, size_t size,
                                     const ligerdsl_kernel_options_t& options) {
  program::Program program = parse(bytes, size);
  const runtime::Range range(runtime::RangeKind::plan, program.name);
  require_deterministic(*context, program);
  size_t views = 0;
  for (const program::Argument& argument : program.arguments) {
    const program::Type& type = program.values[argument.value];
    const bool view = type.kind == program::TypeKind::view;
    if (view && type.shape.size() > kMaxRank) {
      fail(Status::not_supported, "view " + argument.name + " has " +
                                      std::to_string(type.shape.size()) + " dimensions, at most " +
                                      std::to_string(kMaxRank) + " are supported");
    }
    views += view;
  }
  if (views > kMaxViews)
    fail(Status::not_supported, "kernel " + program.name + " takes " + std::to_string(views) +
                                    " views, at most " + std::to_string(kMaxViews) +
                                    " are supported");
  auto kernel = std::make_unique<AuthorKernel>();
  kernel->context = context;
  kernel->assumptions = AssumptionWord::of(*context, &program);
  kernel->launcher =
      std::make_unique<Launcher>(*context, program,
                                 Launch{.num_warps = options.num_warps,
                                        .num_ctas = options.num_ctas,
                                        .num_stages = options.num_stages,
                                        .min_ctas_per_sm = options.min_ctas_per_sm,
                                        .max_registers = options.max_registers,
                                        .no_alias = options.no_alias != 0},
                                 std::vector<ArgPromise>(), options.forbid_contract == 0);
  return kernel;
}

std::string kind_name(int32_t kind) {
  switch (kind) {
    case LIGERDSL_ARG_TENSOR:
      return "LIGERDSL_ARG_TENSOR";
    case LIGERDSL_ARG_POINTER:
      return "LIGERDSL_ARG_POINTER";
    case LIGERDSL_ARG_INTEGER:
      return "LIGERDSL_ARG_INTEGER";
    case LIGERDSL_ARG_NUMBER:
      return "LIGERDSL_ARG_NUMBER";
    default:
      return "kind " + std::to_string(kind);
  }
}

[[noreturn]] void wrong_kind(const std::string& name, const char* expected, int32_t kind) {
  fail(Status::invalid_argument,
       "`" + name + "`: expected an argument of kind " + expected + ", got " + kind_name(kind));
}

BoundTensor bind_view(const AuthorKernel& kernel, const std::string& name,
                      const program::Type& type, const ligerdsl_kernel_arg_t& arg) {
  if (arg.kind != LIGERDSL_ARG_TENSOR) wrong_kind(name, "LIGERDSL_ARG_TENSOR", arg.kind);
  require_pointer(arg.tensor, name.c_str());
  BoundTensor tensor;
  bind_free_tensor(name.c_str(), *arg.tensor, type.dtype, kernel.context->api_device(), &tensor,
                   true);
  const size_t rank = type.shape.size();
  if (static_cast<size_t>(tensor.rank) != rank) {
    fail(Status::invalid_shape, "`" + name + "`: expected " + std::to_string(rank) +
                                    " dimensions, got " + std::to_string(tensor.rank));
  }
  for (size_t i = 0; i < rank; ++i) {
    if (type.shape[i] == program::kDynamic || type.shape[i] == tensor.dims[i]) continue;
    fail(Status::invalid_shape, "`" + name + "`: expected " + std::to_string(type.shape[i]) +
                                    " in dimension " + std::to_string(i) + ", got " +
                                    std::to_string(tensor.dims[i]));
  }
  for (size_t i = 0; i < rank; ++i) {
    const bool free = type.strides[i] == program::kDynamic || tensor.dims[i] <= 1;
    if (free || type.strides[i] == tensor.strides[i]) continue;
    fail(Status::invalid_shape,
         "`" + name + "`: expected a stride of " + std::to_string(type.strides[i]) +
             " in dimension " + std::to_string(i) + ", got " + std::to_string(tensor.strides[i]));
  }
  return tensor;
}

void require_in_range(const std::string& name, DType type, int64_t value) {
  const int64_t least = least_of(type), most = most_of(type);
  if (value >= least && value <= most) return;
  fail(Status::invalid_argument, "`" + name + "`: expected " + std::to_string(least) + " to " +
                                     std::to_string(most) + ", the range of " +
                                     ligerdsl::name(type) + ", got " + std::to_string(value));
}

uint64_t scalar_bits(const std::string& name, const program::Type& type,
                     const ligerdsl_kernel_arg_t& arg) {
  if (type.kind == program::TypeKind::ptr) {
    if (arg.kind != LIGERDSL_ARG_POINTER) wrong_kind(name, "LIGERDSL_ARG_POINTER", arg.kind);
    return reinterpret_cast<uintptr_t>(arg.pointer);
  }
  if (is_float(type.dtype)) {
    if (arg.kind != LIGERDSL_ARG_NUMBER) wrong_kind(name, "LIGERDSL_ARG_NUMBER", arg.kind);
    return bits_of(type.dtype, arg.number);
  }
  if (arg.kind != LIGERDSL_ARG_INTEGER) wrong_kind(name, "LIGERDSL_ARG_INTEGER", arg.kind);
  require_in_range(name, type.dtype, arg.integer);
  return bits_of(type.dtype, arg.integer);
}

void launch(const AuthorKernel& kernel, const ligerdsl_kernel_arg_t* args, size_t n_args,
            const int32_t grid[3], runtime::Stream stream) {
  const program::Program& program = kernel.launcher->program();
  const program::Aliasing& aliasing = kernel.launcher->aliasing();
  if (n_args != kernel.arguments()) {
    fail(Status::invalid_argument, "kernel " + program.name + " takes " +
                                       std::to_string(kernel.arguments()) + " arguments, got " +
                                       std::to_string(n_args));
  }
  for (int axis = 0; axis < 3; ++axis) {
    if (grid[axis] < 0)
      fail(Status::invalid_shape, "`grid[" + std::to_string(axis) +
                                      "]`: expected 0 or more programs, got " +
                                      std::to_string(grid[axis]));
  }
  BoundTensor views[kMaxViews];
  program::Strided memory[kMaxViews];
  size_t positions[kMaxViews], n_views = 0;
  Launcher::Pack pack(*kernel.launcher);
  for (size_t i = 0; i < n_args; ++i) {
    const program::Type& type = program.values[program.arguments[i].value];
    if (type.kind == program::TypeKind::view) {
      views[n_views] = bind_view(kernel, program.arguments[i].name, type, args[i]);
      memory[n_views] = memory_of(views[n_views]);
      positions[n_views] = i;
      pack.view(views[n_views++]);
    } else {
      pack.bits(scalar_bits(program.arguments[i].name, type, args[i]));
    }
  }
  if (const std::string text = aliasing.fault({memory, n_views}, {positions, n_views});
      !text.empty())
    fail(Status::invalid_alias, text);
  if (!grid[0] || !grid[1] || !grid[2]) return;
  if (kernel.assumptions) pack.bits(kernel.assumptions->address());
  const auto run = [&] {
    pack.launch({grid[0], grid[1], grid[2]}, stream);
    if (kernel.assumptions) kernel.assumptions->check(stream);
  };
  if (!kernel.context->options().validate) return run();
  std::vector<Watched> watched;
  for (size_t i = 0; i < n_views; ++i) {
    const bool written = aliasing.written()[positions[i]];
    watched.push_back({program.arguments[positions[i]].name.c_str(), &views[i], !written, written});
  }
  run_validated(*kernel.context, watched, stream, run);
}

int32_t kind_of(const program::Type& type) {
  if (type.kind == program::TypeKind::view) return LIGERDSL_ARG_TENSOR;
  if (type.kind == program::TypeKind::ptr) return LIGERDSL_ARG_POINTER;
  return is_float(type.dtype) ? LIGERDSL_ARG_NUMBER : LIGERDSL_ARG_INTEGER;
}

ligerdsl_kernel_parameter_t parameter_of(const AuthorKernel& kernel, size_t index) {
  const program::Program& program = kernel.launcher->program();
  const program::Argument& argument = program.arguments[index];
  const program::Type& type = program.values[argument.value];
  const ligerdsl_dtype_t dtype{dtype_info(type.dtype).dlpack,
                               static_cast<uint8_t>(8 * size_of(type.dtype)), 1};
  return {argument.name.c_str(), kind_of(type), static_cast<int32_t>(code_of(dtype)),
          static_cast<int32_t>(type.shape.size()),
          kernel.launcher->aliasing().written()[index] ? 1 : 0};
}

void write_parameters(const AuthorKernel& kernel, void* parameters, size_t parameter_bytes,
                      size_t* count) {
  const size_t room = parameters ? *count : 0, there = kernel.arguments();
  *count = there;
  if (!parameters) return;
  if (parameter_bytes < sizeof(ligerdsl_kernel_parameter_t))
    fail(Status::invalid_argument,
         "`parameter_bytes`: expected sizeof(ligerdsl_kernel_parameter_t) = " +
             std::to_string(sizeof(ligerdsl_kernel_parameter_t)) + ", got " +
             std::to_string(parameter_bytes));
  if (room < there)
    fail(Status::invalid_argument, "`count`: expected at least " + std::to_string(there) +
                                       ", the number of parameters of kernel " +
                                       kernel.launcher->program().name + ", got " +
                                       std::to_string(room));
  for (size_t i = 0; i < there; ++i) {
    const ligerdsl_kernel_parameter_t parameter = parameter_of(kernel, i);
    char* to = static_cast<char*>(parameters) + i * parameter_bytes;
    std::memset(to, 0, parameter_bytes);  // fields that a later version adds are 0
    std::memcpy(to, &parameter, sizeof parameter);
  }
}

}  // namespace

extern "C" {

ligerdsl_status_t ligerdsl_kernel_create(ligerdsl_context_t context, const void* program,
                                         size_t program_bytes,
                                         const ligerdsl_kernel_options_t* options,
                                         ligerdsl_kernel_t* kernel) {
  return guarded("ligerdsl_kernel_create", [&] {
    require_pointer(kernel, "kernel");
    *kernel = nullptr;
    const ContextUse use(context);
    require_pointer(program, "program");
    auto made = create(use.ref(), program, program_bytes, read_options(options));
    *kernel = static_cast<ligerdsl_kernel_t>(make_handle(HandleKind::kernel, made.get()));
    made.release();
  });
}

ligerdsl_status_t ligerdsl_kernel_launch(ligerdsl_kernel_t kernel,
                                         const ligerdsl_kernel_arg_t* args, size_t n_args,
                                         const int32_t grid[3], ligerdsl_stream_t stream) {
  return guarded("ligerdsl_kernel_launch", [&] {
    const HandleUse use(HandleKind::kernel, kernel, "kernel");
    const auto& made = *static_cast<AuthorKernel*>(use.object());
    if (n_args > 0) require_pointer(args, "args");
    require_pointer(grid, "grid");
    launch(made, args, n_args, grid, reinterpret_cast<runtime::Stream>(stream));
  });
}

ligerdsl_status_t ligerdsl_kernel_parameters(ligerdsl_kernel_t kernel,
                                             ligerdsl_kernel_parameter_t* parameters,
                                             size_t parameter_bytes, size_t* count) {
  return guarded("ligerdsl_kernel_parameters", [&] {
    const HandleUse use(HandleKind::kernel, kernel, "kernel");
    require_pointer(count, "count");
    write_parameters(*static_cast<AuthorKernel*>(use.object()), parameters, parameter_bytes, count);
  });
}

void ligerdsl_kernel_destroy(ligerdsl_kernel_t kernel) {
  delete static_cast<AuthorKernel*>(remove_handle(HandleKind::kernel, kernel));
}

}  // extern "C"
