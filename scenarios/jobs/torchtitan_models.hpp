#pragma once
// Models that torchtitan ships, by the catalogue's names.

#include "models/model_spec.hpp"

#include <span>
#include <string_view>

namespace foreplan::scenarios {

/// One flavor (pytorch/torchtitan v0.2.2, torchtitan/models/*/__init__.py).
struct TorchtitanModel {
  std::string_view name, flavor;
  std::string_view catalogue;  ///< the same architecture in models/catalogue
  bool pipelines;              ///< whether it has a pipelining function
};

[[nodiscard]] std::span<const TorchtitanModel> torchtitan_models();

/// The flavor with this name; null where it is not in the catalogue.
[[nodiscard]] const TorchtitanModel* find_torchtitan_model(std::string_view name,
                                                           std::string_view flavor);
/// The flavor whose architecture the model has; null where torchtitan ships none.
[[nodiscard]] const TorchtitanModel* torchtitan_model_of(const models::ModelSpec& model);

}  // namespace foreplan::scenarios
