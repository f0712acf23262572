#include "lib/cli/tune/tune_subject.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "lib/abi/structs.h"
#include "lib/cli/kernels/check.h"
#include "lib/cli/kernels/given_config.h"
#include "lib/cli/kernels/op_reference.h"
#include "lib/instance/op_instance.h"
#include "runtime/system/status.h"

namespace ligerdsl::cli {

namespace {

using tune::Fate;

constexpr size_t kGuard = 4096;             // bytes before and after a tensor
constexpr uint8_t kNanByte = 0xff;          // this byte repeated is a NaN in every float type
constexpr double kMostChecked = 4 << 20;    // most bytes that a checked problem may move
constexpr size_t kMostRestored = 64 << 20;  // most bytes of an input to compare after a run
constexpr double kMostInterpreted =
    1 << 22;  // most bytes of the arguments of a kernel loaded with --load

// Cache of correct outputs, as bytes. Most configurations round equally, and an output with cached
// bytes need not be compared with the reference again.
class RightAnswers {
 public:
  bool contain(const std::string& bytes) const {
    return std::find(known_.begin(), known_.end(), bytes) != known_.end();
  }
  void add(std::string bytes) {
    constexpr size_t kMostBytes = 64 << 20;
    if (bytes_ + bytes.size() > kMostBytes) return;
    bytes_ += bytes.size();
    known_.push_back(std::move(bytes));
  }

 private:
  std::vector<std::string> known_;
  size_t bytes_ = 0;
};

// A workspace with guards before and after it.
class GuardedWorkspace {
 public:
  GuardedWorkspace(const lib::ContextRef& context, size_t bytes)
      : context_(context),
        bytes_(bytes),
        base_(static_cast<std::byte*>(context->device().alloc(bytes + 2 * kGuard))) {}
  ~GuardedWorkspace() { context_->device().free(base_); }
  GuardedWorkspace(const GuardedWorkspace&) = delete;
  std::byte* data() const { return base_ + kGuard; }
  void poison() { context_->device().fill(base_, kNanByte, bytes_ + 2 * kGuard, nullptr); }
  bool broken() const {
    std::string bytes(kGuard, '\0');
    for (const std::byte* at : {base_, base_ + kGuard + bytes_}) {
      context_->device().copy(bytes.data(), at, kGuard, nullptr);
      context_->device().synchronize(nullptr);
      if (bytes.find_first_not_of(static_cast<char>(kNanByte)) != std::string::npos) return true;
    }
    return false;
  }

