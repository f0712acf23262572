#include "lib/tune/strategy.h"

#include <algorithm>
#include <set>

#include "ligerdsl/dsl/error.h"

namespace ligerdsl::tune {

namespace {

class Exhaustive final : public Strategy {
 public:
  explicit Exhaustive(const Space& space) {
    space.each([&](const Config& config) {
      if (config != space.heuristic()) left_.push_back(config);
      return true;
    });
    std::reverse(left_.begin(), left_.end());
  }
  std::vector<Config> next(size_t room) override {
    std::vector<Config> taken;
    for (; room > 0 && !left_.empty(); --room) {
      taken.push_back(std::move(left_.back()));
      left_.pop_back();
    }
    return taken;
  }
  void learn(const Config&, double) override {}

 private:
  std::vector<Config> left_;  // remaining configurations; the last element is the next one
};

// Proposes random configurations, each once. After kTries known configurations in a row, assumes
// that no new one is left.
class Random {
 public:
  Random(const Space& space, uint64_t seed) : space_(space), generator_(seed) {}
  bool take(std::set<Config>* proposed, Config* config) {
    constexpr int kTries = 200;
    for (int i = 0; i < kTries; ++i) {
      *config = space_.random(generator_);
      if (proposed->insert(*config).second) return true;
    }
    return false;
  }

 private:
  const Space& space_;
  std::mt19937_64 generator_;
};

class RandomStrategy final : public Strategy {
 public:
  RandomStrategy(const Space& space, uint64_t seed)
      : random_(space, seed), proposed_({space.heuristic()}) {}
  std::vector<Config> next(size_t room) override {
    std::vector<Config> taken;
    for (Config config; taken.size() < room && random_.take(&proposed_, &config);)
      taken.push_back(config);
    return taken;
  }
  void learn(const Config&, double) override {}

 private:
  Random random_;
  std::set<Config> proposed_;
};

class Guided final : public Strategy {
 public:
  Guided(const Space& space, uint64_t seed, std::function<double(const Config&)> predicted)
      : space_(space),
        predicted_(std::move(predicted)),
        random_(space, seed),
        proposed_({space.heuristic()}) {
    add_adjacent(space.heuristic());
  }

  std::vector<Config> next(size_t room) override {
    constexpr size_t kRandomAmong = 8;
    std::vector<Config> taken;
    while (taken.size() < room) {
      Config config;
      if (++proposals_ % kRandomAmong == 0 && random_.take(&proposed_, &config)) {
        taken.push_back(config);
        continue;
      }
      while (!near_.empty() && !proposed_.insert(near_.begin()->second).second)
        near_.erase(near_.begin());
      if (near_.empty()) break;
      taken.push_back(near_.begin()->second);
      near_.erase(near_.begin());
    }
    return taken;
  }

  // Explores changes of every configuration within 3 % of the best, because a second change may
  // regain what the first change lost.
  void learn(const Config& config, double ratio) override {
    constexpr double kNear = 1.03;
    best_ = std::min(best_, ratio);
    if (ratio <= best_ * kNear) add_adjacent(config);
  }

 private:
  void add_adjacent(const Config& config) {
    if (!looked_around_.insert(config).second) return;
    for (const Config& near : space_.adjacent(config)) {
      if (!proposed_.count(near)) near_.emplace(predicted_(near), near);
    }
  }

  const Space& space_;
  std::function<double(const Config&)> predicted_;
  Random random_;
  std::set<Config> proposed_, looked_around_;
  std::set<std::pair<double, Config>> near_;
  double best_ = 1;
  size_t proposals_ = 0;
};

}  // namespace

const std::vector<std::string>& strategy_names() {
  static const std::vector<std::string> names = {"guided", "random", "exhaustive"};
  return names;
}

std::unique_ptr<Strategy> make_strategy(const std::string& name, const Space& space, uint64_t seed,
                                        std::function<double(const Config&)> predicted) {
  if (name == "guided") return std::make_unique<Guided>(space, seed, std::move(predicted));
  if (name == "random") return std::make_unique<RandomStrategy>(space, seed);
  if (name == "exhaustive") return std::make_unique<Exhaustive>(space);
  throw Error("error: expected strategy guided, random or exhaustive, got '" + name + "'");
}

}  // namespace ligerdsl::tune
