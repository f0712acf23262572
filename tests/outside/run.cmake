# Installs the build in BUILD to WORK/prefix, then builds and runs the outside projects of SOURCE against it.
set(prefix ${WORK}/prefix)
file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})

function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  string(JOIN " " line ${ARGV})
  message("$ ${line}\n${output}")
  if(result)
    message(FATAL_ERROR "exit ${result}")
  endif()
endfunction()

run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix})
set(ENV{LD_LIBRARY_PATH} ${prefix}/${LIBDIR})
set(ENV{LIGERDSL_CACHE_DIR} ${WORK}/cache)

# A trainer in C, through pkg-config.
set(ENV{PKG_CONFIG_PATH} ${prefix}/${LIBDIR}/pkgconfig)
execute_process(COMMAND pkg-config --cflags --libs ligerdsl
  OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE result)
if(result)
  message(FATAL_ERROR "pkg-config does not know ligerdsl")
endif()
separate_arguments(flags)
run(${CC} -std=c99 -O2 -Wall -Wextra -Werror ${SOURCE}/c_trainer/main.c -o ${WORK}/c_trainer ${flags} -lm)
run(${WORK}/c_trainer)

foreach(project cpp_trainer dsl_author)
  run(${CMAKE_COMMAND} -S ${SOURCE}/${project} -B ${WORK}/${project} -DCMAKE_PREFIX_PATH=${prefix} -DCMAKE_BUILD_TYPE=Release
      -DCMAKE_CXX_COMPILER=${CXX})
  run(${CMAKE_COMMAND} --build ${WORK}/${project})
  run(${WORK}/${project}/${project})
endforeach()

# The author's kernels behind the command.
run(${prefix}/${BINDIR}/ligerdsl --load ${WORK}/dsl_author/libauthor_kernels.so list)
