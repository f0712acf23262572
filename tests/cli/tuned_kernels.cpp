// Kernels for tune_test.py:
// - `faulty`: configurations that are right, give wrong results (always, or in the second run
//   only), write out of bounds, never end, or crash
// - `steps`: a change of the last bit of a product can change the result by 1
// - `sums`: one choice changes the order of a sum; `plain` has no choices
// - `lazy`: another choice is many times faster than the default
//
// Environment variables control what the library does when it is loaded:
// - TUNED_KERNELS_TALK: prints a line to stdout.
// - TUNED_KERNELS_LOCALE: sets the user's locale.
// - TUNED_KERNELS_SLOW_WORKER=FILE: in the process that runs kernels, makes FILE and sleeps.
// - TUNED_KERNELS_SIGNAL=NUMBER[:FILE]: raises the signal in that process when `steps` is launched.
//   If FILE is given, does so only while FILE does not exist, and makes it.
#include <ligerdsl/dsl.h>
#include <unistd.h>

#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

using namespace ligerdsl;

namespace {

enum class Fault { none, wrong, again, outside, endless, deadly };

struct FaultyMeta {
  int64_t scale = 3;
  Fault fault = Fault::none;
  int64_t block = 64;
  template <class V>
  void visit(V&& v) {
    v("scale", scale);
    v("fault", fault, {"none", "wrong", "again", "outside", "endless", "deadly"}, Bits::same);
    v("block", block, choices({64, 1024}), Bits::same);
  }
};

// y = scale x.
void faulty(KernelBuilder& k, const FaultyMeta& m) {
  View y = k.view("y", f32, {dyn});
  View x = k.view("x", f32, {dyn});
  const Scalar i = k.program_id(0);
  const Tile v = x.partition({m.block}).load({i});
  const double factor = m.fault == Fault::wrong ? 0 : static_cast<double>(m.scale);
  // Reads y. Before the first run, y is NaN and the result is right; afterwards it is off by 1.
  const Tile before = m.fault == Fault::again ? y.partition({m.block}).load({i}) : v;
  const Tile right = v * factor;
  y.partition({m.block}).store(
      {i}, m.fault == Fault::again ? where(before == before, right + 1.0, right) : right);
  if (m.fault == Fault::outside) store(y.ptr() + y.dim(0), k.constant(1.0f, f32));
  if (m.fault == Fault::endless)
    k.for_range(0, k.constant(int64_t{1} << 60, i64), 1,
                [&](Scalar j) { y.store({j % y.dim(0)}, j.to(f32)); });
  if (m.fault == Fault::deadly) store(y.ptr() + (int64_t{1} << 50), k.constant(1.0f, f32));
}

Launch blocks(const FaultyMeta& m, const LaunchArguments& a) {
  return {.grid = {ceil_div(a.dim("y", 0), m.block)}, .num_warps = 2};
}

// y = floor(1234567 x). A change of the last bit of 1234567 x can change y by 1.
struct StepsMeta {
  int64_t block = 64;
  template <class V>
  void visit(V&& v) {
    v("block", block, choices({64, 256}), Bits::same);
  }
};

void steps(KernelBuilder& k, const StepsMeta& m) {
  View y = k.view("y", i32, {dyn});
  View x = k.view("x", f32, {dyn});
  const Scalar i = k.program_id(0);
  y.partition({m.block}).store({i}, floor(x.partition({m.block}).load({i}) * 1234567.0f).to(i32));
}

bool runs_kernels() {
  std::ifstream arguments("/proc/self/cmdline");
  const std::string text{std::istreambuf_iterator<char>(arguments), {}};
  return text.find("tune-worker") != std::string::npos;
}

void send_signal() {
  const char* wanted = std::getenv("TUNED_KERNELS_SIGNAL");
  if (!wanted || !runs_kernels()) return;
  const std::string text = wanted, file = text.find(':') == std::string::npos
                                              ? ""
                                              : text.substr(text.find(':') + 1);
  if (!file.empty() && std::ifstream(file)) return;
  if (!file.empty()) std::ofstream(file).flush();
  std::raise(std::atoi(wanted));
}

Launch step_blocks(const StepsMeta& m, const LaunchArguments& a) {
  send_signal();
  return {.grid = {ceil_div(a.dim("y", 0), m.block)}};
}

struct PlainMeta {
  template <class V>
  void visit(V&&) {}
};

void plain(KernelBuilder& k, const PlainMeta&) {
  View y = k.view("y", f32, {dyn});
  y.partition({64}).store({k.program_id(0)}, k.zeros({64}, f32));
}

Launch plain_launch(const PlainMeta&, const LaunchArguments& a) {
  return {.grid = {ceil_div(a.dim("y", 0), 64)}};
}

// y = row sums of x. `part`, the columns per iteration, changes the order of additions; `rows`, the
// rows per program, does not.
struct SumsMeta {
  int64_t part = 64, rows = 1;
  template <class V>
  void visit(V&& v) {
    v("part", part, choices({16, 64, 256}), Bits::row);
    v("rows", rows, choices({1, 2, 4}), Bits::same);
  }
};

void sums(KernelBuilder& k, const SumsMeta& m) {
  View y = k.view("y", f32, {dyn});
  View x = k.view("x", f32, {dyn, dyn});
  const Scalar i = k.program_id(0);
  const auto [total] = k.for_range(
      0, (x.dim(1) + (m.part - 1)) / m.part, 1, carry(k.zeros({m.rows}, f32)),
      [&](Scalar j, Tile so_far) {
        return carry(so_far + sum(x.partition({m.rows, m.part}).load({i, j}, {.pad = 0}), 1));
      });
  y.partition({m.rows}).store({i}, total);
}

Launch sum_rows(const SumsMeta& m, const LaunchArguments& a) {
  return {.grid = {ceil_div(a.dim("x", 0), m.rows)}};
}

// y = scale x, after `rounds` multiplications by 1.
struct LazyMeta {
  float scale = 0.1f;
  int64_t rounds = 1000;
  template <class V>
  void visit(V&& v) {
    v("scale", scale);
    v("rounds", rounds, choices({1, 100, 1000}), Bits::same);
  }
};

void lazy(KernelBuilder& k, const LazyMeta& m) {
  View y = k.view("y", f32, {dyn});
  View x = k.view("x", f32, {dyn});
  const Scalar i = k.program_id(0);
  const Tile v = x.partition({256}).load({i}, {.pad = 0});
  const auto [product] = k.for_range(0, m.rounds, 1, carry(v), [&](Scalar j, Tile so_far) {
    return carry(so_far * where(v == v, k.full({256}, 1.0f, f32), v + j.to(f32)));  // 1 unless NaN
  });
  y.partition({256}).store({i}, product * m.scale);
}

Launch lazy_blocks(const LazyMeta&, const LaunchArguments& a) {
  return {.grid = {ceil_div(a.dim("y", 0), 256)}};
}

int loaded() {
  if (std::getenv("TUNED_KERNELS_TALK")) std::puts("loaded");
  if (std::getenv("TUNED_KERNELS_LOCALE") && std::setlocale(LC_ALL, "") &&
      std::localeconv()->decimal_point[0] == ',')
    std::fputs("locale with commas\n", stderr);
  const char* slow = std::getenv("TUNED_KERNELS_SLOW_WORKER");
  if (slow && runs_kernels()) std::ofstream(slow).flush(), sleep(600);
  return 0;
}

const int once = loaded();

const Kernel<FaultyMeta> faulty_kernel{
    .name = "faulty", .description = "y = scale x", .build = faulty, .launch = blocks};
const Kernel<PlainMeta> plain_kernel{
    .name = "plain", .description = "y = 0", .build = plain, .launch = plain_launch};
const Kernel<StepsMeta> steps_kernel{
    .name = "steps", .description = "y = floor(1234567 x)", .build = steps, .launch = step_blocks};
const Kernel<SumsMeta> sums_kernel{
    .name = "sums", .description = "y = sum(x, 1)", .build = sums, .launch = sum_rows};
const Kernel<LazyMeta> lazy_kernel{.name = "lazy",
                                   .description = "y = scale x, in its time",
                                   .build = lazy,
                                   .launch = lazy_blocks};
LIGERDSL_REGISTER_KERNEL(faulty_kernel);
LIGERDSL_REGISTER_KERNEL(steps_kernel);
LIGERDSL_REGISTER_KERNEL(plain_kernel);
LIGERDSL_REGISTER_KERNEL(sums_kernel);
LIGERDSL_REGISTER_KERNEL(lazy_kernel);

}  // namespace

LIGERDSL_EXPORT_KERNELS();
