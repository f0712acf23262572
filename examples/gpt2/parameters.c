/* Offsets and initial values of the parameters. */
#include <math.h>

#include "gpt2.h"
#include "random.h"

size_t gpt2_kinds(const gpt2_config_t* config, gpt2_kind_t kinds[GPT2_KINDS]) {
  const int64_t h = config->width, l = config->layers;
  const gpt2_kind_t shapes[GPT2_KINDS] = {[GPT2_TOKENS] = {config->vocabulary, h, 1, 0},
                                          [GPT2_POSITIONS] = {config->context, h, 1, 0},
                                          [GPT2_NORM1_WEIGHT] = {1, h, l, 0},
                                          [GPT2_NORM1_BIAS] = {1, h, l, 0},
                                          [GPT2_QKV_WEIGHT] = {3 * h, h, l, 0},
                                          [GPT2_QKV_BIAS] = {1, 3 * h, l, 0},
                                          [GPT2_OUT_WEIGHT] = {h, h, l, 0},
                                          [GPT2_OUT_BIAS] = {1, h, l, 0},
                                          [GPT2_NORM2_WEIGHT] = {1, h, l, 0},
                                          [GPT2_NORM2_BIAS] = {1, h, l, 0},
                                          [GPT2_UP_WEIGHT] = {4 * h, h, l, 0},
                                          [GPT2_UP_BIAS] = {1, 4 * h, l, 0},
                                          [GPT2_DOWN_WEIGHT] = {h, 4 * h, l, 0},
                                          [GPT2_DOWN_BIAS] = {1, h, l, 0},
                                          [GPT2_NORM_WEIGHT] = {1, h, 1, 0},
                                          [GPT2_NORM_BIAS] = {1, h, 1, 0}};
  size_t count = 0;
  for (int kind = 0; kind < GPT2_KINDS; ++kind) {
    kinds[kind] = shapes[kind];
    kinds[kind].begin = count;
    count = gpt2_at(kinds, kind, kinds[kind].layers);
  }
  return count;
}

void gpt2_initialise(const gpt2_config_t* config, float* parameters, uint64_t seed) {
  gpt2_kind_t kinds[GPT2_KINDS];
  gpt2_kinds(config, kinds);
  for (int kind = 0; kind < GPT2_KINDS; ++kind) {
    const int is_norm =
        kind == GPT2_NORM1_WEIGHT || kind == GPT2_NORM2_WEIGHT || kind == GPT2_NORM_WEIGHT;
    const int is_added = kind == GPT2_OUT_WEIGHT || kind == GPT2_DOWN_WEIGHT;
    const double deviation = is_added ? 0.02 / sqrt(2.0 * (double)config->layers) : 0.02;
    for (size_t i = kinds[kind].begin; i < gpt2_at(kinds, kind, kinds[kind].layers); ++i)
      parameters[i] =
          kinds[kind].rows > 1 ? (float)(deviation * random_normal(&seed)) : (float)is_norm;
  }
}
