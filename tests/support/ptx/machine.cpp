// Schedules a launch with several resident clusters. Draws a warp that can run, and runs it until
// it waits, yields or ends. Asynchronous copies complete in between.
#include "tests/support/ptx/machine.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <stdexcept>

#include "tests/support/ptx/warp.h"

namespace ligerdsl::test::ptx {

Cta::Cta(Cluster& in, size_t rank_of, const std::array<int64_t, 3>& at, int64_t shared_bytes)
    : cluster(in), rank(rank_of), id(at), shared(shared_bytes, in.agents) {}

Cta::~Cta() = default;

std::string Cta::name(const Program& program) const {
  return program.entry + ", CTA (" + std::to_string(id[0]) + ", " + std::to_string(id[1]) + ", " +
         std::to_string(id[2]) + ")";
}

void Cluster::end() const {
  for (const auto& cta : ctas) {
    const Epoch late = cta->last.seen.missing(cta->touched);
    if (late == 0) continue;
    throw std::runtime_error(cta->name(machine.program) + ": " + agents.name(agent_of(late)) +
                             " touched its shared memory when it may have ended");
  }
}

void Machine::wake(std::vector<Warp*>& waiting) {
  for (Warp* warp : waiting) {
    if (warp->resume()) runnable.push_back(warp);
  }
  waiting.clear();
}

// First removes warps that no longer wait: lanes of one warp can wait for different mbarriers, and
// the first of them wakes the whole warp.
void Machine::signal(Mbarrier& barrier) {
  std::erase_if(barrier.waiting, [](const Warp* warp) { return !warp->parked(); });
  wake(barrier.waiting);
}

namespace {

class Scheduler {
 public:
  Scheduler(const Program& program, const Launch& launch, const GlobalMemory& memory)
      : machine_{program, launch, memory, std::mt19937_64(launch.seed), {}, {}},
        warps_(static_cast<size_t>(program.threads / kLanes)) {
    const auto& grid = launch.grid;
    const auto& cluster = launch.cluster;
    for (size_t axis = 0; axis < 3; ++axis) {
      if (cluster[axis] < 1 || grid[axis] % cluster[axis])
        throw std::runtime_error("a grid that is not whole clusters");
      clusters_[axis] = grid[axis] / cluster[axis];
    }
    order_.resize(static_cast<size_t>(clusters_[0] * clusters_[1] * clusters_[2]));
    std::iota(order_.begin(), order_.end(), int64_t{0});
    std::shuffle(order_.begin(), order_.end(), machine_.random);
  }

  void run() {
    while (true) {
      while (static_cast<int64_t>(resident_.size()) < machine_.launch.resident &&
             started_ < order_.size())
        start();
      if (resident_.empty()) return;
      if (!machine_.runnable.empty()) {
        step();
      } else if (machine_.copies.empty()) {
        deadlock();
      } else {
        land();
      }
      while (!machine_.copies.empty() && machine_.chance(2)) land();
    }
  }

 private:
  void start() {
    const auto& size = machine_.launch.cluster;
    const int64_t n = order_[started_++];
    const std::array<int64_t, 3> at{n % clusters_[0] * size[0],
                                    n / clusters_[0] % clusters_[1] * size[1],
                                    n / clusters_[0] / clusters_[1] * size[2]};
    const size_t ctas = static_cast<size_t>(size[0] * size[1] * size[2]);
    auto cluster = std::make_unique<Cluster>(machine_, ctas, warps_);
    cluster->barrier.alive = cluster->barrier.missing = ctas * warps_;
    for (int64_t rank = 0; rank < static_cast<int64_t>(ctas); ++rank) {
      const std::array<int64_t, 3> id{at[0] + rank % size[0], at[1] + rank / size[0] % size[1],
                                      at[2] + rank / size[0] / size[1]};
      auto cta = std::make_unique<Cta>(*cluster, static_cast<size_t>(rank), id,
                                       machine_.launch.shared_bytes);
      for (size_t w = 0; w < warps_; ++w) {
        cta->warps.push_back(std::make_unique<Warp>(machine_, *cta, static_cast<int>(w)));
        machine_.runnable.push_back(cta->warps.back().get());
      }
      cluster->ctas.push_back(std::move(cta));
    }
    resident_.push_back(std::move(cluster));
  }

  void step() {
    auto& runnable = machine_.runnable;
    std::swap(runnable[machine_.random() % runnable.size()], runnable.back());
    Warp& warp = *runnable.back();
    runnable.pop_back();
    const Warp::Stop stop = warp.run();
    if (stop == Warp::Stop::yield) runnable.push_back(&warp);
    if (stop == Warp::Stop::end) end(warp.cta());
  }

  void end(Cta& cta) {
    if (cta.ended < cta.warps.size()) return;
    Cluster& cluster = cta.cluster;
    if (++cluster.ended < cluster.ctas.size()) return;
    cluster.end();
    std::erase_if(resident_, [&](const auto& other) { return other.get() == &cluster; });
  }

  void land() {
    if (Mbarrier* ended = machine_.copies.land_one(machine_.random)) machine_.signal(*ended);
  }

  [[noreturn]] void deadlock() const {
    std::set<std::string> places;
    for (const auto& cluster : resident_) {
      for (const auto& cta : cluster->ctas) {
        for (const auto& warp : cta->warps) {
          if (warp->waits()) places.insert(warp->waits_at());
        }
      }
    }
    std::string what = machine_.program.entry + ": deadlock, all warps wait:";
    for (const std::string& place : places) what += "\n  " + place;
    throw std::runtime_error(what);
  }

  Machine machine_;
  size_t warps_;  // per CTA
  std::array<int64_t, 3> clusters_{};
  std::vector<int64_t> order_;
  size_t started_ = 0;
  std::vector<std::unique_ptr<Cluster>> resident_;
};

}  // namespace

void run(const Program& program, const Launch& launch, const GlobalMemory& memory) {
  if (program.threads <= 0 || program.threads % kLanes)
    throw std::runtime_error("PTX without whole warps in .reqntid");
  Launch with_cluster = launch;
  if (program.cluster[0] != 0) {
    const bool named = launch.cluster != std::array<int64_t, 3>{1, 1, 1};
    if (named && launch.cluster != program.cluster) {
      throw std::runtime_error("a launch with other clusters than .reqnctapercluster");
    }
    with_cluster.cluster = program.cluster;
  }
  Scheduler(program, with_cluster, memory).run();
}

}  // namespace ligerdsl::test::ptx
