# Lists the sources of the binaries. build_id.cmake hashes them, and commit.cmake asks git whether
# they differ from the commit.
set(LIGERDSL_BUILD_FOLDERS compiler dsl kernels runtime lib)
set(LIGERDSL_BUILD_FILES *.cpp *.h *.hpp *.def *.td *.py *.in *.map *.cmake CMakeLists.txt)
set(LIGERDSL_BUILD_NOT lib/python)  # only calls the C ABI, so no kernel depends on it
set(LIGERDSL_BUILD_ROOT_FILES CMakeLists.txt .cmake/*.cmake)

# Sets `result` to patterns for file(GLOB_RECURSE) that match the sources below `root`.
function(ligerdsl_build_patterns root result)
  set(patterns "")
  foreach(folder ${LIGERDSL_BUILD_FOLDERS})
    foreach(file ${LIGERDSL_BUILD_FILES})
      list(APPEND patterns ${root}/${folder}/${file})
    endforeach()
  endforeach()
  set(${result} "${patterns}" PARENT_SCOPE)
endfunction()

# Sets `result` to the same patterns as git pathspecs.
function(ligerdsl_build_pathspecs result)
  set(specs "")
  foreach(folder ${LIGERDSL_BUILD_FOLDERS})
    foreach(file ${LIGERDSL_BUILD_FILES})
      list(APPEND specs ":(glob)${folder}/**/${file}")
    endforeach()
  endforeach()
  foreach(file ${LIGERDSL_BUILD_ROOT_FILES})
    list(APPEND specs ":(glob)${file}")
  endforeach()
  list(APPEND specs ":(exclude)${LIGERDSL_BUILD_NOT}")
  set(${result} "${specs}" PARENT_SCOPE)
endfunction()

# Writes a header only if its text changed, because each write recompiles all files that include it.
function(ligerdsl_write_if_changed file text)
  if(EXISTS ${file})
    file(READ ${file} old)
  endif()
  if(NOT "${old}" STREQUAL "${text}")
    file(WRITE ${file} "${text}")
  endif()
endfunction()
