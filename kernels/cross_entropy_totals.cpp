// What cross-entropy needs of all rows together: the counts before, the sums after. One program each, in a fixed order;
// it has little to do but wait for memory, so three tiles are under way beside the one that is added.
#include "kernels/cross_entropy.h"
#include "kernels/index_view.h"

namespace ligerdsl::kernels {
namespace {

// Which labels of a block count, given the block.
Tile counts_of(KernelBuilder& k, const View& labels, const Scalar& ignore_index, const Scalar& b, const Tile& label) {
  const int64_t block = label.shape()[0];
  Tile inside = b.to(i64) * block + k.arange(block).to(i64) < labels.dim(0);
  return inside && label != ignore_index;
}

}  // namespace

void cross_entropy_count(KernelBuilder& k, const CrossEntropyMeta& m) {
  View counts = k.view("counts", f32, {4});
  View labels = index_view(k, "labels", m.label_type);
  View weight;
  if (m.has_weight) weight = k.view("weight", m.weight_type, {m.classes});
  Scalar ignore_index = k.scalar("ignore_index", i64);

  const Shape shape{m.block};
  auto [rows, weights] =
      k.for_range(0, cdiv(labels.dim(0), m.block), 1, pipelined(4), carry(k.zeros(shape, i32), k.zeros(shape, f32)),
                  [&](Scalar b, Tile rows, Tile weights) {
                    Tile label = labels.partition(shape).load({b}).to(i64);
                    Tile counts_here = counts_of(k, labels, ignore_index, b, label);
                    if (m.has_weight) {
                      Tile is_class = counts_here && label >= 0 && label < weight.dim(0);
                      weights = weights + load(weight.ptr() + label, is_class).to(f32);
                    }
                    return carry(rows + counts_here.to(i32), weights);
                  });
  Scalar n = sum(rows.to(i64)).to(f32);  // lanes count to rows / block, all of them beyond 2^31
  Scalar total = m.has_weight ? sum(weights) : n;
  counts.store({0}, where(n > 0.0f, 1.0f / n, 0.0f));
  counts.store({1}, where(n > 0.0f, 1.0f / total, 0.0f));
  counts.store({3}, n);
  if (!m.has_weight) {
    counts.store({2}, 0.0f);
    return;
  }
  auto [all] = k.for_range(0, cdiv(weight.dim(0), m.block), 1, carry(k.zeros(shape, f32)),
                           [&](Scalar b, Tile acc) { return carry(acc + weight.partition(shape).load({b}).to(f32)); });
  counts.store({2}, sum(all));
}

void cross_entropy_finish(KernelBuilder& k, const CrossEntropyMeta& m) {
  const Shape shape{m.block};
  const bool divides = divides_at_the_end(m);
  View labels, row_loss, row_z_loss, row_accuracy;
  Scalar ignore_index;
  if (divides) {
    labels = index_view(k, "labels", m.label_type);
    ignore_index = k.scalar("ignore_index", i64);
  }
  if (m.with_loss) row_loss = k.view("row_loss", f32, {dyn});
  if (m.with_z_loss) row_z_loss = k.view("row_z_loss", f32, {dyn});
  if (m.with_accuracy) row_accuracy = k.view("row_accuracy", f32, {dyn});
  const View& rows = m.with_loss ? row_loss : m.with_z_loss ? row_z_loss : row_accuracy;

  // One loop, so that memory is waited for once. What the options do not ask for stays constant.
  Tile zeros = k.zeros(shape, f32);
  auto [counts, losses, z_losses, accuracies] =
      k.for_range(0, cdiv(rows.dim(0), m.block), 1, pipelined(4), carry(k.zeros(shape, i32), zeros, zeros, zeros),
                  [&](Scalar b, Tile counts, Tile losses, Tile z_losses, Tile accuracies) {
                    auto more = [&](const View& view) { return view.partition(shape).load({b}); };
                    if (divides) counts = counts + counts_of(k, labels, ignore_index, b, more(labels).to(i64)).to(i32);
                    if (m.with_loss) losses = losses + more(row_loss);
                    if (m.with_z_loss) z_losses = z_losses + more(row_z_loss);
                    if (m.with_accuracy) accuracies = accuracies + more(row_accuracy);
                    return carry(counts, losses, z_losses, accuracies);
                  });
  Scalar share;  // what the sums are multiplied by
  if (divides) {
    Scalar n = sum(counts.to(i64));
    share = where(n > 0, 1.0f / n.to(f32), 0.0f);
  }
  auto store = [&](const char* name, DType type, const Tile& lanes, const Scalar& factor) {
    Scalar total = sum(lanes);
    k.view(name, type, {1}).store({0}, (factor.empty() ? total : total * factor).to(type));
  };
  if (m.with_loss) store("loss", m.loss_type, losses, share);
  if (m.with_z_loss) store("z_loss", m.loss_type, z_losses, share);
  if (!m.with_accuracy) return;
  if (share.empty()) share = k.view("counts", f32, {4}).load({0});
  store("accuracy", f32, accuracies, share);
}

}  // namespace ligerdsl::kernels
