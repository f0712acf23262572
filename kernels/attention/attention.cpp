// Attention and its gradients, block by block (Dao, "FlashAttention-2", 2023, algorithms 1 and 2). Of a head, with z_ij =
// scale q_i . k_j, or cap tanh(scale q_i . k_j / cap), where query i sees key j:
//
//   p_ij = e^(z_ij - lse_i),  lse_i = log sum_j e^z_ij,  o_i = sum_j p_ij v_j;  lse_i = -inf, o_i = 0 where i sees none
//   delta_i = o_i . d_o_i,  d_v_j = sum_i p_ij d_o_i,  d_s_ij = p_ij (d_o_i . v_j - delta_i) dz/ds
//   d_k_j = scale sum_i d_s_ij q_i,  d_q_i = scale sum_j d_s_ij k_j
//
// Products of factors of `type`, p and d_s rounded to it, sums in f32. Flop, of what is seen of S T pairs: 4 D forward, 14 D or,
// where d_k and d_v are made one after the other, 16 D backward: scores are made again for each of the programs. Nothing is
// added by atomics, so bits do not depend on the order of programs.
#include "kernels/attention/attention.h"

#include <numbers>

#include "kernels/attention/attention_band.h"
#include "kernels/attention/attention_sequences.h"

namespace ligerdsl::kernels {
namespace {

constexpr float kLog2E = std::numbers::log2e_v<float>, kLn2 = std::numbers::ln2_v<float>;

View heads_of(KernelBuilder& k, const AttentionMeta& m, const char* name, int64_t heads) {
  if (m.sequences) return k.view(name, m.type, {dyn, heads, m.dim}, {.strides = {dyn, dyn, 1}});
  return k.view(name, m.type, {dyn, dyn, heads, m.dim}, {.strides = {dyn, dyn, dyn, 1}});
}

View numbers_of(KernelBuilder& k, const AttentionMeta& m, const char* name) {
  if (m.sequences) return k.view(name, f32, {m.heads, dyn}, {.strides = {dyn, 1}});
  return k.view(name, f32, {dyn, m.heads, dyn}, {.strides = {dyn, dyn, 1}});
}

// A block of rows of one head: [rows, width].
class HeadRows {
 public:
  HeadRows(const View& view, const AttentionMeta& m, int64_t rows)
      : of_batch_(m.sequences == 0),
        rows_(view.partition(of_batch_ ? Shape{squeeze, rows, squeeze, m.width} : Shape{rows, squeeze, m.width})) {}

  Tile load(const Scalar& batch, const Scalar& block, const Scalar& head) const {
    return rows_.load(index(batch, block, head));
  }
  void store(const Scalar& batch, const Scalar& block, const Scalar& head, const Tile& values) const {
    rows_.store(index(batch, block, head), values.to(rows_.view().dtype()));
  }

 private:
  Indices index(const Scalar& batch, const Scalar& block, const Scalar& head) const {
    return of_batch_ ? Indices{batch, block, head, 0} : Indices{block, head, 0};
  }

  bool of_batch_;  // else the view is one sequence's
  Partition rows_;
};

// A number of each of a block of rows of one head.
class HeadNumbers {
 public:
  HeadNumbers(const View& view, const AttentionMeta& m)
      : of_batch_(m.sequences == 0),
        numbers_(view.partition(of_batch_ ? Shape{squeeze, squeeze, m.tile_q} : Shape{squeeze, m.tile_q})) {}

  Tile load(const Scalar& batch, const Scalar& block, const Scalar& head) const {
    return numbers_.load(index(batch, block, head));
  }
  void store(const Scalar& batch, const Scalar& block, const Scalar& head, const Tile& values) const {
    numbers_.store(index(batch, block, head), values);
  }

 private:
  Indices index(const Scalar& batch, const Scalar& block, const Scalar& head) const {
    return of_batch_ ? Indices{batch, head, block} : Indices{head, block};
  }

