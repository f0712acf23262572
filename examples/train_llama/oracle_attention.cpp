// Causal attention in float64.
#include <algorithm>
#include <cmath>

#include "oracle.h"

namespace train::oracle {
namespace {

// Calls body for each token and head. Its arguments are the row's offset in q, the first key's
// offset in k, the row of lse, the weights, and the lse.
template <class Body>
void each_token(View q, View k, const Heads& h, Body body) {
  const int64_t d = h.head_dim, key_stride = h.kv_heads * d;
  for (int64_t b = 0; b < h.batch; ++b)
    for (int64_t head = 0; head < h.heads; ++head)
      for (int64_t i = 0; i < h.tokens; ++i) {
        const int64_t query = ((b * h.tokens + i) * h.heads + head) * d;
        const int64_t first = (b * h.tokens * h.kv_heads + head * h.kv_heads / h.heads) * d;
        Array scores;
        double highest = -INFINITY, total = 0;
        for (int64_t j = 0; j <= i; ++j) {
          double s = 0;
          for (int64_t c = 0; c < d; ++c) s += q[query + c] * k[first + j * key_stride + c];
          scores.push_back(h.scale * s);
          highest = std::max(highest, scores.back());
        }
        for (double& s : scores) total += s = std::exp(s - highest);
        for (double& s : scores) s /= total;
        body(query, first, (b * h.heads + head) * h.tokens + i, scores, highest + std::log(total));
      }
}

}  // namespace

Attention attention(View q, View k, View v, const Heads& h) {
  Attention out{Array(q.size(), 0.0), Array(h.batch * h.heads * h.tokens)};
  each_token(q, k, h,
             [&](int64_t query, int64_t first, int64_t row, const Array& weights, double lse) {
               out.lse[row] = lse;
               for (size_t j = 0; j < weights.size(); ++j)
                 for (int64_t c = 0; c < h.head_dim; ++c)
                   out.o[query + c] += weights[j] * v[first + j * h.kv_heads * h.head_dim + c];
             });
  return out;
}

AttentionGradients attention_backward(View d_o, View q, View k, View v, const Heads& h) {
  AttentionGradients out{Array(q.size(), 0.0), Array(k.size(), 0.0), Array(v.size(), 0.0)};
  each_token(q, k, h, [&](int64_t query, int64_t first, int64_t, const Array& weights, double) {
    const auto key = [&](size_t j) {
      return first + static_cast<int64_t>(j) * h.kv_heads * h.head_dim;
    };
    Array slopes(weights.size(), 0.0);
    double mean = 0;
    for (size_t j = 0; j < weights.size(); ++j) {
      for (int64_t c = 0; c < h.head_dim; ++c) {
        slopes[j] += d_o[query + c] * v[key(j) + c];
        out.dv[key(j) + c] += weights[j] * d_o[query + c];
      }
      mean += weights[j] * slopes[j];
    }
    for (size_t j = 0; j < weights.size(); ++j)
      for (int64_t c = 0; c < h.head_dim; ++c) {
        const double d_s = h.scale * weights[j] * (slopes[j] - mean);
        out.dq[query + c] += d_s * k[key(j) + c];
        out.dk[key(j) + c] += d_s * q[query + c];
      }
  });
  return out;
}

}  // namespace train::oracle
