# Toolchain file: cross-compiles for 64-bit ARM with Debian's g++-aarch64-linux-gnu (packages-aarch64.txt) and runs
# tests under qemu's user emulation. The environment's QEMU_CPU chooses the processor: the default has every
# extension, cortex-a53 has none.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)

find_program(MOE_AARCH64_CC aarch64-linux-gnu-gcc REQUIRED)
find_program(MOE_AARCH64_CXX aarch64-linux-gnu-g++ REQUIRED)
find_program(MOE_AARCH64_QEMU NAMES qemu-aarch64 qemu-aarch64-static REQUIRED)
set(CMAKE_C_COMPILER "${MOE_AARCH64_CC}")
set(CMAKE_CXX_COMPILER "${MOE_AARCH64_CXX}")
# The cross packages keep the target's libc here. Headers of libraries come from /usr/include, which the compiler
# searches after its own directories.
set(CMAKE_CROSSCOMPILING_EMULATOR "${MOE_AARCH64_QEMU};-L;/usr/aarch64-linux-gnu")
