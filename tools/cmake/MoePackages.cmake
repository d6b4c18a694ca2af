# Debian packages, made by `cpack --config build/release/CPackConfig.cmake`:
#   moert          the program and libmoert.so
#   libmoert-dev   headers, CMake package, pkg-config file, examples
set(CPACK_GENERATOR DEB)
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON) # It packs what was built and builds nothing.
set(CPACK_PACKAGE_NAME moert)
set(CPACK_PACKAGE_CONTACT "The authors of moec and moert")
set(CPACK_PACKAGE_VERSION "${PROJECT_VERSION}")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL runtime dev)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION "Runs Mixture-of-Experts models within a memory budget")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME moert)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SHLIBDEPS ON)
# Other packages' dpkg-shlibdeps finds this one; installing it runs ldconfig.
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
set(CPACK_COMPONENT_DEV_DESCRIPTION "Headers and build files for programs that use libmoert")
set(CPACK_DEBIAN_DEV_PACKAGE_NAME libmoert-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "moert (= ${PROJECT_VERSION})")
include(CPack)
