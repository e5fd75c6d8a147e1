#pragma once
// Time that passes only when told to.

#include "harness/target.hpp"

namespace foreplan::harness {

class ManualClock final : public Clock {
 public:
  [[nodiscard]] Seconds now() override { return now_; }
  [[nodiscard]] std::int64_t utc_seconds() override {
    constexpr std::int64_t kStart = 1'700'000'000;
    return kStart + static_cast<std::int64_t>(now_.value);
  }
  void pause(Seconds time) override { now_ += time; }

 private:
  Seconds now_{0};
};

}  // namespace foreplan::harness
