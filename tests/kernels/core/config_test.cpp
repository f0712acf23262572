// Tests of the schedules of all kernels, without compiling or running anything.
// tests/compiler/nvptx/config_space_test.cpp compiles them.
#include "kernels/core/config.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "kernels/catalog.h"
#include "kernels/norm/rms_norm.h"
#include "program/serialize.h"

namespace ligerdsl::test::config_test {
namespace {

using kernels::CatalogEntry;
using kernels::Machine;
using kernels::Operation;

constexpr int64_t kWidths[] = {1, 64, 1000, 4096, 8200, 11008, 32768, 50257, 131072, 262144};

std::vector<Machine> machines() {
  std::vector<Machine> all = {{}};
  for (const char* arch : {"sm_80", "sm_90a", "sm_120a"}) all.push_back(kernels::gpu(arch, 0, 90));
  all.push_back(kernels::gpu("sm_90a", 132, 80));  // no clusters
  return all;
}

std::string name_of(const Machine& machine) {
  return machine.is_gpu() ? std::string(machine.name) : "cpu";
}

// Returns options for a width and a dtype. If `turned`, all boolean options are the opposite of
// their defaults.
MetaValues options_of(const CatalogEntry& entry, const std::string& type, int64_t width,
                      bool turned) {
  MetaValues options;
  for (const MetaField& field : entry.options) {
    if (turned && field.type == "bool")
      options[field.name] = field.value == "true" ? "false" : "true";
    if (field.name == "type" || field.name == "weight_type") options[field.name] = type;
    if (field.name == "cols" || field.name == "classes")
      options[field.name] = std::to_string(width);
    if (field.name == "head_dim")
      options[field.name] = std::to_string(std::clamp<int64_t>(width, 2, 512));
    if (field.name == "q_heads") options[field.name] = std::to_string(1 + width % 40);
    if (field.name == "with_gradient") options[field.name] = "true";
  }
  return options;
}

MetaValues values_of(const std::vector<MetaField>& fields) {
  MetaValues values;
  for (const MetaField& field : fields) values[field.name] = field.value;
  return values;
}

// Calls `check` for every kernel with a schedule, on each machine, with several widths and dtypes.
template <class Check>
void for_each_case(const Check& check) {
  for (const Machine& machine : machines())
    for (const CatalogEntry& entry : kernels::catalog())
      for (const char* type : {"bf16", "f32"})
        for (const int64_t width : kWidths) {
          if (!entry.configured()) continue;
          SCOPED_TRACE(name_of(machine) + " " + entry.name + " " + type + " " +
                       std::to_string(width));
          check(machine, entry, options_of(entry, type, width, false), width);
          if (width % 4096 != 0) check(machine, entry, options_of(entry, type, width, true), width);
        }
}

bool same(const Operation& a, const Operation& b) {
  const auto same_step = [](const kernels::Step& x, const kernels::Step& y) {
    return program::serialize(x.program) == program::serialize(y.program) && x.launch == y.launch;
  };
  const auto same_scratch = [](const kernels::Scratch& x, const kernels::Scratch& y) {
    return x.name == y.name && x.dtype == y.dtype && x.shape == y.shape && x.room == y.room;
  };
  return std::equal(a.steps.begin(), a.steps.end(), b.steps.begin(), b.steps.end(), same_step) &&
         std::equal(a.workspace.begin(), a.workspace.end(), b.workspace.begin(), b.workspace.end(),
                    same_scratch);
}

TEST(Configs, HeuristicIsValidAndBuildsTheDefaultOperation) {
  for_each_case(
      [](const Machine& machine, const CatalogEntry& entry, const MetaValues& options, int64_t) {
        const std::vector<MetaField> fields = entry.heuristic(machine, options);
        ASSERT_FALSE(fields.empty());
        for (const MetaField& field : fields) {
          EXPECT_TRUE(std::count(field.choices.begin(), field.choices.end(), field.value))
              << field.name << field.value;
          EXPECT_NE(field.bits, Bits::fixed)
              << field.name << " does not declare its effect on results (Bits)";
        }
        const MetaValues values = values_of(fields);
        EXPECT_EQ(entry.valid(machine, options, values), "") << kernels::config_text(fields);
        EXPECT_TRUE(same(entry.make(machine, options), entry.make_with(machine, options, values)));
      });
}

// Samples 40 configurations per case, because all combinations are too many.
TEST(Configs, EveryConfigIsBuiltOrRefusedWithAReason) {
  std::mt19937 random(1);
  int valid = 0, refused = 0;
  for_each_case([&](const Machine& machine, const CatalogEntry& entry, const MetaValues& options,
                    int64_t width) {
    const std::vector<MetaField> fields = entry.heuristic(machine, options);
    for (int i = 0; i < 40; ++i) {
      MetaValues config;
      for (const MetaField& field : fields)
        if (i % 4 == 0 || random() % 3 == 0)
          config[field.name] = field.choices[random() % field.choices.size()];
      const std::string reason = entry.valid(machine, options, config);
      if (reason.empty()) {
        if (++valid % 8 == 0 || width < 100) {
          EXPECT_NO_THROW(entry.make_with(machine, options, config));
        }
        continue;
      }
      ++refused;
      EXPECT_GT(reason.size(), 20u);
      try {
        entry.make_with(machine, options, config);
        ADD_FAILURE() << "built although " << reason;
      } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find(": " + reason), std::string::npos) << error.what();
      }
    }
  });
  EXPECT_GT(valid, 1000);
  EXPECT_GT(refused, 1000);
}

