#include "kernels/rope/rope.h"

#include "kernels/rope/rope_reference.h"
#include "tests/kernels/shapes.h"

namespace ligerdsl::test::rope_test {
namespace {

using kernels::RopeLayout;

// Heads of one tensor: [batch, seq, heads, d] in any memory order.
struct Heads {
  Tensor all;  // [batch, seq, heads, d]
  int64_t angles;
  Tensor rotated(RopeLayout layout) const {
    const Sizes &n = all.shape(), &s = all.strides();
    if (layout == RopeLayout::interleaved) return all.view({n[0], n[1], n[2], 2 * angles}, s);
    return all.view({n[0], n[1], n[2], 2, angles}, {s[0], s[1], s[2], angles, 1});
  }
  Tensor tail() const {
    const Sizes& n = all.shape();
    return all.view({n[0], n[1], n[2], n[3] - 2 * angles}, all.strides(), 2 * angles);
  }
};

struct Case {
  int64_t batch = 1, seq = 1, q_heads = 1, k_heads = 1, d = 64;
  DType type = f32, angle_type = f32;
  bool batched_angles = false;
  bool heads_first = false;  // memory order [batch, heads, seq, d]
  RopeLayout layout = RopeLayout::half;
  int64_t rotary = 0;
  int64_t time = 0, height = 0;  // multimodal sections; the third has the other angles
  bool complex_angles = false;

  kernels::RopeOptions options() const {
    return {.type = type,
            .angle_type = angle_type,
            .q_heads = q_heads,
            .k_heads = k_heads,
            .head_dim = d,
            .rotary_dim = rotary,
            .batched_angles = batched_angles,
            .layout = layout,
            .time_section = time,
            .height_section = height,
            .complex_angles = complex_angles};
  }
  int64_t planes() const { return layout == RopeLayout::multimodal ? 3 : 1; }
};

Heads make_heads(const Case& c, int64_t heads) {
  const int64_t n = std::max<int64_t>(heads, 1);
  Sizes strides = c.heads_first ? Sizes{n * c.seq * c.d, c.d, c.seq * c.d, 1}
                                : Sizes{c.seq * n * c.d, n * c.d, c.d, 1};
  return {Tensor(c.type, {c.batch, c.seq, heads, c.d}, strides), c.options().angles()};
}

struct Trial {
  Case c;
  Heads q, k, q_out, k_out;
  Tensor cos, sin;  // [[3,] 1 or batch, seq, angles]
  Tensor table;     // cos argument of the kernel: cos itself or complex numbers

