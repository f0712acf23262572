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
  std::string preset;  // a name of presets.h; its steps are timed
  MemoryPlan memory;
  bool update = true;  // weights are updated in timed steps
  bool check = false, table = true, draw = true;
  std::vector<std::string> arguments;  // as given; the program's name comes first

  AttentionKind chosen_attention() const { return attention.value_or(default_attention(model)); }
};

void add_options(CLI::App& app, Settings& settings);

// Returns the given command for a shell, with some options replaced; "" removes an option.
std::string command_with(const std::vector<std::string>& arguments,
                         const std::vector<std::pair<std::string, std::string>>& options);

// Throws with option, path and reason if a result could not be written at the end, or if writing
// would destroy a file that is not an earlier result. Prints a note if an earlier run's checkpoint
// will be replaced.
void check_outputs(const Settings& settings);

}  // namespace train
