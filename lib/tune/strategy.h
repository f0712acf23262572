// Which configurations are tried next.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lib/tune/space.h"

namespace ligerdsl::tune {

// Says each configuration once, never the heuristic's own.
class Strategy {
 public:
  virtual ~Strategy() = default;
  // At most so many; none: there are no more.
  virtual std::vector<Config> next(size_t room) = 0;
  // What came of one: its time over the heuristic's; infinity where it cannot be taken.
  virtual void learn(const Config& config, double ratio) = 0;
};

// exhaustive: all, in the order of their choices. random: steps away from the heuristic. guided: the neighbours of the
// best so far, those first for which `predicted` (a time, of any unit) is least, and a random one among every eight.
// The same seed and the same answers give the same order. Throws Failure for another name.
std::unique_ptr<Strategy> make_strategy(const std::string& name, const Space& space, uint64_t seed,
                                        std::function<double(const Config&)> predicted);
const std::vector<std::string>& strategy_names();

}  // namespace ligerdsl::tune
