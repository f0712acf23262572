// Row r of a program's accumulator adds partials r, r + rows, ... in order. The rows of the
// accumulator are summed after the loop.
#include "kernels/reduce/reduce_partials.h"

#include <algorithm>
#include <bit>
#include <map>

#include "kernels/core/record.h"

namespace ligerdsl::kernels {
namespace {

bool is_of_groups(const PartialSums& m) {
  return m.groups > 0 && m.modulation.empty();
}

int64_t tiles_of_row(const PartialSums& m) {
  return ceil_div(m.cols, m.tile_cols);
}

int64_t programs_of(const PartialSums& m) {
  return tiles_of_row(m) * (is_of_groups(m) ? m.groups : 1);
}

struct SumViews {
  View out, partials, scale, modulation, weight;
  Scalar weight_offset;
};

class Arguments {
 public:
  explicit Arguments(KernelBuilder& k) : k_(k) {}

  SumViews of(const PartialSums& m) {
    SumViews v;
    v.out = view(m.out, m.type, is_of_groups(m) ? Shape{dyn, m.cols} : Shape{m.cols});
    v.partials =
        view(m.partials, m.from, m.groups > 0 ? Shape{dyn, dyn, m.cols} : Shape{dyn, m.cols});
    if (!m.scale.empty()) v.scale = view(m.scale, f32, {dyn});
    if (!m.modulation.empty()) v.modulation = view(m.modulation, m.modulation_type, {dyn, m.cols});
    if (!m.weight.empty()) v.weight = view(m.weight, m.weight_type, {m.cols});
    if (!m.weight_offset.empty()) v.weight_offset = k_.scalar(m.weight_offset, f32);
    return v;
  }

 private:
  View view(const std::string& name, DType type, const Shape& shape) {
    View& found = views_[name];
    if (found.empty()) found = k_.view(name, type, shape);
    return found;
  }

  KernelBuilder& k_;
  std::map<std::string, View> views_;
};

// Returns the sum of all partials, or of the partials of one group.
Tile total_of(KernelBuilder& k, const PartialSums& m, const SumViews& v, const Scalar& group,
              const Scalar& column) {
  const Partition tiles = is_of_groups(m)
                              ? v.partials.partition({squeeze, m.tile_rows, m.tile_cols})
                              : v.partials.partition({m.tile_rows, m.tile_cols});
  const Scalar iterations = cdiv(v.partials.dim(is_of_groups(m) ? 1 : 0), m.tile_rows);
  const auto [lanes] = k.for_range(
      0, iterations, 1, carry(k.zeros({m.tile_rows, m.tile_cols}, f32)),
      [&](const Scalar& i, const Tile& lanes) {
        Tile added =
            (is_of_groups(m) ? tiles.load({group, i, column}) : tiles.load({i, column})).to(f32);
        if (!m.scale.empty()) {
          const Tile scale = v.scale.partition({m.tile_rows}).load({i}).expand_dims(1);
          added = where(scale == 0.0f, 0.0f, added * scale);
        }
        return carry(lanes + added);
      });
  return sum(lanes, 0);
}

// Returns the sum of all groups' partials, each times 1 + the group's modulation.
Tile modulated_total(KernelBuilder& k, const PartialSums& m, const SumViews& v,
                     const Scalar& column) {
  const Partition tiles = v.partials.partition({m.tile_groups, m.tile_rows, m.tile_cols});
  const Partition modulations = v.modulation.partition({m.tile_groups, m.tile_cols});
  const Scalar iterations = cdiv(v.partials.dim(1), m.tile_rows);
  const auto [lanes] =
      k.for_range(0, iterations * ceil_div(m.groups, m.tile_groups), 1,
                  carry(k.zeros({m.tile_groups, m.tile_rows, m.tile_cols}, f32)),
                  [&](const Scalar& i, const Tile& lanes) {
                    const Scalar groups = i / iterations;
                    const Tile factor = modulations.load({groups, column}).to(f32) + 1.0f;
                    return carry(fma(tiles.load({groups, i % iterations, column}),
                                     factor.expand_dims(1), lanes));
                  });
  return sum(sum(lanes, 1), 0);
}

void sum_of(KernelBuilder& k, const PartialSums& m, const SumViews& v, const Scalar& program) {
  const auto tiles = static_cast<int32_t>(tiles_of_row(m));
  const Scalar group = is_of_groups(m) ? program / tiles : Scalar();
  const Scalar column = is_of_groups(m) ? program % tiles : program;
  Tile total =
      m.modulation.empty() ? total_of(k, m, v, group, column) : modulated_total(k, m, v, column);
  if (!m.weight.empty()) {
    const Tile weight = v.weight.partition({m.tile_cols}).load({column}).to(f32);
    total = total * (m.weight_offset.empty() ? weight : weight + v.weight_offset);
  }
  const auto finish = [&](const Partition& target, const Indices& at) {
    target.store(at, (m.accumulate ? total + target.load(at) : total).to(m.type));
  };
  if (is_of_groups(m)) return finish(v.out.partition({squeeze, m.tile_cols}), {group, column});
  finish(v.out.partition({m.tile_cols}), {column});
}

int64_t power_over(int64_t n) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(n)));
}

