#include "kernels/divergence/divergence_reference.h"

#include <utility>

#include "kernels/core/reference.h"
#include "ligerdsl/ligerdsl.h"

namespace ligerdsl::reference {

namespace {

Expected divergence(const ReferenceCall& call, DivergenceKind kind) {
  auto r = divergence_reference(call["input"], call["target"], divergence_case(call, kind));
  return {{"loss", {std::move(r.loss)}}, {"d_input", {std::move(r.d_input)}}};
}

}  // namespace

DivergenceCase divergence_case(const ReferenceCall& call, DivergenceKind kind) {
  const int reduction = call.option("reduction", LIGERDSL_REDUCTION_BATCHMEAN);
  DivergenceCase which{.kind = kind,
                       .n = call.size("N"),
                       .cols = call.size("V"),
                       .reduction = reduction == LIGERDSL_REDUCTION_NONE  ? DivergenceReduce::none
                                    : reduction == LIGERDSL_REDUCTION_SUM ? DivergenceReduce::sum
                                    : reduction == LIGERDSL_REDUCTION_MEAN
                                        ? DivergenceReduce::mean
                                        : DivergenceReduce::batchmean,
                       .beta = call.number("beta"),
                       .eps = call.number("eps"),
                       .ignore_index = call.integer("ignore_index")};
  if (call.has("labels")) which.labels = call.integers("labels");
  if (call.has("d_loss")) which.upstream = call["d_loss"];
  return which;
}

LIGERDSL_REFERENCE(kl_div) {
  return divergence(call,
                    call.flag("log_target") ? DivergenceKind::kl_log_target : DivergenceKind::kl);
}

LIGERDSL_REFERENCE(jsd) {
  return divergence(call, DivergenceKind::jsd);
}

LIGERDSL_REFERENCE(tvd) {
  return divergence(call, DivergenceKind::tvd);
}

}  // namespace ligerdsl::reference
