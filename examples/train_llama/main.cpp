// train_llama: trains a small Llama-style language model on bytes of text.
//
//   train_llama                               the defaults: this repository's own sources, on all CPU cores
//   train_llama --text book.txt --steps 5000
//   train_llama --device cuda:0 --layers 8 --width 512 --ffn 1536 --heads 8 --kv-heads 4 --context 512
//   train_llama --check                       one step against float64, nothing is trained
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <csignal>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "check.h"
#include "report.h"
#include "sample.h"
#include "trainer.h"

namespace train {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Settings {
  ModelConfig model;
  TrainConfig train;
  std::string device = "cpu";
  int threads = 0;
  std::vector<fs::path> text;
  fs::path source_dir = TRAIN_LLAMA_SOURCE_DIR;
  fs::path checkpoint, resume, json, loss_svg = "loss.svg";
  int64_t stop_after = 0, eval_every = 0, eval_batches = 8, sample_length = 400;
  std::string prompt = "// The ";
  double temperature = 0.7;
  bool check = false, table = true, draw = true;
};

volatile std::sig_atomic_t interrupted = 0;

void add_options(CLI::App& app, Settings& s) {
  auto number = [&](const char* name, auto& value, const char* help) {
    return app.add_option(name, value, help)->capture_default_str();
  };
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.option_defaults()->group("Model");
  number("--layers", s.model.layers, "transformer layers")->check(CLI::Range(1, 1000));
  number("--heads", s.model.heads, "query heads")->check(CLI::Range(1, 1000));
  number("--kv-heads", s.model.kv_heads, "key and value heads; divides the query heads")->check(CLI::Range(1, 1000));
  number("--width", s.model.width, "width of the residual stream")->check(CLI::Range(2, 65536));
  number("--ffn", s.model.ffn, "width of the feed-forward")->check(CLI::Range(1, 1 << 20));
  number("--context", s.model.context, "bytes per sequence")->check(CLI::Range(2, 1 << 20));
  app.option_defaults()->group("Training");
  app.add_option("--text", s.text, "text files (default: the sources and documents under --source-dir)")
      ->check(CLI::ExistingFile)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--source-dir", s.source_dir, "folder whose sources are the default text");
  number("--batch", s.train.batch, "sequences per step")->check(CLI::Range(1, 1 << 20));
  number("--steps", s.train.steps, "steps of the learning-rate schedule")->check(CLI::Range(1, 1 << 30));
  number("--warmup", s.train.warmup, "steps of linear warm-up")->check(CLI::NonNegativeNumber);
  number("--lr", s.train.lr, "highest learning rate")->check(CLI::PositiveNumber);
  number("--final-lr", s.train.final_lr, "last learning rate as a fraction of the highest")
      ->check(CLI::Range(0.0, 1.0));
  number("--weight-decay", s.train.weight_decay, "of matrices")->check(CLI::NonNegativeNumber);
  number("--clip", s.train.clip, "largest global gradient norm")->check(CLI::PositiveNumber);
  number("--seed", s.train.seed, "of weights, batches and the sample");
  app.option_defaults()->group("Run");
  number("--device", s.device, "cpu or cuda:N")->check([](const std::string& d) {
    bool cuda =
        d.starts_with("cuda:") && d.size() > 5 && d.size() < 9 && d.find_first_not_of("0123456789", 5) == d.npos;
    return d == "cpu" || cuda ? std::string() : "expected cpu or cuda:N, got " + d;
  });
  number("--threads", s.threads, "CPU threads; 0 = all cores")->check(CLI::NonNegativeNumber);
  app.add_option("--checkpoint", s.checkpoint, "file to save the run in, at every evaluation and at the end");
  app.add_option("--resume", s.resume, "checkpoint to go on from")->check(CLI::ExistingFile);
  number("--stop-after", s.stop_after, "stop (and save) after so many steps in all; 0 = --steps")
      ->check(CLI::NonNegativeNumber);
  number("--eval-every", s.eval_every, "steps between evaluations; 0 = ten in a run")->check(CLI::NonNegativeNumber);
  number("--eval-batches", s.eval_batches, "batches of held-out text per evaluation")->check(CLI::Range(1, 1 << 20));
  app.add_flag("--check", s.check, "compare one step's gradients with float64 and stop");
  app.option_defaults()->group("Report");
  number("--loss-svg", s.loss_svg, "SVG of the loss curve");
  app.add_flag("!--no-loss-svg", s.draw, "draw no loss curve");
  app.add_option("--json", s.json, "file for all results");
  number("--sample", s.sample_length, "bytes of generated text at the end")->check(CLI::NonNegativeNumber);
  number("--prompt", s.prompt, "what the sample continues");
  number("--temperature", s.temperature, "of the sample")->check(CLI::PositiveNumber);
  app.add_flag("!--no-table", s.table, "leave out the table of kernel errors");
}

nlohmann::json to_json(const std::vector<Comparison>& comparisons) {
  nlohmann::json out = nlohmann::json::array();
  for (const Comparison& c : comparisons) {
    out.push_back({{"name", c.name},
                   {"output", c.output},
                   {"shape", c.shape},
                   {"error", c.error},
                   {"gate", c.gate},
                   {"of_gate", c.of_gate},
                   {"passed", c.passed()}});
  }
  return out;
}

void write_json(const fs::path& path, nlohmann::json results) {
  if (path.empty()) return;
  results["build"] = library_build();
  std::ofstream out(path);
  out << results.dump(1) << "\n";
  if (!out.flush()) throw std::runtime_error("cannot write " + path.string());
}

int run_check(const Settings& s, Model& model, Ops& ops, const Text& text) {
  int64_t sequences = std::min<int64_t>(s.train.batch, 2);
  fmt::print("one step of {} sequences against float64\n", sequences);
  Batch batch = training_batch(text, sequences, s.model.context, s.train.seed, 0);
  std::vector<Comparison> comparisons = compare_step(model, ops, batch.tokens, batch.labels, s.train.seed);
  bool passed = print_comparisons(comparisons);
  write_json(s.json, {{"check", to_json(comparisons)}, {"passed", passed}});
  return passed ? 0 : 1;
}

struct Curve {
  std::vector<Point> training, held_out;
};

// Steps until the end, --stop-after or Ctrl-C.
Curve run_training(const Settings& s, Trainer& trainer, Ops& ops, Progress& progress) {
  Curve curve;
  const int64_t first = trainer.done(), last = s.stop_after ? std::min(s.stop_after, s.train.steps) : s.train.steps;
  const int64_t every = s.eval_every ? s.eval_every : std::max<int64_t>(s.train.steps / 10, 1);
  while (trainer.done() < last && !interrupted) {
    trainer.step();
    int64_t done = trainer.done();
    if (progress.live() && done % 4 == 0) progress.bar(done, trainer.training_bits(done - 1));
    if (done % every && done != last && !interrupted) continue;
    double bits = trainer.training_bits(done - 1);
    progress.pause();
    ops.check();
    curve.held_out.push_back({done, trainer.held_out_bits(s.eval_batches)});
    progress.line(done, bits, curve.held_out.back().bits);
    if (!s.checkpoint.empty()) save_checkpoint(s.checkpoint, trainer.checkpoint());
    progress.resume();
  }
  progress.pause();
  for (int64_t step = first; step < trainer.done(); ++step)
    curve.training.push_back({step + 1, trainer.training_bits(step)});
  return curve;
}

// Control characters would move the terminal's cursor.
std::string printable(std::string text) {
  for (char& c : text) {
    if (c != '\n' && (c < ' ' || c > '~')) c = '?';
  }
  return text;
}

nlohmann::json points(const std::vector<Point>& list) {
  nlohmann::json out = nlohmann::json::array();
  for (const Point& p : list) out.push_back({p.step, p.bits});
  return out;
}

// Losses, speed and memory: printed, drawn, and returned for --json.
nlohmann::json summarize(const Settings& s, const Ops& ops, const Matmul& matmul, const Trainer& trainer,
                         const Progress& progress, const Curve& curve, double held_out, double baseline) {
  const double speed = progress.tokens_per_second(trainer.done());
  const int64_t resident = peak_resident_bytes(), allocated = ops.allocated_bytes();
  const int64_t device_used = matmul.device_bytes_used();  // nothing is given back before the end: this is the peak
  fmt::print("\nheld-out loss {:.3f} bits per byte (byte frequencies alone: {:.3f})\n", held_out, baseline);
  fmt::print("{:.0f} tokens/s, {:.1f} s of training, peak memory {:.0f} MiB resident, {:.0f} MiB of tensors on {}{}\n",
             speed, progress.seconds(), resident / 1048576.0, allocated / 1048576.0, s.device,
             device_used ? fmt::format(", {:.0f} MiB of it in use", device_used / 1048576.0) : "");
  if (s.draw && plot_losses(s.loss_svg, curve.training, curve.held_out, baseline)) {
    fmt::print("loss curve: {}\n", s.loss_svg.string());
  }
  return {{"held_out_bits", held_out},          {"byte_frequency_bits", baseline},   {"tokens_per_second", speed},
          {"seconds", progress.seconds()},      {"peak_resident_bytes", resident},   {"tensor_bytes", allocated},
          {"device_bytes_used", device_used},   {"steps", trainer.done()},           {"device", s.device},
          {"training", points(curve.training)}, {"held_out", points(curve.held_out)}};
}

int run_all(const Settings& s, Model& model, Ops& ops, const Matmul& matmul, const Text& text) {
  Trainer trainer(model, ops, s.train, text);
  if (!s.resume.empty()) trainer.resume(load_checkpoint(s.resume, s.model));
  const int64_t first = trainer.done();
  fmt::print("model: {} parameters, {} layers, width {}, {} heads, {} kv heads, ffn {}, context {}, on {} in {}\n",
             model.layout().total, s.model.layers, s.model.width, s.model.heads, s.model.kv_heads, s.model.ffn,
             s.model.context, s.device, ops.on_gpu() ? "bf16 with f32 masters" : "f32");

  const auto started = Clock::now();
  trainer.warm_up();
  fmt::print("kernels ready after {:.1f} s\n", seconds_since(started));

  Progress progress(first, s.train.steps, s.train.batch * s.model.context);
  Curve curve = run_training(s, trainer, ops, progress);
  if (interrupted) return 130;
  if (curve.held_out.empty()) {
    fmt::print("nothing to do: {} of {} steps are done\n", first, s.train.steps);
    return 0;
  }
  const double held_out = trainer.held_out_bits(4 * s.eval_batches);
  nlohmann::json results = summarize(s, ops, matmul, trainer, progress, curve, held_out, byte_frequency_bits(text));
  bool passed = std::isfinite(held_out);
  if (s.sample_length) {
    std::string sample = printable(generate(model, s.prompt, s.sample_length, s.temperature, s.train.seed));
    fmt::print("\n--- sample ---\n{}{}\n--------------\n", s.prompt, sample);
    results["sample"] = s.prompt + sample;
  }
  if (s.table) {
    fmt::print("\nkernels against float64, on the model's shapes\n");
    std::vector<Comparison> kernels = compare_kernels(s.model, s.train.batch, ops);
    passed = print_comparisons(kernels) && passed;
    results["kernels"] = to_json(kernels);
  }
  results["passed"] = passed;
  write_json(s.json, results);
  return passed ? 0 : 1;
}

int run(const Settings& s) {
  const auto started = Clock::now();
  Ops ops(s.device, s.threads);
  std::unique_ptr<Matmul> matmul =
      ops.on_gpu() ? make_cuda_matmul(ops.device_index(), ops.stream()) : make_cpu_matmul(s.threads);
  Text text = load_text(s.text.empty() ? find_sources(s.source_dir) : s.text, s.model.context);
  Model model(s.model, s.train.batch, ops, *matmul);
  fmt::print("text: {} files, {} bytes to train on, {} held out\n", text.files, text.training.size(),
             text.held_out.size());
  int status = s.check ? run_check(s, model, ops, text) : run_all(s, model, ops, *matmul, text);
  fmt::print("\n{:.1f} s in all\n", seconds_since(started));
  return status;
}

}  // namespace
}  // namespace train

int main(int argc, char** argv) {
  train::Settings settings;
  CLI::App app("Trains a small Llama-style language model on bytes of text, with libligerdsl's kernels.");
  train::add_options(app, settings);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  // Ctrl-C ends the step, saves the checkpoint and stops; a second one stops at once.
  std::signal(SIGINT, [](int) {
    train::interrupted = 1;
    std::signal(SIGINT, SIG_DFL);
  });
  try {
    return train::run(settings);
  } catch (const std::exception& e) {
    fmt::print(stderr, "train_llama: {}\n", e.what());
    return 1;
  }
}
