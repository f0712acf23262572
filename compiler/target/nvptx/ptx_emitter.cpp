#include "compiler/target/nvptx/ptx_emitter.h"

#include <map>
#include <mutex>
#include <vector>

#include "llvm/ADT/StringExtras.h"
#include "llvm/Analysis/CGSCCPassManager.h"
#include "llvm/Analysis/LoopAnalysisManager.h"
#include "llvm/IR/DiagnosticHandler.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Passes/StandardInstrumentations.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/InstCombine/InstCombine.h"
#include "llvm/Transforms/Scalar/ADCE.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/IndVarSimplify.h"
#include "llvm/Transforms/Scalar/LICM.h"
#include "llvm/Transforms/Scalar/LoopPassManager.h"
#include "llvm/Transforms/Scalar/LoopRotation.h"
#include "llvm/Transforms/Scalar/LoopUnrollPass.h"
#include "llvm/Transforms/Scalar/SROA.h"
#include "llvm/Transforms/Scalar/SimplifyCFG.h"
#include "llvm/Transforms/Utils/Mem2Reg.h"

extern "C" {
void LLVMInitializeNVPTXTargetInfo();
void LLVMInitializeNVPTXTarget();
void LLVMInitializeNVPTXTargetMC();
void LLVMInitializeNVPTXAsmPrinter();
}

namespace ligerdsl::compiler::nvptx {
namespace {

const llvm::Triple& triple() {
  static const llvm::Triple value("nvptx64-nvidia-cuda");
  return value;
}

// Pool of idle target machines. A machine serves one compile at a time.
class MachinePool {
 public:
  using Key = std::pair<std::string, int>;  // architecture and PTX version

  std::unique_ptr<llvm::TargetMachine> take(const Key& key) {
    {
      std::lock_guard lock(mutex);
      auto& list = idle[key];
      if (!list.empty()) {
        auto machine = std::move(list.back());
        list.pop_back();
        return machine;
      }
    }
    return create(key);
  }
  void give(const Key& key, std::unique_ptr<llvm::TargetMachine> machine) {
    std::lock_guard lock(mutex);
    idle[key].push_back(std::move(machine));
  }
  static MachinePool& get() {
    static MachinePool pool;
    return pool;
  }

 private:
  static std::unique_ptr<llvm::TargetMachine> create(const Key& key) {
    static const llvm::Target* target = [] {
      LLVMInitializeNVPTXTargetInfo();
      LLVMInitializeNVPTXTarget();
      LLVMInitializeNVPTXTargetMC();
      LLVMInitializeNVPTXAsmPrinter();
      std::string error;
      return llvm::TargetRegistry::lookupTarget(triple(), error);
    }();
    llvm::TargetOptions options;
    return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(
        triple(), key.first, "+ptx" + std::to_string(key.second), options, llvm::Reloc::PIC_,
        std::nullopt, llvm::CodeGenOptLevel::Default));
  }

  std::mutex mutex;
  std::map<Key, std::vector<std::unique_ptr<llvm::TargetMachine>>> idle;
};

// Returns the passes for tile code. Such code has no calls to inline and only counters to promote,
// and its vectors already have the full width. LoopUnroll uses LLVM's heuristics, and skips loops
// whose author gave an unroll count (annotateUnroll).
llvm::FunctionPassManager optimisations() {
  using namespace llvm;
  FunctionPassManager passes;
  passes.addPass(PromotePass());
  passes.addPass(EarlyCSEPass());
  passes.addPass(InstCombinePass());
  passes.addPass(SimplifyCFGPass());
  LoopPassManager rotate;
  rotate.addPass(LoopRotatePass());
  rotate.addPass(LICMPass(LICMOptions()));
  passes.addPass(createFunctionToLoopPassAdaptor(std::move(rotate), /*UseMemorySSA=*/true));
  passes.addPass(createFunctionToLoopPassAdaptor(IndVarSimplifyPass()));
  passes.addPass(LoopUnrollPass(LoopUnrollOptions(/*OptLevel=*/2)));
  passes.addPass(EarlyCSEPass(/*UseMemorySSA=*/true));
  passes.addPass(InstCombinePass());
  passes.addPass(SimplifyCFGPass());
  passes.addPass(ADCEPass());
  return passes;
}

// Collects errors. Without a handler LLVM ends the process at an error.
class ErrorCollector : public llvm::DiagnosticHandler {
 public:
  explicit ErrorCollector(std::string& errors) : errors(errors) {}
  bool handleDiagnostics(const llvm::DiagnosticInfo& info) override {
    if (info.getSeverity() != llvm::DS_Error) return true;
    llvm::raw_string_ostream stream(errors);
    llvm::DiagnosticPrinterRawOStream printer(stream);
    info.print(printer);
    stream << "\n";
    return true;
  }

 private:
  std::string& errors;
};

void optimise(llvm::Module& module, llvm::TargetMachine& machine) {
  using namespace llvm;
  LoopAnalysisManager loops;
  FunctionAnalysisManager functions;
  CGSCCAnalysisManager sccs;
  llvm::ModuleAnalysisManager modules;  // `mlir` also has a class of this name
  PassInstrumentationCallbacks callbacks;
  TimeProfilingPassesHandler times;
  times.registerCallbacks(callbacks);  // records times if LLVM's time trace is on
  PassBuilder builder(&machine, PipelineTuningOptions(), std::nullopt, &callbacks);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(sccs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, sccs, modules);
  FunctionPassManager passes = optimisations();
  for (Function& function : module)
    if (!function.isDeclaration()) passes.run(function, functions);
}

}  // namespace

std::string emitPtx(llvm::Module& module, const std::string& arch, int ptxVersion,
                    std::string& errors) {
  module.getContext().setDiagnosticHandler(std::make_unique<ErrorCollector>(errors));
  std::unique_ptr<llvm::TargetMachine> machine = MachinePool::get().take({arch, ptxVersion});
  module.setTargetTriple(triple());
  module.setDataLayout(machine->createDataLayout());
  optimise(module, *machine);
  llvm::SmallString<0> text;
  llvm::raw_svector_ostream stream(text);
  llvm::legacy::PassManager codegen;
  machine->addPassesToEmitFile(codegen, stream, nullptr, llvm::CodeGenFileType::AssemblyFile,
                               /*DisableVerify=*/true);
  codegen.run(module);
  MachinePool::get().give({arch, ptxVersion}, std::move(machine));
  return std::string(text);
}

}  // namespace ligerdsl::compiler::nvptx
