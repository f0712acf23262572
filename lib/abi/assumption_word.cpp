#include "lib/abi/assumption_word.h"

#include "lib/abi/context.h"
#include "lib/abi/failure.h"
#include "program/checked_assumptions.h"

namespace ligerdsl::lib {

std::unique_ptr<AssumptionWord> AssumptionWord::of(Context& context, program::Program* program) {
  if (!context.options().validate) return nullptr;
  program::CheckedAssumptions checked = program::check_assumptions(*program);
  if (checked.reports.empty()) return nullptr;
  *program = std::move(checked.program);
  return std::make_unique<AssumptionWord>(context.device(), std::move(checked.reports));
}

AssumptionWord::AssumptionWord(runtime::Device& device, std::vector<std::string> reports)
    : device_(device), reports_(std::move(reports)), word_(device.alloc(sizeof(int64_t))) {
  clear(nullptr);
}

AssumptionWord::~AssumptionWord() {
  device_.free(word_);
}

void AssumptionWord::check(runtime::Stream stream) {
  if (device_.capturing(stream)) return;
  int64_t word = 0;
  device_.copy(&word, word_, sizeof word, stream);
  device_.synchronize(stream);
  if (word == 0) return;
  clear(stream);
  fail(Status::execution_failed,
       reports_.at(static_cast<size_t>(-1 - word)) + " (found by LIGERDSL_VALIDATE)");
}

void AssumptionWord::clear(runtime::Stream stream) {
  device_.fill(word_, 0, sizeof(int64_t), stream);
  device_.synchronize(stream);
}

}  // namespace ligerdsl::lib
