# Every external package but CUDA, in one place. A missing one names the Debian package that brings it.
include(Summary)

# find_package(name ...) that ends with the apt line when it finds nothing.
function(foreplan_require name package)
  find_package(${name} ${ARGN} QUIET)
  if(NOT ${name}_FOUND)
    message(FATAL_ERROR "${name} not found: apt-get install ${package} (or run scripts/setup.sh)")
  endif()
  set(version "${${name}_VERSION}")
  if(version STREQUAL "")
    set(version "found")
  endif()
  foreplan_component(${name} "${version}" "")
endfunction()

foreplan_require(Threads libc6-dev)
foreplan_require(SQLite3 libsqlite3-dev)
foreplan_require(nlohmann_json nlohmann-json3-dev)
foreplan_require(yaml-cpp libyaml-cpp-dev)
foreplan_require(tomlplusplus libtomlplusplus-dev)
foreplan_require(fmt libfmt-dev)
foreplan_require(CLI11 libcli11-dev)
foreplan_require(TBB libtbb-dev)
foreplan_require(tl-expected libexpected-dev)
foreplan_require(Eigen3 libeigen3-dev)

# Prints what the measuring program finds; the planner does without.
find_package(benchmark CONFIG QUIET)
if(benchmark_FOUND)
  foreplan_component(benchmark "${benchmark_VERSION}" "")
else()
  foreplan_component(benchmark "" "no foreplan-bench, planning is complete (apt-get install libbenchmark-dev)")
endif()

# The host as a machine to measure: kernels through oneDNN, collectives through MPI.
# Debian's dnnl-config.cmake stops where there are no OpenCL headers, which nothing here needs.
find_path(DNNL_INCLUDE_DIR oneapi/dnnl/dnnl.hpp)
find_library(DNNL_LIBRARY dnnl)
find_package(OpenMP QUIET COMPONENTS CXX)
mark_as_advanced(DNNL_INCLUDE_DIR DNNL_LIBRARY)
if(DNNL_INCLUDE_DIR AND DNNL_LIBRARY AND OpenMP_CXX_FOUND)
  add_library(foreplan::onednn UNKNOWN IMPORTED)
  set_target_properties(foreplan::onednn PROPERTIES
    IMPORTED_LOCATION "${DNNL_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${DNNL_INCLUDE_DIR}")
  file(STRINGS "${DNNL_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h" dnnl_version_lines
    REGEX "define DNNL_VERSION_(MAJOR|MINOR|PATCH) ")
  string(REGEX REPLACE "[^;]* ([0-9]+)" "\\1" dnnl_version "${dnnl_version_lines}")
  string(REPLACE ";" "." dnnl_version "${dnnl_version}")
  foreplan_component(oneDNN "${dnnl_version}" "")
else()
  foreplan_component(oneDNN "" "processors cannot be measured (apt-get install libdnnl-dev)")
endif()
find_package(MPI QUIET COMPONENTS CXX)
if(MPI_CXX_FOUND)
  foreplan_component(MPI "${MPI_CXX_VERSION}" "")
else()
  foreplan_component(MPI "" "no collectives between processors (apt-get install libopenmpi-dev openmpi-bin)")
endif()

if(BUILD_TESTING)
  foreplan_require(GTest "libgtest-dev libgmock-dev" CONFIG)
  foreplan_require(rapidcheck librapidcheck-dev CONFIG)
  # The system's interpreter, not one that a version manager put in front of it.
  set(Python_ROOT_DIR "/usr" CACHE PATH "Where the Python of the tests is looked for first")
  foreplan_require(Python python3 3.9 COMPONENTS Interpreter)
  if(FOREPLAN_BENCHMARKS AND NOT benchmark_FOUND)
    message(FATAL_ERROR "benchmark not found: apt-get install libbenchmark-dev (or run scripts/setup.sh)")
  endif()
endif()

set(foreplan_ccache_version "")
if(CCACHE_PROGRAM)
  set(foreplan_ccache_version "${CCACHE_PROGRAM}")
endif()
foreplan_component(ccache "${foreplan_ccache_version}" "a second build compiles everything again")
