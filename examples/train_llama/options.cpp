#include "options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <limits>
#include <map>

#include "checkpoint.h"
#include "files.h"
#include "presets.h"

namespace train {
namespace fs = std::filesystem;
namespace {

// Returns a validator that accepts numbers from low to high and refuses NaN.
auto between(double low, double high) {
  return [low, high](const std::string& text) {
    double value = 0;
    if (CLI::detail::lexical_cast(text, value) && value >= low && value <= high)
      return std::string();
    return fmt::format("expected a number from {:.3g} to {:.3g}, got {}", low, high, text);
  };
}
constexpr double kTiny = std::numeric_limits<float>::min(),
                 kHuge = std::numeric_limits<float>::max();

std::string check_device(const std::string& d) {
  bool cuda = d.starts_with("cuda:") && d.size() > 5 && d.size() < 9 &&
              d.find_first_not_of("0123456789", 5) == d.npos;
  return d == "cpu" || cuda ? std::string() : "expected cpu or cuda:N, got " + d;
}

// Refuses an empty path, which an unset shell variable would give.
std::string check_named(const std::string& path) {
  return path.empty() ? "expected the name of a file or folder, got ''" : std::string();
}

// Quotes a word for a POSIX shell.
std::string quoted(const std::string& word) {
  const char* plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
  if (!word.empty() && word.find_first_not_of(plain) == word.npos) return word;
  std::string out = "'";
  for (char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

bool is_same_file(const fs::path& a, const fs::path& b) {
  std::error_code error;
  if (fs::equivalent(a, b, error)) return true;
  auto resolved = [&](const fs::path& path) {
    return fs::weakly_canonical(fs::absolute(path, error), error);
  };
  return resolved(a) == resolved(b);
}

// Throws if --checkpoint names an existing file that is neither empty nor a checkpoint.
void check_replaced(const fs::path& checkpoint, const fs::path& resume) {
  std::error_code error;
  if (!fs::is_regular_file(checkpoint, error) || fs::file_size(checkpoint, error) == 0) return;
  Summary old;
  try {
    old = read_summary(checkpoint);
  } catch (const std::exception& e) {
    throw std::runtime_error(
        fmt::format("--checkpoint would replace {}: name another file, or remove it ({})",
                    checkpoint.string(), e.what()));
  }
  if (!resume.empty() && is_same_file(checkpoint, resume)) return;
  fmt::print(stderr,
             "note: {0} holds step {1} of another run and will be replaced; to continue that run "
             "instead, pass --resume {0}\n",
             checkpoint.string(), old.step);
}

}  // namespace

namespace {

// Call this before the options that a preset sets are defined. CLI11 assigns values in the order of
// definition, so explicit options then override the preset.
void add_preset(CLI::App& app, Settings& s) {
  std::vector<std::string> names;
  for (const Preset& preset : presets()) names.emplace_back(preset.name);
  auto take = [&s](const std::string& name) {
    for (const Preset& preset : presets()) {
      if (preset.name != name) continue;
      s.preset = name;
      s.model = preset.model;
      s.train = preset.train;
      s.memory = preset.memory;
      s.draw = false;
    }
  };
  app.add_option_function<std::string>(
         "--preset", take, "time training steps of this shape on random tokens; saves nothing")
      ->check(CLI::IsMember(names));
  app.add_flag("!--no-update", s.update,
               "with --preset: time only forward and backward, without AdamW");
}

// Makes --preset incompatible with the options of real training.
void exclude_preset(CLI::App& app) {
  for (const char* name :
       {"--text", "--source-dir", "--checkpoint", "--resume", "--stop-after", "--eval-every",
        "--eval-batches", "--loss-svg", "--sample", "--prompt", "--temperature"}) {
    app.get_option(name)->excludes(app.get_option("--preset"));
  }
}

}  // namespace

void add_options(CLI::App& app, Settings& s) {
  auto number = [&](const char* name, auto& value, const char* help) {
    return app.add_option(name, value, help)->capture_default_str();
  };
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.option_defaults()->group("Preset");
  add_preset(app, s);
  app.option_defaults()->group("Model");
  number("--layers", s.model.layers, "number of transformer layers")->check(CLI::Range(1, 1000));
  number("--heads", s.model.heads, "number of query heads per layer")->check(CLI::Range(1, 1000));
  number("--kv-heads", s.model.kv_heads, "number of key and value heads; must divide --heads")
      ->check(CLI::Range(1, 1000));
  number("--width", s.model.width, "width of the residual stream")->check(CLI::Range(2, 65536));
  number("--ffn", s.model.ffn, "width of the feed-forward")->check(CLI::Range(1, 1 << 20));
  number("--context,--tokens", s.model.context,
         "number of tokens per sequence; without --preset, a token is a byte")
      ->check(CLI::Range(2, 1 << 20));
  app.option_defaults()->group("Training");
  app.add_option("--text", s.text,
                 "plain text files, one token per byte (default: the sources and documents under "
                 "--source-dir)")
      ->check(CLI::ExistingFile)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--source-dir", s.source_dir, "folder whose sources are the default text")
      ->check(check_named);
  number("--batch", s.train.batch, "number of sequences per step")->check(CLI::Range(1, 1 << 20));
  number("--steps", s.train.steps, "number of steps of the learning-rate schedule")
      ->check(CLI::Range(1, 1 << 30));
  number("--warmup", s.train.warmup, "number of steps of linear warm-up")
      ->check(CLI::NonNegativeNumber);
  number("--lr", s.train.lr, "highest learning rate")->check(between(kTiny, kHuge));
  number("--final-lr", s.train.final_lr, "last learning rate as a fraction of the highest")
      ->check(between(0, 1));
  number("--weight-decay", s.train.weight_decay, "weight decay of matrices")
      ->check(between(0, kHuge));
  number("--clip", s.train.clip, "largest global gradient norm")->check(between(kTiny, kHuge));
  number("--seed", s.train.seed, "seed of weights, batches and the sample");
  app.option_defaults()->group("Run");
  number("--device", s.device, "cpu or cuda:N")->check(check_device);
  number("--threads", s.threads, "number of CPU threads; 0: one per core")
      ->check(CLI::Range(0, 1024));
  app.add_option(
         "--products", s.products,
         "implementation of the layers' matmuls: library (cuBLAS, CBLAS) or kernels (libligerdsl)")
      ->transform(CLI::CheckedTransformer(std::map<std::string, Products>{
          {"library", Products::library}, {"kernels", Products::kernels}}))
      ->default_str("library");
  app.add_option("--attention", s.attention,
                 "fused (libligerdsl's kernel without scores in memory; heads of up to 256 "
                 "columns) or products (matmul for "
                 "scores, softmax, matmul with the values)")
      ->transform(CLI::CheckedTransformer(std::map<std::string, AttentionKind>{
          {"fused", AttentionKind::fused}, {"products", AttentionKind::products}}))
      ->default_str("fused where possible");
  app.add_option("--checkpoint", s.checkpoint,
                 "file to save the run in: at every evaluation, at the end, and when a signal "
                 "stops the run")
      ->check(check_named);
  app.add_option("--resume", s.resume, "checkpoint to continue from")->check(CLI::ExistingFile);
  number("--stop-after", s.stop_after,
         "stop (and save) after this number of steps in total; 0: after --steps")
      ->check(CLI::NonNegativeNumber);
  number("--eval-every", s.eval_every, "number of steps between evaluations; 0: a tenth of --steps")
      ->check(CLI::NonNegativeNumber);
  number("--eval-batches", s.eval_batches, "number of batches of held-out text per evaluation")
      ->check(CLI::Range(1, 1 << 20));
  app.add_flag("--check", s.check, "compare one step's gradients with float64 and stop");
  app.option_defaults()->group("Report");
  number("--loss-svg", s.loss_svg, "SVG of the loss curve")->check(check_named);
  app.add_flag("!--no-loss-svg", s.draw, "draw no loss curve");
  app.add_option("--json", s.json, "JSON file for all results")->check(check_named);
  number("--sample", s.sample_length, "number of bytes of text to generate at the end")
      ->check(CLI::NonNegativeNumber);
  number("--prompt", s.prompt, "text that the generated sample continues");
  number("--temperature", s.temperature, "sampling temperature of the generated text")
      ->check(between(kTiny, kHuge));
  app.add_flag("!--no-table", s.table,
               "skip the comparison of every operation with float64 at the end");
  exclude_preset(app);
  app.footer(
      "Exit status: 0 done, 1 failed (a check, a file, a loss that is not finite), 2 wrong "
      "arguments,\n"
      "129, 130, 143 stopped by SIGHUP, SIGINT (Ctrl-C), SIGTERM after the current step; a second "
      "signal ends at "
      "once.");
}

std::string command_with(const std::vector<std::string>& arguments,
                         const std::vector<std::pair<std::string, std::string>>& options) {
  std::string command = quoted(arguments.at(0));
  for (size_t i = 1; i < arguments.size(); ++i) {
    const std::string name = arguments[i].substr(0, arguments[i].find('='));
    auto replaced = [&](const auto& option) { return option.first == name; };
    if (std::none_of(options.begin(), options.end(), replaced)) {
      command += " " + quoted(arguments[i]);
    } else if (name == arguments[i]) {
      ++i;  // skips the option's value, the next word
    }
  }
  for (const auto& [name, value] : options) {
    if (!value.empty()) command += " " + name + " " + quoted(value);
  }
  return command;
}

void check_outputs(const Settings& s) {
  struct Output {
    const char* option;
    fs::path path;
  };
  std::vector<Output> outputs;
  if (!s.json.empty()) outputs.push_back({"--json", s.json});
  if (!s.check && s.draw) outputs.push_back({"--loss-svg", s.loss_svg});
  if (!s.check && !s.checkpoint.empty()) outputs.push_back({"--checkpoint", s.checkpoint});

  // Checks that outputs differ from each other and from all inputs, before any output is written.
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto& [option, path] = outputs[i];
    const fs::path temporary = temporary_of(path);
    const auto check_temporary = [&](const char* input, const fs::path& file) {
      if (is_same_file(temporary, file))
        throw std::runtime_error(
            fmt::format("{} {} is first written to {}, which is the file of {}; name another file",
                        option, path.string(), temporary.string(), input));
    };
    for (const fs::path& text : s.text) {
      if (is_same_file(path, text))
        throw std::runtime_error(
            fmt::format("{} {} would overwrite the training text {}; name another file", option,
                        path.string(), text.string()));
      check_temporary("--text", text);
    }
    if (!s.resume.empty()) check_temporary("--resume", s.resume);
    for (size_t j = 0; j < outputs.size(); ++j) {
      std::error_code error;
      if (i == j || fs::is_other(path, error)) continue;  // two outputs may be /dev/null
      if (!is_same_file(path, outputs[j].path) && !is_same_file(temporary, outputs[j].path))
        continue;
      throw std::runtime_error(
          fmt::format("{} and {} name the same file, {}", outputs[std::min(i, j)].option,
                      outputs[std::max(i, j)].option, outputs[j].path.string()));
    }
  }
  for (const auto& [option, path] : outputs) {
    try {
      require_writable(path);
    } catch (const std::exception& e) {
      const char* advice =
          std::string(option) == "--loss-svg" ? "; pass --no-loss-svg to draw no loss curve" : "";
      throw std::runtime_error(fmt::format("{}: {}{}", option, e.what(), advice));
    }
  }
  if (!s.check && !s.checkpoint.empty()) {
    std::error_code error;
    if (fs::is_other(s.checkpoint, error)) {
      throw std::runtime_error("--checkpoint " + s.checkpoint.string() + " is not a regular file");
    }
    check_replaced(s.checkpoint, s.resume);
  }
  if (!s.resume.empty()) {
    for (const Output& output : outputs) {
      if (std::string(output.option) == "--checkpoint" || !is_same_file(output.path, s.resume))
        continue;
      throw std::runtime_error(
          fmt::format("{} {} would overwrite the checkpoint {}; name another file", output.option,
                      output.path.string(), s.resume.string()));
    }
  }
}

}  // namespace train
