# Debian's static MLIR targets name the libLLVM dylib in their link interface. A program that links
# them unchanged contains LLVM twice and aborts. This file replaces the dylib with LLVM's static
# components, so that exactly one copy is linked.
llvm_map_components_to_libnames(_llvm_static NVPTXCodeGen NVPTXDesc NVPTXInfo X86CodeGen X86Desc X86Info X86AsmParser
  orcjit passes core support target asmparser bitreader bitwriter irreader frontendopenmp frontendoffloading)
file(STRINGS ${MLIR_CMAKE_DIR}/MLIRTargets.cmake _declared REGEX "add_library\\(MLIR[A-Za-z0-9_]+ STATIC")
foreach(_line ${_declared})
  string(REGEX REPLACE "add_library\\((MLIR[A-Za-z0-9_]+) STATIC.*" "\\1" _target "${_line}")
  get_target_property(_interface ${_target} INTERFACE_LINK_LIBRARIES)
  if(_interface)
    list(REMOVE_ITEM _interface LLVM)
    list(APPEND _interface ${_llvm_static})
    set_target_properties(${_target} PROPERTIES INTERFACE_LINK_LIBRARIES "${_interface}")
  endif()
endforeach()

set(LIGERDSL_MLIR_LIBRARIES
  MLIRNVVMDialect MLIRSCFDialect MLIRArithDialect MLIRMathDialect MLIRFuncDialect MLIRVectorDialect MLIRLLVMDialect
  MLIRParser MLIRPass MLIRTransforms MLIRTransformUtils MLIRSCFTransforms MLIRArithTransforms MLIRMathTransforms MLIRFuncTransforms
  MLIRSCFToControlFlow MLIRArithToLLVM MLIRMathToLLVM MLIRVectorToLLVM MLIRControlFlowToLLVM MLIRFuncToLLVM
  MLIRNVVMToLLVM MLIRReconcileUnrealizedCasts MLIRLLVMIRTransforms
  MLIRNVVMToLLVMIRTranslation MLIRLLVMToLLVMIRTranslation MLIRBuiltinToLLVMIRTranslation MLIRTargetLLVMIRExport
  ${_llvm_static})
