// Divergence losses between the rows of two tensors. divergence_terms.cpp has the formulas of an
// element. Arithmetic is f32. Rows whose label is ignore_index contribute 0.
//
//   sum: sum of all terms; batchmean: sum / n, n counted rows; mean: sum / (n V); none: no sum
//
// Bytes, s = sizeof(T): n V (s + sizeof(target type)), and n V s more with a gradient. A kernel at
// memory speed has time for about 40 instructions per 16-bit element. So 16-bit kernels use
// approximate functions, whose errors are below the rounding of the result.
#include "kernels/divergence/divergence.h"

#include <optional>

#include "kernels/core/index_view.h"
#include "kernels/divergence/divergence_terms.h"

namespace ligerdsl::kernels {
namespace {

// Returns the factor by which the reduction multiplies each term: 1, 1 / n or 1 / (n V).
Scalar share(KernelBuilder& k, const DivergenceMeta& m, const View& input, const View& counts) {
  if (m.reduction == Reduction::none || m.reduction == Reduction::sum) return k.constant(1.0f, f32);
  Scalar share = m.has_labels ? counts.load({0}) : 1.0f / input.dim(0).to(f32);
  return m.reduction == Reduction::mean ? share * (1.0 / static_cast<double>(m.cols)) : share;
}

}  // namespace

void divergence(KernelBuilder& k, const DivergenceMeta& m) {
  const bool each = m.reduction == Reduction::none;
  View loss, d_input, labels, d_loss, counts;
  Scalar ignore_index;
  if (m.with_loss)
    loss = each ? k.view("loss", m.loss_type, {dyn, m.cols}) : k.view("row_loss", f32, {dyn});
  if (m.with_gradient) d_input = k.view("d_input", m.type, {dyn, m.cols});
  View input = k.view("input", m.type, {dyn, m.cols});
  View target = k.view("target", m.target_type, {dyn, m.cols});
  if (m.has_labels) {
    labels = index_view(k, "labels", m.label_type);
    ignore_index = k.scalar("ignore_index", i64);
  }
  if (m.with_d_loss)
    d_loss = each ? k.view("d_loss", m.d_loss_type, {dyn, m.cols})
                  : k.view("d_loss", m.d_loss_type, {1});
  if (needs_counts(m)) counts = k.view("counts", f32, {4});
  const DivergenceTerms terms(k, m, m.relative_log);
  const Scalar factor = share(k, m, input, counts);
  Scalar d_factor = factor;
  if (m.with_d_loss && !each) d_factor = factor * d_loss.load({0}).to(f32);

  const Scalar blocks = cdiv(input.dim(1), m.block).to(i32), parts = cdiv(blocks, m.tiles);
  const Scalar row = k.program_id(0) / parts, first = k.program_id(0) % parts * m.tiles;
  Tile counted;  // [rows, 1]
  if (m.has_labels) {
    Tile label = labels.partition({m.rows}).load({row}).to(i64);
    counted = (label != ignore_index).expand_dims(1);
  }
  const auto if_counted = [&](const Tile& t, TileArg otherwise) {
    return m.has_labels ? where(counted.broadcast_to({m.rows, m.block}), t, otherwise) : t;
  };
  // Stores a tile's gradient and, with reduction none, its losses. Returns the tile's losses, added
  // to `losses` if that is given.
  const auto one = [&](const Scalar& column, const std::optional<Tile>& losses) {
    const auto load = [&](const View& v) {
      return v.partition({m.rows, m.block}).load({row, column}).to(f32);
    };
    const auto store = [&](const View& v, const Tile& t) {
      v.partition({m.rows, m.block}).store({row, column}, t.to(v.dtype()));
    };
    const DivergenceTerm term = terms(load(input), load(target));
    if (m.with_gradient) {
      const Tile d =
          m.with_d_loss && each ? term.gradient * load(d_loss) : term.gradient * d_factor;
      store(d_input, if_counted(d, 0.0f));
    }
    const Tile loss_of_tile = if_counted(term.loss, 0.0f);
    if (m.with_loss && each) store(loss, loss_of_tile);
    return losses ? if_counted(term.added_to(*losses), *losses) : loss_of_tile;
  };
  const bool summed = m.with_loss && !each;
  Tile total;
  if (m.tiles == 1) {
    total = one(first, {});
  } else {
    const Scalar end = min(first + m.tiles, blocks);
    const auto add = [&](const Scalar& column, const Tile& losses) {
      return carry(one(column, losses));
    };
    total = std::get<0>(k.for_range(first, end, 1, pipelined(m.stages),
                                    carry(k.zeros({m.rows, m.block}, f32)), add));
  }
  if (summed) loss.store({k.program_id(0)}, sum(total) * factor);
}

}  // namespace ligerdsl::kernels
