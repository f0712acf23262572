// Tests control flow, options, stages, line information, overlap of launches, and errors.
#include <cstdio>
#include <regex>
#include <set>
#include <sstream>

#include "program/gpu_arch.h"
#include "ptx_kernel.h"

namespace ligerdsl::testing::pipeline_test {
namespace {

void sumOfRows(KernelBuilder& k) {
  View y = k.view("y", f32, {dyn}), x = k.view("x", bf16, {dyn, dyn});
  Scalar rows = k.scalar("rows", i32);
  auto [acc] =
      k.for_range(k.program_id(0), rows, k.num_programs(0), carry(k.zeros({1024}, f32)),
                  [&](Scalar row, Tile acc) {
                    return carry(acc + x.partition({squeeze, 1024}).load({row, 0}).to(f32));
                  });
  y.partition({1024}).store({k.program_id(0)}, acc);
}

program::CompileOptions optionsFor(const std::string& arch) {
  program::CompileOptions options;
  options.arch = arch;
  return options;
}

std::string errorOf(program::CompileOptions options) {
  try {
    PtxKernel kernel(sumOfRows, Known::aligned, options);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

TEST(NvptxPipeline, LoopsThatCarryTilesAssemble) {
  PtxKernel kernel(sumOfRows, Known::whole);
  EXPECT_TRUE(kernel.has("bra")) << kernel.ptx;
  expectAssemblesEverywhere(sumOfRows);
}

TEST(NvptxPipeline, PipelinedLoopsLoadOneIterationAhead) {
  auto rows = [](int stages) {
    return [=](KernelBuilder& k) {
      View y = k.view("y", bf16, {dyn, 1024}), x = k.view("x", bf16, {dyn, 1024}),
           partial = k.view("partial", f32, {dyn, 1024});
      auto [acc] =
          k.for_range(k.program_id(0), x.dim(0).to(i32), k.num_programs(0), pipelined(stages),
                      carry(k.zeros({1024}, f32)), [&](Scalar row, Tile acc) {
                        Tile t = x.partition({squeeze, 1024}).load({row, 0}).to(f32);
                        y.partition({squeeze, 1024}).store({row, 0}, (t * sum(t)).to(bf16));
                        return carry(acc + t);
                      });
      partial.partition({squeeze, 1024}).store({k.program_id(0), 0}, acc);
    };
  };
  EXPECT_EQ(PtxKernel(rows(1)).count("ld.global.v4.b32"), 1);
  PtxKernel ahead(rows(2));
  EXPECT_EQ(ahead.count("ld.global.v4.b32"), 2) << "before the loop and in it\n" << ahead.ptx;
  expectAssemblesEverywhere(rows(2));
}

// ptxas moves a value that it considers uniform to a uniform register at once, and so waits for its
// load. Therefore the next row's default scale, 0, is computed from the thread index.
TEST(NvptxPipeline, PrefetchedScalarsAreNotUniformForPtxas) {
  auto rows = [](int stages) {
    return [=](KernelBuilder& k) {
      View x = k.view("x", bf16, {dyn, 1024}), scale = k.view("scale", f32, {dyn}),
           partial = k.view("partial", f32, {dyn, 1024});
      auto [acc] =
          k.for_range(k.program_id(0), x.dim(0).to(i32), k.num_programs(0), pipelined(stages),
                      carry(k.zeros({1, 1024}, f32)), [&](Scalar row, Tile acc) {
                        Tile s = scale.partition({1}).load({row}).expand_dims(1);
                        return carry(fma(x.partition({1, 1024}).load({row, 0}).to(f32), s, acc));
                      });
      partial.partition({1, 1024}).store({k.program_id(0), 0}, acc);
    };
  };
  const std::regex laneZero(
      "and\\.b32\\s+(%r\\d+), %r\\d+, %r\\d+;[^]*mov\\.b32 %r\\d+, \\1; @%p\\d+ ld\\.global\\.b32");
  PtxKernel ahead(rows(2)), perRow(rows(1));
  EXPECT_TRUE(std::regex_search(ahead.ptx, laneZero)) << ahead.ptx;
  EXPECT_FALSE(std::regex_search(perRow.ptx, laneZero)) << perRow.ptx;
  expectAssemblesEverywhere(rows(2));
}

// One lane of a warp stores the result of the warp's reduction under a predicate, so that the
// kernel has no branch.
TEST(NvptxPipeline, OwnersStoreToSharedMemoryWithoutABranch) {
  auto build = [](KernelBuilder& k) {
    View y = k.view("y", f32, {dyn}), x = k.view("x", f32, {dyn, 1024});
    Scalar row = k.program_id(0);
    y.store({row}, sum(x.partition({squeeze, 1024}).load({row, 0})));
  };
  PtxKernel kernel(build, Known::aligned, withoutOverlap());
  EXPECT_TRUE(std::regex_search(kernel.ptx, std::regex("@%p\\d+ st\\.shared\\.b32"))) << kernel.ptx;
  EXPECT_FALSE(kernel.has("bra")) << kernel.ptx;
}

// A row that two loops read is copied to shared memory once, unless a store may change it.
TEST(NvptxPipeline, ResidentRowsAreReadOnce) {
  auto passes = [](bool inPlace) {
    return [=](KernelBuilder& k) {
      View x = k.view("x", bf16, {dyn, 65536}), y = k.view("y", bf16, {dyn, 65536});
      Resident row = x.partition({squeeze, 8192}).resident({k.program_id(0)});
      auto [acc] =
          k.for_range(0, row.blocks(), 1, carry(k.zeros({8192}, f32)), [&](Scalar b, Tile acc) {
            if (inPlace) x.partition({squeeze, 8192}).store({k.program_id(0), b}, 1.0);
            return carry(acc + row.load(b).to(f32));
          });
      Scalar total = sum(acc);
      k.for_range(0, row.blocks(), 1, [&](Scalar i) {
        Scalar b = row.blocks() - 1 - i;
        y.partition({squeeze, 8192})
            .store({k.program_id(0), b}, (row.load(b).to(f32) * total).to(bf16));
      });
    };
  };
  program::CompileOptions wide = optionsFor("sm_90a");
  wide.num_warps = 16;
  PtxKernel kept(passes(false), Known::aligned, wide);
  EXPECT_TRUE(kept.has("cp.async.bulk")) << kept.ptx;
  EXPECT_FALSE(kept.has("ld.global")) << kept.ptx;
  PtxKernel written(passes(true), Known::aligned, wide);
  EXPECT_FALSE(written.has("cp.async.bulk")) << "copies would overtake the stores\n" << written.ptx;
  wide.arch = "sm_80";
  EXPECT_FALSE(PtxKernel(passes(false), Known::aligned, wide).has("cp.async.bulk"));
}

TEST(NvptxPipeline, ConditionalsAndWhileLoopsAssemble) {
  expectAssemblesEverywhere([](KernelBuilder& k) {
    View y = k.view("y", f32, {dyn}), x = k.view("x", f32, {dyn});
    Tile t = x.partition({512}).load({0});
    Tile chosen = k.if_(
        sum(t) > 0.0f, [&] { return t * 2.0f; }, [&] { return t - 1.0f; });
    auto [grown] = k.while_(
        carry(chosen), [&](Tile v) { return sum(v) < 100.0f; },
        [&](Tile v) { return carry(v + 1.0f); });
    y.partition({512}).store({0}, grown);
  });
}

TEST(NvptxPipeline, PrintsThroughTheDriver) {
  PtxKernel kernel([](KernelBuilder& k) {
    View x = k.view("x", f32, {dyn});
    Tile t = x.partition({64}).load({0});
    device_print("100% of x", {t, sum(t)});
  });
  EXPECT_TRUE(kernel.has("vprintf")) << kernel.ptx;
  Assembled assembled = assemble(kernel.ptx, "sm_90a");
  EXPECT_TRUE(assembled.ok) << assembled.log << kernel.ptx;
}

TEST(NvptxPipeline, EmitReturnsStagesAsText) {
  for (auto [stage, text] : {std::pair("tile", "tile.load_tile"),
                             {"tgpu", "#tgpu.layout"},
                             {"llvm", "llvm.func @ligerdsl_kernel"},
                             {"ptx", ".visible .entry ligerdsl_kernel"}}) {
    program::CompileOptions options;
    options.emit = stage;
    EXPECT_TRUE(PtxKernel(sumOfRows, Known::aligned, options).has(text)) << stage;
  }
}

TEST(NvptxPipeline, LineInformationNamesTheAuthorsFile) {
  PtxKernel kernel(sumOfRows);
  EXPECT_TRUE(kernel.has("pipeline_test.cpp\"")) << kernel.ptx;
  EXPECT_TRUE(kernel.has(".loc\t1 ")) << kernel.ptx;
  EXPECT_FALSE(kernel.has(", debug")) << "ptxas would not optimise\n" << kernel.ptx;
}

// Returns the lines that .loc gives to instructions whose text contains `part`.
std::set<int> linesOf(const std::string& ptx, const std::string& part) {
  std::set<int> lines;
  std::istringstream text(ptx);
  int file = 0, at = 0;
  for (std::string line; std::getline(text, line);) {
    std::sscanf(line.c_str(), "\t.loc\t%d %d", &file, &at);
    if (line.find(part) != std::string::npos) lines.insert(at);
  }
  return lines;
}

TEST(NvptxPipeline, HotInstructionsHaveTheAuthorsLines) {
  int load = 0, arithmetic = 0, store = 0;
  PtxKernel kernel(
      [&](KernelBuilder& k) {
        View out = k.view("out", f32, {dyn}), x = k.view("x", f32, {dyn});
        Scalar i = k.program_id(0);
        load = __LINE__ + 1;
        Tile t = x.partition({1024}).load({i});
        arithmetic = __LINE__ + 1;
        Tile root = sqrt(t);
        store = __LINE__ + 1;
        out.partition({1024}).store({i}, root);
      },
      Known::whole);
  for (auto [instruction, line] :
       {std::pair("ld.global", load), {"sqrt", arithmetic}, {"st.global", store}})
    EXPECT_EQ(linesOf(kernel.ptx, instruction), std::set<int>{line}) << instruction << " in\n"
                                                                     << kernel.ptx;
}

TEST(NvptxPipeline, EqualProgramsGiveEqualPtx) {
  EXPECT_EQ(PtxKernel(sumOfRows).ptx, PtxKernel(sumOfRows).ptx);
}

TEST(NvptxPipeline, ArchitectureSelectsThePtxVersion) {
  for (auto [arch, version] : {std::pair("sm_80", "8.0"),
                               {"sm_86", "8.0"},
                               {"sm_89", "8.0"},
                               {"sm_90a", "8.0"},
                               {"sm_100", "8.6"},
                               {"sm_120", "8.7"}}) {
    PtxKernel kernel(sumOfRows, Known::aligned, optionsFor(arch));
    EXPECT_TRUE(kernel.has(std::string(".version ") + version))
        << arch << kernel.ptx.substr(0, 200);
    EXPECT_TRUE(kernel.has(std::string(".target ") + arch)) << kernel.ptx.substr(0, 200);
    EXPECT_TRUE(assemble(kernel.ptx, arch).ok) << arch;
  }
}

TEST(NvptxPipeline, ResourceOptionsReachThePtx) {
  program::CompileOptions options;
  options.max_registers = 64;
  options.num_warps = 8;
  PtxKernel capped(sumOfRows, Known::aligned, options);
  EXPECT_TRUE(capped.has(".maxnreg 64")) << capped.ptx;
  EXPECT_TRUE(capped.has(".reqntid 256")) << capped.ptx;
  EXPECT_TRUE(assemble(capped.ptx, "sm_90a").ok);
  options.max_registers = 0;
  options.min_ctas_per_sm = 4;
  PtxKernel resident(sumOfRows, Known::aligned, options);
  EXPECT_TRUE(resident.has(".minnctapersm 4")) << resident.ptx;
  Assembled assembled = assemble(resident.ptx, "sm_90a");
  EXPECT_TRUE(assembled.ok) << assembled.log;
}

// A resident row of 1 MB, and a tile that is transposed through shared memory.
void wideRowAndTranspose(KernelBuilder& k) {
  constexpr int64_t kColumns = 1 << 18, kBlock = 4096;
  View y = k.view("y", f32, {dyn, kColumns}), x = k.view("x", f32, {dyn, kColumns}),
       t = k.view("t", f32, {128, 128});
  Scalar row = k.program_id(0);
  Resident kept = x.partition({squeeze, kBlock}).resident({row});
  const int64_t blocks = kColumns / kBlock;
  auto [acc] = k.for_range(0, blocks, 1, carry(k.zeros({kBlock}, f32)),
                           [&](Scalar b, Tile acc) { return carry(acc + kept.load(b)); });
  Scalar total = sum(acc);
  t.partition({128, 128})
      .store({0, 0}, t.partition({128, 128}).load({0, 0}).permute({1, 0}) * total);
  k.for_range(0, blocks, 1, [&](Scalar i) {
    Scalar b = blocks - 1 - i;
    y.partition({squeeze, kBlock}).store({row, b}, kept.load(b) * total);
  });
}

TEST(NvptxPipeline, ResidentRowsFillTheFreeSharedMemory) {
  PtxKernel kernel(wideRowAndTranspose, Known::aligned);
  EXPECT_TRUE(kernel.has("cp.async.bulk")) << kernel.ptx;
  EXPECT_EQ(kernel.count("fence.proxy.async"), 3)
      << "after the set-up, and after the reads of stages that are filled again";
  EXPECT_LE(kernel.artifact.shared_bytes, 227 * 1024);
  EXPECT_GT(kernel.artifact.shared_bytes, 200 * 1024);
  program::CompileOptions twice;
  twice.min_ctas_per_sm = 2;
  PtxKernel shared(wideRowAndTranspose, Known::aligned, twice);
  EXPECT_LE(2 * (shared.artifact.shared_bytes + 1024), 228 * 1024);
  for (const char* arch : {"sm_90a", "sm_100", "sm_120"})
    EXPECT_TRUE(
        assemble(PtxKernel(wideRowAndTranspose, Known::aligned, optionsFor(arch)).ptx, arch).ok)
        << arch;
  PtxKernel older(wideRowAndTranspose, Known::aligned, optionsFor("sm_80"));
  EXPECT_FALSE(older.has("cp.async.bulk")) << "sm_80 has no bulk copies\n" << older.ptx;
}

TEST(NvptxPipeline, KernelsWaitForEarlierGridsBeforeMemoryAccesses) {
  for (const char* arch : {"sm_90", "sm_90a", "sm_100", "sm_120"}) {
    PtxKernel kernel(sumOfRows, Known::aligned, optionsFor(arch));
    EXPECT_TRUE(kernel.artifact.launch_overlap) << arch;
    EXPECT_EQ(kernel.count("griddepcontrol.wait;"), 1) << arch << kernel.ptx;
    EXPECT_EQ(kernel.count("griddepcontrol.launch_dependents;"), 1) << arch << kernel.ptx;
    const size_t wait = kernel.ptx.find("griddepcontrol.wait;");
    EXPECT_LT(wait, kernel.ptx.find("griddepcontrol.launch_dependents;")) << arch << kernel.ptx;
    EXPECT_LT(wait, kernel.ptx.find(".global.")) << arch << kernel.ptx;
    EXPECT_LT(wait, kernel.ptx.find("bra")) << arch << kernel.ptx;
    EXPECT_TRUE(assemble(kernel.ptx, arch).ok) << arch;
  }
}

// Before it waits for the earlier grid, a program prefetches its first tiles. The tiles must be
// large and used by this program alone, with indices that do not depend on memory.
TEST(NvptxPipeline, RowsArePrefetchedBeforeTheWait) {
  struct Case {
    const char* what;
    std::function<Tile(KernelBuilder&, const View& x, const View& w, const View& order)> first;
    int lines;  // 128-byte lines prefetched per thread
  };
  const auto row = [](const View& x, ScalarArg i) {
    return x.partition({squeeze, 4096}).load({i, 0});
  };
  const Case cases[] = {
      {"a program's row",
       [&](auto& k, auto& x, auto&, auto&) { return row(x, k.program_id(0) * 2 + 1); }, 4},
      {"two rows",
       [&](auto& k, auto& x, auto&, auto&) {
         return row(x, k.program_id(0)) + row(x, k.num_programs(0) + k.program_id(0));
       },
       8},
      {"a row of all programs along x",
       [&](auto& k, auto& x, auto&, auto&) { return row(x, k.program_id(1)); }, 0},
      {"a row of all programs, from an argument",
       [&](auto& k, auto& x, auto&, auto&) { return row(x, k.scalar("i", i32)); }, 0},
      {"a row at a place that is long to compute",
       [&](auto& k, auto& x, auto&, auto&) {
         Tile first = row(x, k.program_id(0));
         Scalar i = k.program_id(0) + 1;
         for (int n = 0; n < 60; ++n) i = i * i;
         return first + row(x, i);
       },
       8},
      {"a column",
       [&](auto& k, auto&, auto&, auto&) {
         return k.view("t", bf16, {4096, dyn}, {.strides = {dyn, dyn}})
             .partition({4096, squeeze})
             .load({0, k.program_id(0)});
       },
       0},
      {"rows shorter than a line",
       [&](auto& k, auto&, auto&, auto&) {
         return k.view("t", bf16, {dyn, 8})
             .partition({512, 8})
             .load({k.program_id(0), 0})
             .reshape({4096});
       },
       0},
      {"a row and the weight",
       [&](auto& k, auto& x, auto& w, auto&) {
         return w.partition({4096}).load({0}) + row(x, k.program_id(0));
       },
       4},
      {"the weight alone",
       [&](auto&, auto&, auto& w, auto&) { return w.partition({4096}).load({0}); }, 0},
      {"a row that another tensor names",
       [&](auto& k, auto& x, auto&, auto& order) { return row(x, order.load({k.program_id(0)})); },
       0},
      {"a row after a reduction",
       [&](auto& k, auto& x, auto& w, auto&) {
         Scalar total = sum(w.partition({4096}).load({0}));
         return row(x, k.program_id(0)) * total;
       },
       0},
      {"a vector of each thread",
       [&](auto& k, auto& x, auto&, auto&) {
         return x.partition({squeeze, 1024}).load({k.program_id(0), 0});
       },
       0},
  };
  for (const Case& example : cases) {
    const auto build = [&](KernelBuilder& k) {
      View y = k.view("y", bf16, {dyn, 4096}), x = k.view("x", bf16, {dyn, 4096}),
           w = k.view("w", bf16, {4096}), order = k.view("order", i64, {dyn});
      Tile t = example.first(k, x, w, order);
      y.partition({squeeze, t.shape()[0]}).store({k.program_id(0), 0}, t.to(bf16));
    };
    PtxKernel kernel(build);
    EXPECT_EQ(kernel.count("prefetch.global.L2"), example.lines) << example.what << kernel.ptx;
    const size_t wait = kernel.ptx.find("griddepcontrol.wait;");
    EXPECT_EQ(kernel.ptx.find("prefetch.global.L2", wait), std::string::npos)
        << example.what << kernel.ptx;
    EXPECT_GT(kernel.ptx.find("ld.global"), wait) << example.what << kernel.ptx;
    EXPECT_TRUE(assemble(kernel.ptx, "sm_90a").ok) << kernel.ptx;
    EXPECT_FALSE(PtxKernel(build, Known::aligned, withoutOverlap()).has("prefetch"))
        << example.what;
  }
}

// Only the programs of the first wave prefetch: those in the first plane of the grid that fit on
// all SMs.
TEST(NvptxPipeline, FirstWaveOfProgramsPrefetchesRows) {
  auto copy = [](KernelBuilder& k) {
    View y = k.view("y", bf16, {dyn, 8192}), x = k.view("x", bf16, {dyn, 8192});
    y.partition({squeeze, 8192})
        .store({k.program_id(0), 0}, x.partition({squeeze, 8192}).load({k.program_id(0), 0}));
  };
  for (int ctas : {1, 4}) {
    program::CompileOptions options;
    options.num_ctas = ctas;
    PtxKernel kernel(copy, Known::aligned, options);
    const std::string before = kernel.ptx.substr(0, kernel.ptx.find("griddepcontrol.wait;"));
    std::smatch processors;
    ASSERT_TRUE(std::regex_search(before, processors, std::regex(R"(mov\.u32\s+(%r\d+), %nsmid;)")))
        << before;
    const std::string places =
        processors[1].str() + (ctas == 1 ? ", 4;" : ", 2;");  // 2^n = 2048 threads / 128 or 512
    EXPECT_TRUE(std::regex_search(before, std::regex("shl\\.b32\\s+%r\\d+, " + places))) << before;
    EXPECT_NE(before.find(ctas == 1 ? "%ctaid.x" : "%clusterid.x"), std::string::npos) << before;
    for (const char* other : {"%ctaid.y", "%ctaid.z"})
      EXPECT_NE(before.find(other), std::string::npos) << before;
    EXPECT_TRUE(std::regex_search(before, std::regex("@%p\\d+ bra"))) << before;
  }
}

// Large CTAs prefetch only in persistent kernels, whose CTAs all start in the first wave.
TEST(NvptxPipeline, LargeCtasPrefetchOnlyInPersistentKernels) {
  const auto copy = [](bool persistent) {
    return [=](KernelBuilder& k) {
      View y = k.view("y", bf16, {dyn, 16384}), x = k.view("x", bf16, {dyn, 16384});
      Scalar row = k.program_id(0), next = persistent ? row + k.num_programs(0) : row + 1;
      y.partition({squeeze, 16384}).store({next, 0}, x.partition({squeeze, 16384}).load({row, 0}));
    };
  };
  for (auto [warps, persistent, lines] : {std::tuple(8, false, 8), {16, false, 0}, {16, true, 4}}) {
    program::CompileOptions options;
    options.num_warps = warps;
    PtxKernel kernel(copy(persistent), Known::aligned, options);
    EXPECT_EQ(kernel.count("prefetch.global.L2"), lines) << warps << " warps\n" << kernel.ptx;
  }
}

// Neither LLVM nor ptxas may treat x as constant memory, because the earlier grid may write x.
TEST(NvptxPipeline, OverlappedKernelsReadCoherently) {
  auto copy = [](KernelBuilder& k) {
    View y = k.view("y", f32, {dyn}), x = k.view("x", f32, {dyn});
    y.partition({512}).store({k.program_id(0)}, x.partition({512}).load({k.program_id(0)}));
  };
  program::CompileOptions options;
  options.facts = {{.pointer_align = 16, .strides = {{1, 1}}, .alias_class = 1},
                   {.pointer_align = 16, .strides = {{1, 1}}, .alias_class = 2, .read_only = true}};
  PtxKernel kernel(copy, Known::whole, options);
  EXPECT_FALSE(kernel.has("ld.global.nc")) << kernel.ptx;
}

TEST(NvptxPipeline, ArchitectureOrOptionDisablesOverlap) {
  for (const program::CompileOptions& options :
       {optionsFor("sm_80"), optionsFor("sm_89"), withoutOverlap()}) {
    PtxKernel kernel(sumOfRows, Known::aligned, options);
    EXPECT_FALSE(kernel.artifact.launch_overlap) << options.arch;
    EXPECT_FALSE(kernel.has("griddepcontrol")) << kernel.ptx;
  }
}

TEST(NvptxPipeline, PersistentKernelsAreMarked) {
  EXPECT_TRUE(PtxKernel(sumOfRows).artifact.persistent);
  PtxKernel oneShot([](KernelBuilder& k) {
    View y = k.view("y", f32, {dyn});
    y.partition({512}).store({k.program_id(0)}, k.zeros({512}, f32));
  });
  EXPECT_FALSE(oneShot.artifact.persistent);
}

TEST(NvptxPipeline, TilesBeyondTheRegistersAreErrors) {
  auto huge = [](KernelBuilder& k) {
    View y = k.view("y", f32, {dyn});
    y.partition({1 << 20}).store({0}, y.partition({1 << 20}).load({0}) + 1.0f);
  };
  try {
    PtxKernel kernel(huge);
    FAIL() << "expected an error";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("pipeline_test.cpp"), std::string::npos)
        << error.what();
    EXPECT_NE(std::string(error.what()).find("1048576 elements, 8192 in each thread"),
              std::string::npos)
        << error.what();
  }
}

TEST(NvptxPipeline, ErrorNamesTheAllowedOptions) {
  program::CompileOptions options;
  options.num_warps = 3;
  EXPECT_NE(errorOf(options).find("num_warps must be a power of two from 1 to 32, got 3"),
            std::string::npos)
      << errorOf(options);
  options.num_warps = 4;
  for (int ctas : {0, 3, 32}) {
    options.num_ctas = ctas;
    EXPECT_NE(
        errorOf(options).find("num_ctas must be 1, 2, 4, 8 or 16, got " + std::to_string(ctas)),
        std::string::npos)
        << errorOf(options);
  }
  for (const char* arch : {"sm_80", "sm_86", "sm_89"}) {
    options = optionsFor(arch);
    options.num_ctas = 2;
    EXPECT_NE(errorOf(options).find(std::string("num_ctas is 2, but ") + arch + " has no clusters"),
              std::string::npos)
        << errorOf(options);
  }
  const std::string archs = program::gpu_arch_names();
  EXPECT_NE(errorOf(optionsFor("sm_35"))
                .find("unknown GPU architecture 'sm_35'; expected one of " + archs),
            std::string::npos)
      << errorOf(optionsFor("sm_35"));
  options = optionsFor("sm_100");
  options.ptx_version = 82;
  EXPECT_NE(errorOf(options).find("sm_100 needs PTX 8.6, but the driver accepts up to PTX 8.2"),
            std::string::npos)
      << errorOf(options);
}

}  // namespace
}  // namespace ligerdsl::testing::pipeline_test
