#include "harness/targets/cuda/candidates.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace foreplan::harness::cuda {
namespace {

constexpr std::string_view kTuned = "_tuned";

constexpr std::string_view kNamedOnly = "cudnn";  // held against our own, not taken for it

/// Kernels for newer tensor cores come first: on older devices they refuse, and the next is taken.
int preference(const kernels::Kernel& kernel) { return kernel.variant == "wgmma" ? 0 : 1; }

}  // namespace

Result<std::vector<const kernels::Kernel*>> candidates(
    std::span<const kernels::Kernel* const> kernels, const kernels::Question& question,
    const std::string& variant, Selection selection) {
  std::vector<const kernels::Kernel*> found;
  std::vector<std::string_view> variants;
  const bool tuned = selection == Selection::autotuned;
  for (const kernels::Kernel* const kernel : kernels) {
    if (kernel->op != question.op) continue;
    variants.push_back(kernel->variant);
    const bool by_itself =
        !kernel->variant.ends_with(kDeterministic) && kernel->variant != kNamedOnly;
    const bool named = (variant.empty() && by_itself) || kernel->variant == variant ||
                       (tuned && kernel->variant == variant + std::string{kTuned});
    // A variant that is named in full is taken as it is.
    const bool chosen = kernel->variant.ends_with(kTuned) == tuned || kernel->variant == variant;
    if (named && chosen) found.push_back(kernel);
  }
  if (!found.empty()) {
    std::stable_sort(found.begin(), found.end(),
                     [](const auto* a, const auto* b) { return preference(*a) < preference(*b); });
    return found;
  }
  if (variants.empty()) {
    return fail(fmt::format("no CUDA kernel computes {}", in_quotes(question.op)));
  }
  if (tuned) {
    return fail(fmt::format("{} has one algorithm and nothing to tune; variants: {}", question.op,
                            join(variants)));
  }
  return fail(fmt::format("{} has no variant {}; variants: {}", question.op, in_quotes(variant),
                          join(variants)));
}

}  // namespace foreplan::harness::cuda
