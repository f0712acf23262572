// Attention and its gradients, block by block (Dao, "FlashAttention-2", 2023, algorithms 1 and 2).
// For one head, with s_ij = scale q_i . k_j, and z_ij = s_ij or cap tanh(s_ij / cap), if query i
// sees key j:
//
//   p_ij = e^(z_ij - lse_i),  lse_i = log sum_j e^z_ij,  o_i = sum_j p_ij v_j
//   o_i = 0 if query i sees no key; then lse_i = -inf without a sink
//
//   delta_i = o_i . d_o_i - d_lse_i,  d_v_j = sum_i p_ij d_o_i
//   d_s_ij = p_ij (d_o_i . v_j - delta_i) dz/ds
//   d_k_j = scale sum_i d_s_ij q_i,  d_q_i = scale sum_j d_s_ij k_j
//
// A head's sink is a score without a value. Every query sees it, so the sum in lse_i has one more
// term, e^sink. The sink's gradient is d_sink = -sum_i e^(sink - lse_i) delta_i.
//
// Matmul operands have the dtype `type`; p and d_s are rounded to it. Accumulators are f32.
//
// Flop per visible query-key pair: 4 D forward, 14 D backward. Separate programs for d_k and d_v
// need 16 D backward, because both recompute the scores.
//
// No kernel uses floating-point atomics, so results are bit-identical for any order of programs.
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

View sinks_of(KernelBuilder& k, const AttentionMeta& m, const char* name = "sinks") {
  return k.view(name, f32, {m.heads});
}

View partials_of(KernelBuilder& k, const AttentionMeta& m) {
  return k.view("sink_partials", f32, {m.heads, dyn}, {.strides = {dyn, 1}});
}

// Rows of q, k, v or o of one head, loaded and stored as tiles [rows, width].
class HeadRows {
 public:
  HeadRows(const View& view, const AttentionMeta& m, int64_t rows)
      : of_batch_(m.sequences == 0),
        rows_(view.partition(of_batch_ ? Shape{squeeze, rows, squeeze, m.width}
                                       : Shape{rows, squeeze, m.width})) {}

  Tile load(const Scalar& batch, const Scalar& block, const Scalar& head) const {
    return rows_.load(index(batch, block, head));
  }
  void store(const Scalar& batch, const Scalar& block, const Scalar& head,
             const Tile& values) const {
    rows_.store(index(batch, block, head), values.to(rows_.view().dtype()));
  }

 private:
  Indices index(const Scalar& batch, const Scalar& block, const Scalar& head) const {
    return of_batch_ ? Indices{batch, block, head, 0} : Indices{block, head, 0};
  }

  bool of_batch_;  // false if the view has no batch dimension
  Partition rows_;
};

// One f32 value per query of a head (lse, delta), loaded and stored as tiles [tile_q].
class HeadScalars {
 public:
  HeadScalars(const View& view, const AttentionMeta& m)
      : of_batch_(m.sequences == 0),
        numbers_(view.partition(of_batch_ ? Shape{squeeze, squeeze, m.tile_q}
                                          : Shape{squeeze, m.tile_q})) {}

  Tile load(const Scalar& batch, const Scalar& block, const Scalar& head) const {
    return numbers_.load(index(batch, block, head));
  }
  void store(const Scalar& batch, const Scalar& block, const Scalar& head,
             const Tile& values) const {
    numbers_.store(index(batch, block, head), values);
  }

 private:
  Indices index(const Scalar& batch, const Scalar& block, const Scalar& head) const {
    return of_batch_ ? Indices{batch, head, block} : Indices{head, block};
  }

  bool of_batch_;
  Partition numbers_;
};

// Applies scale and softcap to scores q k^T, and computes weights as powers of 2. It multiplies by
// reciprocals: an exact division is a function call, and calls serialise wgmma.
class Scores {
 public:
  Scores(KernelBuilder& k, const AttentionMeta& m, const Scalar& scale)
      : scale_(scale), to_log2_(scale * kLog2E) {
    if (!m.softcap) return;
    cap_ = k.scalar("cap", f32);
    inverse_cap_ = k.scalar("inverse_cap", f32);
    to_log2_ = k.constant(kLog2E, f32);
  }

