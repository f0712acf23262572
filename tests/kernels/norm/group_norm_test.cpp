#include "kernels/norm/group_norm.h"

#include <cmath>

#include "tests/kernels/shapes.h"
#include "tests/support/reference_call.h"

namespace ligerdsl::test::group_norm_test {
namespace {

using kernels::GroupNormOptions;
using kernels::LayerNormGradients;

constexpr double kEps = 1e-6f;

struct Case {
  GroupNormOptions options;
  int64_t n = 1;
  int64_t gap = 0;             // elements between batches
  double mean = 0, scale = 1;  // distribution of x
  MetaValues config = {};      // schedule of the backward
  MetaValues forward_config = {};
};

std::string describe(const Case& c) {
  const auto& o = c.options;
  const auto text = [](int64_t n) { return std::to_string(n); };
  return std::string(name(o.type)) + " weight " + name(o.weight_type) + " " + text(c.n) + "x" +
         text(o.channels) + "x" + text(o.positions) + " groups " + text(o.groups) + " gap " +
         text(c.gap) + (o.without_d_x ? " without d_x" : "");
}

struct Trial {
  Case c;
  Tensor x, y, weight, bias, mean, rstd, d_y, d_x, d_weight, d_bias;

  explicit Trial(const Case& c) : c(c) {
    const auto& o = c.options;
    const int64_t batch = o.channels * o.positions;
    x = Tensor::rows(o.type, c.n, batch, c.gap)
            .fill(Random(1).normals(c.n * batch, c.scale, c.mean));
    y = Tensor::rows(o.type, c.n, batch, c.gap);
    d_y = random_rows(o.type, c.n, batch, 2, c.gap);
    d_x = Tensor::rows(o.type, c.n, batch, c.gap);
    weight = random_vector(o.weight_type, o.channels, 3, 0.5, 1.0);
    bias = random_vector(o.weight_type, o.channels, 4);
    if (o.without_bias) bias.fill(Values(o.channels, 0.0));
    mean = Tensor(f32, {c.n * o.groups});
    rstd = Tensor(f32, {c.n * o.groups});
    d_weight = random_vector(o.d_weight_type, o.channels, 5);
    d_bias = random_vector(o.d_weight_type, o.channels, 6);
  }
  Arguments common() const {
    return Arguments()
        .tensor("weight", weight)
        .tensor("bias", bias)
        .tensor("mean", mean)
        .tensor("rstd", rstd);
  }
  // Returns the kernels' view of a tensor [n, C S].
  Tensor rows(const Tensor& t) const {
    const auto& o = c.options;
    return t.view({c.n, o.groups, o.row()}, {t.strides()[0], o.row(), 1});
  }
  Tensor tiles(const Tensor& t) const {
    const auto& o = c.options;
    const int64_t channels = o.channels_of_group(), batch = t.strides()[0];
    if (o.positions == 1)
      return t.view({c.n, o.groups, 1, channels}, {batch, channels, channels, 1});
    return t.view({c.n, o.groups, channels, o.positions}, {batch, o.row(), o.positions, 1});
  }
  void forward() {
    const auto& kernel = kernels::group_norm_forward_kernel;
    const auto config = kernel.chosen(machine(), c.options, c.forward_config);
    backend().run(kernel.build(machine(), c.options, config), c.n,
                  common().number("eps", kEps).tensor("x", rows(x)).tensor("y", rows(y)));
  }
  void backward(const Tensor& to) {
    const auto& kernel = kernels::group_norm_backward_kernel;
    const auto config = kernel.chosen(machine(), c.options, c.config);
    backend().run(kernel.build(machine(), c.options, config), c.n,
                  common()
                      .tensor("d_y", tiles(d_y))
                      .tensor("x", tiles(x))
                      .tensor("d_x", tiles(to))
                      .tensor("d_weight", d_weight)
                      .tensor("d_bias", d_bias));
  }
  // Returns the sizes and numbers of the call, by name.
  std::map<std::string, double> numbers() const {
    return {{"N", c.n},
            {"C", c.options.channels},
            {"K", c.options.groups},
            {"S", c.options.positions},
            {"eps", kEps}};
  }

