# Installs the build tree BUILD into WORK/prefix. Then builds the projects of the folder SOURCE
# against it and runs them.
set(prefix ${WORK}/prefix)
file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})

function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  string(JOIN " " line ${ARGV})
  message("$ ${line}\n${output}")
  if(result)
    message(FATAL_ERROR "expected exit code 0, got ${result}: ${line}")
  endif()
endfunction()

run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix})
set(ENV{LD_LIBRARY_PATH} ${prefix}/${LIBDIR})
set(ENV{LIGERDSL_CACHE_DIR} ${WORK}/cache)

# Builds a trainer in C with the flags of pkg-config.
set(ENV{PKG_CONFIG_PATH} ${prefix}/${LIBDIR}/pkgconfig)
execute_process(COMMAND pkg-config --cflags --libs ligerdsl
  OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE result)
if(result)
  message(FATAL_ERROR "pkg-config finds no package ligerdsl in ${prefix}/${LIBDIR}/pkgconfig")
endif()
separate_arguments(flags)
execute_process(COMMAND pkg-config --variable=operations ligerdsl OUTPUT_VARIABLE operations OUTPUT_STRIP_TRAILING_WHITESPACE)
file(READ ${operations} table)
string(JSON first GET "${table}" operations 0 name)
message("${operations}: the first operation is ${first}")
run(${CC} -std=c99 -O2 -Wall -Wextra -Werror ${SOURCE}/c_trainer/main.c -o ${WORK}/c_trainer ${flags} -lm)
run(${WORK}/c_trainer)
set(gpt2 ${SOURCE}/../../examples/gpt2)
run(${CMAKE_COMMAND} -S ${gpt2} -B ${WORK}/gpt2 -DCMAKE_PREFIX_PATH=${prefix} -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_COMPILER=${CC})
run(${CMAKE_COMMAND} --build ${WORK}/gpt2)
run(${WORK}/gpt2/gpt2 check)

function(build_and_run project folder compiler)
  run(${CMAKE_COMMAND} -S ${SOURCE}/${project} -B ${WORK}/${folder} -DCMAKE_PREFIX_PATH=${prefix} -DCMAKE_BUILD_TYPE=Release
      -DCMAKE_CXX_COMPILER=${compiler})
  run(${CMAKE_COMMAND} --build ${WORK}/${folder})
  run(${WORK}/${folder}/${project})
endfunction()
build_and_run(cpp_trainer cpp_trainer ${CXX})
build_and_run(dsl_author dsl_author ${CXX})
run(${WORK}/dsl_author/named_launch)
run(${WORK}/dsl_author/for_target)
# An author's compiler may differ from the library's.
if(CLANGXX)
  build_and_run(dsl_author dsl_author_clang ${CLANGXX})
  run(${WORK}/dsl_author_clang/named_launch)
  run(${WORK}/dsl_author_clang/for_target)
endif()

# Checks the installed documents, and builds the installed lessons as an author would.
set(documents ${prefix}/share/doc/libligerdsl)
foreach(file README.md LICENSE docs/reference/dsl-overview.md docs/guide/write-a-kernel.md lessons/README.md lessons/05_fast_rows.cpp)
  if(NOT EXISTS ${documents}/${file})
    message(FATAL_ERROR "${documents}/${file} is not installed")
  endif()
endforeach()
run(${CMAKE_COMMAND} -S ${documents}/lessons -B ${WORK}/lessons -DCMAKE_PREFIX_PATH=${prefix} -DCMAKE_BUILD_TYPE=Release
    -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_C_COMPILER=${CC})
run(${CMAKE_COMMAND} --build ${WORK}/lessons)
foreach(lesson 01_vector_add 02_fused_softmax 03_rms_norm 04_c_abi)
  run(${WORK}/lessons/lesson_${lesson})
endforeach()

# Loads the author's kernels into the installed command.
run(${prefix}/${BINDIR}/ligerdsl --load ${WORK}/dsl_author/libauthor_kernels.so list)

run(${prefix}/${BINDIR}/ligerdsl --load ${WORK}/dsl_author/libauthor_kernels.so run squared_relu y=100 x=y scale=1 --check)

