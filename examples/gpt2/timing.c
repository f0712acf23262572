/* gpt2 time: times the layers and plain loops alternately, each on one thread.
 *
 * Rounds are short and many, so that most of them run without an interruption. The output is each
 * side's median time over all rounds, and the median of the ratios within each round. */
#include "timing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "plain.h"
#include "random.h"
#include "unfused.h"

enum { LENGTH = 64, VOCABULARY = 512, ROUNDS = 201, LINE = 64 };

typedef struct {
  ligerdsl_context_t context;
  int64_t n, h, length; /* length: tokens per sequence */
  char* memory[32];     /* owns the arrays */
  int allocated;
  int32_t *tokens, *labels;
  float *weight, *d_weight, *positions, *d_positions; /* the embedding's */
  float *x, *residual, *gradient, *d_sum, *scale, *shift, *d_scale, *d_shift, *m, *v;
  norm_t norm;
} data_t;

typedef struct {
  const char* name;
  void (*ours)(data_t*);
  void (*plain)(data_t*);
} pair_t;

static const adamw_t kAdamw = {1e-3f, 0.9f, 0.95f, 1e-8f, 0.1f, 7};

static void embedding_ours(data_t* d) {
  embedding(d->context, d->x, d->tokens, d->weight, d->positions, d->n, d->h, VOCABULARY,
            d->length);
}
static void embedding_plain(data_t* d) {
  plain_embedding(d->x, d->tokens, d->weight, d->positions, d->n, d->h, d->length);
}
static void embedding_gradient_ours(data_t* d) {
  embedding_gradient(d->context, d->d_weight, d->d_positions, d->tokens, d->gradient, d->n, d->h,
                     VOCABULARY, d->length);
}
static void embedding_gradient_plain(data_t* d) {
  plain_embedding_gradient(d->d_weight, d->d_positions, d->tokens, d->gradient, d->n, d->h,
                           d->length);
}
static void norm_ours(data_t* d) {
  norm(d->context, d->norm, NULL, NULL, d->scale, d->shift, d->n, d->h);
}
static void norm_plain(data_t* d) {
  plain_norm(d->norm, NULL, NULL, d->scale, d->shift, d->n, d->h);
}
static void residual_norm_ours(data_t* d) {
  norm(d->context, d->norm, d->x, d->residual, d->scale, d->shift, d->n, d->h);
}
static void residual_norm_plain(data_t* d) {
  plain_norm(d->norm, d->x, d->residual, d->scale, d->shift, d->n, d->h);
}
static void norm_gradient_ours(data_t* d) {
  norm_gradient(d->context, d->d_sum, d->gradient, d->d_scale, d->d_shift, d->norm, d->scale, d->n,
                d->h);
}
static void norm_gradient_plain(data_t* d) {
  plain_norm_gradient(d->d_sum, d->gradient, d->d_scale, d->d_shift, d->norm, d->scale, d->n, d->h);
}
static void bias_ours(data_t* d) {
  bias(d->context, d->x, d->shift, d->n, d->h);
}
static void bias_plain(data_t* d) {
  plain_bias(d->x, d->shift, d->n, d->h);
}
static void bias_gradient_ours(data_t* d) {
  bias_gradient(d->context, d->d_shift, d->gradient, d->n, d->h);
}
static void bias_gradient_plain(data_t* d) {
  plain_bias_gradient(d->d_shift, d->gradient, d->n, d->h);
}
static void gelu_ours(data_t* d) {
  gelu(d->context, d->d_sum, d->residual, d->n, d->h);
}
static void gelu_plain(data_t* d) {
  plain_gelu(d->d_sum, d->residual, d->n, d->h);
}
static void gelu_gradient_ours(data_t* d) {
  gelu_gradient(d->context, d->d_sum, d->gradient, d->residual, d->n, d->h);
}
static void gelu_gradient_plain(data_t* d) {
  plain_gelu_gradient(d->d_sum, d->gradient, d->residual, d->n, d->h);
}
static void clip_ours(data_t* d) {
  float norm, factor;
  clip(d->context, &norm, &factor, d->gradient, d->n * d->h, 1);
}
static void clip_plain(data_t* d) {
  float norm, factor;
  plain_clip(&norm, &factor, d->gradient, d->n * d->h, 1);
  d->norm.rstd[0] = norm * factor; /* keeps the result in use */
}
static void adamw_ours(data_t* d) {
  const float factor = 1;
  adamw_step(d->context, d->residual, d->m, d->v, d->gradient, &factor, d->n * d->h, kAdamw);
}
static void adamw_plain(data_t* d) {
  plain_adamw_step(d->residual, d->m, d->v, d->gradient, 1, d->n * d->h, kAdamw);
}

