#pragma once
// Time of the operating system.

#include "harness/target.hpp"

namespace foreplan::harness {

class SystemClock final : public Clock {
 public:
  [[nodiscard]] Seconds now() override;
  [[nodiscard]] std::int64_t utc_seconds() override;
  void pause(Seconds time) override;
};

}  // namespace foreplan::harness
