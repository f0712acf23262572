// Times training steps of a preset on random tokens: tokens per second and memory.
#pragma once

#include "options.h"

namespace train {

// Returns the exit status. With --check, compares one step with float64 instead.
int run_preset(const Settings& settings);

}  // namespace train