  bool of_batch_;
  Partition numbers_;
};

// From products q k^T to powers of 2. Nothing is divided: a call, as exact division is one, keeps wgmma waiting.
class Scores {
 public:
  Scores(KernelBuilder& k, const AttentionMeta& m, const Scalar& scale) : scale_(scale), to_log2_(scale * kLog2E) {
    if (!m.softcap) return;
    cap_ = k.scalar("cap", f32);
    inverse_cap_ = k.scalar("inverse_cap", f32);
    to_log2_ = k.constant(kLog2E, f32);
  }

  // What scores are compared by: products as they are, or z.
  Tile capped(const Tile& products) const {
    return cap_.empty() ? products : cap_ * tanh(products * (scale_ * inverse_cap_));
  }
  // d_s, of what would be it without a cap.
  Tile through_cap(const Tile& d_z, const Tile& capped) const {
    if (cap_.empty()) return d_z;
    const Tile t = capped * inverse_cap_;
    return d_z * fma(-t, t, 1.0f);
  }
  // log2(e) z, and 2^(log2(e) z - base).
  Tile log2(const Tile& capped) const { return capped * to_log2_; }
  Tile power(const Tile& capped, const Tile& base) const { return fast_exp2(fma(capped, to_log2_, -base)); }

 private:
  Scalar scale_, to_log2_;
  Scalar cap_, inverse_cap_;  // with softcap, else empty
};

// What a program is for. Heads that share keys follow each other. One block of each of as many heads as the second-level cache holds what
// they read, then the next block of each: where the blocks that see most come first, those that see least come last for many heads.
struct Place {
  Scalar batch, head, block;

  // Of `blocks` blocks of each of a batch's heads; a sequence may have fewer. Programs of `together` heads read the same `read` rows of two
  // arrays.
  Place(KernelBuilder& k, const AttentionMeta& m, const Scalar& batches, const Scalar& blocks, int64_t heads,
        int64_t together, const Scalar& read) {
    const Scalar program = k.program_id(0), bytes = read.to(i64) * (2 * m.width * size_of(m.type));
    const Scalar count = blocks.to(i32), all = batches.to(i32) * static_cast<int32_t>(heads);
    const Scalar turn = min(max(k.constant(m.cached_bytes, i64) / max(bytes, 1), 1) * together, all.to(i64)).to(i32);
    const Scalar first = program / (turn * count) * turn, rest = program - first * count;
    const Scalar now = min(turn, all - first);
    block = rest / now;
    const Scalar at = first + (rest - block * now);
    batch = at / static_cast<int32_t>(heads);
    head = at - batch * static_cast<int32_t>(heads);
  }
};

Scalar group_of(const AttentionMeta& m, const Scalar& head) {
  return head / static_cast<int32_t>(m.group());
}

// Tokens of a batch, or of one program's sequence: what grids count, and views that end where the sequence does.
class Tokens {
 public:
  Tokens(KernelBuilder& k, const AttentionMeta& m, const View& q, const View& keys) : k_(k), q_(q), all_keys_(keys) {
    if (m.sequences) sequences_.emplace(k, m);
  }
  Scalar batches() const { return sequences_ ? sequences_->count() : q_.dim(0); }
  Scalar queries() const { return sequences_ ? longest(sequences_->max_queries()) : q_.dim(1); }
  Scalar keys() const { return sequences_ ? longest(sequences_->max_keys()) : all_keys_.dim(1); }

  void check(const Scalar& batch) const {
    if (sequences_) sequences_->check(k_, batch, q_.dim(0), all_keys_.dim(0));
  }
  void cut(const Scalar& batch, AttentionBand* band, std::initializer_list<View*> of_queries,
           std::initializer_list<View*> of_keys, std::initializer_list<View*> numbers) const {
    if (!sequences_) return;
    for (View* view : of_queries) *view = sequences_->queries_of(batch, *view);
    for (View* view : of_keys)
      if (!view->empty()) *view = sequences_->keys_of(batch, *view);
    for (View* view : numbers)
      if (!view->empty()) *view = sequences_->queries_of(batch, *view, 1);
    band->measure(**of_queries.begin(), **of_keys.begin());
  }
  // body() where the sequence has a block that begins at `place` of the `count` that it has.
  template <class Body>
  void where_any(const Scalar& place, const Scalar& count, Body body) const {
    if (sequences_) return k_.if_(place < count, body);
    body();
  }

