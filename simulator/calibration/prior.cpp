#include "simulator/calibration/prior.hpp"

#include "core/assert.hpp"
#include "core/power_limit.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

namespace foreplan::simulator::calibration {
namespace {

constexpr double kIntervalSigmas = 2 * 1.645;  // from the 5 % to the 95 % quantile of a Gaussian
constexpr double kSameChip = 0.03, kSameFamily = 0.10, kOtherFamily = 0.20;
constexpr int kFolds = kAdjustmentFolds;

double ratio(double from, double to) { return from > 0 && to > 0 ? from / to : 1.0; }

double peak_of(const DeviceSpec& d) {
  return d.peak(DType::fp16).value_or(FlopsPerSecond{0}).value;
}

/// How much slower compute-bound kernels run on a part with less power per FLOP of its data sheet
/// than the measured part of the same family, which its own limit holds at the full clock's edge.
/// Gives 1.16 for a 500 W H100 and 1.13 for a PCIe A100.
double power_factor(const DeviceSpec& from, const DeviceSpec& to) {
  if (kernel_family(from) != kernel_family(to) || from.power_w <= 0 || to.power_w <= 0) return 1;
  const double idle = kStaticPowerShare * from.power_w;
  const double wanted = (from.power_w - idle) * ratio(peak_of(to), peak_of(from));
  return throttle(wanted, std::max(to.power_w - idle, idle));
}

double step_sigma(const DeviceSpec& from, const DeviceSpec& to) {
  const double different = unlikeness(from, to);
  if (different < 0.02 && from.sm_count == to.sm_count) return kSameChip;
  return kernel_family(from) == kernel_family(to) ? kSameFamily : kOtherFamily;
}

AdjustmentGroup group_of(const GemmSample& s) {
  return calibration::group_of(
      GemmQuery{s.shape, s.dtype, s.scaling, s.pass, s.grouped, {}, false});
}
AdjustmentGroup group_of(const AttentionSample& s) { return calibration::group_of(s.call); }
AdjustmentGroup group_of(const BandwidthSample& s) { return calibration::group_of(s.call); }
AdjustmentGroup group_of(const CollectiveSample& s) {
  return calibration::group_of(s.op, s.ngpus > s.ranks_per_node);
}

/// The own rows against the base; those of fold `without` are left out (-1 = none).
std::vector<Adjustments::Row> errors_of(const Samples& own, const CalibrationProfile& base,
                                        int without) {
  std::vector<Adjustments::Row> rows;
  own.for_each([&](const auto& row) {
    const int fold = fold_of(row.label.key, kFolds);
    const Prediction p = base.predict(row.sample);
    if (fold == without || !(p.time_s > 0)) return;
    const SampleLabel& l = row.label;
    rows.push_back({l.model,
                    group_of(row.sample),
                    l.library,
                    fmt::format("{} {} {} {}", l.operation, l.dtype, l.pass, l.library),
                    {std::log2(std::max(l.size, 1.0)), std::log(seconds_of(row.sample) / p.time_s),
                     std::max(0.005, (p.log_high - p.log_low) / kIntervalSigmas), fold}});
  });
  return rows;
}

/// Own rows, and the shipped ones with this device's under another name, so that they support the
/// own fit as a sister's do.
struct Merged {
  results::MeasurementSet rows;
  std::vector<DeviceSpec> catalogue;
};
Merged with_shipped_as_sister(const OwnMachine& machine) {
  Merged merged{machine.shipped, {machine.catalogue.begin(), machine.catalogue.end()}};
  DeviceSpec sister = machine.device;
  sister.name += " as shipped";
  for (auto& origin : merged.rows.origins) {
    if (origin.device == machine.device.name) origin.device = sister.name;
  }
  merged.catalogue.push_back(std::move(sister));
  merged.rows.append(machine.own);
  return merged;
}

/// |log error| of the own rows of a model that a fold holds, added to `errors`.
void add_held_out_errors(const Samples& own, const CalibrationProfile& profile, ModelKind model,
                         int fold, std::vector<double>& errors) {
  own.for_each([&](const auto& row) {
    if (row.label.model != model || fold_of(row.label.key, kFolds) != fold) return;
    const double time = profile.predict(row.sample).time_s;
    errors.push_back(time > 0 ? std::abs(std::log(seconds_of(row.sample) / time)) : 10.0);
  });
}

double median(std::vector<double> errors) {
  FOREPLAN_ASSERT(!errors.empty(), "a model without held-out rows cannot be judged");
  const auto middle = errors.begin() + std::ssize(errors) / 2;
  std::nth_element(errors.begin(), middle, errors.end());
  return *middle;
}

/// The base adjusted to the rows outside each fold.
using FoldProfiles = std::array<CalibrationProfile, kFolds>;
FoldProfiles adjusted_without_folds(const Samples& own, const CalibrationProfile& base) {
  FoldProfiles adjusted;
  for (int fold = 0; fold < kFolds; ++fold) {
    auto& profile = adjusted[static_cast<std::size_t>(fold)];
    profile = base;
    profile.adjustments = Adjustments::fit(errors_of(own, base, fold));
  }
  return adjusted;
}

void take_model(CalibrationProfile& into, CalibrationProfile&& from, ModelKind model) {
  switch (model) {
    case ModelKind::gemm: into.gemm = std::move(from.gemm); break;
    case ModelKind::attention: into.attention = std::move(from.attention); break;
    case ModelKind::bandwidth: into.bandwidth = std::move(from.bandwidth); break;
    case ModelKind::collectives: into.collectives = std::move(from.collectives); break;
  }
  into.derived.own[static_cast<std::size_t>(model)] = true;
  into.adjustments.drop(model);
}

std::int64_t rows_of(const Samples& own, ModelKind model) {
  std::int64_t rows = 0;
  own.for_each([&](const auto& row) { rows += row.label.model == model ? 1 : 0; });
  return rows;
}

std::int64_t held_out_rows(const Samples& own, ModelKind model) {
  std::int64_t rows = 0;
  own.for_each([&](const auto& row) {
    rows += row.label.model == model && fold_of(row.label.key, kFolds) == 0 ? 1 : 0;
  });
  return rows;
}

/// Whether the shipped rows of a model come from other kinds of machines only: other kernels, or,
/// for collectives, other links.
bool is_foreign(const OwnMachine& machine, const Samples& shipped, ModelKind model) {
  bool any = false;
  const auto link = [](const DeviceSpec& d) { return d.scale_up_link.substr(0, 7); };
  shipped.for_each([&](const auto& row) {
    if (any || row.label.model != model) return;
    const auto spec = std::find_if(machine.catalogue.begin(), machine.catalogue.end(),
                                   [&](const auto& d) { return d.name == row.label.device; });
    if (spec == machine.catalogue.end()) return;
    any = model == ModelKind::collectives ? link(*spec) == link(machine.device)
                                          : kernel_family(*spec) == kernel_family(machine.device);
  });
  return !any;
}

/// Own and adjusted errors on rows left out, fold by fold.
struct Contest {
  double own = 0, adjusted = 0;
  /// At a tie the own rows' fit is taken: it also repeats the shapes that were measured.
  [[nodiscard]] bool own_wins() const { return own < kTie * adjusted; }
  static constexpr double kTie = 1.1;
};

std::string told(ModelKind model, std::int64_t rows, const Contest& contest) {
  return fmt::format(
      "{}: on new shapes a fit to {} rows of its own errs by {:.1f} %, the adjusted prior by "
      "{:.1f} "
      "%; the {} is taken",
      name(model), rows, 100 * contest.own, 100 * contest.adjusted,
      contest.own_wins() ? "former" : "latter");
}

/// One model of a foreign machine: what its own rows alone say without each fold, and how that does
/// against the adjusted base.
struct ForeignModel {
  FoldProfiles without;
  Contest contest;
};

/// All models of a foreign machine with rows enough. Few suffice: there is nothing of its kind to
/// lean on.
Result<std::map<ModelKind, ForeignModel>> foreign_models(const OwnMachine& machine,
                                                         const Samples& own,
                                                         const FoldProfiles& adjusted) {
  std::map<ModelKind, ForeignModel> models;
  const Samples shipped = Samples::of(machine.shipped, "");
  for (const ModelKind model : kModelKinds) {
    if (rows_of(own, model) < kFewestForeignRows || !is_foreign(machine, shipped, model)) continue;
    ForeignModel& fits = models[model];
    std::vector<double> alone, moved;
    for (int fold = 0; fold < kFolds; ++fold) {
      const auto at = static_cast<std::size_t>(fold);
      auto fitted = fit_profile(machine.device, machine.catalogue, machine.own, {fold, kFolds},
                                FitScope{.models = {model}});
      if (!fitted) return fail(std::move(fitted.error()));
      fits.without[at] = std::move(*fitted);
      add_held_out_errors(own, fits.without[at], model, fold, alone);
      add_held_out_errors(own, adjusted[at], model, fold, moved);
    }
    fits.contest = {median(std::move(alone)), median(std::move(moved))};
  }
  return models;
}

/// Tries a fit of the own rows of one model against the adjusted base, and takes the better one;
/// `without_first`, which has not seen the first fold, then takes it too. Says whether it was
/// taken.
Result<bool> try_own_fit(const OwnMachine& machine, const Samples& own, const Merged& merged,
                         CalibrationProfile& without_first, ModelKind model,
                         CalibrationProfile& profile) {
  FitScope scope;
  scope.models = {model};
  auto candidate =
      fit_profile(machine.device, merged.catalogue, merged.rows, HoldOut{0, kFolds}, scope);
  if (!candidate) return fail(std::move(candidate.error()));
  std::vector<double> alone, moved;
  add_held_out_errors(own, *candidate, model, 0, alone);
  add_held_out_errors(own, without_first, model, 0, moved);
  const Contest contest{median(std::move(alone)), median(std::move(moved))};
  profile.notes.push_back(told(model, rows_of(own, model), contest));
  if (!contest.own_wins()) return false;
  auto fitted = fit_profile(machine.device, merged.catalogue, merged.rows, {}, scope);
  if (!fitted) return fail(std::move(fitted.error()));
  take_model(profile, std::move(*fitted), model);
  take_model(without_first, std::move(*candidate), model);
  return true;
}

/// "GEMM: 5 rows of its own move H100-SXM5-80GB by +9.1 % in time"
void note_moves(const OwnMachine& machine, CalibrationProfile& profile) {
  const std::string& prior =
      machine.base.derived.from.empty() ? machine.base.device.name : machine.base.derived.from;
  for (const Adjustment& a : profile.adjustments.all()) {
    if (a.group != 0) continue;
    profile.notes.push_back(fmt::format(
        "{}: {} rows of its own move the profile of {} by {:+.1f} % (+- {:.1f}) in time, {:+.2f} % "
        "per doubling of the size",
        a.label, a.line.rows, prior, 100 * std::expm1(a.line.offset), 164.5 * a.line.doubt,
        100 * std::expm1(a.line.slope)));
  }
}

}  // namespace

CalibrationProfile derive_profile(const CalibrationProfile& prior, const DeviceSpec& device) {
  CalibrationProfile out = prior;
  const DeviceSpec& from = prior.device;
  out.name = fmt::format("calibrated:{} derived from {}", device.name, from.name);
  out.device = device;
  out.scores.clear();
  out.gemm_rows = out.attention_rows = out.bandwidth_rows = out.collective_rows = 0;
  auto gemm = GemmModel::from_json(device, prior.gemm.to_json());
  FOREPLAN_ASSERT(gemm, "a GEMM model reads back what it wrote");
  out.gemm = std::move(*gemm);
  out.derived.from = from.name;
  out.derived.log_sigma = step_sigma(from, device);
  out.derived.power = power_factor(from, device);
  out.derived.models_know =
      prior.attention.source(device.name, {}, AttentionPhase::train, false).device != nullptr;
  if (!out.derived.models_know) {
    out.derived.compute = ratio(peak_of(from), peak_of(device));
    out.derived.memory = ratio(from.memory_bandwidth.value, device.memory_bandwidth.value);
    out.derived.link = ratio(from.scale_up_bandwidth.value, device.scale_up_bandwidth.value);
  }
  out.notes = {
      fmt::format("{} has no table of its own: derived from {} by the data sheet, "
                  "intervals widened for it",
                  device.name, from.name)};
  return out;
}

Result<CalibrationProfile> derive_profile(const CalibrationProfile& prior, const DeviceSpec& device,
                                          std::span<const DeviceSpec> catalogue,
                                          const results::MeasurementSet& measurements) {
  CalibrationProfile out = derive_profile(prior, device);
  const Samples own = Samples::of(measurements, device.name);
  std::int64_t CalibrationProfile::*const counts[] = {
      &CalibrationProfile::gemm_rows, &CalibrationProfile::attention_rows,
      &CalibrationProfile::bandwidth_rows, &CalibrationProfile::collective_rows};
  for (const ModelKind model : kModelKinds) {
    const std::int64_t rows = rows_of(own, model);
    if (rows < kFewestModelRows) continue;
    FitScope scope;
    scope.models = {model};
    auto fitted = fit_profile(device, catalogue, measurements, {}, scope);
    if (!fitted) return fail(std::move(fitted.error()));
    take_model(out, std::move(*fitted), model);
    out.*counts[static_cast<std::size_t>(model)] = rows;
    out.notes.push_back(fmt::format("{}: {} rows of its own", name(model), rows));
  }
  return out;
}

namespace {

/// The base moved towards all own rows.
CalibrationProfile moved_profile(const OwnMachine& machine, const Samples& own) {
  CalibrationProfile profile = machine.base;
  profile.name = fmt::format("calibrated:{} own rows", machine.device.name);
  profile.scores.clear();
  profile.adjustments = Adjustments::fit(errors_of(own, machine.base, -1));
  profile.gemm_rows = std::ssize(own.gemm);
  profile.attention_rows = std::ssize(own.attention);
  profile.bandwidth_rows = std::ssize(own.bandwidth);
  profile.collective_rows = std::ssize(own.collectives);
  note_moves(machine, profile);
  return profile;
}

/// Scores the rows of each fold by what the other folds made; of models in `first_alone`, of which
/// one fold was left out alone, the rows of that.
Scoreboard judged(const Samples& own, const FoldProfiles& folds,
                  const std::set<ModelKind>& first_alone) {
  Scoreboard board;
  for (int fold = 0; fold < kFolds; ++fold) {
    own.for_each([&](const auto& row) {
      if (fold_of(row.label.key, kFolds) != fold) return;
      if (fold > 0 && first_alone.contains(row.label.model)) return;
      const Prediction p = folds[static_cast<std::size_t>(fold)].predict(row.sample);
      if (p.time_s > 0) board.add(row.label, seconds_of(row.sample), p);
    });
  }
  return board;
}

}  // namespace

Result<Adaptation> adapt_profile(const OwnMachine& machine) {
  const Samples own = Samples::of(machine.own, machine.device.name);
  FoldProfiles folds = adjusted_without_folds(own, machine.base);
  Adaptation out{moved_profile(machine, own), {}};
  CalibrationProfile& profile = out.profile;
  auto foreign = foreign_models(machine, own, folds);
  if (!foreign) return fail(std::move(foreign.error()));
  std::optional<Merged> merged;
  std::set<ModelKind> first_alone;
  for (const ModelKind model : kModelKinds) {
    if (const auto known = foreign->find(model); known != foreign->end()) {
      const Contest& contest = known->second.contest;
      profile.notes.push_back(told(model, rows_of(own, model), contest));
      if (!contest.own_wins()) continue;
      auto fitted = fit_profile(machine.device, machine.catalogue, machine.own, {},
                                FitScope{.models = {model}});
      if (!fitted) return fail(std::move(fitted.error()));
      take_model(profile, std::move(*fitted), model);
      for (std::size_t fold = 0; fold < folds.size(); ++fold)
        take_model(folds[fold], std::move(known->second.without[fold]), model);
      continue;
    }
    if (rows_of(own, model) < kOwnFitRows || held_out_rows(own, model) == 0) continue;
    if (!merged) merged = with_shipped_as_sister(machine);
    auto taken = try_own_fit(machine, own, *merged, folds[0], model, profile);
    if (!taken) return fail(std::move(taken.error()));
    if (*taken) first_alone.insert(model);
  }
  out.board = judged(own, folds, first_alone);
  return out;
}

}  // namespace foreplan::simulator::calibration
