// float64 attention and its gradients: o = softmax(z) v over the keys that a query sees, with
// z = scale q k^T or z = cap tanh(scale q k^T / cap). A head's sink is one more score for each of
// its queries, without a value.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/core/reference_values.h"

namespace ligerdsl::reference {

// q, o: [batch, queries, heads, dim]; k, v: [batch, keys, kv_heads, dim]; lse: [batch, heads,
// queries]; sinks: [heads], or empty.
struct AttentionCase {
  int64_t batch, queries, keys, heads, kv_heads, dim;
  double scale;
  double cap = 0;                 // 0 for none
  int64_t left = -1, right = -1;  // negative for no limit

  bool sees(int64_t query, int64_t key) const {
    const int64_t own = query + keys - queries;  // position of the query among the keys
    return (left < 0 || key >= own - left) && (right < 0 || key <= own + right);
  }
};

struct AttentionResult {
  Values o, lse;
};
struct AttentionGradients {
  Values dq, dk, dv, d_sinks;
  Values sink_terms;  // [heads], sum of |term| over the terms of d_sinks
};

namespace attention_detail {

// One query of one head: its element offsets in the tensors, and its score with each key.
struct Row {
  const AttentionCase& p;
  int64_t b, h, i;
  int64_t query(int64_t d) const { return ((b * p.queries + i) * p.heads + h) * p.dim + d; }
  int64_t key(int64_t j, int64_t d) const {
    return ((b * p.keys + j) * p.kv_heads + h / (p.heads / p.kv_heads)) * p.dim + d;
  }
  int64_t number() const { return (b * p.heads + h) * p.queries + i; }
  double score(const Values& q, const Values& k, int64_t j) const {
    double s = 0;
    for (int64_t d = 0; d < p.dim; ++d) s += q[query(d)] * k[key(j, d)];
    s *= p.scale;
    return p.cap > 0 ? p.cap * std::tanh(s / p.cap) : s;
  }
};

template <class Body>
void each_row(const AttentionCase& p, const Body& body) {
  for (int64_t b = 0; b < p.batch; ++b)
    for (int64_t h = 0; h < p.heads; ++h)
      for (int64_t i = 0; i < p.queries; ++i) body(Row{p, b, h, i});
}

}  // namespace attention_detail

inline AttentionResult attention_reference(const AttentionCase& p, const Values& q, const Values& k,
                                           const Values& v, const Values& sinks = {}) {
  constexpr double kNone = -std::numeric_limits<double>::infinity();
  AttentionResult r{Values(q.size(), 0.0), Values(p.batch * p.heads * p.queries)};
  attention_detail::each_row(p, [&](const attention_detail::Row& row) {
    Values z(p.keys, kNone);
    const double sink = sinks.empty() ? kNone : sinks[row.h];
    double top = sink, total = 0;
    for (int64_t j = 0; j < p.keys; ++j) {
      if (p.sees(row.i, j)) z[j] = row.score(q, k, j);
      if (!(z[j] <= top)) top = z[j];
    }
    for (int64_t j = 0; j < p.keys; ++j)
      if (p.sees(row.i, j)) total += std::exp(z[j] - top);
    if (sink != kNone) total += std::exp(sink - top);
    r.lse[row.number()] = total > 0 ? top + std::log(total) : total == 0 ? kNone : total;
    for (int64_t j = 0; j < p.keys; ++j)
      for (int64_t d = 0; p.sees(row.i, j) && d < p.dim; ++d)
        r.o[row.query(d)] += std::exp(z[j] - top) / total * v[row.key(j, d)];
  });
  return r;
}

// Returns the gradients, given the forward's lse and rounded o. Without sinks, d_sinks is empty.
// d_lse of a query that sees neither a key nor a sink is not read.
inline AttentionGradients attention_gradient_reference(const AttentionCase& p, const Values& q,
                                                       const Values& k, const Values& v,
                                                       const Values& o, const Values& d_o,
                                                       const Values& lse, const Values& d_lse = {},
                                                       const Values& sinks = {}) {
  AttentionGradients g{Values(q.size(), 0.0), Values(k.size(), 0.0), Values(v.size(), 0.0),
                       Values(sinks.size(), 0.0), Values(sinks.size(), 0.0)};
  attention_detail::each_row(p, [&](const attention_detail::Row& row) {
    if (lse[row.number()] == -std::numeric_limits<double>::infinity()) return;
    double delta = d_lse.empty() ? 0 : -d_lse[row.number()];
    for (int64_t d = 0; d < p.dim; ++d) delta += o[row.query(d)] * d_o[row.query(d)];
    if (!sinks.empty()) {
      const double term = -std::exp(sinks[row.h] - lse[row.number()]) * delta;
      g.d_sinks[row.h] += term, g.sink_terms[row.h] += std::abs(term);
    }
    for (int64_t j = 0; j < p.keys; ++j) {
      if (!p.sees(row.i, j)) continue;
      const double z = row.score(q, k, j), weight = std::exp(z - lse[row.number()]);
      double dp = 0;
      for (int64_t d = 0; d < p.dim; ++d) {
        dp += d_o[row.query(d)] * v[row.key(j, d)];
        g.dv[row.key(j, d)] += weight * d_o[row.query(d)];
      }
      const double slope = p.cap > 0 ? 1 - (z / p.cap) * (z / p.cap) : 1;
      const double ds = weight * (dp - delta) * slope * p.scale;
      for (int64_t d = 0; d < p.dim; ++d) {
        g.dq[row.query(d)] += ds * k[row.key(j, d)];
        g.dk[row.key(j, d)] += ds * q[row.query(d)];
      }
    }
  });
  return g;
}

// Packed sequences of different lengths. `queries` and `keys` hold the bounds, one more than the
// number of sequences. Tensors have no batch dimension; lse is [heads, queries].
struct AttentionSequences {
  AttentionCase of_all;  // batch, queries and keys are not set
  std::vector<int64_t> queries, keys;

