#include "run.h"

#include <cmath>

#include "check.h"
#include "report.h"
#include "results.h"
#include "sample.h"
#include "saver.h"
#include "signals.h"
#include "trainer.h"

namespace train {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

json to_json(const std::vector<Point>& list) {
  json out = json::array();
  for (const Point& p : list) out.push_back({p.step, p.bits});
  return out;
}

// Replaces control characters, which would move the terminal's cursor.
std::string printable(std::string text) {
  for (char& c : text) {
    if (c != '\n' && (c < ' ' || c > '~')) c = '?';
  }
  return text;
}

class Run {
 public:
  Run(const Settings& s, Model& model, Ops& ops, const Matmul& matmul, const Text& text)
      : s_(s),
        model_(model),
        ops_(ops),
        matmul_(matmul),
        text_(text),
        trainer_(model, ops, s.train, text) {
    if (!s.resume.empty()) resume();
    first_ = trainer_.done();
    last_ = s.stop_after ? std::min(s.stop_after, s.train.steps) : s.train.steps;
    saver_.emplace(s.checkpoint, s.resume, first_);
    progress_.emplace(first_, s.train.steps, s.train.batch * s.model.context);
  }

  int run() {
    say("model: {} parameters, {} layers, width {}, {} heads, {} kv heads, ffn {}, context {}, "
        "attention {}, on {} in "
        "{}\n",
        model_.layout().total, s_.model.layers, s_.model.width, s_.model.heads, s_.model.kv_heads,
        s_.model.ffn, s_.model.context, name_of(s_.chosen_attention()), s_.device,
        ops_.on_gpu() ? "bf16 with f32 masters" : "f32");
    const auto started = Clock::now();
    trainer_.warm_up();
    say("kernels ready after {:.1f} s\n", seconds_since(started));
    std::fflush(stdout);

    try {
      steps();
      if (stop_signal()) return stopped();
      return report();
    } catch (const Diverged& e) {
      return diverged(e);
    }
  }

 private:
  void resume() {
    const Checkpoint checkpoint = load_checkpoint(s_.resume, s_.model);
    trainer_.resume(checkpoint);
    const std::string other = differences(checkpoint, s_.train, text_.digest());
    if (!other.empty()) {
      fmt::print(
          stderr,
          "note: this run continues with {}, so its results differ from an uninterrupted run's\n",
          other);
    }
  }

  // Trains until the end, --stop-after or a signal.
  void steps() {
    if (trainer_.done() >= last_) {
      say("nothing to train: {} of {} steps are done\n", trainer_.done(), last_);
    }
    const int64_t every = s_.eval_every ? s_.eval_every : std::max<int64_t>(s_.train.steps / 10, 1);
    progress_->resume();
    while (trainer_.done() < last_ && !stop_signal()) {
      trainer_.step();
      const int64_t done = trainer_.done();
      progress_->bar(done, trainer_.latest_bits());
      if ((done % every && done != last_) || stop_signal()) continue;
      progress_->pause();
      ops_.check();
      const double held_out = trainer_.evaluate(s_.eval_batches);
      progress_->line(done, trainer_.latest_bits(), held_out);
      save();
      progress_->resume();
    }
    progress_->pause();
    progress_->clear();
  }

  // A state from which the next step would fail must not replace a good checkpoint.
  void save() {
    if (!saver_->wanted()) return;
    trainer_.verify();
    saver_->save(trainer_.checkpoint());
  }

  // Saves and reports after a stop signal; returns the exit status.
  int stopped() {
    const int64_t done = trainer_.done();
    const bool saved = saver_->good() == s_.checkpoint && saver_->good_step() == done;
    if (done > first_ && !saved) save();
    std::string text =
        fmt::format("\nstopped by {} after step {} of {}\n", stop_signal_name(), done, last_);
    if (!saver_->failure().empty())
      text += "this state could not be saved: " + saver_->failure() + "\n";
    if (!saver_->wanted() && done > first_) {
      text += fmt::format(
          "the {} steps of this run were not saved: pass --checkpoint FILE to save the run at "
          "every evaluation and when a signal stops it\n",
          done - first_);
    }
    if (!saver_->good().empty()) {
      text += fmt::format("step {} is saved in {}; to continue from it:\n  {}\n",
                          saver_->good_step(), saver_->good().string(), resume_command({}));
    } else if (done == first_) {
      text += "no step was done, nothing was saved\n";
    }
    say("{}", text);
    return 128 + stop_signal();
  }

  int diverged(const Diverged& e) {
    progress_->clear();
    std::fflush(stdout);
    const std::string lower = fmt::format("{:.3g}", s_.train.lr / 3);
    std::string text = fmt::format("train_llama: {}. Nothing was saved.\n", e.what());
    if (!saver_->good().empty()) {
      text += fmt::format(
          "The last good state, step {}, is in {}. Continue from it with a lower learning rate:\n  "
          "{}\n",
          saver_->good_step(), saver_->good().string(), resume_command({{"--lr", lower}}));
    } else {
      text += fmt::format(
          "No earlier state of this run was saved{}{}. Start again with a lower learning rate, "
          "such as --lr {}.\n",
          saver_->wanted() ? "" : "; pass --checkpoint FILE to save it at every evaluation",
          untouched(), lower);
    }
    fmt::print(stderr, "{}", text);
    return 1;
  }

