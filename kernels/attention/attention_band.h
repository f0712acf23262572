// The keys that each query sees. They form a band along the diagonal that ends at the last query
// and the last key:
//
//   query i of S sees key j of T  <=>  i + T - S - left <= j <= i + T - S + right,  0 <= j < T
//
// Blocks of scores outside the band are skipped. Only blocks that an edge of the band crosses need
// a mask.
#pragma once

#include <algorithm>

#include "kernels/attention/attention.h"

namespace ligerdsl::kernels {

class AttentionBand {
 public:
  AttentionBand(KernelBuilder& k, const AttentionMeta& m, const View& q, const View& keys)
      : k_(k),
        m_(m),
        queries_(q.dim(m.tokens_axis())),
        keys_(keys.dim(m.tokens_axis())),
        shift_(keys_ - queries_) {
    if (m.left) left_ = k.scalar("window_left", i64);
    if (m.right) right_ = k.scalar("window_right", i64);
  }

  // Restricts the band to one sequence, whose slices of q and keys are the arguments.
  void measure(const View& q, const View& keys) {
    queries_ = q.dim(m_.tokens_axis()), keys_ = keys.dim(m_.tokens_axis()),
    shift_ = keys_ - queries_;
  }
  const Scalar& queries() const { return queries_; }
  const Scalar& keys() const { return keys_; }

  // Blocks [begin, end) have at least one visible score. All scores of blocks [whole, edge) are
  // visible.
  struct Blocks {
    Scalar begin, whole, edge, end;
  };

  // Returns the blocks of keys that a block of queries sees. The last block of queries may have
  // padded rows; their results are not stored.
  Blocks keys_of(const Scalar& block) const {
    const Scalar first = block.to(i64) * m_.tile_q + shift_, last = first + (m_.tile_q - 1);
    return blocks(m_.tile_k, keys_, m_.left ? first - left_ : none(),
                  m_.left ? last - left_ : none(), m_.right ? first + right_ : keys_,
                  m_.right ? last + right_ : keys_, /*ragged=*/true);
  }
  // Returns the blocks of queries that see a block of keys. Padded queries are loaded as zeros and
  // add nothing to gradients. Gradients of padded keys are not stored.
  Blocks queries_of(const Scalar& block) const {
    const Scalar first = block.to(i64) * m_.tile_k - shift_, last = first + (m_.tile_k - 1);
    return blocks(m_.tile_q, queries_, m_.right ? first - right_ : none(),
                  m_.right ? last - right_ : none(), m_.left ? first + left_ : queries_,
                  m_.left ? last + left_ : queries_, /*ragged=*/false);
  }

  // Returns i1 [tile_q, tile_k], true for visible scores. A row's visible keys are a range, so a
  // thread compares its columns with two bounds per row.
  Tile seen(const Scalar& query_block, const Scalar& key_block) const {
    const Scalar last_key = near(keys_ - key_block.to(i64) * m_.tile_k) - 1;
    const Scalar diagonal = diagonal_of(query_block, key_block);
    const Tile key = k_.arange(m_.tile_k).expand_dims(0), query = k_.arange(m_.tile_q);
    Tile seen = m_.right ? key <= min(query + near(diagonal + right_), last_key).expand_dims(1)
                         : (key <= last_key).broadcast_to({m_.tile_q, m_.tile_k});
    if (m_.left) seen = seen && key >= (query + near(diagonal - left_)).expand_dims(1);
    return seen;
  }
  // Returns i1 [tile_q], true for queries that see no key because all keys are to their right.
  // Requires `right`.
  Tile sees_nothing(const Scalar& query_block) const {
    return k_.arange(m_.tile_q) < near(-(query_block.to(i64) * m_.tile_q + shift_ + right_));
  }
  // Returns i1 [tile_k, tile_q], true for visible scores; rows of padded keys are undefined.
  Tile seen_transposed(const Scalar& query_block, const Scalar& key_block) const {
    const Scalar diagonal = diagonal_of(query_block, key_block);
    const Tile key = k_.arange(m_.tile_k), query = k_.arange(m_.tile_q).expand_dims(0);
    Tile seen;
    if (m_.right) seen = query >= (key - near(diagonal + right_)).expand_dims(1);
    if (m_.left) {
      const Tile before = query <= (key - near(diagonal - left_)).expand_dims(1);
      seen = seen.empty() ? before : seen && before;
    }
    return seen;
  }

