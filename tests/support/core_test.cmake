include_guard()
find_package(Python3 3.9 REQUIRED COMPONENTS Interpreter)
# ligerdsl_core_tests(name label command...): the command once for each of OpenBLAS's sets of kernels, as on_core.py says. For
# programs that multiply matrices.
function(ligerdsl_core_tests name label)
  foreach(core Prescott Nehalem Haswell Zen SkylakeX Cooperlake)
    add_test(NAME ${name}.${core} COMMAND ${Python3_EXECUTABLE} -B ${PROJECT_SOURCE_DIR}/tests/support/on_core.py ${core} ${ARGN})
    set_tests_properties(${name}.${core} PROPERTIES LABELS ${label} TIMEOUT 600 SKIP_RETURN_CODE 77)
  endforeach()
endfunction()
