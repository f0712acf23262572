// A warp of 32 lanes, each with its own program counter. The lanes with the lowest one run first.
// The code is in warp.cpp (control, arithmetic), warp_memory.cpp, warp_matrix.cpp and
// warp_group.cpp (mma.sync, wgmma), warp_sync.cpp (barriers, order) and warp_copies.cpp
// (asynchronous copies).
#pragma once

#include "tests/support/ptx/cluster.h"

namespace ligerdsl::test::ptx {

inline constexpr uint32_t kAllLanes = 0xffffffff;

template <class F>
void each_lane(uint32_t lanes, F f) {
  for (; lanes; lanes &= lanes - 1) f(__builtin_ctz(lanes));
}

inline uint64_t low(uint64_t value, int bytes) {
  return bytes == 8 ? value : value & ((uint64_t{1} << (8 * bytes)) - 1);
}

class Warp {
 public:
  enum class Stop { none, yield, wait, end };

  Warp(Machine& machine, Cta& cta, int number);
  // Runs instructions until the warp yields, waits or ends.
  Stop run();
  Cta& cta() { return cta_; }
  // Lets all lanes continue after an event that may end their wait. Returns true if the warp had
  // stopped to wait.
  bool resume();
  bool waits() const { return stopped_; }
  bool parked() const { return parked_ != 0; }
  std::string waits_at() const;  // CTA and instruction, for the message of a deadlock

 private:
  struct Group {
    size_t pc;
    uint32_t lanes;
  };
  Stop run_until_stop();
  Group next() const;
  void set_pc(uint32_t lanes, size_t pc);
  void set_special_registers();
  void set(const std::string& name, uint64_t base, uint64_t step = 0);
  [[noreturn]] void fail(const Instruction& i, const char* what) const;
  void finish();

  Stop execute(const Instruction& i, const Group& group);
  Stop dispatch(const Instruction& i, const Group& group, uint32_t active);
  Stop dispatch_sync(const Instruction& i, const Group& group, uint32_t active);

  const Lanes& read(const Operand& o, uint32_t lanes);
  const Lanes& read_register(int reg, uint32_t lanes);
  void expect_free(int reg) const {
    if (pending_[reg] > products_.waited)
      throw std::runtime_error("the register still belongs to a wgmma");
  }
  Lanes& write(const Operand& o, uint32_t lanes);
  void pure(const Instruction& i, uint32_t lanes);
  void move(const Instruction& i, uint32_t lanes);
  void parameter_address(const Instruction& i, uint32_t lanes);
  void pack(const Instruction& i, uint32_t lanes);
  void unpack(const Instruction& i, uint32_t lanes);
  void insert_bits(const Instruction& i, uint32_t lanes);

  // Memory. A Place is a CTA and an address in its shared memory. As on hardware, the bits of an
  // address above the CTA's window contain the CTA's rank, even in the CTA's own addresses.
  static constexpr int kWindowBits = 24;
  static constexpr uint64_t in_window(uint64_t address) {
    return address & ((uint64_t{1} << kWindowBits) - 1);
  }
  struct Place {
    Cta& cta;
    uint64_t at;
  };
  Place resolve(uint64_t address, Space space, bool touch = true);
  uint64_t address(const Operand& o, const Lanes& base, int lane, int64_t alignment);
  void transfer(const Instruction& i, uint32_t lanes);
  void prefetch(const Instruction& i, uint32_t lanes);
  uint64_t load_element(const Instruction& i, uint64_t at);
  void store_element(const Instruction& i, uint64_t at, uint64_t value);
  void atomic(const Instruction& i, uint32_t lanes);
  void shuffle(const Instruction& i, uint32_t lanes);
  void multiply(const Instruction& i);  // warp_matrix.cpp
  void load_matrix(const Instruction& i);
  void group_multiply(const Instruction& i);  // warp_group.cpp
  void group_wait(const Instruction& i);
  void expect_alike(const Instruction& i, uint64_t left, uint64_t right);
  void elect(const Instruction& i);
  bool early();  // true before griddepcontrol.wait

  // Synchronisation.
  void tick();
  Stop barrier(const Instruction& i, const Group& group);
  void cluster_arrive(const Instruction& i);
  Stop cluster_wait(const Instruction& i, const Group& group);
  void fence(const Instruction& i);
  Mbarrier& mbarrier(const Place& place);
  void mbarrier_init(const Instruction& i, uint32_t lanes);
  void mbarrier_inval(const Instruction& i, uint32_t lanes);
  void mbarrier_arrive(const Instruction& i, uint32_t lanes);
  void mbarrier_expect(const Instruction& i, uint32_t lanes);
  Stop mbarrier_wait(const Instruction& i, const Group& group, uint32_t lanes);
  void map_rank(const Instruction& i, uint32_t lanes);

  // Groups of cp.async, of bulk stores or of wgmma.
  struct Groups {
    uint32_t agent = 0;
    uint64_t committed = 0, waited = 0;
    bool open = false;  // true if there are copies or wgmmas since the last commit
  };
  Epoch open_group(Groups& groups, const char* what, Agents::Proxy proxy = Agents::Proxy::async);
  void commit(Groups& groups);
  void wait_group(const Instruction& i);
  void copy(const Instruction& i, uint32_t lanes);
  void bulk_load(const Instruction& i, uint32_t lanes);
  void tensor_load(const Instruction& i, uint32_t lanes);
  void tensor_store(const Instruction& i, uint32_t lanes);
  const TensorMap& map_at(uint64_t address) const;
  static std::vector<int64_t> coordinates_of(const std::vector<Lanes>& coordinates, int lane);
  void bulk_store(const Instruction& i, uint32_t lanes);
  void remote_store(const Instruction& i, uint32_t lanes);
  int64_t bulk_bytes(const Lanes& sizes, int lane) const;
  std::string where(const Instruction& i) const;

  Machine& machine_;
  Cta& cta_;
  Lanes shared_{};  // start of the CTA's shared memory, in every lane
  int number_;
  uint32_t agent_;
  int lane_ = 0;  // lane that an error names
  bool uniform_ = true;
  size_t pc_ = 0;                     // program counter of all lanes if uniform_
  std::array<size_t, kLanes> pcs_{};  // program counters of the lanes if not uniform_
  uint32_t parked_ = 0;               // mask of the lanes that wait for an mbarrier
  size_t barrier_pc_ = 0;             // program counter of the barrier where all lanes wait
  bool stopped_ = false;              // true if the last run() ended in a wait
  int64_t steps_ = 0;                 // number of instructions since the last wait
  std::unique_ptr<Lanes[]> registers_;
  std::vector<uint32_t> defined_;  // by register: mask of the lanes that have written it
  std::vector<uint64_t> pending_;  // by register: last wgmma group that owns it
  Order order_;
  Order released_,
      relaxed_;  // at the last fence, for relaxed arrivals; of relaxed waits, for fence.acquire
  Epoch now_ = 0;
  bool early_;
  bool cluster_arrived_ = false;
  uint64_t cluster_phase_ = 0;
  Groups copies_, stores_, products_;
  bool group_fenced_ = false;  // wgmma.fence executed since the last commit
  size_t group_products_ = 0;
};

}  // namespace ligerdsl::test::ptx