// Chooses the tile of a program. On a GPU a tile has 64 columns: 16 threads with four columns each,
// and 16 groups of rows. With one partial per SM, all loads of a thread are in flight at once and
// the loop runs once: for 132 SMs a thread has 9 rows, because 9 * 16 = 144. If groups have few
// partials, tiles have fewer rows and more columns, so that all threads have elements.
void set_tile(const Machine& machine, PartialSums* m) {
  constexpr int64_t kHeld = 2048;  // elements of a tile with few rows, eight per thread
  constexpr int64_t kTogether = 256, kGroups = 16;  // most rows and most groups of a tile
  if (m->cols == 1) {
    m->tile_rows = 512;
    m->tile_cols = 1;
    return;
  }
  if (machine.is_gpu()) {
    const int64_t groups = std::clamp<int64_t>(ceil_div(machine.sms, 16), 1, 9);
    m->tile_rows = 16 * (groups <= 4 ? tile_width(groups) : groups | 1);
    m->tile_cols = 64;
  } else {
    m->tile_rows = 4;
    m->tile_cols = 256;
  }
  if (!m->modulation.empty() && m->groups > 1) {
    m->tile_groups = std::min(power_over(m->groups), machine.is_gpu() ? kGroups : 4);
    m->tile_rows = machine.is_gpu() ? std::min(power_over(m->most), kTogether / m->tile_groups) : 1;
    if (machine.is_gpu()) m->tile_cols = 16;
  } else if (machine.is_gpu() && m->most > 0 && m->most < m->tile_rows) {
    m->tile_rows = power_over(m->most);
    m->tile_cols =
        std::clamp<int64_t>(kHeld / m->tile_rows, 64, std::max<int64_t>(power_over(m->cols), 64));
  }
}

}  // namespace

void reduce_partials(KernelBuilder& k, const ReducePartialsMeta& m) {
  Arguments arguments(k);
  std::vector<SumViews> views;
  for (const PartialSums& of : m.sums) views.push_back(arguments.of(of));
  const auto from = [&](const auto& self, size_t i, const Scalar& program) -> void {
    if (i + 1 == m.sums.size()) return sum_of(k, m.sums[i], views[i], program);
    const auto programs = static_cast<int32_t>(programs_of(m.sums[i]));
    k.if_(
        program < programs, [&] { sum_of(k, m.sums[i], views[i], program); },
        [&] { self(self, i + 1, program - programs); });
  };
  from(from, 0, k.program_id(0));
}

Step reduce_partials(const Machine& machine, std::vector<PartialSums> sums) {
  ReducePartialsMeta meta{std::move(sums)};
  int64_t programs = 0;
  for (PartialSums& of : meta.sums) {
    set_tile(machine, &of);
    programs += programs_of(of);
  }
  return record_step("reduce_partials", meta.sums.front().type, &reduce_partials, meta,
                     library_launch(programs, 8));
}

}  // namespace ligerdsl::kernels
