# Packs the contents of a build tree into a wheel in ${BUILD}/dist, without a rebuild. PIP_OPTIONS:
# more options for pip.
set(stage ${BUILD}/wheel)
file(REMOVE_RECURSE ${stage})
execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --component python --prefix ${stage} OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
file(COPY ${SOURCE}/ligerdsl ${SOURCE}/pyproject.toml ${SOURCE}/README.md DESTINATION ${stage} PATTERN __pycache__ EXCLUDE)
file(COPY ${SOURCE}/../../LICENSE ${SOURCE}/../../NOTICE DESTINATION ${stage})
# A wheel contains a file next to the package folder, such as ligerdsl_liger.pth, only if a project
# installs the file.
file(WRITE ${stage}/CMakeLists.txt "cmake_minimum_required(VERSION 3.25)
project(ligerdsl_wheel NONE)
install(FILES ligerdsl_liger.pth DESTINATION . COMPONENT python)
")
execute_process(COMMAND ${PYTHON} -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir ${BUILD}/dist ${PIP_OPTIONS}
                -C cmake.source-dir=. -C build.targets=all -C build-dir=${stage}/made ${stage} COMMAND_ERROR_IS_FATAL ANY)
message(STATUS "The wheel is in ${BUILD}/dist")