  // Returns a note about the checkpoint that --checkpoint names, if it exists.
  std::string untouched() const {
    std::error_code none;
    if (!saver_->wanted() || !(std::filesystem::file_size(s_.checkpoint, none) > 0) || none)
      return "";
    return fmt::format("; {} still holds step {} of another run", s_.checkpoint.string(),
                       read_summary(s_.checkpoint).step);
  }

  std::string resume_command(std::vector<std::pair<std::string, std::string>> options) const {
    options.insert(options.begin(), {"--resume", saver_->good().string()});
    return command_with(s_.arguments, options);
  }

  // Prints, draws and writes the results at the end of the training.
  int report() {
    const double held_out = trainer_.held_out_bits(4 * s_.eval_batches);
    json results = summary(held_out);
    bool passed = print_curve(results["byte_frequency_bits"]);
    results["saved"] = print_saved();
    passed = results["saved"] && passed;
    if (s_.sample_length && !stop_signal()) {
      std::string sample =
          printable(generate(model_, s_.prompt, s_.sample_length, s_.temperature, s_.train.seed));
      say("\n--- sample ---\n{}{}\n--------------\n", s_.prompt, sample);
      results["sample"] = s_.prompt + sample;
    }
    if (s_.table && !stop_signal()) {
      say("\nevery operation of the model, compared with float64 at the model's sizes\n");
      std::vector<Comparison> kernels = compare_kernels(s_.model, s_.train.batch, ops_);
      passed = print_comparisons(kernels) && passed;
      results["kernels"] = to_json(kernels);
    }
    if (stop_signal()) return stopped();
    results["passed"] = passed;
    write_json(s_, results);
    return passed ? 0 : 1;
  }

  json summary(double held_out) const {
    const double speed = progress_->tokens_per_second(trainer_.done()),
                 baseline = byte_frequency_bits(text_);
    const int64_t resident = peak_resident_bytes(), allocated = ops_.allocated_bytes();
    const int64_t device_used =
        matmul_.device_bytes_used();  // also the peak: no memory is freed before the end
    say("\nheld-out loss {:.3f} bits per byte (byte frequencies alone: {:.3f})\n", held_out,
        baseline);
    say("{:.0f} tokens/s, {:.1f} s of training, peak host memory {:.0f} MiB, {:.0f} MiB of "
        "tensors on {}{}\n",
        speed, progress_->seconds(), resident / 1048576.0, allocated / 1048576.0, s_.device,
        device_used ? fmt::format(", {:.0f} MiB of it in use", device_used / 1048576.0) : "");
    const History& history = trainer_.history();
    return {{"held_out_bits", held_out},
            {"byte_frequency_bits", baseline},
            {"tokens_per_second", speed},
            {"seconds", progress_->seconds()},
            {"peak_resident_bytes", resident},
            {"tensor_bytes", allocated},
            {"device_bytes_used", device_used},
            {"first_step", first_ + 1},
            {"steps", trainer_.done()},
            {"device", s_.device},
            {"attention", name_of(s_.chosen_attention())},
            {"training", to_json(history.training())},
            {"held_out", to_json(history.held_out)}};
  }

  bool print_curve(double baseline) const {
    if (!s_.draw) return true;
    const History& history = trainer_.history();
    const Plot plot = plot_losses(s_.loss_svg, history.training(), history.held_out, baseline);
    if (plot == Plot::drawn) say("loss curve: {}\n", s_.loss_svg.string());
    return plot != Plot::failed;
  }

  // Returns true if the last state is saved or no checkpoint is wanted.
  bool print_saved() const {
    if (!saver_->failure().empty()) {
      fmt::print(stderr, "train_llama: the last state, step {}, could not be saved: {}\n",
                 trainer_.done(), saver_->failure());
    }
    if (!saver_->good().empty())
      say("checkpoint: {}, step {}\n", saver_->good().string(), saver_->good_step());
    if (trainer_.done() < s_.train.steps && !saver_->good().empty()) {
      say("to continue from it:\n  {}\n", resume_command({{"--stop-after", ""}}));
    }
    return saver_->failure().empty();
  }

  const Settings& s_;
  Model& model_;
  Ops& ops_;
  const Matmul& matmul_;
  const Text& text_;
  Trainer trainer_;
  int64_t first_ = 0, last_ = 0;
  std::optional<Saver> saver_;
  std::optional<Progress> progress_;
};

}  // namespace

int run_training(const Settings& s, Model& model, Ops& ops, const Matmul& matmul,
                 const Text& text) {
  return Run(s, model, ops, matmul, text).run();
}

int run_check(const Settings& s, Model& model, Ops& ops, const Batch& batch) {
  say("one step of {} sequences, compared with float64\n", batch.tokens.size() / s.model.context);
  std::vector<Comparison> comparisons =
      compare_step(model, ops, batch.tokens, batch.labels, s.train.seed);
  bool passed = print_comparisons(comparisons);
  write_json(s, {{"check", to_json(comparisons)}, {"passed", passed}});
  return passed ? 0 : 1;
}

}  // namespace train
