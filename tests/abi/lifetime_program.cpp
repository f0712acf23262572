// A program whose contexts, threads and processes end in unusual orders. lifetimes_test.cpp starts
// it. It exits with 0 on success.
//   fork DEVICE THREADS PARENT CHILD   forks while the parent's other threads do PARENT; the child
//                                      does CHILD
//   end HOW MILLISECONDS               ends the process in the way HOW while threads compile
//   memory MEGABYTES LOOPS             compiles a kernel with LOOPS loops in at most MEGABYTES
#include <ligerdsl/dsl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <ligerdsl/ligerdsl.hpp>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

using namespace ligerdsl;

// Memory of the parent's threads is unreachable in a child, but it is not a leak.
extern "C" __attribute__((visibility("default"))) int __lsan_is_turned_off() {
  return 1;
}

namespace {

constexpr int64_t kElements = 1 << 16;
constexpr unsigned kPatience = 60;  // seconds until SIGALRM ends a process that hangs

bool gpu = false;

Context make_context(int32_t threads) {
  return gpu ? Context::cuda() : Context::cpu(threads);
}

// A context with static lifetime: exit() destroys it, also in a forked child.
std::optional<Context>& the_context() {
  static std::optional<Context> context;
  return context;
}

// Computes out = a + b on its own tensors.
class Sum {
 public:
  explicit Sum(const Context& context) : context_(context) {
    for (auto& buffer : buffers_) {
      buffer = Buffer(context, kElements * sizeof(float));
      context.fill(buffer.data(), 0, kElements * sizeof(float));
      tensors_.emplace_back(buffer.data(), context.device(), LIGERDSL_F32,
                            std::vector<int64_t>{kElements});
    }
  }
  ligerdsl_status_t run() const {
    const VectorAddDesc desc = vector_add_desc();
    VectorAddArgs args = vector_add_args();
    args.a = tensors_[0];
    args.b = tensors_[1];
    args.out = tensors_[2];
    return ligerdsl_vector_add(context_.get(), &desc, &args, nullptr);
  }

