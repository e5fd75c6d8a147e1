#include "harness/targets/synthetic/synthetic_target.hpp"

#include "core/units_text.hpp"
#include "harness/session/nominal.hpp"

#include <fmt/format.h>

#include <cmath>
#include <csignal>
#include <stdexcept>

namespace foreplan::harness {
namespace {

bool names(const std::string& part, const std::string& key) {
  return !part.empty() && key.find(part) != std::string::npos;
}

}  // namespace

class SyntheticTarget::Launch final : public Runnable {
 public:
  Launch(SyntheticTarget& target, const Point& point) : target_(target), key_(key(point)) {
    time_ = target.true_time(point);
    if (const auto* question = std::get_if<kernels::Question>(&point.question)) {
      work_ = nominal_work(*question);
    }
  }
  Seconds run(int launches) override { return target_.run(key_, time_, launches); }
  Check check() override {
    target_.clock_.pause(time_);
    if (!names(target_.spec_.wrong, key_)) return {.right = true, .worst = 0.25, .message = {}};
    return {.right = false, .worst = 7, .message = "element 0 is 7, should be 1"};
  }
  [[nodiscard]] kernels::Work work() const override { return work_; }
  [[nodiscard]] Identity identity() const override { return {"synthetic", "1", "made up"}; }

 private:
  SyntheticTarget& target_;
  std::string key_;
  Seconds time_;
  kernels::Work work_;
};

SyntheticTarget::SyntheticTarget(SyntheticSpec spec, Clock& clock)
    : spec_(std::move(spec)), clock_(clock), ranks_(spec_.ranks), random_(spec_.seed) {}

std::vector<std::pair<std::string, std::string>> SyntheticTarget::environment() const {
  return {{"synthetic.compute", print(spec_.compute)},
          {"synthetic.memory", print(spec_.memory)},
          {"synthetic.launch", print(spec_.launch)},
          {"synthetic.alpha", print(spec_.alpha)},
          {"synthetic.beta", print(spec_.beta)},
          {"synthetic.noise", fmt::format("{}", spec_.noise)},
          {"synthetic.outliers", fmt::format("{}", spec_.outliers)}};
}

DeviceState SyntheticTarget::state() {
  constexpr double kClock = 1.5e9, kCool = 45, kHot = 87, kPower = 300;
  const bool hot = throttled();
  return {.sm_clock_hz = hot ? kClock / kThrottleFactor : kClock,
          .memory_clock_hz = std::nullopt,
          .temperature_celsius = hot ? kHot : kCool,
          .power_w = kPower,
          .throttled = hot};
}

bool SyntheticTarget::throttled() const {
  if (spec_.throttle_every <= 0) return false;
  const std::int64_t period = spec_.throttle_every + spec_.throttled_batches;
  return batches_ % period >= spec_.throttle_every;
}

Seconds SyntheticTarget::true_time(const Point& point) const {
  if (const auto* c = std::get_if<CollectivePoint>(&point.question)) {
    const int size = c->group_size > 0 ? c->group_size : spec_.ranks;
    const Bytes moved{traits(c->kind).bus_factor(size) * static_cast<double>(c->size_bytes)};
    return spec_.alpha + moved / spec_.beta;
  }
  return spec_.launch + nominal_time(point, {spec_.compute, spec_.memory});
}

Result<std::unique_ptr<Runnable>> SyntheticTarget::prepare(const Point& point) {
  if (lost_) throw std::runtime_error("the made-up device is lost");
  clock_.pause(spec_.preparation);
  if (names(spec_.unsupported, key(point))) return fail("the made-up device does not do this");
  if (std::holds_alternative<OverlapPoint>(point.question)) {
    return fail("the made-up device has one stream");
  }
  return std::make_unique<Launch>(*this, point);
}

Seconds SyntheticTarget::run(const std::string& key, Seconds launch, int launches) {
  if (names(spec_.die, key)) std::raise(SIGKILL);
  if (names(spec_.crash, key)) lost_ = true;
  if (lost_) throw std::runtime_error("illegal address in a made-up kernel");
  const double deviation = std::normal_distribution<double>(0, spec_.noise)(random_);
  double factor = std::exp(deviation);
  if (std::bernoulli_distribution(spec_.outliers)(random_)) factor *= kOutlierFactor;
  if (throttled()) factor *= kThrottleFactor;
  ++batches_;
  const Seconds total = launch * (factor * launches);
  clock_.pause(total);
  return total;
}

}  // namespace foreplan::harness
