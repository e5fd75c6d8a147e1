#pragma once
// Hooks in Python, through a plug-in that is loaded only when a scenario asks for it.

#include "scenarios/hooks.hpp"

#include <memory>

namespace foreplan::cli {

/// Opens a scenario's hook file: a HookOpener. Fails at the place of the request where the program
/// was built without Python.
[[nodiscard]] Result<std::shared_ptr<scenarios::PlanHooks>> open_hooks(
    const scenarios::HookFile& file, scenarios::PlanNames names);

}  // namespace foreplan::cli