 private:
  lib::ContextRef context_;
  size_t bytes_;
  std::byte* base_;
};

std::string difference_text(const std::string& output, const Difference& d) {
  return fmt::format("{}: {} of {} elements beyond the gate ({}); [{}] is {}, expected {}", output,
                     d.beyond, d.elements, d.gate, d.first, d.got, d.expected);
}

//===-- Operations of the library ---------------------------------------------===//

std::vector<std::string> with_setting(std::vector<std::string> settings, const std::string& name,
                                      int64_t value) {
  std::erase_if(settings, [&](const std::string& each) { return each.starts_with(name + "="); });
  settings.push_back(fmt::format("{}={}", name, value));
  return settings;
}

// Returns the settings of the problem with `count` rows. Also scales sizes that are multiples of
// the number of rows, like the rows of all shards.
std::vector<std::string> with_rows(const OpInstance& whole, std::vector<std::string> settings,
                                   const char* rows, int64_t count) {
  const lib::OpInfo& info = whole.info();
  const int64_t n = whole.size(rows);
  for (const lib::TensorInfo& tensor : info.tensors) {
    if (tensor.shape != lib::ShapeKind::leading || tensor.dims[0].symbol < 0) continue;
    const std::string letter = info.symbols[static_cast<size_t>(tensor.dims[0].symbol)];
    const bool given = std::any_of(settings.begin(), settings.end(), [&](const std::string& each) {
      return each.starts_with(letter + "=");
    });
    if (given && letter != rows && whole.size(letter.c_str()) % n == 0)
      settings = with_setting(std::move(settings), letter, whole.size(letter.c_str()) / n * count);
  }
  return with_setting(std::move(settings), rows, count);
}

// Returns two problems to check, one with few rows and one with more rows. Returns one problem for
// `check_with`, or if the operation has no row count (size N or S). Each problem is a list of
// alternative settings. If the operation rejects the first row count, the next alternative has
// another divisor of the problem's row count.
std::vector<std::vector<std::vector<std::string>>> checked_settings(const lib::OpInfo& info,
                                                                    const TuneProblems& problems) {
  if (!problems.check_with.empty()) return {{problems.check_with}};
  const auto has = [&](const char* letter) {
    return std::find(info.symbols.begin(), info.symbols.end(), std::string_view(letter)) !=
           info.symbols.end();
  };
  const char* rows = has("N") ? "N" : has("S") ? "S" : nullptr;
  if (!rows) return {{problems.settings.front()}};
  const auto rows_of = [&](const std::vector<std::string>& settings) {
    return OpInstance(info, settings).size(rows);
  };
  const std::vector<std::string>& settings =
      *std::max_element(problems.settings.begin(), problems.settings.end(),
                        [&](const auto& a, const auto& b) { return rows_of(a) < rows_of(b); });
  const OpInstance whole(info, settings);
  const int64_t n = whole.size(rows);
  const auto fitting = static_cast<int64_t>(static_cast<double>(n) * kMostChecked /
                                            std::max(whole.bytes_moved(), 1.0));
  const int64_t few = std::min<int64_t>(n, 3), many = std::min(n, std::max<int64_t>(fitting, 3));
  std::vector<int64_t> up = {few}, down = {many};
  std::vector<int64_t> divisors;
  for (int64_t divisor = 1; divisor <= n / divisor; ++divisor) {
    if (n % divisor != 0) continue;
    for (const int64_t each : {divisor, n / divisor}) divisors.push_back(each);
  }
  std::sort(divisors.begin(), divisors.end());
  std::copy_if(divisors.begin(), divisors.end(), std::back_inserter(up),
               [&](int64_t each) { return each >= few; });
  std::copy_if(divisors.rbegin(), divisors.rend(), std::back_inserter(down),
               [&](int64_t each) { return each >= few && each <= many; });
  down.push_back(n);
  std::vector<std::vector<std::vector<std::string>>> chosen;
  for (const auto& counts : {up, down}) {
    chosen.emplace_back();
    for (const int64_t count : counts)
      chosen.back().push_back(with_rows(whole, settings, rows, count));
  }
  return chosen;
}

constexpr int kCandidates =
    2;  // candidates in memory at one time: the heuristic's and the tried one

// Returns the bytes of a problem's tensors and of workspaces for `candidates` candidates.
double bytes_of_problem(const lib::OpInfo& info, const std::vector<std::string>& settings,
                        const lib::ContextRef& context, int candidates, size_t guard) {
  OpInstance instance(info, settings);
  lib::check_desc(info, instance.desc());
  return instance.bytes_to_allocate(*instance.plan(context), candidates, guard);
}

// Fails before the first allocation if the device has too little free memory.
void require_memory(const lib::ContextRef& context, const TuneProblems& problems, double needed) {
  const auto free = static_cast<double>(context->device().free_memory());
  if (needed <= free) return;
  const runtime::DeviceDescription& device = context->device().description();
  const size_t count = problems.settings.size();
  throw Failure(
      kNothingFound,
      fmt::format("tune: {} of {} {} {} of memory at a time, {} has {} free of {}; tune {}smaller "
                  "problems (fewer rows), or end other processes that use memory of the device",
                  counted(static_cast<int64_t>(count), "problem", "problems"), problems.kernel,
                  count == 1 ? "takes" : "take", format_bytes(needed), device.name,
                  format_bytes(free), format_bytes(static_cast<double>(device.memory_bytes)),
                  count == 1 ? "" : "fewer or "));
}

// A problem with its memory and its expected outputs.
struct CheckedProblem {
  OpInstance instance;
  TensorBytes before;
  std::map<std::string, Expectation> expected;
  std::map<std::string, RightAnswers> right;

