# Build settings that every target shares, and the functions that every CMakeLists.txt uses.
include(GNUInstallDirs)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  # The base directory makes entries shareable between checkouts.
  set(moe_launcher ${CMAKE_COMMAND} -E env "CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}" CCACHE_NOHASHDIR=1
      ${CCACHE_PROGRAM})
  set(CMAKE_C_COMPILER_LAUNCHER ${moe_launcher})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${moe_launcher})
endif()

# lld links MLIR's archives several times faster than bfd, and makes moert smaller. A cross compiler looks
# for a linker with the target's name as prefix, and Debian has no such lld.
if(NOT CMAKE_CROSSCOMPILING)
  find_program(LLD_PROGRAM NAMES ld.lld)
endif()
if(LLD_PROGRAM)
  add_link_options(-fuse-ld=lld)
endif()

# Results are part of the contract (docs/numbers.md): no contraction, no fast-math.
add_compile_options(-ffp-contract=off -fno-fast-math)
add_link_options(-Wl,--gc-sections)
add_compile_options(-ffunction-sections -fdata-sections)

if(MOE_SANITIZE)
  # Instead of CMake's -O2 -g -DNDEBUG: builds with sanitizers keep asserts, and -g1 compiles in 0.77 of the
  # time of -g (g++ 12, four files). It has the lines and functions that a sanitizer's report names.
  foreach(language C CXX)
    set(CMAKE_${language}_FLAGS_RELWITHDEBINFO "-O2 -g1")
  endforeach()
  add_compile_options(-fsanitize=${MOE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${MOE_SANITIZE})
endif()

find_package(Threads REQUIRED)

# Warnings in our own code are errors; libraries are included as system headers. Only for g++ without
# sanitizers: the fuzzers' clang warns of other things, and g++ reports false warnings in instrumented code.
function(moe_set_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor
    -Woverloaded-virtual)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT MOE_SANITIZE)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
endfunction()

# moe_add_library(NAME SOURCES file... [DEPS target...]): a static library whose includes start at the
# top of the tree ("runtime/base/Status.h").
function(moe_add_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_include_directories(${name} PUBLIC "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/runtime/include")
  target_link_libraries(${name} PUBLIC ${ARG_DEPS})
  moe_set_warnings(${name})
endfunction()

# moe_optimize_for_size(target...): -Os for libraries in which no token spends its time. They are
# most of moert's code, and become 40% smaller, which counts for a runtime that is copied to devices.
function(moe_optimize_for_size)
  foreach(target ${ARGN})
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-Os>)
  endforeach()
endfunction()

# What unit tests and the fixtures that they share are compiled with. Compiling a test takes longer than running it, and -O1
# takes 0.7 of the time of -O3, 0.6 with sanitizers (g++ 12). Fast asserts have no try block each: an exception still fails
# the test.
function(moe_set_test_options target)
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_compile_definitions(${target} PRIVATE DOCTEST_CONFIG_SUPER_FAST_ASSERTS
    MOE_TEST_DATA_DIR="${PROJECT_SOURCE_DIR}/tests/data")
  target_compile_options(${target} PRIVATE -O1)
  moe_set_warnings(${target})
endfunction()

# moe_add_test_library(NAME SOURCES file... [DEPS target...]): what several unit tests share.
function(moe_add_test_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC ${ARG_DEPS} doctest::doctest)
  moe_set_test_options(${name})
endfunction()

# moe_add_unit_test(NAME SOURCES file... [DEPS target...]): a doctest program, registered with CTest.
# The tests find their data through MOE_TEST_DATA_DIR.
function(moe_add_unit_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} unit_test_main)
  moe_set_test_options(${name})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  add_test(NAME ${name} COMMAND ${name})
endfunction()
