// Times training steps of a preset on random tokens: tokens per second and memory.
#pragma once

#include "options.h"

namespace train {

// Times the steps, or with --check compares one step with float64. Returns the exit status.
int run_preset(const Settings& settings);

}  // namespace train
