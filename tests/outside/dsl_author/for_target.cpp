// Runs a kernel whose schedule depends on the device. The launcher and the interpreter must record
// it for the same device.
#include <cmath>
#include <cstdio>
#include <ligerdsl/launch.hpp>
#include <vector>

#include "row_mean.h"

using namespace ligerdsl;

namespace {

constexpr int64_t kRows = 5, kColumns = 1000;

struct Result {
  std::vector<float> mean = std::vector<float>(kRows, -1.0f);
  int32_t block = -1;

  bool is(const char* how, int64_t expected_block) const {
    for (int64_t i = 0; i < kRows; ++i) {
      if (std::fabs(mean[i] - (static_cast<float>(i) + 0.5f)) < 1e-4f) continue;
      std::printf("for_target, %s: mean[%d] is %g\n", how, static_cast<int>(i), mean[i]);
      return false;
    }
    if (block == expected_block) return true;
    std::printf("for_target, %s: expected blocks of %d, got %d\n", how,
                static_cast<int>(expected_block), block);
    return false;
  }
};

}  // namespace

int main() {
  const Context context = Context::cpu();
  std::vector<float> x(kRows * kColumns);
  for (int64_t i = 0; i < kRows * kColumns; ++i)
    x[i] = static_cast<float>(i / kColumns) + static_cast<float>(i % 2);
  const Tensor tx(x.data(), context.device(), LIGERDSL_F32, {kRows, kColumns});
  const auto result_of = [&](const auto& call) {
    Result result;
    const Tensor mean(result.mean.data(), context.device(), LIGERDSL_F32, {kRows});
    const Tensor block(&result.block, context.device(), LIGERDSL_I32, {1});
    call(std::vector<NamedArg>{{"mean", mean}, {"x", tx}, {"block", block}});
    return result;
  };
  const int64_t on_cpu = 4 * context.target().vector_bytes;
  KernelLauncher launcher(context, row_mean_kernel);
  const Result launched = result_of([&](const auto& args) { launcher({}, args); });
  const Result interpreted =
      result_of([&](const auto& args) { interpret(row_mean_kernel, {}, args); });
  const Result of_gpu = result_of(
      [&](const auto& args) { interpret(row_mean_kernel, {}, args, {}, target_named("sm_90a")); });
  const bool right = launched.is("launched", on_cpu) && interpreted.is("interpreted", on_cpu) &&
                     of_gpu.is("interpreted for sm_90a", 2048);
  return right ? 0 : 1;
}
