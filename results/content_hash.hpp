#pragma once
// SHA-256, by which rows with the same content are recognised.

#include <string>
#include <string_view>

namespace foreplan::results {

/// SHA-256 of the bytes as 64 lower-case hexadecimal digits (FIPS 180-4, section 6.2).
[[nodiscard]] std::string sha256_hex(std::string_view bytes);

}  // namespace foreplan::results
