// A run: train, save, report.
#pragma once

#include "model.h"
#include "options.h"
#include "text.h"

namespace train {

// run_training and run_check return the exit status.
int run_training(const Settings& settings, Model& model, Ops& ops, const Matmul& matmul,
                 const Text& text);
// Compares one step with float64.
int run_check(const Settings& settings, Model& model, Ops& ops, const Batch& batch);

}  // namespace train