  CheckedProblem(const lib::OpInfo& info, const std::vector<std::string>& settings,
                 const lib::ContextRef& context)
      : instance(info, settings) {
    lib::check_desc(info, instance.desc());
    instance.allocate(context, kGuard);
    before = bytes_of(instance);
    expected = expected_outputs(instance, before);
  }
};

// Returns the first alternative that the operation accepts, and the bytes that it needs.
std::pair<std::vector<std::string>, double> checked_problem(
    const lib::OpInfo& info, const std::vector<std::vector<std::string>>& settings,
    const lib::ContextRef& context) {
  for (const auto& each : settings) {
    try {
      return {each, bytes_of_problem(info, each, context, 1, kGuard)};
    } catch (const runtime::Error& error) {
      if (error.status() != runtime::Status::invalid_shape || &each == &settings.back()) throw;
    }
  }
  throw std::logic_error("no settings to check");
}

class OpCandidate final : public TunedCandidate {
 public:
  OpCandidate(const lib::ContextRef& context, std::vector<std::unique_ptr<CheckedProblem>>& checked,
              std::vector<std::unique_ptr<OpInstance>>& problems)
      : context_(context), checked_(checked) {
    for (const auto& instance : problems) {
      plans_.push_back(instance->plan(context));
      calls_.push_back(instance->bound(*plans_.back()));
      workspaces_.push_back(
          std::make_unique<GuardedWorkspace>(context, calls_.back().workspace_bytes));
      calls_.back().workspace = workspaces_.back()->data();
    }
    for (const auto& problem : checked) checked_plans_.push_back(problem->instance.plan(context));
  }

  Fault check() override {
    for (size_t i = 0; i < checked_.size(); ++i) {
      if (Fault fault = check(*checked_[i], *checked_plans_[i]); fault.fate != Fate::ok)
        return fault;
    }
    return {};
  }
  size_t problems() const override { return plans_.size(); }
  runtime::Work work(size_t problem) override {
    return [this, problem](runtime::Stream stream) {
      calls_[problem].stream = stream;
      plans_[problem]->execute(&calls_[problem]);
    };
  }
  std::vector<const lib::Launcher*> launchers() const override {
    return plans_.front()->op().launchers();
  }

 private:
  Fault check(CheckedProblem& problem, const lib::Plan& plan) {
    OpInstance& instance = problem.instance;
    for (OpInstance::Slot& slot : instance.slots()) {
      const bool output =
          slot.info && slot.info->direction == lib::Direction::out && slot.same_as < 0;
      const std::string& before = problem.before.at(slot.name);
      if (!output && read_only(instance, slot) && before.size() > kMostRestored) continue;
      instance.write(slot,
                     output ? std::string(before.size(), static_cast<char>(kNanByte)) : before);
    }
    lib::Call call = instance.bound(plan);
    GuardedWorkspace workspace(context_, call.workspace_bytes);
    workspace.poison();
    call.workspace = workspace.data();
    // The second run tests that results do not depend on old contents of outputs and workspace. A
    // problem that updates its inputs runs once, because a second run would have another result.
    const bool updates = std::any_of(
        instance.slots().begin(), instance.slots().end(), [](const OpInstance::Slot& slot) {
          return slot.info && slot.info->direction != lib::Direction::in &&
                 (slot.info->direction != lib::Direction::out || slot.same_as >= 0);
        });
    for (int runs = updates ? 1 : 2; runs > 0; --runs) {
      plan.execute(&call);
      context_->check(nullptr);
      if (Fault fault = result(problem, workspace); fault.fate != Fate::ok) return fault;
    }
    return {};
  }

  static bool read_only(const OpInstance& instance, const OpInstance::Slot& slot) {
    const bool written = slot.info && slot.info->direction != lib::Direction::in;
    return !written &&
           std::none_of(instance.slots().begin(), instance.slots().end(), [&](const auto& other) {
             return other.same_as >= 0 &&
                    &instance.slots()[static_cast<size_t>(other.same_as)] == &slot;
           });
  }

  static Fault result(CheckedProblem& problem, const GuardedWorkspace& workspace) {
    const OpInstance& instance = problem.instance;
    if (const std::string slot = instance.broken_guard(); !slot.empty())
      return {Fate::guard, "the kernel wrote outside of " + slot};
    if (workspace.broken()) return {Fate::guard, "the kernel wrote outside of the workspace"};
    for (const OpInstance::Slot& slot : instance.slots()) {
      const bool written = slot.info && slot.info->direction != lib::Direction::in;
      if (!written) {
        const std::string_view before = problem.before.at(slot.name);
        const size_t bytes = std::min(before.size(), kMostRestored);
        if (slot.info && read_only(instance, slot) &&
            instance.read(slot, bytes) != before.substr(0, bytes))
          return {Fate::guard, fmt::format("the kernel wrote to the input {}", slot.name)};
        continue;
      }
      const std::string bytes = instance.read(slot);
      RightAnswers& right = problem.right[slot.name];
      if (right.contain(bytes)) continue;
      const Difference difference = compare(bytes, problem.expected.at(slot.name), slot.dtype);
      if (difference.beyond > 0) return {Fate::wrong, difference_text(slot.name, difference)};
      right.add(bytes);
    }
    return {};
  }

