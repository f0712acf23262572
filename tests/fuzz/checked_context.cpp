#include "checked_context.h"

#include <algorithm>

#include "kernels/core/launch.h"
#include "program/aliasing.h"
#include "program/serialize.h"
#include "runtime/kernel/matmul.h"
#include "runtime/system/status.h"

namespace ligerdsl::test {
namespace {

constexpr int64_t kFewElements = 4096;  // largest tensor whose elements are compared one by one

struct Argument {
  program::Type type;
  program::ArgFacts facts;
  std::string name;
  bool written;
  uint64_t base = 0;
  std::vector<int64_t> dims, strides;

  bool empty() const {
    for (const int64_t dim : dims)
      if (dim == 0) return true;
    return false;
  }
  // Returns the offset of the last element, in elements. A caller's sizes may be too large for 64
  // bits.
  __int128 last() const {
    __int128 at = 0;
    for (size_t i = 0; i < dims.size(); ++i) at += static_cast<__int128>(dims[i] - 1) * strides[i];
    return at;
  }
  __int128 elements() const {
    __int128 n = 1;
    for (const int64_t dim : dims) n *= dim;
    return n;
  }
  __int128 end() const { return base + (last() + 1) * size_of(type.dtype); }
  std::vector<uint64_t> sorted_addresses() const {
    std::vector<uint64_t> all{base};
    for (size_t i = 0; i < dims.size(); ++i) {
      std::vector<uint64_t> next;
      next.reserve(all.size() * static_cast<size_t>(dims[i]));
      for (const uint64_t at : all)
        for (int64_t k = 0; k < dims[i]; ++k)
          next.push_back(at + static_cast<uint64_t>(k * strides[i] * size_of(type.dtype)));
      all = std::move(next);
    }
    std::sort(all.begin(), all.end());
    return all;
  }
};

void report(const std::string& what) {
  expectations().violations.push_back(what);
}

// Ends a call with very many launches by an error. Launches of later chunks repeat those of the
// first chunks.
void count_launch() {
  constexpr int kMost = 2000;
  if (++expectations().launches > kMost)
    runtime::fail(runtime::Status::not_supported,
                  "more than " + std::to_string(kMost) + " launches, the limit of this test");
}

bool inside_what_was_given(uint64_t begin, __int128 end) {
  for (const Memory& memory : expectations().allowed)
    if (begin >= memory.begin && end <= static_cast<__int128>(memory.end)) return true;
  return false;
}

void check_memory(const std::string& owner, const Argument& view) {
  if (view.base % static_cast<uint64_t>(size_of(view.type.dtype)) != 0)
    report(owner + ": " + view.name + " is not aligned to its elements");
  if (!inside_what_was_given(view.base, view.end()))
    report(owner + ": " + view.name + " reaches memory that the caller did not give");
}

bool share_an_element(const Argument& a, const Argument& b) {
  if (a.elements() > kFewElements || b.elements() > kFewElements) return false;
  if (a.end() <= b.base || b.end() <= a.base) return false;
  const std::vector<uint64_t> left = a.sorted_addresses(), right = b.sorted_addresses();
  const auto is_in_left = [&](uint64_t at) {
    return std::binary_search(left.begin(), left.end(), at);
  };
  return std::any_of(right.begin(), right.end(), is_in_left);
}

class CheckedKernel final : public runtime::LoadedKernel {
 public:
  CheckedKernel(const program::Program& program, const program::CompileOptions& options)
      : name_(program.name) {
    const std::vector<bool> written = program::written_arguments(program);
    for (size_t i = 0; i < program.arguments.size(); ++i)
      arguments_.push_back({program.values[program.arguments[i].value], options.facts.at(i),
                            program.arguments[i].name, written[i]});
  }

  void launch(const uint64_t* slots, const runtime::Grid& grid, runtime::Stream) override {
    count_launch();
    const runtime::Grid most = largest_grid();
    if (grid.x < 0 || grid.y < 0 || grid.z < 0) report("a grid with a negative size");
    if (grid.x > most.x || grid.y > most.y || grid.z > most.z)
      report("a grid beyond the limits of the device");
    std::vector<Argument> views;
    for (Argument argument : arguments_) {
      const size_t rank = argument.type.shape.size();
      if (argument.type.kind == program::TypeKind::view) {
        argument.base = slots[0];
        argument.dims.assign(slots + 1, slots + 1 + rank);
        argument.strides.assign(slots + 1 + rank, slots + 1 + 2 * rank);
        check(argument);
        if (!argument.empty()) views.push_back(argument);
      }
      slots += program::slotCount(argument.type);
    }
    for (const Argument& a : views)
      for (const Argument& b : views)
        if (&a != &b && a.written) check_disjoint(a, b);
  }

 private:
  void report(const std::string& what) { test::report(name_ + ": " + what); }

  void check(const Argument& view) {
    for (size_t i = 0; i < view.dims.size(); ++i) {
      if (view.dims[i] < 0 || view.strides[i] < 0)
        report(view.name + " has a negative size or stride");
      check_fact(view, "size", view.dims[i], view.type.shape[i],
                 i < view.facts.dims.size() ? &view.facts.dims[i] : nullptr);
      if (view.dims[i] > 1)
        check_fact(view, "stride", view.strides[i], view.type.strides[i],
                   i < view.facts.strides.size() ? &view.facts.strides[i] : nullptr);
    }
    if (view.empty()) return;
    if (view.base % static_cast<uint64_t>(view.facts.pointer_align) != 0)
      report(view.name + " is not aligned to the promised " +
             std::to_string(view.facts.pointer_align) + " bytes");
    check_memory(name_, view);
  }

