#pragma once
// Arguments of Megatron-LM: what each one means to a prediction.

#include "scenarios/jobs/argument_use.hpp"

#include <cstdint>
#include <span>
#include <string_view>

namespace foreplan::scenarios {

/// What an argument can change.
enum class ArgumentEffect : std::uint8_t { nothing, time, memory, both };

struct MegatronArgument {
  std::string_view name;  ///< without dashes
  ArgumentEffect effect;
  ArgumentUse use;
  std::string_view meaning;
};

/// All that are known, sorted by name (NVIDIA/Megatron-LM d98e8a6 (2026-08-22),
/// megatron/training/arguments.py).
[[nodiscard]] std::span<const MegatronArgument> megatron_arguments();

/// Null for a name that is not in the table.
[[nodiscard]] const MegatronArgument* find_megatron_argument(std::string_view name);

}  // namespace foreplan::scenarios