  lib::ContextRef context_;
  std::vector<std::unique_ptr<CheckedProblem>>& checked_;
  std::vector<std::unique_ptr<lib::Plan>> plans_, checked_plans_;
  std::vector<lib::Call> calls_;
  std::vector<std::unique_ptr<GuardedWorkspace>> workspaces_;
};

class OpSubject final : public TuneSubject {
 public:
  OpSubject(const lib::ContextRef& context, const TuneProblems& problems) : context_(context) {
    const lib::OpInfo& info = find_op(problems.kernel);
    std::vector<std::vector<std::string>> checked;
    double needed = 0;
    for (const auto& settings : checked_settings(info, problems)) {
      const auto& [chosen, bytes] = checked_problem(info, settings, context);
      checked.push_back(chosen);
      needed += bytes;
    }
    for (const auto& settings : problems.settings)
      needed += bytes_of_problem(info, settings, context, kCandidates, 0);
    require_memory(context, problems, needed);
    for (const auto& settings : checked)
      checked_.push_back(std::make_unique<CheckedProblem>(info, settings, context));
    for (const auto& settings : problems.settings) {
      problems_.push_back(std::make_unique<OpInstance>(info, settings));
      lib::check_desc(info, problems_.back()->desc());
      problems_.back()->allocate(context);
    }
  }
  std::vector<std::string> checked() const override {
    std::vector<std::string> texts;
    for (const auto& problem : checked_) texts.push_back(problem->instance.title());
    return texts;
  }
  std::vector<double> bytes_moved() const override {
    std::vector<double> bytes;
    for (const auto& problem : problems_)
      bytes.push_back(problem->flops() > 0 ? 0 : problem->bytes_moved());
    return bytes;
  }
  std::unique_ptr<TunedCandidate> load(const MetaValues& config) override {
    const GivenConfig given(*context_, config);
    return std::make_unique<OpCandidate>(context_, checked_, problems_);
  }

 private:
  lib::ContextRef context_;
  std::vector<std::unique_ptr<CheckedProblem>> checked_;
  std::vector<std::unique_ptr<OpInstance>> problems_;
};

//===-- Kernels loaded with --load --------------------------------------------===//

class AuthorCandidate final : public TunedCandidate {
 public:
  AuthorCandidate(const lib::ContextRef& context, const AnyKernel& kernel,
                  const TuneProblems& problems, const std::vector<std::string>& check_with,
                  const Evaluations& expected, const std::vector<bool>& poisoned,
                  const MetaValues& config)
      : expected_(expected), poisoned_(poisoned) {
    const auto add = [&](const std::vector<std::string>& settings, size_t guard) {
      calls_.push_back(std::make_unique<AuthorCall>(kernel, with_config(settings, config), inputs_,
                                                    context->machine()));
      return std::make_unique<AuthorInstance>(*calls_.back(), context, guard);
    };
    checked_ = add(check_with, kGuard);
    for (const auto& settings : problems.settings) instances_.push_back(add(settings, 0));
    context_ = context;
  }

  Fault check() override {
    checked_->write_initial(poisoned_);
    const auto& arguments = checked_->call().arguments();
    bool updates = false;  // the kernel updates memory that it reads: run it only once
    for (size_t i = 0; i < arguments.size(); ++i) updates |= arguments[i].written && !poisoned_[i];
    for (int runs = updates ? 1 : 2; runs > 0; --runs) {
      checked_->launch(nullptr);
      context_->device().synchronize(nullptr);
      if (Fault fault = result(); fault.fate != Fate::ok) return fault;
    }
    return {};
  }
  size_t problems() const override { return instances_.size(); }
  runtime::Work work(size_t problem) override {
    return [this, problem](runtime::Stream stream) { instances_[problem]->launch(stream); };
  }
  std::vector<const lib::Launcher*> launchers() const override {
    return {&instances_.front()->launcher()};
  }