 private:
  const Context& context_;
  Buffer buffers_[3];
  std::vector<Tensor> tensors_;
};

ligerdsl_status_t plan_a_norm(ligerdsl_context_t context, int64_t columns) {
  RmsNormForwardDesc desc = rms_norm_forward_desc();
  desc.n_cols = columns;
  desc.dtype = LIGERDSL_F32;
  ligerdsl_plan_t plan = nullptr;
  const ligerdsl_status_t status = ligerdsl_rms_norm_forward_plan(context, &desc, &plan);
  ligerdsl_plan_destroy(plan);
  return status;
}

// Returns a new number at each call, so that every plan compiles.
int64_t next_columns() {
  static std::atomic<int64_t> columns{64};
  return columns.fetch_add(64);
}

int complain(const std::string& what) {
  std::fprintf(stderr, "%s: %s\n", what.c_str(), ligerdsl_last_error());
  return 1;
}

// ---- fork

// Threads of the parent that work while the main thread forks.
class Busy {
 public:
  Busy(const std::string& what, const Context& context) {
    for (int i = 0; i < 2; ++i) {
      if (what == "executing") start([sum = std::make_shared<Sum>(context)] { return sum->run(); });
      if (what == "planning")
        start([&context] { return plan_a_norm(context.get(), next_columns()); });
      if (what == "creating")
        start([] {
          const Context other = make_context(2);
          return ligerdsl_context_check(other.get(), nullptr);
        });
    }
  }
  ~Busy() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  template <class Step>
  void start(Step step) {
    threads_.emplace_back([this, step] {
      while (!stop_) {
        if (step() != LIGERDSL_SUCCESS) std::exit(complain("a thread of the parent"));
      }
    });
  }

  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

// A forked child must not use a GPU. On a CPU, the library refuses to compile in a child if another
// thread of the parent was compiling at the time of the fork.
int expect_in_child(ligerdsl_status_t status, bool compiles) {
  if (status == LIGERDSL_SUCCESS && !gpu) return 0;
  if (status == LIGERDSL_FORKED_PROCESS && (gpu || compiles) &&
      std::string(ligerdsl_last_error()).size() > 40)
    return 0;
  return complain(std::string("in the child: ") + ligerdsl_status_name(status));
}

int in_child(const std::string& what, const Sum& sum) {
  if (what == "destroy") the_context().reset();
  if (what == "execute") return expect_in_child(sum.run(), false);
  if (what == "plan")
    return expect_in_child(plan_a_norm(the_context()->get(), next_columns()), true);
  if (what != "create") return 0;
  try {
    const Context fresh = make_context(3);
    return expect_in_child(Sum(fresh).run(), true);
  } catch (const StatusError& error) {
    return expect_in_child(error.status(), false);
  }
}

int fork_often(int32_t threads, const std::string& parent, const std::string& child) {
  std::optional<Context>& context = the_context();
  context.emplace(make_context(threads));
  // Never destroyed: buffers need their context.
  const Sum& sum = *new Sum(*context);
  if (parent != "unused" && sum.run() != LIGERDSL_SUCCESS) return complain("in the parent");
  const Busy busy(parent, *context);
  for (int round = 0; round < 15; ++round) {
    const pid_t process = fork();
    if (process == 0) {
      alarm(kPatience);  // a child does not inherit an alarm
      std::exit(in_child(child, sum));
    }
    int status = 0;
    waitpid(process, &status, 0);
    if (status != 0) {
      std::fprintf(stderr, "round %d: the child ended with %s %d\n", round,
                   WIFSIGNALED(status) ? "signal" : "status",
                   WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
      return 1;
    }
  }
  return 0;
}

// ---- end

// Makes plans until the context is destroyed.
void compile_for_ever(ligerdsl_context_t context) {
  for (;;) {
    const ligerdsl_status_t status = plan_a_norm(context, next_columns());
    if (status == LIGERDSL_DEAD_HANDLE) return;
    if (status != LIGERDSL_SUCCESS) _exit(complain("while compiling"));
  }
}

int end(const std::string& how, int milliseconds) {
  the_context().emplace(make_context(2));
  // exit() destroys the static context. With "main", the threads use another context, which
  // is never destroyed.
  ligerdsl_context_t shared = the_context()->get();
  if (how == "main") shared = (new Context(make_context(2)))->get();
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) threads.emplace_back(compile_for_ever, shared);
  usleep(static_cast<useconds_t>(milliseconds) * 1000);
  if (how == "destroy") {
    the_context().reset();
    for (std::thread& thread : threads) thread.join();
    return 0;
  }
  for (std::thread& thread : threads) thread.detach();
  if (how == "thread") {
    std::thread([] { std::exit(0); }).detach();
    for (;;) pause();
  }
  return 0;
}

// ---- memory

void limit_address_space(size_t megabytes) {
  const rlimit limit{megabytes << 20, megabytes << 20};
  setrlimit(RLIMIT_AS, &limit);
}

// Returns a kernel with this number of loops.
std::string program_with(int loops) {
  KernelBuilder k("loops");
  View out = k.view("out", f32, {dyn});
  View x = k.view("x", f32, {dyn});
  const Scalar first = k.program_id(0) * loops;
  for (int i = 0; i < loops; ++i) {
    const Tile tile = x.partition({64}).load({first + i});
    out.partition({64}).store({first + i}, tile * exp(tile));
  }
  return k.finish_bytes();
}

int with_memory(size_t megabytes, int loops) {
  const std::string program = program_with(loops);
  limit_address_space(megabytes);
  ligerdsl_context_config_t config = LIGERDSL_CONTEXT_CONFIG_INIT;
  config.num_threads = 2;
  ligerdsl_context_t context = nullptr;
  ligerdsl_kernel_t kernel = nullptr;
  ligerdsl_status_t status = ligerdsl_context_create(&config, &context);
  // Compiles twice: a failure of the first call must not make the second one hang.
  for (int i = 0; i < 2; ++i) {
    if (context)
      status = ligerdsl_kernel_create(context, program.data(), program.size(), nullptr, &kernel);
    if (status != LIGERDSL_SUCCESS)
      std::printf("%s: %s\n", ligerdsl_status_name(status), ligerdsl_last_error());
    ligerdsl_kernel_destroy(kernel);
  }
  ligerdsl_context_destroy(context);
  return status == LIGERDSL_SUCCESS ? 0 : 3;
}

}  // namespace

int main(int argc, char** argv) {
  alarm(kPatience);
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() == 5 && words[0] == "fork") {
    gpu = words[1] == "gpu";
    return fork_often(std::stoi(words[2]), words[3], words[4]);
  }
  if (words.size() == 3 && words[0] == "end") return end(words[1], std::stoi(words[2]));
  if (words.size() == 3 && words[0] == "memory")
    return with_memory(std::stoul(words[1]), std::stoi(words[2]));
  std::fprintf(stderr, "usage: see the top of the source\n");
  return 64;
}
