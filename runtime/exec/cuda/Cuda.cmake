# Sets CUDA_OBJECT, the kernels compiled with nvcc, and CUDART_LIBRARY; CUDA_OBJECT is empty where nvcc is not found. No other part
# depends on them: a program loads libmoert_cuda.so at run time. nvcc is called directly: CMake would pass it the options
# of the C++ compiler.
set(CUDA_OBJECT "")
find_program(NVCC_PROGRAM nvcc HINTS /usr/local/cuda/bin)
if(NOT NVCC_PROGRAM OR CMAKE_CROSSCOMPILING)
  message(STATUS "CUDA: no nvcc for this system, libmoert_cuda.so is left out")
  return()
endif()
cmake_path(GET NVCC_PROGRAM PARENT_PATH place)
find_library(CUDART_LIBRARY cudart_static HINTS "${place}/../lib64" "${place}/../lib" "${place}/../targets/x86_64-linux/lib")
if(NOT CUDART_LIBRARY)
  message(STATUS "CUDA: ${NVCC_PROGRAM} has no libcudart_static.a, libmoert_cuda.so is left out")
  return()
endif()

# A version of nvcc does not take every version of the C++ compiler.
set(trial "${CMAKE_CURRENT_BINARY_DIR}/trial")
file(WRITE "${trial}.cu" "#include <span>\n")
execute_process(COMMAND "${NVCC_PROGRAM}" -std=c++20 -c "${trial}.cu" -o "${trial}.o" RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
if(failed)
  message(STATUS "CUDA: ${NVCC_PROGRAM} does not compile C++20 here, libmoert_cuda.so is left out")
  return()
endif()

# Machine code for each of these that nvcc knows, and PTX, which the driver compiles for later ones.
execute_process(COMMAND "${NVCC_PROGRAM}" --list-gpu-arch OUTPUT_VARIABLE known)
set(targets)
foreach(arch 75 80 86 87 89 90 120)
  if(known MATCHES "compute_${arch}\n")
    list(APPEND targets -gencode "arch=compute_${arch},code=sm_${arch}")
  endif()
endforeach()
foreach(arch 90 120)
  if(known MATCHES "compute_${arch}\n")
    list(APPEND targets -gencode "arch=compute_${arch},code=compute_${arch}")
  endif()
endforeach()
message(STATUS "CUDA: libmoert_cuda.so is built with ${NVCC_PROGRAM}")

# The arithmetic of docs/numbers.md: products are contracted nowhere, subnormals kept, division and square root
# correctly rounded.
set(object "${CMAKE_CURRENT_BINARY_DIR}/CudaDevice.o")
add_custom_command(OUTPUT "${object}"
  COMMAND "${NVCC_PROGRAM}" -c -std=c++20 -O3 --threads 2 --expt-relaxed-constexpr
    -fmad=false -ftz=false -prec-div=true -prec-sqrt=true -Werror all-warnings ${targets}
    -Xcompiler=-fPIC,-fvisibility=hidden,-Wall,-Wextra
    -I "${PROJECT_SOURCE_DIR}" -MD -MF CudaDevice.d -MT "${object}" -o "${object}" "${CMAKE_CURRENT_LIST_DIR}/CudaDevice.cu"
  DEPENDS "${CMAKE_CURRENT_LIST_DIR}/CudaDevice.cu" DEPFILE CudaDevice.d VERBATIM COMMENT "Building CudaDevice.cu")
set(CUDA_OBJECT "${object}")
