// Kernels with a name and a launch rule, and the registry through which tools list, record and
// launch them.
//
//   const Kernel<VectorAddMeta> vector_add_kernel{
//       .name = "vector_add",
//       .description = "out = a + b",
//       .build = vector_add,  // void(KernelBuilder&, const VectorAddMeta&)
//       .launch = [](const VectorAddMeta& m, const LaunchArguments& a) {
//         return Launch{.grid = {ceil_div(a.dim("out", 0), m.block)}};
//       }};
//   LIGERDSL_REGISTER_KERNEL(vector_add_kernel);
//
// One file of a shared object for `ligerdsl --load FILE.so` contains LIGERDSL_EXPORT_KERNELS().
#ifndef LIGERDSL_DSL_KERNEL_H_
#define LIGERDSL_DSL_KERNEL_H_

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ligerdsl/dsl/builder.h"
#include "ligerdsl/dsl/meta.h"
#include "ligerdsl/dsl/size.h"
#include "ligerdsl/dsl/target.h"

namespace ligerdsl {

constexpr int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// Number of programs, resources of each program, and promises about the arguments. An author's
// launch rule gets the call's sizes and returns a grid of numbers. A library kernel's grid is an
// expression in the call's number of rows (size.h).
struct Launch {
  std::vector<Size> grid = {1};  // programs along x (and y, z); nothing runs if one is 0
  int num_warps = 4;             // nvptx: warps of 32 threads per CTA
  int num_ctas = 1;              // nvptx: CTAs per cluster
  int num_stages = 2;            // nvptx: depth of software pipelines
  // nvptx: minimum CTAs per SM, which limits registers and resident rows. It is capped at the
  // number that an SM can hold; 0: no minimum.
  int min_ctas_per_sm = 0;
  int max_registers = 0;  // nvptx: registers per thread, 24 to 255; 0: no cap
  // Promise for every launch: no argument that the kernel writes shares memory with another. Loads
  // then need not wait for stores through other arguments. A launch rejects views that share
  // memory, but does not check pointers.
  bool no_alias = false;

  // Returns the programs along x, y and z for `rows` rows; 1 along an axis that the grid omits.
  // Allocates no memory.
  std::array<int64_t, 3> grid_at(int64_t rows) const;
  // Returns the programs of a grid that does not depend on rows. Throws Error if the grid depends
  // on rows, or does not have 1 to 3 axes.
  std::array<int64_t, 3> programs() const;

  bool operator==(const Launch&) const = default;
};

// Returns the names of Launch's fields except `grid`. Tools accept them as settings.
const std::vector<std::string>& launch_setting_names();

// Input of a launch rule: sizes and scalars of the call by argument name, and the device of the
// launch. Unknown names throw.
class LaunchArguments {
 public:
  struct Argument {
    std::string name;
    std::vector<int64_t> dims = {};                 // views
    std::vector<int64_t> strides = {};              // views
    double number = 0.0;                            // scalars of float types
    std::optional<int64_t> integer = std::nullopt;  // scalars of integer types
    bool pointer = false;  // a pointer; dims[0], if given, is the number of its elements
  };

  LaunchArguments() = default;
  explicit LaunchArguments(std::vector<Argument> arguments,
                           const std::optional<Target>& target = {})
      : arguments_(std::move(arguments)), target_(target) {}

  int64_t dim(const std::string& view, int axis) const;     // a negative axis counts from the end
  int64_t stride(const std::string& view, int axis) const;  // in elements
  int64_t integer(const std::string& scalar) const;  // exact; throws if the value is no int64_t
  double number(const std::string& scalar) const;
  const Target& target() const;  // throws if the launch has no target
  bool has_target() const { return target_.has_value(); }
  const std::vector<Argument>& all() const { return arguments_; }

