#include "tests/continuity/path_rules.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <regex>
#include <utility>

#include "tests/continuity/flow_graph.h"
#include "tests/support/ptx/program.h"

namespace ligerdsl::test {
namespace {

using ptx::Instruction;
using ptx::Kind;
using ptx::Operand;
using ptx::Space;

constexpr double kManyMultiplyAdds = 1e8;
constexpr int64_t kVector = 16;     // bytes of the widest access
constexpr int kGroupThreads = 128;  // threads of the warp group that runs one wgmma

// Returns size m, n or k of an opcode that contains a shape, such as "m64n128k16".
int size_in(const std::string& opcode, char letter) {
  static const std::regex shape("\\.m(\\d+)n(\\d+)k(\\d+)");
  std::smatch match;
  if (!std::regex_search(opcode, match, shape)) return 0;
  return std::stoi(match[letter == 'm' ? 1 : letter == 'n' ? 2 : 3]);
}

bool has_short_operands(const Instruction& i) {
  return i.opcode.find(".f16.f16") != std::string::npos ||
         i.opcode.find(".bf16.bf16") != std::string::npos;
}

// For each register, the arguments to which it may point.
class Addresses {
 public:
  Addresses(const ptx::Program& program, const LaunchPath& path) {
    for (bool changed = true; changed;) {
      changed = false;
      for (const Instruction& i : program.instructions)
        if (follow(i, path)) changed = true;
    }
  }
  // Returns the arguments to which the operand may point: bit a for argument a.
  uint64_t of(const Operand& operand) const {
    uint64_t bits = 0;
    if (operand.kind == Operand::Kind::reg) {
      const auto held = held_.find(operand.reg);
      if (held != held_.end()) bits = held->second;
    }
    if (operand.kind == Operand::Kind::address) return of(operand.parts[0]);
    for (const Operand& part : operand.parts) bits |= of(part);
    return bits;
  }

 private:
  // Follows pointers through additions and moves. Other instructions compute numbers from
  // addresses, for example the distance to a 16-byte boundary.
  bool follow(const Instruction& i, const LaunchPath& path) {
    const auto begins = [&](const char* word) { return i.opcode.starts_with(word); };
    uint64_t bits = 0;
    if (i.kind == Kind::load && i.space == Space::param) {
      const uint64_t bytes =
          i.operands[1].parts[0].constant[0] + static_cast<uint64_t>(i.operands[1].offset);
      for (size_t a = 0; a < path.arguments.size(); ++a)
        if (path.arguments[a].slot * 8 == bytes) bits |= uint64_t{1} << a;
    } else if (i.kind == Kind::move || i.kind == Kind::pack || i.kind == Kind::unpack ||
               i.kind == Kind::shuffle) {
      bits = of(i.operands[1]);
    } else if (begins("add.s64") || begins("add.u64") || begins("or.b64") || begins("selp.b64") ||
               begins("cvta.")) {
      for (size_t o = 1; o < std::min<size_t>(i.operands.size(), 3); ++o) bits |= of(i.operands[o]);
    } else if (begins("sub.s64")) {
      bits = of(i.operands[1]);
    } else if (begins("mad.")) {
      bits = of(i.operands[3]);
    }
    return bits != 0 && add(i.operands[0], bits);
  }
  bool add(const Operand& operand, uint64_t bits) {
    bool changed = false;
    if (operand.kind == Operand::Kind::reg) {
      uint64_t& held = held_[operand.reg];
      changed = (held | bits) != held;
      held |= bits;
    }
    for (const Operand& part : operand.parts) changed = add(part, bits) || changed;
    return changed;
  }

  std::map<int, uint64_t> held_;
};

class Checker {
 public:
  Checker(const ptx::Program& program, const LaunchPath& path)
      : program_(program),
        path_(path),
        addresses_(program, path),
        graph_(program),
        loops_(graph_.innermost_loops()),
        hot_(graph_.hot_blocks()) {}

  Verdict run() {
    check_wgmma();
    check_vectors();
    check_copies();
    check_barriers();
    check_multiply_adds();
    return std::move(verdict_);
  }

 private:
  // Records that a rule applies to the kernel. The kernel breaks it if `numbers` is not empty.
  void add(const char* rule, const std::string& numbers) {
    verdict_.applied.push_back(rule);
    if (!numbers.empty()) verdict_.broken.push_back({rule, numbers});
  }
  const Instruction& at(size_t number) const { return program_.instructions[number]; }
  template <class Predicate>
  int64_t count(const Predicate& matches) const {
    return std::count_if(program_.instructions.begin(), program_.instructions.end(), matches);
  }
  int64_t group_multiplies() const {
    return count([](const Instruction& i) { return i.kind == Kind::group_multiply; });
  }

