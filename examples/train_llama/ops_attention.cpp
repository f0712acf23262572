// Attention over sequences of one length, and over sequences of different lengths.
#include "ops_impl.h"

namespace train {
namespace {

// Sets the arguments that both kinds of attention operations have.
template <class Desc, class Args>
void set_attention(Arguments& tensor, Desc& desc, Args& args, const Ops::Heads& in, const Tensor& o,
                   const Tensor& lse, double scale) {
  desc.causal = 1;
  desc.scale = static_cast<float>(scale);
  args.q = tensor(in.q);
  args.k = tensor(in.k);
  args.v = tensor(in.v);
  args.o = tensor(o);
  args.lse = tensor(lse);
}

template <class Args>
void set_gradients(Arguments& tensor, Args& args, const Ops::Heads& d_in, const Tensor& d_o) {
  args.d_o = tensor(d_o);
  args.d_q = tensor(d_in.q);
  args.d_k = tensor(d_in.k);
  args.d_v = tensor(d_in.v);
}

}  // namespace

void Ops::attention(const Tensor& o, const Tensor& lse, const Heads& in, double scale) {
  Arguments tensor(impl_->device);
  ligerdsl_attention_forward_desc_t desc = LIGERDSL_ATTENTION_FORWARD_DESC_INIT;
  ligerdsl_attention_forward_args_t args = LIGERDSL_ATTENTION_FORWARD_ARGS_INIT;
  set_attention(tensor, desc, args, in, o, lse, scale);
  impl_->run(desc, args);
}

void Ops::attention_backward(const Heads& d_in, const Tensor& d_o, const Tensor& o,
                             const Tensor& lse, const Heads& in, double scale) {
  Arguments tensor(impl_->device);
  ligerdsl_attention_backward_desc_t desc = LIGERDSL_ATTENTION_BACKWARD_DESC_INIT;
  ligerdsl_attention_backward_args_t args = LIGERDSL_ATTENTION_BACKWARD_ARGS_INIT;
  set_attention(tensor, desc, args, in, o, lse, scale);
  set_gradients(tensor, args, d_in, d_o);
  impl_->run(desc, args);
}

}  // namespace train
