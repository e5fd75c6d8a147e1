# CUDA is optional. Where a usable toolkit is found this file enables the language and defines the
# interface target foreplan::cuda; elsewhere it leaves the target undefined, says why in the summary,
# and the rest builds. Headers of cuBLASLt, NCCL and cuDNN become foreplan::cublaslt, foreplan::nccl
# and foreplan::cudnn where they are found, cuDNN's frontend and NVRTC, which it includes,
# foreplan::cudnn_frontend and foreplan::nvrtc. Other CMake files ask for these targets, never for CUDA.
include(CheckLanguage)
include(Summary)

set(FOREPLAN_CUDA AUTO CACHE STRING "AUTO: use CUDA where it is found; ON: fail without it; OFF: ignore it")
set_property(CACHE FOREPLAN_CUDA PROPERTY STRINGS AUTO ON OFF)

# CMake 3.25's own FindCUDAToolkit touches CUDA::nvToolsExt, which CUDA 13 no longer has, and stops,
# but only for projects that ask for 3.25 or newer. Some machines carry a repaired module and hide it.
if(CMAKE_MINIMUM_REQUIRED_VERSION VERSION_GREATER_EQUAL 3.25 AND CMAKE_VERSION VERSION_LESS 3.26)
  message(FATAL_ERROR "cmake_minimum_required must stay below 3.25: CMake ${CMAKE_VERSION} cannot "
                      "find CUDA 13 in a project that asks for 3.25 or newer")
endif()

# Where Python wheels put the parts of the toolkit: site-packages/nvidia of the usual environments.
set(foreplan_wheel_folders "")
foreach(prefix IN ITEMS "$ENV{VIRTUAL_ENV}" "$ENV{CONDA_PREFIX}" "${PROJECT_SOURCE_DIR}/.venv"
                        "$ENV{HOME}/.local" "/usr/local")
  if(NOT prefix STREQUAL "")
    file(GLOB found LIST_DIRECTORIES true "${prefix}/lib/python3*/*-packages/nvidia")
    list(APPEND foreplan_wheel_folders ${found})
  endif()
endforeach()
set(FOREPLAN_CUDA_WHEELS "${foreplan_wheel_folders}" CACHE STRING
    "Folders site-packages/nvidia, searched for a toolkit and its headers after everything else")

# The usual roots of a toolkit whose nvcc is not on PATH; check_language does not look there itself.
set(foreplan_cuda_roots "")
foreach(root IN ITEMS "$ENV{CUDA_HOME}" "$ENV{CUDA_PATH}" "/usr/local/cuda" "/opt/cuda")
  if(NOT root STREQUAL "")
    list(APPEND foreplan_cuda_roots "${root}")
  endif()
endforeach()
set(FOREPLAN_CUDA_ROOTS "${foreplan_cuda_roots}" CACHE STRING "Toolkits to look at where nvcc is not on PATH")

# The compiler to try: named by the user, on PATH, in a usual root, in a wheel. Empty if there is none.
function(foreplan_find_nvcc out)
  if(CMAKE_CUDA_COMPILER)
    set(${out} "${CMAKE_CUDA_COMPILER}" PARENT_SCOPE)
    return()
  elseif(NOT "$ENV{CUDACXX}" STREQUAL "")
    set(${out} "$ENV{CUDACXX}" PARENT_SCOPE)
    return()
  endif()
  set(wheel_roots "")
  foreach(folder IN LISTS FOREPLAN_CUDA_WHEELS)
    file(GLOB found LIST_DIRECTORIES true "${folder}/cu*" "${folder}/cuda_nvcc")
    list(APPEND wheel_roots ${found})
  endforeach()
  find_program(nvcc NAMES nvcc PATHS ${FOREPLAN_CUDA_ROOTS} ${wheel_roots} PATH_SUFFIXES bin
               NO_CACHE NO_CMAKE_SYSTEM_PATH)
  if(nvcc)
    set(${out} "${nvcc}" PARENT_SCOPE)
  else()
    set(${out} "" PARENT_SCOPE)
  endif()
endfunction()

# Release of a compiler as `major.minor`, empty if it does not run.
function(foreplan_nvcc_release nvcc out)
  set(${out} "" PARENT_SCOPE)
  execute_process(COMMAND "${nvcc}" --version OUTPUT_VARIABLE text ERROR_QUIET RESULT_VARIABLE status)
  if(status EQUAL 0 AND text MATCHES "release ([0-9]+\\.[0-9]+)")
    set(${out} "${CMAKE_MATCH_1}" PARENT_SCOPE)
  endif()
endfunction()

# Looks for `header` in the toolkit's folders given after TOOLKIT, then in the system's, then in the
# wheels, and defines foreplan::<part> where it is found. The version is read from the defines
# <prefix>_MAJOR, _MINOR and _PATCH of `version_header`.
function(foreplan_find_cuda_part part header version_header prefix consequence)
  cmake_parse_arguments(PARSE_ARGV 5 arg "" "" "TOOLKIT")
  set(wheel_includes "")
  foreach(folder IN LISTS FOREPLAN_CUDA_WHEELS)
    # cuDNN's frontend lies beside the folder.
    file(GLOB found LIST_DIRECTORIES true "${folder}/*/include" "${folder}/../include")
    list(APPEND wheel_includes ${found})
  endforeach()
  find_path(include_dir NAMES "${header}" HINTS ${arg_TOOLKIT} PATHS ${wheel_includes} NO_CACHE)
  if(NOT include_dir)
    foreplan_component(${part} "" "${consequence}")
    return()
  endif()
  string(REGEX REPLACE "/$" "" include_dir "${include_dir}")
  set(version "")
  if(NOT version_header STREQUAL "" AND EXISTS "${include_dir}/${version_header}")
    foreach(level IN ITEMS MAJOR MINOR PATCH)
      file(STRINGS "${include_dir}/${version_header}" line LIMIT_COUNT 1
           REGEX "^#define[ \t]+${prefix}_${level}[A-Z_]*[ \t]+[0-9]+")
      if(line MATCHES "([0-9]+)[^0-9]*$")
        list(APPEND version "${CMAKE_MATCH_1}")
      endif()
    endforeach()
    list(JOIN version "." version)
  endif()
  add_library(foreplan_${part} INTERFACE)
  add_library(foreplan::${part} ALIAS foreplan_${part})
  target_include_directories(foreplan_${part} SYSTEM INTERFACE "${include_dir}")
  foreplan_component(${part} "${version} (${include_dir})" "")
