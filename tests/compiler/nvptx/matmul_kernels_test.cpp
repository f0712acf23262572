// Tests the library's matmul kernels for a Hopper GPU, with the heuristics' schedules, compiled
// like the launcher does for aligned tensors. They use wgmma, ptxas serialises none of it (C7510 to
// C7518), and only the kernels in kSpilled spill registers. Attention loads by TMA.
#include <algorithm>
#include <map>
#include <regex>

#include "kernels/catalog.h"
#include "kernels/core/launch.h"
#include "step_options.h"

namespace ligerdsl::testing::matmul_kernels_test {
namespace {

using Settings = std::vector<std::pair<const char*, std::vector<const char*>>>;

struct Family {
  const char* kernel;
  Settings settings;                    // every combination is tested
  std::vector<std::string> multiplies;  // name prefixes of the matmul steps
};

void PrintTo(const Family& family, std::ostream* out) {
  *out << family.kernel;
}

// Spilled bytes per thread. With 120 and 128 columns, the kernel of d_k and d_v stores and loads
// its spills once, before the loop.
const std::map<std::string, int64_t> kSpilled{{"attention_d_k_d_v_bf16 dim=120 right=true", 16},
                                              {"attention_d_k_d_v_bf16 dim=128 right=true", 16}};

class MatmulKernels : public ::testing::TestWithParam<Family> {
 protected:
  // Calls `body` with every combination of settings.
  template <class Body>
  void for_each(size_t next, MetaValues* chosen, const Body& body) {
    const Settings& settings = GetParam().settings;
    if (next == settings.size()) return body(*chosen);
    for (const char* value : settings[next].second) {
      (*chosen)[settings[next].first] = value;
      for_each(next + 1, chosen, body);
    }
  }
};

TEST_P(MatmulKernels, UseWgmmaWithoutSpills) {
  constexpr int kPtx = 86;  // clusters require it
  const kernels::Machine machine = kernels::gpu("sm_90a", 132, kPtx);
  MetaValues chosen;
  for_each(0, &chosen, [&](const MetaValues& settings) {
    for (const kernels::Step& step :
         kernels::find_operation(GetParam().kernel)->make(machine, settings).steps) {
      const auto named = [&](const std::string& name) {
        return step.program.name.starts_with(name);
      };
      if (std::ranges::none_of(GetParam().multiplies, named)) continue;
      std::string line = step.program.name;
      for (const auto& [name, value] : settings)
        if (name != "type") line += " " + name + "=" + value;
      const program::Artifact artifact =
          compileProgram(step.program, optionsOfStep(step, "sm_90a", kPtx));
      EXPECT_NE(artifact.code.find("wgmma.mma_async"), std::string::npos) << line;
      if (step.program.name.starts_with("attention_")) {
        EXPECT_NE(artifact.code.find("cp.async.bulk.tensor"), std::string::npos) << line;
      }
      const Assembled assembled = assemble(artifact.code, "sm_90a");
      EXPECT_TRUE(assembled.ok) << line << "\n" << assembled.log;
      EXPECT_EQ(assembled.log.find("(C75"), std::string::npos) << line << "\n" << assembled.log;
      const auto known = kSpilled.find(line);
      EXPECT_EQ(assembled.spilledBytes, known == kSpilled.end() ? 0 : known->second)
          << line << "\n"
          << assembled.log;
    }
  });
}

// A matmul whose K is one k-step keeps its loop. The operands are in shared memory, wgmma
// multiplies them, and vector stores write the result.
TEST(ShallowMatmul, UsesWgmmaAndStoresVectors) {
  constexpr int kPtx = 86;
  const kernels::Machine machine = kernels::gpu("sm_90a", 132, kPtx);
  const std::regex narrow_store(R"(st\.global(?!\S*\.v4)\S*)");
  for (const char* transposes : {"nt", "nn"})
    for (const char* width : {"16", "32", "48", "64", "96", "128"})
      for (const char* most_rows : {"0", "64"}) {
        const MetaValues settings{{"transposes", transposes},
                                  {"cols", "4096"},
                                  {"width", width},
                                  {"type", "bf16"},
                                  {"most_rows", most_rows}};
        for (const kernels::Step& step :
             kernels::find_operation("matmul")->make(machine, settings).steps) {
          SCOPED_TRACE(std::string(transposes) + " K " + width + " most_rows " + most_rows);
          const program::Artifact artifact =
              compileProgram(step.program, optionsOfStep(step, "sm_90a", kPtx));
          EXPECT_NE(artifact.code.find("wgmma.mma_async"), std::string::npos);
          EXPECT_EQ(artifact.code.find("mma.sync"), std::string::npos);
          std::smatch found;
          EXPECT_FALSE(std::regex_search(artifact.code, found, narrow_store)) << found.str();
          const Assembled assembled = assemble(artifact.code, "sm_90a");
          EXPECT_TRUE(assembled.ok) << assembled.log;
          EXPECT_EQ(assembled.log.find("(C75"), std::string::npos) << assembled.log;
          EXPECT_EQ(assembled.spilledBytes, 0) << assembled.log;
        }
      }
}

// An author's matmul whose k loop has one iteration, in CTAs that compute one tile each.
TEST(ShallowMatmul, UsesWgmmaInAnAuthorsLoop) {
  for (const bool tensor_copies : {false, true}) {
    KernelBuilder k("product");
    const Partition c = k.view("c", bf16, {dyn, 4096}).partition({128, 128});
    const Partition a = k.view("a", bf16, {dyn, 64}).partition({128, 64});
    const Partition b = k.view("b", bf16, {64, 4096}).partition({64, 128});
    const Scalar row = k.program_id(0), column = k.program_id(1);
    const auto [sums] =
        k.for_range(0, 1, 1, {.num_stages = 3, .tensor_copies = tensor_copies},
                    carry(k.zeros({128, 128}, f32)), [&](const Scalar& i, const Tile& sums) {
                      return carry(dot(a.load({row, i}), b.load({i, column}), sums));
                    });
    c.store({row, column}, sums.to(bf16));
    const kernels::Step step{.program = k.finish(), .launch = kernels::library_launch(8, 8)};
    const std::string code = compileProgram(step.program, optionsOfStep(step, "sm_90a", 86)).code;
    EXPECT_NE(code.find("wgmma.mma_async"), std::string::npos) << tensor_copies;
    EXPECT_EQ(code.find("mma.sync"), std::string::npos) << tensor_copies;
  }
}

// GPUs before Hopper have no wgmma.
TEST(AmpereMatmul, UsesMmaSyncWithoutSpills) {
  const kernels::Machine machine = kernels::gpu("sm_80", 108, /*ptx_version=*/80);
  for (const char* transposes : {"nn", "nt", "tn", "tt"})
    for (const char* type : {"f16", "bf16"}) {
      const MetaValues settings{
          {"transposes", transposes}, {"cols", "4096"}, {"width", "4096"}, {"type", type}};
      const kernels::Operation made = kernels::find_operation("matmul")->make(machine, settings);
      const kernels::Step& step = made.steps.front();
      const program::Artifact artifact =
          compileProgram(step.program, optionsOfStep(step, "sm_80", 80));
      EXPECT_NE(artifact.code.find("mma.sync.aligned.m16n8k16"), std::string::npos)
          << transposes << type;
      const Assembled assembled = assemble(artifact.code, "sm_80");
      EXPECT_TRUE(assembled.ok) << transposes << type << "\n" << assembled.log;
      EXPECT_EQ(assembled.spilledBytes, 0) << transposes << type << "\n" << assembled.log;
    }
}

// An author's matmul in which a cluster of two CTAs divides the rows of a tile. Each CTA copies a
// part of operand B to both CTAs.
std::string clusterMatmul(int64_t rows) {
  KernelBuilder k("product");
  const Partition c = k.view("c", f32, {dyn, 4096}).partition({rows, 64});
  const Partition a = k.view("a", bf16, {dyn, 4096}).partition({rows, 64});
  const Partition b = k.view("b", bf16, {4096, 4096}).partition({64, 64});
  const Scalar row = k.program_id(0);
  const auto [sums] =
      k.for_range(0, 64, 1, {.num_stages = 3, .tensor_copies = true},
                  carry(k.zeros({rows, 64}, f32)), [&](const Scalar& i, const Tile& sums) {
                    return carry(dot(a.load({row, i}), b.load({i, 0}), sums));
                  });
  c.store({row, 0}, sums);
  kernels::Step step{.program = k.finish(), .launch = kernels::library_launch(8, 4)};
  step.launch.num_ctas = 2;
  return compileProgram(step.program, optionsOfStep(step, "sm_90a", 86)).code;
}

TEST(ClusterMatmul, SharesOperandB) {
  const std::string shared = ".multicast::cluster";
  EXPECT_NE(clusterMatmul(128).find(shared), std::string::npos);
  EXPECT_EQ(clusterMatmul(192).find(shared), std::string::npos)
      << "192 rows cannot be divided among the CTAs";
}

INSTANTIATE_TEST_SUITE_P(
    Families, MatmulKernels,
    ::testing::Values(Family{"matmul",
                             {{"transposes", {"nn", "nt", "tn", "tt"}},
                              {"cols", {"4096", "4024"}},  // rows of b are whole cache lines, or
                                                           // not: then clusters of 2 CTAs share b
                              {"width", {"4096", "4088"}},
                              {"type", {"bf16"}}},
                             {"matmul_bf16"}},
                      Family{"grouped_matmul",
                             {{"transposes", {"nt", "nn", "tn"}},
                              {"experts", {"128"}},
                              {"cols", {"1536"}},
                              {"width", {"2048"}},
                              {"type", {"bf16"}}},
                             {"grouped_matmul_bf16", "grouped_matmul_tn_bf16"}},
                      Family{"gated_matmul",
                             {{"cols", {"4096"}},
                              {"width", {"4096"}},
                              {"type", {"bf16"}},
                              {"activation", {"silu", "gelu_tanh"}},
                              {"stores_products", {"false", "true"}},
                              {"most_rows", {"0", "64", "256"}}},
                             {"gated_matmul"}},
                      Family{"gated_matmul_backward",
                             {{"cols", {"4096"}},
                              {"width", {"4096"}},
                              {"type", {"bf16"}},
                              {"activation", {"silu", "gelu_tanh"}},
                              {"stores_out", {"false", "true"}},
                              {"most_rows", {"0", "64", "256"}}},
                             {"gated_matmul_backward"}},
                      Family{"attention_forward",
                             {{"type", {"bf16"}},
                              {"dim",
                               {"8", "40", "64", "72", "80", "96", "120", "128", "160", "176",
                                "192", "224", "256"}},
                              {"right", {"true"}},
                              {"softcap", {"false", "true"}}},
                             {"attention_forward"}},
                      Family{"attention_backward",
                             {{"type", {"bf16"}},
                              {"dim",
                               {"8", "40", "64", "72", "80", "96", "120", "128", "160", "176",
                                "192", "224", "256"}},
                              {"right", {"true"}}},
                             {"attention_d_"}}),
    [](const auto& info) { return info.param.kernel; });

}  // namespace
}  // namespace ligerdsl::testing::matmul_kernels_test