# Ten kernels from the literature, built by each compiler. Each must be right on this CPU, and
# compile for a GPU without clusters (sm_80) and one with clusters (sm_90a).
set(author_kernels
  "generalized_jsd beta=0.5 scale=1 cols=256 x=37x256 y=x d_x=x loss=37"
  "selective_log_softmax cols=256 out=37 x=37x256 index=37:0..255"
  "group_norm channels=12 groups=4 positions=49 x=8x147 y=x mean=8 rstd=8 weight=12 bias=12 eps=1e-5"
  "sparsemax cols=256 y=37x256 x=y"
  "dropout y=1000 x=y p=0.1 seed=7"
  "top2 cols=256 values=37x2 indices=37x2 x=37x256"
  "quantize_int8 cols=256 q=37x256 scale=37 x=q"
  "bias_gelu type=f16 cols=256 y=37x256 x=y bias=256"
  "bias_gelu_backward cols=256 d_x=37x256 d_y=d_x x=d_x bias=256 parts=2x256"
  "matmul c=50x70 a=50x33 b=33x70")
function(build_author_kernels folder compiler)
  run(${CMAKE_COMMAND} -S ${documents}/author_kernels -B ${WORK}/${folder} -DCMAKE_PREFIX_PATH=${prefix}
      -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER=${compiler} -DCMAKE_CXX_FLAGS=-Werror)
  run(${CMAKE_COMMAND} --build ${WORK}/${folder})
  set(command ${prefix}/${BINDIR}/ligerdsl --load ${WORK}/${folder}/libauthor_kernels.so)
  run(${command} list)
  foreach(line ${author_kernels})
    separate_arguments(line)
    list(GET line 0 kernel)
    run(${command} run ${line} --check)
    foreach(target sm_80 sm_90a)
      run(${command} compile ${kernel} --target ${target} --emit remarks)
    endforeach()
  endforeach()
endfunction()
build_author_kernels(author_kernels ${CXX})
if(CLANGXX)
  build_author_kernels(author_kernels_clang ${CLANGXX})
endif()

# A kernel with a schedule per device. The launch and its check must use the schedule of this
# device.
run(${prefix}/${BINDIR}/ligerdsl --load ${WORK}/dsl_author/libauthor_kernels.so run row_mean x=37x1000 mean=37 block=1 --check)
function(compiles_to target stage)
  set(command ${prefix}/${BINDIR}/ligerdsl --load ${WORK}/dsl_author/libauthor_kernels.so compile row_mean
      --target ${target} --emit ${stage})
  execute_process(COMMAND ${command} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE errors)
  foreach(words ${ARGN})
    string(FIND "${output}" "${words}" found)
    if(result OR found EQUAL -1)
      message(FATAL_ERROR "${command}: exit ${result}, expected \"${words}\" in\n${output}${errors}")
    endif()
  endforeach()
endfunction()
compiles_to(sm_80 ptx ".reqntid 256")
compiles_to(sm_90a ptx ".reqntid 256" ".reqnctapercluster 2")
compiles_to(sm_120 ptx ".reqntid 128" ".reqnctapercluster 2")
compiles_to(sm_80 program "value=1024 : i64")
compiles_to(sm_90a program "value=2048 : i64")

# An invalid setting of an author's kernel must give exit code 2 and name the mistake.
function(refused words)
  set(command ${prefix}/${BINDIR}/ligerdsl --load ${WORK}/dsl_author/libauthor_kernels.so ${ARGN})
  execute_process(COMMAND ${command} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  string(FIND "${output}" "${words}" found)
  if(NOT result EQUAL 2 OR found EQUAL -1)
    message(FATAL_ERROR "${command}: exit ${result}, expected 2 and \"${words}\" in\n${output}")
  endif()
endfunction()
refused("num_warps: expected an integer from 1 to 32, got '4x'" compile squared_relu num_warps=4x --emit program)
refused("did you mean 'num_warps'?" compile squared_relu numwarps=4 --emit program)
refused("got '3z'" run squared_relu y=3z x=y scale=1)
refused("name of another view" run squared_relu y=nothing x=100 scale=1)
refused("scale (f32): expected a number, got '2x'" run squared_relu y=100 x=y scale=2x)
refused("no setting or argument 'scael' (did you mean 'scale'?)" run squared_relu y=100 x=y scale=1 scael=2)
