# Options, and the flags that every target of the project is compiled with.

set(TWINRAIL_TESTS AUTO CACHE STRING "Build the tests: ON, OFF, or AUTO (when GoogleTest is installed)")
set_property(CACHE TWINRAIL_TESTS PROPERTY STRINGS AUTO ON OFF)
set(TWINRAIL_VERBS AUTO CACHE STRING "Build the RDMA rail: ON, OFF, or AUTO (when libibverbs and librdmacm are installed)")
set_property(CACHE TWINRAIL_VERBS PROPERTY STRINGS AUTO ON OFF)
set(TWINRAIL_SANITIZE "" CACHE STRING "Sanitizers, for example address,undefined or thread")
set(TWINRAIL_FUZZ OFF CACHE STRING "Build the libFuzzer targets: ON, OFF, or AUTO (when the compiler is Clang)")
set_property(CACHE TWINRAIL_FUZZ PROPERTY STRINGS AUTO ON OFF)
option(TWINRAIL_BENCH "Build the micro-benchmarks of the layers (needs Google Benchmark)" OFF)
set(TWINRAIL_WERROR AUTO CACHE STRING "Warnings are errors: ON, OFF, or AUTO (with the compilers that the tests cover)")
set_property(CACHE TWINRAIL_WERROR PROPERTY STRINGS AUTO ON OFF)
set(TWINRAIL_PCH OFF CACHE STRING "Precompile common headers (hides a missing include): ON, OFF, or AUTO (without ccache)")
set_property(CACHE TWINRAIL_PCH PROPERTY STRINGS AUTO ON OFF)
set(TWINRAIL_TEST_FLAGS "" CACHE STRING "Compiler flags of the tests' own sources, after all others")
option(TWINRAIL_ALL_CHECKS "Add to the test list what needs the sanitizer and fuzz trees, and the checks" OFF)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)

find_program(TWINRAIL_CCACHE ccache)
if(TWINRAIL_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Paths relative to the sources, so that clones and worktrees share what is cached.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
                                  ${TWINRAIL_CCACHE})
endif()
set(TWINRAIL_USE_PCH ${TWINRAIL_PCH})
if(TWINRAIL_PCH STREQUAL "AUTO")
  # ccache does not see through precompiled headers, and saves more than they do.
  set(TWINRAIL_USE_PCH ON)
  if(TWINRAIL_CCACHE)
    set(TWINRAIL_USE_PCH OFF)
  endif()
endif()
# Libraries and programs must be compiled alike to share a precompiled header.
if(NOT TWINRAIL_USE_PCH)
  set(CMAKE_POSITION_INDEPENDENT_CODE ON)
endif()

add_library(twinrail_flags INTERFACE)
target_compile_options(twinrail_flags INTERFACE -Wall -Wextra -Wshadow)
set(warnings_are_errors ${TWINRAIL_WERROR})
if(TWINRAIL_WERROR STREQUAL "AUTO")
  # A compiler newer than all we have tried must not keep anybody from building for a new warning's sake.
  set(warnings_are_errors OFF)
  if((CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
     OR (CMAKE_CXX_COMPILER_ID MATCHES "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 15))
    set(warnings_are_errors ON)
  endif()
endif()
if(warnings_are_errors)
  target_compile_options(twinrail_flags INTERFACE -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Nobody replaces our functions at run time; without this, position independent code inlines none of them.
  target_compile_options(twinrail_flags INTERFACE -fno-semantic-interposition)
  # GCC 12 warns about overlapping copies inside std::string's own operator+ (GCC bug 105651).
  target_compile_options(twinrail_flags INTERFACE -Wno-restrict)
  if(CMAKE_CROSSCOMPILING)
    # For ARM GCC 12 inlines more of std::string's operator+ and sees overruns in it that are none (GCC bug 105329).
    target_compile_options(twinrail_flags INTERFACE -Wno-error=array-bounds)
  endif()
  if(CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12)
    # What GCC 11's optimiser believes about data flow differs from GCC 12's and is more often wrong: shown, not fatal.
    target_compile_options(twinrail_flags INTERFACE -Wno-error=maybe-uninitialized -Wno-error=stringop-overflow
                                                    -Wno-error=array-bounds)
  endif()
endif()

if(TWINRAIL_SANITIZE)
  # For tests that count or soak: what they would measure there is the sanitizer. UBSan alone leaves memory as it is.
  if(TWINRAIL_SANITIZE MATCHES "address|thread|memory|leak")
    target_compile_definitions(twinrail_flags INTERFACE TWINRAIL_SANITIZED)
  endif()
  target_compile_options(twinrail_flags INTERFACE -fsanitize=${TWINRAIL_SANITIZE} -fno-sanitize-recover=all
                                                  -fno-omit-frame-pointer)
  target_link_options(twinrail_flags INTERFACE -fsanitize=${TWINRAIL_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC's data-flow warnings see the sanitizer's own instructions and report what is not there.
    # That fences are not modelled is known; what relies on one says so beside it.
    target_compile_options(twinrail_flags INTERFACE -Wno-maybe-uninitialized -Wno-stringop-overflow
                                                    -Wno-array-bounds -Wno-tsan)
    if(TWINRAIL_SANITIZE STREQUAL "thread" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12)
      set(TWINRAIL_FIRST_HEADER ${PROJECT_SOURCE_DIR}/cmake/tsan_gcc11.h)
      if(NOT TWINRAIL_USE_PCH)
        target_compile_options(twinrail_flags INTERFACE -include ${TWINRAIL_FIRST_HEADER})
      endif()
    endif()
  endif()
endif()

set(TWINRAIL_BUILD_FUZZERS ${TWINRAIL_FUZZ})
if(TWINRAIL_FUZZ STREQUAL "AUTO")
  set(TWINRAIL_BUILD_FUZZERS OFF)
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    set(TWINRAIL_BUILD_FUZZERS ON)
  endif()
endif()
if(TWINRAIL_BUILD_FUZZERS)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "TWINRAIL_FUZZ needs Clang: configure with `cmake --preset fuzz`")
  endif()
  target_compile_options(twinrail_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