  // Returns z with a softcap, q k^T without; the other functions take the result as `capped`.
  Tile capped(const Tile& raw_scores) const {
    return cap_.empty() ? raw_scores : cap_ * tanh(raw_scores * (scale_ * inverse_cap_));
  }
  // Returns d_s from d_z and the capped scores.
  Tile cap_gradient(const Tile& d_z, const Tile& capped) const {
    if (cap_.empty()) return d_z;
    const Tile t = capped * inverse_cap_;
    return d_z * fma(-t, t, 1.0f);
  }
  // log2 returns log2(e) z; power returns 2^(log2(e) z - base).
  Tile log2(const Tile& capped) const { return capped * to_log2_; }
  Tile power(const Tile& capped, const Tile& base) const {
    return fast_exp2(fma(capped, to_log2_, -base));
  }

 private:
  Scalar scale_, to_log2_;
  Scalar cap_, inverse_cap_;  // empty without softcap
};

// Batch, head and block of a program. Heads that share keys are consecutive. Heads are divided into
// groups whose streamed rows, such as keys and values, fit in L2 together. Within a group the block
// index varies slowest: all heads run one block, then the next. If the caller puts the blocks with
// most work first, each group ends with the blocks of least work.
struct Place {
  Scalar batch, head, block;

  // A head has `blocks` blocks per batch; a short sequence may have fewer. `together` consecutive
  // heads read the same `read` rows of each of two arrays, for example keys and values.
  Place(KernelBuilder& k, const AttentionMeta& m, const Scalar& batches, const Scalar& blocks,
        int64_t heads, int64_t together, const Scalar& read) {
    const Scalar program = k.program_id(0), bytes = read.to(i64) * (2 * m.width * size_of(m.type));
    const Scalar count = blocks.to(i32), all = batches.to(i32) * static_cast<int32_t>(heads);
    const Scalar at_once =
        min(max(k.constant(m.cached_bytes, i64) / max(bytes, 1), 1) * together, all.to(i64))
            .to(i32);
    const Scalar first = program / (at_once * count) * at_once, rest = program - first * count;
    const Scalar now = min(at_once, all - first);
    block = rest / now;
    const Scalar at = first + (rest - block * now);
    batch = at / static_cast<int32_t>(heads);
    head = at - batch * static_cast<int32_t>(heads);
  }
};

Scalar group_of(const AttentionMeta& m, const Scalar& head) {
  return head / static_cast<int32_t>(m.group());
}

// Numbers of batches, queries and keys that determine each program's Place. With sequences,
// slice_to_sequence restricts views to the program's sequence.
class Tokens {
 public:
  Tokens(KernelBuilder& k, const AttentionMeta& m, const View& q, const View& keys)
      : k_(k), q_(q), all_keys_(keys) {
    if (m.sequences) sequences_.emplace(k, m);
  }
  Scalar batches() const { return sequences_ ? sequences_->count() : q_.dim(0); }
  Scalar queries() const { return sequences_ ? longest(sequences_->max_queries()) : q_.dim(1); }
  Scalar keys() const { return sequences_ ? longest(sequences_->max_keys()) : all_keys_.dim(1); }

  void check(const Scalar& batch) const {
    if (sequences_) sequences_->check(k_, batch, q_.dim(0), all_keys_.dim(0));
  }
  void slice_to_sequence(const Scalar& batch, AttentionBand* band,
                         std::initializer_list<View*> of_queries,
                         std::initializer_list<View*> of_keys,
                         std::initializer_list<View*> numbers) const {
    if (!sequences_) return;
    for (View* view : of_queries) *view = sequences_->queries_of(batch, *view);
    for (View* view : of_keys)
      if (!view->empty()) *view = sequences_->keys_of(batch, *view);
    for (View* view : numbers)
      if (!view->empty()) *view = sequences_->queries_of(batch, *view, 1);
    band->measure(**of_queries.begin(), **of_keys.begin());
  }
  // Runs body(). With sequences, runs it only if token `place` is below the length `count`.
  template <class Body>
  void if_block_exists(const Scalar& place, const Scalar& count, Body body) const {
    if (sequences_) return k_.if_(place < count, body);
    body();
  }

