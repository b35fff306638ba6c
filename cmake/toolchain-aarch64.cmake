# 64-bit ARM from a host of another kind: Debian's cross compiler, and QEMU's user-mode emulator for what it has built.
include(${CMAKE_CURRENT_LIST_DIR}/emulator-aarch64.cmake)
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
if(TWINRAIL_AARCH64_QEMU)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${TWINRAIL_AARCH64_EMULATOR})
endif()

# Nothing of the host's is linked; what is headers only, TwinrailHeadersOnly.cmake takes from there.
set(CMAKE_FIND_ROOT_PATH ${TWINRAIL_AARCH64_ROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
