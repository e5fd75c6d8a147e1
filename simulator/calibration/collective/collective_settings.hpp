#pragma once
// How much of a curve is common to groups, operations and sources, by where it was measured.

#include "simulator/calibration/collective/collective_field.hpp"

#include <array>
#include <cstdint>

namespace foreplan::simulator::calibration {

/// Where the rows come from decides how much of a curve is common to sources and groups.
enum class Setting : std::uint8_t { one_node, framework_kernels, between_nodes, expert_exchange };
inline constexpr int kSettings = 4;

// Standard deviations and ranges by maximum marginal likelihood over blocks of at most 300 rows
// (9 devices, 9 devices, 5 fabrics, 6 devices); `path` by cross-validation.
inline constexpr std::array<FieldScales, kSettings> kScales = {
    FieldScales{.level = .019,
                .smooth = .017,
                .cell = .012,
                .variant = .117,
                .variant_cell = .019,
                .dtype = .046,
                .campaign = .007,
                .family_cell = .065,
                .family_smooth = .134,
                .chunk = .015,
                .key = .027,
                .noise = .040,
                .variant_shape = .030,
                .path = 0,
                .smooth_octaves = 2.7,
                .cell_octaves = 1.0,
                .variant_octaves = 4.8,
                .moe_octaves = 3.0},
    FieldScales{.level = .156,
                .smooth = .099,
                .cell = .037,
                .variant = .474,
                .variant_cell = .113,
                .dtype = .036,
                .campaign = .043,
                .family_cell = .037,
                .family_smooth = .099,
                .chunk = .046,
                .key = .026,
                .noise = .040,
                .variant_shape = .030,
                .path = .250,
                .smooth_octaves = 3.9,
                .cell_octaves = 2.3,
                .variant_octaves = 25.,
                .moe_octaves = 3.0},
    FieldScales{.level = .107,
                .smooth = .102,
                .cell = .047,
                .variant = .248,
                .variant_cell = .035,
                .dtype = .044,
                .campaign = .025,
                .family_cell = .082,
                .family_smooth = .196,
                .chunk = .172,
                .key = .060,
                .noise = .039,
                .variant_shape = .057,
                .path = 0,
                .smooth_octaves = 5.6,
                .cell_octaves = 5.2,
                .variant_octaves = 7.6,
                .moe_octaves = 3.0},
    FieldScales{.level = .133,
                .smooth = .152,
                .cell = .007,
                .variant = .046,
                .variant_cell = .007,
                .dtype = .007,
                .campaign = .020,
                .family_cell = .007,
                .family_smooth = .199,
                .chunk = .019,
                .key = .007,
                .noise = .018,
                .variant_shape = .007,
                .path = 0,
                .smooth_octaves = 5.6,
                .cell_octaves = 6.0,
                .variant_octaves = 27.,
                .moe_octaves = 7.6},
};

}  // namespace foreplan::simulator::calibration
