// The resident CTAs with their memory, barriers and warps, and the state that all of them share.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/support/ptx/barriers.h"
#include "tests/support/ptx/copies.h"
#include "tests/support/ptx/machine.h"

namespace ligerdsl::test::ptx {

// The state of a launch. `runnable` holds the warps that can run.
struct Machine {
  const Program& program;
  const Launch& launch;
  const GlobalMemory& global;
  std::mt19937_64 random;
  std::vector<Warp*> runnable;
  Copies copies;

  bool chance(unsigned one_in) { return random() % one_in == 0; }
  void wake(std::vector<Warp*>& waiting);  // wakes the warps that waited at a barrier
  void signal(Mbarrier& barrier);          // wakes the warps that wait for it
};

struct Cluster;

struct Cta {
  Cta(Cluster& in, size_t rank_of, const std::array<int64_t, 3>& at, int64_t shared_bytes);
  ~Cta();
  std::string name(const Program& program) const;

  Cluster& cluster;
  size_t rank;
  std::array<int64_t, 3> id;
  SharedMemory shared;
  std::map<uint64_t, Mbarrier> mbarriers;  // key: address
  std::array<CtaBarrier, 16> barriers;
  std::vector<std::unique_ptr<Warp>> warps;
  std::map<std::pair<int, size_t>, std::array<uint64_t, 3>>
      products;      // key: warp group, index of its wgmma; value: descriptors, line
  size_t ended = 0;  // warps
  Order last;        // order that its warps had observed when they ended
  Clock touched;     // accesses by other CTAs
};

struct Cluster {
  Cluster(Machine& machine, size_t ctas, size_t warps) : machine(machine), agents(ctas, warps) {}
  void end() const;  // checks that no access may have come after a CTA's end

  Machine& machine;
  Agents agents;
  std::vector<std::unique_ptr<Cta>> ctas;
  size_t ended = 0;  // CTAs
  ClusterBarrier barrier;
  std::vector<Epoch> dependency_waits;
};

}  // namespace ligerdsl::test::ptx
