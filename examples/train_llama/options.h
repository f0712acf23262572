// The command line.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "attention.h"
#include "config.h"
#include "matmul.h"

namespace CLI {
class App;
}

namespace train {

struct Settings {
  ModelConfig model;
  TrainConfig train;
  std::string device = "cpu";
  int threads = 0;
  Products products = Products::library;
  std::optional<AttentionKind> attention;  // default: default_attention
  std::vector<std::filesystem::path> text;
  std::filesystem::path source_dir = TRAIN_LLAMA_SOURCE_DIR;
  std::filesystem::path checkpoint, resume, json, loss_svg = "loss.svg";
  int64_t stop_after = 0, eval_every = 0, eval_batches = 8, sample_length = 400;
  std::string prompt = "// The ";
  double temperature = 0.7;
  std::string preset;  // name of a preset whose training steps are timed; empty for real training
  MemoryPlan memory;
  bool update = true;  // timed steps include AdamW
  bool check = false, table = true, draw = true;
  std::vector<std::string> arguments;  // the command line, including the program's name

  AttentionKind chosen_attention() const { return attention.value_or(default_attention(model)); }
};

void add_options(CLI::App& app, Settings& settings);

// Returns the command line, quoted for a shell, with some options replaced. The value "" removes an
// option.
std::string command_with(const std::vector<std::string>& arguments,
                         const std::vector<std::pair<std::string, std::string>>& options);

// Throws with option, path and reason if a result could not be written at the end, or if writing
// would destroy a file that is not an earlier result. Prints a note if an earlier run's checkpoint
// will be replaced.
void check_outputs(const Settings& settings);

}  // namespace train
