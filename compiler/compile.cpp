#include "compiler/compile.h"

#include <chrono>
#include <optional>
#include <set>

#include "compiler/dialect/tgpu.h"
#include "compiler/dialect/tile.h"
#include "compiler/import/edited_tile.h"
#include "compiler/import/import.h"
#include "compiler/passes/passes.h"
#include "compiler/pipeline/loop_fold_guard.h"
#include "compiler/refusal.h"
#include "compiler/remarks.h"
#include "compiler/target/cpu/cpu_target.h"
#include "compiler/target/nvptx/nvptx_target.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Transforms/Passes.h"
#include "program/gpu_arch.h"

using namespace mlir;

namespace ligerdsl::compiler {

double CompileTrace::now() {
  return std::chrono::duration<double, std::milli>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void CompileTrace::mark(const char* phase) {
  double t = now();
  times.push_back({phase, t - last});
  last = t;
}

std::vector<program::Span> CompileTrace::spans() const {
  std::vector<program::Span> spans = passes.spans();
  double begin = first * 1e3;
  for (const program::PhaseTime& phase : times) {
    const double end = begin + phase.milliseconds * 1e3;
    spans.push_back({phase.name, "", static_cast<int64_t>(begin),
                     static_cast<int64_t>(end) - static_cast<int64_t>(begin)});
    begin = end;
  }
  return spans;
}

std::string printModule(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream, OpPrintingFlags().enableDebugInfo(false));
  return text;
}

void registerDialects(DialectRegistry& registry) {
  registry.insert<tile::TileDialect, tgpu::TgpuDialect, arith::ArithDialect, math::MathDialect,
                  scf::SCFDialect, func::FuncDialect, LLVM::LLVMDialect, vector::VectorDialect>();
  registerNvptxDialects(registry);
  registerCpuDialects(registry);
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  registerNVVMDialectTranslation(registry);
}

namespace {

// Collects the context's errors, and its remarks without duplicates. An error is a line
// "file:line:col: error: message" at the author's location.
class DiagnosticText {
 public:
  explicit DiagnosticText(MLIRContext& context)
      : handler(&context, [this](Diagnostic& diagnostic) {
          diagnostic.getSeverity() == DiagnosticSeverity::Error ? addError(diagnostic)
                                                                : addRemark(diagnostic);
          return success();
        }) {}

  std::string text;
  std::vector<program::Remark> remarks;

 private:
  void addError(Diagnostic& error) {
    addLine(error, "error: ");
    for (Diagnostic& note : error.getNotes()) addLine(note, "note: ");
  }

  void addLine(Diagnostic& diagnostic, const char* severity) {
    llvm::raw_string_ostream stream(text);
    if (!text.empty()) stream << "\n";
    if (auto at = diagnostic.getLocation()->findInstanceOf<FileLineColLoc>())
      stream << at.getFilename().str() << ":" << at.getLine() << ":" << at.getColumn() << ": ";
    stream << severity << diagnostic.str();
  }

  void addRemark(Diagnostic& diagnostic) {
    program::Remark remark = toRemark(diagnostic);
    if (seen.insert(program::to_string(remark)).second) remarks.push_back(std::move(remark));
  }

  std::set<std::string> seen;
  ScopedDiagnosticHandler handler;
};

bool addsToMemory(const program::CompileOptions& options) {
  const program::GpuArch* arch =
      options.target == program::Target::nvptx ? program::find_gpu_arch(options.arch) : nullptr;
  return arch && arch->adds_vectors(options);
}

LogicalResult expandAdds(ModuleOp module, const program::CompileOptions& options) {
  PassManager passes(module.getContext());
  timePasses(passes);
  passes.addNestedPass<func::FuncOp>(
      createTileExpandAddsPass({.memoryAdds = addsToMemory(options)}));
  return passes.run(module);
}

LogicalResult unrollLoops(ModuleOp module) {
  PassManager passes(module.getContext());
  timePasses(passes);
  passes.addNestedPass<func::FuncOp>(createTileUnrollLoopsPass());
  return passes.run(module);
}

LogicalResult simplify(ModuleOp module, const program::CompileOptions& options) {
  if (failed(unrollLoops(module))) return failure();
  std::optional<LoopFoldGuard> guard;
  if (options.target == program::Target::nvptx)
    guard.emplace(module);  // CPU kernels have no pipelined loops
  PassManager passes(module.getContext());
  timePasses(passes);
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());
  passes.addPass(createLoopInvariantCodeMotionPass());
  // Merges identical values that were hoisted from two loops; resident rows are not recognised
  // otherwise.
  passes.addPass(createCSEPass());
  return passes.run(module);
}

}  // namespace

program::Artifact compile(const program::Program& program, const program::CompileOptions& options) {
  CompileTrace trace(options);
  // The registry is built once. Each compile has its own context, so that compiles are independent.
  static const DialectRegistry& registry = *[] {
    auto* all = new DialectRegistry;
    registerDialects(*all);
    return all;
  }();
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  DiagnosticText diagnostics(context);
  trace.mark("context");

  OwningOpRef<ModuleOp> module = importProgram(program, options, context);
  if (!module || failed(verify(*module))) throw CompileError(diagnostics.text, false);
  const bool edited = !options.tile.empty();
  if (edited) module = parseEditedTile(options, *module);
  if (!module) throw CompileError(diagnostics.text, false);
  trace.mark("import");

  program::Artifact artifact;
  artifact.target = options.target;
  artifact.facts = options.facts;
  for (const program::Argument& argument : program.arguments)
    artifact.slots += program::slotCount(program.values[argument.value]);

  // Edited tile IR was printed after `simplify`, so it is not simplified again.
  LogicalResult done = expandAdds(*module, options);
  if (succeeded(done) && !edited) done = simplify(*module, options);
  if (succeeded(done) && trace.emits("tile")) {
    trace.keep(printModule(*module));
  } else if (succeeded(done)) {
    done = options.target == program::Target::nvptx
               ? compileForNvptx(*module, options, artifact, trace)
               : compileForCpu(*module, options, artifact, trace);
  }
  if (failed(done))
    throw CompileError(diagnostics.text.empty()
                           ? "the compiler's passes failed without an error message"
                           : diagnostics.text,
                       !edited && !(*module)->hasAttr(kRefusedAttr));
  if (!options.emit.empty()) artifact.code = trace.emitted;
  artifact.times = trace.times;
  if (options.spans) artifact.spans = trace.spans();
  artifact.remarks = diagnostics.remarks;
  return artifact;
}

}  // namespace ligerdsl::compiler
