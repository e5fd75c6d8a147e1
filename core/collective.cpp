#include "core/collective.hpp"

namespace foreplan {
namespace {

constexpr std::array<std::string_view, kParallelGroupCount> kParallelGroupNames = {
    "tp", "cp", "ep", "etp", "pp", "dense_dp", "expert_dp"};
static_assert(kParallelGroupCount == static_cast<int>(ParallelGroup::expert_dp) + 1);

}  // namespace

std::string_view name(ParallelGroup g) { return kParallelGroupNames[static_cast<std::size_t>(g)]; }

}  // namespace foreplan