 private:
  // Returns an upper bound of a sequence's length. The host computes grids from the same bound. It
  // is at least 1, so that a program checks the sequence bounds even if the tensors are empty.
  Scalar longest(const Scalar& promised) const {
    return max(min(promised, max(q_.dim(0), all_keys_.dim(0))), 1);
  }

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
  View sinks;
  if (m.with_sinks) sinks = sinks_of(k, m);

  const Scalar blocks = cdiv(tokens.queries(), m.tile_q).to(i32);
  Place at(k, m, tokens.batches(), blocks, m.heads, m.group(), tokens.keys());
  if (m.right) at.block = blocks - 1 - at.block;  // blocks with most keys first
  tokens.check(at.batch);
  tokens.slice_to_sequence(at.batch, &band, {&o, &q}, {&keys, &values}, {&lse});
  tokens.if_block_exists(at.block.to(i64) * m.tile_q, band.queries(), [&] {
    const Scalar shared = group_of(m, at.head);
    const HeadRows rows(q, m, m.tile_q), key_rows(keys, m, m.tile_k),
        value_rows(values, m, m.tile_k);
    std::optional<Tile> held;
    if (!m.reload) held = rows.load(at.batch, at.block, at.head);

    const auto queries = [&] { return held ? *held : rows.load(at.batch, at.block, at.head); };
    const auto block_scores = [&](const Scalar& block) {
      return scores.capped(dot(queries(), key_rows.load(at.batch, block, shared).permute({1, 0}),
                               k.zeros({m.tile_q, m.tile_k}, f32)));
    };
    const auto hidden = [&](const AttentionBand::Masked& masked, const Tile& s,
                            const Scalar& block) {
      return band.hidden(
          masked, s, [&] { return band.seen(at.block, block); }, -INFINITY);
    };
    const auto add_values = [&](const Tile& p, const Scalar& block, const Tile& weighted) {
      return dot(p, value_rows.load(at.batch, block, shared), weighted);
    };
    // Returns the new row maximum and sum, the block's weights p, and the factor that rescales
    // earlier values.
    const auto weights = [&](const Tile& s, bool masked, const Tile& top, const Tile& sum) {
      const Tile highest = max(top, scores.log2(reduce_max(s, 1)));
      const Tile base = masked ? finite_maximum(highest) : highest;
      const Tile p = scores.power(s, base.expand_dims(1)), rescale = fast_exp2(top - base);
      return std::tuple(highest, fma(sum, rescale, ligerdsl::sum(p, 1)), p, rescale.expand_dims(1));
    };
    const auto keys_seen = band.keys_of(at.block);
    // Row maximum and sum before the first block. A sink is the first term of the sum.
    Tile first_top, first_sum;
    if (m.with_sinks) {
      const Scalar sink = sinks.load({at.head}) * kLog2E;
      first_top = k.full({m.tile_q}, sink, f32);
      first_sum = k.full({m.tile_q}, where(sink == -INFINITY, k.constant(0, f32), 1.0f), f32);
    } else {
      first_top = k.full({m.tile_q}, -INFINITY, f32), first_sum = k.zeros({m.tile_q}, f32);
    }
    const Tile no_values = k.zeros({m.tile_q, m.width}, f32);
    std::optional<Tile> top, sum, weighted;
    if (m.ahead) {
      // Software pipeline: an iteration computes the scores of its block and multiplies the
      // previous block's weights by V. That matmul overlaps the conversion of scores to weights.
      // The first iteration has weights of 0; in the last one all scores are masked.
      const auto [most, total, values_of_all, last] = k.for_range(
          keys_seen.begin, keys_seen.end + 1, 1,
          LoopOptions{.num_stages = m.stages, .tensor_copies = m.tensor_copies},
          carry(first_top, first_sum, no_values, k.zeros({m.tile_q, m.tile_k}, m.type)),
          [&](const Scalar& block, const Tile& top, const Tile& sum, const Tile& weighted,
              const Tile& before) {
            Tile s = block_scores(block);
            const Tile more = add_values(before, max(block - 1, keys_seen.begin), weighted);
            s = hidden(
                {.may = true, .here = AttentionBand::at_edge(keys_seen, m.left, true, block)}, s,
                block);
            const auto [highest, all, p, rescale] = weights(s, true, top, sum);
            return carry(highest, all, more * rescale, p.to(m.type));
          });
      top = most, sum = total, weighted = values_of_all;
    } else {
      const auto [most, total, values_of_all] = band.each(
          keys_seen, m.left, true, carry(first_top, first_sum, no_values),
          [&](const Scalar& block, const AttentionBand::Masked& masked, const Tile& top,
              const Tile& sum, const Tile& weighted) {
            Tile s = block_scores(block);
            s = hidden(masked, s, block);
            const auto [highest, all, p, rescale] = weights(s, masked.may, top, sum);
            return carry(highest, all, add_values(p.to(m.type), block, weighted * rescale));
          });
      top = most, sum = total, weighted = values_of_all;
    }
    const Tile none = *sum == 0.0f;
    const Tile inverse = where(none, 0.0f, fast_div(1.0f, *sum));
    // Queries that see no key get o = 0, even if v holds inf or NaN. With a sink their sum is not
    // 0, so the band is checked instead.
    const Tile hides_values = m.with_sinks && m.right ? none || band.sees_nothing(at.block) : none;
    HeadRows(o, m, m.tile_q)
        .store(at.batch, at.block, at.head,
               where(hides_values.expand_dims(1), 0.0f, *weighted * inverse.expand_dims(1)));
    if (m.with_lse)
      HeadScalars(lse, m).store(at.batch, at.block, at.head,
                                where(none, -INFINITY, (*top + log2(*sum)) * kLn2));
  });
}

