#include "simulator/calibration/extrapolation.hpp"

namespace foreplan::simulator::calibration {

Result<Scoreboard> extrapolate(const DeviceSpec& device, std::span<const DeviceSpec> catalogue,
                               const results::MeasurementSet& measurements) {
  const HoldOut large{.fold = 0, .folds = 0, .beyond = true};
  FitScope scope;
  scope.models = {ModelKind::gemm, ModelKind::attention, ModelKind::collectives};
  auto profile = fit_profile(device, catalogue, measurements, large, scope);
  if (!profile) return fail(std::move(profile.error()));
  Scoreboard board;
  Samples::of(measurements, device.name).for_each([&](const auto& row) {
    if (large.holds(row))
      board.add(row.label, seconds_of(row.sample), profile->predict(row.sample));
  });
  return board;
}

}  // namespace foreplan::simulator::calibration
