// Tests the library's row kernels for a Hopper GPU at the widths of current models. Every kernel,
// width and type is compiled like the launcher does for aligned tensors, and assembled.
//
// - access: rows, weights and accumulated gradients move 16 bytes at a time; only statistics, a few
//   scalars per row, are narrower
// - spills: only the kernels in kSpilled spill
// - threads: an SM's registers suffice for at least 256 threads
//
// A failure prints the kernel's line.
#include <map>
#include <regex>

#include "kernels/catalog.h"
#include "kernels/core/launch.h"
#include "step_options.h"

namespace ligerdsl::testing::row_kernels_test {
namespace {

const std::vector<int64_t> kWidths{2048,  3584,  4096,  5120,  6144,  7168,  8192,
                                   11008, 13824, 16384, 18944, 29568, 65536, 131072};

// Spilled bytes per thread. Most spills are the next row's mean and rstd, one or two words in a
// loop of 450 to 580 instructions. Others are a few of a thread's 48 elements, so that a third CTA
// fits on the SM. Remove an entry whose kernel stops spilling.
const std::map<std::string, int64_t> kSpilled{{"bf16 13824 layer_norm_forward_bf16", 8},
                                              {"f16 13824 layer_norm_forward_f16", 8},
                                              {"bf16 13824 rms_norm_forward_bf16", 8},
                                              {"f16 3584 rms_norm_backward_f16", 4},
                                              {"bf16 18944 rms_norm_backward_bf16", 16},
                                              {"bf16 6144 layer_norm_backward_bf16", 4},
                                              {"f16 6144 layer_norm_backward_f16", 4},
                                              {"bf16 6144 fused_add_layer_norm_backward_bf16", 4},
                                              {"f16 6144 fused_add_layer_norm_backward_f16", 4}};

// Resources of one compiled kernel.
struct Line {
  std::string kernel;
  int64_t threads = 0, registers = 0, spilled = 0;
  int wide = 0, narrow = 0;  // global memory accesses in the PTX: 16 bytes, and fewer
  int copies = 0;            // bulk copies to shared memory in the PTX

