// Training steps of a preset on random tokens: how many tokens a second, in how much memory.
#pragma once

#include "options.h"

namespace train {

// Returns the exit status. With --check: one step against float64 instead.
int run_preset(const Settings& settings);

}  // namespace train
