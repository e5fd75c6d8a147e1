#pragma once
// JSON answers as Python objects: dict, list, str, int, float, bool, None. Numbers keep every bit.

#include <nlohmann/json.hpp>
#include <pybind11/pybind11.h>

namespace foreplan::python {

[[nodiscard]] pybind11::object to_object(const nlohmann::ordered_json& json);

}  // namespace foreplan::python
