#include "lib/cli/kernels/op_oracle.h"

#include "lib/cli/oracle/formulas.h"
#include "lib/text/output.h"

namespace ligerdsl::cli {

namespace {

const Formulas& formulas() {
  static const Formulas table = [] {
    Formulas all;
    for (const auto family :
         {elementwise_formulas, norm_formulas, activation_formulas, loss_formulas, linear_loss_formulas,
          product_formulas, attention_formulas, embedding_formulas, optimizer_formulas})
      all.merge(family());
    return all;
  }();
  return table;
}

}  // namespace

TensorBytes bytes_of(const OpInstance& instance) {
  TensorBytes bytes;
  for (const OpInstance::Slot& slot : instance.slots()) bytes[slot.name] = instance.read(slot);
  return bytes;
}

std::map<std::string, Expectation> formula(const OpInstance& instance, const TensorBytes& before) {
  const auto found = formulas().find(instance.info().name);
  if (found == formulas().end())
    throw Failure(kNothingFound, std::string("--check: there is no float64 formula for ") + instance.info().name);
  return found->second(Call{instance, before});
}

}  // namespace ligerdsl::cli
