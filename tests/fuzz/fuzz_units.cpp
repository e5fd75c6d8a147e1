#include "core/units_text.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <type_traits>

namespace foreplan {
namespace {

void expect(bool condition) {
  if (!condition) std::abort();
}

template <class T>
void check(Result<T> (*parse)(std::string_view), std::string_view text) {
  const Result<T> value = parse(text);
  if (!value) {
    expect(value.error().size() == 1 && !value.error().front().message.empty());
    return;
  }
  expect(std::isfinite(value->value) && value->value >= 0);
  expect(parse(print(*value)) == *value);
  if constexpr (!std::is_same_v<T, FlopsPerSecond>) expect(!readable(*value).empty());
}

void check_plain(const Result<double>& value) {
  expect(!value || (std::isfinite(*value) && *value >= 0));
}

}  // namespace
}  // namespace foreplan

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace foreplan;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check(&parse_bytes, text);
  check(&parse_seconds, text);
  check(&parse_bandwidth, text);
  check(&parse_flop_rate, text);
  check_plain(parse_hertz(text));
  check_plain(parse_percent(text, true));
  const Result<Count> count = parse_count(text, {"tokens", "sequences"});
  expect(!count || (count->value >= 1 && count->value <= 1'000'000'000'000'000 &&
                    (count->unit == "tokens" || count->unit == "sequences")));
  return 0;
}
