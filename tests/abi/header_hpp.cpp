// Compiles the C++ header as C++17 and later.
#include <ligerdsl/ligerdsl.hpp>

void use_hpp_header() {
  const ligerdsl::Context context = ligerdsl::Context::cpu();
  ligerdsl::RmsNormForwardDesc desc = ligerdsl::rms_norm_forward_desc();
  const ligerdsl::Buffer buffer(context, 64);
  const ligerdsl::Tensor x(buffer.data(), context.device(), LIGERDSL_F32, {4, 4});
  ligerdsl::RmsNormForwardArgs args = ligerdsl::rms_norm_forward_args();
  args.x = args.y = x;
  const ligerdsl::RmsNormForwardPlan plan(context, desc);
  plan(args);
  ligerdsl::rms_norm_forward(context, desc, args);
  const ligerdsl::CompiledKernel kernel(context, std::string());
  kernel.launch(1, {x, 1, int64_t{2}, 3.0f, nullptr});
}
