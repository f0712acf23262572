#include "measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

#include "optimiser.h"
#include "random.h"
#include "report.h"
#include "results.h"
#include "run.h"

namespace train {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr int64_t kUntimed = 2;        // first steps, which compile kernels and allocate workspaces
constexpr double kLargestCheck = 1e9;  // limit of parameters times tokens for a float64 step

// Draws random tokens; the label of a token is the token after it.
Batch random_batch(const ModelConfig& c, int64_t sequences, uint64_t seed) {
  Batch batch;
  for (int64_t i = 0; i < sequences * c.context; ++i) {
    batch.tokens.push_back(static_cast<int64_t>(random_bits(seed, i) % c.vocab));
    batch.labels.push_back(static_cast<int64_t>(random_bits(seed, i + 1) % c.vocab));
  }
  return batch;
}

int check(const Settings& s, Model& model, Ops& ops) {
  const int64_t sequences = std::min<int64_t>(s.train.batch, 2);
  if (static_cast<double>(model.layout().total) * sequences * s.model.context > kLargestCheck) {
    throw std::runtime_error(
        "--check computes in float64 on the CPU, and this model would take hours; use --preset "
        "tiny, which runs the same code");
  }
  return run_check(s, model, ops, random_batch(s.model, sequences, s.train.seed));
}

// Returns the duration of each step in seconds. A step ends when its loss is on the host.
std::vector<double> steps(const Settings& s, Model& model, Ops& ops, std::vector<float>& losses) {
  std::optional<Optimiser> optimiser;
  if (s.update) optimiser.emplace(model, ops, s.train);
  const Tensor loss = ops.allocate(Type::f32, {1}), norm = ops.allocate(Type::f32, {1});
  std::vector<double> seconds;
  for (int64_t step = 0; step < s.train.steps; ++step) {
    const Batch batch = random_batch(s.model, s.train.batch, s.train.seed + step);
    const auto started = Clock::now();
    model.gradient_step(batch.tokens, batch.labels, loss);
    if (optimiser) {
      optimiser->gradient_norm(norm);
      optimiser->update(step);
    }
    ops.download(&losses.emplace_back(), loss);
    seconds.push_back(std::chrono::duration<double>(Clock::now() - started).count());
    ops.check();
    say("step {:3}  loss {:.4f}  {:9.1f} ms\n", step + 1, losses.back(), 1e3 * seconds.back());
    std::fflush(stdout);
    if (!std::isfinite(losses.back()))
      throw std::runtime_error(fmt::format("step {}: the loss is {}{}", step + 1,
                                           std::isnan(losses.back()) ? "nan" : "infinite",
                                           s.update ? "; lower --lr" : ""));
  }
  return seconds;
}

int measure(const Settings& s, Model& model, Ops& ops, const Matmul& matmul) {
  model.set_weights(initial_weights(model.layout(), s.train.seed));
  std::vector<float> losses;
  const std::vector<double> seconds = steps(s, model, ops, losses);
  const int64_t untimed = std::min<int64_t>(kUntimed, static_cast<int64_t>(seconds.size()) - 1);
  std::vector<double> sorted(seconds.begin() + untimed, seconds.end());
  std::sort(sorted.begin(), sorted.end());
  const double middle = sorted[sorted.size() / 2],
               tokens = static_cast<double>(s.train.batch * s.model.context);
  const int64_t tensors = ops.allocated_bytes(),
                used = matmul.device_bytes_used();  // also the peak: no memory is freed
  say("\n{:.0f} tokens/s: {:.1f} ms a step, the median of {} ({:.1f} to {:.1f}), {}\n",
      tokens / middle, 1e3 * middle, sorted.size(), 1e3 * sorted.front(), 1e3 * sorted.back(),
      s.update ? "forward, backward and AdamW" : "forward and backward");
  say("memory: {:.2f} GB of tensors{}\n", static_cast<double>(tensors) / 1e9,
      used ? fmt::format(", {:.2f} GB in use on {}", static_cast<double>(used) / 1e9, s.device)
           : "");
  write_json(s, {{"preset", s.preset},
                 {"device", s.device},
                 {"batch", s.train.batch},
                 {"tokens", s.model.context},
                 {"attention", name_of(s.chosen_attention())},
                 {"step", s.update ? "adamw" : "forward_backward"},
                 {"parameters", model.layout().total},
                 {"losses", losses},
                 {"seconds", seconds},
                 {"untimed_steps", untimed},
                 {"tokens_per_s", tokens / middle},
                 {"tensor_bytes", tensors},
                 {"device_bytes_used", used}});
  return 0;
}

}  // namespace

int run_preset(const Settings& s) {
  Ops ops(s.device, s.threads);
  const std::unique_ptr<Matmul> matmul = make_matmul(ops, s.products, s.threads);
  Model model(s.model, s.train.batch, ops, *matmul, s.chosen_attention(), s.memory);
  say("{}: {} parameters, {} layers, width {}, vocabulary {}, {} sequences of {} tokens, attention "
      "{}, on {} in {}\n",
      s.preset, model.layout().total, s.model.layers, s.model.width, s.model.vocab, s.train.batch,
      s.model.context, name_of(s.chosen_attention()), s.device,
      ops.on_gpu() ? "bf16 with f32 masters" : "f32");
  std::fflush(stdout);
  return s.check ? check(s, model, ops) : measure(s, model, ops, *matmul);
}

}  // namespace train
