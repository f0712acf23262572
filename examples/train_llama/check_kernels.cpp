#include <fmt/format.h>

#include <limits>

#include "check_table.h"
#include "random.h"

namespace train {

CheckTable::CheckTable(const ModelConfig& config, int64_t batch, Ops& ops)
    : c(config),
      batch(batch),
      rows(batch * config.context),
      ops(ops),
      type(ops.on_gpu() ? Type::bf16 : Type::f32) {
  const bool bf16 = type == Type::bf16;
  elementwise = bf16 ? bf16_elementwise : f32_elementwise;
  twice_rounded = bf16 ? Gate{1.6e-2, 1e-4} : f32_elementwise;
  probability = bf16 ? Gate{8e-3, 1e-6} : Gate{1e-5, 1e-7};
  reduction = bf16 ? Gate{5e-3, 0, true} : Gate{rows <= 16384 ? 2e-6 : 1e-5, 0, true};
}

CheckTable::Data CheckTable::random(Shape shape, Type type, double mean, double deviation) {
  Tensor t = ops.allocate(type, shape);
  std::vector<double> values(t.size());
  for (double& v : values) v = mean + deviation * random_normal(0x6b65726eu, draws_++);
  return {t, fill(ops, t, std::move(values))};
}

CheckTable::Ids CheckTable::random_ids(int64_t count, int64_t below) {
  Ids ids{ops.allocate(Type::i64, {count}), std::vector<int64_t>(count)};
  for (int64_t& id : ids.values) id = random_bits(0x696473u, draws_++) % below;
  ops.upload(ids.tensor, ids.values.data());
  return ids;
}

Tensor CheckTable::like(const Tensor& t) {
  return ops.allocate(t.type, {t.size()}).view({t.shape[0], t.size() / t.shape[0]});
}

void CheckTable::add(const char* outputs, const Tensor& got, const oracle::Array& expected,
                     Gate gate, int64_t row) {
  std::string shape =
      fmt::format("{}", fmt::join(got.shape.begin(), got.shape.begin() + got.rank, "x"));
  out_.push_back(compare(ops.latest(), outputs, shape, fetch(ops, got), expected, gate, row));
  out_.back().variant = variant_;
}

void CheckTable::add(const char* outputs, std::string shape, const oracle::Array& got,
                     const oracle::Array& expected, Gate gate) {
  out_.push_back(compare(ops.latest(), outputs, std::move(shape), got, expected, gate));
  out_.back().variant = variant_;
}

void CheckTable::failed(const std::string& reason) {
  Comparison c{ops.latest(), "", "", variant_};
  c.error = c.of_gate = std::numeric_limits<double>::infinity();
  c.gate = reason;
  out_.push_back(std::move(c));
  variant_.clear();
}

std::vector<Comparison> CheckTable::finish() {
  ops.check();
  for (Comparison& missing : missing_checks(ops.called(), out_)) out_.push_back(std::move(missing));
  return std::move(out_);
}

std::vector<Comparison> compare_kernels(const ModelConfig& config, int64_t batch, Ops& ops) {
  CheckTable table(config, batch, ops);
  for (auto check :
       {check_norms, check_elementwise, check_attention, check_losses, check_optimiser}) {
    try {
      check(table);
    } catch (const std::exception& e) {
      table.failed(e.what());
    }
  }
  return table.finish();
}

}  // namespace train
