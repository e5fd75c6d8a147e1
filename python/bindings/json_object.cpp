#include "python/bindings/json_object.hpp"

#include <cmath>

namespace foreplan::python {

namespace py = pybind11;
using Json = nlohmann::ordered_json;

py::object to_object(const Json& json) {
  switch (json.type()) {
    case Json::value_t::null:
    case Json::value_t::discarded: return py::none();
    case Json::value_t::boolean: return py::bool_(json.get<bool>());
    case Json::value_t::number_integer: return py::int_(json.get<std::int64_t>());
    case Json::value_t::number_unsigned: return py::int_(json.get<std::uint64_t>());
    // JSON text has no infinity or NaN: both doors say null.
    case Json::value_t::number_float: {
      const double number = json.get<double>();
      return std::isfinite(number) ? py::object(py::float_(number)) : py::object(py::none());
    }
    case Json::value_t::string: return py::str(json.get_ref<const std::string&>());
    case Json::value_t::binary: return py::bytes();
    case Json::value_t::array: {
      py::list list(json.size());
      for (std::size_t i = 0; i < json.size(); ++i) list[i] = to_object(json[i]);
      return list;
    }
    case Json::value_t::object: {
      py::dict dict;
      for (const auto& [key, value] : json.items()) dict[py::str(key)] = to_object(value);
      return dict;
    }
  }
  return py::none();
}

}  // namespace foreplan::python
