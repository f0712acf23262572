/* A character model in C99: embedding, RMSNorm, a linear head, cross-entropy, AdamW. It memorises
 * one sentence. */
#include <ligerdsl/ligerdsl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { V = 128, H = 32, MAX_T = 256 };

static void check(ligerdsl_status_t status) {
  if (status == LIGERDSL_SUCCESS) return;
  fprintf(stderr, "%s: %s\n", ligerdsl_status_name(status), ligerdsl_last_error());
  exit(1);
}

/* A parameter with its gradient and moments. */
typedef struct parameter {
  int64_t size;
  float *value, *grad, *m, *v;
} parameter;

static parameter make_parameter(int64_t size, float scale) {
  parameter p;
  int64_t i;
  p.size = size;
  p.value = calloc((size_t)size, 4);
  p.grad = calloc((size_t)size, 4);
  p.m = calloc((size_t)size, 4);
  p.v = calloc((size_t)size, 4);
  for (i = 0; i < size; ++i) p.value[i] = scale * ((float)rand() / (float)RAND_MAX - 0.5f);
  return p;
}

static ligerdsl_device_t cpu(void) {
  ligerdsl_device_t device = {LIGERDSL_CPU, 0};
  return device;
}

static void update(ligerdsl_context_t context, parameter p, int64_t step) {
  ligerdsl_adamw_step_desc_t desc = LIGERDSL_ADAMW_STEP_DESC_INIT;
  ligerdsl_adamw_step_args_t args = LIGERDSL_ADAMW_STEP_ARGS_INIT;
  ligerdsl_tensor_t value = ligerdsl_tensor_make(p.value, cpu(), LIGERDSL_F32, 1, &p.size);
  ligerdsl_tensor_t grad = ligerdsl_tensor_make(p.grad, cpu(), LIGERDSL_F32, 1, &p.size);
  ligerdsl_tensor_t m = ligerdsl_tensor_make(p.m, cpu(), LIGERDSL_F32, 1, &p.size);
  ligerdsl_tensor_t v = ligerdsl_tensor_make(p.v, cpu(), LIGERDSL_F32, 1, &p.size);
  args.param = &value;
  args.grad = &grad;
  args.m = &m;
  args.v = &v;
  args.lr = 0.02f;
  args.step = step;
  check(ligerdsl_adamw_step(context, &desc, &args, NULL));
}

