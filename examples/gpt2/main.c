/* gpt2 train TEXT [STEPS [MOST]]: trains a model of bytes. Exits with 1 if the running mean of the
 * loss (about ten steps) is above MOST.
 *
 * gpt2 check: compares the model with its float64 version, step by step.
 *
 * gpt2 time [ROWS WIDTH [OFFSET]]: times the layers and plain loops; default: 256 rows of 768. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gpt2.h"
#include "random.h"
#include "timing.h"

static const gpt2_optimiser_t kOptimiser = {
    .lr = 3e-3f, .beta1 = 0.9f, .beta2 = 0.95f, .eps = 1e-8f, .weight_decay = 0.1f, .max_norm = 1};

static double seconds(void) {
  struct timespec now;
  timespec_get(&now, TIME_UTC);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void out_of_memory(void) {
  fprintf(stderr, "gpt2: out of memory\n");
  exit(1);
}

/* Draws a batch of windows of the text. */
static void sample(const gpt2_config_t* c, const unsigned char* text, size_t size, uint64_t* seed,
                   int32_t* tokens, int32_t* labels) {
  for (int64_t b = 0; b < c->batch; ++b) {
    const size_t begin = (size_t)(random_bits(seed) % (size - (size_t)c->context));
    for (int64_t t = 0; t < c->context; ++t) {
      tokens[b * c->context + t] = text[begin + (size_t)t];
      labels[b * c->context + t] = text[begin + (size_t)t + 1];
    }
  }
}

static unsigned char* read_file(const char* path, size_t* size) {
  FILE* file = fopen(path, "rb");
  size_t room = 1 << 16;
  unsigned char* text = malloc(room);
  *size = 0;
  if (!file) {
    fprintf(stderr, "gpt2: cannot read %s\n", path);
    exit(1);
  }
  if (!text) out_of_memory();
  for (size_t got; (got = fread(text + *size, 1, room - *size, file)) > 0;) {
    *size += got;
    if (*size < room) continue;
    text = realloc(text, room *= 2);
    if (!text) out_of_memory();
  }
  fclose(file);
  return text;
}

static int train(const char* path, int64_t steps, double most) {
  const gpt2_config_t config = {
      .vocabulary = 256, .layers = 2, .heads = 4, .width = 64, .batch = 8, .context = 64};
  const size_t n = (size_t)(config.batch * config.context);
  size_t size;
  unsigned char* text = read_file(path, &size);
  if (size <= (size_t)config.context) {
    fprintf(stderr, "gpt2: %s has %zu bytes, expected more than %lld\n", path, size,
            (long long)config.context);
    return 1;
  }
  int32_t* ids = malloc(2 * n * sizeof *ids);
  if (!ids) out_of_memory();
  gpt2_t* model = gpt2_create(&config);
  gpt2_initialise(&config, gpt2_parameters(model), 1);
  uint64_t seed = 2;
  double mean = 0; /* running mean of the loss; from step 10 on, a step has weight 1/10 */
  for (int64_t step = 1; step <= steps; ++step) {
    const double began = seconds();
    sample(&config, text, size, &seed, ids, ids + n);
    const double loss = gpt2_loss(model, ids, ids + n),
                 norm = gpt2_update(model, &kOptimiser, step);
    mean = step == 1 ? loss : mean + (loss - mean) / (double)(step < 10 ? step : 10);
    if (step == 1 || step % 10 == 0 || step == steps)
      printf("step %4lld  loss %.4f  gradient %.3f  %.1f ms\n", (long long)step, loss, norm,
             1e3 * (seconds() - began));
  }
  gpt2_destroy(model);
  free(ids);
  free(text);
  if (!(mean <= most)) {
    fprintf(stderr, "gpt2: the running mean of the losses is %.3f, expected %.3f or less\n", mean,
            most);
    return 1;
  }
  return 0;
}

static int check_against_float64(void) {
  const gpt2_config_t config = {
      .vocabulary = 61, .layers = 2, .heads = 3, .width = 24, .batch = 2, .context = 10};
  enum { TOKENS = 2 * 10, STEPS = 8 };
  int32_t tokens[TOKENS], labels[TOKENS];
  uint64_t seed = 3;
  gpt2_t* model = gpt2_create(&config);
  gpt2_initialise(&config, gpt2_parameters(model), 4);
  reference_t* reference = reference_create(&config, gpt2_parameters(model));
  for (int i = 0; i < TOKENS; ++i) {
    tokens[i] = (int32_t)(random_bits(&seed) % 61);
    labels[i] = (int32_t)(random_bits(&seed) % 61);
  }
  const double slope = reference_slope_error(reference, tokens, labels);
  int right = slope < 1e-6; /* false for NaN */
  printf("float64: slope of the loss compared with differences, error %.1e: %s\n", slope,
         right ? "ok" : "WRONG");
  for (int64_t step = 1; step <= STEPS; ++step) {
    const double loss = gpt2_loss(model, tokens, labels),
                 expected = reference_loss(reference, tokens, labels);
    const double norm = gpt2_update(model, &kOptimiser, step),
                 of = reference_update(reference, &kOptimiser, step);
    const double error = fmax(fabs(loss - expected) / expected, fabs(norm - of) / of / 10);
    const int same = error < 1e-5;
    printf("step %lld  loss %.6f, float64 %.6f  gradient %.6f, %.6f: %s\n", (long long)step, loss,
           expected, norm, of, same ? "ok" : "WRONG");
    right = right && same;
  }
  gpt2_destroy(model);
  reference_destroy(reference);
  return right ? 0 : 1;
}

int main(int argc, char** argv) {
  if (argc == 2 && !strcmp(argv[1], "check")) return check_against_float64();
  if (argc >= 3 && argc <= 5 && !strcmp(argv[1], "train")) {
    char* end = NULL;
    const long long steps = argc > 3 ? strtoll(argv[3], &end, 10) : 200;
    const double most = argc > 4 ? strtod(argv[4], NULL) : INFINITY;
    if (steps >= 1 && (!end || !*end)) return train(argv[2], steps, most);
  }
  if (argc == 2 && !strcmp(argv[1], "time")) return time_layers(256, 768, 16);
  if ((argc == 4 || argc == 5) && !strcmp(argv[1], "time")) {
    const long long rows = strtoll(argv[2], NULL, 10), width = strtoll(argv[3], NULL, 10);
    const long long offset =
        argc == 5 ? strtoll(argv[4], NULL, 10) : 16; /* as malloc places large arrays */
    if (rows > 0 && rows <= 1 << 20 && width > 0 && width <= 1 << 20 && offset >= 0 &&
        offset < 64 && offset % 4 == 0)
      return time_layers(rows, width, offset);
    fprintf(stderr,
            "gpt2: expected ROWS and WIDTH from 1 to 1048576, and OFFSET from 0 to 60, a multiple "
            "of 4\n");
    return 2;
  }
  fprintf(stderr,
          "usage: gpt2 train TEXT [STEPS [MOST]]\n       gpt2 check\n       gpt2 time [ROWS WIDTH "
          "[OFFSET]]\n");
  return 2;
}
