#include "scenarios/training_media.hpp"

#include "core/document_tree.hpp"

#include <fmt/format.h>

#include <charconv>
#include <string>

namespace foreplan::scenarios {
namespace {

constexpr std::int64_t kLargestSide = 1'000'000;
constexpr std::int64_t kMostFrames = 1'000'000;
constexpr std::int64_t kMostTextTokens = 1'000'000;
constexpr std::int64_t kMostTokens = 100'000'000;

/// "1280x720": width, then height.
void read_image(const Node& node, models::MediaShape& media) {
  const std::string text = node.text();
  if (!node.is_text()) return;  // recorded by text()
  std::int64_t width = 0, height = 0;
  const char* const end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, width);
  if (first.ec == std::errc{} && first.ptr != end && *first.ptr == 'x') {
    const auto second = std::from_chars(first.ptr + 1, end, height);
    const bool sane = width >= 1 && width <= kLargestSide && height >= 1 && height <= kLargestSide;
    if (second.ec == std::errc{} && second.ptr == end && sane) {
      media.width = width;
      media.height = height;
      return;
    }
  }
  node.error(fmt::format("{} is not WIDTHxHEIGHT in pixels, such as \"1024x1024\" (at most {})",
                         in_quotes(text), kLargestSide));
}

void read_text_tokens(const Node& node, models::DiffusionSpec& diffusion) {
  const std::int64_t tokens = node.integer(0, kMostTextTokens);
  if (diffusion.text_tokens == 0 && tokens > 0) {
    node.error("this diffusion transformer takes no text");
  } else if (diffusion.text_tokens > 0 && tokens == 0) {
    node.error("this diffusion transformer needs a prompt of at least 1 token");
  } else {
    diffusion.text_tokens = tokens;
  }
}

/// Keys of the other kind of model.
void refuse(const Layers& layers, std::initializer_list<std::string_view> paths,
            const std::string& reason) {
  for (const auto path : paths) {
    if (const auto node = layers.find(path)) node->error(reason);
  }
}

}  // namespace

std::optional<std::int64_t> read_media(Layers& layers, models::ModelSpec& model) {
  if (model.layers.empty()) return std::nullopt;  // the model itself is wrong
  if (!model.diffusion) {
    refuse(layers, {"training.image", "training.frames", "training.text_tokens"},
           fmt::format("{} is a language model; give training.sequence_length", model.name));
    return std::nullopt;
  }
  refuse(layers, {"training.sequence_length"},
         fmt::format("the tokens of a sample of {} follow from training.image, training.frames and "
                     "training.text_tokens",
                     model.name));
  models::DiffusionSpec& diffusion = *model.diffusion;
  models::MediaShape media = diffusion.media;
  if (const auto node = layers.find("training.image")) read_image(*node, media);
  if (const auto node = layers.find("training.frames"))
    media.frames = node->integer(1, kMostFrames);
  if (const auto node = layers.find("training.text_tokens")) read_text_tokens(*node, diffusion);
  if (!layers.errors().empty()) return std::nullopt;
  const auto wrong = [&](const std::string& why) {
    layers.error(why, layers.find("training.image") ? "training.image" : "training.frames");
    return std::nullopt;
  };
  if (const std::string why = models::misfit(diffusion.grid, media); !why.empty())
    return wrong(why);
  const std::int64_t tokens = models::sequence_tokens(diffusion, media);
  if (tokens > kMostTokens)
    return wrong(
        fmt::format("{} tokens are more than any run needs (at most {})", tokens, kMostTokens));
  diffusion.media = media;
  return tokens;
}

}  // namespace foreplan::scenarios
