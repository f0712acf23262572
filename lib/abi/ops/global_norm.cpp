// Norm of a list of tensors. One launch per tensor writes partial sums to consecutive rows, and a
// last launch adds them.
#include "kernels/optimizer/global_norm.h"

#include <charconv>
#include <cstring>

#include "lib/abi/ops/support.h"

namespace ligerdsl::lib {

namespace {

using Args = ligerdsl_global_norm_args_t;

constexpr int64_t kElementsPerProgram =
    65536;  // the C header documents this number in the size of the workspace
constexpr int64_t kPartialBytes = 2 * sizeof(float);

const Args& args_of(const Call& call) {
  return *static_cast<const Args*>(call.args);
}

// Returns the view of partial sums, one row per program.
BoundTensor partial_sums(void* data, int64_t programs) {
  BoundTensor tensor{};
  tensor.data = static_cast<std::byte*>(data);
  tensor.rank = 2;
  tensor.dims[0] = programs, tensor.dims[1] = 2;
  tensor.strides[0] = 2, tensor.strides[1] = 1;
  tensor.dtype = DType::f32;
  tensor.present = true;
  return tensor;
}

BoundTensor vector(void* data, int64_t size, DType type) {
  BoundTensor tensor{};
  tensor.data = static_cast<std::byte*>(data);
  tensor.rank = 1;
  tensor.dims[0] = size;
  tensor.strides[0] = 1;
  tensor.dtype = type;
  tensor.present = true;
  return tensor;
}

int64_t elements_of(const ligerdsl_tensor_t& tensor) {
  int64_t n = 1;
  for (int i = 0; i < tensor.ndim; ++i) n *= tensor.shape[i];
  return n;
}

class GlobalNorm final : public OpPlan {
 public:
  GlobalNorm(const ContextRef& context, const ligerdsl_global_norm_desc_t& d)
      : context_(context),
        type_(dtype_of(d.dtype)),
        squares_(kernels::sum_of_squares(context->machine(), {type_})),
        finish_(kernels::finish_norm(context->machine(), {d.with_steps != 0, d.with_skipped != 0})),
        squares_launcher_(load(squares_)),
        finish_launcher_(load(finish_)) {}

  int64_t rows(const Call& call) const override {
    kernels::Count rows = 0;
    for_each(call, [&](const BoundTensor& tensor) {
      if (const std::string why = refuse_grid({programs_of(tensor), 1, 1}, *squares_launcher_);
          !why.empty())
        fail(Status::invalid_shape, "`tensors`: a tensor of " + std::to_string(tensor.dims[0]) +
                                        " elements is too large: " + why);
      rows += kernels::Count(tensor.dims[0]) + kElementsPerProgram;
    });
    return rows.value();
  }

  // Any number of rows is accepted, because each launch processes one tensor.
  std::string refusal(int64_t) const override { return ""; }

  // Two slots precede the partial sums. The kernel writes to them if an output is not passed.
  size_t workspace_bytes(int64_t rows) const override {
    return 2 * kWorkspaceAlign +
           static_cast<size_t>(
               kernels::ceil_div(kernels::Count(rows), kElementsPerProgram).value()) *
               kPartialBytes;
  }

  void execute(const Call& call) const override {
    std::byte* partials = call.workspace + 2 * kWorkspaceAlign;
    int64_t used = 0;
    for_each(call, [&](const BoundTensor& tensor) {
      const int64_t programs = programs_of(tensor);
      if (programs == 0) return;
      require_disjoint(tensor, call);
      pack(
          *squares_launcher_,
          [&](const std::string& name) {
            return name == "x" ? tensor : partial_sums(partials + used * kPartialBytes, programs);
          },
          call)
          .launch({programs}, call.stream);
      used += programs;
    });
    const auto output = [&](int index, DType type, size_t slot) {
      return call.tensors[index].present ? call.tensors[index]
                                         : vector(call.workspace + slot * kWorkspaceAlign, 1, type);
    };
    pack(
        *finish_launcher_,
        [&](const std::string& name) {
          if (name == "norm") return call.tensors[global_norm::k_norm];
          if (name == "factor") return output(global_norm::k_clip_factor, DType::f32, 0);
          if (name == "nonfinite") return output(global_norm::k_nonfinite, DType::i32, 1);
          if (name == "steps") return call.tensors[global_norm::k_steps];
          if (name == "skipped") return call.tensors[global_norm::k_skipped];
          return partial_sums(partials, used);
        },
        call)
        .launch({}, call.stream);
  }

