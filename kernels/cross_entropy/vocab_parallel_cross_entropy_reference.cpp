#include "kernels/cross_entropy/vocab_parallel_cross_entropy_reference.h"

#include <utility>

#include "kernels/core/reference.h"

namespace ligerdsl::reference {

namespace {

VocabParallelCase vocab_parallel_case(const ReferenceCall& call) {
  const int64_t end = call.integer("first_class") + call.size("V"),
                total = call.integer("total_classes");
  return {.n = call.size("N"),
          .classes = call.size("V"),
          .first_class = call.integer("first_class"),
          .total_classes = total == 0 ? end : total,
          .ignore_index = call.integer("ignore_index"),
          .smoothing = call.number("label_smoothing", call.number("with_smoothing")),
          .shard_smoothing = call.flag("shard_smoothing"),
          .smooth_others = call.flag("smooth_others"),
          .shard = call.integer("shard"),
          .reduction = reduce_of(call),
          .upstream = call.has("d_loss") ? call["d_loss"] : Values{1.0}};
}

}  // namespace

LIGERDSL_REFERENCE(vocab_parallel_cross_entropy_partials) {
  return {{"partials",
           {vocab_parallel_partials_reference(call["logits"], call.integers("labels"),
                                              vocab_parallel_case(call))}}};
}

LIGERDSL_REFERENCE(vocab_parallel_cross_entropy) {
  auto r = vocab_parallel_reference(call["partials"], call["logits"], call.integers("labels"),
                                    vocab_parallel_case(call));
  return {{"loss", {std::move(r.loss)}}, {"d_logits", {std::move(r.d_logits)}}};
}

}  // namespace ligerdsl::reference