  explicit Trial(const Case& c)
      : c(c),
        q(make_heads(c, c.q_heads)),
        k(make_heads(c, c.k_heads)),
        q_out(make_heads(c, c.q_heads)),
        k_out(make_heads(c, c.k_heads)) {
    q.all.fill(Random(1).normals(q.all.size()));
    k.all.fill(Random(2).normals(k.all.size()));
    cos = make_table(1);
    sin = make_table(1);
    Random random(3);
    for (int64_t i = 0; i < cos.size(); ++i) {
      const double angle = 6.28 * random.uniform();
      cos.set(i, std::cos(angle));
      sin.set(i, std::sin(angle));
    }
    table = c.complex_angles ? make_table(2) : cos;
    for (int64_t i = 0; c.complex_angles && i < cos.size(); ++i) {
      table.set(2 * i, cos.get(i));
      table.set(2 * i + 1, sin.get(i));
    }
  }
  // Returns a table with padded rows. The elements after the angles keep their poison values.
  Tensor make_table(int64_t per_angle) const {
    const int64_t angle_batch = c.batched_angles ? c.batch : 1, row = c.d + 2;
    Sizes shape{angle_batch, c.seq, per_angle * c.options().angles()}, strides{c.seq * row, row, 1};
    if (c.planes() == 3) {
      shape.insert(shape.begin(), 3);
      strides.insert(strides.begin(), angle_batch * c.seq * row);
    }
    return Tensor(c.angle_type, shape, strides);
  }
  void run(const Heads& q_to, const Heads& k_to, const Heads& q_from, const Heads& k_from,
           double sign) {
    Arguments arguments = Arguments()
                              .tensor("q_out", q_to.rotated(c.layout))
                              .tensor("q_in", q_from.rotated(c.layout))
                              .tensor("k_out", k_to.rotated(c.layout))
                              .tensor("k_in", k_from.rotated(c.layout))
                              .tensor("q_tail_out", q_to.tail())
                              .tensor("q_tail_in", q_from.tail())
                              .tensor("k_tail_out", k_to.tail())
                              .tensor("k_tail_in", k_from.tail())
                              .tensor("cos", table)
                              .number("sign", sign);
    if (!c.complex_angles) arguments.tensor("sin", sin);
    backend().run(kernels::rope(machine(), c.options()), c.batch * c.seq, arguments);
  }
  Values expected(const Heads& x, int64_t heads, double sign) {
    RopeCase r{.batch = c.batch,
               .seq = c.seq,
               .heads = heads,
               .d = c.d,
               .rotary = c.rotary,
               .angle_batch = c.batched_angles ? c.batch : 1,
               .interleaved = c.layout == RopeLayout::interleaved,
               .sign = sign};
    if (c.planes() == 3)
      r.time = c.time, r.height = c.height, r.width = r.angles() - c.time - c.height;
    return rope_reference(x.all.values(), cos.values(), sin.values(), r);
  }
};

void run_and_check(const Case& c) {
  SCOPED_TRACE(std::string(name(c.type)) + " b" + std::to_string(c.batch) + " s" +
               std::to_string(c.seq) + " q" + std::to_string(c.q_heads) + " k" +
               std::to_string(c.k_heads) + " d" + std::to_string(c.d) + " r" +
               std::to_string(c.rotary) + " layout " + std::to_string(static_cast<int>(c.layout)));
  for (double sign : {1.0, -1.0}) {
    Trial run(c);
    const Values q = run.expected(run.q, c.q_heads, sign), k = run.expected(run.k, c.k_heads, sign);
    run.run(run.q_out, run.k_out, run.q, run.k, sign);
    EXPECT_TRUE(close(run.q_out.all.values(), q, gate_e(c.type))) << "q";
    EXPECT_TRUE(close(run.k_out.all.values(), k, gate_e(c.type))) << "k";
    EXPECT_TRUE(run.q_out.all.untouched_outside() && run.k_out.all.untouched_outside());
    run.run(run.q, run.k, run.q, run.k, sign);
    EXPECT_TRUE(run.q.all.same_bits(run.q_out.all) && run.k.all.same_bits(run.k_out.all))
        << "in place";
  }
}

TEST(Rope, HeadsAndTypes) {
  for (DType type : kFloats) {
    run_and_check({.batch = 2, .seq = 9, .q_heads = 8, .k_heads = 2, .d = 64, .type = type});
    run_and_check({.batch = 1,
                   .seq = 3,
                   .q_heads = 2,
                   .k_heads = 5,
                   .d = 92,
                   .type = type});  // more k than q
    run_and_check({.batch = 1, .seq = 3, .q_heads = 73, .k_heads = 13, .d = 8, .type = type});
    run_and_check({.batch = 1, .seq = 2, .q_heads = 2, .k_heads = 0, .d = 16, .type = type});
  }
}

TEST(Rope, OddHeadDimension) {
  run_and_check({.batch = 2, .seq = 3, .q_heads = 4, .k_heads = 3, .d = 41, .type = bf16});
  run_and_check({.batch = 1, .seq = 2, .q_heads = 1, .k_heads = 1, .d = 3, .type = f32});
}

TEST(Rope, Strides) {
  run_and_check({.batch = 2,
                 .seq = 5,
                 .q_heads = 4,
                 .k_heads = 2,
                 .d = 32,
                 .type = bf16,
                 .heads_first = true});
  run_and_check({.batch = 2,
                 .seq = 5,
                 .q_heads = 1,
                 .k_heads = 1,
                 .d = 128,
                 .type = f32,
                 .heads_first = true});
}

TEST(Rope, AngleTypesAndBatches) {
  run_and_check({.batch = 3,
                 .seq = 4,
                 .q_heads = 2,
                 .k_heads = 2,
                 .d = 16,
                 .type = bf16,
                 .batched_angles = true});
  run_and_check(
      {.batch = 2, .seq = 4, .q_heads = 2, .k_heads = 2, .d = 16, .type = f16, .angle_type = f16});
  run_and_check({.batch = 2,
                 .seq = 4,
                 .q_heads = 2,
                 .k_heads = 2,
                 .d = 16,
                 .type = bf16,
                 .angle_type = bf16});
}

TEST(Rope, WideHeadsInSeveralBlocks) {
  run_and_check({.batch = 1, .seq = 2, .q_heads = 213, .k_heads = 155, .d = 128, .type = bf16});
}

// Checks several numbers of heads, strides and dtypes in the layout of `c`.
void run_layout(Case c) {
  const auto with = [&](auto change) {
    Case changed = c;
    change(changed);
    run_and_check(changed);
  };
  for (DType type : kFloats) {
    with([&](Case& v) { v.batch = 2, v.seq = 5, v.q_heads = 8, v.k_heads = 2, v.type = type; });
    with([&](Case& v) {
      v.seq = 3, v.q_heads = 2, v.k_heads = 5, v.type = type, v.heads_first = true;
    });
    with([&](Case& v) { v.seq = 2, v.k_heads = 0, v.type = type, v.complex_angles = true; });
    with([&](Case& v) { v.seq = 2, v.type = v.angle_type = type; });
  }
  with([&](Case& v) { v.batch = 3, v.seq = 4, v.type = bf16, v.batched_angles = true; });
  with([&](Case& v) { v.batch = 2, v.seq = 3, v.batched_angles = v.complex_angles = true; });
}

TEST(Rope, Interleaved) {
  for (int64_t d : {2, 41, 128}) run_layout({.d = d, .layout = RopeLayout::interleaved});
  run_and_check({.seq = 2,
                 .q_heads = 73,
                 .k_heads = 155,
                 .d = 128,
                 .type = bf16,
                 .layout = RopeLayout::interleaved});
}

TEST(Rope, Multimodal) {
  run_layout({.d = 128,
              .layout = RopeLayout::multimodal,
              .time = 16,
              .height = 24});  // Qwen2-VL: 16, 24, 24
  run_layout({.d = 92, .layout = RopeLayout::multimodal, .time = 7, .height = 20});
  run_and_check(
      {.seq = 2, .d = 16, .layout = RopeLayout::multimodal, .time = 8});  // only a time section
  run_and_check({.seq = 2, .d = 16, .layout = RopeLayout::multimodal, .height = 3});
}

// If all three planes are the same, the sections do not change the result.
TEST(Rope, MultimodalWithEqualPlanes) {
  const Case c{.batch = 2, .seq = 3, .q_heads = 4, .k_heads = 2, .d = 32, .type = bf16};
  Case with_sections = c;
  with_sections.layout = RopeLayout::multimodal;
  with_sections.time = 4, with_sections.height = 6;
  Trial plain(c), sections(with_sections);
  for (int64_t i = 0; i < sections.cos.size(); ++i) {
    sections.cos.set(i, plain.cos.get(i % plain.cos.size()));
    sections.sin.set(i, plain.sin.get(i % plain.sin.size()));
  }
  for (Trial* t : {&plain, &sections}) t->run(t->q_out, t->k_out, t->q, t->k, 1.0);
  EXPECT_TRUE(sections.q_out.all.same_bits(plain.q_out.all) &&
              sections.k_out.all.same_bits(plain.k_out.all));
}

TEST(Rope, Partial) {
  for (RopeLayout layout : {RopeLayout::half, RopeLayout::interleaved, RopeLayout::multimodal}) {
    for (int64_t rotary : {2, 24, 25, 64}) {
      Case c{.seq = 2, .q_heads = 3, .k_heads = 2, .d = 64, .layout = layout, .rotary = rotary};
      if (layout == RopeLayout::multimodal) c.time = rotary / 4;
      rotary == 25 ? run_layout(c) : run_and_check(c);
    }
    Case wide{.seq = 2,
              .q_heads = 3,
              .k_heads = 2,
              .d = 256,
              .type = bf16,
              .layout = layout,
              .rotary = 64};
    if (layout == RopeLayout::multimodal) wide.time = wide.height = 8;
    run_and_check(wide);
  }
}

TEST(Rope, BackwardUndoesForward) {
  Trial run({.batch = 1, .seq = 6, .q_heads = 3, .k_heads = 1, .d = 64});
  run.run(run.q_out, run.k_out, run.q, run.k, 1.0);
  run.run(run.q_out, run.k_out, run.q_out, run.k_out, -1.0);
  EXPECT_TRUE(close(run.q_out.all.values(), run.q.all.values(), {1e-5, 1e-6}));
}

}  // namespace
}  // namespace ligerdsl::test::rope_test
