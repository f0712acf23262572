// train_llama: trains a small Llama-style language model on bytes of text.
//
//   train_llama                               the defaults: this repository, on all CPU cores
//   train_llama --text book.txt --steps 5000 --checkpoint run.ckpt
//   train_llama --text book.txt --steps 5000 --checkpoint run.ckpt --resume run.ckpt
//   train_llama --device cuda:0 --layers 8 --width 512 --heads 8 --kv-heads 4 --context 512
//   train_llama --preset llama-3.2-1b --device cuda:0 --batch 4 --tokens 1024
//   train_llama --check                       compares one step with float64, without training
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <new>

#include "measure.h"
#include "report.h"
#include "run.h"
#include "signals.h"

namespace train {
namespace {

Batch first_batch(const Settings& s, const Text& text) {
  return training_batch(text, std::min<int64_t>(s.train.batch, 2), s.model.context, s.train.seed,
                        0);
}

int run(const Settings& s) {
  using Clock = std::chrono::steady_clock;
  const auto started = Clock::now();
  check_outputs(s);
  if (!s.preset.empty()) return run_preset(s);
  Text text = load_text(s.text.empty() ? find_sources(s.source_dir) : s.text, s.model.context);
  Ops ops(s.device, s.threads);
  std::unique_ptr<Matmul> matmul = make_matmul(ops, s.products, s.threads);
  Model model(s.model, s.train.batch, ops, *matmul, s.chosen_attention());
  if (!s.check)
    catch_stop_signals();  // until here there is nothing to save, so a signal ends the process
  say("text: {} files, {} bytes to train on, {} held out\n", text.files, text.training.size(),
      text.held_out.size());
  std::fflush(stdout);
  int status = s.check ? run_check(s, model, ops, first_batch(s, text))
                       : run_training(s, model, ops, *matmul, text);
  say("\n{:.1f} s in all\n", std::chrono::duration<double>(Clock::now() - started).count());
  return status;
}

}  // namespace
}  // namespace train

int main(int argc, char** argv) {
  train::Settings settings;
  settings.arguments.assign(argv, argv + argc);
  CLI::App app(
      "Trains a small Llama-style language model on bytes of text, with libligerdsl's kernels.");
  train::add_options(app, settings);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    const int code = app.exit(e) == 0 ? 0 : 2;
    return code == 0 && !train::output_complete() ? 1 : code;
  }
  int status = 1;
  try {
    status = train::run(settings);
  } catch (const std::bad_alloc&) {
    std::fputs("train_llama: out of memory; lower --batch, --context, --width, --ffn or --layers\n",
               stderr);
  } catch (const std::exception& e) {
    fmt::print(stderr, "train_llama: {}\n", e.what());
  }
  if (!train::output_complete()) {
    std::fputs("train_llama: standard output could not be written\n", stderr);
    if (status == 0) status = 1;
  }
  return status;
}
