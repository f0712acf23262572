/* Lesson 4: the library's kernels, called from C.
 *
 * Every operation has the same four parts. A *description* holds widths, dtypes and options. A
 * *plan* is made from it and may compile. *execute* runs the plan on tensors, and never allocates,
 * waits or compiles. One *call* does all of that for you. This program uses a plan for RMSNorm and
 * the call for cross-entropy. */
#include <ligerdsl/ligerdsl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Every function returns a status. The text names the operation, the argument, the expected and the
 * given value. */
static void check(ligerdsl_status_t status) {
  if (status == LIGERDSL_SUCCESS) return;
  fprintf(stderr, "%s: %s\n", ligerdsl_status_name(status), ligerdsl_last_error());
  exit(1);
}

static int report(const char* what, double error, double allowed) {
  int right = error <= allowed; /* false for NaN */
  printf("%-30s error %.1e, allowed %.0e: %s\n", what, error, allowed, right ? "ok" : "WRONG");
  return right;
}

enum { ROWS = 8, WIDTH = 100 };

static ligerdsl_context_t context;
static ligerdsl_device_t device = {LIGERDSL_CPU, 0};

/* The library allocates memory here so that the lesson also runs on a GPU; any host (or device)
 * memory works. */
static void* to_device(const void* values, size_t bytes) {
  void* data;
  check(ligerdsl_buffer_alloc(context, bytes, &data));
  if (values) check(ligerdsl_buffer_copy(context, data, values, bytes, NULL));
  return data;
}
static void to_host(void* values, const void* data, size_t bytes) {
  check(ligerdsl_buffer_copy(context, values, data, bytes, NULL));
  check(ligerdsl_stream_sync(context, NULL));
}

static int rms_norm(void) {
  float x[ROWS][WIDTH], w[WIDTH], y[ROWS][WIDTH];
  for (int j = 0; j < WIDTH; ++j) {
    w[j] = 1.0f + 0.01f * (float)j;
    for (int i = 0; i < ROWS; ++i) x[i][j] = sinf((float)(i * WIDTH + j));
  }

  /* The description. _INIT sets the size, the version and the defaults, so that a program built
   * today keeps working with a later library. */
  ligerdsl_rms_norm_forward_desc_t desc = LIGERDSL_RMS_NORM_FORWARD_DESC_INIT;
  desc.n_cols = WIDTH;
  desc.dtype = LIGERDSL_F32;
  desc.weight_dtype = LIGERDSL_F32;
  desc.eps = 1e-6f;
  ligerdsl_plan_t plan;
  check(ligerdsl_rms_norm_forward_plan(context, &desc, &plan));

  /* Scratch memory is yours: query its size for a row count once, and reuse the memory. */
  size_t bytes = ligerdsl_plan_workspace_bytes_for(plan, ROWS);
  void* workspace = bytes ? to_device(NULL, bytes) : NULL;

  /* A tensor is a pointer with a shape: DLPack's layout, filled by hand or by
   * ligerdsl_tensor_make. */
  int64_t shape[2] = {ROWS, WIDTH};
  ligerdsl_tensor_t xt =
      ligerdsl_tensor_make(to_device(x, sizeof x), device, LIGERDSL_F32, 2, shape);
  ligerdsl_tensor_t wt =
      ligerdsl_tensor_make(to_device(w, sizeof w), device, LIGERDSL_F32, 1, &shape[1]);
  ligerdsl_tensor_t yt =
      ligerdsl_tensor_make(to_device(NULL, sizeof y), device, LIGERDSL_F32, 2, shape);
  ligerdsl_rms_norm_forward_args_t args = LIGERDSL_RMS_NORM_FORWARD_ARGS_INIT;
  args.x = &xt;
  args.weight = &wt;
  args.y = &yt;
  check(ligerdsl_rms_norm_forward_execute(plan, &args, workspace, bytes, NULL));
  to_host(y, yt.data, sizeof y);

  double worst = 0;
  for (int i = 0; i < ROWS; ++i) {
    double squares = 0;
    for (int j = 0; j < WIDTH; ++j) squares += (double)x[i][j] * x[i][j];
    for (int j = 0; j < WIDTH; ++j) {
      worst = fmax(worst, fabs(y[i][j] - x[i][j] / sqrt(squares / WIDTH + 1e-6) * w[j]));
    }
  }
  ligerdsl_plan_destroy(plan);
  check(ligerdsl_buffer_free(context, xt.data));
  check(ligerdsl_buffer_free(context, wt.data));
  check(ligerdsl_buffer_free(context, yt.data));
  if (workspace) check(ligerdsl_buffer_free(context, workspace));
  return report("RMSNorm", worst, 1e-5);
}

