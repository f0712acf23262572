#include "compiler/target/cpu/cpu_target.h"

#include "compiler/analysis/effects.h"
#include "compiler/math/expand_math.h"
#include "compiler/target/cpu/backend.h"
#include "compiler/target/cpu/jit.h"
#include "compiler/target/cpu/keep_wide.h"
#include "compiler/target/cpu/lowering.h"
#include "compiler/target/cpu/share_loops.h"
#include "compiler/target/cpu/sink_into_branches.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/TargetParser/Host.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Target/LLVMIR/ModuleTranslation.h"

using namespace mlir;

namespace ligerdsl::compiler {

const std::string& hostCpuName() {
  static const std::string name = llvm::sys::getHostCPUName().str();
  return name;
}

const std::string& hostCpuFeatures() {
  static const std::string features = [] {
    std::string text;
    SmallVector<std::string> names;
    for (const auto& [name, on] : llvm::sys::getHostCPUFeatures())
      names.push_back((Twine(on ? "+" : "-") + name).str());
    llvm::sort(names);
    for (const std::string& name : names) text += (text.empty() ? "" : ",") + name;
    return text;
  }();
  return features;
}

void registerCpuDialects(DialectRegistry& registry) {
  registry.insert<cf::ControlFlowDialect>();
}

namespace {

// Converts loops, arithmetic and control flow to the LLVM dialect.
LogicalResult convertToLlvm(ModuleOp module) {
  MLIRContext* context = module.getContext();
  LLVMConversionTarget target(*context);
  target.addLegalOp<ModuleOp>();
  target.addIllegalDialect<scf::SCFDialect, arith::ArithDialect, math::MathDialect,
                           cf::ControlFlowDialect>();
  LLVMTypeConverter types(context);
  RewritePatternSet patterns(context);
  populateSCFToControlFlowConversionPatterns(patterns);
  arith::populateArithToLLVMConversionPatterns(types, patterns);
  cf::populateControlFlowToLLVMConversionPatterns(types, patterns);
  populateMathToLLVMConversionPatterns(types, patterns);
  return applyPartialConversion(module, target, std::move(patterns));
}

// Verifies rule 3 of README.md: kernels allocate nothing at run time and use the arena only.
LogicalResult verifyNoAllocation(ModuleOp module) {
  WalkResult result = module.walk([](Operation* op) {
    if (!isa<LLVM::AllocaOp>(op) && !op->getName().getStringRef().contains("alloc"))
      return WalkResult::advance();
    op->emitOpError("allocates memory: CPU kernels must use the arena only");
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

func::FuncOp findKernel(ModuleOp module) {
  for (auto function : module.getOps<func::FuncOp>())
    if (function->hasAttr(tile::kKernelAttr)) return function;
  return {};
}

// Collects errors. Without this handler LLVM ends the process at its first error.
void keepErrors(const llvm::DiagnosticInfo* info, void* text) {
  if (info->getSeverity() != llvm::DS_Error) return;
  llvm::raw_string_ostream stream(*static_cast<std::string*>(text));
  llvm::DiagnosticPrinterRawOStream printer(stream);
  info->print(printer);
  stream << "\n";
}

LogicalResult emitObject(ModuleOp module, cpu::Backend& backend, program::Artifact& artifact,
                         CompileTrace& trace) {
  std::string errors;
  llvm::LLVMContext context;
  context.setDiagnosticHandlerCallBack(keepErrors, &errors);
  std::unique_ptr<llvm::Module> llvmModule = translateModuleToLLVMIR(module, context);
  if (!llvmModule) return failure();
  trace.mark("translate");
  backend.optimize(*llvmModule);
  trace.mark("optimize");
  if (trace.emits("llvm")) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    llvmModule->print(stream, nullptr);
    trace.keep(text);
    return success();
  }
  bool assembly = trace.emits("asm");
  std::string code = backend.emit(*llvmModule, assembly);
  if (!errors.empty()) return module.emitError("LLVM's code generator: ") << errors;
  if (assembly)
    trace.keep(code);
  else
    artifact.code = std::move(code);
  trace.mark("codegen");
  return success();
}

}  // namespace

LogicalResult compileForCpu(ModuleOp module, const program::CompileOptions& options,
                            program::Artifact& artifact, CompileTrace& trace) {
  trace.mark("simplify");
  artifact.arch = options.arch.empty() ? hostCpuName() : options.arch;
  std::string features =
      options.arch.empty() && options.features.empty() ? hostCpuFeatures() : options.features;
  func::FuncOp kernel = findKernel(module);
  if (!kernel)
    return module.emitError("the module has no kernel; expected a func.func with the attribute ")
           << tile::kKernelAttr;
  std::unique_ptr<cpu::Backend> backend;
  try {
    backend = std::make_unique<cpu::Backend>(artifact.arch, features);
  } catch (const std::runtime_error& e) {
    throw CompileError(e.what(), false);
  }
  trace.mark("machine");

  artifact.entry = "ligerdsl_" + kernel.getName().str();
  {
    if (failed(verifyEffects(kernel)) || failed(cpu::verifySinks(kernel))) return failure();
    cpu::keepWide(kernel);
    cpu::shareLoops(kernel);
    cpu::sinkIntoBranches(kernel);
    cpu::Plan plan(kernel);
    artifact.arena_bytes = plan.arenaBytes();
    cpu::TileLowering lowering(kernel, plan, backend->has("f16c"), backend->has("sse2"));
    if (failed(lowering.run(module, artifact.entry))) return failure();
  }
  kernel.erase();
  const bool avx512 =
      backend->has("avx512f") && backend->has("avx512dq") && backend->has("avx512vl");
  if (failed(expandMath(module, avx512 ? MathFlavor::avx512 : MathFlavor::generic)))
    return failure();
  trace.mark("loops");
  if (trace.emits("loops")) {
    trace.keep(printModule(module));
    return success();
  }
  if (failed(convertToLlvm(module)) || failed(verifyNoAllocation(module))) return failure();
  trace.mark("convert");
  return emitObject(module, *backend, artifact, trace);
}

ligerdsl_cpu_module* loadCpuObject(std::string_view object, const std::string& entryName,
                                   void** entry) {
  try {
    return cpu::loadObject(object, entryName, entry);
  } catch (const std::runtime_error& e) {
    throw CompileError(e.what(), true);
  }
}

void unloadCpuObject(ligerdsl_cpu_module* module) {
  cpu::unloadObject(module);
}

}  // namespace ligerdsl::compiler
