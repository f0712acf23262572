// Generates text with the model.
#pragma once

#include <string>

#include "model.h"

namespace train {

// Returns `count` bytes after the prompt, drawn from softmax(logits / temperature); depends only on
// the seed.
std::string generate(Model& model, const std::string& prompt, int64_t count, double temperature,
                     uint64_t seed);

}  // namespace train
