// Tests the instructions of casts, math, reductions and scans, and whole kernels.
#include "ptx_kernel.h"

namespace ligerdsl::testing::compute_test {
namespace {

auto rmsNorm(DType type, int64_t width) {
  return [=](KernelBuilder& k) {
    View y = k.view("y", type, {dyn, width}), x = k.view("x", type, {dyn, width}),
         w = k.view("w", type, {width});
    View rstd = k.view("rstd", f32, {dyn});
    Scalar eps = k.scalar("eps", f32), row = k.program_id(0);
    Tile xf = x.partition({squeeze, width}).load({row, 0}).to(f32);
    Tile wf = w.partition({width}).load({0}).to(f32);
    Scalar r = rsqrt(sum(xf * xf) / float(width) + eps);
    rstd.store({row}, r);
    y.partition({squeeze, width}).store({row, 0}, ((xf * r).to(type).to(f32) * wf).to(type));
  };
}

void swiglu(KernelBuilder& k) {
  View c = k.view("c", bf16, {dyn}), a = k.view("a", bf16, {dyn}), b = k.view("b", bf16, {dyn});
  Scalar i = k.program_id(0);
  Tile gate = a.partition({1024}).load({i}).to(f32), up = b.partition({1024}).load({i}).to(f32);
  c.partition({1024}).store({i}, (silu(gate) * up).to(bf16));
}

auto rowSoftmax(DType type, int64_t width) {
  return [=](KernelBuilder& k) {
    View y = k.view("y", type, {dyn, dyn}), x = k.view("x", type, {dyn, dyn});
    Scalar row = k.program_id(0);
    Tile t = x.partition({squeeze, width}).load({row, 0}, {.pad = -INFINITY}).to(f32);
    y.partition({squeeze, width}).store({row, 0}, softmax(t).to(type));
  };
}

TEST(NvptxCompute, RmsNormUsesWideInstructions) {
  PtxKernel kernel(rmsNorm(bf16, 4096));
  EXPECT_EQ(kernel.count("ld.global.L2::cache_hint.v4.b32"), 4) << kernel.ptx;
  EXPECT_EQ(kernel.count("ld.global.v4.b32"), 4) << "the loads of the weight have no L2 policy\n"
                                                 << kernel.ptx;
  EXPECT_EQ(kernel.count("st.global.v4.b32"), 4) << kernel.ptx;
  EXPECT_EQ(kernel.count("bar.sync"), 1) << kernel.ptx;
  EXPECT_EQ(kernel.count("shfl.sync.bfly"), 5) << kernel.ptx;
  EXPECT_EQ(kernel.count("cvt.rn.bf16x2.f32"), 16)
      << "32 elements are rounded before the weight, in pairs\n"
      << kernel.ptx;
  EXPECT_EQ(kernel.count("mul.rn.bf16x2"), 16) << "pairs are multiplied by the weight\n"
                                               << kernel.ptx;
  EXPECT_FALSE(kernel.has("cvt.rn.bf16.f32")) << kernel.ptx;
  EXPECT_FALSE(kernel.has("cvt.f32.bf16")) << "a bf16 is widened by a shift or a mask of its pair\n"
                                           << kernel.ptx;
  program::CompileOptions older;
  older.arch = "sm_80";
  EXPECT_FALSE(PtxKernel(rmsNorm(bf16, 4096), Known::aligned, older).has("mul.rn.bf16x2"))
      << "only sm_90 and later have mul.rn.bf16x2";
  EXPECT_GE(kernel.count("fma.rn.f32"), 24) << "squares are added by multiply-add\n" << kernel.ptx;
  for (DType type : {f32, bf16, f16}) expectAssemblesEverywhere(rmsNorm(type, 4096));
  for (int warps : {1, 8, 16, 32})
    expectAssembles(rmsNorm(bf16, 2048), "sm_90a", Known::aligned, warps);
}

TEST(NvptxCompute, SwigluUsesWideInstructions) {
  PtxKernel kernel(swiglu, Known::whole);
  EXPECT_EQ(kernel.count("ld.global.L2::cache_hint.v4.b32"), 2) << kernel.ptx;
  EXPECT_EQ(kernel.count("st.global.v4.b32"), 1) << kernel.ptx;
  expectAssemblesEverywhere(swiglu);
}

TEST(NvptxCompute, SoftmaxPropagatesNanAndAssembles) {
  PtxKernel kernel(rowSoftmax(bf16, 4096));
  EXPECT_GE(kernel.count("max.NaN.f32"), 16) << kernel.ptx;
  EXPECT_LE(kernel.count("bar.sync"), 3) << kernel.ptx;
  for (int64_t width : {32, 992, 4096, 5120}) expectAssembles(rowSoftmax(bf16, width), "sm_90a");
  expectAssemblesEverywhere(rowSoftmax(f32, 1024));
}

TEST(NvptxCompute, EveryElementaryFunctionAssembles) {
  for (auto function :
       {+[](const Tile& x) { return exp(x); }, +[](const Tile& x) { return exp2(x); },
        +[](const Tile& x) { return log(x); }, +[](const Tile& x) { return log2(x); },
        +[](const Tile& x) { return sqrt(x); }, +[](const Tile& x) { return rsqrt(x); },
        +[](const Tile& x) { return tanh(x); }, +[](const Tile& x) { return erf(x); },
        +[](const Tile& x) { return sigmoid(x); }, +[](const Tile& x) { return abs(x); },
        +[](const Tile& x) { return floor(x); }, +[](const Tile& x) { return ceil(x); },
        +[](const Tile& x) { return round(x); }, +[](const Tile& x) { return sin(x); },
        +[](const Tile& x) { return cos(x); }, +[](const Tile& x) { return log1p(x); },
        +[](const Tile& x) { return expm1(x); }, +[](const Tile& x) { return pow(x, abs(x)); }})
    expectAssemblesEverywhere([&](KernelBuilder& k) {
      View y = k.view("y", f32, {dyn}), x = k.view("x", f32, {dyn});
      Scalar i = k.program_id(0);
      y.partition({512}).store({i}, function(x.partition({512}).load({i})));
    });
}

// A thread calls Philox once for every four contiguous elements. Each multiplication gives its high
// and its low word.
TEST(NvptxCompute, PhiloxUsesWideMultiplications) {
  const auto words = [](DType type) {
    return [=](KernelBuilder& k) {
      View y = k.view("y", type, {dyn});
      Scalar seed = k.scalar("seed", i64), offset = k.scalar("offset", i64), i = k.program_id(0);
      const auto w = philox(seed, offset + i.to(i64) * 256 + k.arange(256).to(i64));
      const Tile interleaved = interleave(interleave(w[0], w[2]), interleave(w[1], w[3]));
      y.partition({1024}).store({i}, uniform(interleaved).to(type));
    };
  };
  for (DType type : {f32, bf16}) {
    const PtxKernel kernel(words(type), Known::aligned);
    int products = 0;  // multiplications by 0xd2511f53 and 0xcd9e8d57: 32-bit, or 64-bit with an
                       // upper half that ptxas knows to be 0
    for (const char* factor : {"-766435501", "-845247145", "3528531795", "3449720151"})
      products += kernel.count(std::string(", ") + factor + ";");
    EXPECT_EQ(products, 2 * 19) << "ten rounds have 20 multiplications, one of them by 0\n"
                                << kernel.ptx;
    EXPECT_FALSE(kernel.has("mul.hi.u32") || kernel.has("shared")) << kernel.ptx;
    expectAssemblesEverywhere(words(type));
  }
}

// Tests unsigned ops on integers, rounding of floats of every type, and atomics of both widths.
TEST(NvptxCompute, UnsignedOpsAndAtomicsAssemble) {
  const auto integers = [](DType type) {
    return [=](KernelBuilder& k) {
      View y = k.view("y", type, {dyn}), x = k.view("x", type, {dyn});
      Tile a = x.partition({512}).load({0}), b = x.partition({512}).load({1}, {.pad = 1});
      Tile c = where(ult(a, b) || uge(a, 7), udiv(a, b), urem(a, 10)) + umulhi(a, b) + lshr(a, 3);
      if (type == i32) c += bitcast(bitcast(c, f32) * 2.0f, i32);
      atomic_min(y.ptr() + k.arange(512), c,
                 a == b && (k.zeros({512}, i32) == any(a == 0).to(i32)));
      y.partition({512}).store(
          {1}, atomic_xchg(y.ptr() + k.arange(512), c) + a.to(bf16).to(f32).to(type));
    };
  };
  const auto rounding = [](DType type) {
    return [=](KernelBuilder& k) {
      View y = k.view("y", type, {dyn}), x = k.view("x", type, {dyn});
      Partition tiles = x.partition({512});
      y.partition({512}).store({0}, where(tiles.inside({1}), round(tiles.load({1})), 2.0f));
      if (type == f32) atomic_min(y.ptr(), 1.0f);
    };
  };
  for (const char* arch : {"sm_80", "sm_90a", "sm_120a"}) {
    for (DType type : {i32, i64}) expectAssembles(integers(type), arch);
    for (DType type : {f16, bf16, f32}) expectAssembles(rounding(type), arch);
  }
}

TEST(NvptxCompute, FastFunctionsAreInstructions) {
  auto apply = [](auto function) {
    return [=](KernelBuilder& k) {
      View y = k.view("y", f32, {dyn}), x = k.view("x", f32, {dyn});
      y.partition({512}).store({0}, function(x.partition({512}).load({0})));
    };
  };
  for (auto [function, instruction] :
       {std::pair(
            +[](const Tile& x) { return fast_exp(x); }, "ex2.approx.ftz.f32"),
        {+[](const Tile& x) { return fast_exp2(x); }, "ex2.approx.ftz.f32"},
        {+[](const Tile& x) { return fast_log(x); }, "lg2.approx.ftz.f32"},
        {+[](const Tile& x) { return fast_log2(x); }, "lg2.approx.ftz.f32"},
        {+[](const Tile& x) { return fast_sqrt(x); }, "sqrt.approx"},
        {+[](const Tile& x) { return fast_rsqrt(x); }, "rsqrt.approx.ftz.f32"},
        {+[](const Tile& x) { return fast_tanh(x); }, "tanh.approx.f32"}}) {
    EXPECT_EQ(PtxKernel(apply(function), Known::whole).count(instruction), 4) << instruction;
    expectAssembles(apply(function), "sm_90a");
  }
}

// Divisors of at least 1 need no scaling, so they take one instruction. Small arguments of tanh
// need no exponential.
TEST(NvptxCompute, TanhAndSigmoidDivideByOneInstruction) {
  auto apply = [](Tile (*function)(const Tile&)) {
    return [=](KernelBuilder& k) {
      View y = k.view("y", f32, {dyn}), x = k.view("x", f32, {dyn});
      y.partition({512}).store({0}, function(x.partition({512}).load({0})));
    };
  };
  PtxKernel tanhs(apply([](const Tile& x) { return tanh(x); }), Known::whole, withoutOverlap());
  PtxKernel sigmoids(apply([](const Tile& x) { return sigmoid(x); }), Known::whole,
                     withoutOverlap());
  PtxKernel magnitudes(
      apply([](const Tile& x) { return fast_div(1.0f, fma(min(abs(x), 13.0f), 0.36f, 1.0f)); }),
      Known::whole, withoutOverlap());
  EXPECT_EQ(magnitudes.count("rcp.approx.ftz.f32"), 4) << magnitudes.ptx;
  EXPECT_FALSE(magnitudes.has("div.") || magnitudes.has("rcp.approx.f32")) << magnitudes.ptx;
  // Divisors other than 1 plus a non-negative value, and exact divisions, do not use the
  // approximate reciprocal.
  const auto others = {
      apply([](const Tile& x) { return fast_div(1.0f, fma(abs(x), -0.5f, 1.0f)); }),
      apply([](const Tile& x) { return fast_div(1.0f, fma(max(x, -1.0f), 0.5f, 1.0f)); }),
      apply([](const Tile& x) { return fast_div(1.0f, 2.0f + fast_exp(x)); }),
      apply([](const Tile& x) { return fast_div(1.0f, x + fast_exp(x)); }),
      apply([](const Tile& x) { return fast_div(1.0f, fast_exp(x) + x); }),
      apply([](const Tile& x) { return fast_div(1.0f, 1.0f + x); }),
      apply([](const Tile& x) { return 1.0f / (1.0f + fast_exp(x)); })};
  for (const PtxKernel* kernel : {&tanhs, &sigmoids}) {
    EXPECT_EQ(kernel->count("rcp.approx.ftz.f32"), 4) << kernel->ptx;
    EXPECT_EQ(kernel->count("ex2.approx.ftz.f32"), 4) << kernel->ptx;
    EXPECT_FALSE(kernel->has("div.") || kernel->has("rcp.approx.f32")) << kernel->ptx;
  }
  for (const auto& other : others) {
    PtxKernel kernel(other, Known::whole, withoutOverlap());
    EXPECT_FALSE(kernel.has("rcp.approx.ftz.f32")) << kernel.ptx;
  }
  const size_t branch = tanhs.ptx.find("bra");
  EXPECT_LT(branch, tanhs.ptx.find("ex2.approx.ftz.f32")) << tanhs.ptx;
  EXPECT_FALSE(sigmoids.has("bra")) << sigmoids.ptx;
}

TEST(NvptxCompute, ElementwiseOpsOfEveryTypeAssemble) {
  for (DType type : {i8, i16, i32, i64, f16, bf16, f32})
    expectAssemblesEverywhere([=](KernelBuilder& k) {
      View y = k.view("y", type, {dyn}), x = k.view("x", type, {dyn});
      Tile a = x.partition({512}).load({0}), b = x.partition({512}).load({1});
      Tile c = where(a < b, max(a, b) - min(a, b) * a, abs(a) / b + -a);
      y.partition({512}).store({0}, where(c != a, c, b));
      y.store({512}, reduce_max(c) + sum(c));
    });
}

TEST(NvptxCompute, IndexComparisonsKeepNoIndicesInRegisters) {
  auto build = [](KernelBuilder& k) {
    View y = k.view("y", f32, {dyn, 8192}), x = k.view("x", f32, {dyn, 8192});
    Scalar row = k.program_id(0), label = k.scalar("label", i32);
    k.for_range(0, 4, 1, [&](Scalar b) {
      Tile t = x.partition({squeeze, 2048}).load({row, b});
      Tile column = (b * 2048 + k.arange(2048)).reshape({2, 1024});
      y.partition({squeeze, 2048})
          .store({row, b}, where(column == label, 0.0f, t.reshape({2, 1024})).reshape({2048}));
    });
  };
  PtxKernel kernel(build, Known::aligned, withoutOverlap());
  // Each copy of the body has 16 comparisons of one scalar with constants, and one scalar index.
  EXPECT_EQ(kernel.count("setp.eq.b32") % 16, 0) << kernel.ptx;
  EXPECT_LT(kernel.count("add.s32"), 16) << kernel.ptx;
}

TEST(NvptxCompute, DivisionIsExactUnlessFast) {
  auto quotient = [](bool fast) {
    return [=](KernelBuilder& k) {
      View y = k.view("y", f32, {dyn}), x = k.view("x", f32, {dyn});
      Tile a = x.partition({512}).load({0}), b = x.partition({512}).load({1});
      y.partition({512}).store({0}, fast ? fast_div(a, b) : a / b);
    };
  };
  EXPECT_TRUE(PtxKernel(quotient(false)).has("div.rn.f32"));
  EXPECT_FALSE(PtxKernel(quotient(true)).has("div.rn.f32"));
  EXPECT_TRUE(PtxKernel(quotient(true)).has("div.approx.f32"));
}

TEST(NvptxCompute, ContractionIsAnOption) {
  auto product = [](KernelBuilder& k) {
    View y = k.view("y", f32, {dyn}), x = k.view("x", f32, {dyn});
    Tile a = x.partition({512}).load({0}), b = x.partition({512}).load({1});
    y.partition({512}).store({0}, a * b + a);
  };
  program::CompileOptions off;
  off.contract = false;
  EXPECT_TRUE(PtxKernel(product).has("fma.rn.f32"));
  EXPECT_FALSE(PtxKernel(product, Known::aligned, off).has("fma.rn.f32"));
  EXPECT_TRUE(PtxKernel(product, Known::aligned, off).has("mul.rn.f32"))
      << "without .rn, ptxas could fuse the multiplication and the addition";
}

TEST(NvptxCompute, CastsOfEveryTypeAssemble) {
  for (DType from : {i1, i8, i16, i32, i64, f16, bf16, f32})
    for (DType to : {i8, i16, i32, i64, f16, bf16, f32})
      expectAssembles(
          [=](KernelBuilder& k) {
            View y = k.view("y", to, {dyn}), x = k.view("x", from, {dyn});
            y.partition({256}).store({0}, x.partition({256}).load({0}).to(to));
          },
          "sm_90a");
}

// fp8 casts convert two elements at a time if the GPU has the instruction and the driver's PTX
// version supports it. Loads use whole vectors.
TEST(NvptxCompute, Fp8CastsConvertPairs) {
  const auto casts = [](DType from, DType to) {
    return [=](KernelBuilder& k) {
      View y = k.view("y", to, {dyn}), x = k.view("x", from, {dyn});
      Scalar i = k.program_id(0);
      y.partition({4096}).store({i}, x.partition({4096}).load({i}).to(to));
    };
  };
  for (DType fp8 : {f8e4m3, f8e5m2}) {
    SCOPED_TRACE(name(fp8));
    for (DType other : {f32, f16, bf16}) {
      for (const char* arch : {"sm_80", "sm_89", "sm_90a", "sm_100", "sm_103", "sm_120"}) {
        for (Known known : {Known::nothing, Known::whole}) {
          expectAssembles(casts(other, fp8), arch, known);
          expectAssembles(casts(fp8, other), arch, known);
        }
      }
    }
    const std::string pair = fp8 == f8e4m3 ? "e4m3x2" : "e5m2x2";
    PtxKernel encoded(casts(f32, fp8), Known::whole, withoutOverlap());
    EXPECT_EQ(encoded.count("cvt.rn.satfinite." + pair + ".f32"), 16) << encoded.ptx;
    EXPECT_EQ(encoded.count("st.global.v4.b32"), 2) << encoded.ptx;
    PtxKernel halves(casts(f16, fp8), Known::whole, withoutOverlap());
    EXPECT_EQ(halves.count("cvt.rn.satfinite." + pair + ".f16x2"), 16) << halves.ptx;
    PtxKernel decoded(casts(fp8, f32), Known::whole, withoutOverlap());
    EXPECT_EQ(decoded.count("cvt.rn.f16x2." + pair), 16) << decoded.ptx;
    EXPECT_EQ(decoded.count("v4.b32"), 2 + 8) << decoded.ptx;
    EXPECT_FALSE(PtxKernel(casts(fp8, f16), Known::whole, withoutOverlap()).has(".f32"));
    for (const auto& [arch, ptx] : {std::pair{"sm_86", 90}, {"sm_90a", 80}}) {
      program::CompileOptions old;
      old.arch = arch;
      old.ptx_version = ptx;
      PtxKernel formulas(casts(f32, fp8), Known::whole, old);
      EXPECT_FALSE(formulas.has("satfinite")) << formulas.ptx;
    }
  }
}

TEST(NvptxCompute, ReductionsOfEveryShapeAssemble) {
  for (int axis : {0, 1})
    for (int64_t rows : {1, 4, 64})
      for (int64_t columns : {8, 96, 256})
        expectAssembles(
            [=](KernelBuilder& k) {
              View y = k.view("y", f32, {dyn}), x = k.view("x", f32, {dyn, dyn});
              Tile t = x.partition({rows, columns}).load({0, 0});
              y.partition({axis == 0 ? columns : rows})
                  .store({0}, sum(t, axis) + reduce_max(t, axis));
            },
            "sm_90a");
}

TEST(NvptxCompute, ArgmaxAndCustomReductionsAssemble) {
  auto welford = [](KernelBuilder& k) {
    View y = k.view("y", f32, {dyn}), index = k.view("index", i32, {dyn}),
         x = k.view("x", f32, {dyn, dyn});
    Scalar row = k.program_id(0);
    Tile t = x.partition({squeeze, 2048}).load({row, 0});
    auto [mean, m2, n] = reduce(
        {t, t - t, k.ones({2048}, f32)},
        [](Scalar ma, Scalar sa, Scalar na, Scalar mb, Scalar sb, Scalar nb) {
          Scalar total = na + nb, delta = mb - ma;
          return carry(ma + delta * nb / total, sa + sb + delta * delta * na * nb / total, total);
        });
    y.store({row}, mean + m2 / n);
    index.store({row}, argmax(t));
  };
  expectAssemblesEverywhere(welford);
}

TEST(NvptxCompute, ScansAssemble) {
  for (bool reverse : {false, true})
    for (int64_t width : {64, 1024, 3 * 128})
      expectAssembles(
          [=](KernelBuilder& k) {
            View y = k.view("y", f32, {dyn, dyn}), x = k.view("x", f32, {dyn, dyn});
            y.partition({2, width})
                .store({0, 0}, cumsum(x.partition({2, width}).load({0, 0}), 1, reverse));
          },
          "sm_90a");
}

TEST(NvptxCompute, ShapeOpsMoveTilesBetweenLayouts) {
  expectAssemblesEverywhere([](KernelBuilder& k) {
    View y = k.view("y", bf16, {dyn, dyn}), x = k.view("x", bf16, {dyn, dyn});
    Tile t = x.partition({64, 32}).load({0, 0});
    y.partition({32, 64}).store({0, 0}, permute(t, {1, 0}));
    y.partition({16, 128}).store({1, 0}, reshape(t, {16, 128}));
  });
}

}  // namespace
}  // namespace ligerdsl::testing::compute_test
