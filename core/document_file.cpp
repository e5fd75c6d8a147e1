// From a file to text that may be parsed.

#include "core/document_tree.hpp"

#include <fmt/core.h>

#include <cerrno>
#include <fstream>
#include <optional>
#include <system_error>

namespace foreplan {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

/// Length of the UTF-8 sequence at the start of `text`, 0 if it is none (RFC 3629: no overlong
/// forms, no surrogates, nothing above U+10FFFF).
std::size_t sequence_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xC2 && lead <= 0xDF   ? 2
                             : lead >= 0xE0 && lead <= 0xEF ? 3
                             : lead >= 0xF0 && lead <= 0xF4 ? 4
                                                            : 0;
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const unsigned second = byte(1);
  const bool overlong = (lead == 0xE0 && second < 0xA0) || (lead == 0xF0 && second < 0x90);
  const bool outside = (lead == 0xED && second > 0x9F) || (lead == 0xF4 && second > 0x8F);
  return overlong || outside ? 0 : length;
}

/// Offset of the first byte that no text file has.
std::optional<std::size_t> first_odd_byte(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r') return i;
    const std::size_t length = sequence_length(text.substr(i));
    if (length == 0) return i;
    i += length;
  }
  return std::nullopt;
}

std::string too_large() {
  return fmt::format("the file is larger than {} MiB", kMaxDocumentBytes >> 20);
}

}  // namespace

TextPosition position_of(std::string_view text, std::size_t offset) {
  TextPosition position;
  for (char c : text.substr(0, offset)) {
    if (c == '\n') {
      ++position.line;
      position.column = 0;
    }
    ++position.column;
  }
  return position;
}

Result<std::string> read_text_file(const std::filesystem::path& file) {
  const Place place{.file = file.string()};
  std::error_code failed;
  const auto status = std::filesystem::status(file, failed);
  if (status.type() == std::filesystem::file_type::not_found) return fail("no such file", place);
  if (failed) return fail(fmt::format("cannot be read: {}", failed.message()), place);
  if (std::filesystem::is_directory(status)) return fail("is a folder, not a file", place);

  errno = 0;
  std::ifstream stream(file, std::ios::binary);
  if (!stream) {
    return fail(fmt::format("cannot be read: {}", std::generic_category().message(errno)), place);
  }
  // Read up to the limit rather than asking for a size: pipes have none.
  std::string text(kMaxDocumentBytes + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (stream.bad()) return fail("cannot be read to its end", place);
  text.resize(static_cast<std::size_t>(stream.gcount()));
  if (text.empty()) return fail("the file is empty", place);
  if (text.size() > kMaxDocumentBytes) return fail(too_large(), place);
  text.shrink_to_fit();
  return text;
}

Result<std::string_view> checked_text(std::string_view text, const std::string& file) {
  if (text.size() > kMaxDocumentBytes) return fail(too_large(), {.file = file});
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  if (const std::optional<std::size_t> odd = first_odd_byte(text)) {
    const TextPosition position = position_of(text, *odd);
    return fail(fmt::format("not a UTF-8 text file: byte 0x{:02X} stands here",
                            static_cast<unsigned char>(text[*odd])),
                {.file = file, .line = position.line, .column = position.column});
  }
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    return fail("the file is empty", {.file = file});
  }
  return text;
}

}  // namespace foreplan
