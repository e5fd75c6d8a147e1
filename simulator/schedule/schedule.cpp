#include "simulator/schedule/schedule.hpp"

#include "simulator/schedule/schedules.hpp"

#include <array>

namespace foreplan::simulator {

std::span<const PipelineSchedule* const> schedules() {
  static constexpr std::array kAll = {&kOneForwardOneBackward, &kInterleaved, &kGpipe};
  return kAll;
}

int schedule_named(std::string_view name) {
  const auto all = schedules();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i]->name == name) return static_cast<int>(i);
  }
  return -1;
}

int default_schedule(int vpp) {
  static const int kInterleavedIndex = schedule_named("interleaved");
  static const int kPlainIndex = schedule_named("1f1b");
  return vpp > 1 ? kInterleavedIndex : kPlainIndex;
}

}  // namespace foreplan::simulator
