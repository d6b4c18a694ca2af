# MLIR and LLVM 22, linked as archives: a program that uses them starts in 2 ms instead of 27 (no
# relocation of libLLVM and libMLIR) and runs on a machine without them.
find_package(MLIR REQUIRED CONFIG HINTS /usr/lib/llvm-22/lib/cmake/mlir)
if(NOT LLVM_VERSION_MAJOR EQUAL 22)
  message(FATAL_ERROR "found MLIR ${LLVM_VERSION} in ${MLIR_DIR}, expected 22 (Debian: libmlir-22-dev, "
    "mlir-22-tools, llvm-22-dev, libzstd-dev); -DMLIR_DIR=... names another")
endif()
list(APPEND CMAKE_MODULE_PATH "${MLIR_CMAKE_DIR}" "${LLVM_CMAKE_DIR}")
include(TableGen)
include(AddLLVM)
include(AddMLIR)

# Debian exports MLIR's archives with libLLVM.so (and some with libMLIR.so) as their interface. A
# program with two copies of MLIR has two type registries, so every archive links LLVM's archives
# instead, and none the shared libraries.
llvm_map_components_to_libnames(moe_llvm_archives core support)
add_library(moe_llvm INTERFACE)
target_link_libraries(moe_llvm INTERFACE ${moe_llvm_archives})
foreach(archive ${MLIR_EXPORTED_TARGETS})
  get_target_property(kind ${archive} TYPE)
  if(kind STREQUAL "STATIC_LIBRARY")
    get_target_property(needs ${archive} INTERFACE_LINK_LIBRARIES)
    if(needs)
      list(REMOVE_ITEM needs LLVM MLIR)
      list(APPEND needs moe_llvm)
      set_target_properties(${archive} PROPERTIES INTERFACE_LINK_LIBRARIES "${needs}")
    endif()
  endif()
endforeach()

# moe_use_mlir(TARGET): MLIR's headers as system headers, and the generated ones of this tree.
function(moe_use_mlir target)
  target_include_directories(${target} SYSTEM PUBLIC ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS}
    "${PROJECT_BINARY_DIR}")
endfunction()
