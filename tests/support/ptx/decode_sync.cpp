// Table of the opcodes of warp-wide instructions, synchronisation and asynchronous copies. A row
// has a pattern, the kind, and the number of operands. Parts of an opcode, such as .relaxed, set
// the flags of the instruction.
#include <map>
#include <regex>
#include <stdexcept>

#include "tests/support/ptx/program.h"

namespace ligerdsl::test::ptx {
namespace {

struct Rule {
  std::regex pattern;
  Kind kind;
  size_t least, most;  // least and largest number of operands
};

const std::vector<Rule>& rules() {
  const std::string shared = "(\\.shared|\\.shared::cta)",
                    any = "(\\.shared|\\.shared::cta|\\.shared::cluster)";
  const std::string scope = "(\\.cta|\\.cluster)?", bytes = "\\.mbarrier::complete_tx::bytes";
  static const std::vector<Rule> table = [&] {
    const auto rule = [](const std::string& pattern, Kind kind, size_t least, size_t most) {
      return Rule{std::regex(pattern), kind, least, most};
    };
    return std::vector<Rule>{
        rule("shfl\\.sync\\.(bfly|up|down|idx)\\.b32", Kind::shuffle, 5, 5),
        rule("mma\\.sync\\.aligned\\.m16n8k16\\.row\\.col\\.f32\\.(f16\\.f16|bf16\\.bf16)\\.f32",
             Kind::multiply, 4, 4),
        rule("mma\\.sync\\.aligned\\.m16n8k32\\.row\\.col\\.s32\\.s8\\.s8\\.s32", Kind::multiply, 4,
             4),
        rule("mma\\.sync\\.aligned\\.m16n8k8\\.row\\.col\\.f32\\.tf32\\.tf32\\.f32", Kind::multiply,
             4, 4),
        rule("ldmatrix\\.sync\\.aligned\\.m8n8\\.x(1|2|4)(\\.trans)?" + shared + "\\.b16",
             Kind::load_matrix, 2, 2),
        rule("wgmma\\.mma_async\\.sync\\.aligned\\.m64n\\d+k16\\.f32\\.(f16\\.f16|bf16\\.bf16)",
             Kind::group_multiply, 7, 8),
        rule("wgmma\\.mma_async\\.sync\\.aligned\\.m64n\\d+k32\\.f32\\.(e4m3|e5m2)\\.(e4m3|e5m2)",
             Kind::group_multiply, 6, 6),
        rule("wgmma\\.mma_async\\.sync\\.aligned\\.m64n\\d+k8\\.f32\\.tf32\\.tf32",
             Kind::group_multiply, 6, 6),
        rule("wgmma\\.mma_async\\.sync\\.aligned\\.m64n\\d+k32\\.s32\\.s8\\.s8",
             Kind::group_multiply, 4, 4),
        rule("wgmma\\.fence\\.sync\\.aligned", Kind::group_fence, 0, 0),
        rule("wgmma\\.commit_group\\.sync\\.aligned", Kind::group_commit, 0, 0),
        rule("wgmma\\.wait_group\\.sync\\.aligned", Kind::group_wait, 1, 1),
        rule("elect\\.sync", Kind::elect, 2, 2),
        rule("bar\\.warp\\.sync", Kind::warp_barrier, 1, 1),
        rule("activemask\\.b32", Kind::active_mask, 1, 1),
        rule("(bar|barrier|bar\\.cta|barrier\\.cta)\\.(sync|arrive)(\\.aligned)?", Kind::barrier, 1,
             2),
        rule("barrier\\.cluster\\.arrive(\\.release|\\.relaxed)?(\\.aligned)?",
             Kind::cluster_arrive, 0, 0),
        rule("barrier\\.cluster\\.wait(\\.acquire)?(\\.aligned)?", Kind::cluster_wait, 0, 0),
        rule("fence\\.(acq_rel|sc)\\.(cta|cluster|gpu|sys)|membar\\.(cta|gl|sys)", Kind::fence, 0,
             0),
        rule("fence\\.mbarrier_init\\.release\\.cluster", Kind::fence, 0, 0),
        rule("fence\\.proxy\\.async(\\.global|\\.shared::cta|\\.shared::cluster)?", Kind::fence, 0,
             0),
        rule("fence\\.acquire\\.sync_restrict::shared::cluster\\.cluster", Kind::fence, 0, 0),
        rule("griddepcontrol\\.wait", Kind::dependency_wait, 0, 0),
        rule("griddepcontrol\\.launch_dependents", Kind::hint, 0, 0),
        rule("setmaxnreg\\.(inc|dec)\\.sync\\.aligned\\.u32", Kind::hint, 1, 1),
        rule("nanosleep\\.u32", Kind::sleep, 1, 1),
        rule("mapa\\.shared::cluster\\.u(32|64)", Kind::map_rank, 3, 3),
        rule("mbarrier\\.init" + shared + "\\.b64", Kind::mbarrier_init, 2, 2),
        rule("mbarrier\\.inval" + shared + "\\.b64", Kind::mbarrier_inval, 1, 1),
        rule("mbarrier\\.arrive(\\.expect_tx)?(\\.release|\\.relaxed)?" + scope + any + "\\.b64",
             Kind::mbarrier_arrive, 2, 3),
        rule("mbarrier\\.expect_tx(\\.relaxed)?" + scope + any + "\\.b64", Kind::mbarrier_expect, 2,
             2),
        rule("mbarrier\\.(try|test)_wait(\\.parity)?(\\.acquire|\\.relaxed)?" + scope + shared +
                 "\\.b64",
             Kind::mbarrier_wait, 3, 4),
        rule("cp\\.async\\.bulk(\\.shared::cluster|\\.shared::cta)\\.global" + bytes +
                 "(\\.L2::cache_hint)?",
             Kind::bulk_load, 4, 5),
        rule("cp\\.async\\.bulk\\.tensor\\.[1-5]d(\\.shared::cluster|\\.shared::cta)\\.global(\\."
             "tile)?" +
                 bytes + "(\\.multicast::cluster)?",
             Kind::tensor_load, 3, 4),
        rule("cp\\.(reduce\\.)?async\\.bulk\\.tensor\\.[1-5]d\\.global\\.shared::cta(\\.add)?(\\."
             "tile)?\\.bulk_group("
             "\\.L2::cache_hint)?",
             Kind::tensor_store, 2, 3),
        rule("cp\\.async\\.bulk\\.global\\.shared::cta\\.bulk_group(\\.L2::cache_hint)?",
             Kind::bulk_store, 3, 4),
        rule("cp\\.async\\.(ca|cg)" + shared +
                 "\\.global(\\.L2::cache_hint)?(\\.L2::(64|128|256)B)?",
             Kind::copy, 3, 5),
        rule("cp\\.async(\\.bulk)?\\.commit_group", Kind::commit, 0, 0),
        rule("cp\\.async(\\.bulk)?\\.wait_group(\\.read)?", Kind::wait_group, 1, 1),
        rule("cp\\.async\\.wait_all", Kind::wait_group, 0, 0),
        rule("st\\.async(\\.weak)?\\.shared::cluster" + bytes + "(\\.v2|\\.v4)?\\.[busf](32|64)",
             Kind::remote_store, 3, 3),
    };
  }();
  return table;
}

const Rule* find_rule(const std::string& opcode) {
  static std::map<std::string, const Rule*> known;
  const auto [entry, added] = known.emplace(opcode, nullptr);
  for (const Rule& rule : rules()) {
    if (!added) break;
    if (std::regex_match(opcode, rule.pattern)) entry->second = &rule;
  }
  return entry->second;
}

bool has(const Instruction& i, const char* word) {
  return i.opcode.find(word) != std::string::npos;
}

void require(bool condition, const char* what) {
  if (!condition) throw std::runtime_error(what);
}

bool is_constant(const Operand& o, uint64_t value) {
  return o.kind == Operand::Kind::constant && static_cast<uint32_t>(o.constant[0]) == value;
}

void decode_operands(Instruction& i) {
  if (i.kind == Kind::warp_barrier || i.kind == Kind::elect) {
    require(is_constant(i.operands.back(), 0xffffffff), "expected the lane mask 0xffffffff");
  }
  if (i.kind == Kind::elect)
    require(i.operands[0].parts.size() == 2, "expected a register and a predicate");
  if (i.kind == Kind::barrier && i.arrive)
    require(i.operands.size() == 2, "expected the number of threads of bar.arrive");
  if (i.kind == Kind::group_multiply) {
    i.columns = std::stoi(i.opcode.substr(i.opcode.find("m64n") + 4));
    require(i.columns % 8 == 0 && i.columns <= 256,
            "expected a multiple of 8 columns, at most 256");
    require(i.operands[0].parts.size() == static_cast<size_t>(i.columns) / 2,
            "expected 64 accumulator rows in 128 threads");
    const bool registers = i.operands[1].kind == Operand::Kind::vector;
    const bool wide = has(i, "k16"), whole = has(i, ".s32");
    require(i.operands.size() == (whole       ? 4u
                                  : !wide     ? 6u
                                  : registers ? 7u
                                              : 8u),
            "only a 16-bit operand in shared memory may be transposed");
    require(wide || !registers, "8-bit and 32-bit operands in registers are not supported");
    require(!whole || i.columns <= 32 || i.columns % 16 == 0,
            "expected a multiple of 16 columns, because i8 wgmma has more than 32 columns");
  }
  if (i.kind == Kind::tensor_load || i.kind == Kind::tensor_store) {
    const size_t rank = i.opcode[i.opcode.find(".tensor.") + 8] - '0';
    const Operand& box = i.operands[i.kind == Kind::tensor_load ? 1 : 0];
    require(box.parts.size() == 2 && box.parts[1].parts.size() == rank,
            "expected a tensor map and one coordinate per dimension");
    if (i.kind == Kind::tensor_load)
      require((i.operands.size() == 4) == has(i, ".multicast"),
              "expected a CTA mask if the copy is a multicast, and only then");
  }
  if (i.kind == Kind::remote_store) {
    i.bytes = has(i, "64") ? 8 : 4;
    Operand& data = i.operands[1];
    if (data.kind != Operand::Kind::vector)
      data = Operand{.kind = Operand::Kind::vector, .parts = {data}};
    require(data.parts.size() == (has(i, ".v4")   ? 4u
                                  : has(i, ".v2") ? 2u
                                                  : 1u),
            "wrong number of elements");
  }
  if (i.kind == Kind::copy) {
    const uint64_t size = i.operands[2].constant[0];
    require(size == 16 || (has(i, ".ca") && (size == 4 || size == 8)),
            "a copy of other than 4, 8 or 16 bytes");
    require(i.operands.size() < 5 && !has(i, "cache_hint"), "unknown form of cp.async");
    i.bytes = static_cast<int>(size);
  }
}

}  // namespace

bool decode_sync(Instruction& i) {
  const Rule* rule = find_rule(i.opcode);
  if (!rule) return false;
  require(i.operands.size() >= rule->least && i.operands.size() <= rule->most,
          "wrong number of operands");
  i.kind = rule->kind;
  i.space = has(i, "shared::cluster") ? Space::cluster : Space::shared;
  i.wide = has(i, ".cluster.") || has(i, ".gpu") || has(i, ".sys");
  i.relaxed = has(i, ".relaxed");
  i.parity = has(i, ".parity");
  i.test = has(i, "test_wait");
  i.expect = has(i, "expect_tx");
  i.arrive = i.kind == Kind::barrier && has(i, ".arrive");
  i.bulk = has(i, ".bulk");
  i.adds = has(i, ".add");
  i.proxy = has(i, ".proxy");
  i.inits = has(i, "mbarrier_init");
  i.acquire = has(i, "fence.acquire");
  i.transposed = has(i, ".trans");
  i.matrices = has(i, ".x4") ? 4 : has(i, ".x2") ? 2 : 1;
  decode_operands(i);
  return true;
}

}  // namespace ligerdsl::test::ptx