static void residual_sum_ours(data_t* d) {
  residual_sum(d->context, d->norm.sum, d->x, d->residual, d->n * d->h);
}
static void residual_sum_plain(data_t* d) {
  plain_residual_sum(d->norm.sum, d->x, d->residual, d->n * d->h);
}
static void softmax_ours(data_t* d) {
  softmax(d->context, d->norm.out, d->residual, d->n, d->h);
}
static void softmax_plain(data_t* d) {
  plain_softmax(d->norm.out, d->residual, d->n, d->h);
}
static void softmax_gradient_ours(data_t* d) {
  softmax_gradient(d->context, d->d_sum, d->gradient, d->norm.out, d->n, d->h);
}
static void softmax_gradient_plain(data_t* d) {
  plain_softmax_gradient(d->d_sum, d->gradient, d->norm.out, d->n, d->h);
}
static void cross_entropy_ours(data_t* d) {
  d->norm.rstd[0] = cross_entropy(d->context, d->d_sum, d->residual, d->labels, d->n, d->h);
}
static void cross_entropy_plain(data_t* d) {
  d->norm.rstd[0] = plain_cross_entropy(d->d_sum, d->residual, d->labels, d->n, d->h);
}

static const pair_t kPairs[] = {
    {"embedding and positions", embedding_ours, embedding_plain},
    {"  gradient", embedding_gradient_ours, embedding_gradient_plain},
    {"residual sum", residual_sum_ours, residual_sum_plain},
    {"LayerNorm", norm_ours, norm_plain},
    {"residual sum and LayerNorm", residual_norm_ours, residual_norm_plain},
    {"  gradient", norm_gradient_ours, norm_gradient_plain},
    {"bias", bias_ours, bias_plain},
    {"  gradient", bias_gradient_ours, bias_gradient_plain},
    {"GELU", gelu_ours, gelu_plain},
    {"  gradient", gelu_gradient_ours, gelu_gradient_plain},
    {"softmax", softmax_ours, softmax_plain},
    {"  gradient", softmax_gradient_ours, softmax_gradient_plain},
    {"cross-entropy and gradient", cross_entropy_ours, cross_entropy_plain},
    {"norm of gradients", clip_ours, clip_plain},
    {"AdamW", adamw_ours, adamw_plain}};

static double microseconds(void) {
  struct timespec now;
  timespec_get(&now, TIME_UTC);
  return 1e6 * (double)now.tv_sec + 1e-3 * (double)now.tv_nsec;
}

static double time_of(void (*run)(data_t*), data_t* data, int repeats) {
  const double began = microseconds();
  for (int i = 0; i < repeats; ++i) run(data);
  return (microseconds() - began) / repeats;
}

