#pragma once
// Errors as values: what a person or a file got wrong, where, and what is allowed.

#include <tl/expected.hpp>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace foreplan {

/// Place of a mistake. Empty file = command line; line 0 = whole file.
struct Place {
  std::string file{};
  int line = 0;       ///< 1-based
  int column = 0;     ///< 1-based
  std::string key{};  ///< dotted path, e.g. `search.tp[1]`
};

/// One mistake in the caller's input. `message` says what was found, what is allowed and, where one
/// can, the fix. Printed as `file:line:column key: message`.
struct Error {
  std::string message;
  Place place;
};

/// All mistakes found in one go, never empty.
using Errors = std::vector<Error>;

/// A value, or every mistake that kept it from being made.
template <class T>
using Result = tl::expected<T, Errors>;

inline tl::unexpected<Errors> fail(std::string message, Place place = {}) {
  return tl::unexpected<Errors>(Errors{Error{std::move(message), std::move(place)}});
}
inline tl::unexpected<Errors> fail(Errors errors) {
  return tl::unexpected<Errors>(std::move(errors));
}

/// `file:line:column key: message`, leaving out what is unknown.
std::string to_text(const Error& error);
/// One line per error.
std::string to_text(const Errors& errors);

/// The candidate with the smallest edit distance to `word` (insert, delete, replace or swap a
/// letter; upper and lower case are the same), if it is near enough to be a typing slip (at most a
/// third of the letters differ); empty otherwise. Of equals, the one that shares the case of more
/// letters wins, then the first.
std::string_view nearest(std::string_view word, const std::vector<std::string_view>& candidates);

/// The text in double quotes as messages show it: cut after 60 bytes, control characters as `\xNN`.
std::string in_quotes(std::string_view text);

/// "a, b, c"
std::string join(const std::vector<std::string_view>& words, std::string_view separator = ", ");

}  // namespace foreplan
