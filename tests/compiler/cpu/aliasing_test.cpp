// Tests kernels whose output overwrites their input. Results must have the same bits as with
// separate outputs. A tile keeps its value even if a store overwrites its memory.
#include "cpu_kernel.h"

namespace ligerdsl::testing::aliasing_test {
namespace {

// Runs `build` with arguments (outputs..., inputs..., those of `more`). Outputs and inputs are
// [rows, cols] f32. Output i may overwrite input pairs[i]. Compares four runs: out of place without
// and with facts, in place without and with facts.
void checkInPlace(const std::function<void(KernelBuilder&)>& build, size_t inputs,
                  std::vector<size_t> pairs, int64_t rows, int64_t cols,
                  const std::function<void(Slots&)>& more, size_t moreArguments,
                  std::vector<int32_t> grid) {
  size_t outputs = pairs.size();
  std::vector<std::vector<float>> source;
  for (size_t i = 0; i < inputs; ++i) source.push_back(randomFloats(rows * cols, unsigned(i + 1)));
  std::vector<std::vector<float>> expected;
  for (int mode = 0; mode < 4; ++mode) {
    bool facts = mode % 2, inPlace = mode / 2;
    program::CompileOptions options;
    if (facts) {
      std::vector<uint32_t> classes(outputs + inputs + moreArguments);
      for (size_t i = 0; i < classes.size(); ++i) classes[i] = uint32_t(i + 1);
      for (size_t i = 0; i < outputs && inPlace; ++i) classes[i] = uint32_t(outputs + pairs[i] + 1);
      options = aliasing(classes);
    }
    std::vector<std::vector<float>> in = source,
                                    out(outputs, std::vector<float>(rows * cols, 7.0f));
    Slots slots;
    for (size_t i = 0; i < outputs; ++i)
      slots.view(inPlace ? in[pairs[i]].data() : out[i].data(), {rows, cols});
    for (size_t i = 0; i < inputs; ++i) slots.view(in[i].data(), {rows, cols});
    more(slots);
    CpuKernel(build, options).run(slots, grid);
    std::vector<std::vector<float>> actual;
    for (size_t i = 0; i < outputs; ++i) actual.push_back(inPlace ? in[pairs[i]] : out[i]);
    if (mode == 0) expected = actual;
    for (size_t i = 0; i < outputs; ++i)
      ASSERT_EQ(0, std::memcmp(expected[i].data(), actual[i].data(), rows * cols * sizeof(float)))
          << "output " << i << (inPlace ? " in place" : " out of place")
          << (facts ? " with facts" : "");
  }
  EXPECT_NE(expected[0], source[pairs[0]]);
}

TEST(CpuAliasing, CrossEntropyReadsItsTargetLogitBeforeOverwritingIt) {
  auto build = [](KernelBuilder& k) {
    View gradient = k.view("gradient", f32, {dyn, dyn}), logits = k.view("logits", f32, {dyn, dyn});
    View loss = k.view("loss", f32, {dyn}), labels = k.view("labels", i64, {dyn});
    Scalar row = k.program_id(0), label = labels.load({row});
    Tile x = logits.partition({squeeze, 512}).load({row, 0}, {.pad = -INFINITY});
    // This gather must not move after the store below, which may overwrite the logits.
    PtrTile at = logits.ptr() + (row.to(i64) * logits.stride(0) + (k.arange(1).to(i64) + label));
    Tile target = load(at);
    Scalar top = reduce_max(x), total = sum(exp(x - top));
    Tile p = exp(x - top) / total;
    gradient.partition({squeeze, 512})
        .store({row, 0}, p - (k.arange(512).to(i64) == label).to(f32));
    loss.partition({1}).store({row}, top + log(total) - target);
  };
  std::vector<float> loss(6);
  std::vector<int64_t> labels = {0, 511, 17, 16, 255, 480};
  std::vector<float> first;
  checkInPlace(build, 1, {0}, 6, 512,
               [&](Slots& slots) {
                 if (!first.empty())
                   EXPECT_EQ(first, loss);
                 else if (loss[0] != 0)
                   first = loss;
                 slots.view(loss.data(), {6}).view(labels.data(), {6});
               },
               2, {6});
  EXPECT_EQ(first, loss);
}

TEST(CpuAliasing, SwigluBackwardOverwritesBothInputs) {
  auto build = [](KernelBuilder& k) {
    View da = k.view("da", f32, {dyn, dyn}), db = k.view("db", f32, {dyn, dyn});
    View a = k.view("a", f32, {dyn, dyn}), b = k.view("b", f32, {dyn, dyn}),
         dc = k.view("dc", f32, {dyn, dyn});
    Scalar row = k.program_id(0);
    auto tile = [&](View v) { return v.partition({squeeze, 128}); };
    Tile x = tile(a).load({row, 0}), y = tile(b).load({row, 0}), g = tile(dc).load({row, 0}),
         s = sigmoid(x);
    tile(db).store({row, 0}, g * x * s);
    tile(da).store({row, 0}, g * y * (s + x * s * (1.0f - s)));
  };
  checkInPlace(build, 3, {0, 1}, 5, 100, [](Slots&) {}, 0, {5});
}

TEST(CpuAliasing, RopeOverwritesItsHalves) {
  auto build = [](KernelBuilder& k) {
    View out = k.view("out", f32, {dyn, dyn}), x = k.view("x", f32, {dyn, dyn}),
         angle = k.view("angle", f32, {dyn, dyn});
    Scalar row = k.program_id(0);
    Tile low = x.partition({squeeze, 32}).load({row, 0}),
         high = x.partition({squeeze, 32}).load({row, 1});
    Tile c = angle.partition({squeeze, 32}).load({row, 0}),
         s = angle.partition({squeeze, 32}).load({row, 1});
    out.partition({squeeze, 32}).store({row, 0}, low * c - high * s);
    out.partition({squeeze, 32}).store({row, 1}, high * c + low * s);
  };
  checkInPlace(build, 2, {0}, 4, 64, [](Slots&) {}, 0, {4});
}

TEST(CpuAliasing, RmsNormBackwardOverwritesItsGradient) {
  auto build = [](KernelBuilder& k) {
    View dx = k.view("dx", f32, {dyn, dyn}), dy = k.view("dy", f32, {dyn, dyn}),
         x = k.view("x", f32, {dyn, dyn});
    View w = k.view("w", f32, {dyn}), dw = k.view("dw", f32, {dyn});
    Tile weight = w.partition({256}).load({0});
    auto [sum_dw] =
        k.for_range(0, x.dim(0), 1, carry(k.zeros({256}, f32)), [&](Scalar row, Tile acc) {
          Tile v = x.partition({squeeze, 256}).load({row, 0}),
               g = dy.partition({squeeze, 256}).load({row, 0});
          Scalar r = rsqrt(sum(v * v) / 200.0f + 1e-6f);
          Tile m = g * weight;
          dx.partition({squeeze, 256}).store({row, 0}, r * (m - v * (r * r * sum(m * v) / 200.0f)));
          return carry(acc + g * v * r);
        });
    dw.partition({256}).store({0}, sum_dw);
  };
  std::vector<float> w = randomFloats(200, 9), dw(200), first;
  checkInPlace(build, 2, {0}, 7, 200,
               [&](Slots& slots) {
                 if (dw[0] != 0 && first.empty()) first = dw;
                 slots.view(w.data(), {200}).view(dw.data(), {200});
               },
               2, {1});
  EXPECT_EQ(first, dw);
}

// The first store may overwrite x with its transpose. The second store still needs the old x.
TEST(CpuAliasing, TransposeReadsItsInputAgainAfterTheStore) {
  auto build = [](KernelBuilder& k) {
    View out = k.view("out", f32, {dyn, dyn}), x = k.view("x", f32, {dyn, dyn}),
         again = k.view("again", f32, {dyn, dyn});
    Tile v = x.partition({16, 16}).load({0, 0});
    out.partition({16, 16}).store({0, 0}, v.permute({1, 0}));
    again.partition({16, 16}).store({0, 0}, v + sum(v, 0).expand_dims(0));
  };
  std::vector<float> again(256), first;
  checkInPlace(build, 1, {0}, 16, 16,
               [&](Slots& slots) {
                 if (again[0] != 0 && first.empty()) first = again;
                 slots.view(again.data(), {16, 16});
               },
               1, {1});
  EXPECT_EQ(first, again);
}

// A load after a store returns the stored value.
TEST(CpuAliasing, LoadReturnsTheValueOfAnEarlierStore) {
  CpuKernel kernel([](KernelBuilder& k) {
    View x = k.view("x", f32, {dyn}), y = k.view("y", f32, {dyn});
    auto tile = x.partition({64});
    Tile before = tile.load({0});
    tile.store({0}, before + 1.0f);
    Tile after = tile.load({0});
    tile.store({0}, after * 2.0f);
    store(x.ptr() + 5, 100.0f);
    y.partition({64}).store({0}, before + after * 10.0f + tile.load({0}) * 100.0f);
  });
  std::vector<float> x(64, 1.0f), y(64);
  kernel.run(Slots().view(x.data(), {64}).view(y.data(), {64}));
  for (int i = 0; i < 64; ++i) {
    ASSERT_EQ(x[i], i == 5 ? 100.0f : 4.0f);
    ASSERT_EQ(y[i], i == 5 ? 10021.0f : 421.0f);
  }
}

// The compiler copies a tile if a store may change its memory before its use, and a remark names
// that store.
TEST(CpuAliasing, CopyIsARemark) {
  constexpr int kLine = __LINE__ + 4;  // line of the store
  auto build = [](KernelBuilder& k) {
    View y = k.view("y", f32, {dyn}), z = k.view("z", f32, {dyn}), x = k.view("x", f32, {dyn});
    Tile t = x.partition({64}).load({0});
    y.partition({64}).store({1}, k.zeros({64}, f32));
    z.partition({64}).store({0}, t);
  };
  const std::vector<program::Remark> remarks = CpuKernel(build).artifact.remarks;
  ASSERT_EQ(remarks.size(), 1u);
  EXPECT_EQ(remarks[0].pass, "cpu-plan");
  EXPECT_EQ(remarks[0].id, "tile-copied");
  EXPECT_EQ(remarks[0].line, uint32_t(kLine - 1));
  const std::string store = "aliasing_test.cpp:" + std::to_string(kLine);
  EXPECT_NE(remarks[0].text.find(store + " may write the tile's memory"), std::string::npos)
      << remarks[0].text;
  EXPECT_TRUE(CpuKernel(build, aliasing({1, 2, 3})).artifact.remarks.empty());
}

}  // namespace
}  // namespace ligerdsl::testing::aliasing_test
