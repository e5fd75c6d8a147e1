#include "core/result.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace foreplan {
namespace {

constexpr std::size_t kQuotedBytes = 60;

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

/// Damerau-Levenshtein distance in its restricted form: no letter takes part in two edits.
template <class SameLetter>
std::size_t edit_distance(std::string_view a, std::string_view b, SameLetter same) {
  const std::size_t width = b.size() + 1;
  std::vector<std::size_t> before_last(width), last(width), row(width);
  for (std::size_t j = 0; j < width; ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::swap(before_last, last);
    std::swap(last, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = last[j - 1] + (same(a[i - 1], b[j - 1]) ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1])) {
        row[j] = std::min(row[j], before_last[j - 2] + 1);
      }
    }
  }
  return row[b.size()];
}

}  // namespace

std::string to_text(const Error& error) {
  const Place& place = error.place;
  std::string text = place.file;
  if (place.line > 0) {
    text += fmt::format("{}{}", text.empty() ? "line " : ":", place.line);
    if (place.column > 0) text += fmt::format(":{}", place.column);
  }
  if (!place.key.empty()) {
    if (!text.empty()) text += ' ';
    text += place.key;
  }
  if (!text.empty()) text += ": ";
  return text + error.message;
}

std::string to_text(const Errors& errors) {
  std::string text;
  for (const Error& error : errors) {
    text += to_text(error);
    text += '\n';
  }
  return text;
}

std::string_view nearest(std::string_view word, const std::vector<std::string_view>& candidates) {
  const auto same_folded = [](char a, char b) { return lower(a) == lower(b); };
  const auto same = [](char a, char b) { return a == b; };
  std::string_view best;
  std::pair<std::size_t, std::size_t> best_distance;
  for (std::string_view candidate : candidates) {
    const auto [shorter, longer] = std::minmax({word.size(), candidate.size()});
    // The difference in length bounds the distance from below; it keeps a huge word from costing.
    if (candidate.empty() || 3 * (longer - shorter) > longer) continue;
    const std::size_t folded = edit_distance(word, candidate, same_folded);
    if (3 * folded > longer) continue;
    const std::pair distance{folded, edit_distance(word, candidate, same)};
    if (best.empty() || distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string in_quotes(std::string_view text) {
  std::size_t kept = std::min(text.size(), kQuotedBytes);
  // Never cut inside a UTF-8 sequence: continuation bytes are 10xxxxxx.
  while (kept > 0 && kept < text.size() &&
         (static_cast<unsigned char>(text[kept]) & 0xC0) == 0x80) {
    --kept;
  }
  std::string shown = "\"";
  for (char c : text.substr(0, kept)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F) {
      shown += fmt::format("\\x{:02X}", byte);
    } else {
      shown += c;
    }
  }
  return shown + (kept < text.size() ? "...\"" : "\"");
}

std::string join(const std::vector<std::string_view>& words, std::string_view separator) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += separator;
    text += words[i];
  }
  return text;
}

}  // namespace foreplan
