# The oldest supported Clang where it is installed, else whichever there is.
find_program(TWINRAIL_CLANG NAMES clang++-14 clang++)
if(TWINRAIL_CLANG)
  set(CMAKE_CXX_COMPILER ${TWINRAIL_CLANG})
endif()