endfunction()

# Why there is no CUDA, in words; empty while nothing speaks against it.
set(foreplan_cuda_obstacle "")
if(FOREPLAN_CUDA STREQUAL "OFF")
  set(foreplan_cuda_obstacle "switched off")
else()
  foreplan_find_nvcc(foreplan_nvcc)
  if(foreplan_nvcc STREQUAL "")
    set(foreplan_cuda_obstacle "no nvcc on PATH or in ${FOREPLAN_CUDA_ROOTS}")
  else()
    foreplan_nvcc_release("${foreplan_nvcc}" foreplan_nvcc_release)
    if(foreplan_nvcc_release STREQUAL "")
      set(foreplan_cuda_obstacle "${foreplan_nvcc} does not run")
    elseif(foreplan_nvcc_release VERSION_LESS 12.0)
      set(foreplan_cuda_obstacle "${foreplan_nvcc} is ${foreplan_nvcc_release}, C++20 needs 12.0")
    endif()
  endif()
endif()

if(foreplan_cuda_obstacle STREQUAL "" AND NOT CMAKE_CUDA_COMPILER)
  # Without the cached NOTFOUND of an earlier try, so that a repaired toolkit is seen. The compiler
  # goes through the environment: with the variable set, check_language would not check it.
  unset(CMAKE_CUDA_COMPILER CACHE)
  set(ENV{CUDACXX} "${foreplan_nvcc}")
  check_language(CUDA)
  if(NOT CMAKE_CUDA_COMPILER)
    set(foreplan_cuda_obstacle "${foreplan_nvcc} cannot compile a test program")
  endif()
endif()

if(NOT foreplan_cuda_obstacle STREQUAL "")
  if(FOREPLAN_CUDA STREQUAL "ON")
    message(FATAL_ERROR "FOREPLAN_CUDA=ON, but no CUDA: ${foreplan_cuda_obstacle}")
  endif()
  foreplan_component(CUDA "" "no GPU measurements from this build, planning is complete (${foreplan_cuda_obstacle})")
  return()
endif()

# Machine code for A100, H100/H200 and B200, without PTX: no driver compiles anything inside a timing.
# The `a` of 90a brings wgmma; a plain compute_90 pass would reject it.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(foreplan_architectures 80-real 90a-real)
  if(foreplan_nvcc_release VERSION_GREATER_EQUAL 12.8)
    list(APPEND foreplan_architectures 100-real)
  endif()
  set(CMAKE_CUDA_ARCHITECTURES "${foreplan_architectures}" CACHE STRING "CUDA targets")
endif()

enable_language(CUDA)

# CMake 3.25 does not know C++20 in CUDA; newer versions define these themselves.
if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
  list(APPEND CMAKE_CUDA_COMPILE_FEATURES cuda_std_20)
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)

find_package(CUDAToolkit REQUIRED QUIET)
add_library(foreplan_cuda INTERFACE)
add_library(foreplan::cuda ALIAS foreplan_cuda)
target_link_libraries(foreplan_cuda INTERFACE CUDA::cudart_static ${CMAKE_DL_LIBS})
# CMake takes the toolkit's folder for an implicit one and adds no RUNPATH for it: programs would link
# and then not find its libraries, whether they link or dlopen them.
target_link_options(foreplan_cuda INTERFACE "LINKER:-rpath,${CUDAToolkit_LIBRARY_DIR}")
foreplan_component(CUDA "${CUDAToolkit_VERSION} (${CMAKE_CUDA_COMPILER}), targets ${CMAKE_CUDA_ARCHITECTURES}" "")

foreplan_find_cuda_part(cublaslt cublasLt.h cublas_api.h CUBLAS_VER "no cuBLASLt GEMM measurements"
                        TOOLKIT ${CUDAToolkit_INCLUDE_DIRS})
foreplan_find_cuda_part(nccl nccl.h nccl.h NCCL "no collective measurements over NCCL"
                        TOOLKIT ${CUDAToolkit_INCLUDE_DIRS})
foreplan_find_cuda_part(cudnn cudnn.h cudnn_version.h CUDNN "no cuDNN attention measurements"
                        TOOLKIT ${CUDAToolkit_INCLUDE_DIRS})
foreplan_find_cuda_part(cudnn_frontend cudnn_frontend.h cudnn_frontend_version.h CUDNN_FRONTEND
                        "no cuDNN attention measurements" TOOLKIT ${CUDAToolkit_INCLUDE_DIRS})
foreplan_find_cuda_part(nvrtc nvrtc.h "" "" "no cuDNN attention measurements"
                        TOOLKIT ${CUDAToolkit_INCLUDE_DIRS})