void attention_delta(KernelBuilder& k, const AttentionMeta& m) {
  const View deltas = numbers_of(k, m, "delta");
  const View o = heads_of(k, m, "o", m.heads), d_o = heads_of(k, m, "d_o", m.heads);
  View lse, d_lse, sinks, partials;
  if (m.with_d_lse || m.with_sinks) lse = numbers_of(k, m, "lse");
  if (m.with_d_lse) d_lse = numbers_of(k, m, "d_lse");
  if (m.with_sinks) sinks = sinks_of(k, m), partials = partials_of(k, m);
  // The workspace may have more tokens than o. Loads past the end of o return zeros.
  const Scalar batches = m.sequences ? k.constant(1, i64) : o.dim(0),
               rows = deltas.dim(m.tokens_axis() + 1);
  const Place at(k, m, batches, cdiv(rows, m.tile_q), m.heads, 1, rows);
  const Tile value = HeadRows(o, m, m.tile_q).load(at.batch, at.block, at.head).to(f32);
  const Tile gradient = HeadRows(d_o, m, m.tile_q).load(at.batch, at.block, at.head).to(f32);
  const HeadScalars numbers(deltas, m);
  Tile delta = ligerdsl::sum(value * gradient, 1);
  if (m.with_d_lse || m.with_sinks) {
    const Tile base = HeadScalars(lse, m).load(at.batch, at.block, at.head);
    const Tile none = base == -INFINITY;  // the query sees neither a key nor a sink
    if (m.with_d_lse)
      delta = where(none, delta, delta - HeadScalars(d_lse, m).load(at.batch, at.block, at.head));
    if (m.with_sinks) {
      // Padded rows load lse = 0, so their weight may overflow; their delta is 0, so they
      // contribute 0.
      const Tile weight = fast_exp2((sinks.load({at.head}) - base) * kLog2E);
      const Tile part = where(none || delta == 0.0f, 0.0f, weight * -delta);
      const Scalar blocks = cdiv(rows, m.tile_q).to(i32);
      partials.store({at.head, at.batch * blocks + at.block}, ligerdsl::sum(part));
    }
  }
  numbers.store(at.batch, at.block, at.head, delta);
}

