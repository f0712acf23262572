// fused_linear_cross_entropy without losses. Fields and tensors have the same names and meanings in
// both operations.
#include <cstring>
#include <string_view>

#include "lib/abi/fused_linear/gradients_from_lse.h"

namespace ligerdsl::lib {

namespace {

namespace op = fused_linear_cross_entropy_backward;
namespace whole = fused_linear_cross_entropy;
using BackwardDesc = ligerdsl_fused_linear_cross_entropy_backward_desc_t;
using WholeDesc = ligerdsl_fused_linear_cross_entropy_desc_t;

template <class Table>
const auto& named(const Table& table, std::string_view name) {
  for (const auto& entry : table)
    if (entry.name == name) return entry;
  fail(Status::internal_error,
       std::string(name) + " is not a field or tensor of fused_linear_cross_entropy");
}

WholeDesc whole_desc(const BackwardDesc& d) {
  WholeDesc all = LIGERDSL_FUSED_LINEAR_CROSS_ENTROPY_DESC_INIT;
  for (const FieldInfo& field : op::info().fields) {
    const size_t bytes = field.type == FieldType::i64 ? 8 : 4;
    std::memcpy(reinterpret_cast<std::byte*>(&all) + named(whole::info().fields, field.name).offset,
                reinterpret_cast<const std::byte*>(&d) + field.offset, bytes);
  }
  all.with_lse = all.with_d_loss = 1;
  all.with_entropy = d.with_d_entropy;
  all.without_loss = 1;
  return all;
}

class FusedLinearCrossEntropyBackward final : public OpPlan {
 public:
  FusedLinearCrossEntropyBackward(const ContextRef& context, const BackwardDesc& d)
      : per_row_(d.reduction == LIGERDSL_REDUCTION_NONE),
        gradients_(gradients_from_lse(context, whole_desc(d), op::info())) {
    const auto tensors = whole::info().tensors;
    for (const TensorInfo& tensor : op::info().tensors)
      places_.push_back(&named(tensors, tensor.name) - tensors.data());
  }

  int64_t rows(const Call& call) const override {
    check_reduced(call, op::dim_G, "d_loss", per_row_, call.sizes[op::dim_N]);
    return gradients_->rows(whole_call(call));
  }
  std::string refusal(int64_t rows) const override { return gradients_->refusal(rows); }
  size_t workspace_bytes(int64_t rows) const override { return gradients_->workspace_bytes(rows); }
  void prepare(int64_t rows) const override { gradients_->prepare(rows); }
  void execute(const Call& call) const override { gradients_->execute(whole_call(call)); }
  std::vector<const Launcher*> launchers() const override { return gradients_->launchers(); }
  std::vector<Fact> facts(const Call& call) const override {
    return gradients_->facts(whole_call(call));
  }

 private:
  Call whole_call(const Call& call) const {
    Call all{};
    std::fill(std::begin(all.sizes), std::end(all.sizes), -1);
    for (size_t i = 0; i < places_.size(); ++i) all.tensors[places_[i]] = call.tensors[i];
    all.sizes[whole::dim_N] = call.sizes[op::dim_N];
    all.workspace = call.workspace;
    all.workspace_bytes = call.workspace_bytes;
    all.stream = call.stream;
    return all;
  }

  bool per_row_;
  std::unique_ptr<OpPlan> gradients_;
  std::vector<ptrdiff_t> places_;  // indices in the tensors of fused_linear_cross_entropy
};

}  // namespace

std::unique_ptr<OpPlan> make_plan(const ContextRef& context, const BackwardDesc& d) {
  return std::make_unique<FusedLinearCrossEntropyBackward>(context, d);
}

}  // namespace ligerdsl::lib
