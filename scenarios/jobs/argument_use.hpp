#pragma once
// What an importer does with an argument or key of a framework.

#include <cstdint>

namespace foreplan::scenarios {

enum class ArgumentUse : std::uint8_t {
  read,     ///< its value is part of the prediction
  neutral,  ///< it changes neither time nor memory
  ignored,  ///< it changes something that is not modelled: told
  refused,  ///< with it the job is another one than can be modelled
};

}  // namespace foreplan::scenarios
