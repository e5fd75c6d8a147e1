#include "models/diffusion.hpp"

#include "core/assert.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace foreplan::models {
namespace {

std::int64_t latent_frames(const LatentGrid& grid, std::int64_t frames) {
  return (frames - 1) / grid.temporal + 1;
}

/// The multiples of `unit` around `found`: "1024 or 1040".
std::string neighbours(std::int64_t found, std::int64_t unit) {
  const std::int64_t below = found / unit * unit;
  return below > 0 ? fmt::format("{} or {}", below, below + unit) : std::to_string(unit);
}

}  // namespace

std::string misfit(const LatentGrid& grid, const MediaShape& media) {
  const std::int64_t unit = grid.spatial * grid.patch;
  for (const auto& [side, pixels] : {std::pair{"width", media.width}, {"height", media.height}}) {
    if (pixels < 1 || pixels % unit != 0) {
      return fmt::format("{} {} is not a multiple of {} pixels (VAE {} x patch {}); nearest: {}",
                         side, pixels, unit, grid.spatial, grid.patch, neighbours(pixels, unit));
    }
  }
  if (media.frames < 1) return "at least one frame is needed";
  if ((media.frames - 1) % grid.temporal != 0) {
    const std::int64_t below = (media.frames - 1) / grid.temporal * grid.temporal + 1;
    return fmt::format("{} frames are not 1 + a multiple of {} (VAE); nearest: {} or {}",
                       media.frames, grid.temporal, below, below + grid.temporal);
  }
  if (latent_frames(grid, media.frames) % grid.temporal_patch != 0) {
    return fmt::format("{} frames are {} latent frames, which patches of {} do not divide",
                       media.frames, latent_frames(grid, media.frames), grid.temporal_patch);
  }
  return {};
}

std::int64_t latent_tokens(const LatentGrid& grid, const MediaShape& media) {
  FOREPLAN_ASSERT(misfit(grid, media).empty(), "the media were checked against the grid");
  const std::int64_t unit = grid.spatial * grid.patch;
  return latent_frames(grid, media.frames) / grid.temporal_patch * (media.width / unit) *
         (media.height / unit);
}

}  // namespace foreplan::models