int main(void) {
  static const char text[] =
      "memory runs out long before arithmetic does; fuse, and the logits never have to exist all "
      "at once.";
  static int64_t tokens[MAX_T];
  static float x[MAX_T * H], y[MAX_T * H], rstd[MAX_T], logits[MAX_T * V], d_x[MAX_T * H],
      d_y[MAX_T * H];
  const int64_t T = (int64_t)strlen(text) - 1;
  int64_t shape_T[1], shape_TH[2], shape_TV[2], shape_VH[2], shape_H[1], shape_1[1] = {1};
  float loss = 0, first = 0;
  int64_t i, j, k, step;
  ligerdsl_context_config_t config = LIGERDSL_CONTEXT_CONFIG_INIT;
  ligerdsl_context_t context;
  parameter table = make_parameter(V * H, 1.0f), weight = make_parameter(H, 0.0f),
            head = make_parameter(V * H, 0.2f);

  check(ligerdsl_context_create(&config, &context));
  shape_T[0] = shape_TH[0] = shape_TV[0] = T;
  shape_TH[1] = shape_VH[1] = shape_H[0] = H;
  shape_TV[1] = shape_VH[0] = V;
  for (i = 0; i < T + 1; ++i) tokens[i] = text[i];
  for (i = 0; i < H; ++i) weight.value[i] = 1.0f;

  {
    ligerdsl_tensor_t t_in = ligerdsl_tensor_make(tokens, cpu(), LIGERDSL_I64, 1, shape_T);
    ligerdsl_tensor_t t_out = ligerdsl_tensor_make(tokens + 1, cpu(), LIGERDSL_I64, 1, shape_T);
    ligerdsl_tensor_t t_x = ligerdsl_tensor_make(x, cpu(), LIGERDSL_F32, 2, shape_TH);
    ligerdsl_tensor_t t_y = ligerdsl_tensor_make(y, cpu(), LIGERDSL_F32, 2, shape_TH);
    ligerdsl_tensor_t t_dx = ligerdsl_tensor_make(d_x, cpu(), LIGERDSL_F32, 2, shape_TH);
    ligerdsl_tensor_t t_dy = ligerdsl_tensor_make(d_y, cpu(), LIGERDSL_F32, 2, shape_TH);
    ligerdsl_tensor_t t_rstd = ligerdsl_tensor_make(rstd, cpu(), LIGERDSL_F32, 1, shape_T);
    ligerdsl_tensor_t t_logits = ligerdsl_tensor_make(logits, cpu(), LIGERDSL_F32, 2, shape_TV);
    ligerdsl_tensor_t t_loss = ligerdsl_tensor_make(&loss, cpu(), LIGERDSL_F32, 1, shape_1);
    ligerdsl_tensor_t t_table = ligerdsl_tensor_make(table.value, cpu(), LIGERDSL_F32, 2, shape_VH);
    ligerdsl_tensor_t t_dtable = ligerdsl_tensor_make(table.grad, cpu(), LIGERDSL_F32, 2, shape_VH);
    ligerdsl_tensor_t t_weight =
        ligerdsl_tensor_make(weight.value, cpu(), LIGERDSL_F32, 1, shape_H);
    ligerdsl_tensor_t t_dweight =
        ligerdsl_tensor_make(weight.grad, cpu(), LIGERDSL_F32, 1, shape_H);

    ligerdsl_embedding_forward_desc_t embed_desc = LIGERDSL_EMBEDDING_FORWARD_DESC_INIT;
    ligerdsl_embedding_forward_args_t embed = LIGERDSL_EMBEDDING_FORWARD_ARGS_INIT;
    ligerdsl_embedding_backward_desc_t unembed_desc = LIGERDSL_EMBEDDING_BACKWARD_DESC_INIT;
    ligerdsl_embedding_backward_args_t unembed = LIGERDSL_EMBEDDING_BACKWARD_ARGS_INIT;
    ligerdsl_rms_norm_forward_desc_t norm_desc = LIGERDSL_RMS_NORM_FORWARD_DESC_INIT;
    ligerdsl_rms_norm_forward_args_t norm = LIGERDSL_RMS_NORM_FORWARD_ARGS_INIT;
    ligerdsl_rms_norm_backward_desc_t unnorm_desc = LIGERDSL_RMS_NORM_BACKWARD_DESC_INIT;
    ligerdsl_rms_norm_backward_args_t unnorm = LIGERDSL_RMS_NORM_BACKWARD_ARGS_INIT;
    ligerdsl_cross_entropy_desc_t ce_desc = LIGERDSL_CROSS_ENTROPY_DESC_INIT;
    ligerdsl_cross_entropy_args_t ce = LIGERDSL_CROSS_ENTROPY_ARGS_INIT;

    embed.indices = unembed.indices = &t_in;
    embed.weight = &t_table;
    embed.out = &t_x;
    norm.x = unnorm.x = &t_x;
    norm.weight = unnorm.weight = &t_weight;
    norm.y = &t_y;
    norm.rstd = unnorm.rstd = &t_rstd;
    ce.logits = ce.d_logits = &t_logits; /* the gradient overwrites the logits */
    ce.labels = &t_out;
    ce.loss = &t_loss;
    unnorm.d_y = &t_dy;
    unnorm.d_x = &t_dx;
    unnorm.d_weight = &t_dweight;
    unembed.d_out = &t_dx;
    unembed.d_weight = &t_dtable;

    for (step = 1; step <= 80; ++step) {
      check(ligerdsl_embedding_forward(context, &embed_desc, &embed, NULL));
      check(ligerdsl_rms_norm_forward(context, &norm_desc, &norm, NULL));
      for (i = 0; i < T; ++i) {
        for (j = 0; j < V; ++j) {
          float sum = 0;
          for (k = 0; k < H; ++k) sum += y[i * H + k] * head.value[j * H + k];
          logits[i * V + j] = sum;
        }
      }
      check(ligerdsl_cross_entropy(context, &ce_desc, &ce, NULL));
      if (step == 1) first = loss;
      memset(d_y, 0, sizeof d_y);
      memset(head.grad, 0, (size_t)head.size * 4);
      for (i = 0; i < T; ++i) {
        for (j = 0; j < V; ++j) {
          const float d = logits[i * V + j];
          for (k = 0; k < H; ++k) {
            d_y[i * H + k] += d * head.value[j * H + k];
            head.grad[j * H + k] += d * y[i * H + k];
          }
        }
      }
      check(ligerdsl_rms_norm_backward(context, &unnorm_desc, &unnorm, NULL));
      check(ligerdsl_embedding_backward(context, &unembed_desc, &unembed, NULL));
      update(context, table, step);
      update(context, weight, step);
      update(context, head, step);
    }
  }
  check(ligerdsl_context_check(context, NULL));
  ligerdsl_context_destroy(context);
  printf("loss %.3f -> %.3f nats per character\n", (double)first, (double)loss);
  /* 128 equally likely characters: 4.85. Entropy of the next character given the last, in this
   * sentence: 1.4842. */
  return fabs((double)first - log(V)) < 1.0 && loss > 1.484f && loss < 1.52f ? 0 : 1;
}
