// Text that the model writes.
#pragma once

#include <string>

#include "model.h"

namespace train {

// `count` bytes after the prompt, drawn from softmax(logits / temperature); a function of the seed.
std::string generate(Model& model, const std::string& prompt, int64_t count, double temperature, uint64_t seed);

}  // namespace train
