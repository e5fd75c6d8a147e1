#pragma once
// How much of a curve is common to groups, operations and sources, by where it was measured.

#include "simulator/calibration/collective/collective_field.hpp"

#include <array>
#include <cstdint>

namespace foreplan::simulator::calibration {

/// Where the rows come from decides how much of a curve is common to sources and groups.
enum class Setting : std::uint8_t {
  one_node,
  framework_kernels,
  between_nodes,
  expert_exchange,
  processes  ///< of one node, which copy through its memory
};
inline constexpr int kSettings = 5;

// Standard deviations and ranges. One node and expert exchanges: by maximum marginal likelihood
// over blocks of at most 300 rows (9 and 6 devices). Framework kernels and between nodes: by the
// held-out error over three folds of shapes, drawn otherwise than those that the scores use.
// Processes: by maximum marginal likelihood over 192 rows of Open MPI (two and four ranks on two
// processors). Their caches and copies bend the curves of all operations alike, by far more than
// links do.
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
                .across_paths = 0.4,
                .smooth_octaves = 2.7,
                .cell_octaves = 1.0,
                .variant_octaves = 4.8,
                .moe_octaves = 3.0},
    FieldScales{.level = .399,
                .smooth = .024,
                .cell = .029,
                .variant = .296,
                .variant_cell = .181,
                .dtype = .148,
                .campaign = .043,
                .family_cell = .037,
                .family_smooth = .039,
                .chunk = .018,
                .key = .006,
                .noise = .040,
                .variant_shape = .012,
                .path = 1.02,
                .across_paths = 1,
                .smooth_octaves = 10.,
                .cell_octaves = 2.3,
                .variant_octaves = 25.,
                .moe_octaves = 3.0},
    FieldScales{.level = .274,
                .smooth = .040,
                .cell = .152,
                .variant = .077,
                .variant_cell = .181,
                .dtype = .089,
                .campaign = .025,
                .family_cell = .336,
                .family_smooth = .502,
                .chunk = .172,
                .key = .015,
                .noise = .039,
                .variant_shape = .057,
                .path = 0,
                .across_paths = 1,
                .smooth_octaves = 5.6,
                .cell_octaves = 6.6,
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
                .across_paths = 1,
                .smooth_octaves = 5.6,
                .cell_octaves = 6.0,
                .variant_octaves = 27.,
                .moe_octaves = 7.6},
    FieldScales{.level = .039,
                .smooth = .183,
                .cell = .170,
                .variant = .117,
                .variant_cell = .019,
                .dtype = .046,
                .campaign = .060,
                .family_cell = .174,
                .family_smooth = .358,
                .chunk = .039,
                .key = .032,
                .noise = .055,
                .variant_shape = .030,
                .path = 0,
                .across_paths = 1,
                .smooth_octaves = 2.7,
                .cell_octaves = 4.3,
                .variant_octaves = 4.8,
                .moe_octaves = 3.0},
};

}  // namespace foreplan::simulator::calibration
