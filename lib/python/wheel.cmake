# Packs what a build tree has into ${BUILD}/dist, without another build. PIP_OPTIONS: further ones of pip.
set(stage ${BUILD}/wheel)
file(REMOVE_RECURSE ${stage})
execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --component python --prefix ${stage} OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
file(COPY ${SOURCE}/ligerdsl ${SOURCE}/pyproject.toml ${SOURCE}/README.md DESTINATION ${stage} PATTERN __pycache__ EXCLUDE)
execute_process(COMMAND ${PYTHON} -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir ${BUILD}/dist ${PIP_OPTIONS}
                -C wheel.cmake=false -C wheel.platlib=true -C cmake.source-dir=. ${stage} COMMAND_ERROR_IS_FATAL ANY)
message(STATUS "The wheel is in ${BUILD}/dist")
