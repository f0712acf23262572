#include "compiler/compile.h"

#include <chrono>

#include "compiler/dialect/tgpu.h"
#include "compiler/dialect/tile.h"
#include "compiler/import/import.h"
#include "compiler/refusal.h"
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

using namespace mlir;

namespace ligerdsl::compiler {

double CompileTrace::now() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void CompileTrace::mark(const char* phase) {
  double t = now();
  times.push_back({phase, t - last});
  last = t;
}

std::string printModule(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream, OpPrintingFlags().enableDebugInfo(false));
  return text;
}

void registerDialects(DialectRegistry& registry) {
  registry.insert<tile::TileDialect, tgpu::TgpuDialect, arith::ArithDialect, math::MathDialect, scf::SCFDialect,
                  func::FuncDialect, LLVM::LLVMDialect, vector::VectorDialect>();
  registerNvptxDialects(registry);
  registerCpuDialects(registry);
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  registerNVVMDialectTranslation(registry);
}

namespace {

// Turns the context's diagnostics into one text: "file:line:col: error: message" lines, the author's location first.
class DiagnosticText {
 public:
  explicit DiagnosticText(MLIRContext& context)
      : handler(&context, [this](Diagnostic& diagnostic) {
          add(diagnostic);
          for (Diagnostic& note : diagnostic.getNotes()) add(note);
          return success();
        }) {}

  std::string text;
  std::vector<std::string> remarks;

 private:
  void add(Diagnostic& diagnostic) {
    std::string line;
    llvm::raw_string_ostream stream(line);
    if (auto at = diagnostic.getLocation()->findInstanceOf<FileLineColLoc>())
      stream << at.getFilename().str() << ":" << at.getLine() << ":" << at.getColumn() << ": ";
    static constexpr const char* names[] = {"note: ", "warning: ", "error: ", "remark: "};
    stream << names[static_cast<int>(diagnostic.getSeverity())] << diagnostic.str();
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error || diagnostic.getSeverity() == DiagnosticSeverity::Note)
      text += (text.empty() ? "" : "\n") + line;
    else
      remarks.push_back(line);
  }

  ScopedDiagnosticHandler handler;
};

LogicalResult simplify(ModuleOp module) {
  PassManager passes(module.getContext());
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());
  passes.addPass(createLoopInvariantCodeMotionPass());
  passes.addPass(createCSEPass());  // what two loops hoist is one value: resident rows are recognised by it
  return passes.run(module);
}

}  // namespace

program::Artifact compile(const program::Program& program, const program::CompileOptions& options) {
  CompileTrace trace(options);
  // The registry is built once; a context per compile keeps compiles independent.
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
  trace.mark("import");

  program::Artifact artifact;
  artifact.target = options.target;
  artifact.facts = options.facts;
  for (const program::Argument& argument : program.arguments)
    artifact.slots += program::slotCount(program.values[argument.value]);

  LogicalResult done = simplify(*module);
  if (succeeded(done) && trace.emits("tile")) {
    trace.keep(printModule(*module));
  } else if (succeeded(done)) {
    done = options.target == program::Target::nvptx ? compileForNvptx(*module, options, artifact, trace)
                                                    : compileForCpu(*module, options, artifact, trace);
  }
  if (failed(done))
    throw CompileError(diagnostics.text.empty() ? "the pipeline failed without a diagnostic" : diagnostics.text,
                       !(*module)->hasAttr(kRefusedAttr));
  if (!options.emit.empty()) artifact.code = trace.emitted;
  artifact.times = trace.times;
  artifact.diagnostics = diagnostics.remarks;
  return artifact;
}

}  // namespace ligerdsl::compiler
