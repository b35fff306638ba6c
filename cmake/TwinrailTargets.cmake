# twinrail_layer, twinrail_tool, twinrail_test: one line for each folder.
include(GoogleTest)

# What `cmake --build --preset fuzz` builds; it exists also while there is nothing to fuzz.
add_custom_target(fuzzers)

# The sanitizer trees compile everything once more only to run it, and most of that time goes into the same headers. One
# precompiled header for the product and one for the tests, shared by all targets.
if(TWINRAIL_USE_PCH)
  file(WRITE ${CMAKE_BINARY_DIR}/empty.cc "")
  add_library(twinrail_pch OBJECT ${CMAKE_BINARY_DIR}/empty.cc)
  target_link_libraries(twinrail_pch PRIVATE twinrail_flags Threads::Threads)
  set(precompiled
      <algorithm> <array> <atomic> <bit> <cassert> <chrono> <cstddef> <cstdint> <cstdio> <cstdlib> <cstring> <deque>
      <functional> <limits> <map> <memory> <mutex> <optional> <random> <span> <string> <string_view> <thread>
      <unordered_map> <utility> <variant> <vector>)
  target_precompile_headers(twinrail_pch PRIVATE ${TWINRAIL_FIRST_HEADER} ${precompiled})
  if(TWINRAIL_BUILD_TESTS)
    add_library(twinrail_test_pch OBJECT ${CMAKE_BINARY_DIR}/empty.cc)
    target_link_libraries(twinrail_test_pch PRIVATE twinrail_flags Threads::Threads GTest::gmock GTest::gtest)
    target_precompile_headers(twinrail_test_pch PRIVATE ${TWINRAIL_FIRST_HEADER} <gmock/gmock.h> <gtest/gtest.h>
                                                        ${precompiled})
  endif()
endif()

