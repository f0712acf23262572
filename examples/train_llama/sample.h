// Generates text with the model.
#pragma once

#include <string>

#include "model.h"

namespace train {

// Returns `count` bytes after the prompt, drawn from softmax(logits / temperature). `seed`
// determines every draw.
std::string generate(Model& model, const std::string& prompt, int64_t count, double temperature,
                     uint64_t seed);

}  // namespace train
