/* Causal attention in plain loops: out = softmax(q k^T / sqrt(d)) v for each head, d = h / heads.
 * On a GPU, a trainer would use fused attention here. */
#include <math.h>

#include "layers.h"

/* Returns the offset of row t of a head of q (part 0), k (1) or v (2). */
static int64_t at(attention_shape_t s, int64_t b, int64_t t, int64_t head, int64_t part) {
  return (b * s.length + t) * 3 * s.h + part * s.h + head * (s.h / s.heads);
}
static int64_t row_of(attention_shape_t s, int64_t b, int64_t t, int64_t head) {
  return (b * s.length + t) * s.h + head * (s.h / s.heads);
}

static void query(float* out, float* p, const float* qkv, attention_shape_t s, int64_t b,
                  int64_t head, int64_t t) {
  const int64_t d = s.h / s.heads;
  const float scale = 1 / sqrtf((float)d);
  const float* q = qkv + at(s, b, t, head, 0);
  float most = -INFINITY, total = 0;
  for (int64_t u = 0; u <= t; ++u) {
    const float* k = qkv + at(s, b, u, head, 1);
    float score = 0;
    for (int64_t i = 0; i < d; ++i) score += q[i] * k[i];
    p[u] = score * scale;
    most = fmaxf(most, p[u]);
  }
  for (int64_t u = 0; u <= t; ++u) total += p[u] = expf(p[u] - most);
  for (int64_t i = 0; i < d; ++i) out[i] = 0;
  for (int64_t u = 0; u <= t; ++u) {
    const float* v = qkv + at(s, b, u, head, 2);
    p[u] /= total;
    for (int64_t i = 0; i < d; ++i) out[i] += p[u] * v[i];
  }
  for (int64_t u = t + 1; u < s.length; ++u) p[u] = 0;
}

void attention(float* out, float* probabilities, const float* qkv, attention_shape_t s) {
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t head = 0; head < s.heads; ++head)
      for (int64_t t = 0; t < s.length; ++t)
        query(out + row_of(s, b, t, head),
              probabilities + ((b * s.heads + head) * s.length + t) * s.length, qkv, s, b, head, t);
}

static void query_gradient(float* d_qkv, const float* d_out, const float* p, const float* qkv,
                           attention_shape_t s, int64_t b, int64_t head, int64_t t) {
  const int64_t d = s.h / s.heads;
  const float scale = 1 / sqrtf((float)d);
  const float* q = qkv + at(s, b, t, head, 0);
  float* d_q = d_qkv + at(s, b, t, head, 0);
  float mean = 0; /* mean gradient of the probabilities, weighted by the probabilities */
  for (int64_t u = 0; u <= t; ++u)
    for (int64_t i = 0; i < d; ++i) mean += p[u] * d_out[i] * qkv[at(s, b, u, head, 2) + i];
  for (int64_t u = 0; u <= t; ++u) {
    const float *k = qkv + at(s, b, u, head, 1), *v = qkv + at(s, b, u, head, 2);
    float *d_k = d_qkv + at(s, b, u, head, 1), *d_v = d_qkv + at(s, b, u, head, 2), d_p = 0;
    for (int64_t i = 0; i < d; ++i) {
      d_p += d_out[i] * v[i];
      d_v[i] += p[u] * d_out[i];
    }
    const float d_score = p[u] * (d_p - mean) * scale;
    for (int64_t i = 0; i < d; ++i) {
      d_q[i] += d_score * k[i];
      d_k[i] += d_score * q[i];
    }
  }
}

void attention_gradient(float* d_qkv, const float* d_out, const float* probabilities,
                        const float* qkv, attention_shape_t s) {
  for (int64_t i = 0; i < s.batch * s.length * 3 * s.h; ++i) d_qkv[i] = 0;
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t head = 0; head < s.heads; ++head)
      for (int64_t t = 0; t < s.length; ++t)
        query_gradient(d_qkv, d_out + row_of(s, b, t, head),
                       probabilities + ((b * s.heads + head) * s.length + t) * s.length, qkv, s, b,
                       head, t);
}
