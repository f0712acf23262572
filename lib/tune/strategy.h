// Search strategies: the order in which configurations are tried.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lib/tune/space.h"

namespace ligerdsl::tune {

// Proposes each configuration once, and never the heuristic's.
class Strategy {
 public:
  virtual ~Strategy() = default;
  // Returns at most `room` configurations to try. An empty list ends the search.
  virtual std::vector<Config> next(size_t room) = 0;
  // Reports a configuration's result: its time / the heuristic's, or infinity if it failed.
  virtual void learn(const Config& config, double ratio) = 0;
};

// Makes a strategy by its name:
// - exhaustive: all configurations, in order of their choices.
// - random: random changes of the heuristic's configuration.
// - guided: changes of the best configurations so far, in the order of their `predicted` time (any
//   unit). Every eighth proposal is random.
// The same seed and results give the same proposals. Throws Error for another name.
std::unique_ptr<Strategy> make_strategy(const std::string& name, const Space& space, uint64_t seed,
                                        std::function<double(const Config&)> predicted);
const std::vector<std::string>& strategy_names();

}  // namespace ligerdsl::tune