  void check_wgmma() {
    if (!path_.has_wgmma || path_.multiply_adds <= kManyMultiplyAdds) return;
    const int64_t wgmma = group_multiplies();
    const int64_t mma = count(
        [](const Instruction& i) { return i.kind == Kind::multiply && has_short_operands(i); });
    const std::string text =
        std::to_string(wgmma) + " wgmma and " + std::to_string(mma) + " mma.sync for " +
        std::to_string(static_cast<int64_t>(path_.multiply_adds)) + " multiply-adds";
    add("wgmma", wgmma > 0 && mma == 0 ? "" : text);
  }

  // Returns the bytes that one thread moves in a global memory access, or 0 for other instructions.
  static int access_bytes(const Instruction& i) {
    if (i.kind == Kind::copy) return i.bytes;
    if ((i.kind != Kind::load && i.kind != Kind::store) || i.space != Space::global) return 0;
    if (i.opcode.starts_with("red")) return 0;
    const Operand& data = i.operands[i.kind == Kind::load ? 0 : 1];
    return i.bytes * static_cast<int>(data.parts.size());
  }

  // The loads, stores or asynchronous copies of one argument in one hot block.
  struct Accesses {
    std::vector<size_t> wide, narrow;
    int64_t bulk = 0;  // number of bulk copies in the same direction
  };
  // Key: index of the argument, and kind of access. A bulk load counts as a load.
  using AccessesByKind = std::map<std::pair<size_t, Kind>, Accesses>;

  AccessesByKind accesses_of(const Instructions& block) const {
    AccessesByKind accesses;
    for (const size_t number : block) {
      const Instruction& i = at(number);
      const int bytes = access_bytes(i);
      const bool bulk = i.kind == Kind::bulk_load || i.kind == Kind::bulk_store;
      if (bytes == 0 && !bulk) continue;
      const Kind kind = i.kind == Kind::bulk_load    ? Kind::load
                        : i.kind == Kind::bulk_store ? Kind::store
                                                     : i.kind;
      const uint64_t arguments = addresses_.of(i.operands[kind == Kind::store ? 0 : 1]);
      for (size_t a = 0; a < path_.arguments.size(); ++a) {
        if (!(arguments >> a & 1) || path_.arguments[a].vector == 0) continue;
        Accesses& of_kind = accesses[{a, kind}];
        if (bulk)
          ++of_kind.bulk;
        else
          (bytes < path_.arguments[a].vector ? of_kind.narrow : of_kind.wide).push_back(number);
      }
    }
    return accesses;
  }

  // Returns the narrow accesses that are not at the end of a row. An access is at an end in two
  // cases:
  // - A thread can skip it and still execute a wide access.
  // - A bulk copy moves whole vectors of the row. Threads then move less than a vector at each end.
  std::vector<size_t> narrow_inside_rows(const Accesses& accesses) const {
    std::vector<size_t> inside;
    int64_t bytes = 0;
    for (const size_t number : accesses.narrow) {
      const bool is_end = std::any_of(accesses.wide.begin(), accesses.wide.end(), [&](size_t wide) {
        return graph_.runs_without(wide, number);
      });
      if (is_end) continue;
      inside.push_back(number);
      bytes += access_bytes(at(number));
    }
    if (bytes <= accesses.bulk * 2 * kVector) inside.clear();
    return inside;
  }

  void check_vectors() {
    std::map<std::pair<size_t, std::string>, int> narrow;  // count by argument and access
    bool applies = false;
    for (const Instructions& block : hot_) {
      const AccessesByKind accesses = accesses_of(block);
      applies = applies || !accesses.empty();
      for (const auto& [key, each] : accesses)
        for (const size_t number : narrow_inside_rows(each)) {
          const char* name = key.second == Kind::load    ? " loads of "
                             : key.second == Kind::store ? " stores of "
                                                         : " copies of ";
          ++narrow[{key.first, name + std::to_string(access_bytes(at(number))) + " bytes"}];
        }
    }
    std::string text;
    for (const auto& [key, times] : narrow) {
      const ArgumentPath& argument = path_.arguments[key.first];
      text += (text.empty() ? "" : "; ") + argument.name + ": " + std::to_string(times) +
              key.second + ", facts permit " + std::to_string(argument.vector);
    }
    if (applies) add("vectors", text);
  }

