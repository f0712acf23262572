// The course of a run: train, save, report.
#pragma once

#include "model.h"
#include "options.h"
#include "text.h"

namespace train {

// Both return the exit status.
int run_training(const Settings& settings, Model& model, Ops& ops, const Matmul& matmul, const Text& text);
// One step against float64.
int run_check(const Settings& settings, Model& model, Ops& ops, const Batch& batch);

}  // namespace train