 private:
  Fault result() const {
    if (const std::string name = checked_->broken_guard(); !name.empty())
      return {Fate::guard, "the kernel wrote outside of " + name};
    const auto& arguments = checked_->call().arguments();
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (!arguments[i].written) continue;
      const Difference difference =
          expected_.compare(i, checked_->read(i), arguments[i].type.dtype);
      if (difference.beyond > 0)
        return {Fate::wrong, difference_text(arguments[i].name, difference)};
    }
    return {};
  }

  const Evaluations& expected_;
  const std::vector<bool>& poisoned_;
  const std::map<std::string, Array> inputs_;
  lib::ContextRef context_;
  std::vector<std::unique_ptr<AuthorCall>> calls_;
  std::unique_ptr<AuthorInstance> checked_;
  std::vector<std::unique_ptr<AuthorInstance>> instances_;
};

// Returns the bytes of all arguments in memory.
double bytes_of(const AuthorCall& call) {
  double bytes = 0;
  for (const AuthorArgument& argument : call.arguments()) {
    if (argument.is_memory())
      bytes += static_cast<double>(elements(argument.shape)) *
               static_cast<double>(size_of(argument.type.dtype));
  }
  return bytes;
}

// Subject for a kernel loaded with --load. Its reference is the kernel with its default
// configuration, interpreted in float64.
class AuthorSubject final : public TuneSubject {
 public:
  AuthorSubject(const lib::ContextRef& context, const AnyKernel& kernel,
                const TuneProblems& problems)
      : context_(context),
        kernel_(kernel),
        problems_(problems),
        check_with_(problems.check_with.empty() ? problems.settings.front() : problems.check_with) {
    const AuthorCall call(kernel, check_with_, {}, context->machine());
    if (call.bytes_moved() > kMostInterpreted)
      throw Failure(
          kUsage,
          fmt::format(
              "{} moves {:.0f} bytes, and the check in float64 takes at most {:.0f}; name a "
              "smaller call of the same kernel with --check-with \"x=64x4096 ...\"",
              kernel.name(), call.bytes_moved(), kMostInterpreted));
    double needed = bytes_of(call);
    for (const auto& settings : problems.settings)
      needed += bytes_of(AuthorCall(kernel, settings, {}, context->machine()));
    require_memory(context, problems, kCandidates * needed);
    expected_ = Evaluations(call);
    for (size_t i = 0; i < expected_.exact().size(); ++i) {
      const AuthorArgument& argument = call.arguments()[i];
      poisoned_.push_back(argument.written && !argument.has_contents() &&
                          !expected_.exact()[i].read);
      if (expected_.exact()[i].unwritten.elements > 0)
        throw Failure(
            kUsage,
            fmt::format("{} does not write {} of {}; give it initial values with {}=SHAPE:0..0",
                        kernel.name(),
                        counted(expected_.exact()[i].unwritten.elements, "element", "elements"),
                        argument.name, argument.name));
    }
  }
  std::vector<std::string> checked() const override {
    return {fmt::format("{}", fmt::join(check_with_, " "))};
  }
  std::vector<double> bytes_moved() const override {
    std::vector<double> bytes;
    for (const auto& settings : problems_.settings)
      bytes.push_back(AuthorCall(kernel_, settings, {}, context_->machine()).bytes_moved());
    return bytes;
  }
  std::unique_ptr<TunedCandidate> load(const MetaValues& config) override {
    return std::make_unique<AuthorCandidate>(context_, kernel_, problems_, check_with_, expected_,
                                             poisoned_, config);
  }

 private:
  lib::ContextRef context_;
  const AnyKernel& kernel_;
  TuneProblems problems_;
  std::vector<std::string> check_with_;
  Evaluations expected_;
  std::vector<bool> poisoned_;  // by argument: true if written, but not read before
};

}  // namespace

std::unique_ptr<TuneSubject> make_tune_subject(const lib::ContextRef& context,
                                               const AuthorKernels& authors,
                                               const TuneProblems& problems) {
  if (const AnyKernel* author = authors.find_or_op(problems.kernel))
    return std::make_unique<AuthorSubject>(context, *author, problems);
  return std::make_unique<OpSubject>(context, problems);
}

}  // namespace ligerdsl::cli
