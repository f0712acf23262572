// The PTX of one kernel, decoded into instructions that the emulator can run.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <type_traits>
#include <vector>

namespace ligerdsl::test::ptx {

inline constexpr int kLanes = 32;
using Lanes = std::array<uint64_t, kLanes>;  // values of one register in all lanes, zero-extended

// Computes an instruction without side effects in one lane.
using Function = uint64_t (*)(uint64_t, uint64_t, uint64_t);
// Computes the instruction in all lanes of a warp. If it throws, it sets `lane` to the lane at
// fault.
using AllLanes = void (*)(Lanes&, const Lanes&, const Lanes&, const Lanes&, int& lane);
struct Pure {
  Function function = nullptr;
  AllLanes all = nullptr;
  size_t operands = 0;

  constexpr Pure() = default;
  template <class F>
  constexpr Pure(F, size_t n) : function(F{}), all(&in_all_lanes<F>), operands(n) {
    static_assert(std::is_empty_v<F>,
                  "a lambda without captures, which is made anew where it is called");
  }

 private:
  template <class F>
  static void in_all_lanes(Lanes& out, const Lanes& a, const Lanes& b, const Lanes& c, int& lane) {
    int i = 0;
    try {
      for (; i < kLanes; ++i) out[i] = F{}(a[i], b[i], c[i]);
    } catch (...) {
      lane = i;
      throw;
    }
  }
};
const Pure* find_pure(const std::string& opcode);  // returns null for an unknown opcode

// Returns held + given. PTX ISA, red: additions of f32 in global memory flush subnormal numbers.
uint64_t add_in_memory(uint64_t held, uint64_t given, uint64_t unused);

enum class Kind {
  pure,
  move,
  parameter_address,  // address of a tensor map
  pack,
  unpack,
  insert_bits,
  load,
  store,
  atomic,
  branch,
  exit,
  hint,
  prefetch,
  sleep,
  active_mask,
  map_rank,
  // Instructions that all lanes of a warp execute together.
  shuffle,
  multiply,
  load_matrix,
  group_fence,  // for the four warps of a warp group
  group_multiply,
  group_commit,
  group_wait,
  elect,
  warp_barrier,
  barrier,
  cluster_arrive,
  cluster_wait,
  // Memory order and mbarriers
  fence,
  dependency_wait,
  mbarrier_init,
  mbarrier_inval,
  mbarrier_arrive,
  mbarrier_expect,
  mbarrier_wait,
  // Asynchronous changes of memory
  copy,
  bulk_load,
  tensor_load,
  tensor_store,
  bulk_store,
  remote_store,
  commit,
  wait_group,
};
enum class Space { param, global, shared, cluster };

struct Operand {
  enum class Kind {
    reg,
    constant,
    shared,
    vector,
    address,
    name,
    sink
  };  // shared: start of the CTA's own shared memory
  Kind kind = Kind::constant;
  int reg = -1;
  Lanes constant{};            // value in every lane
  std::vector<Operand> parts;  // elements of a vector or a|b; base, coordinates of an address
  int64_t offset = 0;          // bytes added to an address
  std::string name;            // label or parameter
};

struct Instruction {
  int line = 0;
  std::string text, opcode;
  int predicate = -1;  // register of the predicate, or -1
  bool negated = false;
  Kind kind = Kind::pure;
  Function function =
      nullptr;  // pure, atomic; for a store, gives the new value from the old and the given one
  AllLanes all = nullptr;  // pure
  bool pairs = false;      // computes each 16-bit half of the operands separately
  Space space = Space::global;
  int bytes = 0;              // bytes per element of a memory access, move or atomic
  bool extends_sign = false;  // a load extends the sign to the wider register
  size_t target = 0;          // index of the instruction to which a branch goes
  size_t matrices = 0;        // number of matrices that ldmatrix loads
  bool transposed = false;    // ldmatrix transposes
  int columns = 0;            // size n of wgmma
  // Flags of synchronisation and copies:
  // - wide: the scope is wider than a CTA; relaxed: no release or acquire
  // - parity: the phase is given by its parity; test: test_wait, not try_wait
  // - expect: arrive with expect_tx; arrive: arrives and does not wait
  // - bulk: for bulk copies; adds: adds to the target
  // - proxy, inits, acquire: fence.proxy, fence.mbarrier_init or fence.acquire
  bool wide = false, relaxed = false, acquire = false, parity = false, test = false, expect = false,
       arrive = false, bulk = false, proxy = false, inits = false, adds = false;
  std::vector<Operand> operands;
};

struct Program {
  std::string entry;
  int threads = 0;                   // .reqntid
  std::array<int64_t, 3> cluster{};  // .reqnctapercluster; zeros if absent
  bool dependent = false;            // contains griddepcontrol.wait
  std::vector<Instruction> instructions;
  std::map<std::string, int> registers;  // number of each register, also of special ones (%tid.x)
};

// Sets the kind and fields of an instruction from its opcode and operands. Throws
// std::runtime_error on an unknown opcode.
void decode(Instruction& instruction, const std::string& entry);
// Decodes a warp-wide instruction, synchronisation or a copy. Returns false for other instructions.
bool decode_sync(Instruction& instruction);

// Throws std::runtime_error on text that it does not know.
Program parse(const std::string& text);

}  // namespace ligerdsl::test::ptx
