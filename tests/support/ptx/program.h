// The PTX of one kernel as instructions that the machine can run.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <type_traits>
#include <vector>

namespace ligerdsl::test::ptx {

inline constexpr int kLanes = 32;
using Lanes = std::array<uint64_t, kLanes>;  // one register of a warp; values are zero-extended

// Computes a pure instruction in one lane.
using Function = uint64_t (*)(uint64_t, uint64_t, uint64_t);
// Computes it in all lanes of a warp. `lane` is the lane to report if it throws.
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
const Pure* find_pure(const std::string& opcode);  // null for an unknown opcode

// PTX ISA, red: additions of f32 in global memory flush subnormal numbers.
uint64_t add_in_memory(uint64_t held, uint64_t given, uint64_t unused);

enum class Kind {
  pure,
  move,
  parameter_address,  // of a tensor map
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
  // Executed by all lanes of a warp together.
  shuffle,
  multiply,
  load_matrix,
  group_fence,  // of the four warps that share a wgmma
  group_multiply,
  group_commit,
  group_wait,
  elect,
  warp_barrier,
  barrier,
  cluster_arrive,
  cluster_wait,
  // Memory order and mbarriers.
  fence,
  dependency_wait,
  mbarrier_init,
  mbarrier_inval,
  mbarrier_arrive,
  mbarrier_expect,
  mbarrier_wait,
  // Asynchronous changes of memory.
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
  };  // shared: start of the CTA's own memory
  Kind kind = Kind::constant;
  int reg = -1;
  Lanes constant{};            // value in every lane
  std::vector<Operand> parts;  // elements of a vector or of a|b; base and coordinates of an address
  int64_t offset = 0;          // offset of an address
  std::string name;            // name of a label or parameter
};

struct Instruction {
  int line = 0;
  std::string text, opcode;
  int predicate = -1;  // register, or -1
  bool negated = false;
  Kind kind = Kind::pure;
  Function function =
      nullptr;  // pure, atomic; for a store, computes the new value from the old and the given one
  AllLanes all = nullptr;  // pure
  bool pairs = false;      // pure: applies to each half of the operands
  Space space = Space::global;
  int bytes = 0;              // bytes per element: memory, move, atomic
  bool extends_sign = false;  // sign extension of a load into a wider register
  size_t target = 0;          // target of a branch
  size_t matrices = 0;        // number of matrices of ldmatrix
  bool transposed = false;    // ldmatrix transposes
  int columns = 0;            // columns of wgmma
  // Flags of synchronisation, by kind:
  // - wide: scope wider than a CTA; relaxed: without release or acquire
  // - parity: phase by parity; test: test instead of try
  // - expect: arrive with expect_tx; arrive: arrive without waiting
  // - bulk: bulk copies; adds: copies that add
  // - proxy, inits: proxy or mbarrier_init fence
  bool wide = false, relaxed = false, acquire = false, parity = false, test = false, expect = false,
       arrive = false, bulk = false, proxy = false, inits = false, adds = false;
  std::vector<Operand> operands;
};

struct Program {
  std::string entry;
  int threads = 0;                   // .reqntid
  std::array<int64_t, 3> cluster{};  // .reqnctapercluster; 0: none
  bool dependent = false;            // contains griddepcontrol.wait
  std::vector<Instruction> instructions;
  std::map<std::string, int> registers;  // includes special ones (%tid.x)
};

// Sets the kind of an instruction from its opcode and operands. Throws std::runtime_error on an
// unknown one.
void decode(Instruction& instruction, const std::string& entry);
// Decodes synchronisation and copies. Returns false for other instructions.
bool decode_sync(Instruction& instruction);

// Throws std::runtime_error on unknown text.
Program parse(const std::string& text);

}  // namespace ligerdsl::test::ptx