void attention_d_sinks(KernelBuilder& k, const AttentionMeta& m) {
  const View d_sinks = sinks_of(k, m, "d_sinks"), partials = partials_of(k, m);
  const Scalar head = k.program_id(0);
  const Partition tiles = partials.partition({squeeze, m.tile_q});
  const auto [lanes] =
      k.for_range(0, cdiv(partials.dim(1), m.tile_q), 1, carry(k.zeros({m.tile_q}, f32)),
                  [&](const Scalar& i, const Tile& lanes) {
                    return carry(lanes + tiles.load({head, i}));
                  });
  d_sinks.store({head}, ligerdsl::sum(lanes));
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

  const Place at(k, m, tokens.batches(), cdiv(tokens.keys(), m.tile_k), m.kv_heads, 1,
                 tokens.queries() * m.group());
  tokens.slice_to_sequence(at.batch, &band, {&q, &d_o}, {&keys, &values, &d_k, &d_v},
                           {&lse, &delta});
  tokens.if_block_exists(at.block.to(i64) * m.tile_k, band.keys(), [&] {
    const HeadRows rows(q, m, m.tile_q), gradient_rows(d_o, m, m.tile_q),
        key_rows(keys, m, m.tile_k);
    const HeadRows value_rows(m.d_k ? values : keys, m, m.tile_k);
    // Loads lse or delta by pointers. Partition loads would be issued one iteration ahead, into
    // registers that the accumulators need. Offsets within a block are 32-bit, so that each thread
    // computes the 64-bit address once.
    const Tile query = k.arange(m.tile_q);
    const auto numbers = [&](const View& view, const Scalar& head, const Scalar& block) {
      const Scalar first = block.to(i64) * m.tile_q;
      const Scalar row = m.sequences
                             ? head.to(i64) * view.stride(0)
                             : at.batch.to(i64) * view.stride(0) + head.to(i64) * view.stride(1);
      // With sequences and TMA copies, all views share one register for the number of queries,
      // because TMA coordinates need many registers.
      const Scalar count =
          m.sequences ? m.tensor_copies ? band.queries() : view.dim(1) : view.dim(2);
      const Scalar left = min(count - first, m.tile_q).to(i32);
      return ligerdsl::load(view.ptr() + (first + row) + query, query < left, 0.0f).expand_dims(0);
    };
    std::optional<Tile> held_keys, held_values;
    if (!m.reload) held_keys = key_rows.load(at.batch, at.block, at.head);
    if (!m.reload && m.d_k) held_values = value_rows.load(at.batch, at.block, at.head);

    const Shape block_shape{m.tile_k, m.tile_q};
    const auto step = [&](const Scalar& block, const Scalar& member,
                          const AttentionBand::Masked& masked, std::optional<Tile> acc_k,
                          std::optional<Tile> acc_v) {
      const Scalar head = at.head * static_cast<int32_t>(m.group()) + member;
      const Tile key = held_keys ? *held_keys : key_rows.load(at.batch, at.block, at.head);
      const Tile queries = rows.load(at.batch, block, head),
                 gradients = gradient_rows.load(at.batch, block, head);
      const Tile base = numbers(lse, head, block) * kLog2E;
      Tile mean;
      if (acc_k) mean = numbers(delta, head, block);
      Tile raw_scores = dot(key, queries.permute({1, 0}), k.zeros(block_shape, f32)), d_p;
      // This matmul overlaps the conversion of scores to weights.
      if (acc_k) {
        const Tile value =
            held_values ? *held_values : value_rows.load(at.batch, at.block, at.head);
        d_p = dot(value, gradients.permute({1, 0}), k.zeros(block_shape, f32));
      }
      const Tile s = scores.capped(raw_scores);
      Tile p = scores.power(s, base);
      p = band.hidden(
          masked, p, [&] { return band.seen_transposed(block, at.block); }, 0.0f);
      if (acc_v) acc_v = dot(p.to(m.type), gradients, *acc_v);
      if (acc_k) {
        const Tile d_s = p * (d_p - mean);
        acc_k = dot(scores.cap_gradient(d_s, s).to(m.type), queries, *acc_k);
      }
      return std::pair(acc_k, acc_v);
    };
    const auto blocks = band.queries_of(at.block);
    const Tile zeros = k.zeros({m.tile_k, m.width}, f32);
    const auto store = [&](const View& view, const Tile& acc) {
      HeadRows(view, m, m.tile_k).store(at.batch, at.block, at.head, acc);
    };
    if (m.d_k && m.d_v) {
      auto [acc_k, acc_v] = band.each_of_heads(
          m.group(), blocks, m.right, m.left, carry(zeros, zeros),
          [&](const Scalar& block, const Scalar& member, const AttentionBand::Masked& masked,
              const Tile& acc_k, const Tile& acc_v) {
            const auto [next_k, next_v] = step(block, member, masked, acc_k, acc_v);
            return carry(*next_k, *next_v);
          });
      store(d_k, acc_k * scale);
      store(d_v, acc_v);
      return;
    }
    auto [acc] = band.each_of_heads(
        m.group(), blocks, m.right, m.left, carry(zeros),
        [&](const Scalar& block, const Scalar& member, const AttentionBand::Masked& masked,
            const Tile& acc) {
          const auto one = [&](bool wanted) { return wanted ? std::optional(acc) : std::nullopt; };
          const auto [next_k, next_v] = step(block, member, masked, one(m.d_k), one(m.d_v));
          return carry(m.d_k ? *next_k : *next_v);
        });
    m.d_k ? store(d_k, acc * scale) : store(d_v, acc);
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
  if (m.right) at.block = blocks - 1 - at.block;  // blocks with most keys first
  tokens.check(at.batch);
  tokens.slice_to_sequence(at.batch, &band, {&d_q, &q, &d_o}, {&keys, &values}, {&lse, &delta});
  tokens.if_block_exists(at.block.to(i64) * m.tile_q, band.queries(), [&] {
    const Scalar shared = group_of(m, at.head);
    const HeadRows rows(q, m, m.tile_q), gradient_rows(d_o, m, m.tile_q),
        key_rows(keys, m, m.tile_k), value_rows(values, m, m.tile_k);
    const auto numbers = [&](const View& view) {
      return HeadScalars(view, m).load(at.batch, at.block, at.head).expand_dims(1);
    };
    const Tile base = numbers(lse) * kLog2E, mean = numbers(delta);
    std::optional<Tile> held_queries, held_gradients;
    if (!m.reload) held_queries = rows.load(at.batch, at.block, at.head);
    if (!m.reload) held_gradients = gradient_rows.load(at.batch, at.block, at.head);

    const Shape block_shape{m.tile_q, m.tile_k};
    auto [acc] = band.each(
        band.keys_of(at.block), m.left, true, carry(k.zeros({m.tile_q, m.width}, f32)),
        [&](const Scalar& block, const AttentionBand::Masked& masked, const Tile& acc) {
          const Tile queries =
              held_queries ? *held_queries : rows.load(at.batch, at.block, at.head);
          const Tile key = key_rows.load(at.batch, block, shared);
          const Tile raw_scores = dot(queries, key.permute({1, 0}), k.zeros(block_shape, f32));
          const Tile gradients =
              held_gradients ? *held_gradients : gradient_rows.load(at.batch, at.block, at.head);
          const Tile value = value_rows.load(at.batch, block, shared);
          const Tile d_p = dot(gradients, value.permute({1, 0}), k.zeros(block_shape, f32));
          const Tile s = scores.capped(raw_scores);
          Tile p = scores.power(s, base);
          p = band.hidden(
              masked, p, [&] { return band.seen(at.block, block); }, 0.0f);
          const Tile d_s = p * (d_p - mean);
          return carry(dot(scores.cap_gradient(d_s, s).to(m.type), key, acc));
        });
    HeadRows(d_q, m, m.tile_q).store(at.batch, at.block, at.head, acc * scale);
  });
}

}  // namespace ligerdsl::kernels
