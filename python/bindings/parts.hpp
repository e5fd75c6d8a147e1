#pragma once
// The parts of the module `foreplan._native`; each adds its functions.

#include <pybind11/pybind11.h>

namespace foreplan::python {

void add_catalogue(pybind11::module_& module);  ///< models, devices, clusters
void add_questions(pybind11::module_& module);  ///< options, recommend, simulate, score, ...
void add_sweeps(pybind11::module_& module);     ///< sweep and what is stored
void add_fits(pybind11::module_& module);       ///< calibrate, validate
void add_measured(pybind11::module_& module);   ///< measured rows and runs, import

}  // namespace foreplan::python
