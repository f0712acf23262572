include_guard()
# ligerdsl_kernel_test(name [SHARDS n] sources...) adds a program with these tests, and a CTest
# entry for each available backend (option --backend). SHARDS divides a backend's tests among n
# entries, because they take minutes on one processor. But cuda always has one entry, and so has cpu
# by default, with every sixth test. The entries have the label `kernels` and are among the first to
# start. Backends that repeat the tests of another one run only with LIGERDSL_NIGHTLY_TESTS.
function(ligerdsl_kernel_test name)
  if(LIGERDSL_SANITIZE AND NOT LIGERDSL_NIGHTLY_TESTS)  # without the compiler only the interpreter runs kernels, which dsl_tests covers
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "SHARDS" "")
  set(support ${PROJECT_SOURCE_DIR}/tests/support)
  add_executable(${name} ${arg_UNPARSED_ARGUMENTS} ${support}/main.cpp)
  target_link_libraries(${name} PRIVATE ligerdsl_test_support)
  set(backends)
  if(EXISTS ${support}/backend_interpreter.cpp)
    target_sources(${name} PRIVATE ${support}/backend_interpreter.cpp)
    list(APPEND backends interpreter)
    if(LIGERDSL_NIGHTLY_TESTS AND NOT LIGERDSL_SANITIZE)  # repeats the interpreter with the schedules of a GPU
      list(APPEND backends interpreter-nvptx)
    endif()
  endif()
  if(LIGERDSL_BUILD_COMPILER)
    target_sources(${name} PRIVATE ${support}/backend_library.cpp)
    target_link_libraries(${name} PRIVATE ligerdsl)
    add_dependencies(${name} ligerdsl_compiler)
    list(APPEND backends cpu cuda)
    target_sources(${name} PRIVATE ${support}/backend_ptx.cpp ${PROJECT_SOURCE_DIR}/runtime/cuda/tensor_map.cpp)
    target_link_libraries(${name} PRIVATE ligerdsl_ptx_emulator ${CMAKE_DL_LIBS})
    target_compile_definitions(${name} PRIVATE LIGERDSL_TEST_COMPILER="$<TARGET_FILE:ligerdsl_compiler>")
    list(APPEND backends ptx)
    if(LIGERDSL_NIGHTLY_TESTS)  # these repeat ptx with clusters of 2 and 4 CTAs
      list(APPEND backends ptx-cluster2 ptx-cluster4)
    endif()
  endif()
  foreach(backend ${backends})
    if(NOT arg_SHARDS OR backend STREQUAL cuda)
      ligerdsl_kernel_shard(${name} ${backend} "" 1 0)
      continue()
    endif()
    if(backend STREQUAL cpu AND NOT LIGERDSL_NIGHTLY_TESTS)  # every sixth test: see tests/README.md
      ligerdsl_kernel_shard(${name} ${backend} "" 6 0)
      continue()
    endif()
    foreach(shard RANGE 1 ${arg_SHARDS})
      math(EXPR index "${shard} - 1")
      ligerdsl_kernel_shard(${name} ${backend} .${shard} ${arg_SHARDS} ${index})
    endforeach()
  endforeach()
endfunction()

function(ligerdsl_kernel_shard name backend suffix shards index)
  set(test ${name}.${backend}${suffix})
  set(filter)
  if(backend STREQUAL ptx-cluster4)  # matmuls take half of the time, and clusters of 2 test the same code
    set(filter "--gtest_filter=-*Attention*:*Dot*:*Matmul*")
  endif()
  set(combinations LIGERDSL_TEST_COMBINATIONS=pairs)
  if(LIGERDSL_NIGHTLY_TESTS)
    set(combinations LIGERDSL_TEST_COMBINATIONS=all)
  endif()
  add_test(NAME ${test} COMMAND ${name} --backend=${backend} ${filter})
  set_tests_properties(${test} PROPERTIES LABELS kernels TIMEOUT 900 SKIP_RETURN_CODE 77 COST 100
                       ENVIRONMENT "GTEST_TOTAL_SHARDS=${shards};GTEST_SHARD_INDEX=${index};${combinations}")
endfunction()

# ligerdsl_suites(filter sources...) sets the variable `filter` to the --gtest_filter option that
# selects all test suites of the sources.
function(ligerdsl_suites filter)
  set(found)
  foreach(source ${ARGN})
    file(STRINGS ${source} lines REGEX "^TEST")
    list(TRANSFORM lines REPLACE "^[A-Z_]+\\(([A-Za-z0-9_]+).*" "*\\1.*")
    list(APPEND found ${lines})
  endforeach()
  list(REMOVE_DUPLICATES found)
  list(JOIN found ":" found)
  set(${filter} "${found}" PARENT_SCOPE)
endfunction()
