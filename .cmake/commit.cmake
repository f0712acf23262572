# Writes the header ${OUT}, which defines LIGERDSL_COMMIT as " commit HASH clean", or as " commit
# HASH dirty" if a source of the binaries differs from the commit. The text is " commit unknown" if
# git is missing, does not trust the folder's owner, or does not manage the folder.
include(${CMAKE_CURRENT_LIST_DIR}/build_sources.cmake)
set(git ${CMAKE_COMMAND} -E env --unset=GIT_DIR --unset=GIT_WORK_TREE --unset=GIT_INDEX_FILE
        git --no-optional-locks -C ${ROOT})

# Runs git with the given arguments. Sets `text` to its output, and `result` to TRUE if git
# succeeds.
function(ask result text)
  execute_process(COMMAND ${git} ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE said ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  set(${text} "${said}" PARENT_SCOPE)
  if(code STREQUAL "0")
    set(${result} TRUE PARENT_SCOPE)
  else()
    set(${result} FALSE PARENT_SCOPE)
  endif()
endfunction()

set(state " commit unknown")
ask(inside prefix rev-parse --show-prefix)
ask(committed hash rev-parse --verify HEAD)
ligerdsl_build_pathspecs(specs)
ask(compared changes status --porcelain --untracked-files=all -- ${specs})
if(inside AND committed AND compared AND "${prefix}" STREQUAL "" AND "${hash}" MATCHES "^[0-9a-f]+$")
  if("${changes}" STREQUAL "")
    set(state " commit ${hash} clean")
  else()
    set(state " commit ${hash} dirty")
  endif()
endif()
ligerdsl_write_if_changed(${OUT} "#pragma once\n#define LIGERDSL_COMMIT \"${state}\"\n")