  void check_forward() {
    const auto& o = c.options;
    const auto right =
        expected_of("group_norm_forward", numbers(),
                    {{"x", x.values()}, {"weight", weight.values()}, {"bias", bias.values()}});
    forward();
    EXPECT_TRUE(close(y.values(), right.at("y"), gate_e(o.type))) << "y";
    if (o.with_mean) {
      EXPECT_TRUE(close(mean.values(), right.at("mean"), gate_e(f32))) << "mean";
    }
    if (o.with_rstd) {
      EXPECT_TRUE(close(rstd.values(), right.at("rstd"), gate_e(f32))) << "rstd";
    }
    mean.fill(right.at("mean"));
    rstd.fill(right.at("rstd"));
    for (const Tensor& t : {y, mean, rstd, x}) EXPECT_TRUE(t.untouched_outside());
  }
  void check_sums(const char* name, const Tensor& is, const Tensor& before, bool wanted,
                  Values sums) const {
    if (!wanted) {
      EXPECT_TRUE(is.same_bits(before)) << name;
      return;
    }
    for (int64_t j = 0; c.options.accumulate && j < before.size(); ++j) sums[j] += before.get(j);
    const double gate =
        gate_r(c.options.d_weight_type, c.n * c.options.positions) * backend().summation_slack();
    EXPECT_TRUE(close_normwise(is.values(), sums, gate)) << name;
  }
  void check_backward() {
    const auto& o = c.options;
    const auto g = expected_of("group_norm_backward", numbers(),
                               {{"d_y", d_y.values()},
                                {"x", x.values()},
                                {"weight", weight.values()},
                                {"mean", mean.values()},
                                {"rstd", rstd.values()}},
                               {"d_weight", "d_bias"});
    const Tensor nothing = d_x.clone(), weight_before = d_weight.clone(),
                 bias_before = d_bias.clone();
    backward(d_x);
    if (o.without_d_x) {
      EXPECT_TRUE(d_x.same_bits(nothing)) << "d_x";
    } else if (o.row() <= 2) {  // d_x's terms nearly cancel: the error is relative to the terms
      for (int64_t i = 0; i < d_x.size(); ++i) {
        const double scale = rstd.get(i / o.row()) * (std::fabs(d_y.get(i) * 3) + 1);
        EXPECT_NEAR(d_x.get(i), g.at("d_x")[i], gate_e(o.type).rtol * scale)
            << "d_x, element " << i;
      }
    } else {
      EXPECT_TRUE(close(d_x.values(), g.at("d_x"), gate_e(o.type))) << "d_x";
    }
    const bool weight_wanted = o.want_d_weight && o.gradients != LayerNormGradients::bias;
    if (o.row() > 1 || !weight_wanted)  // else exactly 0
      check_sums("d_weight", d_weight, weight_before, weight_wanted, g.at("d_weight"));
    check_sums("d_bias", d_bias, bias_before,
               o.want_d_weight && o.gradients != LayerNormGradients::weight, g.at("d_bias"));
    for (const Tensor& t : {d_x, d_weight, d_bias, d_y}) EXPECT_TRUE(t.untouched_outside());
  }
};

void run_and_check(const Case& c) {
  SCOPED_TRACE(describe(c));
  Trial run(c);
  run.check_forward();
  run.check_backward();
}

struct Shape4 {
  int64_t n, channels, groups, positions;
};

GroupNormOptions options_of(const Shape4& s, DType type) {
  GroupNormOptions o;
  o.channels = s.channels;
  o.groups = s.groups;
  o.positions = s.positions;
  o.type = o.weight_type = type;
  return o;
}

std::vector<Shape4> affordable(const std::vector<Shape4>& shapes) {
  std::vector<Shape4> out;
  for (const Shape4& s : shapes)
    if (s.n * s.channels * s.positions <= backend().budget()) out.push_back(s);
  return out;
}

// Cases: one or many positions, one or all channels per group, odd and prime numbers of each.
TEST(GroupNorm, ShapesAndTypes) {
  int64_t number = 0;
  const std::vector<Shape4> shapes = affordable({{1, 1, 1, 3},
                                                 {1, 32, 32, 4},
                                                 {5, 8, 2, 1},
                                                 {3, 64, 8, 1},
                                                 {7, 48, 12, 1},
                                                 {3, 63, 21, 5},
                                                 {2, 20, 2, 49},
                                                 {2, 10, 2, 100},
                                                 {3, 40, 4, 64},
                                                 {2, 6, 3, 33},
                                                 {1, 7, 7, 131},
                                                 {2, 16, 1, 24},
                                                 {1, 4, 2, 4096},
                                                 {2, 5, 1, 1000},
                                                 {1, 3, 1, 5003},
                                                 {1, 20, 2, 4096},
                                                 {1, 2, 1, 20480},
                                                 {1, 4, 1, 33000}});
  for (const auto& [s, type] : values_and_types(shapes, kFloats))
    run_and_check({.options = options_of(s, type), .n = s.n, .gap = gap_of(number++)});
}

TEST(GroupNorm, GroupsSharedByCtas) {
  for (const Shape4& s :
       affordable({{2, 4, 1, 16384}, {1, 20, 1, 4096}, {1, 8, 1, 16384}, {1, 40004, 1, 1}}))
    for (DType type : {f32, bf16})
      run_and_check({.options = options_of(s, type), .n = s.n, .gap = 8});
}

MetaValues in_parts(int parts, int vectors = 1) {
  return {{"parts", std::to_string(parts)}, {"part_vectors", std::to_string(vectors)}};
}

// Two launches compute a group in parts. Cases: several channels per part, several parts per
// channel, blocks that divide neither.
TEST(GroupNorm, GroupsInParts) {
  int64_t number = 0;
  for (const auto& [s, parts] : {std::pair{Shape4{2, 4, 2, 64}, 2},
                                 {{3, 24, 2, 16}, 2},
                                 {{1, 8, 2, 2048}, 8},
                                 {{2, 20, 2, 512}, 4},
                                 {{1, 4, 1, 5120}, 4},
                                 {{5, 512, 2, 1}, 8},
                                 {{2, 2, 2, 7168}, 16}}) {
    if (s.n * s.channels * s.positions > backend().budget()) continue;
    for (DType type : kFloats) {
      for (int vectors : {1, 4}) {
        Case c{.options = options_of(s, type), .n = s.n, .gap = gap_of(number++)};
        c.forward_config = in_parts(parts, vectors);
        c.options.without_bias = number % 3 == 0;
        c.options.with_mean = number % 4 != 0;
        c.options.with_rstd = number % 5 != 0;
        SCOPED_TRACE(describe(c));
        Trial(c).check_forward();
      }
    }
  }
}

// There are many small batches: several per tile, and more batches than programs.
TEST(GroupNorm, ManyBatches) {
  for (const Shape4& s : {Shape4{5003, 8, 2, 1},
                          {1201, 32, 4, 1},
                          {611, 12, 3, 4},
                          {67, 20, 10, 16},
                          {301, 9, 9, 3},
                          {41, 6, 2, 130}}) {
    Shape4 few = s;
    few.n = std::min<int64_t>(s.n, backend().budget() / (s.channels * s.positions));
    for (DType type : {f32, bf16}) run_and_check({.options = options_of(few, type), .n = few.n});
  }
}

// The kernel of d_x or a separate launch adds a channel's partial sums.
TEST(GroupNorm, ByPartsOfChannels) {
  int64_t number = 0;
  for (const Shape4& s :
       affordable({{2, 20, 2, 1024}, {3, 4, 2, 600}, {1, 300, 1, 520}, {2, 8, 8, 100}})) {
    for (DType type : kFloats) {
      for (const char* tiles : {"1", "2"}) {
        Case c{.options = options_of(s, type), .n = s.n, .gap = gap_of(number++)};
        c.config = {{"by", "channels"},          {"rows", "1"},
                    {"num_warps", "1"},          {"vectors", "1"},
                    {"num_ctas", "1"},           {"late_sums", "false"},
                    {"tiles_per_program", tiles}};
        run_and_check(c);
      }
    }
  }
}

// by=channels computes the same d_x as by=groups.
TEST(GroupNorm, ByChannels) {
  int64_t number = 0;
  for (const Shape4& s : affordable({{3, 160, 4, 1},
                                     {5, 48, 3, 4},
                                     {2, 20, 2, 49},
                                     {2, 5, 1, 1000},
                                     {2, 4, 2, 4096},
                                     {1, 600, 1, 7}})) {
    for (DType type : kFloats) {
      for (auto gradients :
           {LayerNormGradients::both, LayerNormGradients::weight, LayerNormGradients::bias}) {
        Case c{.options = options_of(s, type), .n = s.n, .gap = gap_of(number++)};
        c.options.gradients = gradients;
        c.config = {{"by", "channels"}, {"rows", "1"},     {"num_warps", "1"},
                    {"vectors", "1"},   {"num_ctas", "1"}, {"late_sums", "false"}};
        run_and_check(c);
        c.options.want_d_weight = false;
        run_and_check(c);
      }
    }
  }
}

TEST(GroupNorm, Options) {
  const std::vector<Shape4> shapes{{5, 24, 4, 1}, {3, 12, 4, 50}, {2, 6, 2, 16}};
  const std::vector<bool> flags{false, true};
  const std::vector<LayerNormGradients> all_gradients{
      LayerNormGradients::both, LayerNormGradients::weight, LayerNormGradients::bias};
  for (const auto& [type, s, wide_weight, gradients] :
       combinations(kFloats, shapes, flags, all_gradients)) {
    const DType weight_type = wide_weight ? f32 : type;
    Case c{.options = options_of(s, type), .n = s.n, .gap = 3};
    c.options.weight_type = weight_type;
    c.options.gradients = gradients;
    c.options.without_bias = gradients == LayerNormGradients::weight;
    c.options.with_mean = gradients != LayerNormGradients::bias;
    c.options.with_rstd = gradients != LayerNormGradients::weight;
    c.options.accumulate = gradients == LayerNormGradients::both;
    c.options.d_weight_type = c.options.accumulate ? f32 : weight_type;
    run_and_check(c);
    c.options.want_d_weight = false;
    run_and_check(c);
    c.options.want_d_weight = c.options.without_d_x = true;
    run_and_check(c);
  }
}

TEST(GroupNorm, WithoutDx) {
  int64_t number = 0;
  for (const Shape4& s : affordable(
           {{401, 24, 4, 1}, {33, 63, 21, 5}, {3, 2, 1, 5000}, {5, 320, 32, 49}, {2, 3, 3, 1}}))
    for (DType type : kFloats) {
      Case c{.options = options_of(s, type), .n = s.n, .gap = gap_of(number++)};
      c.options.without_d_x = true;
      run_and_check(c);
    }
}

// A mean much larger than the deviations does not reduce the accuracy of y.
TEST(GroupNorm, LargeMeans) {
  for (const Shape4& s : affordable({{3, 8, 2, 25}, {2, 4, 2, 2048}, {1, 2, 1, 16500}})) {
    for (auto [type, mean] : {std::pair{f32, 1e4}, {f32, -3e5}, {f16, 300.0}, {bf16, -50.0}}) {
      Case c{.options = options_of(s, type), .n = s.n, .mean = mean};
      SCOPED_TRACE(describe(c));
      Trial(c).check_forward();
      if (s.positions % 64 != 0) continue;
      c.forward_config = in_parts(4);
      Trial(c).check_forward();
    }
  }
}

TEST(GroupNorm, ConstantGroups) {
  Trial run({.options = options_of({2, 6, 3, 50}, f32), .n = 2, .mean = 7.3, .scale = 0});
  run.forward();
  for (int64_t i = 0; i < 600; ++i) ASSERT_NEAR(run.y.get(i), run.bias.get(i / 50 % 6), 1e-4);
}

// A NaN or an infinity affects only its group.
TEST(GroupNorm, NotFinite) {
  for (double odd : {static_cast<double>(INFINITY), std::nan("")}) {
    Trial run({.options = options_of({2, 6, 3, 50}, f32), .n = 2});
    run.x.set(205, odd);
    run.forward();
    for (int64_t i = 0; i < 600; ++i) ASSERT_EQ(std::isnan(run.y.get(i)), i / 100 == 2) << i;
  }
}

TEST(GroupNorm, NoBatches) {
  for (int64_t positions : {1, 40}) {
    for (bool accumulate : {false, true}) {
      Case c{.options = options_of({0, 6, 3, positions}, f32), .n = 0};
      c.options.accumulate = accumulate;
      Trial run(c);
      const Values before = run.d_weight.values();
      run.forward();
      run.backward(run.d_x);
      EXPECT_EQ(run.d_weight.values(), accumulate ? before : Values(6, 0.0));
    }
  }
}

TEST(GroupNorm, InPlaceAndRepeatedRunsAreBitEqual) {
  for (const Shape4& s : affordable({{5, 240, 4, 1}, {2, 6, 2, 200}, {1, 4, 1, 8200}})) {
    for (DType type : kFloats) {
      for (bool channels : {false, true}) {
        Case c{.options = options_of(s, type), .n = s.n, .gap = 8};
        if (channels)
          c.config = {{"by", "channels"}, {"rows", "1"},     {"num_warps", "1"},
                      {"vectors", "1"},   {"num_ctas", "1"}, {"late_sums", "false"}};
        Trial separate(c), over(c);
        separate.check_forward();
        over.check_forward();
        separate.backward(separate.d_x);
        over.backward(over.d_y);
        EXPECT_TRUE(over.d_y.same_bits(separate.d_x)) << describe(c);
        EXPECT_TRUE(over.d_weight.same_bits(separate.d_weight) &&
                    over.d_bias.same_bits(separate.d_bias))
            << describe(c);
      }
    }
  }
}

}  // namespace
}  // namespace ligerdsl::test::group_norm_test