 private:
  const Argument& find(const std::string& name) const;
  const Argument& find_scalar(const std::string& name) const;
  std::vector<Argument> arguments_;
  std::optional<Target> target_;
};

template <class M>
struct Kernel {
  using Meta = M;
  std::string name;
  std::string description;
  std::function<void(KernelBuilder&, const Meta&)> build;
  std::function<Launch(const Meta&, const LaunchArguments&)> launch;
};

// Records a kernel for meta-parameters and a device. Returns the library's program::Program, whose
// definition only code of the library includes. (The builder's type depends on Meta, so
// program::Program may be incomplete until a caller uses the template.)
template <class Meta>
auto record(const Kernel<Meta>& kernel, const Meta& meta,
            const std::optional<Target>& target = {}) {
  using Builder = std::conditional_t<(sizeof(Meta) > 0), KernelBuilder, void>;
  Builder builder(kernel.name, target);
  kernel.build(builder, meta);
  return builder.finish();
}

// Records a kernel and returns its serialised program, the input of ligerdsl_kernel_create.
template <class Meta>
std::string program_bytes(const Kernel<Meta>& kernel, const Meta& meta,
                          const std::optional<Target>& target = {}) {
  KernelBuilder builder(kernel.name, target);
  kernel.build(builder, meta);
  return builder.finish_bytes();
}

// Kernel whose Meta type is erased: fields are text. The registry stores kernels in this form.
class AnyKernel {
 public:
  virtual ~AnyKernel() = default;
  virtual std::string name() const = 0;
  virtual std::string description() const = 0;
  virtual std::vector<MetaField> fields() const = 0;  // with default values
  virtual std::string program_bytes(const MetaValues& meta,
                                    const std::optional<Target>& target = {}) const = 0;
  virtual Launch launch(const MetaValues& meta, const LaunchArguments& arguments) const = 0;
};

// The kernels of this binary in order of registration.
class Registry {
 public:
  static Registry& global();
  void add(std::unique_ptr<AnyKernel> kernel);  // throws if a kernel has this name already
  // Errors of static registrations, which cannot throw. author_table reports them.
  std::vector<std::string>& problems() { return problems_; }
  const std::vector<std::unique_ptr<AnyKernel>>& all() const { return kernels_; }
  const AnyKernel* find(const std::string& name) const;  // nullptr if there is none

 private:
  std::vector<std::unique_ptr<AnyKernel>> kernels_;
  std::vector<std::string> problems_;
};

namespace detail {

// Throws unless the kernel has a name, a build function and a launch rule.
void require_complete(const std::string& name, bool has_build, bool has_launch);
// Throws if two settings of a kernel have the same name. Settings are meta-parameters, arguments
// and fields of Launch.
void require_distinct_names(const std::string& kernel, const std::vector<MetaField>& fields,
                            const std::vector<std::string>& arguments);
// Throws if a launch rule returns a value that no device supports.
void require_possible(const std::string& kernel, const Launch& launch);

template <class Meta>
class KernelAdapter : public AnyKernel {
 public:
  explicit KernelAdapter(const Kernel<Meta>& kernel) : kernel_(kernel) {}
  std::string name() const override { return kernel_.name; }
  std::string description() const override { return kernel_.description; }
  std::vector<MetaField> fields() const override { return meta_fields(Meta{}); }
  std::string program_bytes(const MetaValues& meta,
                            const std::optional<Target>& target) const override {
    return ligerdsl::program_bytes(kernel_, meta_from<Meta>(kernel_.name, meta), target);
  }
  Launch launch(const MetaValues& meta, const LaunchArguments& arguments) const override {
    return kernel_.launch(meta_from<Meta>(kernel_.name, meta), arguments);
  }

 private:
  Kernel<Meta> kernel_;
};

struct Registration {
  template <class Meta>
  explicit Registration(const Kernel<Meta>& kernel) {
    try {
      require_complete(kernel.name, kernel.build != nullptr, kernel.launch != nullptr);
      require_distinct_names(kernel.name, meta_fields(Meta{}), {});
      Registry::global().add(std::make_unique<KernelAdapter<Meta>>(kernel));
    } catch (const std::exception& problem) {
      Registry::global().problems().push_back(problem.what());
    }
  }
};

}  // namespace detail

// Adds a kernel to the registry before main starts or dlopen returns. The linker must include the
// file: in a static archive it does so only if the program uses another symbol of the file.
#define LIGERDSL_REGISTER_KERNEL(kernel)                                         \
  static const ::ligerdsl::detail::Registration ligerdsl_registration_##kernel { \
    kernel                                                                       \
  }

}  // namespace ligerdsl

#include "ligerdsl/dsl/author.h"

#endif  // LIGERDSL_DSL_KERNEL_H_
