#include "simulator/calibration/gemm/gemm_model.hpp"

#include "tests/unit/simulator/gemm_samples.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace foreplan::simulator::calibration {
namespace {

constexpr double kNoise = 0.05;

// Fitted once: 400 noisy bf16 rows, and 150 fp8 rows that include the cast of the activation.
const GemmModel& fitted() {
  static const GemmModel model = [] {
    std::vector<GemmSample> samples = made_up_samples(400, kNoise, 11);
    const auto fp8 = made_up_samples(150, kNoise, 12, DType::fp8_e4m3, true);
    samples.insert(samples.end(), fp8.begin(), fp8.end());
    return GemmModel::fit(made_up_device(), samples);
  }();
  return model;
}

GemmQuery query_for(const GemmShape& shape, DType dtype = DType::bf16) {
  GemmQuery q;
  q.shape = shape;
  q.dtype = dtype;
  return q;
}

double flop(const GemmShape& s) {
  return 2.0 * double(s.m) * double(s.n) * double(s.k) * double(s.batch);
}

TEST(GemmModel, EveryShapeHasAPositiveFiniteTimeBelowThePeak) {
  ShapeSource source(21);
  for (int i = 0; i < 3000; ++i) {
    GemmQuery q;
    q.shape = source.next(i % 2 ? 4096 : 4e6);
    q.shape.batch = i % 7 ? 1 : 64;
    const Prediction p = fitted().predict(q);
    ASSERT_TRUE(std::isfinite(p.time_s) && p.time_s > 1e-6) << q.shape.m << " " << q.shape.n;
    EXPECT_LT(flop(q.shape) / p.time_s, 989e12);
    EXPECT_LT(p.log_low, 0);
    EXPECT_GT(p.log_high, 0);
  }
}

TEST(GemmModel, FreshShapesAreMetWithinTheNoise) {
  std::vector<double> error;
  for (const GemmSample& s : made_up_samples(400, 0, 22)) {
    error.push_back(std::abs(fitted().predict(query_of(s)).time_s / s.time_s - 1));
  }
  std::sort(error.begin(), error.end());
  EXPECT_LT(error[error.size() / 2], 0.5 * kNoise);
  EXPECT_LT(error[error.size() * 95 / 100], 2 * kNoise);
}

TEST(GemmModel, NineOfTenFreshMeasurementsLieInTheInterval) {
  int covered = 0;
  const auto fresh = made_up_samples(1000, kNoise, 23);
  for (const GemmSample& s : fresh) {
    const Prediction p = fitted().predict(query_of(s));
    const double log_ratio = std::log(s.time_s / p.time_s);
    covered += log_ratio >= p.log_low && log_ratio <= p.log_high;
  }
  EXPECT_GT(covered, 850);
  EXPECT_LT(covered, 985);
}

TEST(GemmModel, TheCastIsToldApartFromTheProduct) {
  // The fp8 rows all include the cast; its share is known from known_parameters().
  const TileWave<double> truth(
      tile_wave_device(made_up_device(), DType::fp8_e4m3, GemmScaling::none), known_parameters());
  for (const GemmShape shape : {GemmShape{4096, 4096, 4096, 1}, GemmShape{8192, 1024, 8192, 1}}) {
    GemmQuery q = query_for(shape, DType::fp8_e4m3);
    const double bare = fitted().predict(q).time_s;
    q.include_cast = true;
    const double cast_us = (fitted().predict(q).time_s - bare) * 1e6;
    EXPECT_NEAR(cast_us / truth.cast_us(as_doubles(shape)), 1, 0.25) << shape.m;
  }
}

TEST(GemmModel, BasisTellsMeasuredFromBetweenFromOutside) {
  const GemmSample first = made_up_samples(1, kNoise, 11).front();
  EXPECT_EQ(fitted().predict(query_of(first)).basis, Basis::measured);
  GemmQuery q = query_for({777, 992, 1504, 1});
  EXPECT_EQ(fitted().predict(q).basis, Basis::interpolated);
  const Prediction within = fitted().predict(q);
  q.shape.m = 10'000'000;
  const Prediction outside = fitted().predict(q);
  EXPECT_EQ(outside.basis, Basis::extrapolated);
  EXPECT_GT(outside.log_high, within.log_high);
  // A type that was not measured stands on the data sheet's peak of that type.
  EXPECT_EQ(fitted().predict(query_for({777, 992, 1504, 1}, DType::fp32)).basis,
            Basis::extrapolated);
}

// Twice as slow from 4096 on, which no fit to smaller shapes knows: as large a surprise may wait
// beyond the largest shape. Where sizes up to 4096 tell the larger ones, the model is trusted more.
TEST(GemmModel, TheIntervalOutsideHoldsWhatSmallerShapesWouldHaveMissed) {
  const auto width = [](double factor) {
    std::vector<GemmSample> samples = made_up_samples(300, 0.02, 71);
    for (GemmSample& s : samples) {
      if (std::max({s.shape.m, s.shape.n, s.shape.k}) > 4096) s.time_s *= factor;
    }
    const GemmModel model = GemmModel::fit(made_up_device(), samples);
    const Prediction p = model.predict(query_for({1 << 22, 1 << 18, 1 << 18, 1}));
    EXPECT_EQ(p.basis, Basis::extrapolated);
    return p.log_high;
  };
  EXPECT_GT(width(2), std::log(2));
  EXPECT_LT(width(1), std::log(2));
  EXPECT_GT(width(1), 1.645 * 0.2);  // no less than for an unknown machine
}

TEST(GemmModel, WithoutSamplesTheDataSheetAnswers) {
  const GemmModel model = GemmModel::fit(made_up_device(), {});
  const Prediction p = model.predict(query_for({8192, 8192, 8192, 1}));
  EXPECT_EQ(p.basis, Basis::datasheet);
  const double share = flop({8192, 8192, 8192, 1}) / p.time_s / 989e12;
  EXPECT_GT(share, 0.5);  // between half and nine tenths of the peak, as tensor-core libraries do
  EXPECT_LT(share, 0.9);
}

TEST(GemmModel, UnusableSamplesAreIgnored) {
  std::vector<GemmSample> bad = made_up_samples(5, 0, 24);
  bad[0].time_s = 0;
  bad[1].shape.m = 0;
  bad[2].weight = 0;
  bad[3].time_s = -1;
  bad[4].time_s = std::numeric_limits<double>::infinity();
  EXPECT_EQ(GemmModel::fit(made_up_device(), bad).predict(query_for({64, 64, 64, 1})).basis,
            Basis::datasheet);
}

TEST(GemmModel, ADonorsParametersScaleWithTheDataSheet) {
  DeviceSpec faster = made_up_device();
  faster.peak_bf16 = FlopsPerSecond{2 * 989e12};
  faster.memory_bandwidth = BytesPerSecond{2 * 3.35e12};
  const GemmModel model = GemmModel::fit(faster, {}, &fitted());
  const GemmQuery q = query_for({16384, 16384, 16384, 1});
  const Prediction p = model.predict(q);
  EXPECT_EQ(p.basis, Basis::extrapolated);
  // Compute-bound: half the time, but for fixed costs and the residual, which is not carried over.
  EXPECT_NEAR(p.time_s / fitted().predict(q).time_s, 0.5, 0.06);
}

// A sister device is 20 % slower and has, like this device, a kernel that costs half as much again
// between 512 and 4096 rows, where only the sister was measured.
TEST(GemmModel, ShapesThatOnlyASisterHasTeachTheResidual) {
  const auto costly = [](const GemmSample& s) { return s.shape.m > 512 && s.shape.m <= 4096; };
  std::vector<GemmSample> own, sister, fresh;
  for (GemmSample s : made_up_samples(400, 0.02, 61)) {
    if (!costly(s)) own.push_back(s);
    s.time_s *= costly(s) ? 1.2 * 1.5 : 1.2;
    sister.push_back(s);
  }
  for (GemmSample s : made_up_samples(400, 0, 62)) {
    if (!costly(s)) continue;
    s.time_s *= 1.5;
    fresh.push_back(s);
  }
  ASSERT_GT(fresh.size(), 30);
  const std::vector<GemmKin> kin = {{made_up_device(), sister}};
  const auto median_error = [&](const GemmModel& model) {
    std::vector<double> error;
    for (const GemmSample& s : fresh)
      error.push_back(std::abs(model.predict(query_of(s)).time_s / s.time_s - 1));
    std::nth_element(error.begin(), error.begin() + std::ptrdiff_t(error.size() / 2), error.end());
    return error[error.size() / 2];
  };
  const double alone = median_error(GemmModel::fit(made_up_device(), own));
  const double taught = median_error(GemmModel::fit(made_up_device(), own, nullptr, kin));
  EXPECT_GT(alone, 0.25);  // a third: nothing says that the kernel is there
  EXPECT_LT(taught, 0.6 * alone);
}

TEST(GemmModel, AnotherLibraryOrPassKeepsItsRatio) {
  std::vector<GemmSample> samples = made_up_samples(200, 0.02, 31);
  for (GemmSample s : made_up_samples(60, 0.02, 32)) {
    s.library = "slow-blas";
    s.time_s *= 1.5;
    samples.push_back(s);
  }
  for (GemmSample s : made_up_samples(60, 0.02, 33)) {
    s.pass = Pass::wgrad;
    s.time_s *= 1.2;
    samples.push_back(s);
  }
  const GemmModel model = GemmModel::fit(made_up_device(), samples);
  GemmQuery q = query_for({2048, 4096, 4096, 1});
  const double base = model.predict(q).time_s;
  q.pass = Pass::wgrad;
  EXPECT_NEAR(model.predict(q).time_s / base, 1.2, 0.08);
  q.pass = Pass::forward;
  q.library = "slow-blas";
  EXPECT_NEAR(model.predict(q).time_s / base, 1.5, 0.1);
}

TEST(GemmModel, JsonRoundTripIsExact) {
  const auto text = fitted().to_json().dump();
  const auto back = GemmModel::from_json(made_up_device(), nlohmann::json::parse(text));
  ASSERT_TRUE(back.has_value()) << to_text(back.error());
  ShapeSource source(41);
  for (int i = 0; i < 500; ++i) {
    GemmQuery q;
    q.shape = source.next(65536);
    q.dtype = i % 2 ? DType::bf16 : DType::fp8_e4m3;
    const Prediction a = fitted().predict(q), b = back->predict(q);
    EXPECT_EQ(a.time_s, b.time_s);
    EXPECT_EQ(a.log_low, b.log_low);
    EXPECT_EQ(a.log_high, b.log_high);
    EXPECT_EQ(a.basis, b.basis);
  }
  EXPECT_EQ(back->to_json().dump(), text);
}

TEST(GemmModel, BrokenDocumentsAreRefusedWithTheirKey) {
  const nlohmann::json good = fitted().to_json();
  auto key_of = [&](auto change) {
    nlohmann::json broken = good;
    change(broken);
    const auto read = GemmModel::from_json(made_up_device(), broken);
    return read ? std::string("accepted") : read.error().front().place.key;
  };
  EXPECT_EQ(key_of([](auto& j) { j["format"] = "other"; }), "format");
  EXPECT_EQ(key_of([](auto& j) { j["series"] = nlohmann::json::array(); }), "series");
  EXPECT_EQ(key_of([](auto& j) { j["series"][0]["dtype"] = "fp12"; }), "dtype");
  EXPECT_EQ(key_of([](auto& j) { j["series"][0]["scaling"] = "odd"; }), "scaling");
  EXPECT_EQ(key_of([](auto& j) { j["series"][0]["parameters"].erase(0); }), "parameters");
  EXPECT_EQ(key_of([](auto& j) { j["series"][0]["support"][1] = 0; }), "support");
  EXPECT_EQ(key_of([](auto& j) { j["series"][0]["residual"]["trees"]["cut"][0] = 99; }), "trees");
  EXPECT_EQ(key_of([](auto& j) { j["series"][0]["residual"]["cuts"].erase(0); }), "residual");
  // Missing keys and other types are named in the text.
  EXPECT_EQ(key_of([](auto& j) { j.erase("series"); }), "");
  EXPECT_EQ(key_of([](auto& j) { j["series"][0]["residual"]["trees"]["leaf"] = "text"; }), "");
}

}  // namespace
}  // namespace foreplan::simulator::calibration
