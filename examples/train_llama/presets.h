// Named shapes whose training steps are timed.
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