/* Computes the loss and the gradient of the logits in one pass over them. The gradient overwrites
 * the logits: with a large vocabulary, that saves gigabytes. */
static int cross_entropy(void) {
  float logits[ROWS][WIDTH], gradient[ROWS][WIDTH], loss;
  int64_t labels[ROWS];
  for (int i = 0; i < ROWS; ++i) {
    labels[i] = i == 3 ? -100 : 7 * i; /* -100, the default ignore_index: this row does not count */
    for (int j = 0; j < WIDTH; ++j) logits[i][j] = 3.0f * cosf((float)(i * WIDTH + j));
  }
  int64_t shape[2] = {ROWS, WIDTH}, one = 1;
  ligerdsl_tensor_t lt =
      ligerdsl_tensor_make(to_device(logits, sizeof logits), device, LIGERDSL_F32, 2, shape);
  ligerdsl_tensor_t yt =
      ligerdsl_tensor_make(to_device(labels, sizeof labels), device, LIGERDSL_I64, 1, shape);
  ligerdsl_tensor_t st =
      ligerdsl_tensor_make(to_device(NULL, sizeof loss), device, LIGERDSL_F32, 1, &one);

  /* The one-call form reads widths and dtypes from the tensors: only options are set. */
  ligerdsl_cross_entropy_desc_t desc = LIGERDSL_CROSS_ENTROPY_DESC_INIT;
  desc.with_d_logits = 1;
  desc.in_place = 1;
  ligerdsl_cross_entropy_args_t args = LIGERDSL_CROSS_ENTROPY_ARGS_INIT;
  args.logits = &lt;
  args.labels = &yt;
  args.loss = &st;
  args.d_logits = &lt;
  check(ligerdsl_cross_entropy(context, &desc, &args, NULL));
  to_host(&loss, st.data, sizeof loss);
  to_host(gradient, lt.data, sizeof gradient);
  /* The device checks labels; this call reports an invalid label with its row. */
  check(ligerdsl_context_check(context, NULL));

  double expected = 0, worst = 0;
  for (int i = 0; i < ROWS; ++i) {
    double total = 0;
    for (int j = 0; j < WIDTH; ++j) total += exp(logits[i][j]);
    if (labels[i] >= 0) expected += (log(total) - logits[i][labels[i]]) / (ROWS - 1);
    for (int j = 0; j < WIDTH; ++j) {
      double g = labels[i] < 0 ? 0.0 : (exp(logits[i][j]) / total - (j == labels[i])) / (ROWS - 1);
      worst = fmax(worst, fabs(gradient[i][j] - g));
    }
  }
  check(ligerdsl_buffer_free(context, lt.data));
  check(ligerdsl_buffer_free(context, yt.data));
  check(ligerdsl_buffer_free(context, st.data));
  int right = report("cross-entropy", fabs(loss - expected) / expected, 1e-6);
  return report("its gradient, in place", worst, 1e-6) && right;
}

/* A wrong call reports the mistake and changes nothing. */
static int refused(void) {
  ligerdsl_rms_norm_forward_desc_t desc = LIGERDSL_RMS_NORM_FORWARD_DESC_INIT;
  desc.n_cols = -1;
  desc.dtype = LIGERDSL_F32;
  ligerdsl_plan_t plan = NULL;
  ligerdsl_status_t status = ligerdsl_rms_norm_forward_plan(context, &desc, &plan);
  printf("a width of -1 is refused: %s: %s\n", ligerdsl_status_name(status), ligerdsl_last_error());
  return status != LIGERDSL_SUCCESS;
}

int main(int argc, char** argv) {
  if (argc == 3 && !strcmp(argv[1], "--device") && !strncmp(argv[2], "cuda:", 5)) {
    device.type = LIGERDSL_CUDA;
    device.id = atoi(argv[2] + 5);
  }
  ligerdsl_context_config_t config = LIGERDSL_CONTEXT_CONFIG_INIT;
  config.device = device;
  check(ligerdsl_context_create(&config, &context));
  int right = rms_norm();
  right = cross_entropy() && right;
  right = refused() && right;
  ligerdsl_context_destroy(context);
  return right ? 0 : 1;
}