static int ascending(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static void compare(const pair_t* pair, data_t* data) {
  double ours[ROUNDS], plain[ROUNDS], ratio[ROUNDS];
  pair->ours(data); /* makes the plans */
  /* 0.2 ms or one call each, short enough that neither side is interrupted */
  const double longer = fmax(time_of(pair->ours, data, 3), time_of(pair->plain, data, 3));
  const int repeats = 1 + (int)(200 / (longer + 0.01));
  for (int i = 0; i < ROUNDS; ++i) {
    ours[i] = time_of(pair->ours, data, repeats);
    plain[i] = time_of(pair->plain, data, repeats);
    ratio[i] = plain[i] / ours[i];
  }
  qsort(ours, ROUNDS, sizeof *ours, ascending);
  qsort(plain, ROUNDS, sizeof *plain, ascending);
  qsort(ratio, ROUNDS, sizeof *ratio, ascending);
  printf("%-28s %9.2f us %9.2f us %6.2f\n", pair->name, ours[ROUNDS / 2], plain[ROUNDS / 2],
         ratio[ROUNDS / 2]);
}

/* Returns an array of `count` 4-byte elements. */
static void* array(data_t* d, int64_t count, int64_t offset) {
  char* memory = d->memory[d->allocated++] = malloc((size_t)(4 * count + 2 * LINE));
  if (!memory) {
    fprintf(stderr, "gpt2: out of memory\n");
    exit(1);
  }
  return memory + (LINE - (uintptr_t)memory % LINE) + offset;
}

static float* numbers(data_t* d, int64_t count, int64_t offset, uint64_t* seed, double mean) {
  float* values = array(d, count, offset);
  for (int64_t i = 0; i < count; ++i) values[i] = (float)(mean + 0.1 * random_normal(seed));
  return values;
}

static int32_t* ids(data_t* d, int64_t most, int64_t offset, uint64_t* seed) {
  int32_t* values = array(d, d->n, offset);
  for (int64_t i = 0; i < d->n; ++i) values[i] = (int32_t)(random_bits(seed) % (uint64_t)most);
  return values;
}

static data_t make(ligerdsl_context_t context, int64_t n, int64_t h, int64_t offset) {
  uint64_t seed = 5;
  data_t d = {.context = context, .n = n, .h = h, .length = n < LENGTH ? n : LENGTH};
  float** tables[] = {&d.weight, &d.d_weight};
  float** rows[] = {&d.x, &d.residual, &d.gradient, &d.d_sum, &d.m, &d.v, &d.norm.sum, &d.norm.out};
  float** vectors[] = {&d.scale, &d.shift, &d.d_scale, &d.d_shift};
  float** positions[] = {&d.positions, &d.d_positions};
  for (size_t i = 0; i < 2; ++i) *tables[i] = numbers(&d, VOCABULARY * h, offset, &seed, 0);
  for (size_t i = 0; i < 8; ++i) *rows[i] = numbers(&d, n * h, offset, &seed, 0);
  for (size_t i = 0; i < 4; ++i) *vectors[i] = numbers(&d, h, offset, &seed, 0);
  for (size_t i = 0; i < 2; ++i) *positions[i] = numbers(&d, d.length * h, offset, &seed, 0);
  for (int64_t i = 0; i < n * h; ++i) d.v[i] = fabsf(d.v[i]);
  d.norm.mean = numbers(&d, n, offset, &seed, 0);
  d.norm.rstd = numbers(&d, n, offset, &seed, 1);
  d.tokens = ids(&d, VOCABULARY, offset, &seed);
  d.labels = ids(&d, h, offset, &seed);
  return d;
}

int time_layers(int64_t rows, int64_t width, int64_t offset) {
  ligerdsl_context_config_t config = LIGERDSL_CONTEXT_CONFIG_INIT;
  ligerdsl_context_t context;
  config.num_threads = 1;
  check(ligerdsl_context_create(&config, &context));
  data_t data = make(context, rows, width, offset);
  printf(
      "%lld rows of %lld, %lld bytes past a multiple of 64, one thread, medians of %d "
      "rounds\n%-28s %12s %12s %6s\n",
      (long long)rows, (long long)width, (long long)offset, ROUNDS, "", "libligerdsl",
      "plain loops", "ratio");
  for (size_t i = 0; i < sizeof kPairs / sizeof *kPairs; ++i) compare(&kPairs[i], &data);
  while (data.allocated) free(data.memory[--data.allocated]);
  ligerdsl_context_destroy(context);
  return 0;
}
