// Launches before and after the rows of cross-entropy: counts of labels, and sums over all rows.
// The order of additions is fixed.
//
// If there are fewer than kRowsOfOneProgram rows, one program reduces them. The latency of loads
// limits its speed, so it keeps three tiles in flight while it adds a fourth. More rows need two
// launches. In the first, each of P programs reduces every P-th tile to a partial result. In the
// second, one program adds the partial results.
#include "kernels/cross_entropy/cross_entropy_totals.h"

#include <optional>

#include "kernels/core/index_view.h"
#include "kernels/core/record.h"

namespace ligerdsl::kernels {
namespace {

// Returns the number of programs of the first launch, or 0 for few rows, which skips the launch.
Size partial_programs(const Size& rows) {
  return where_at_least(rows, kRowsOfOneProgram,
                        min(kMostTotalPrograms, ceil_div(rows, kRowsOfTotalProgram)));
}

// Tiles that a program adds: first, first + step, first + 2 step ...
struct Tiles {
  Scalar first, step;
};

Tiles all_tiles(KernelBuilder& k) {
  return {k.constant(0, i32), k.constant(1, i32)};
}
Tiles tiles_of_program(KernelBuilder& k) {
  return {k.program_id(0), k.num_programs(0)};
}

// Labels, and class weights if there are any.
struct Labels {
  View labels, weight;
  Scalar ignore_index;

  Labels(KernelBuilder& k, const CrossEntropyMeta& m)
      : labels(index_view(k, "labels", m.label_type)) {
    if (m.has_weight) weight = k.view("weight", m.weight_type, {m.classes});
    ignore_index = k.scalar("ignore_index", i64);
  }

  // Returns a mask of tile `b`: true for the labels that exist and are not ignored.
  Tile counted(KernelBuilder& k, const Scalar& b, const Tile& label) const {
    const int64_t block = label.shape()[0];
    const Tile inside = b.to(i64) * block + k.arange(block).to(i64) < labels.dim(0);
    return inside && label != ignore_index;
  }
};

// Returns two values of each lane: the number of counted labels (i32) and the sum of their weights
// (0 without class weights).
Carry<Tile, Tile> count_labels(KernelBuilder& k, const CrossEntropyMeta& m, const Labels& of,
                               const Tiles& tiles) {
  const Shape shape{m.block};
  return k.for_range(tiles.first, cdiv(of.labels.dim(0), m.block), tiles.step, pipelined(4),
                     carry(k.zeros(shape, i32), k.zeros(shape, f32)),
                     [&](Scalar b, Tile rows, Tile weights) {
                       Tile label = of.labels.partition(shape).load({b}).to(i64);
                       Tile counted = of.counted(k, b, label);
                       if (m.has_weight) {
                         Tile is_class = counted && label >= 0 && label < of.weight.dim(0);
                         weights = weights + load(of.weight.ptr() + label, is_class).to(f32);
                       }
                       return carry(rows + counted.to(i32), weights);
                     });
}

// Per-row results that are summed.
struct RowResults {
  View loss, z_loss, accuracy;

