# The oldest supported GCC where it is installed, so that one of the trees the tests build anyway keeps it working.
find_program(TWINRAIL_GCC11 g++-11)
if(TWINRAIL_GCC11)
  set(CMAKE_CXX_COMPILER ${TWINRAIL_GCC11})
endif()
