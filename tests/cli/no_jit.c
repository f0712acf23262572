/* no_jit cpu|cuda: plans and executes in a context that must not compile. Exit code 1, with the
 * library's message on stdout, if a plan cannot be made; 2 for any other failure. */
#include <ligerdsl/ligerdsl.h>
#include <stdio.h>
#include <string.h>

enum { kRows = 3, kCols = 64, kClasses = 48, kElements = kRows * kClasses };

static int failed(int code) {
  puts(ligerdsl_last_error());
  return code;
}

/* Runs out = a + b and, on a CPU, checks the result. */
static int add(ligerdsl_context_t context, int on_cpu) {
  ligerdsl_vector_add_desc_t desc = LIGERDSL_VECTOR_ADD_DESC_INIT;
  ligerdsl_vector_add_args_t args = LIGERDSL_VECTOR_ADD_ARGS_INIT;
  const ligerdsl_device_t device = {on_cpu ? LIGERDSL_CPU : LIGERDSL_CUDA, 0};
  float values[kElements];
  int64_t shape[1] = {kElements};
  void* memory[3];
  ligerdsl_tensor_t tensors[3];
  ligerdsl_plan_t plan;
  int i;
  desc.dtype = LIGERDSL_F32;
  if (ligerdsl_vector_add_plan(context, &desc, &plan)) return failed(1);
  for (i = 0; i < kElements; ++i) values[i] = (float)i;
  for (i = 0; i < 3; ++i) {
    if (ligerdsl_buffer_alloc(context, sizeof values, &memory[i])) return failed(2);
    if (ligerdsl_buffer_copy(context, memory[i], values, sizeof values, NULL)) return failed(2);
    tensors[i] = ligerdsl_tensor_make(memory[i], device, LIGERDSL_F32, 1, shape);
  }
  args.a = &tensors[0];
  args.b = &tensors[1];
  args.out = &tensors[2];
  if (ligerdsl_vector_add_execute(plan, &args, NULL, 0, NULL)) return failed(2);
  if (ligerdsl_buffer_copy(context, values, memory[2], sizeof values, NULL)) return failed(2);
  if (ligerdsl_stream_sync(context, NULL)) return failed(2);
  for (i = 0; on_cpu && i < kElements; ++i) {
    if (values[i] == (float)(2 * i)) continue;
    printf("out[%d] is %g\n", i, (double)values[i]);
    return 2;
  }
  for (i = 0; i < 3; ++i) {
    if (ligerdsl_buffer_free(context, memory[i])) return failed(2);
  }
  ligerdsl_plan_destroy(plan);
  return 0;
}

/* Makes plans whose descriptions hold fractions, types and flags; one of them has several kernels.
 */
static int others(ligerdsl_context_t context) {
  ligerdsl_rms_norm_forward_desc_t norm = LIGERDSL_RMS_NORM_FORWARD_DESC_INIT;
  ligerdsl_rms_norm_backward_desc_t gradient = LIGERDSL_RMS_NORM_BACKWARD_DESC_INIT;
  ligerdsl_fused_linear_cross_entropy_desc_t head = LIGERDSL_FUSED_LINEAR_CROSS_ENTROPY_DESC_INIT;
  ligerdsl_plan_t plan;
  norm.n_cols = kCols;
  norm.dtype = LIGERDSL_BF16;
  norm.casting = LIGERDSL_CASTING_NONE;
  norm.eps = 1.00000001e-5f;
  norm.offset = 1.0f / 3;
  if (ligerdsl_rms_norm_forward_plan(context, &norm, &plan)) return failed(1);
  ligerdsl_plan_destroy(plan);
  gradient.n_cols = 2048;
  gradient.dtype = gradient.weight_dtype = LIGERDSL_BF16;
  gradient.d_weight_dtype = LIGERDSL_F32;
  if (ligerdsl_rms_norm_backward_plan(context, &gradient, &plan)) return failed(1);
  ligerdsl_plan_destroy(plan);
  head.n_classes = kClasses;
  head.n_cols = kCols;
  head.dtype = LIGERDSL_BF16;
  head.label_dtype = LIGERDSL_I32;
  head.d_weight_dtype = LIGERDSL_BF16;
  head.with_d_x = 1;
  head.label_smoothing = 0.1f;
  if (ligerdsl_fused_linear_cross_entropy_plan(context, &head, &plan)) return failed(1);
  ligerdsl_plan_destroy(plan);
  return 0;
}

int main(int argc, char** argv) {
  ligerdsl_context_config_t config = LIGERDSL_CONTEXT_CONFIG_INIT;
  const int on_cpu = argc == 2 && strcmp(argv[1], "cpu") == 0;
  ligerdsl_context_t context;
  int code;
  config.device.type = on_cpu ? LIGERDSL_CPU : LIGERDSL_CUDA;
  config.flags = LIGERDSL_CTX_NO_JIT;
  if (ligerdsl_context_create(&config, &context)) return failed(2);
  code = add(context, on_cpu);
  if (code == 0) code = others(context);
  ligerdsl_context_destroy(context);
  return code;
}