  // `prefix` is "row_" for row results, or "partial_" for programs' partial sums.
  RowResults(KernelBuilder& k, const CrossEntropyMeta& m, const std::string& prefix) {
    if (m.with_loss) loss = k.view(prefix + "loss", f32, {dyn});
    if (m.with_z_loss) z_loss = k.view(prefix + "z_loss", f32, {dyn});
    if (m.with_accuracy) accuracy = k.view(prefix + "accuracy", f32, {dyn});
  }
  const View& any() const { return !loss.empty() ? loss : !z_loss.empty() ? z_loss : accuracy; }
};

// Partial sums per lane. They stay 0 for unused options.
using Sums = Carry<Tile, Tile, Tile, Tile>;  // counted labels (i32), losses, z losses, accuracies

// Adds all results in one loop, so that their loads overlap. Counts `labels` if the last launch
// divides by their number.
Sums add_rows(KernelBuilder& k, const CrossEntropyMeta& m, const RowResults& rows,
              const std::optional<Labels>& labels, const Tiles& tiles) {
  const Shape shape{m.block};
  const Tile zeros = k.zeros(shape, f32);
  return k.for_range(
      tiles.first, cdiv(rows.any().dim(0), m.block), tiles.step, pipelined(4),
      carry(k.zeros(shape, i32), zeros, zeros, zeros),
      [&](Scalar b, Tile counts, Tile losses, Tile z_losses, Tile accuracies) {
        auto more = [&](const View& view) { return view.partition(shape).load({b}); };
        if (labels) counts = counts + labels->counted(k, b, more(labels->labels).to(i64)).to(i32);
        if (m.with_loss) losses = losses + more(rows.loss);
        if (m.with_z_loss) z_losses = z_losses + more(rows.z_loss);
        if (m.with_accuracy) accuracies = accuracies + more(rows.accuracy);
        return carry(counts, losses, z_losses, accuracies);
      });
}

std::optional<Labels> divided_labels(KernelBuilder& k, const CrossEntropyMeta& m) {
  if (!divides_at_the_end(m)) return {};
  CrossEntropyMeta without_weight = m;
  without_weight.has_weight = false;
  return Labels(k, without_weight);
}

void count_parts(KernelBuilder& k, const CrossEntropyMeta& m) {
  const View partial_rows = k.view("partial_rows", i64, {dyn});
  View partial_weights;
  if (m.has_weight) partial_weights = k.view("partial_weights", f32, {dyn});
  const auto [rows, weights] = count_labels(k, m, Labels(k, m), tiles_of_program(k));
  partial_rows.store({k.program_id(0)}, sum(rows.to(i64)));
  if (m.has_weight) partial_weights.store({k.program_id(0)}, sum(weights));
}

void finish_parts(KernelBuilder& k, const CrossEntropyMeta& m) {
  const RowResults partials(k, m, "partial_"), rows(k, m, "row_");
  View partial_rows;
  if (divides_at_the_end(m)) partial_rows = k.view("partial_rows", i64, {dyn});
  const auto [counts, losses, z_losses, accuracies] =
      add_rows(k, m, rows, divided_labels(k, m), tiles_of_program(k));
  const Scalar program = k.program_id(0);
  if (!partial_rows.empty()) partial_rows.store({program}, sum(counts.to(i64)));
  if (m.with_loss) partials.loss.store({program}, sum(losses));
  if (m.with_z_loss) partials.z_loss.store({program}, sum(z_losses));
  if (m.with_accuracy) partials.accuracy.store({program}, sum(accuracies));
}

}  // namespace

void cross_entropy_count(KernelBuilder& k, const CrossEntropyMeta& m) {
  const View counts = k.view("counts", f32, {4});
  const Labels labels(k, m);
  View partial_rows, partial_weights;
  if (m.totals_in_parts) partial_rows = k.view("partial_rows", i64, {dyn});
  if (m.totals_in_parts && m.has_weight) partial_weights = k.view("partial_weights", f32, {dyn});
  const Shape shape{m.block};
  // The sum has 64 bits: a lane counts at most rows / block, but the total may exceed 2^31.
  const auto add_labels = [&] {
    const auto [rows, weights] = count_labels(k, m, labels, all_tiles(k));
    return carry(sum(rows.to(i64)), m.has_weight ? sum(weights) : k.constant(0.0f, f32));
  };
  const auto add_partials = [&] {
    const Scalar rows = sum(partial_rows.partition(shape).load({0}));
    return carry(rows, m.has_weight ? sum(partial_weights.partition(shape).load({0}))
                                    : k.constant(0.0f, f32));
  };
  const auto [rows, weights] =
      m.totals_in_parts ? k.if_(labels.labels.dim(0) >= kRowsOfOneProgram, add_partials, add_labels)
                        : add_labels();
  const Scalar n = rows.to(f32), total = m.has_weight ? weights : n;
  counts.store({0}, where(n > 0.0f, 1.0f / n, 0.0f));
  counts.store({1}, where(n > 0.0f, 1.0f / total, 0.0f));
  counts.store({3}, n);
  if (!m.has_weight) {
    counts.store({2}, 0.0f);
    return;
  }
  auto [all] = k.for_range(0, cdiv(labels.weight.dim(0), m.block), 1, carry(k.zeros(shape, f32)),
                           [&](Scalar b, Tile acc) {
                             return carry(acc + labels.weight.partition(shape).load({b}).to(f32));
                           });
  counts.store({2}, sum(all));
}

void cross_entropy_finish(KernelBuilder& k, const CrossEntropyMeta& m) {
  const RowResults rows(k, m, "row_");
  const std::optional<Labels> labels = divided_labels(k, m);
  std::optional<RowResults> partials;
  if (m.totals_in_parts) partials.emplace(k, m, "partial_");
  View partial_rows;
  if (m.totals_in_parts && labels) partial_rows = k.view("partial_rows", i64, {dyn});
  const auto totals = [&](const Sums& lanes) {
    const auto& [counts, losses, z_losses, accuracies] = lanes;
    const Scalar none = k.constant(0.0f, f32);
    return carry(labels ? sum(counts.to(i64)) : k.constant(0, i64),
                 m.with_loss ? sum(losses) : none, m.with_z_loss ? sum(z_losses) : none,
                 m.with_accuracy ? sum(accuracies) : none);
  };
  const auto add_all_rows = [&] { return totals(add_rows(k, m, rows, labels, all_tiles(k))); };
  const auto add_partials = [&] {
    const auto total = [&](const View& view) { return sum(view.partition({m.block}).load({0})); };
    const Scalar none = k.constant(0.0f, f32);
    return carry(labels ? total(partial_rows) : k.constant(0, i64),
                 m.with_loss ? total(partials->loss) : none,
                 m.with_z_loss ? total(partials->z_loss) : none,
                 m.with_accuracy ? total(partials->accuracy) : none);
  };
  const auto [n, loss, z_loss, accuracy] =
      m.totals_in_parts ? k.if_(rows.any().dim(0) >= kRowsOfOneProgram, add_partials, add_all_rows)
                        : add_all_rows();
  Scalar share;  // 1 / number of counted labels, if this launch divides
  if (labels) share = where(n > 0, 1.0f / n.to(f32), 0.0f);
  auto store = [&](const char* name, DType type, const Scalar& total, const Scalar& factor) {
    k.view(name, type, {1}).store({0}, (factor.empty() ? total : total * factor).to(type));
  };
  if (m.with_loss) store("loss", m.loss_type, loss, share);
  if (m.with_z_loss) store("z_loss", m.loss_type, z_loss, share);
  if (!m.with_accuracy) return;
  store("accuracy", f32, accuracy, labels ? share : k.view("counts", f32, {4}).load({0}));
}

namespace {

// Adds `last`, preceded by the launch that computes partial results of many rows.
void add_in_parts(Operation& op, const std::string& name, DType type, const CrossEntropyMeta& meta,
                  const Size& rows, void (*parts)(KernelBuilder&, const CrossEntropyMeta&),
                  void (*last)(KernelBuilder&, const CrossEntropyMeta&)) {
  if (meta.totals_in_parts)
    op.steps.push_back(
        record_step(name + "_parts", type, parts, meta, library_launch(partial_programs(rows), 8)));
  op.steps.push_back(record_step(name, type, last, meta, library_launch(1, 8)));
}

void add_scratch(Operation& op, const std::string& name, DType type, const Size& size) {
  for (const Scratch& there : op.workspace)
    if (there.name == name) return;
  op.workspace.push_back({.name = name, .dtype = type, .shape = {max(1, size)}});
}

}  // namespace

void add_count(Operation& op, const std::string& name, DType type, const CrossEntropyMeta& meta) {
  const Size programs = partial_programs(Size::rows());
  if (meta.totals_in_parts) {
    add_scratch(op, "partial_rows", i64, programs);
    if (meta.has_weight) add_scratch(op, "partial_weights", f32, programs);
  }
  add_in_parts(op, name, type, meta, Size::rows(), &count_parts, &cross_entropy_count);
}

void add_finish(Operation& op, const std::string& name, DType type, const CrossEntropyMeta& meta,
                const Size& results) {
  const Size programs = partial_programs(results);
  if (meta.totals_in_parts) {
    if (divides_at_the_end(meta)) add_scratch(op, "partial_rows", i64, programs);
    if (meta.with_loss) add_scratch(op, "partial_loss", f32, programs);
    if (meta.with_z_loss) add_scratch(op, "partial_z_loss", f32, programs);
    if (meta.with_accuracy) add_scratch(op, "partial_accuracy", f32, programs);
  }
  add_in_parts(op, name, type, meta, results, &finish_parts, &cross_entropy_finish);
}

}  // namespace ligerdsl::kernels