TEST(Configs, UnknownFieldOrValueThrows) {
  const CatalogEntry& entry = *kernels::find_operation("rms_norm_forward");
  EXPECT_THROW(entry.make_with({}, {}, {{"warps", "4"}}), Error);
  EXPECT_THROW(entry.make_with({}, {}, {{"num_warps", "3"}}), Error);
}

TEST(Configs, WideRowHeuristicAndReasons) {
  const Machine h200 = kernels::gpu("sm_90a", 132, 90);
  const kernels::RmsNormOptions options{
      .cols = 8192, .type = bf16, .weight_type = bf16, .has_offset = false};
  const auto& kernel = kernels::rms_norm_forward_kernel;
  EXPECT_EQ(kernels::config_text(meta_fields(kernel.heuristic(h200, options))),
            "keep=registers rows=1 num_warps=16 vectors=0 num_ctas=1 min_ctas_per_sm=4 "
            "early_weight=true");
  const auto reason = [&](const MetaValues& changed) {
    return kernel.valid(h200, options,
                        meta_from(kernel.name, changed, kernel.heuristic(h200, options)));
  };
  EXPECT_EQ(
      reason({{"num_warps", "1"}}),
      "vectors per thread: expected at most 16, got 32; use more warps, fewer rows or keep=shared");
  EXPECT_EQ(reason({{"num_ctas", "4"}}),
            "num_ctas=4 requires keep=cluster; use num_ctas=1, or keep=cluster");
  EXPECT_EQ(
      reason({{"keep", "shared"}, {"early_weight", "false"}}),
      "rows in blocks require vectors of 1 or more, got 0; set vectors, or use keep=registers");
  EXPECT_EQ(reason({{"keep", "cluster"},
                    {"early_weight", "false"},
                    {"vectors", "1"},
                    {"num_ctas", "4"},
                    {"num_warps", "4"}}),
            "");
}

TEST(Configs, ClusterSizeIsLimitedByTheMachine) {
  const CatalogEntry& entry = *kernels::find_operation("layer_norm_forward");
  const MetaValues options = {{"cols", "65536"}};
  const auto reason = [&](const Machine& machine, const char* ctas) {
    return entry.valid(machine, options,
                       {{"keep", "cluster"},
                        {"rows", "1"},
                        {"num_warps", "4"},
                        {"vectors", "1"},
                        {"num_ctas", ctas}});
  };
  EXPECT_EQ(reason(kernels::gpu("sm_90a", 0, 90), "16"), "");
  EXPECT_EQ(reason(kernels::gpu("sm_120a", 0, 90), "8"), "");
  EXPECT_EQ(reason(kernels::gpu("sm_120a", 0, 90), "16"),
            "num_ctas: expected at most 8 on sm_120a, got 16; use a smaller num_ctas");
  EXPECT_EQ(reason(kernels::gpu("sm_80", 0, 90), "2"),
            "sm_80 with this driver has no clusters of CTAs; use keep=shared");
  EXPECT_EQ(reason({}, "2"), "a CPU has no clusters; use keep=shared");
}

TEST(Configs, MinCtasPerSmDoesNotChangeCpuPrograms) {
  int compared = 0;
  for (const CatalogEntry& entry : kernels::catalog())
    for (const int64_t width : {1000, 4096, 65536}) {
      if (!entry.configured()) continue;
      SCOPED_TRACE(entry.name + " " + std::to_string(width));
      const MetaValues options = options_of(entry, "f32", width, false);
      for (const MetaField& field : entry.heuristic({}, options)) {
        if (field.name != "min_ctas_per_sm") continue;
        const auto bytes = [&](const std::string& value) {
          const MetaValues config = {{field.name, value}};
          EXPECT_EQ(entry.valid({}, options, config), "");
          std::string all;
          for (const kernels::Step& step : entry.make_with({}, options, config).steps)
            all += program::serialize(step.program);
          return all;
        };
        for (const std::string& value : field.choices) EXPECT_EQ(bytes(value), bytes("0")) << value;
        ++compared;
      }
    }
  EXPECT_GT(compared, 0);
}

TEST(Configs, CostCountsInputAndOutputBytes) {
  const CatalogEntry& entry = *kernels::find_operation("rms_norm_forward");
  EXPECT_EQ(entry.cost({{"cols", "100"}, {"type", "bf16"}, {"weight_type", "f32"}}, 10).bytes,
            10 * (400 + 4) + 400);
}

}  // namespace
}  // namespace ligerdsl::test::config_test
