// Tests offsets beyond 2^31 elements: rows are far from each other in address space, and only a few
// pages are touched. On a GPU a tensor occupies 13 GB. tests/every_op tests the same for every
// operation, and tensors with more elements.
#include "kernels/cross_entropy/cross_entropy.h"
#include "kernels/elementwise/gated_activation.h"
#include "kernels/norm/rms_norm.h"
#include "kernels/softmax/softmax.h"
#include "tests/kernels/shapes.h"

namespace ligerdsl::test::large_test {
namespace {

constexpr int64_t kFar = (int64_t{1} << 31) + 8;  // elements between rows

// Returns three rows of `cols` elements with a row stride of kFar elements.
Tensor far_rows(int64_t cols) {
  return Tensor::sparse(bf16, {3, cols}, {kFar, 1});
}
Tensor far_copy(const Tensor& near) {
  return far_rows(near.shape()[1]).fill(near.values());
}

TEST(Large, Rows) {
  const int64_t h = 100;
  const Tensor x = random_rows(bf16, 3, h, 1), weight = random_vector(bf16, h, 2);
  auto norm = [&](const Tensor& from, const Tensor& to) {
    kernels::RmsNormOptions o;
    o.cols = h;
    o.type = o.weight_type = bf16;
    o.with_rstd = false;
    backend().run(kernels::rms_norm_forward(machine(), o), 3,
                  Arguments()
                      .tensor("x", from)
                      .tensor("y", to)
                      .tensor("weight", weight)
                      .number("eps", 1e-6)
                      .number("offset", 0));
  };
  Tensor near = Tensor::rows(bf16, 3, h), far = far_rows(h);
  norm(x, near);
  norm(far_copy(x), far);
  EXPECT_TRUE(far.same_bits(near));
}

TEST(Large, Elements) {
  const int64_t f = 70;
  const Tensor gate = random_rows(bf16, 3, f, 1), up = random_rows(bf16, 3, f, 2);
  auto swiglu = [&](const Tensor& a, const Tensor& b, const Tensor& to) {
    backend().run(kernels::swiglu_forward(machine(), {.cols = f, .type = bf16}), 3,
                  Arguments()
                      .tensor("gate", a)
                      .tensor("up", b)
                      .tensor("out", to)
                      .number("gate_multiplier", 1)
                      .number("down_multiplier", 1));
  };
  Tensor near = Tensor::rows(bf16, 3, f), far = far_rows(f);
  swiglu(gate, up, near);
  swiglu(far_copy(gate), far_copy(up), far);
  EXPECT_TRUE(far.same_bits(near));
}

TEST(Large, Losses) {
  for (int64_t v : affordable({50, 9000}, 3)) {
    kernels::CrossEntropyOptions o{.classes = v, .type = bf16};
    o.with_gradient = true;
    const Tensor logits = random_rows(bf16, 3, v, 1);
    const Tensor labels = Tensor(i64, {3}).fill(std::vector<int64_t>{1, v - 1, 0});
    Tensor error = Tensor(i64, {1}).fill(std::vector<int64_t>{0});
    auto loss_of = [&](const Tensor& x, const Tensor& gradient) {
      Tensor loss(f32, {1});
      backend().run(kernels::cross_entropy(machine(), o), 3,
                    Arguments()
                        .tensor("logits", x)
                        .tensor("d_logits", gradient)
                        .tensor("labels", labels)
                        .tensor("loss", loss)
                        .tensor("error", error)
                        .integer("ignore_index", -100));
      return loss.get(0);
    };
    Tensor near = Tensor::rows(bf16, 3, v), far = far_rows(v);
    EXPECT_EQ(loss_of(logits, near), loss_of(far_copy(logits), far));
    EXPECT_TRUE(far.same_bits(near));
  }
}

// Gathers and scatters elements through pointers with 64-bit offsets, as scalars and as tiles.
TEST(Large, Pointers) {
  KernelBuilder k("far_pointers");
  View from = k.view("from", f32, {dyn, dyn}), to = k.view("to", f32, {dyn, dyn});
  Tile row = k.arange(4), column = k.arange(8);
  Tile offsets = row.to(i64).expand_dims(1) * from.stride(0) + column.to(i64).expand_dims(0);
  Tile inside = (row < 3).expand_dims(1) && (column < 5).expand_dims(0);
  store(to.ptr() + offsets, load(from.ptr() + offsets, inside, 0.0f), inside);
  Scalar last = from.stride(0) * 2 + 7;
  store(to.ptr() + last, load(from.ptr() + last));
  const kernels::Step step{.program = k.finish(), .launch = kernels::library_launch(1, 4)};

  const Tensor values = random_rows(f32, 3, 8, 1);
  const Tensor source = Tensor::sparse(f32, {3, 8}, {kFar, 1}).fill(values.values());
  Tensor target = Tensor::sparse(f32, {3, 8}, {kFar, 1});
  backend().run({.steps = {step}}, 1, Arguments().tensor("from", source).tensor("to", target));
  for (int64_t i = 0; i < 24; ++i) {
    const bool copied = i % 8 < 5 || i == 23;
    EXPECT_EQ(target.get(i), copied ? values.get(i) : 0) << i;
  }
}

}  // namespace
}  // namespace ligerdsl::test::large_test
