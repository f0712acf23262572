# Installation, the CMake package, pkg-config and Debian packages.
include(CMakePackageConfigHelpers)
set(cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ligerdsl)

set_target_properties(ligerdsl_dsl PROPERTIES EXPORT_NAME dsl)
install(TARGETS ligerdsl EXPORT ligerdsl
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT dev)
install(TARGETS ligerdsl_dsl EXPORT ligerdsl_dsl ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev)
install(EXPORT ligerdsl NAMESPACE ligerdsl:: FILE ligerdslTargets.cmake DESTINATION ${cmake_dir} COMPONENT dev)
install(EXPORT ligerdsl_dsl NAMESPACE ligerdsl:: FILE ligerdslDslTargets.cmake DESTINATION ${cmake_dir} COMPONENT dev)
install(DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/include/ ${generated}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  COMPONENT dev FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp" PATTERN "*.def")

set(ops_json ${CMAKE_INSTALL_DATAROOTDIR}/ligerdsl/ops.json)
install(FILES ${generated}/ops.json DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/ligerdsl COMPONENT dev)

# Documents for authors outside this repository: the pages, the lessons and the author kernels.
# Lessons and author kernels can be built without this repository.
set(doc_dir ${CMAKE_INSTALL_DATAROOTDIR}/doc/libligerdsl)
install(FILES ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/NOTICE DESTINATION ${doc_dir} COMPONENT dev)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs/ DESTINATION ${doc_dir}/docs COMPONENT dev)
foreach(examples lessons author_kernels)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples/${examples}/ DESTINATION ${doc_dir}/${examples} COMPONENT dev)
endforeach()

# Each package installs the licence, and the notices of the components in the binaries, in the
# folder of its own name.
set(package_runtime libligerdsl0)
set(package_dev libligerdsl-dev)
set(package_tools ligerdsl-tools)
foreach(component runtime dev tools)
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/NOTICE
    DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/${package_${component}} COMPONENT ${component})
endforeach()

configure_package_config_file(package/ligerdslConfig.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/ligerdslConfig.cmake
  INSTALL_DESTINATION ${cmake_dir} PATH_VARS ops_json)
# A project that requests version 0.1 accepts 0.2, because the C ABI and the soname are the same.
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/ligerdslConfigVersion.cmake COMPATIBILITY SameMajorVersion)
# The prefix in the .pc file is a relative path, so that an installed folder can be moved.
file(RELATIVE_PATH pc_to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(package/ligerdsl.pc.in ${CMAKE_CURRENT_BINARY_DIR}/ligerdsl.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/ligerdslConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/ligerdslConfigVersion.cmake
  DESTINATION ${cmake_dir} COMPONENT dev)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/ligerdsl.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)

if(PROJECT_IS_TOP_LEVEL)
  set(CPACK_GENERATOR DEB)
  set(CPACK_PACKAGE_CONTACT "libligerdsl developers <libligerdsl@invalid>")
  set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Fused training kernels behind a C ABI")
  set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
  set(CPACK_DEB_COMPONENT_INSTALL ON)
  set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
  set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
  set(CPACK_STRIP_FILES ON)
  set(CPACK_COMPONENTS_ALL runtime dev tools)
  set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME ${package_runtime})
  set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)
  set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
  set(CPACK_DEBIAN_DEV_PACKAGE_NAME ${package_dev})
  set(CPACK_DEBIAN_TOOLS_PACKAGE_NAME ${package_tools})
  set(CPACK_DEBIAN_RUNTIME_PACKAGE_SHLIBDEPS ON)
  set(CPACK_DEBIAN_TOOLS_PACKAGE_SHLIBDEPS ON)
  set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "libligerdsl0 (= ${PROJECT_VERSION})")
  set(CPACK_DEBIAN_TOOLS_PACKAGE_DEPENDS "libligerdsl0 (= ${PROJECT_VERSION})")
  include(CPack)
endif()