 private:
  // The bound by which the host makes grids: at least 1, so that one program checks the bounds of empty tensors.
  Scalar longest(const Scalar& promised) const { return max(min(promised, max(q_.dim(0), all_keys_.dim(0))), 1); }

  KernelBuilder& k_;
  View q_, all_keys_;
  std::optional<AttentionSequences> sequences_;
};

}  // namespace

void attention_forward(KernelBuilder& k, const AttentionMeta& m) {
  View o = heads_of(k, m, "o", m.heads), lse;
  if (m.with_lse) lse = numbers_of(k, m, "lse");
  View q = heads_of(k, m, "q", m.heads), keys = heads_of(k, m, "k", m.kv_heads),
       values = heads_of(k, m, "v", m.kv_heads);
  const Scores scores(k, m, k.scalar("scale", f32));
  AttentionBand band(k, m, q, keys);
  const Tokens tokens(k, m, q, keys);

  const Scalar blocks = cdiv(tokens.queries(), m.tile_q).to(i32);
  Place at(k, m, tokens.batches(), blocks, m.heads, m.group(), tokens.keys());
  if (m.right) at.block = blocks - 1 - at.block;  // those that see most first
  tokens.check(at.batch);
  tokens.cut(at.batch, &band, {&o, &q}, {&keys, &values}, {&lse});
  tokens.where_any(at.block.to(i64) * m.tile_q, band.queries(), [&] {
    const Scalar shared = group_of(m, at.head);
    const HeadRows rows(q, m, m.tile_q), key_rows(keys, m, m.tile_k), value_rows(values, m, m.tile_k);
    std::optional<Tile> held;
    if (!m.reload) held = rows.load(at.batch, at.block, at.head);

    const auto queries = [&] { return held ? *held : rows.load(at.batch, at.block, at.head); };
    const auto products = [&](const Scalar& block) {
      return scores.capped(
          dot(queries(), key_rows.load(at.batch, block, shared).permute({1, 0}), k.zeros({m.tile_q, m.tile_k}, f32)));
    };
    const auto hidden = [&](const AttentionBand::Masked& masked, const Tile& s, const Scalar& block) {
      return band.hidden(
          masked, s, [&] { return band.seen(at.block, block); }, -INFINITY);
    };
    const auto add_values = [&](const Tile& p, const Scalar& block, const Tile& weighted) {
      return dot(p, value_rows.load(at.batch, block, shared), weighted);
    };
    // By how much what has been added up counts less from here on, and what scores count.
    const auto weights = [&](const Tile& s, bool masked, const Tile& top, const Tile& sum) {
      const Tile highest = max(top, scores.log2(reduce_max(s, 1)));
      const Tile base = masked ? finite_maximum(highest) : highest;
      const Tile p = scores.power(s, base.expand_dims(1)), faded = fast_exp2(top - base);
      return std::tuple(highest, fma(sum, faded, ligerdsl::sum(p, 1)), p, faded.expand_dims(1));
    };
    const auto keys_seen = band.keys_of(at.block);
    const Tile nothing = k.full({m.tile_q}, -INFINITY, f32), zeros = k.zeros({m.tile_q}, f32);
    const Tile no_values = k.zeros({m.tile_q, m.width}, f32);
    std::optional<Tile> top, sum, weighted;
    if (m.ahead) {
      // A turn multiplies its scores and the values of the block before, which is under way while the scores become weights. The first one
      // has no block before, the last one no scores: both are zeros.
      const auto [most, total, values_of_all, last] = k.for_range(
          keys_seen.begin, keys_seen.end + 1, 1, LoopOptions{.num_stages = m.stages, .tensor_copies = m.tensor_copies},
          carry(nothing, zeros, no_values, k.zeros({m.tile_q, m.tile_k}, m.type)),
          [&](const Scalar& block, const Tile& top, const Tile& sum, const Tile& weighted, const Tile& before) {
            Tile s = products(block);
            const Tile more = add_values(before, max(block - 1, keys_seen.begin), weighted);
            s = hidden({.may = true, .here = AttentionBand::at_edge(keys_seen, m.left, true, block)}, s, block);
            const auto [highest, all, p, faded] = weights(s, true, top, sum);
            return carry(highest, all, more * faded, p.to(m.type));
          });
      top = most, sum = total, weighted = values_of_all;
    } else {
      const auto [most, total, values_of_all] =
          band.each(keys_seen, m.left, true, carry(nothing, zeros, no_values),
                    [&](const Scalar& block, const AttentionBand::Masked& masked, const Tile& top, const Tile& sum,
                        const Tile& weighted) {
                      Tile s = products(block);
                      s = hidden(masked, s, block);
                      const auto [highest, all, p, faded] = weights(s, masked.may, top, sum);
                      return carry(highest, all, add_values(p.to(m.type), block, weighted * faded));
                    });
      top = most, sum = total, weighted = values_of_all;
    }
    const Tile none = *sum == 0.0f;
    const Tile inverse = where(none, 0.0f, fast_div(1.0f, *sum));
    // Whatever values a row was multiplied with that has seen no key.
    HeadRows(o, m, m.tile_q)
        .store(at.batch, at.block, at.head, where(none.expand_dims(1), 0.0f, *weighted * inverse.expand_dims(1)));
    if (m.with_lse)
      HeadNumbers(lse, m).store(at.batch, at.block, at.head, where(none, -INFINITY, (*top + log2(*sum)) * kLn2));
  });
}

void attention_delta(KernelBuilder& k, const AttentionMeta& m) {
  const View delta = numbers_of(k, m, "delta");
  const View o = heads_of(k, m, "o", m.heads), d_o = heads_of(k, m, "d_o", m.heads);
  // The workspace may have more tokens than o: loads behind o's end give zeros.
  const Scalar batches = m.sequences ? k.constant(1, i64) : o.dim(0), rows = delta.dim(m.tokens_axis() + 1);
  const Place at(k, m, batches, cdiv(rows, m.tile_q), m.heads, 1, rows);
  const Tile value = HeadRows(o, m, m.tile_q).load(at.batch, at.block, at.head).to(f32);
  const Tile gradient = HeadRows(d_o, m, m.tile_q).load(at.batch, at.block, at.head).to(f32);
  HeadNumbers(delta, m).store(at.batch, at.block, at.head, ligerdsl::sum(value * gradient, 1));
}

void attention_backward_keys(KernelBuilder& k, const AttentionMeta& m) {
  View d_k, d_v, values, delta;
  if (m.d_k) d_k = heads_of(k, m, "d_k", m.kv_heads);
  if (m.d_v) d_v = heads_of(k, m, "d_v", m.kv_heads);
  View q = heads_of(k, m, "q", m.heads), keys = heads_of(k, m, "k", m.kv_heads);
  if (m.d_k) values = heads_of(k, m, "v", m.kv_heads);
  View d_o = heads_of(k, m, "d_o", m.heads);
  View lse = numbers_of(k, m, "lse");
  if (m.d_k) delta = numbers_of(k, m, "delta");
  const Scalar scale = k.scalar("scale", f32);
  const Scores scores(k, m, scale);
  AttentionBand band(k, m, q, keys);
  const Tokens tokens(k, m, q, keys);

  const Place at(k, m, tokens.batches(), cdiv(tokens.keys(), m.tile_k), m.kv_heads, 1, tokens.queries() * m.group());
  tokens.cut(at.batch, &band, {&q, &d_o}, {&keys, &values, &d_k, &d_v}, {&lse, &delta});
  tokens.where_any(at.block.to(i64) * m.tile_k, band.keys(), [&] {
    const HeadRows rows(q, m, m.tile_q), gradient_rows(d_o, m, m.tile_q), key_rows(keys, m, m.tile_k);
    const HeadRows value_rows(m.d_k ? values : keys, m, m.tile_k);
    // Loads by pointer: the loads of a partition would be issued an iteration ahead, to registers that sums take. Within a
    // block places have 32 bits, so that the 64-bit address is computed once for all elements of a thread.
    const Tile query = k.arange(m.tile_q);
    const auto numbers = [&](const View& view, const Scalar& head, const Scalar& block) {
      const Scalar first = block.to(i64) * m.tile_q;
      const Scalar row = m.sequences ? head.to(i64) * view.stride(0)
                                     : at.batch.to(i64) * view.stride(0) + head.to(i64) * view.stride(1);
      // All views of a sequence have the same number of queries. One register for it leaves more to the coordinates of TMA.
      const Scalar count = m.sequences ? m.tensor_copies ? band.queries() : view.dim(1) : view.dim(2);
      const Scalar left = min(count - first, m.tile_q).to(i32);
      return ligerdsl::load(view.ptr() + (first + row) + query, query < left, 0.0f).expand_dims(0);
    };
    std::optional<Tile> held_keys, held_values;
    if (!m.reload) held_keys = key_rows.load(at.batch, at.block, at.head);
    if (!m.reload && m.d_k) held_values = value_rows.load(at.batch, at.block, at.head);

    const Shape block_shape{m.tile_k, m.tile_q};
    const auto turn = [&](const Scalar& block, const Scalar& member, const AttentionBand::Masked& masked,
                          std::optional<Tile> sums_k, std::optional<Tile> sums_v) {
      const Scalar head = at.head * static_cast<int32_t>(m.group()) + member;
      const Tile key = held_keys ? *held_keys : key_rows.load(at.batch, at.block, at.head);
      const Tile queries = rows.load(at.batch, block, head), gradients = gradient_rows.load(at.batch, block, head);
      const Tile base = numbers(lse, head, block) * kLog2E;
      Tile mean;
      if (sums_k) mean = numbers(delta, head, block);
      Tile products = dot(key, queries.permute({1, 0}), k.zeros(block_shape, f32)), d_p;
      if (sums_k) {  // under way beside what becomes of the scores
        const Tile value = held_values ? *held_values : value_rows.load(at.batch, at.block, at.head);
        d_p = dot(value, gradients.permute({1, 0}), k.zeros(block_shape, f32));
      }
      const Tile s = scores.capped(products);
      Tile p = scores.power(s, base);
      p = band.hidden(
          masked, p, [&] { return band.seen_transposed(block, at.block); }, 0.0f);
      if (sums_v) sums_v = dot(p.to(m.type), gradients, *sums_v);
      if (sums_k) {
        const Tile d_s = p * (d_p - mean);
        sums_k = dot(scores.through_cap(d_s, s).to(m.type), queries, *sums_k);
      }
      return std::pair(sums_k, sums_v);
    };
    const auto blocks = band.queries_of(at.block);
    const Tile zeros = k.zeros({m.tile_k, m.width}, f32);
    const auto store = [&](const View& view, const Tile& sums) {
      HeadRows(view, m, m.tile_k).store(at.batch, at.block, at.head, sums);
    };
    if (m.d_k && m.d_v) {
      auto [sums_k, sums_v] =
          band.each_of_heads(m.group(), blocks, m.right, m.left, carry(zeros, zeros),
                             [&](const Scalar& block, const Scalar& member, const AttentionBand::Masked& masked,
                                 const Tile& sums_k, const Tile& sums_v) {
                               const auto [more_k, more_v] = turn(block, member, masked, sums_k, sums_v);
                               return carry(*more_k, *more_v);
                             });
      store(d_k, sums_k * scale);
      store(d_v, sums_v);
      return;
    }
    auto [sums] = band.each_of_heads(
        m.group(), blocks, m.right, m.left, carry(zeros),
        [&](const Scalar& block, const Scalar& member, const AttentionBand::Masked& masked, const Tile& sums) {
          const auto one = [&](bool wanted) { return wanted ? std::optional(sums) : std::nullopt; };
          const auto [more_k, more_v] = turn(block, member, masked, one(m.d_k), one(m.d_v));
          return carry(m.d_k ? *more_k : *more_v);
        });
    m.d_k ? store(d_k, sums * scale) : store(d_v, sums);
  });
}

void attention_backward_queries(KernelBuilder& k, const AttentionMeta& m) {
  View d_q = heads_of(k, m, "d_q", m.heads);
  View q = heads_of(k, m, "q", m.heads), keys = heads_of(k, m, "k", m.kv_heads),
       values = heads_of(k, m, "v", m.kv_heads), d_o = heads_of(k, m, "d_o", m.heads);
  View lse = numbers_of(k, m, "lse"), delta = numbers_of(k, m, "delta");
  const Scalar scale = k.scalar("scale", f32);
  const Scores scores(k, m, scale);
  AttentionBand band(k, m, q, keys);
  const Tokens tokens(k, m, q, keys);

  const Scalar blocks = cdiv(tokens.queries(), m.tile_q).to(i32);
  Place at(k, m, tokens.batches(), blocks, m.heads, m.group(), tokens.keys());
  if (m.right) at.block = blocks - 1 - at.block;  // those that see most first
  tokens.check(at.batch);
  tokens.cut(at.batch, &band, {&d_q, &q, &d_o}, {&keys, &values}, {&lse, &delta});
  tokens.where_any(at.block.to(i64) * m.tile_q, band.queries(), [&] {
    const Scalar shared = group_of(m, at.head);
    const HeadRows rows(q, m, m.tile_q), gradient_rows(d_o, m, m.tile_q), key_rows(keys, m, m.tile_k),
        value_rows(values, m, m.tile_k);
    const auto numbers = [&](const View& view) {
      return HeadNumbers(view, m).load(at.batch, at.block, at.head).expand_dims(1);
    };
    const Tile base = numbers(lse) * kLog2E, mean = numbers(delta);
    std::optional<Tile> held_queries, held_gradients;
    if (!m.reload) held_queries = rows.load(at.batch, at.block, at.head);
    if (!m.reload) held_gradients = gradient_rows.load(at.batch, at.block, at.head);

    const Shape block_shape{m.tile_q, m.tile_k};
    auto [sums] = band.each(
        band.keys_of(at.block), m.left, true, carry(k.zeros({m.tile_q, m.width}, f32)),
        [&](const Scalar& block, const AttentionBand::Masked& masked, const Tile& sums) {
          const Tile queries = held_queries ? *held_queries : rows.load(at.batch, at.block, at.head);
          const Tile key = key_rows.load(at.batch, block, shared);
          const Tile products = dot(queries, key.permute({1, 0}), k.zeros(block_shape, f32));
          const Tile gradients = held_gradients ? *held_gradients : gradient_rows.load(at.batch, at.block, at.head);
          const Tile value = value_rows.load(at.batch, block, shared);
          const Tile d_p = dot(gradients, value.permute({1, 0}), k.zeros(block_shape, f32));
          const Tile s = scores.capped(products);
          Tile p = scores.power(s, base);
          p = band.hidden(
              masked, p, [&] { return band.seen(at.block, block); }, 0.0f);
          const Tile d_s = p * (d_p - mean);
          return carry(dot(scores.through_cap(d_s, s).to(m.type), key, sums));
        });
    HeadRows(d_q, m, m.tile_q).store(at.batch, at.block, at.head, sums * scale);
  });
}

}  // namespace ligerdsl::kernels