  void check_fact(const Argument& view, const char* what, int64_t value, int64_t declared,
                  const program::SizeFact* fact) {
    if (declared != program::kDynamic && declared != value)
      report(view.name + ": a " + what + " of " + std::to_string(value) + ", declared " +
             std::to_string(declared));
    if (!fact) return;
    if (fact->exact >= 0 && fact->exact != value)
      report(view.name + ": a " + what + " of " + std::to_string(value) + ", promised " +
             std::to_string(fact->exact));
    if (value % fact->divisor != 0)
      report(view.name + ": a " + what + " of " + std::to_string(value) +
             ", promised to be a multiple of " + std::to_string(fact->divisor));
  }

  // Reports an output that shares an element with read-only memory, or with an argument of another
  // alias class. Arguments of one class may share elements that have the same indices.
  void check_disjoint(const Argument& written, const Argument& other) {
    const bool disjoint = written.facts.alias_class != 0 && other.facts.alias_class != 0 &&
                          written.facts.alias_class != other.facts.alias_class;
    if (!disjoint && !other.facts.read_only) return;
    if (share_an_element(written, other))
      report(written.name + " and " + other.name + " share an element against a promise");
  }

  std::string name_;
  std::vector<Argument> arguments_;
};

// Checks that a matmul's types and sizes suit the libraries. Its result must be disjoint from its
// operands, and its workspace from all three.
class CheckedMatmul final : public runtime::Matmul {
 public:
  explicit CheckedMatmul(bool gpu) : gpu_(gpu) {}
  size_t workspace_bytes() const override { return gpu_ ? size_t{32} << 20 : 0; }

 protected:
  void run(runtime::Product, const Sizes&, const runtime::Matrix& a, const runtime::Matrix& b,
           float beta, const runtime::Matrix& c, void* workspace, runtime::Stream) override {
    count_launch();
    if (beta != 0 && beta != 1) report("beta is " + std::to_string(beta) + ", expected 0 or 1");
    if (a.type != b.type || (c.type != a.type && c.type != DType::f32) ||
        (!gpu_ && a.type != DType::f32))
      report(std::string("no library multiplies ") + name(a.type) + " by " + name(b.type) +
             " into " + name(c.type));
    const Argument left = argument("a", a), right = argument("b", b), result = argument("c", c);
    for (const Argument* each : {&left, &right, &result}) {
      check_memory(kName, *each);
      for (const int64_t size : {each->dims[0], each->dims[1], each->strides[0]})
        if (size > INT32_MAX)
          report("a size or stride is " + std::to_string(size) + ", expected at most 2^31-1");
    }
    for (const Argument* operand : {&left, &right})
      if (share_an_element(result, *operand))
        report("the result shares an element with operand " + operand->name);
    if (workspace_bytes() > 0)
      check_workspace(reinterpret_cast<uintptr_t>(workspace), {&left, &right, &result});
  }

 private:
  static constexpr const char* kName = "matmul";

  static void report(const std::string& what) { test::report(std::string(kName) + ": " + what); }
  static Argument argument(const char* name, const runtime::Matrix& m) {
    Argument made;
    made.type.dtype = m.type;
    made.name = name;
    made.base = reinterpret_cast<uintptr_t>(m.data);
    made.dims = {m.rows, m.cols};
    made.strides = {m.stride, 1};
    return made;
  }
  void check_workspace(uint64_t begin, std::initializer_list<const Argument*> matrices) const {
    const uint64_t end = begin + workspace_bytes();
    if (begin % 256 != 0) report("the workspace is not aligned to 256 bytes");
    if (!inside_what_was_given(begin, end))
      report("the workspace reaches memory that the caller did not give");
    for (const Argument* matrix : matrices) {
      const __int128 last =
          static_cast<__int128>(matrix->base) + (matrix->last() + 1) * size_of(matrix->type.dtype);
      if (matrix->base < end && last > static_cast<__int128>(begin))
        report("the workspace overlaps " + matrix->name);
    }
  }

  bool gpu_;
};

}  // namespace

Expectations& expectations() {
  thread_local Expectations current;
  return current;
}

MetaValues CheckedHeuristics::changed(const std::shared_ptr<const lib::ConfigQuestion>& question) {
  if (const std::string reason = question->refusal({}); !reason.empty())
    expectations().violations.push_back(question->kernel() + "'s heuristic: " + reason);
  return {};
}

kernels::Machine CheckedContext::machine() const {
  return target_ == program::Target::cpu ? kernels::Machine{} : kernels::gpu("sm_90a", 132, 80);
}

program::CompileOptions CheckedContext::base_options() {
  program::CompileOptions options;
  options.target = target_;
  options.arch = target_ == program::Target::cpu ? "generic" : "sm_90a";
  return options;
}

std::shared_ptr<runtime::LoadedKernel> CheckedContext::load(
    const std::string& program_bytes, const program::CompileOptions& options) {
  ++loads;
  return std::make_shared<CheckedKernel>(program::parseProgram(program_bytes), options);
}

std::shared_ptr<runtime::Matmul> CheckedContext::matmul() {
  return std::make_shared<CheckedMatmul>(target_ == program::Target::nvptx);
}

}  // namespace ligerdsl::test
