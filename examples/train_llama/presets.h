// Named model shapes for --preset, which times training steps.
#pragma once

#include <span>
#include <string_view>

#include "config.h"

namespace train {

struct Preset {
  std::string_view name;
  ModelConfig model;
  TrainConfig train;
  MemoryPlan memory;
};

std::span<const Preset> presets();

}  // namespace train
