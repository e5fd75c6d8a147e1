#pragma once
// Upper limits for what a device or cluster file may claim. They lie far beyond any machine, so
// that only a wrong unit or a slip of the keyboard passes them.

#include "core/document.hpp"
#include "core/quantity.hpp"
#include "core/units_text.hpp"

#include <fmt/core.h>

namespace foreplan::scenarios {

inline constexpr Bytes kMostMemory{1e15};
inline constexpr BytesPerSecond kMostBandwidth{1e15};
inline constexpr FlopsPerSecond kMostFlopRate{1e18};
inline constexpr Seconds kMostLatency{1};
inline constexpr double kMostHertz = 1e11;

/// `value`, which was read from `node`; above `most` an error is recorded there. A reader that
/// failed has recorded its own error and returns a small value, which passes.
template <int S, int B, int F>
Quantity<S, B, F> plausible(const Node& node, Quantity<S, B, F> value, Quantity<S, B, F> most) {
  if (value > most) {
    node.error(fmt::format("{} is beyond any machine (at most {}); is the unit right?",
                           print(value), print(most)));
  }
  return value;
}

inline Bytes memory_size(const Node& node) { return plausible(node, node.bytes(), kMostMemory); }
inline BytesPerSecond link_rate(const Node& node) {
  return plausible(node, node.bandwidth(), kMostBandwidth);
}
inline FlopsPerSecond peak_rate(const Node& node) {
  return plausible(node, node.flop_rate(), kMostFlopRate);
}
inline Seconds hop_latency(const Node& node) {
  return plausible(node, node.seconds(), kMostLatency);
}

}  // namespace foreplan::scenarios
