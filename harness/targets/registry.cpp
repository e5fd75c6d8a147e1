// Every kind of machine. A new one is a folder here and a line below.

#include "harness/targets/cuda/cuda_kind.hpp"
#include "harness/targets/host/host_kind.hpp"
#include "harness/targets/synthetic/synthetic_target.hpp"
#include "harness/targets/target_kind.hpp"

#include <fmt/format.h>

namespace foreplan::harness {

std::span<const TargetKind> target_kinds() {
  static const TargetKind kKinds[] = {
      cuda_kind(),
      host_kind(),
      synthetic_kind(),
  };
  return kKinds;
}

Result<ChosenTarget> choose_target(std::string_view text) {
  const Place place{{}, 0, 0, "--target"};
  ChosenTarget chosen;
  const std::string_view name = text.substr(0, text.find(':'));
  std::string_view rest = name.size() < text.size() ? text.substr(name.size() + 1) : "";
  while (!rest.empty()) {
    const std::string_view one = rest.substr(0, rest.find(','));
    const auto equals = one.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      return fail(fmt::format("{} is not of the form name=value", in_quotes(one)), place);
    }
    chosen.settings.emplace(one.substr(0, equals), one.substr(equals + 1));
    rest.remove_prefix(std::min(one.size() + 1, rest.size()));
  }
  std::vector<std::string_view> names = {"auto"};
  for (const TargetKind& kind : target_kinds()) {
    names.push_back(kind.name);
    const bool fits = name == kind.name || (name == "auto" && kind.automatic && kind.look().usable);
    if (fits && chosen.kind == nullptr) chosen.kind = &kind;
  }
  if (chosen.kind == nullptr && name != "auto") {
    const auto near = nearest(name, names);
    return fail(
        fmt::format("unknown target {}{}; targets: {}", in_quotes(name),
                    near.empty() ? "" : fmt::format(", did you mean \"{}\"", near), join(names)),
        place);
  }
  return chosen;
}

}  // namespace foreplan::harness
