#pragma once
// Hooks written in Python. Needs a running interpreter; whose it is does not matter.

#include "scenarios/hooks.hpp"

#include <memory>

namespace foreplan::python {

/// Runs the file and takes `objective`, `constraint`, `columns` and `on_plan` from it. Takes the
/// GIL. Fails with file and line where the file is no sound Python or has none of the four.
[[nodiscard]] Result<std::shared_ptr<scenarios::PlanHooks>> open_python_hooks(
    const scenarios::HookFile& file, scenarios::PlanNames names);

}  // namespace foreplan::python
