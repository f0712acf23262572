// Which keys a query sees: those of a band along the diagonal that ends in the last query's last key,
//
//   query i of S sees key j of T  <=>  i + T - S - left <= j <= i + T - S + right,  0 <= j < T
//
// and which blocks of scores that leaves: none of whom nothing is seen, and masks only for those that the band's edges cross.
#pragma once

#include <algorithm>

#include "kernels/attention/attention.h"

namespace ligerdsl::kernels {

class AttentionBand {
 public:
  AttentionBand(KernelBuilder& k, const AttentionMeta& m, const View& q, const View& keys)
      : k_(k), m_(m), queries_(q.dim(m.tokens_axis())), keys_(keys.dim(m.tokens_axis())), shift_(keys_ - queries_) {
    if (m.left) left_ = k.scalar("window_left", i64);
    if (m.right) right_ = k.scalar("window_right", i64);
  }

  // Of these tokens alone, where the views were those of all.
  void measure(const View& q, const View& keys) {
    queries_ = q.dim(m_.tokens_axis()), keys_ = keys.dim(m_.tokens_axis()), shift_ = keys_ - queries_;
  }
  const Scalar& queries() const { return queries_; }
  const Scalar& keys() const { return keys_; }

  // Blocks [begin, end) of which something is seen, and among them [whole, edge), all of which is seen.
  struct Blocks {
    Scalar begin, whole, edge, end;
  };

  // Of keys, for a block of queries. What the padded rows of the last one see is stored nowhere.
  Blocks keys_of(const Scalar& block) const {
    const Scalar first = block.to(i64) * m_.tile_q + shift_, last = first + (m_.tile_q - 1);
    return blocks(m_.tile_k, keys_, m_.left ? first - left_ : none(), m_.left ? last - left_ : none(),
                  m_.right ? first + right_ : keys_, m_.right ? last + right_ : keys_, /*ragged=*/true);
  }
  // Of queries, for a block of keys. A padded query has neither a gradient nor, from zeros, a part in any; a padded key none
  // that is stored.
  Blocks queries_of(const Scalar& block) const {
    const Scalar first = block.to(i64) * m_.tile_k - shift_, last = first + (m_.tile_k - 1);
    return blocks(m_.tile_q, queries_, m_.right ? first - right_ : none(), m_.right ? last - right_ : none(),
                  m_.left ? first + left_ : queries_, m_.left ? last + left_ : queries_, /*ragged=*/false);
  }

  // i1 [tile_q, tile_k]: what is seen of a block. Each row's first and last key, so that a thread compares its few columns with as few.
  Tile seen(const Scalar& query_block, const Scalar& key_block) const {
    const Scalar last_key = near(keys_ - key_block.to(i64) * m_.tile_k) - 1;
    const Scalar diagonal = diagonal_of(query_block, key_block);
    const Tile key = k_.arange(m_.tile_k).expand_dims(0), query = k_.arange(m_.tile_q);
    Tile seen = m_.right ? key <= min(query + near(diagonal + right_), last_key).expand_dims(1)
                         : (key <= last_key).broadcast_to({m_.tile_q, m_.tile_k});
    if (m_.left) seen = seen && key >= (query + near(diagonal - left_)).expand_dims(1);
    return seen;
  }
  // i1 [tile_k, tile_q]; rows of keys that there are not may hold anything.
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

  // Whether a block wants its mask: known for all blocks of a loop, or for each when its turn comes.
  struct Masked {
    bool may = false;
    std::optional<Scalar> here;  // empty: all or none
  };
  // Values, where `seen` gives what is seen and the block wants it: else `unseen`.
  template <class Seen>
  Tile hidden(const Masked& masked, const Tile& values, Seen seen, float unseen) const {
    if (!masked.may) return values;
    if (!masked.here) return where(seen(), values, unseen);
    return k_.if_(
        *masked.here, [&] { return where(seen(), values, unseen); }, [&] { return values; });
  }

