include_guard()
find_package(Python3 3.9 REQUIRED COMPONENTS Interpreter)
# ligerdsl_processor_tests(name label processors command...) adds a test for each processor, which
# runs the command with on_processor.py. These tests start first, because one that recompiles every
# kernel takes minutes and would delay the end of a run.
function(ligerdsl_processor_tests name label processors)
  set(own_level)
  if(LIGERDSL_NIGHTLY_TESTS)
    set(own_level --own-level)
  endif()
  foreach(processor ${processors})
    add_test(NAME ${name}.${processor}
             COMMAND ${Python3_EXECUTABLE} -B ${PROJECT_SOURCE_DIR}/tests/support/on_processor.py ${own_level} ${processor} ${ARGN})
    set_tests_properties(${name}.${processor} PROPERTIES LABELS ${label} TIMEOUT 1500 SKIP_RETURN_CODE 77 COST 200)
  endforeach()
endfunction()
# OpenBLAS core types, for programs with matmuls.
set(openblas_processors Prescott Nehalem Haswell Zen SkylakeX Cooperlake)
