#pragma once
// Profiles of machines without a table of their own: from another device's profile by the data
// sheet, and from there towards the rows that somebody measured.

#include "simulator/calibration/profile.hpp"

namespace foreplan::simulator::calibration {

/// `prior` answering for `device`: its models with this device's data sheet, every interval wider
/// by what the step costs (3 % for the same chip under another name, 10 % within a kernel family,
/// 20 % beyond), nothing better than extrapolated, and a note that says so.
[[nodiscard]] CalibrationProfile derive_profile(const CalibrationProfile& prior,
                                                const DeviceSpec& device);

/// The same for a device of which some models were measured (collectives, say, but no kernels):
/// those with `kFewestModelRows` rows or more are fitted. Fails as `fit_profile` does.
inline constexpr std::int64_t kFewestModelRows = 100;
[[nodiscard]] Result<CalibrationProfile> derive_profile(
    const CalibrationProfile& prior, const DeviceSpec& device,
    std::span<const DeviceSpec> catalogue, const results::MeasurementSet& measurements);

/// From so many own rows of a model on, a fit of its own is tried against the adjusted prior.
inline constexpr std::int64_t kOwnFitRows = 200;
/// The same where nothing of the machine's kind was shipped (processors, an unknown architecture).
inline constexpr std::int64_t kFewestForeignRows = 5;

/// The shipped profile of a device and rows of somebody's machine that carry the device's name.
struct OwnMachine {
  const DeviceSpec& device;
  const CalibrationProfile& base;  ///< of or derived for `device`, without the own rows
  std::span<const DeviceSpec> catalogue;
  const results::MeasurementSet& shipped;
  const results::MeasurementSet& own;
};

/// The profile of an own machine, and how good it is.
struct Adaptation {
  CalibrationProfile profile;
  /// The own rows, each scored by what the other four fifths of the shapes make of the base; where
  /// a fit that `kOwnFitRows` rows earn is taken, that fit's on the fifth that it had not seen.
  Scoreboard board;
};

/// Few rows move the base little (see adjustment.hpp). A model with `kOwnFitRows` rows or more is
/// also fitted to them alone, with the shipped rows of its device counting as a sister device's;
/// that fit replaces the adjusted base where it predicts the fifth of the shapes that neither had
/// seen better, in the median. So neither few rows nor many make a model worse than the base by
/// more than what that fifth cannot tell. Where the shipped rows know nothing of the machine's
/// kind, `kFewestForeignRows` rows alone are tried instead, over all fifths. `notes` say what
/// moved, by how much, and what was fitted anew. Fails as `fit_profile` does.
[[nodiscard]] Result<Adaptation> adapt_profile(const OwnMachine& machine);

}  // namespace foreplan::simulator::calibration
