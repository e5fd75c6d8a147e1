#include "scenarios/device_limits.hpp"

#include "scenarios/device_file.hpp"
#include "scenarios/lookup.hpp"

#include <fmt/format.h>

namespace foreplan::scenarios {
namespace {

/// Shorter than what find_device says: it may stand in a report once per row.
tl::unexpected<Errors> unknown_device(std::string_view name) {
  const auto names = device_names();
  if (!names) return fail(names.error());
  const auto near = nearest(name, {names->begin(), names->end()});
  return fail(fmt::format("unknown device {}{}; foreplan devices lists the known ones",
                          in_quotes(name),
                          near.empty() ? "" : fmt::format(", did you mean {}", in_quotes(near))));
}

}  // namespace

Result<results::DeviceLimits> limits_of(std::string_view name) {
  if (is_file_path(name)) {
    return fail(
        fmt::format("{} is not a device name; foreplan devices lists them", in_quotes(name)));
  }
  const auto device = find_device(name);
  if (!device) return unknown_device(name);
  results::DeviceLimits limits;
  limits.name = device->name;
  limits.short_name = canonical_name(name) != canonical_name(device->name);
  limits.memory_bandwidth = device->memory_bandwidth;
  limits.cache = device->l2_cache;
  limits.link = device->scale_up_link;
  limits.link_bandwidth = device->scale_up_bandwidth;
  for (const DTypeTraits& row : kDTypes)
    limits.peak[static_cast<std::size_t>(row.dtype)] = device->peak(row.dtype);
  return limits;
}

}  // namespace foreplan::scenarios
