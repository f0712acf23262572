// What cross-entropy needs of all rows together: the counts before, the sums after. One program each, in a fixed order;
// it has little to do but wait for memory, so three tiles are under way beside the one that is added.
#include "kernels/cross_entropy.h"

namespace ligerdsl::kernels {

void cross_entropy_count(KernelBuilder& k, const CrossEntropyMeta& m) {
  View counts = k.view("counts", f32, {4});
  View labels = k.view("labels", m.label_type, {dyn});
  View weight;
  if (m.has_weight) weight = k.view("weight", m.weight_type, {m.classes});
  Scalar ignore_index = k.scalar("ignore_index", i64);

  const Shape shape{m.block};
  auto [rows, weights] =
      k.for_range(0, cdiv(labels.dim(0), m.block), 1, pipelined(4), carry(k.zeros(shape, i32), k.zeros(shape, f32)),
                  [&](Scalar b, Tile rows, Tile weights) {
                    Tile label = labels.partition(shape).load({b}).to(i64);
                    Tile inside = b.to(i64) * m.block + k.arange(m.block).to(i64) < labels.dim(0);
                    Tile counts_here = inside && label != ignore_index;
                    if (m.has_weight) {
                      Tile is_class = counts_here && label >= 0 && label < weight.dim(0);
                      weights = weights + load(weight.ptr() + label, is_class).to(f32);
                    }
                    return carry(rows + counts_here.to(i32), weights);
                  });
  Scalar n = sum(rows).to(f32);
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
  auto total_of = [&](const View& rows) {
    const Shape shape{m.block};
    auto [lanes] = k.for_range(0, cdiv(rows.dim(0), m.block), 1, pipelined(4), carry(k.zeros(shape, f32)),
                               [&](Scalar b, Tile acc) { return carry(acc + rows.partition(shape).load({b})); });
    return sum(lanes);
  };
  auto add_up = [&](const std::string& name) {
    View out = k.view(name, m.loss_type, {1});
    View rows = k.view("row_" + name, f32, {dyn});
    out.store({0}, total_of(rows).to(m.loss_type));
  };
  if (m.with_loss) add_up("loss");
  if (m.with_z_loss) add_up("z_loss");
  if (!m.with_accuracy) return;
  View out = k.view("accuracy", f32, {1});
  View rows = k.view("row_accuracy", f32, {dyn});
  View counts = k.view("counts", f32, {4});
  out.store({0}, total_of(rows) * counts.load({0}));
}

}  // namespace ligerdsl::kernels
