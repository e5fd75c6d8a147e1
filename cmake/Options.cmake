# Compile options that every target of ours shares, as the interface target foreplan::options.
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
option(BUILD_TESTING "Build the tests" ON)
option(FOREPLAN_BENCHMARKS "Build the Google Benchmark targets (needs BUILD_TESTING)" ON)
option(FOREPLAN_FUZZ "Build the libFuzzer targets (needs clang)" OFF)
option(FOREPLAN_WERROR "Treat warnings as errors" OFF)

set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CCACHE_PROGRAM}")
endif()

add_library(foreplan_options INTERFACE)
add_library(foreplan::options ALIAS foreplan_options)
target_compile_features(foreplan_options INTERFACE cxx_std_20)
target_include_directories(foreplan_options INTERFACE "${PROJECT_SOURCE_DIR}")
# A switch over an enum has no default, so that a new enumerator names every place to think about:
# -Werror=switch holds in every build. No -ffast-math: fits and NaN checks rely on IEEE rules.
target_compile_options(foreplan_options INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wshadow;-Wconversion;-Wno-sign-conversion;-Werror=switch;-fno-math-errno>"
  "$<$<AND:$<BOOL:${FOREPLAN_WERROR}>,$<COMPILE_LANGUAGE:CXX>>:-Werror>")
