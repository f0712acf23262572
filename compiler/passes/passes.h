// Passes on a func.func, declared in Passes.td. create<Name>Pass takes <Name>PassOptions if the
// pass has options.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>

#include "compiler/dialect/tgpu.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Pass/Pass.h"

namespace ligerdsl::compiler {

#define GEN_PASS_DECL
#include "compiler/passes/Passes.h.inc"

// registerLigerdslPasses registers every pass by its name, for ligerdsl-opt.
#define GEN_PASS_REGISTRATION
#include "compiler/passes/Passes.h.inc"

}  // namespace ligerdsl::compiler
