// What one execute costs on the host, the driver's own calls included: RMSNorm (one launch) and its backward (two).
//
//   execute_time [calls]      JSON on stdout, one object a line: what was built, then nanoseconds per call
//
// The driver is the one that LIGERDSL_LIBCUDA names, else the GPU's. With the tests' stand-in (libfake_cuda.so) the
// time is nearly all the library's, and so are the instructions that this counts:
//   LIGERDSL_LIBCUDA=... valgrind --tool=callgrind --toggle-collect=ligerdsl_rms_norm_forward_execute execute_time 100
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ligerdsl/ligerdsl.hpp>

namespace {

using namespace ligerdsl;

struct Remote {
  Remote(const Context& context, int32_t dtype, std::vector<int64_t> shape)
      : buffer(context, 1 << 20), tensor(buffer.data(), {LIGERDSL_CUDA, 0}, dtype, std::move(shape)) {}
  operator const ligerdsl_tensor_t*() const { return tensor; }
  Buffer buffer;
  Tensor tensor;
};

template <class Call>
void report(const char* name, int calls, const Context& context, Call call) {
  for (int i = 0; i < 10; ++i) call();
  context.synchronize();
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) call();
  const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - begin;
  context.synchronize();
  std::printf("{\"execute\": \"%s\", \"calls\": %d, \"ns\": %.1f}\n", name, calls, taken.count() / calls);
}

void run(int calls) {
  const Context context = Context::cuda(0);
  const int64_t rows = 16, cols = 64;
  const auto f32 = [&](std::vector<int64_t> shape) { return Remote(context, LIGERDSL_F32, std::move(shape)); };
  const Remote x = f32({rows, cols}), y = f32({rows, cols}), d_y = f32({rows, cols}), d_x = f32({rows, cols});
  const Remote weight = f32({cols}), d_weight = f32({cols}), rstd = f32({rows});

  RmsNormForwardDesc forward_desc = rms_norm_forward_desc();
  forward_desc.n_cols = cols;
  forward_desc.dtype = forward_desc.weight_dtype = LIGERDSL_F32;
  forward_desc.with_rstd = 1;
  const RmsNormForwardPlan forward(context, forward_desc);
  RmsNormForwardArgs forward_args = rms_norm_forward_args();
  forward_args.x = x;
  forward_args.weight = weight;
  forward_args.y = y;
  forward_args.rstd = rstd;
  report("rms_norm_forward", calls, context, [&] { forward(forward_args); });

  RmsNormBackwardDesc backward_desc = rms_norm_backward_desc();
  backward_desc.n_cols = cols;
  backward_desc.dtype = backward_desc.weight_dtype = backward_desc.d_weight_dtype = LIGERDSL_F32;
  const RmsNormBackwardPlan backward(context, backward_desc);
  const Buffer workspace(context, backward.workspace_bytes(rows) + 256);
  void* aligned = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(workspace.data()) + 255) / 256 * 256);
  RmsNormBackwardArgs backward_args = rms_norm_backward_args();
  backward_args.d_y = d_y;
  backward_args.x = x;
  backward_args.weight = weight;
  backward_args.rstd = rstd;
  backward_args.d_x = d_x;
  backward_args.d_weight = d_weight;
  report("rms_norm_backward", calls, context, [&] { backward(backward_args, aligned, workspace.bytes() - 256); });
}

}  // namespace

int main(int argc, char** argv) {
  try {
    std::printf("{\"build\": \"%s\"}\n", ligerdsl_build_info());
    run(argc > 1 ? std::atoi(argv[1]) : 20000);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "execute_time: %s\n", error.what());
    return 1;
  }
}