  // body(block, masked, state) for each block, in loops of their own by whether they want masks; with tensor copies, whose slots a loop does
  // not leave to the next one, in one loop.
  template <class... T, class Body>
  Carry<T...> each(const Blocks& blocks, bool mask_before, bool mask_behind, Carry<T...> state, Body body) const {
    return each_of_heads(1, blocks, mask_before, mask_behind, state,
                         [&](const Scalar& block, const Scalar&, const Masked& masked, const T&... now) {
                           return body(block, masked, now...);
                         });
  }
  // body(block, head, masked, state) for each block of each of so many heads, those of a block behind each other.
  template <class... T, class Body>
  Carry<T...> each_of_heads(int64_t heads, const Blocks& blocks, bool mask_before, bool mask_behind, Carry<T...> state,
                            Body body) const {
    const auto loop = [&](const Scalar& from, const Scalar& to, bool masked) {
      // One loop, heads in turn: what it loads ahead goes on from block to block.
      const auto each_head = static_cast<int32_t>(heads);
      const LoopOptions options{.num_stages = m_.stages, .tensor_copies = m_.tensor_copies};
      state = k_.for_range(0, (to - from) * each_head, 1, options, state, [&](const Scalar& turn, const T&... now) {
        const Scalar block = from + turn / each_head;
        Masked wanted{.may = masked};
        if (masked && m_.tensor_copies) wanted.here = at_edge(blocks, mask_before, mask_behind, block);
        return body(block, turn % each_head, wanted, now...);
      });
    };
    if (m_.tensor_copies) {
      loop(blocks.begin, blocks.end, mask_before || mask_behind);
      return state;
    }
    if (mask_before) loop(blocks.begin, blocks.whole, true);
    loop(mask_before ? blocks.whole : blocks.begin, mask_behind ? blocks.edge : blocks.end, false);
    if (mask_behind) loop(blocks.edge, blocks.end, true);
    return state;
  }
  static Scalar at_edge(const Blocks& blocks, bool before, bool behind, const Scalar& block) {
    if (!before) return block >= blocks.edge;
    return behind ? block < blocks.whole || block >= blocks.edge : block < blocks.whole;
  }

 private:
  Scalar none() const { return k_.constant(0, i64); }

  // Of tiles of `tile` of `count` places: the first and the last place of the band for the first and for the last row.
  Blocks blocks(int64_t tile, const Scalar& count, const Scalar& low_first, const Scalar& low_last,
                const Scalar& high_first, const Scalar& high_last, bool ragged) const {
    const auto clamped = [&](const Scalar& place) { return min(max(place, 0), count); };
    const Scalar past_all = ragged ? count : cdiv(count, tile) * tile;  // behind what a whole block may have
    const Scalar high = high_first + 1;
    Scalar end = cdiv(clamped(high_last + 1), tile), begin = min(clamped(low_first) / tile, end);
    Scalar whole = max(begin, min(cdiv(clamped(low_last), tile), end));
    Scalar edge = max(whole, min(min(max(high, 0), past_all) / tile, end));
    return {begin.to(i32), whole.to(i32), edge.to(i32), end.to(i32)};
  }

  // Distances from block to block have 64 bits; those within a block, and what is compared with them, 32.
  Scalar near(const Scalar& distance) const {
    const int64_t most = 2 * (m_.tile_q + m_.tile_k);
    return min(max(distance, -most), most).to(i32);
  }
  // Of blocks: by how many keys the first query's diagonal is behind the first key.
  Scalar diagonal_of(const Scalar& query_block, const Scalar& key_block) const {
    return query_block.to(i64) * m_.tile_q + shift_ - key_block.to(i64) * m_.tile_k;
  }

  KernelBuilder& k_;
  const AttentionMeta& m_;
  Scalar queries_, keys_, shift_;
  Scalar left_, right_;
};

}  // namespace ligerdsl::kernels
