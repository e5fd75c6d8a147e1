#pragma once
// The door between the program and its Python plug-in (python/embedding), a shared library that is
// loaded only when a scenario asks for hooks. Both sides are of one build.

#include "scenarios/hooks.hpp"

#include <memory>
#include <string_view>

namespace foreplan::scenarios {

/// What the plug-in exports under kHookPluginSymbol: a function that returns it.
struct HookPlugin {
  const char* build;  ///< "version commit", to be compared with the program's
  /// Starts the interpreter at the first call.
  Result<std::shared_ptr<PlanHooks>> (*open)(const HookFile& file, PlanNames names);
};

/// File name of the plug-in, which lies beside the program.
inline constexpr std::string_view kHookPluginFile = "foreplan-python.so";
inline constexpr const char* kHookPluginSymbol = "foreplan_python_plugin";

}  // namespace foreplan::scenarios
