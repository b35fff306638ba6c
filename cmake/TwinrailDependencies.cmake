# Third-party code comes from the distribution's packages only. Each missing one is named by its package.

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

function(twinrail_need found package)
  if(NOT ${found})
    message(FATAL_ERROR "Missing: install the package ${package} (./twinrail does it for you)")
  endif()
endfunction()

find_package(fmt QUIET CONFIG)
twinrail_need(fmt_FOUND libfmt-dev)
find_package(nlohmann_json QUIET CONFIG)
twinrail_need(nlohmann_json_FOUND nlohmann-json3-dev)
find_package(CLI11 QUIET CONFIG)
twinrail_need(CLI11_FOUND libcli11-dev)

# Not every packaging of toml++ brings a CMake file, and it is headers only.
find_path(TWINRAIL_TOML_INCLUDE toml++/toml.h)
twinrail_need(TWINRAIL_TOML_INCLUDE libtomlplusplus-dev)
if(NOT TARGET tomlplusplus::tomlplusplus)
  add_library(tomlplusplus INTERFACE)
  add_library(tomlplusplus::tomlplusplus ALIAS tomlplusplus)
  target_include_directories(tomlplusplus SYSTEM INTERFACE ${TWINRAIL_TOML_INCLUDE})
endif()

if(TWINRAIL_TESTS STREQUAL "OFF")
  set(TWINRAIL_BUILD_TESTS OFF)
else()
  find_package(GTest QUIET)
  set(TWINRAIL_BUILD_TESTS ${GTest_FOUND})
  if(NOT TWINRAIL_TESTS STREQUAL "AUTO")
    twinrail_need(GTest_FOUND "libgtest-dev and libgmock-dev")
  endif()
endif()

if(TWINRAIL_BENCH)
  find_package(benchmark QUIET CONFIG)
  twinrail_need(benchmark_FOUND libbenchmark-dev)
endif()
