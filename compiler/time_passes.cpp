#include "compiler/time_passes.h"

#include <chrono>

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/TimeProfiler.h"
#include "llvm/Support/raw_ostream.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassInstrumentation.h"
#include "mlir/Pass/PassManager.h"

namespace ligerdsl::compiler {
namespace {

class TimePasses final : public mlir::PassInstrumentation {
  // Records a pass under its name in ligerdsl-opt. The adaptor that runs passes on every function
  // has no such name and is recorded under its class name.
  void runBeforePass(mlir::Pass* pass, mlir::Operation*) override {
    const llvm::StringRef argument = pass->getArgument();
    llvm::timeTraceProfilerBegin(argument.empty() ? pass->getName() : argument, "");
  }
  void runAfterPass(mlir::Pass*, mlir::Operation*) override { llvm::timeTraceProfilerEnd(); }
  void runAfterPassFailed(mlir::Pass*, mlir::Operation*) override { llvm::timeTraceProfilerEnd(); }
};

// Returns the span of an event, or nothing for the profiler's totals and thread names.
std::optional<program::Span> toSpan(const llvm::json::Object& event) {
  const auto name = event.getString("name");
  const auto begin = event.getInteger("ts"), duration = event.getInteger("dur");
  if (event.getString("ph") != "X" || !name || !begin || !duration || name->starts_with("Total "))
    return std::nullopt;
  const llvm::json::Object* args = event.getObject("args");
  const auto detail = args ? args->getString("detail") : std::nullopt;
  return program::Span{name->str(), detail ? detail->str() : "", *begin, *duration};
}

}  // namespace

PassTimes::PassTimes(bool wanted) : wanted(wanted) {
  if (!wanted) return;
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  beginUs = std::chrono::duration_cast<std::chrono::microseconds>(now).count();
  llvm::timeTraceProfilerInitialize(/*TimeTraceGranularity=*/0, "ligerdsl");
}

PassTimes::~PassTimes() {
  if (wanted) llvm::timeTraceProfilerCleanup();
}

std::vector<program::Span> PassTimes::spans() const {
  if (!wanted) return {};
  llvm::SmallString<0> text;
  llvm::raw_svector_ostream stream(text);
  llvm::timeTraceProfilerWrite(stream);
  llvm::Expected<llvm::json::Value> parsed = llvm::json::parse(text);
  if (!parsed) {
    llvm::consumeError(parsed.takeError());
    return {};
  }
  std::vector<program::Span> spans;
  const llvm::json::Object* root = parsed->getAsObject();
  const llvm::json::Array* events = root ? root->getArray("traceEvents") : nullptr;
  if (!events) return {};
  for (const llvm::json::Value& event : *events) {
    const llvm::json::Object* object = event.getAsObject();
    std::optional<program::Span> span = object ? toSpan(*object) : std::nullopt;
    if (!span) continue;
    span->begin_us += beginUs;
    spans.push_back(std::move(*span));
  }
  return spans;
}

void timePasses(mlir::PassManager& passes) {
  if (llvm::timeTraceProfilerEnabled()) passes.addInstrumentation(std::make_unique<TimePasses>());
}

}  // namespace ligerdsl::compiler