# Gives every target of ours its flags and include paths.
function(twinrail_common target scope)
  target_link_libraries(${target} PRIVATE twinrail_flags Threads::Threads)
  target_include_directories(${target} ${scope} ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
  if(TWINRAIL_USE_PCH)
    set(pch twinrail_pch)
    if("TEST" IN_LIST ARGN)
      set(pch twinrail_test_pch)
    endif()
    target_precompile_headers(${target} REUSE_FROM ${pch})
  endif()
endfunction()

function(twinrail_link_layers target scope)
  foreach(layer IN LISTS ARGN)
    if(NOT TARGET twinrail_${layer})
      message(FATAL_ERROR "${target} depends on the layer '${layer}', which src/ does not have (or has only later "
                          "in TWINRAIL_LAYERS)")
    endif()
    target_link_libraries(${target} ${scope} twinrail_${layer})
  endforeach()
endfunction()

# Registers a GoogleTest executable: its cases one by one in this tree, and the program as a whole for the
# sanitizer trees (tests/CMakeLists.txt).
function(twinrail_register_test target)
  set_property(GLOBAL APPEND PROPERTY TWINRAIL_UNIT_TESTS ${target})
  gtest_discover_tests(${target} TEST_PREFIX ${target}. NO_PRETTY_VALUES DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
                       PROPERTIES TIMEOUT 300 LABELS unit)
endfunction()

function(twinrail_gtest target)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS" ${ARGN})
  add_executable(${target} ${ARG_SOURCES})
  twinrail_common(${target} PRIVATE TEST)
  target_link_libraries(${target} PRIVATE ${ARG_LIBS} GTest::gmock GTest::gtest GTest::gtest_main)
  twinrail_register_test(${target})
endfunction()

# One libFuzzer program for each *_fuzz.cc given; a folder <stem>_seeds beside it is its first corpus.
function(twinrail_fuzzers)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS" ${ARGN})
  foreach(source IN LISTS ARG_SOURCES)
    get_filename_component(stem ${source} NAME_WE)
    set_property(GLOBAL APPEND PROPERTY TWINRAIL_FUZZ_TARGETS ${stem})
    get_filename_component(folder ${source} DIRECTORY)
    set_property(GLOBAL PROPERTY TWINRAIL_FUZZ_SEEDS_${stem} ${folder}/${stem}_seeds)
    if(TWINRAIL_BUILD_FUZZERS)
      add_executable(${stem} ${source})
      twinrail_common(${stem} PRIVATE)
      target_link_libraries(${stem} PRIVATE ${ARG_LIBS})
      target_link_options(${stem} PRIVATE -fsanitize=fuzzer)
      add_dependencies(fuzzers ${stem})
    endif()
  endforeach()
endfunction()

# Sorts the *.cc files below the current folder into <prefix>_{SOURCES,TEST,FUZZ,BENCH,TESTING}.
macro(twinrail_glob prefix)
  file(GLOB_RECURSE ${prefix}_SOURCES CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  foreach(kind TEST FUZZ BENCH)
    string(TOLOWER ${kind} suffix)
    set(${prefix}_${kind} ${${prefix}_SOURCES})
    list(FILTER ${prefix}_${kind} INCLUDE REGEX "_${suffix}\\.cc$")
    list(FILTER ${prefix}_SOURCES EXCLUDE REGEX "_${suffix}\\.cc$")
  endforeach()
  set(${prefix}_TESTING ${${prefix}_SOURCES})
  list(FILTER ${prefix}_TESTING INCLUDE REGEX "/testing/")
  list(FILTER ${prefix}_SOURCES EXCLUDE REGEX "/testing/")
endmacro()

# twinrail_layer(NAME [DEPENDS layer...] [LIBS library...] [TEST_DEPENDS layer...] [TEST_LIBS library...])
#
# Static library twinrail_NAME of all *.cc below the folder, and:
#   *_test.cc     together the GoogleTest program NAME_test
#   *_fuzz.cc     a libFuzzer program each (TWINRAIL_FUZZ)
#   *_bench.cc    together the Google Benchmark program NAME_bench (TWINRAIL_BENCH)
#   testing/*.cc  fakes: library twinrail_NAME_testing, linked into NAME_test and whoever names it in TEST_DEPENDS
function(twinrail_layer name)
  cmake_parse_arguments(ARG "" "" "DEPENDS;LIBS;TEST_DEPENDS;TEST_LIBS" ${ARGN})
  twinrail_glob(FOUND)
  set(library twinrail_${name})
  if(FOUND_SOURCES)
    add_library(${library} STATIC ${FOUND_SOURCES})
    twinrail_common(${library} PUBLIC)
    set(scope PUBLIC)
  else()
    add_library(${library} INTERFACE)
    target_include_directories(${library} INTERFACE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
    set(scope INTERFACE)
  endif()
  add_library(twinrail::${name} ALIAS ${library})
  twinrail_link_layers(${library} ${scope} ${ARG_DEPENDS})
  target_link_libraries(${library} ${scope} ${ARG_LIBS} Threads::Threads)
  set_property(GLOBAL APPEND PROPERTY TWINRAIL_BUILT_LAYERS ${name})

  set(fakes)
  if(FOUND_TESTING AND TWINRAIL_BUILD_TESTS)
    set(fakes twinrail_${name}_testing)
    add_library(${fakes} STATIC ${FOUND_TESTING})
    twinrail_common(${fakes} PUBLIC TEST)
    target_link_libraries(${fakes} PUBLIC ${library} GTest::gmock GTest::gtest)
  endif()
  if(FOUND_TEST AND TWINRAIL_BUILD_TESTS)
    twinrail_gtest(${name}_test SOURCES ${FOUND_TEST} LIBS ${fakes} ${library} ${ARG_TEST_LIBS})
    # Deferred to the end of the configure step, since a test may use a layer above its own (the simulator).
    cmake_language(DEFER DIRECTORY ${PROJECT_SOURCE_DIR} CALL twinrail_link_layers ${name}_test PRIVATE
                   ${ARG_TEST_DEPENDS})
  endif()
  twinrail_fuzzers(SOURCES ${FOUND_FUZZ} LIBS ${library})
  if(FOUND_BENCH AND TWINRAIL_BENCH)
    add_executable(${name}_bench ${FOUND_BENCH})
    twinrail_common(${name}_bench PRIVATE)
    target_link_libraries(${name}_bench PRIVATE ${library} benchmark::benchmark benchmark::benchmark_main)
  endif()
endfunction()

# twinrail_tool(NAME [SOURCES file...] [DEPENDS layer...] [LIBS library...])
#
# Program NAME in bin/. Without SOURCES: all *.cc below the folder; those without main.cc also form a library that
# the folder's *_test.cc (together NAME_tool_test) and *_fuzz.cc are linked with. Without DEPENDS: every layer.
function(twinrail_tool name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;LIBS" ${ARGN})
  set(layers twinrail_all)
  if(ARG_DEPENDS)
    list(TRANSFORM ARG_DEPENDS PREPEND twinrail_ OUTPUT_VARIABLE layers)
  endif()
  if(ARG_SOURCES)
    add_executable(${name} ${ARG_SOURCES})
    twinrail_common(${name} PRIVATE)
    target_link_libraries(${name} PRIVATE ${layers} ${ARG_LIBS})
    return()
  endif()

  twinrail_glob(FOUND)
  set(main ${CMAKE_CURRENT_SOURCE_DIR}/main.cc)
  if(NOT main IN_LIST FOUND_SOURCES)
    message(STATUS "${name}: no main.cc yet, not built")
    return()
  endif()
  list(REMOVE_ITEM FOUND_SOURCES ${main})
  set(parts ${layers} ${ARG_LIBS})
  if(FOUND_SOURCES)
    add_library(${name}_tool STATIC ${FOUND_SOURCES})
    twinrail_common(${name}_tool PUBLIC)
    target_include_directories(${name}_tool PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
    target_link_libraries(${name}_tool PUBLIC ${layers} ${ARG_LIBS})
    set(parts ${name}_tool)
  endif()
  add_executable(${name} ${main})
  twinrail_common(${name} PRIVATE)
  target_link_libraries(${name} PRIVATE ${parts})
  if(FOUND_TEST AND TWINRAIL_BUILD_TESTS)
    twinrail_gtest(${name}_tool_test SOURCES ${FOUND_TEST} LIBS ${parts})
  endif()
  twinrail_fuzzers(SOURCES ${FOUND_FUZZ} LIBS ${parts})
endfunction()

# twinrail_test(NAME SOURCES file... [DEPENDS layer...] [LIBS library...])
#
# GoogleTest program for what crosses layers (tests/). Without DEPENDS: every layer and the simulator.
function(twinrail_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;LIBS" ${ARGN})
  if(NOT TWINRAIL_BUILD_TESTS)
    return()
  endif()
  set(layers twinrail_all)
  if(ARG_DEPENDS)
    list(TRANSFORM ARG_DEPENDS PREPEND twinrail_ OUTPUT_VARIABLE layers)
  elseif(TARGET twinrail_sim)
    list(APPEND layers twinrail_sim)
  endif()
  twinrail_gtest(${name} SOURCES ${ARG_SOURCES} LIBS ${layers} ${ARG_LIBS})
endfunction()
