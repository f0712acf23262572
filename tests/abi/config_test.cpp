// Configuration of a context: the caller's allocator, log and cache folder, and the LIGERDSL_CTX_
// flags.
#include <ligerdsl/dsl.h>
#include <sys/stat.h>

#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>

#include "support.h"

namespace ligerdsl::test::config_test {
namespace {

ligerdsl_context_config_t fresh_config(uint32_t flags = 0) {
  ligerdsl_context_config_t config = LIGERDSL_CONTEXT_CONFIG_INIT;
  config.num_threads = 2;
  config.flags = flags;
  return config;
}

// An allocator and a log that record their calls.
struct Host {
  std::mutex mutex;
  std::set<void*> live;
  int allocated = 0;
  bool exhausted = false;
  std::vector<std::string> lines;

  void give_to(ligerdsl_context_config_t& config) {
    config.user = this;
    config.host_alloc = [](void* user, size_t bytes, size_t align) -> void* {
      auto& host = *static_cast<Host*>(user);
      const std::lock_guard lock(host.mutex);
      if (host.exhausted) return nullptr;
      void* memory = std::aligned_alloc(align, (bytes + align - 1) / align * align);
      host.live.insert(memory);
      ++host.allocated;
      return memory;
    };
    config.host_free = [](void* user, void* memory) {
      auto& host = *static_cast<Host*>(user);
      const std::lock_guard lock(host.mutex);
      EXPECT_EQ(host.live.erase(memory), 1u) << "memory was freed that was not allocated";
      std::free(memory);
    };
  }
  void listen(ligerdsl_context_config_t& config) {
    config.user = this;
    config.log = [](void* user, int32_t level, const char* line) {
      auto& host = *static_cast<Host*>(user);
      const std::lock_guard lock(host.mutex);
      host.lines.push_back(std::to_string(level) + " " + line);
    };
  }
};

// A new temporary folder. The cache refuses it if a test sets its mode to 0777.
class Folder {
 public:
  Folder() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "ligerdsl-config-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(ContextTarget, DescribesACpu) {
  const Context context = Context::cpu(1);
  const ligerdsl_target_t target = context.target();
  EXPECT_STREQ(target.name, "cpu");
  EXPECT_EQ(target.gpu, 0);
  EXPECT_EQ(target.vector_bytes, target_named("cpu").vector_bytes);
  EXPECT_EQ(target.sms, 0);
}

TEST(ContextTarget, AcceptsStructSizesOfOtherVersions) {
  const Context context = Context::cpu(1);
  const ligerdsl_target_t expected = context.target();
  struct Later {
    ligerdsl_target_t known;
    int64_t more;
  } later;
  std::memset(&later, 0x55, sizeof later);
  ASSERT_EQ(ligerdsl_context_target(context.get(), &later.known, sizeof later), LIGERDSL_SUCCESS);
  EXPECT_EQ(std::memcmp(&later.known, &expected, sizeof expected), 0);
  EXPECT_EQ(later.more, 0) << "an unknown field must be 0";
  std::memset(&later, 0x55, sizeof later);
  const size_t earlier = offsetof(ligerdsl_target_t, l2_bytes);
  ASSERT_EQ(ligerdsl_context_target(context.get(), &later.known, earlier), LIGERDSL_SUCCESS);
  EXPECT_EQ(std::memcmp(&later.known, &expected, earlier), 0);
  EXPECT_EQ(later.known.l2_bytes, 0x5555555555555555) << "written beyond target_bytes";
}

TEST(ContextTarget, Misuse) {
  const Context context = Context::cpu(1);
  ligerdsl_target_t target;
  expect_failure(ligerdsl_context_target(context.get(), nullptr, sizeof target),
                 LIGERDSL_INVALID_NULL_POINTER, {"ligerdsl_context_target", "`target`"});
  expect_failure(ligerdsl_context_target(context.get(), &target, 4), LIGERDSL_INVALID_ARGUMENT,
                 {"`target_bytes`: expected sizeof(ligerdsl_target_t) = ", "got 4"});
  expect_failure(ligerdsl_context_target(nullptr, &target, sizeof target),
                 LIGERDSL_INVALID_NULL_POINTER, {"context"});
}

TEST(Config, CallersAllocatorServesBuffersAndScratch) {
  Host host;
  ligerdsl_context_config_t config = fresh_config();
  host.give_to(config);
  {
    const Context context(config);
    EXPECT_GT(host.allocated, 0);
    const int before = host.allocated;
    const Buffer buffer(context, 1000);
    EXPECT_EQ(host.allocated, before + 1);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 256, 0u);
    EXPECT_EQ(host.live.count(buffer.data()), 1u);
    host.exhausted = true;
    void* none = nullptr;
    expect_failure(ligerdsl_buffer_alloc(context.get(), 12345, &none), LIGERDSL_OUT_OF_HOST_MEMORY,
                   {"12345"});
    host.exhausted = false;
  }
  EXPECT_TRUE(host.live.empty()) << host.live.size() << " blocks are left";
}

TEST(Config, AllocatorNeedsBothFunctions) {
  Host host;
  ligerdsl_context_t context = nullptr;
  for (const bool alloc : {true, false}) {
    ligerdsl_context_config_t config = fresh_config();
    host.give_to(config);
    if (alloc) config.host_free = nullptr;
    if (!alloc) config.host_alloc = nullptr;
    expect_failure(ligerdsl_context_create(&config, &context), LIGERDSL_INVALID_ARGUMENT,
                   {"host_alloc", "host_free"});
  }
}

TEST(Config, CallersLogReceivesMessagesWhileContextLives) {
  const Folder folder;
  ASSERT_EQ(chmod(folder.path().c_str(), 0777), 0);
  Host host;
  ligerdsl_context_config_t config = fresh_config();
  host.listen(config);
  config.cache_dir = folder.path().c_str();
  { const Context context(config); }
  ASSERT_EQ(host.lines.size(), 1u);
  EXPECT_EQ(host.lines[0].substr(0, 2), "2 ");
  EXPECT_NE(host.lines[0].find(folder.path()), std::string::npos) << host.lines[0];
  EXPECT_NE(host.lines[0].find("writable by group or world"), std::string::npos) << host.lines[0];
  const Folder another;
  ASSERT_EQ(chmod(another.path().c_str(), 0777), 0);
  ligerdsl_context_config_t silent = fresh_config();
  silent.cache_dir = another.path().c_str();
  testing::internal::CaptureStderr();
  { const Context context(silent); }
  EXPECT_NE(testing::internal::GetCapturedStderr().find(another.path()), std::string::npos);
  EXPECT_EQ(host.lines.size(), 1u);
}

TEST(Config, NegativeCacheLimitIsRefused) {
  ligerdsl_context_config_t config = fresh_config();
  config.cache_limit_bytes = -1;
  ligerdsl_context_t context = nullptr;
  expect_failure(ligerdsl_context_create(&config, &context), LIGERDSL_INVALID_ARGUMENT,
                 {"`cache_limit_bytes`", "-1"});
}

TEST(Config, UnknownFlags) {
  ligerdsl_context_config_t config = fresh_config(8);
  ligerdsl_context_t context = nullptr;
  expect_failure(ligerdsl_context_create(&config, &context), LIGERDSL_INVALID_ARGUMENT,
                 {"`flags`", "got 0x8"});
}

// A struct of an older header ends after `flags`. The library must not call the later `host_alloc`.
TEST(Config, OlderHeaderGetsDefaults) {
  ligerdsl_context_config_t config = fresh_config();
  config.struct_size = offsetof(ligerdsl_context_config_t, flags) + sizeof config.flags;
  config.host_alloc = [](void*, size_t, size_t) -> void* { std::abort(); };
  ligerdsl_context_t context = nullptr;
  EXPECT_EQ(ligerdsl_context_create(&config, &context), LIGERDSL_SUCCESS) << ligerdsl_last_error();
  ligerdsl_context_destroy(context);
}

#ifdef WITH_COMPILER

std::string quotient_program() {
  KernelBuilder k("quotient");
  const View a = k.view("a", f32, {dyn}), b = k.view("b", f32, {dyn}),
             out = k.view("out", f32, {dyn});
  out.partition({16}).store(
      {0}, a.partition({16}).load({0}) / b.partition({16}).load({0}, {.pad = 1.0}));
  return k.finish_bytes();
}

ligerdsl_kernel_arg_t view_arg(const ligerdsl_tensor_t* tensor) {
  ligerdsl_kernel_arg_t arg{};
  arg.kind = LIGERDSL_ARG_TENSOR;
  arg.tensor = tensor;
  return arg;
}

TEST(Config, ValidateFindsNansMadeFromNumbers) {
  for (const bool validate : {false, true}) {
    const Context context(fresh_config(validate ? LIGERDSL_CTX_VALIDATE : 0));
    const CompiledKernel kernel(context, quotient_program());
    Owned a(LIGERDSL_F32, {7}), b(LIGERDSL_F32, {7}), out(LIGERDSL_F32, {7});
    std::fill_n(a.floats(), 7, 0.0f);
    std::fill_n(b.floats(), 7, 2.0f);
    const ligerdsl_kernel_arg_t args[] = {view_arg(a), view_arg(b), view_arg(out)};
    const int32_t grid[3] = {1, 1, 1};
    const auto launch = [&] {
      return ligerdsl_kernel_launch(kernel.get(), args, 3, grid, nullptr);
    };
    EXPECT_EQ(launch(), LIGERDSL_SUCCESS) << ligerdsl_last_error();
    b.floats()[5] = 0.0f;
    if (validate) {
      expect_failure(launch(), LIGERDSL_EXECUTION_FAILED,
                     {"`out`", "NaN at [5]", "LIGERDSL_VALIDATE"});
    } else {
      EXPECT_EQ(launch(), LIGERDSL_SUCCESS);
    }
    a.floats()[0] = NAN;  // a NaN input may give a NaN output
    EXPECT_EQ(launch(), LIGERDSL_SUCCESS) << ligerdsl_last_error();
  }
}

// validate treats a NaN in fp8 like a NaN in f32.
TEST(Config, ValidateReadsFp8) {
  for (const auto& [type, dtype, infinite] :
       {std::tuple{f8e4m3, LIGERDSL_F8E4M3, 0x7e}, {f8e5m2, LIGERDSL_F8E5M2, 0x7c}}) {
    KernelBuilder k("fp8_copies");
    const View out = k.view("out", type, {dyn}), x = k.view("x", f32, {dyn}),
               codes = k.view("codes", type, {dyn});
    const Tile sum = x.partition({8}).load({0}) + codes.partition({8}).load({0}).to(f32);
    const Tile infinity = k.full({8}, INFINITY, f32);
    out.partition({8}).store({0}, where(sum == 3.0f, infinity - infinity, sum).to(type));
    const Context context(fresh_config(LIGERDSL_CTX_VALIDATE));
    const CompiledKernel kernel(context, k.finish_bytes());
    Owned to(dtype, {7}), from(LIGERDSL_F32, {7}), added(dtype, {7});
    auto* const code = reinterpret_cast<uint8_t*>(added.floats());
    std::fill_n(from.floats(), 7, 2.0f);
    std::fill_n(code, 7, 0);
    const ligerdsl_kernel_arg_t args[] = {view_arg(to), view_arg(from), view_arg(added)};
    const int32_t grid[3] = {1, 1, 1};
    const auto launch = [&] {
      return ligerdsl_kernel_launch(kernel.get(), args, 3, grid, nullptr);
    };
    EXPECT_EQ(launch(), LIGERDSL_SUCCESS) << ligerdsl_last_error();
    from.floats()[4] = 3.0f;
    expect_failure(launch(), LIGERDSL_EXECUTION_FAILED,
                   {"`out`", "NaN at [4]", "LIGERDSL_VALIDATE"});
    code[0] = 0x7f;
    EXPECT_EQ(launch(), LIGERDSL_SUCCESS) << "a NaN was read: " << ligerdsl_last_error();
    code[0] = static_cast<uint8_t>(infinite);  // an infinity, if the type has one
    EXPECT_EQ(launch(), type == f8e5m2 ? LIGERDSL_SUCCESS : LIGERDSL_EXECUTION_FAILED)
        << ligerdsl_last_error();
  }
}

// Returns a kernel that promises a row index below dim(0) and a width divisible by 4. Stores the
// source lines of both promises.
std::string promising_program(int* assume_line, int* divisible_line) {
  KernelBuilder k("promising");
  const View out = k.view("out", f32, {dyn, dyn});
  const Scalar width = k.scalar("width", i32);
  const Scalar row = k.program_id(0);
  *assume_line = __LINE__ + 1;
  assume(row < out.dim(0));
  *divisible_line = __LINE__ + 1;
  const Scalar whole = assume_divisible(width, 4);
  out.partition({squeeze, 4}).store({row, whole / 4 - 1}, 1.0f);
  return k.finish_bytes();
}

TEST(Config, ValidateChecksAssumptions) {
  int assume_line = 0, divisible_line = 0;
  const std::string program = promising_program(&assume_line, &divisible_line);
  const Context context(fresh_config(LIGERDSL_CTX_VALIDATE));
  const CompiledKernel kernel(context, program);
  Owned out(LIGERDSL_F32, {2, 8});
  const auto launch = [&](int32_t programs, int64_t width) {
    ligerdsl_kernel_arg_t args[] = {view_arg(out), {}};
    args[1].kind = LIGERDSL_ARG_INTEGER;
    args[1].integer = width;
    const int32_t grid[3] = {programs, 1, 1};
    return ligerdsl_kernel_launch(kernel.get(), args, 2, grid, nullptr);
  };
  const auto line = [](int number) { return "config_test.cpp:" + std::to_string(number) + ":"; };
  const std::string assumed = line(assume_line), divisible = line(divisible_line);
  EXPECT_EQ(launch(2, 8), LIGERDSL_SUCCESS) << ligerdsl_last_error();
  EXPECT_EQ(out.floats()[15], 1.0f);
  expect_failure(launch(3, 8), LIGERDSL_EXECUTION_FAILED,
                 {assumed.c_str(), "assume: the assumption", "LIGERDSL_VALIDATE"});
  EXPECT_EQ(launch(2, 8), LIGERDSL_SUCCESS) << "it was reported already: " << ligerdsl_last_error();
  expect_failure(launch(2, 6), LIGERDSL_EXECUTION_FAILED,
                 {divisible.c_str(), "assume_divisible: not a multiple of 4"});
}

TEST(Config, ValidateReportsLabelsAtTheCall) {
  const Context context(fresh_config(LIGERDSL_CTX_VALIDATE));
  Owned logits(LIGERDSL_F32, {4, 8}), labels(LIGERDSL_I64, {4}), loss(LIGERDSL_F32, {1});
  std::fill_n(logits.floats(), 32, 1.0f);
  labels.storage[2] = 8;
  CrossEntropyArgs args = cross_entropy_args();
  args.logits = logits;
  args.labels = labels;
  args.loss = loss;
  const CrossEntropyDesc desc = cross_entropy_desc();
  expect_failure(ligerdsl_cross_entropy(context.get(), &desc, &args, nullptr),
                 LIGERDSL_INVALID_LABEL, {"cross_entropy", "out of bounds", "row 2"});
  EXPECT_EQ(ligerdsl_context_check(context.get(), nullptr), LIGERDSL_SUCCESS)
      << "it was reported already";
  labels.storage[2] = 7;
  EXPECT_EQ(ligerdsl_cross_entropy(context.get(), &desc, &args, nullptr), LIGERDSL_SUCCESS)
      << ligerdsl_last_error();
}

TEST(Config, DeterministicRefusesAtomicSumsOfFloats) {
  const auto program = [](DType type, bool add) {
    KernelBuilder k("counter");
    const Ptr p = k.ptr("p", type);
    const Scalar one = k.constant(1, type);
    k.if_(k.program_id(0) < 3, [&] { add ? atomic_add(p, one) : atomic_max(p, one); });
    return k.finish_bytes();
  };
  const Context context(fresh_config(LIGERDSL_CTX_DETERMINISTIC));
  ligerdsl_kernel_t kernel = nullptr;
  const std::string floats = program(f32, true);
  expect_failure(
      ligerdsl_kernel_create(context.get(), floats.data(), floats.size(), nullptr, &kernel),
      LIGERDSL_NOT_SUPPORTED, {"config_test.cpp:", "atomically", "LIGERDSL_DETERMINISTIC"});
  const CompiledKernel integers(context, program(i32, true)), largest(context, program(f32, false));
  const Context free(fresh_config());
  const CompiledKernel allowed(free, floats);
}

TEST(Config, CacheKeepsItsLimit) {
  const Folder folder;
  ligerdsl_context_config_t config = fresh_config();
  config.cache_dir = folder.path().c_str();
  const auto files = [&] {
    return std::distance(std::filesystem::directory_iterator(folder.path()), {});
  };
  const auto compile = [&](const char* name) {
    KernelBuilder k(name);
    k.view("out", f32, {dyn}).partition({16}).store({0}, k.full({16}, 1, f32));
    const CompiledKernel kernel(Context(config), k.finish_bytes());
  };
  compile("first");
  const auto bytes =
      static_cast<int64_t>(std::filesystem::directory_iterator(folder.path())->file_size());
  compile("second");
  EXPECT_EQ(files(), 2);
  config.cache_limit_bytes = 2 * bytes + bytes / 2;
  compile("third");
  EXPECT_LT(files(), 3);
  EXPECT_GT(files(), 0);
}

TEST(Config, NoJitNamesTheWarmUpCommand) {
  const Folder folder;
  ligerdsl_context_config_t config = fresh_config(LIGERDSL_CTX_NO_JIT);
  config.cache_dir = folder.path().c_str();
  const Context context(config);
  RmsNormForwardDesc desc = rms_norm_forward_desc();
  desc.n_cols = 64;
  desc.dtype = LIGERDSL_BF16;
  desc.eps = 1e-5f;
  ligerdsl_plan_t plan = nullptr;
  expect_failure(
      ligerdsl_rms_norm_forward_plan(context.get(), &desc, &plan), LIGERDSL_NOT_SUPPORTED,
      {"NO_JIT", "ligerdsl cache warm FILE",
       R"({"operation": "rms_norm_forward", "target": "cpu", "n_cols": 64, "dtype": "bf16", )"
       R"("weight_dtype": "none", "casting": 0, "eps": 1e-05, "offset": 0, "with_rstd": 0})"});
}

TEST(Config, NoJitLoadsFromItsCacheFolder) {
  const Folder folder;
  const auto with = [&](uint32_t flags) {
    ligerdsl_context_config_t config = fresh_config(flags);
    config.cache_dir = folder.path().c_str();
    return Context(config);
  };
  const std::string program = quotient_program();
  ligerdsl_kernel_t kernel = nullptr;
  const Context strict = with(LIGERDSL_CTX_NO_JIT);
  expect_failure(
      ligerdsl_kernel_create(strict.get(), program.data(), program.size(), nullptr, &kernel),
      LIGERDSL_NOT_SUPPORTED, {"NO_JIT"});
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  { const CompiledKernel compiled(with(0), program); }
  EXPECT_FALSE(std::filesystem::is_empty(folder.path()));
  EXPECT_EQ(ligerdsl_kernel_create(strict.get(), program.data(), program.size(), nullptr, &kernel),
            LIGERDSL_SUCCESS)
      << ligerdsl_last_error();
  ligerdsl_kernel_destroy(kernel);
}

#endif  // WITH_COMPILER

}  // namespace
}  // namespace ligerdsl::test::config_test
