#include "row_mean.h"

#include <algorithm>

using namespace ligerdsl;

namespace {

constexpr int kCtasPerSm = 8;

struct Schedule {
  int64_t block;  // columns per iteration
  int num_warps = 1, num_ctas = 1;
};

Schedule schedule_of(const Target& target, DType type) {
  if (!target.is_gpu()) return {.block = 16 * target.vector_bytes / size_of(type)};
  const int64_t threads = floor_power_of_two(target.threads_per_sm / kCtasPerSm);
  const int num_ctas = std::min(2, target.max_cluster);
  return {.block = num_ctas * threads * vector_width(type),
          .num_warps = static_cast<int>(threads) / Target::warp_threads,
          .num_ctas = num_ctas};
}

// mean[row] = mean of x[row]. Also stores the block size in block[0], so that tests can compare it.
void row_mean(KernelBuilder& k, const RowMeanMeta& m) {
  const int64_t block = schedule_of(k.target(), m.type).block;
  View mean = k.view("mean", f32, {dyn});
  View x = k.view("x", m.type, {dyn, dyn});
  View chosen = k.view("block", i32, {1});
  Scalar columns = x.dim(1);
  k.for_range(k.program_id(0), x.dim(0), k.num_programs(0), [&](Scalar row) {
    auto [total] = k.for_range(
        0, cdiv(columns, block), 1, carry(k.zeros({block}, f32)), [&](Scalar i, Tile partial) {
          return carry(partial + x.partition({squeeze, block}).load({row, i}).to(f32));
        });
    mean.store({row}, sum(total) / columns.to(f32));
  });
  k.if_(k.program_id(0) == 0, [&] { chosen.store({0}, static_cast<int32_t>(block)); });
}

Launch launch(const RowMeanMeta& m, const LaunchArguments& a) {
  const Schedule schedule = schedule_of(a.target(), m.type);
  const int64_t rows = a.dim("x", 0);
  const int64_t at_a_time = int64_t{a.target().sms} * kCtasPerSm / schedule.num_ctas;
  return {.grid = {a.target().is_gpu() ? std::min(rows, at_a_time) : rows},
          .num_warps = schedule.num_warps,
          .num_ctas = schedule.num_ctas};
}

}  // namespace

const Kernel<RowMeanMeta> row_mean_kernel{.name = "row_mean",
                                          .description = "mean = sum(x, 1) / columns",
                                          .build = row_mean,
                                          .launch = launch};

LIGERDSL_REGISTER_KERNEL(row_mean_kernel);