  void check_copies() {
    if (group_multiplies() == 0) return;
    std::map<size_t, int> loads;
    for (const Instructions& block : hot_)
      for (const size_t number : block) {
        const Instruction& i = at(number);
        if (i.kind != Kind::load || i.space != Space::global) continue;
        const uint64_t arguments = addresses_.of(i.operands[1]);
        for (size_t a = 0; a < path_.arguments.size(); ++a)
          if (arguments >> a & 1 && path_.arguments[a].is_operand) ++loads[a];
      }
    std::string text;
    for (const auto& [a, times] : loads)
      text += (text.empty() ? "" : "; ") + path_.arguments[a].name + ": " + std::to_string(times) +
              " loads by threads";
    add("copies", text);
  }

  static uint64_t barrier_of(const Instruction& i) { return i.operands[0].constant[0]; }
  // Returns true for a barrier at which all threads of a CTA wait. If a bar.arrive uses the same
  // barrier, only the threads that execute bar.sync wait, so that barrier does not count.
  bool stops_all_threads(const Instruction& i) const {
    if (i.kind != Kind::barrier || i.arrive) return false;
    const bool all = i.operands.size() == 1 ||
                     i.operands[1].constant[0] == static_cast<uint64_t>(program_.threads);
    return all && count([&](const Instruction& other) {
                    return other.kind == Kind::barrier && other.arrive &&
                           barrier_of(other) == barrier_of(i);
                  }) == 0;
  }

  void check_barriers() {
    int most = 0;
    bool applies = false;
    for (const Instructions& loop : loops_) {
      const bool copies = std::any_of(loop.begin(), loop.end(), [&](size_t number) {
        return at(number).kind == Kind::tensor_load;
      });
      if (!copies) continue;
      applies = true;
      const auto barriers = std::count_if(
          loop.begin(), loop.end(), [&](size_t number) { return stops_all_threads(at(number)); });
      most = std::max(most, static_cast<int>(barriers));
    }
    if (!applies) return;
    add("barrier", most == 0
                       ? ""
                       : std::to_string(most) + " barriers of all " +
                             std::to_string(program_.threads) + " threads in a loop of TMA copies");
  }

  double multiply_adds_of(const Instruction& i) const {
    if (i.kind != Kind::group_multiply && i.kind != Kind::multiply) return 0;
    if (!has_short_operands(i)) return 0;
    const int threads = i.kind == Kind::group_multiply ? kGroupThreads : ptx::kLanes;
    return static_cast<double>(size_in(i.opcode, 'm')) * size_in(i.opcode, 'n') *
           size_in(i.opcode, 'k') * (static_cast<double>(path_.threads) / threads);
  }

  void check_multiply_adds() {
    if (path_.loops.empty()) return;
    std::string text;
    bool applies = false;
    for (const Instructions& loop : loops_) {
      double sum = 0;
      for (const size_t number : loop) sum += multiply_adds_of(at(number));
      applies = applies || sum > 0;
      const bool expected =
          sum == 0 || std::any_of(path_.loops.begin(), path_.loops.end(),
                                  [&](const DotLoop& each) { return each.multiply_adds == sum; });
      if (expected) continue;
      text += (text.empty() ? "" : "; ") + std::to_string(static_cast<int64_t>(sum)) +
              " in a loop, program";
      for (const DotLoop& each : path_.loops)
        text += " " + std::to_string(static_cast<int64_t>(each.multiply_adds));
    }
    if (applies) add("multiply_adds", text);
  }

  const ptx::Program& program_;
  const LaunchPath& path_;
  const Addresses addresses_;
  const FlowGraph graph_;
  const std::vector<Instructions> loops_, hot_;
  Verdict verdict_;
};

}  // namespace

Verdict check_rules(const std::string& ptx, const LaunchPath& path) {
  static const std::regex comment("//[^\n]*"), local("\\.local\\b");
  const std::string code = std::regex_replace(ptx, comment, "");
  const auto uses =
      std::distance(std::sregex_iterator(code.begin(), code.end(), local), std::sregex_iterator());
  // tests/support/ptx cannot parse accesses to local memory, so no other rule is checked.
  if (uses > 0) return {{"local"}, {{"local", std::to_string(uses) + " uses of local memory"}}};
  const ptx::Program program = ptx::parse(ptx);
  Verdict verdict = Checker(program, path).run();
  verdict.applied.push_back("local");
  return verdict;
}

}  // namespace ligerdsl::test
