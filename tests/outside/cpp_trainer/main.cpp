// A SwiGLU network in C++17 that classifies points by quadrant. Plans are made once and executed in
// every step.
#include <cmath>
#include <cstdio>
#include <ligerdsl/ligerdsl.hpp>
#include <random>
#include <vector>

namespace {

constexpr int64_t kRows = 256, kIn = 2, kHidden = 16, kClasses = 4;

using Floats = std::vector<float>;

ligerdsl::Tensor tensor(Floats& data, std::vector<int64_t> shape) {
  return {data.data(), {LIGERDSL_CPU, 0}, LIGERDSL_F32, std::move(shape)};
}

// Computes out [n, b] = x [n, a] * w^T for w [b, a], where n is kRows.
void linear(const Floats& x, const Floats& w, Floats& out, int64_t a, int64_t b) {
  for (int64_t i = 0; i < kRows; ++i) {
    for (int64_t j = 0; j < b; ++j) {
      float sum = 0;
      for (int64_t k = 0; k < a; ++k) sum += x[i * a + k] * w[j * a + k];
      out[i * b + j] = sum;
    }
  }
}

void linear_backward(const Floats& x, const Floats& w, const Floats& d_out, Floats& d_x,
                     Floats& d_w, int64_t a, int64_t b) {
  std::fill(d_x.begin(), d_x.end(), 0.0f);
  std::fill(d_w.begin(), d_w.end(), 0.0f);
  for (int64_t i = 0; i < kRows; ++i) {
    for (int64_t j = 0; j < b; ++j) {
      for (int64_t k = 0; k < a; ++k) {
        d_x[i * a + k] += d_out[i * b + j] * w[j * a + k];
        d_w[j * a + k] += d_out[i * b + j] * x[i * a + k];
      }
    }
  }
}

struct Parameter {
  Floats value, grad, m, v;
  explicit Parameter(int64_t size, std::mt19937& random)
      : value(size), grad(size), m(size), v(size) {
    for (float& f : value) f = std::normal_distribution<float>(0.0f, 0.5f)(random);
  }
};

}  // namespace

int main() {
  const ligerdsl::Context context = ligerdsl::Context::cpu(2);
  std::mt19937 random(1);
  Floats x(kRows * kIn), gate_up(kRows * 2 * kHidden), d_gate_up(gate_up.size()),
      act(kRows * kHidden), d_act(act.size());
  Floats logits(kRows * kClasses), d_logits(logits.size()), d_x(x.size()), loss(1), accuracy(1),
      norm(1), factor(1);
  std::vector<int64_t> labels(kRows);
  for (int64_t i = 0; i < kRows; ++i) {
    for (int64_t k = 0; k < kIn; ++k)
      x[i * kIn + k] = std::uniform_real_distribution<float>(-1.0f, 1.0f)(random);
    labels[i] = (x[i * kIn] > 0) + 2 * (x[i * kIn + 1] > 0);
  }
  Parameter w_in(2 * kHidden * kIn, random), w_out(kClasses * kHidden, random);

  auto swiglu_desc = ligerdsl::swiglu_forward_desc();
  swiglu_desc.n_cols = kHidden;
  swiglu_desc.dtype = LIGERDSL_F32;
  swiglu_desc.fused = 1;
  const ligerdsl::SwigluForwardPlan swiglu(context, swiglu_desc);
  auto back_desc = ligerdsl::swiglu_backward_desc();
  back_desc.n_cols = kHidden;
  back_desc.dtype = LIGERDSL_F32;
  back_desc.fused = 1;
  const ligerdsl::SwigluBackwardPlan swiglu_backward(context, back_desc);

  const auto t_gate_up = tensor(gate_up, {kRows, 2 * kHidden}),
             t_d_gate_up = tensor(d_gate_up, {kRows, 2 * kHidden});
  const auto t_act = tensor(act, {kRows, kHidden}), t_d_act = tensor(d_act, {kRows, kHidden});
  const auto t_logits = tensor(logits, {kRows, kClasses}),
             t_d_logits = tensor(d_logits, {kRows, kClasses});
  const auto t_loss = tensor(loss, {1}), t_accuracy = tensor(accuracy, {}),
             t_norm = tensor(norm, {1}), t_factor = tensor(factor, {1});
  const ligerdsl::Tensor t_labels(labels.data(), context.device(), LIGERDSL_I64, {kRows});

  auto forward = ligerdsl::swiglu_forward_args();
  forward.gate_up = t_gate_up;
  forward.out = t_act;
  auto backward = ligerdsl::swiglu_backward_args();
  backward.gate_up = t_gate_up;
  backward.d_out = t_d_act;
  backward.d_gate_up = t_d_gate_up;
  auto entropy = ligerdsl::cross_entropy_args();
  entropy.logits = t_logits;
  entropy.labels = t_labels;
  entropy.loss = t_loss;
  entropy.accuracy = t_accuracy;
  entropy.d_logits = t_d_logits;

  float first = 0;
  for (int64_t step = 1; step <= 150; ++step) {
    linear(x, w_in.value, gate_up, kIn, 2 * kHidden);
    swiglu(forward);
    linear(act, w_out.value, logits, kHidden, kClasses);
    ligerdsl::cross_entropy(context, ligerdsl::cross_entropy_desc(), entropy);
    if (step == 1) first = loss[0];
    linear_backward(act, w_out.value, d_logits, d_act, w_out.grad, kHidden, kClasses);
    swiglu_backward(backward);
    linear_backward(x, w_in.value, d_gate_up, d_x, w_in.grad, kIn, 2 * kHidden);

    const auto g_in = tensor(w_in.grad, {2 * kHidden * kIn}),
               g_out = tensor(w_out.grad, {kClasses * kHidden});
    const ligerdsl_tensor_t list[] = {g_in.raw(), g_out.raw()};
    auto clip = ligerdsl::global_norm_args();
    clip.tensors = list;
    clip.n_tensors = 2;
    clip.norm = t_norm;
    clip.clip_factor = t_factor;
    ligerdsl::global_norm(context, ligerdsl::global_norm_desc(), clip);

    for (Parameter* p : {&w_in, &w_out}) {
      const auto size = static_cast<int64_t>(p->value.size());
      const auto value = tensor(p->value, {size}), grad = tensor(p->grad, {size}),
                 m = tensor(p->m, {size}), v = tensor(p->v, {size});
      auto adam = ligerdsl::adamw_step_args();
      adam.param = value;
      adam.grad = grad;
      adam.m = m;
      adam.v = v;
      adam.clip_factor = t_factor;
      adam.lr = 0.03f;
      adam.step = step;
      ligerdsl::adamw_step(context, ligerdsl::adamw_step_desc(), adam);
    }
  }
  std::printf("loss %.3f -> %.3f, accuracy %.3f, gradient norm %.4f\n", first, loss[0], accuracy[0],
              norm[0]);

  // A tensor of the wrong shape must throw an exception with the library's message.
  auto wrong = ligerdsl::swiglu_forward_args();
  wrong.gate_up = t_act;
  wrong.out = t_act;
  bool reported = false;
  try {
    swiglu(wrong);
  } catch (const ligerdsl::StatusError& error) {
    reported = error.status() == LIGERDSL_INVALID_SHAPE;
  }
  return loss[0] < 0.2f && accuracy[0] > 0.95f && reported ? 0 : 1;
}
