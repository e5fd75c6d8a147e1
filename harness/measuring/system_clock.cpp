#include "harness/measuring/system_clock.hpp"

#include <chrono>
#include <thread>

namespace foreplan::harness {

Seconds SystemClock::now() {
  return Seconds{
      std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count()};
}

std::int64_t SystemClock::utc_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

void SystemClock::pause(Seconds time) {
  std::this_thread::sleep_for(std::chrono::duration<double>(time.value));
}

}  // namespace foreplan::harness