  // Calls body(case, first query, first key) for each sequence.
  template <class Body>
  void each(const Body& body) const {
    for (size_t i = 0; i + 1 < queries.size(); ++i) {
      AttentionCase one = of_all;
      one.batch = 1, one.queries = queries[i + 1] - queries[i], one.keys = keys[i + 1] - keys[i];
      body(one, queries[i], keys[i]);
    }
  }
  Values rows(const Values& all, int64_t first, int64_t count, int64_t heads) const {
    const int64_t row = heads * of_all.dim;
    return {all.begin() + first * row, all.begin() + (first + count) * row};
  }
  Values numbers(const Values& all, int64_t first, int64_t count) const {
    Values cut;
    const int64_t tokens = queries.back();
    for (int64_t h = 0; h < of_all.heads; ++h)
      cut.insert(cut.end(), all.begin() + h * tokens + first,
                 all.begin() + h * tokens + first + count);
    return cut;
  }
};

inline AttentionResult attention_reference(const AttentionSequences& p, const Values& q,
                                           const Values& k, const Values& v,
                                           const Values& sinks = {}) {
  AttentionResult all{Values(q.size(), 0.0),
                      Values(static_cast<size_t>(p.of_all.heads * p.queries.back()))};
  p.each([&](const AttentionCase& one, int64_t query, int64_t key) {
    const AttentionResult r = attention_reference(one, p.rows(q, query, one.queries, one.heads),
                                                  p.rows(k, key, one.keys, one.kv_heads),
                                                  p.rows(v, key, one.keys, one.kv_heads), sinks);
    std::copy(r.o.begin(), r.o.end(), all.o.begin() + query * one.heads * one.dim);
    for (int64_t h = 0; h < one.heads; ++h)
      std::copy_n(r.lse.begin() + h * one.queries, one.queries,
                  all.lse.begin() + h * p.queries.back() + query);
  });
  return all;
}

inline AttentionGradients attention_gradient_reference(const AttentionSequences& p, const Values& q,
                                                       const Values& k, const Values& v,
                                                       const Values& o, const Values& d_o,
                                                       const Values& lse, const Values& d_lse = {},
                                                       const Values& sinks = {}) {
  AttentionGradients all{Values(q.size(), 0.0), Values(k.size(), 0.0), Values(v.size(), 0.0),
                         Values(sinks.size(), 0.0), Values(sinks.size(), 0.0)};
  p.each([&](const AttentionCase& one, int64_t query, int64_t key) {
    const auto of_queries = [&](const Values& x) {
      return p.rows(x, query, one.queries, one.heads);
    };
    const auto of_keys = [&](const Values& x) { return p.rows(x, key, one.keys, one.kv_heads); };
    const AttentionGradients g = attention_gradient_reference(
        one, of_queries(q), of_keys(k), of_keys(v), of_queries(o), of_queries(d_o),
        p.numbers(lse, query, one.queries),
        d_lse.empty() ? d_lse : p.numbers(d_lse, query, one.queries), sinks);
    std::copy(g.dq.begin(), g.dq.end(), all.dq.begin() + query * one.heads * one.dim);
    std::copy(g.dk.begin(), g.dk.end(), all.dk.begin() + key * one.kv_heads * one.dim);
    std::copy(g.dv.begin(), g.dv.end(), all.dv.begin() + key * one.kv_heads * one.dim);
    for (size_t h = 0; h < sinks.size(); ++h)
      all.d_sinks[h] += g.d_sinks[h], all.sink_terms[h] += g.sink_terms[h];
  });
  return all;
}

}  // namespace ligerdsl::reference
