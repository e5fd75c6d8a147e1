#include "harness/launch/together.hpp"

namespace foreplan::harness {

Attempt together(RankGroup* ranks, const std::function<bool()>& attempt) {
  constexpr double kGood = 0, kAgain = 1, kFailed = 2;
  double verdict = kFailed;
  std::exception_ptr failure;
  try {
    verdict = attempt() ? kGood : kAgain;
  } catch (...) {
    failure = std::current_exception();
  }
  if (ranks != nullptr) verdict = ranks->maximum(verdict);
  if (failure) std::rethrow_exception(failure);
  if (verdict == kFailed) return Attempt::elsewhere_failed;
  return verdict == kGood ? Attempt::good : Attempt::again;
}

}  // namespace foreplan::harness
