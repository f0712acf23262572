// Tests control flow, options, stages, line information and errors.
#include <cstdio>
#include <regex>
#include <set>
#include <sstream>

#include "program/gpu_arch.h"
#include "ptx_kernel.h"

namespace ligerdsl::testing {
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

// ptxas moves a word that it believes to be equal in all lanes to a uniform register at once, which
// waits for the load. Therefore the default 0 of the next row's scale is computed from the thread's
// number.
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

// One lane of a warp stores the result of the warp's reduction under a predicate, so that the loop
// has no branch.
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
  EXPECT_FALSE(older.has("cp.async.bulk")) << "there is none\n" << older.ptx;
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

// A program prefetches the first tiles that it loads before it waits for the earlier grid. This
// applies to large tiles of the program itself, at indices that do not depend on memory.
TEST(NvptxPipeline, RowsArePrefetchedBeforeTheWait) {
  struct Case {
    const char* what;
    std::function<Tile(KernelBuilder&, const View& x, const View& w, const View& order)> first;
    int lines;  // lines of 128 bytes that a thread prefetches
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
        processors[1].str() + (ctas == 1 ? ", 4;" : ", 2;");  // 2048 by 128 or 512 threads: 2^n
    EXPECT_TRUE(std::regex_search(before, std::regex("shl\\.b32\\s+%r\\d+, " + places))) << before;
    EXPECT_NE(before.find(ctas == 1 ? "%ctaid.x" : "%clusterid.x"), std::string::npos) << before;
    for (const char* other : {"%ctaid.y", "%ctaid.z"})
      EXPECT_NE(before.find(other), std::string::npos) << before;
    EXPECT_TRUE(std::regex_search(before, std::regex("@%p\\d+ bra"))) << before;
  }
}

// CTAs that nearly fill an SM prefetch only if they start once, in a persistent kernel.
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

// Neither LLVM nor ptxas may assume that the memory is constant, because the earlier grid may write
// it.
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

// Two wgmma start. The result of the first is processed while the second is in flight, also after
// ptxas. TMA copies load whole tiles of one head, only the first warp waits for copies, and ptxas
// serialises no wgmma.
TEST(NvptxPipeline, AttentionLoopOverlapsWgmmaWithMath) {
  const auto attend = [](KernelBuilder& k) {
    View o = k.view("o", f32, {dyn, dyn}), q = k.view("q", bf16, {dyn, dyn});
    View keys = k.view("k", bf16, {dyn, dyn, 8, 64}), values = k.view("v", bf16, {dyn, dyn, 8, 64});
    const Scalar row = k.program_id(0), head = row % 8;
    const Tile queries = q.partition({64, 64}).load({row, 0});
    const auto tile = [&](const View& of, const Scalar& i) {
      return of.partition({squeeze, 64, squeeze, 64}).load({0, i, head, 0});
    };
    auto [top, out, last] = k.for_range(
        0, cdiv(keys.dim(1), 64), 1, {.num_stages = 2, .tensor_copies = true},
        carry(k.zeros({64}, f32), k.zeros({64, 64}, f32), k.zeros({64, 64}, bf16)),
        [&](const Scalar& i, const Tile& top, const Tile& out, const Tile& before) {
          const Tile s = dot(queries, tile(keys, i).permute({1, 0}), k.zeros({64, 64}, f32));
          const Tile more = dot(before, tile(values, i), out);
          const Tile highest = ligerdsl::max(top, reduce_max(s, 1));
          const Tile p = fast_exp2(s - highest.expand_dims(1));
          return carry(highest, more * 0.5f, p.to(bf16));
        });
    o.partition({64, 64}).store({row, 0}, out * top.expand_dims(1));
  };
  const PtxKernel kernel(attend, Known::whole);
  program::TensorMap of_keys{
      .slot = 10, .type = DType::bf16, .box = {1, 64, 1, 64}, .swizzle = 128},
      of_values = of_keys;
  of_values.slot = 19;
  EXPECT_EQ(kernel.artifact.maps, (std::vector{of_keys, of_values}));
  EXPECT_EQ(kernel.count("cp.async.bulk.tensor.4d"), 2 * 2) << kernel.ptx;
  EXPECT_EQ(kernel.count("wgmma.wait_group.sync.aligned 1"), 1) << kernel.ptx;
  EXPECT_EQ(kernel.count("nanosleep"), 1) << kernel.ptx;
  EXPECT_EQ(kernel.count("bar.arrive"), 2) << kernel.ptx;
  expectAssembles(attend, "sm_90a", Known::whole);
}

// c = a b^T. Both operands are contiguous along k.
PtxKernel::Build productOf(DType type, DType sums, int64_t depth, bool tensorCopies,
                           DotOptions options = {}) {
  return [=](KernelBuilder& k) {
    View c = k.view("c", sums, {dyn, dyn}), a = k.view("a", type, {dyn, dyn}),
         b = k.view("b", type, {dyn, dyn});
    const Scalar row = k.program_id(0);
    LoopOptions loop = pipelined(3);
    loop.tensor_copies = tensorCopies;
    auto [total] = k.for_range(
        0, cdiv(a.dim(1), depth), 1, loop, carry(k.zeros({64, 128}, sums)),
        [&](Scalar i, Tile total) {
          const Tile right = b.partition({128, depth}).load({0, i}).permute({1, 0});
          return carry(dot(a.partition({64, depth}).load({row, i}), right, total, options));
        });
    c.partition({64, 128}).store({row, 0}, total);
  };
}

// wgmma of each type reads 32 bytes of k per instruction from shared memory. For mma.sync, ldmatrix
// reads whole fragments.
TEST(NvptxPipeline, Int8AndTf32MatmulsUseTensorCores) {
  const auto count = [](const PtxKernel::Build& build, const char* arch, const std::string& text) {
    program::CompileOptions options;
    options.arch = arch;
    const PtxKernel kernel(build, Known::whole, options);
    return kernel.count(text);
  };
  const std::string whole = "wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8 ",
                    wholeMma = ".m16n8k32.row.col.s32.s8.s8.s32 ";
  for (const bool tensor : {false, true}) {
    const auto build = productOf(i8, i32, 128, tensor);
    EXPECT_EQ(count(build, "sm_90a", whole), 128 / 32);
    EXPECT_EQ(count(build, "sm_90a", "mma.sync"), 0);
    EXPECT_EQ(count(build, "sm_80", wholeMma), (128 / 32) * (64 / 16) * (128 / 8) / 4);
    EXPECT_EQ(count(build, "sm_80", "prmt"), 0);
    EXPECT_GT(count(build, "sm_80", "ldmatrix"), 0);
    for (const char* arch : {"sm_80", "sm_90a"}) expectAssembles(build, arch, Known::whole);
  }
  const std::string tf32 = "wgmma.mma_async.sync.aligned.m64n128k8.f32.tf32.tf32 ",
                    tf32Mma = ".m16n8k8.row.col.f32.tf32.tf32.f32 ";
  const DotOptions rounded{.input_precision = InputPrecision::tf32};
  for (const bool tensor : {false, true}) {
    const auto build = productOf(f32, f32, 32, tensor, rounded);
    EXPECT_EQ(count(build, "sm_90a", tf32), tensor ? 32 / 8 : 0);
    EXPECT_EQ(count(build, "sm_90a", "cvt.rna.tf32.f32") == 0, tensor);
    EXPECT_EQ(count(build, "sm_80", tf32Mma), (32 / 8) * (64 / 16) * (128 / 8) / 4);
    EXPECT_GT(count(build, "sm_80", "ldmatrix"), 0);
    for (const char* arch : {"sm_80", "sm_90a"}) expectAssembles(build, arch, Known::whole);
  }
  const PtxKernel kernel(productOf(f32, f32, 32, true, rounded), Known::whole);
  const program::TensorMap ofA{.slot = 5, .type = DType::f32, .box = {64, 32}, .swizzle = 128};
  program::TensorMap ofB{.slot = 10, .type = DType::f32, .box = {128, 32}, .swizzle = 128};
  EXPECT_EQ(kernel.artifact.maps, (std::vector{ofB, ofA}));  // in the order of the loads
  EXPECT_EQ(count(productOf(f32, f32, 32, true), "sm_90a", "mma"), 0);
}

// If the loop also writes global memory, all warps synchronise in each iteration: another thread
// may load or store in the next iteration what this one stores.
TEST(NvptxPipeline, IterationsThatStoreSynchroniseAllWarps) {
  for (const bool stores : {false, true}) {
    const auto loop = [stores](KernelBuilder& k) {
      View o = k.view("o", f32, {dyn, dyn}), a = k.view("a", bf16, {dyn, dyn}),
           b = k.view("b", bf16, {dyn, dyn});
      const Ptr seen = k.view("seen", f32, {dyn}).ptr();
      auto [out] = k.for_range(
          0, cdiv(a.dim(1), 64), 1, {.num_stages = 2, .tensor_copies = true},
          carry(k.zeros({64, 64}, f32)), [&](const Scalar& i, const Tile& out) {
            const Tile left = a.partition({64, 64}).load({0, i});
            const Tile s = dot(left, b.partition({64, 64}).load({0, i}).permute({1, 0}), out);
            if (stores) store(seen + (k.arange(64) + i.to(i32)), reduce_max(s, 1));
            return carry(s * 0.5f);
          });
      o.partition({64, 64}).store({0, 0}, out);
    };
    const PtxKernel kernel(loop, Known::whole);
    EXPECT_EQ(kernel.count("bar.arrive"), stores ? 0 : 2) << kernel.ptx;
    EXPECT_TRUE(kernel.has("cp.async.bulk.tensor.2d")) << kernel.ptx;
  }
}

// One thread starts the TMA copies of an iteration, one per panel of 128 bytes: one for a and two
// for b. Views without a tensor map use cp.async.
TEST(NvptxPipeline, TmaCopiesLoadTheOperands) {
  const auto product = [](KernelBuilder& k) {
    View c = k.view("c", f32, {dyn, dyn}), a = k.view("a", bf16, {dyn, dyn}),
         b = k.view("b", bf16, {dyn, dyn});
    const Scalar row = k.program_id(0);
    auto [sums] =
        k.for_range(0, cdiv(a.dim(1), 64), 1, {.num_stages = 3, .tensor_copies = true},
                    carry(k.zeros({64, 128}, f32)), [&](const Scalar& i, const Tile& sums) {
                      const Tile left = a.partition({64, 64}).load({row, i}),
                                 right = b.partition({64, 128}).load({i, 0});
                      return carry(dot(left, right, sums));
                    });
    c.partition({64, 128}).store({row, 0}, sums);
  };
  const PtxKernel kernel(product, Known::whole);
  const program::TensorMap of_a{.slot = 5, .type = DType::bf16, .box = {64, 64}, .swizzle = 128};
  program::TensorMap of_b = of_a;
  of_b.slot = 10;
  EXPECT_EQ(kernel.artifact.maps, (std::vector{of_a, of_b}));
  EXPECT_EQ(kernel.count("cp.async.bulk.tensor.2d"), 3 * 3)
      << kernel.ptx;  // two iterations ahead, one in the loop
  EXPECT_EQ(kernel.count("mbarrier.arrive.expect_tx"), 3) << kernel.ptx;
  EXPECT_EQ(kernel.count("cp.async.cg"), 0) << kernel.ptx;
  expectAssembles(product, "sm_90a", Known::whole);
  for (const char* arch : {"sm_80", "sm_90", "sm_100"}) {
    program::CompileOptions options;
    options.arch = arch;
    const PtxKernel other(product, Known::whole, options);
    EXPECT_TRUE(other.artifact.maps.empty()) << arch;
    EXPECT_TRUE(other.has("cp.async.cg")) << arch << other.ptx;
  }
  EXPECT_TRUE(PtxKernel(product, Known::nothing).artifact.maps.empty());
}

// TMA copies of slices along one dimension, of views with two and three dimensions. The maps have
// two more dimensions.
TEST(NvptxPipeline, TmaCopiesLoadSlices) {
  const auto product = [](KernelBuilder& k) {
    View c = k.view("c", f32, {dyn, dyn}), a = k.view("a", bf16, {dyn, dyn}),
         b = k.view("b", bf16, {dyn, dyn, dyn}), bounds = k.view("bounds", i64, {2});
    const Scalar row = k.program_id(0), begin = bounds.load({0}), end = bounds.load({1});
    const View of_a = a.slice(0, begin, end), of_b = b.slice(1, begin, end).slice(1, 3, end);
    auto [sums] =
        k.for_range(0, cdiv(a.dim(1), 64), 1, {.num_stages = 3, .tensor_copies = true},
                    carry(k.zeros({64, 128}, f32)), [&](const Scalar& i, const Tile& sums) {
                      const Tile left = of_a.partition({64, 64}).load({row, i}),
                                 right = of_b.partition({squeeze, 64, 128}).load({row, i, 0});
                      return carry(dot(left, right, sums));
                    });
    c.partition({64, 128}).store({row, 0}, sums);
  };
  const PtxKernel kernel(product, Known::whole);
  const program::TensorMap of_a{
      .slot = 5, .type = DType::bf16, .box = {64, 64}, .swizzle = 128, .sliced = 0},
      of_b{.slot = 10, .type = DType::bf16, .box = {1, 64, 64}, .swizzle = 128, .sliced = 1};
  EXPECT_EQ(kernel.artifact.maps, (std::vector{of_a, of_b}));
  EXPECT_EQ(kernel.count("cp.async.bulk.tensor.4d"), 3) << kernel.ptx;
  EXPECT_EQ(kernel.count("cp.async.bulk.tensor.5d"), 3 * 2) << kernel.ptx;
  EXPECT_EQ(kernel.count("cp.async.cg"), 0) << kernel.ptx;
  expectAssembles(product, "sm_90a", Known::whole);
}

// Two loops over segments of k, each with a ring. The rings share memory, and the accumulator stays
// in registers between the loops. No barriers are added to those of each loop: two to initialise
// mbarriers, one in its iterations, one after it.
TEST(NvptxPipeline, ConsecutiveRingsShareMemory) {
  constexpr int64_t kM = 128, kN = 256, kK = 64, kStages = 4, kSlots = kStages * (kM + kN) * kK * 2;
  const auto segments = [](int count, int64_t rows) {
    return [=](KernelBuilder& k) {
      const View c = k.view("c", f32, {dyn, dyn});
      const Scalar row = k.program_id(0);
      Tile sums = k.zeros({rows, kN}, f32);
      for (int segment = 0; segment < count; ++segment) {
        const std::string number = std::to_string(segment);
        const View a = k.view("a" + number, bf16, {dyn, dyn}),
                   b = k.view("b" + number, bf16, {dyn, dyn});
        auto [more] =
            k.for_range(0, cdiv(a.dim(1), kK), 1, {.num_stages = kStages, .tensor_copies = true},
                        carry(sums), [&](const Scalar& i, const Tile& sums) {
                          const Tile right = b.partition({kN, kK}).load({0, i}).permute({1, 0});
                          return carry(dot(a.partition({rows, kK}).load({row, i}), right, sums));
                        });
        sums = more;
      }
      c.partition({rows, kN}).store({row, 0}, sums);
    };
  };
  program::CompileOptions options;
  options.num_warps = 8;
  const PtxKernel one(segments(1, kM), Known::whole, options),
      two(segments(2, kM), Known::whole, options);
  constexpr int64_t kBarriers = kStages * 8;
  EXPECT_EQ(one.artifact.shared_bytes, kSlots + kBarriers);
  EXPECT_EQ(two.artifact.shared_bytes, kSlots + 2 * kBarriers);
  EXPECT_EQ(two.count("bar.sync"), 2 * one.count("bar.sync")) << two.ptx;
  EXPECT_EQ(two.count("wgmma.mma_async"), 2 * one.count("wgmma.mma_async"));
  EXPECT_EQ(two.count("shfl.sync"), 2 * one.count("shfl.sync")) << "only the warp's number\n"
                                                                << two.ptx;
  EXPECT_FALSE(two.has("ld.shared") || two.has("st.shared")) << two.ptx;
  expectAssembles(segments(2, kM), "sm_90a", Known::whole, 8);
  expectAssembles(segments(2, 64), "sm_80", Known::whole, 8);
}

// A buffer that is too large by itself follows a ring that fits. The error names the least memory
// that both need.
TEST(NvptxPipeline, ErrorNamesTheLeastSharedMemory) {
  const auto kernel = [](KernelBuilder& k) {
    const View c = k.view("c", f32, {dyn, dyn}), a = k.view("a", bf16, {dyn, dyn}),
               b = k.view("b", bf16, {dyn, dyn});
    auto [sums] =
        k.for_range(0, cdiv(a.dim(1), 64), 1, {.num_stages = 4, .tensor_copies = true},
                    carry(k.zeros({128, 256}, f32)), [&](const Scalar& i, const Tile& sums) {
                      const Tile right = b.partition({256, 64}).load({0, i}).permute({1, 0});
                      return carry(dot(a.partition({128, 64}).load({0, i}), right, sums));
                    });
    c.partition({128, 256}).store({0, 0}, sums);
    const View y = k.view("y", f32, {dyn, dyn}), x = k.view("x", f32, {dyn, dyn});
    y.partition({256, 256}).store({0, 0}, x.partition({256, 256}).load({0, 0}).permute({1, 0}));
  };
  constexpr int64_t kTile = 256 * (256 + 4) * 4, kBarriers = 4 * 8;
  program::CompileOptions options;
  options.num_warps = 8;
  try {
    const PtxKernel compiled(kernel, Known::whole, options);
    FAIL() << "compiled, with " << compiled.artifact.shared_bytes << " bytes of shared memory";
  } catch (const std::runtime_error& error) {
    const std::string said = "needs " + std::to_string(kTile + kBarriers) +
                             " bytes of shared memory per CTA, " + std::to_string(kTile) +
                             " of them here; sm_90a has 232448; use smaller tiles";
    EXPECT_NE(std::string(error.what()).find(said), std::string::npos) << error.what();
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
  EXPECT_NE(errorOf(options).find("num_warps is a power of two from 1 to 32, got 3"),
            std::string::npos)
      << errorOf(options);
  options.num_warps = 4;
  for (int ctas : {0, 3, 32}) {
    options.num_ctas = ctas;
    EXPECT_NE(errorOf(options).find("num_ctas is 1, 2, 4, 8 or 16, got " + std::to_string(ctas)),
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
}  // namespace ligerdsl::testing
