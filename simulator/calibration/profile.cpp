#include "simulator/calibration/profile.hpp"

#include <fmt/format.h>
#include <tbb/parallel_invoke.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

namespace foreplan::simulator::calibration {
namespace {

// A device with fewer own GEMM rows leans on a relative's parameters as its prior.
constexpr std::size_t kFewGemmRows = 400;

AttentionDevice attention_device(const DeviceSpec& d) {
  const double bf16 =
      d.peak(DType::bf16).value_or(d.peak(DType::fp16).value_or(FlopsPerSecond{1e12})).value;
  return {d.name,
          kernel_family(d),
          std::max(1.0, static_cast<double>(d.sm_count)),
          bf16,
          d.peak(DType::fp8_e4m3).value_or(FlopsPerSecond{bf16}).value,
          d.memory_bandwidth.value,
          std::max(d.l2_cache.value, 4 * kMiB),
          d.peak(DType::tf32).value_or(d.peak(DType::fp32).value_or(FlopsPerSecond{bf16})).value};
}

BandwidthDevice bandwidth_device(const DeviceSpec& d) {
  return {d.name, std::max(1.0, static_cast<double>(d.sm_count)), d.memory_bandwidth.value,
          std::max(d.l2_cache.value, 4 * kMiB)};
}

const DeviceSpec* spec_named(std::span<const DeviceSpec> catalogue, std::string_view name) {
  const auto found = std::find_if(catalogue.begin(), catalogue.end(),
                                  [&](const auto& d) { return d.name == name; });
  return found == catalogue.end() ? nullptr : &*found;
}

/// The measured device most like `device`, itself excluded; the wanted one if it was measured.
template <class Sample, class Name>
const DeviceSpec* nearest_measured(const DeviceSpec& device, std::span<const DeviceSpec> catalogue,
                                   const std::vector<Labelled<Sample>>& rows, Name name,
                                   const DeviceSpec* wanted) {
  std::map<std::string, int> counts;
  for (const auto& row : rows) ++counts[name(row)];
  constexpr int kEnough = 100;
  if (wanted != nullptr && counts.contains(wanted->name)) return wanted;
  const DeviceSpec* best = nullptr;
  for (const auto& [other, count] : counts) {
    const DeviceSpec* spec = spec_named(catalogue, other);
    if (spec == nullptr || other == device.name || count < kEnough) continue;
    if (best == nullptr || unlikeness(device, *spec) < unlikeness(device, *best)) best = spec;
  }
  return best;
}

template <class Sample>
std::string device_of(const Labelled<Sample>& row) {
  return row.label.device;
}

/// Rows of the wanted devices that are not held out.
template <class Sample>
std::vector<Sample> chosen(const std::vector<Labelled<Sample>>& rows,
                           const std::set<std::string>& devices, const HoldOut& hold_out) {
  std::vector<Sample> out;
  for (const auto& row : rows) {
    if (devices.contains(row.label.device) && !hold_out.holds(row)) out.push_back(row.sample);
  }
  return out;
}

std::set<std::string> family_of(const DeviceSpec& device, std::span<const DeviceSpec> catalogue) {
  std::set<std::string> names = {device.name};
  for (const DeviceSpec& other : catalogue) {
    if (kernel_family(other) == kernel_family(device)) names.insert(other.name);
  }
  return names;
}

template <class Sample>
std::int64_t count_of(const std::vector<Labelled<Sample>>& rows, std::string_view device) {
  return std::count_if(rows.begin(), rows.end(),
                       [&](const auto& row) { return row.label.device == device; });
}

void fit_gemm(CalibrationProfile& profile, std::span<const DeviceSpec> catalogue,
              const results::MeasurementSet& measurements, const HoldOut& hold_out,
              const FitScope& scope) {
  const auto all = gemm_samples(measurements, "");
  const auto own = chosen(all, {profile.device.name}, hold_out);
  profile.gemm_rows = count_of(all, profile.device.name);
  GemmModel donor;
  const GemmModel* prior = nullptr;
  if (own.size() < kFewGemmRows) {
    const DeviceSpec* relative =
        nearest_measured(profile.device, catalogue, all, device_of<GemmSample>, scope.relative);
    if (relative != nullptr) {
      donor = GemmModel::fit(*relative, chosen(all, {relative->name}, hold_out));
      prior = &donor;
      profile.notes.push_back(
          fmt::format("GEMM: {} rows of its own; {}, scaled by the data sheet, stands in",
                      own.size(), relative->name));
    }
  }
  std::vector<GemmKin> kin;
  for (const std::string& name : family_of(profile.device, catalogue)) {
    const DeviceSpec* spec = spec_named(catalogue, name);
    if (name == profile.device.name || spec == nullptr) continue;
    auto samples = chosen(all, {name}, hold_out);
    if (samples.size() >= kFewGemmRows / 2) kin.push_back({*spec, std::move(samples)});
  }
  profile.gemm = GemmModel::fit(profile.device, own, prior, kin);
}

/// Rows of the device's family; where it has none, of the nearest measured family.
template <class Sample>
std::set<std::string> supporting(CalibrationProfile& profile, std::string_view what,
                                 std::span<const DeviceSpec> catalogue,
                                 const std::vector<Labelled<Sample>>& rows, const FitScope& scope) {
  std::set<std::string> devices = family_of(profile.device, catalogue);
  const bool any = std::any_of(rows.begin(), rows.end(),
                               [&](const auto& r) { return devices.contains(r.label.device); });
  if (any) return devices;
  const DeviceSpec* relative =
      nearest_measured(profile.device, catalogue, rows, device_of<Sample>, scope.relative);
  if (relative == nullptr) return devices;
  profile.notes.push_back(
      fmt::format("{}: nothing of its architecture; {} stands in", what, relative->name));
  return family_of(*relative, catalogue);
}

void fit_attention(CalibrationProfile& profile, std::span<const DeviceSpec> catalogue,
                   const results::MeasurementSet& measurements, const HoldOut& hold_out,
                   const FitScope& scope) {
  const auto all = attention_samples(measurements);
  profile.attention_rows = count_of(all, profile.device.name);
  std::vector<AttentionDevice> devices = {attention_device(profile.device)};
  for (const DeviceSpec& d : catalogue) {
    if (d.name != profile.device.name) devices.push_back(attention_device(d));
  }
  profile.attention = AttentionModel::fit(
      chosen(all, supporting(profile, "attention", catalogue, all, scope), hold_out), devices, {});
}

void fit_bandwidth(CalibrationProfile& profile, std::span<const DeviceSpec> catalogue,
                   const results::MeasurementSet& measurements, const HoldOut& hold_out,
                   const FitScope& scope) {
  const auto all = bandwidth_samples(measurements);
  profile.bandwidth_rows = count_of(all, profile.device.name);
  std::vector<BandwidthDevice> devices = {bandwidth_device(profile.device)};
  for (const DeviceSpec& d : catalogue) {
    if (d.name != profile.device.name) devices.push_back(bandwidth_device(d));
  }
  BandwidthModel::Options options;
  options.residual = scope.bandwidth_residual;
  profile.bandwidth = BandwidthModel::fit(
      chosen(all, supporting(profile, "bandwidth", catalogue, all, scope), hold_out), devices,
      options);
}

/// Share of one GPU of the fabrics in the public tables, from the NICs that their sources state, or
/// their makers: eight of 200 Gbit/s in a DGX A100, one of 400 for each GPU of CoreWeave's GB200
/// racks and of nodes with eight MI300X or MI325X.
std::vector<FabricRate> known_fabrics() {
  return {{"Slingshot-11", BytesPerSecond{12.5e9}},
          {"EFA v1 4x100Gb/s per node", BytesPerSecond{6.25e9}},
          {"EFA v2 32x100Gb/s per node", BytesPerSecond{50e9}},
          {"EFA v3 16x200Gb/s per node", BytesPerSecond{50e9}},
          {"EFA v4 8x400Gb/s per node", BytesPerSecond{50e9}},
          {"GCP a3-mega TCPXO 8x200Gb/s", BytesPerSecond{25e9}},
          {"NDR400 IB (inferred ~49 GB/s per GPU)", BytesPerSecond{50e9}},
          {"NDR400 IB with SHARP", BytesPerSecond{50e9}},
          {"Pollara 400 (8x400Gb/s)", BytesPerSecond{50e9}},
          {"unknown (~13 GB/s per GPU seen)", BytesPerSecond{13e9}},
          {"unknown (Sophia DGX)", BytesPerSecond{25e9}},
          {"IB between racks (rate not stated)", BytesPerSecond{50e9}},
          {"mlx5 8 NICs (rate not stated)", BytesPerSecond{50e9}},
          {"bnxt RoCE 8 NICs (rate not stated)", BytesPerSecond{50e9}}};
}

Result<void> fit_collectives(CalibrationProfile& profile, std::span<const DeviceSpec> catalogue,
                             const results::MeasurementSet& measurements, const HoldOut& hold_out) {
  const auto all = collective_samples(measurements);
  profile.collective_rows = count_of(all, profile.device.name);
  // Links matter, not architectures: devices on the same link lend their curves, and every fabric
  // is wanted.
  std::vector<CollectiveSample> samples;
  for (const auto& row : all) {
    const DeviceSpec* other = spec_named(catalogue, row.label.device);
    const bool same_link = other != nullptr && other->scale_up_link.substr(0, 7) ==
                                                   profile.device.scale_up_link.substr(0, 7);
    const bool wanted =
        row.label.device == profile.device.name || same_link || row.sample.nodes > 1;
    if (wanted && !hold_out.holds(row)) samples.push_back(row.sample);
  }
  std::vector<LinkRates> links = {{profile.device.name, profile.device.scale_up_link,
                                   profile.device.scale_up_bandwidth,
                                   profile.device.nic_bandwidth}};
  for (const DeviceSpec& d : catalogue) {
    if (d.name != profile.device.name)
      links.push_back({d.name, d.scale_up_link, d.scale_up_bandwidth, d.nic_bandwidth});
  }
  auto model = CollectiveModel::fit(samples, std::move(links), known_fabrics());
  if (!model) return fail(std::move(model.error()));
  profile.collectives = std::move(*model);
  if (profile.collective_rows == 0) {
    profile.notes.push_back(
        fmt::format("collectives: no rows of its own; devices on {} stand in, scaled by the link",
                    profile.device.scale_up_link));
  }
  return {};
}

void fit_one(ModelKind model, CalibrationProfile& profile, std::span<const DeviceSpec> catalogue,
             const results::MeasurementSet& measurements, const HoldOut& hold_out,
             const FitScope& scope, Result<void>& outcome) {
  if (!scope.holds(model)) return;
  switch (model) {
    case ModelKind::gemm: fit_gemm(profile, catalogue, measurements, hold_out, scope); break;
    case ModelKind::attention:
      fit_attention(profile, catalogue, measurements, hold_out, scope);
      break;
    case ModelKind::bandwidth:
      fit_bandwidth(profile, catalogue, measurements, hold_out, scope);
      break;
    case ModelKind::collectives:
      outcome = fit_collectives(profile, catalogue, measurements, hold_out);
      break;
  }
}

}  // namespace

bool beyond_limits(const GemmSample& s) {
  return std::max({s.shape.m, s.shape.n, s.shape.k}) > kExtrapolationSize;
}
bool beyond_limits(const AttentionSample& s) {
  return std::max(s.call.shape.q_len, s.call.shape.kv_len) > kExtrapolationSize;
}
bool beyond_limits(const BandwidthSample&) { return false; }
bool beyond_limits(const CollectiveSample& s) { return s.nodes > kExtrapolationNodes; }

bool FitScope::holds(ModelKind model) const {
  return std::find(models.begin(), models.end(), model) != models.end();
}

double unlikeness(const DeviceSpec& a, const DeviceSpec& b) {
  const auto doublings = [](double x, double y) {
    return x > 0 && y > 0 ? std::abs(std::log2(x / y)) : 4.0;
  };
  const auto peak = [](const DeviceSpec& d) {
    return d.peak(DType::fp16).value_or(FlopsPerSecond{0}).value;
  };
  return (kernel_family(a) == kernel_family(b) ? 0 : 10) + doublings(peak(a), peak(b)) +
         doublings(a.memory_bandwidth.value, b.memory_bandwidth.value);
}

std::string kernel_family(const DeviceSpec& device) {
  // The workstation parts of a generation run other kernels than the data-centre ones.
  if (device.name.starts_with("RTX-PRO")) return "Blackwell-RTX";
  return device.architecture == "Blackwell-Ultra" ? "Blackwell" : device.architecture;
}

Result<CalibrationProfile> fit_profile(const DeviceSpec& device,
                                       std::span<const DeviceSpec> catalogue,
                                       const results::MeasurementSet& measurements,
                                       const HoldOut& hold_out, const FitScope& scope) {
  CalibrationProfile profile;
  profile.name = fmt::format("calibrated:{}", device.name);
  profile.device = device;
  // The models share nothing but the list of notes, so each fit writes into a profile of its own.
  std::array<CalibrationProfile, 4> parts;
  parts.fill(profile);
  Result<void> collectives;
  const auto fit = [&](ModelKind model) {
    fit_one(model, parts[static_cast<std::size_t>(model)], catalogue, measurements, hold_out, scope,
            collectives);
  };
  tbb::parallel_invoke([&] { fit(ModelKind::gemm); }, [&] { fit(ModelKind::attention); },
                       [&] { fit(ModelKind::bandwidth); }, [&] { fit(ModelKind::collectives); });
  if (!collectives) return fail(std::move(collectives.error()));
  profile.gemm = std::move(parts[0].gemm);
  profile.gemm_rows = parts[0].gemm_rows;
  profile.attention = std::move(parts[1].attention);
  profile.attention_rows = parts[1].attention_rows;
  profile.bandwidth = std::move(parts[2].bandwidth);
  profile.bandwidth_rows = parts[2].bandwidth_rows;
  profile.collectives = std::move(parts[3].collectives);
  profile.collective_rows = parts[3].collective_rows;
  profile.attention.restrict_to(device.name);
  profile.bandwidth.restrict_to(device.name);
  profile.collectives.restrict_to(device.name);
  for (const auto& part : parts)
    profile.notes.insert(profile.notes.end(), part.notes.begin(), part.notes.end());
  return profile;
}

Prediction CalibrationProfile::predict(const GemmSample& s) const {
  const GemmQuery query{s.shape, s.dtype, s.scaling, s.pass, s.grouped, s.library, s.includes_cast};
  return corrected(gemm.predict(query), query);
}

Prediction CalibrationProfile::predict(const AttentionSample& s) const {
  const AttentionQuery query{std::string(device_for(ModelKind::attention)), s.library, s.call};
  return corrected(attention.predict(query), s.call, s.library);
}

Prediction CalibrationProfile::predict(const BandwidthSample& s) const {
  const BandwidthQuery query{std::string(device_for(ModelKind::bandwidth)), s.library, s.call};
  return corrected(bandwidth.predict(query), s.call, s.library);
}

Prediction CalibrationProfile::predict(const CollectiveSample& s) const {
  const CollectiveSelector selector{.device = s.device,
                                    .fabric = s.fabric,
                                    .op = s.op,
                                    .low_latency = s.moe.low_latency,
                                    .library = s.library,
                                    .version = s.version,
                                    .implementation = s.implementation,
                                    .dtype = s.dtype,
                                    .campaign = s.campaign,
                                    .nic = {}};
  CollectiveQuery query{
      .bytes = s.size.value, .ngpus = s.ngpus, .ranks_per_node = s.ranks_per_node, .moe = s.moe};
  return corrected(collectives.predict(selector, query), s.op, query, s.library);
}

void CalibrationProfile::correct(Prediction& p, ModelKind model, double factor) const {
  p.time_s *= factor;
  p.basis = std::max(p.basis, Basis::extrapolated);
  constexpr double kQuantile = 1.645;
  // Between devices only links of one kind are compared: their rates say most of it.
  const double sigma = derived.log_sigma * (model == ModelKind::collectives ? 0.5 : 1);
  p.log_low = -std::hypot(p.log_low, kQuantile * sigma);
  p.log_high = std::hypot(p.log_high, kQuantile * sigma);
}

Prediction CalibrationProfile::corrected(Prediction p, const GemmQuery& query) const {
  // The GEMM model itself was given the device's data sheet.
  if (derived.holds(ModelKind::gemm)) correct(p, ModelKind::gemm, derived.power);
  if (!adjustments.all().empty())
    adjustments.apply(ModelKind::gemm, group_of(query), query.library,
                      std::log2(size_of(query.shape)), p);
  return p;
}

Prediction CalibrationProfile::corrected(Prediction p, const AttentionCall& call,
                                         std::string_view library) const {
  if (derived.holds(ModelKind::attention))
    correct(p, ModelKind::attention, derived.compute * derived.power);
  if (!adjustments.all().empty())
    adjustments.apply(ModelKind::attention, group_of(call), library, std::log2(size_of(call)), p);
  return p;
}

Prediction CalibrationProfile::corrected(Prediction p, const BandwidthCall& call,
                                         std::string_view library) const {
  if (derived.holds(ModelKind::bandwidth)) correct(p, ModelKind::bandwidth, derived.memory);
  if (!adjustments.all().empty())
    adjustments.apply(ModelKind::bandwidth, group_of(call), library, std::log2(size_of(call)), p);
  return p;
}

Prediction CalibrationProfile::corrected(Prediction p, CollectiveOp op,
                                         const CollectiveQuery& query,
                                         std::string_view library) const {
  const bool several_nodes = query.ngpus > query.ranks_per_node;
  if (derived.holds(ModelKind::collectives))
    correct(p, ModelKind::collectives, several_nodes ? 1 : derived.link);
  if (!adjustments.all().empty())
    adjustments.apply(ModelKind::collectives, group_of(op, several_nodes), library,
                      std::log2(size_of(query.bytes, query.moe)), p);
  return p;
}

Result<Scoreboard> cross_validate(const DeviceSpec& device, std::span<const DeviceSpec> catalogue,
                                  const results::MeasurementSet& measurements, int folds,
                                  const FoldVisitor& visit) {
  const Samples own = Samples::of(measurements, device.name);
  Scoreboard board;
  for (int fold = 0; fold < folds; ++fold) {
    const HoldOut hold_out{fold, folds};
    auto profile = fit_profile(device, catalogue, measurements, hold_out);
    if (!profile) return fail(std::move(profile.error()));
    own.for_each([&](const auto& row) {
      if (hold_out.holds(row))
        board.add(row.label, seconds_of(row.sample), profile->predict(row.sample));
    });
    if (visit) visit(*profile, hold_out);
  }
  return board;
}

}  // namespace foreplan::simulator::calibration
