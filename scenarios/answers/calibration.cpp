#include "scenarios/answers/calibration.hpp"

#include "core/document_tree.hpp"
#include "results/measurement_file.hpp"
#include "results/store.hpp"
#include "scenarios/device_file.hpp"
#include "scenarios/profiles.hpp"
#include "simulator/calibration/extrapolation.hpp"
#include "simulator/calibration/prior.hpp"

#include <fmt/format.h>

namespace foreplan::scenarios {

namespace cal = simulator::calibration;
using cal::CalibrationProfile;
using Json = nlohmann::ordered_json;

namespace {

Result<CalibrationInputs> read_inputs(const CalibrationQuestion& question) {
  CalibrationInputs inputs;
  auto device = find_device(question.device, Place{{}, 0, 0, "--device"});
  if (!device) return fail(std::move(device.error()));
  inputs.device = std::move(*device);
  auto catalogue = device_catalogue();
  if (!catalogue) return fail(std::move(catalogue.error()));
  inputs.catalogue = std::move(*catalogue);
  auto shipped = results::shipped_measurements();
  if (!shipped) return fail(std::move(shipped.error()));
  inputs.shipped = std::move(*shipped);
  if (!question.database) return inputs;
  const std::string& name = inputs.device.name;
  const std::string file = question.database->string();
  inputs.own = results::Store::open(file, results::AccessMode::read_only)
                   .measurements({.kind = {}, .device = name, .source = {}});
  if (inputs.own->size() == 0) {
    return fail(fmt::format("holds no measurements of {}; foreplan import --device {} --db {} "
                            "FILE stores some",
                            name, name, file),
                Place{file, 0, 0, "--db"});
  }
  return inputs;
}

/// A profile of the shipped measurements.
Result<CalibrationProfile> fit(const CalibrationQuestion& question, Calibration& fitted,
                               const FitProgress& progress) {
  const CalibrationInputs& in = *fitted.inputs;
  const bool judging = question.folds > 1, dissecting = judging && question.dissect;
  const int fits = (judging ? question.folds : 0) + (dissecting ? 1 : 0) + 1;
  int done = 0;
  if (progress) progress(done, fits);
  if (judging) {
    if (dissecting) fitted.ablation.emplace(in.device, in.catalogue, in.shipped);
    const cal::FoldVisitor visit = [&](const CalibrationProfile& fold,
                                       const cal::HoldOut& hold_out) {
      if (fitted.ablation) fitted.ablation->add_fold(fold, hold_out);
      if (progress) progress(++done, fits);
    };
    auto board = cal::cross_validate(in.device, in.catalogue, in.shipped, question.folds, visit);
    if (!board) return fail(std::move(board.error()));
    fitted.board = std::move(*board);
  }
  if (dissecting) {
    auto beyond = cal::extrapolate(in.device, in.catalogue, in.shipped);
    if (!beyond) return fail(std::move(beyond.error()));
    fitted.beyond = std::move(*beyond);
    if (progress) progress(++done, fits);
  }
  return cal::fit_profile(in.device, in.catalogue, in.shipped);
}

/// A profile of one's own machine.
Result<CalibrationProfile> adapt(const CalibrationQuestion& question, Calibration& fitted) {
  const CalibrationInputs& in = *fitted.inputs;
  DeviceSpec from = in.device;
  if (question.prior) {
    auto named = find_device(*question.prior, Place{{}, 0, 0, "--prior"});
    if (!named) return fail(std::move(named.error()));
    from = std::move(*named);
  }
  auto base = profile_for(from);
  if (!base) return fail(std::move(base.error()));
  if (from.name != in.device.name) base = cal::derive_profile(*base, in.device);
  const cal::OwnMachine machine{in.device, *base, in.catalogue, in.shipped, *in.own};
  auto adapted = cal::adapt_profile(machine);
  if (!adapted) return fail(std::move(adapted.error()));
  if (question.folds > 1) fitted.board = std::move(adapted->board);
  return std::move(adapted->profile);
}

/// The tables' runs together. Fails for a file that cannot be read or is no table of runs.
Result<RunTable> read_tables(const std::vector<std::string>& files) {
  RunTable all;
  for (const std::string& file : files) {
    auto text = read_text_file(file);
    if (!text) return fail(std::move(text.error()));
    auto table = read_runs(*text, file);
    if (!table) return fail(std::move(table.error()));
    all.file = file;
    std::move(table->runs.begin(), table->runs.end(), std::back_inserter(all.runs));
    std::move(table->skipped.begin(), table->skipped.end(), std::back_inserter(all.skipped));
  }
  return all;
}

/// Moves the profile by what whole runs say.
Result<ClusterFit> fit_runs(const CalibrationQuestion& question, CalibrationProfile& profile,
                            const FitProgress& progress) {
  auto table = read_tables(question.runs);
  if (!table) return fail(std::move(table.error()));
  auto fit =
      fit_cluster(table->runs, std::make_shared<const CalibrationProfile>(profile), progress);
  if (!fit) return fail(fit.error().front().message, Place{table->file, 0, 0, "--runs"});
  fit->skipped.insert(fit->skipped.end(), table->skipped.begin(), table->skipped.end());
  profile.cluster = fit->traits;
  if (fit->taken()) {
    profile.name += " own cluster";
    profile.notes.push_back(
        fmt::format("times are moved towards {} runs of one's own cluster", fit->runs));
  }
  return fit;
}

Json cluster_json(const ClusterFit& fit) {
  Json factors = Json::array();
  for (std::size_t k = 0; k < cal::kClusterTraits.size(); ++k) {
    factors.push_back({{"name", cal::kClusterTraits[k].name},
                       {"factor", fit.fitted.factors[k]},
                       {"log_sigma", fit.doubt[k]}});
  }
  return {{"runs", fit.runs},
          {"skipped", fit.skipped.size()},
          {"problems", fit.problems},
          {"factors", factors},
          {"left_out_before", fit.left_out_before},
          {"left_out_after", fit.left_out_after},
          {"taken", fit.taken()},
          {"mape", fit.after}};
}

Json scores(const std::vector<cal::GroupScore>& groups) {
  Json out = Json::array();
  for (const cal::GroupScore& score : groups) out.push_back(cal::score_json(score));
  return out;
}

}  // namespace

Result<Calibration> calibrate(const CalibrationQuestion& question, const FitProgress& progress) {
  auto inputs = read_inputs(question);
  if (!inputs) return fail(std::move(inputs.error()));
  Calibration fitted;
  fitted.folds = question.folds;
  fitted.inputs = std::make_unique<const CalibrationInputs>(std::move(*inputs));
  auto profile = fitted.inputs->own      ? adapt(question, fitted)
                 : question.runs.empty() ? fit(question, fitted, progress)
                                         : profile_for(fitted.inputs->device);
  if (!profile) return fail(std::move(profile.error()));
  fitted.profile = std::move(*profile);
  // A shipped profile brings its own scores.
  if (fitted.inputs->own || question.runs.empty()) fitted.profile.scores = fitted.board.groups();
  if (!question.runs.empty()) {
    auto cluster = fit_runs(question, fitted.profile, progress);
    if (!cluster) return fail(std::move(cluster.error()));
    fitted.cluster = std::move(*cluster);
  }
  return fitted;
}

Json describe(const Calibration& fitted) {
  const CalibrationProfile& p = fitted.profile;
  Json out{{"gemm_rows", p.gemm_rows},
           {"attention_rows", p.attention_rows},
           {"bandwidth_rows", p.bandwidth_rows},
           {"collective_rows", p.collective_rows},
           {"notes", p.notes},
           {"folds", fitted.folds},
           {"models", scores(fitted.board.models())},
           {"groups", scores(p.scores)}};
  if (fitted.cluster) out["cluster"] = cluster_json(*fitted.cluster);
  return out;
}

}  // namespace foreplan::scenarios