  // Blocks that need a mask: none if `may` is false, all if `here` is empty, otherwise those for
  // which `here` is true.
  struct Masked {
    bool may = false;
    std::optional<Scalar> here;  // true if the block needs a mask; empty if all or none do
  };
  // Returns `values`, with `unseen` in place of hidden scores if the block needs a mask.
  template <class Seen>
  Tile hidden(const Masked& masked, const Tile& values, Seen seen, float unseen) const {
    if (!masked.may) return values;
    if (!masked.here) return where(seen(), values, unseen);
    return k_.if_(
        *masked.here, [&] { return where(seen(), values, unseen); }, [&] { return values; });
  }

  // Runs body(block, masked, state) for each block. Blocks with and without masks have separate
  // loops. With tensor_copies there is one loop, because a TMA loop cannot load operands for the
  // next loop ahead of time.
  template <class... T, class Body>
  Carry<T...> each(const Blocks& blocks, bool mask_before, bool mask_after, Carry<T...> state,
                   Body body) const {
    return each_of_heads(1, blocks, mask_before, mask_after, state,
                         [&](const Scalar& block, const Scalar&, const Masked& masked,
                             const T&... now) { return body(block, masked, now...); });
  }
  // Runs body(block, head, masked, state) for each block and head; the heads of a block are
  // consecutive.
  template <class... T, class Body>
  Carry<T...> each_of_heads(int64_t heads, const Blocks& blocks, bool mask_before, bool mask_after,
                            Carry<T...> state, Body body) const {
    const auto loop = [&](const Scalar& from, const Scalar& to, bool masked) {
      // One loop over blocks and heads, so that loads run ahead into the next block.
      const auto each_head = static_cast<int32_t>(heads);
      const LoopOptions options{.num_stages = m_.stages, .tensor_copies = m_.tensor_copies};
      state = k_.for_range(0, (to - from) * each_head, 1, options, state,
                           [&](const Scalar& iteration, const T&... now) {
                             const Scalar block = from + iteration / each_head;
                             Masked wanted{.may = masked};
                             if (masked && m_.tensor_copies)
                               wanted.here = at_edge(blocks, mask_before, mask_after, block);
                             return body(block, iteration % each_head, wanted, now...);
                           });
    };
    if (m_.tensor_copies) {
      loop(blocks.begin, blocks.end, mask_before || mask_after);
      return state;
    }
    if (mask_before) loop(blocks.begin, blocks.whole, true);
    loop(mask_before ? blocks.whole : blocks.begin, mask_after ? blocks.edge : blocks.end, false);
    if (mask_after) loop(blocks.edge, blocks.end, true);
    return state;
  }
  static Scalar at_edge(const Blocks& blocks, bool before, bool after, const Scalar& block) {
    if (!before) return block >= blocks.edge;
    return after ? block < blocks.whole || block >= blocks.edge : block < blocks.whole;
  }

 private:
  Scalar none() const { return k_.constant(0, i64); }

  // Returns Blocks of `tile` columns each, among `count` columns. Columns are keys if a program
  // owns queries, otherwise queries. The first and last visible columns are low_* and high_*.
  // Suffix _first: for the first row of the program's own block; _last: for its last row.
  Blocks blocks(int64_t tile, const Scalar& count, const Scalar& low_first, const Scalar& low_last,
                const Scalar& high_first, const Scalar& high_last, bool ragged) const {
    const auto clamped = [&](const Scalar& place) { return min(max(place, 0), count); };
    // Blocks that end after this column need a mask.
    const Scalar past_all = ragged ? count : cdiv(count, tile) * tile;
    const Scalar high = high_first + 1;
    Scalar end = cdiv(clamped(high_last + 1), tile), begin = min(clamped(low_first) / tile, end);
    Scalar whole = max(begin, min(cdiv(clamped(low_last), tile), end));
    Scalar edge = max(whole, min(min(max(high, 0), past_all) / tile, end));
    return {begin.to(i32), whole.to(i32), edge.to(i32), end.to(i32)};
  }

  // Clamps a distance to i32. Beyond 2 (tile_q + tile_k), a block's comparisons do not change.
  Scalar near(const Scalar& distance) const {
    const int64_t most = 2 * (m_.tile_q + m_.tile_k);
    return min(max(distance, -most), most).to(i32);
  }
  // Returns the number of keys from the key block's first key to the first query's diagonal key.
  Scalar diagonal_of(const Scalar& query_block, const Scalar& key_block) const {
    return query_block.to(i64) * m_.tile_q + shift_ - key_block.to(i64) * m_.tile_k;
  }

  KernelBuilder& k_;
  const AttentionMeta& m_;
  Scalar queries_, keys_, shift_;
  Scalar left_, right_;
};

}  // namespace ligerdsl::kernels
