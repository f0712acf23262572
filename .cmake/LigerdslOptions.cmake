# Compiler flags, tools and the build id, for all folders.
find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  # These settings let ccache cache files with precompiled headers, and let all build trees share
  # entries.
  set(_launcher ${CMAKE_COMMAND} -E env CCACHE_NOHASHDIR=1 CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}
                CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${CCACHE_PROGRAM})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${_launcher})
  set(CMAKE_C_COMPILER_LAUNCHER ${_launcher})
endif()
find_program(LLD_PROGRAM NAMES ld.lld ld.lld-22 PATHS /usr/lib/llvm-22/bin)

# Warnings, include folders and sanitizers. All targets of the project link this library.
add_library(ligerdsl_options INTERFACE)
target_compile_options(ligerdsl_options INTERFACE -Wall -Wextra -Wno-missing-field-initializers)
target_include_directories(ligerdsl_options INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/dsl>
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/lib/include>)

# Parsing the standard library's headers takes most of a file's compile time, so each target parses
# them once.
function(ligerdsl_precompiles target)
  target_precompile_headers(${target} PRIVATE <algorithm> <array> <cstdint> <functional> <map> <memory> <optional> <set> <span> <string>
                            <string_view> <utility> <variant> <vector> ${ARGN})
endfunction()

# Compiles up to eight sources of a folder as one, so that the compiler reads their headers once.
# Sources of one folder must not define the same names. A source with SKIP_UNITY_BUILD_INCLUSION is
# compiled alone.
function(ligerdsl_compile_in_groups target)
  if(NOT LIGERDSL_COMPILE_IN_GROUPS)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)  # GCC treats sources in a group as headers
  get_target_property(sources ${target} SOURCES)
  get_target_property(target_folder ${target} SOURCE_DIR)
  foreach(source ${sources})
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${target_folder} OUTPUT_VARIABLE source)
    set(path ${source})
    cmake_path(RELATIVE_PATH path BASE_DIRECTORY ${PROJECT_SOURCE_DIR})
    cmake_path(GET path PARENT_PATH folder)
    string(MAKE_C_IDENTIFIER "${folder}" folder)
    if(NOT DEFINED sources_of_${folder})
      set(sources_of_${folder} 0)
    endif()
    math(EXPR group "${sources_of_${folder}} / 8")
    math(EXPR sources_of_${folder} "${sources_of_${folder}} + 1")
    set(name ${folder}_${group})
    set_source_files_properties(${source} TARGET_DIRECTORY ${target} PROPERTIES UNITY_GROUP ${name})
  endforeach()
endfunction()

# Makes binaries independent of the checkout's folder: __FILE__ and std::source_location give
# "kernels/softmax/softmax.cpp". Recorded programs contain these paths, so cache keys and the line
# information in PTX depend on them. ccache passes paths below the checkout as relative paths.
# Without ccache, paths are absolute.
set(_prefix_maps -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/= -fmacro-prefix-map=${PROJECT_BINARY_DIR}/=)
file(RELATIVE_PATH _source_from_build ${PROJECT_BINARY_DIR} ${PROJECT_SOURCE_DIR})
if(_source_from_build)
  string(REGEX REPLACE "/$" "" _source_from_build ${_source_from_build})
  list(APPEND _prefix_maps -fmacro-prefix-map=${_source_from_build}/=)
endif()
add_compile_options(${_prefix_maps})

# GCC 12 falsely warns of overlapping or unbounded copies in std::string (GCC bugs 105651 and
# 105329).
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 12
   AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  foreach(warning restrict stringop-overflow stringop-overread array-bounds)
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-${warning}>)
  endforeach()
endif()

# Hardening flags. Sanitizer builds omit them, because sanitizers check more and conflict with
# _FORTIFY_SOURCE. Only Release builds set _FORTIFY_SOURCE, because it needs optimisation.
if(NOT LIGERDSL_SANITIZE)
  add_compile_options(-fstack-protector-strong $<$<CONFIG:Release>:-U_FORTIFY_SOURCE> $<$<CONFIG:Release>:-D_FORTIFY_SOURCE=2>)
  add_link_options(LINKER:-z,relro LINKER:-z,now)
endif()

if(LIGERDSL_SANITIZE)
  # Without -fno-sanitize-recover, undefined behaviour is reported but fails no test. -g1 adds line
  # tables, which suffice for reports.
  add_compile_options(-fsanitize=${LIGERDSL_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=${LIGERDSL_SANITIZE})
  # Two settings shorten builds: some checks are omitted, and the address sanitizer's checks are
  # calls instead of inline code. It still reports accesses through null, to freed objects and
  # beyond allocated ones. Nightly builds also check alignment and the dynamic types of objects.
  if(LIGERDSL_SANITIZE MATCHES address AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    set(_unchecked null,object-size)
    if(NOT LIGERDSL_NIGHTLY_TESTS)
      string(APPEND _unchecked ,alignment,vptr)
    endif()
    add_compile_options(-fno-sanitize=${_unchecked} "SHELL:--param asan-instrumentation-with-call-threshold=0")
  endif()
endif()

# The build id is part of every cache key, and must be the same in libligerdsl and
# libligerdsl-compiler. It is a hash of the binaries' sources and compile flags. After a change of
# the compiler or a kernel, no old cache entry can therefore be used.
include(build_sources)
ligerdsl_build_patterns(${PROJECT_SOURCE_DIR} _id_patterns)
file(GLOB_RECURSE _id_sources CONFIGURE_DEPENDS ${_id_patterns})
list(FILTER _id_sources EXCLUDE REGEX "^${PROJECT_SOURCE_DIR}/${LIGERDSL_BUILD_NOT}/")
foreach(_file ${LIGERDSL_BUILD_ROOT_FILES})
  file(GLOB _found CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${_file})
  list(APPEND _id_sources ${_found})
endforeach()
set(_generated ${PROJECT_BINARY_DIR}/generated)
add_custom_command(OUTPUT ${_generated}/ligerdsl_build_id.h
  COMMAND ${CMAKE_COMMAND} -DOUT=${_generated}/ligerdsl_build_id.h -DROOT=${PROJECT_SOURCE_DIR} -DVERSION=${PROJECT_VERSION}
          "-DFLAGS=${CMAKE_BUILD_TYPE} ${CMAKE_CXX_FLAGS} ${LIGERDSL_SANITIZE}" -P ${PROJECT_SOURCE_DIR}/.cmake/build_id.cmake
  DEPENDS ${_id_sources} COMMENT "Hashing sources for the build id" VERBATIM)
add_custom_target(ligerdsl_build_id_header DEPENDS ${_generated}/ligerdsl_build_id.h)
add_library(ligerdsl_build_id INTERFACE)
add_dependencies(ligerdsl_build_id ligerdsl_build_id_header)
target_include_directories(ligerdsl_build_id INTERFACE ${_generated})

# The git commit of the sources of the binaries. Every build asks git, but writes the header only if
# its text changed. No cache key contains the commit.
add_custom_target(ligerdsl_commit_header BYPRODUCTS ${_generated}/ligerdsl_commit.h
  COMMAND ${CMAKE_COMMAND} -DOUT=${_generated}/ligerdsl_commit.h -DROOT=${PROJECT_SOURCE_DIR}
          -P ${PROJECT_SOURCE_DIR}/.cmake/commit.cmake
  COMMENT "Asking git for the commit" VERBATIM)
