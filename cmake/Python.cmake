# Python is optional: the package foreplan, and hooks in Python files. Where the headers and pybind11 are
# found this file defines foreplan::python_headers; elsewhere it says in the summary what is missing.
set(FOREPLAN_PYTHON AUTO CACHE STRING "AUTO: build the Python parts where they can be; ON: fail without them; OFF: leave them out")
set_property(CACHE FOREPLAN_PYTHON PROPERTY STRINGS AUTO ON OFF)

set(foreplan_python_obstacle "")
if(FOREPLAN_PYTHON STREQUAL "OFF")
  set(foreplan_python_obstacle "switched off")
else()
  # The system's interpreter, not one that a version manager put in front of it: its headers are those
  # of python3-dev. pip names its own interpreter, which then goes first.
  set(Python_ROOT_DIR "/usr" CACHE PATH "Where Python is looked for first")
  find_package(Python 3.10 QUIET COMPONENTS Interpreter Development.Module OPTIONAL_COMPONENTS Development.Embed)
  if(NOT Python_Development.Module_FOUND)
    set(foreplan_python_obstacle "no headers of Python 3.10 or newer: apt-get install python3-dev")
  else()
    set(PYBIND11_FINDPYTHON ON)
    find_package(pybind11 2.10 CONFIG QUIET)
    if(NOT pybind11_FOUND)
      set(foreplan_python_obstacle "no pybind11: apt-get install pybind11-dev")
    endif()
  endif()
endif()

if(NOT foreplan_python_obstacle STREQUAL "")
  if(FOREPLAN_PYTHON STREQUAL "ON")
    message(FATAL_ERROR "FOREPLAN_PYTHON=ON, but no Python parts: ${foreplan_python_obstacle}")
  endif()
  foreplan_component(pybind11 "" "no package foreplan, no hooks in scenarios (${foreplan_python_obstacle})")
  return()
endif()
add_library(foreplan_python_headers INTERFACE)
add_library(foreplan::python_headers ALIAS foreplan_python_headers)
foreplan_component(pybind11 "${pybind11_VERSION}, Python ${Python_VERSION}" "")