  int64_t ctas() const {
    const int64_t granted = (registers + 7) / 8 * 8;
    return std::min<int64_t>({65536 / (granted * threads), 2048 / threads, 32});
  }
};

void PrintTo(const Line& line, std::ostream* out) {
  *out << line.kernel << ": " << line.threads << " threads, " << line.registers << " registers, "
       << line.ctas() << " CTAs, spills " << line.spilled << ", accesses " << line.wide
       << " of 16 bytes, " << line.narrow << " narrower";
}

int occurrences(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  return static_cast<int>(
      std::distance(std::sregex_iterator(text.begin(), text.end(), regex), std::sregex_iterator()));
}

Line lineOf(const std::string& name, const kernels::Step& step) {
  const program::Artifact artifact =
      compileProgram(step.program, optionsOfStep(step, "sm_90a", 90));
  const Assembled assembled = assemble(artifact.code, "sm_90a");
  EXPECT_TRUE(assembled.ok) << name << "\n" << assembled.log;
  Line line{.kernel = name + " " + step.program.name,
            .threads = artifact.threads,
            .registers = assembled.registers,
            .spilled = assembled.spilledBytes};
  line.wide = occurrences(artifact.code,
                          "(ld|st)\\.global[.:\\w]*\\.(v4\\.[bfu]32|v2\\.[bu]64)|cp\\.async\\.cg");
  line.copies = occurrences(artifact.code, "cp\\.async\\.bulk");
  line.narrow = occurrences(artifact.code, "(ld|st)\\.global") +
                occurrences(artifact.code, "cp\\.async\\.cg") - line.wide;
  return line;
}

kernels::Operation operationOf(const std::string& name, const MetaValues& settings) {
  return kernels::find_operation(name)->make(kernels::gpu("sm_90a", 132, /*ptx_version=*/80),
                                             settings);
}

struct Family {
  const char* name;
  std::vector<const char*> typed;  // options that take the type
  // Largest number of narrow accesses in the PTX. They are for statistics of each row of a tile,
  // before and in a loop, or for the few elements of x that determine a row's shift.
  int statistics;
};

void PrintTo(const Family& family, std::ostream* out) {
  *out << family.name;
}

class RowKernels : public ::testing::TestWithParam<Family> {};

TEST_P(RowKernels, UseWholeVectorsWithoutSpills) {
  const Family& family = GetParam();
  for (const char* type : {"bf16", "f16", "f32"})
    for (int64_t width : kWidths) {
      MetaValues settings{{"cols", std::to_string(width)}};
      for (const char* option : family.typed) settings[option] = type;
      const std::string name = std::string(type) + " " + std::to_string(width);
      for (const kernels::Step& step : operationOf(family.name, settings).steps) {
        const Line line = lineOf(name, step);
        const auto known = kSpilled.find(line.kernel);
        EXPECT_EQ(line.spilled, known == kSpilled.end() ? 0 : known->second)
            << ::testing::PrintToString(line);
        EXPECT_LE(line.narrow, family.statistics) << ::testing::PrintToString(line);
        EXPECT_GE(line.ctas() * line.threads, 256) << ::testing::PrintToString(line);
      }
    }
}

// With several modulations, a program of the modulated gradient has a third accumulator.
TEST(ModulatedRmsNormBackward, DoesNotSpill) {
  for (const char* cols : {"2560", "3072"}) {
    for (const char* modulations : {"16", "512"}) {
      const MetaValues settings{{"cols", cols},
                                {"modulations", modulations},
                                {"type", "bf16"},
                                {"weight_type", "bf16"},
                                {"scale_type", "bf16"}};
      for (const kernels::Step& step : operationOf("modulated_rms_norm_backward", settings).steps) {
        const Line line = lineOf(std::string(cols) + " " + modulations, step);
        EXPECT_EQ(line.spilled, 0) << ::testing::PrintToString(line);
      }
    }
  }
}

// An SM holds at least the number of RoPE CTAs that the schedule requests, without spills.
TEST(Rope, ReachesMinCtasPerSm) {
  for (const char* type : {"bf16", "f16", "f32"})
    for (const char* columns : {"64", "128"})
      for (const kernels::Step& step :
           operationOf("rope",
                       {{"type", type}, {"head_dim", columns}, {"q_heads", "32"}, {"k_heads", "8"}})
               .steps) {
        const Line line = lineOf(std::string(type) + " " + columns, step);
        EXPECT_GT(step.launch.min_ctas_per_sm, 0) << line.kernel;
        EXPECT_GE(line.ctas(), step.launch.min_ctas_per_sm) << ::testing::PrintToString(line);
        EXPECT_EQ(line.spilled, 0) << ::testing::PrintToString(line);
      }
}

// Widths at which a row needs one stage more than its bytes fill, and widths of models.
TEST(ClusterCrossEntropy, CachesItsRow) {
  const kernels::Machine machine = kernels::gpu("sm_90a", 132, 90);
  for (const char* type : {"bf16", "f32"})
    for (int64_t width : {128256, 131080, 136528, 163840, 200064, 262144, 262208, 327680})
      for (const char* option : {"smoothing", "softcap", "lse_square"}) {
        if (type[0] == 'f' && width > 163840) continue;  // longer f32 rows have no room
        MetaValues settings{{"classes", std::to_string(width)},
                            {"type", type},
                            {"with_gradient", "true"},
                            {option, "true"}};
        const auto operation = kernels::find_operation("cross_entropy")->make(machine, settings);
        int copies = 0;
        for (const kernels::Step& step : operation.steps)
          if (step.launch.num_ctas > 1)
            copies += lineOf(std::string(option) + " " + std::to_string(width), step).copies;
        EXPECT_GT(copies, 0) << type << " " << width << " " << option;
      }
}

INSTANTIATE_TEST_SUITE_P(
    Families, RowKernels,
    ::testing::Values(
        Family{"rms_norm_forward", {"type", "weight_type"}, 1},
        Family{"layer_norm_forward", {"type", "weight_type"}, 6},
        Family{"rms_norm_backward", {"type", "weight_type"}, 8},
        Family{"layer_norm_backward", {"type", "weight_type"}, 16},
        Family{"fused_add_layer_norm_forward", {"type", "weight_type"}, 12},
        Family{"fused_add_layer_norm_backward", {"type", "weight_type"}, 16},
        Family{"scale_rows", {"type"}, 1}, Family{"bias_add_forward", {"type", "bias_type"}, 0},
        Family{
            "bias_add_backward", {"type"}, 1},  // column sums of a program, one column per thread
        Family{"activation_forward", {"type"}, 0}, Family{"activation_backward", {"type"}, 0},
        Family{"dropout_forward", {"type"}, 0}, Family{"dropout_backward", {"type"}, 0},
        Family{"swiglu_forward", {"type"}, 0}, Family{"swiglu_backward", {"type"}, 0},
        Family{"geglu_backward", {"type"}, 0}, Family{"embedding_forward", {"type"}, 2}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace ligerdsl::testing::row_kernels_test
