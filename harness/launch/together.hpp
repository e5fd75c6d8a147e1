#pragma once
// An attempt of all ranks: it counts when it was good everywhere, and they agree on that however
// one of them fails, so that none waits for a word that will not come.

#include "core/quantity.hpp"
#include "harness/target.hpp"

#include <exception>
#include <functional>
#include <limits>

namespace foreplan::harness {

enum class Attempt : std::uint8_t { good, again, elsewhere_failed };

/// What a batch takes that another rank failed in; `Runnable::run` returns it without another word.
inline constexpr Seconds kNever{std::numeric_limits<double>::infinity()};

/// `attempt` says whether it was good. What it throws is thrown here, after the others have been
/// told. Null `ranks`: this process alone.
[[nodiscard]] Attempt together(RankGroup* ranks, const std::function<bool()>& attempt);

}  // namespace foreplan::harness