  std::vector<const Launcher*> launchers() const override {
    return {squares_launcher_.get(), finish_launcher_.get()};
  }

 private:
  // Returns the number of programs of sum_of_squares for a tensor.
  int64_t programs_of(const BoundTensor& tensor) const {
    return squares_.steps[0].launch.grid[0].at(tensor.dims[0]);
  }

  // All arguments of a kernel are disjoint: the outputs were checked, and the partial sums are in
  // the workspace.
  std::unique_ptr<Launcher> load(const kernels::Operation& operation) const {
    const kernels::Step& step = operation.steps[0];
    std::vector<ArgPromise> promises;
    for (const program::Argument& argument : step.program.arguments) {
      const auto& type = step.program.values[argument.value];
      promises.push_back({.alias_class = static_cast<uint32_t>(promises.size() + 1)});
      for (const int64_t size : type.shape)
        promises.back().exact.push_back(size == program::kDynamic ? -1 : size);
    }
    return std::make_unique<Launcher>(*context_, step.program, step.launch, promises);
  }

  template <class ViewOf>
  static Launcher::Pack pack(const Launcher& launcher, ViewOf view_of, const Call& call) {
    Launcher::Pack pack(launcher);
    for (const program::Argument& argument : launcher.program().arguments) {
      if (launcher.program().values[argument.value].kind == program::TypeKind::view) {
        pack.view(view_of(argument.name));
      } else {
        pack.bits(bits_of(DType::f32, static_cast<double>(args_of(call).max_norm)));
      }
    }
    return pack;
  }

  // Checks each tensor of the list and calls `body` with it as one row.
  template <class Body>
  void for_each(const Call& call, Body body) const {
    const auto list = list_of(global_norm::info(), &args_of(call));
    for (const ligerdsl_tensor_t& given : list) {
      char name[40] = "tensors[";  // no std::string, because an execute must not allocate
      char* const end =
          std::to_chars(name + std::strlen(name), std::end(name) - 2, &given - list.data()).ptr;
      std::memcpy(end, "]", 2);
      BoundTensor tensor;
      bind_free_tensor(name, given, type_, context_->api_device(), &tensor);
      check_contiguous(tensor, name);
      body(vector(tensor.data, elements_of(given), type_));
    }
  }

  // Fails if the tensor overlaps the workspace: partial sums are written before the last tensor is
  // read.
  static void require_disjoint(const BoundTensor& tensor, const Call& call) {
    const std::byte* end = tensor.data + tensor.dims[0] * size_of(tensor.dtype);
    if (tensor.data < call.workspace + call.workspace_bytes && call.workspace < end) {
      fail(Status::invalid_alias,
           "`tensors`: expected tensors that do not overlap the workspace, got one that does");
    }
  }

  static void check_contiguous(const BoundTensor& tensor, const char* name) {
    int64_t expected = 1;
    for (int d = tensor.rank - 1; d >= 0; --d) {
      if (tensor.dims[d] != 1 && tensor.strides[d] != expected) {
        fail(Status::invalid_shape,
             std::string("`") + name + "`: expected a contiguous tensor, with a stride of " +
                 std::to_string(expected) + " in dimension " + std::to_string(d) + ", got " +
                 std::to_string(tensor.strides[d]) + "; pass a contiguous copy");
      }
      expected *= tensor.dims[d];
    }
  }

  ContextRef context_;
  DType type_;
  kernels::Operation squares_, finish_;
  std::unique_ptr<Launcher> squares_launcher_, finish_launcher_;
};

}  // namespace

std::unique_ptr<OpPlan> make_plan(const ContextRef& context, const ligerdsl_global_norm_desc_t& d) {
  return std::make_unique<GlobalNorm>(context, d);
}

}  // namespace ligerdsl::lib
