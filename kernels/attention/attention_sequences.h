// Token ranges of the sequences in one attention call, from bounds that the device reads.
#pragma once

#include "kernels/attention/attention.h"
#include "kernels/core/error_flag.h"

namespace ligerdsl::kernels {

class AttentionSequences {
 public:
  AttentionSequences(KernelBuilder& k, const AttentionMeta& m)
      : queries_(bounds(k, m, "cu_seqlens_q")),
        keys_(bounds(k, m, "cu_seqlens_k")),
        max_queries_(k.scalar("max_queries", i64)),
        max_keys_(k.scalar("max_keys", i64)) {}

  Scalar count() const { return queries_.dim(0) - 1; }
  const Scalar& max_queries() const { return max_queries_; }
  const Scalar& max_keys() const { return max_keys_; }

  // Returns one sequence's slice of `all` along `axis`. The slice is within `all` even if the
  // bounds are invalid.
  View queries_of(const Scalar& sequence, const View& all, int axis = 0) const {
    return of(queries_, sequence, all, axis);
  }
  View keys_of(const Scalar& sequence, const View& all) const {
    return of(keys_, sequence, all, 0);
  }

  // Reports the sequence in the error flag unless its bounds are valid for `queries` queries and
  // `keys` keys.
  void check(KernelBuilder& k, const Scalar& sequence, const Scalar& queries,
             const Scalar& keys) const {
    const View error = k.view("error", i64, {1});
    atomic_max(error.ptr(), kErrorBase - sequence.to(i64),
               wrong(queries_, sequence, queries, max_queries_) ||
                   wrong(keys_, sequence, keys, max_keys_));
  }

 private:
  static View bounds(KernelBuilder& k, const AttentionMeta& m, const char* name) {
    return k.view(name, m.index_type, {dyn}, {.strides = {dyn}, .read_only = true});
  }
  static Scalar at(const View& bounds, const Scalar& number) {
    return bounds.load({number}).to(i64);
  }
  static View of(const View& bounds, const Scalar& sequence, const View& all, int axis) {
    return all.slice(axis, at(bounds, sequence), at(bounds, sequence + 1));
  }
  // Returns true if bounds are invalid. The first sequence must begin at token 0 and the last one
  // must end at the last token, so that each token belongs to a sequence.
  Scalar wrong(const View& bounds, const Scalar& sequence, const Scalar& tokens,
               const Scalar& most) const {
    const Scalar begin = at(bounds, sequence), end = at(bounds, sequence + 1);
    const Scalar first = sequence == 0, last = sequence.to(i64) + 1 == count();
    return begin < 0 || end < begin || end > tokens || end - begin > most ||
           (first && begin != 0) || (last && end != tokens);
  }

  View queries_, keys_;
  Scalar max_queries_, max_keys_;
};

}  // namespace ligerdsl::kernels
