#include "results/measurement_text.hpp"

#include "core/decimal.hpp"
#include "core/result.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

namespace foreplan::results {
namespace {

/// Spellings of libraries and of the public tables, with the word that they mean here.
constexpr std::pair<std::string_view, std::string_view> kSpellings[] = {
    {"float", "fp32"},
    {"float32", "fp32"},
    {"f32", "fp32"},
    {"half", "fp16"},
    {"float16", "fp16"},
    {"f16", "fp16"},
    {"bfloat16", "bf16"},
    {"double", "fp64"},
    {"float64", "fp64"},
    {"uint8", "int8"},
    {"uint32", "int32"},
    {"fp8", "fp8_e4m3"},
    {"f8e4m3", "fp8_e4m3"},
    {"float8_e4m3", "fp8_e4m3"},
    {"f8e5m2", "fp8_e5m2"},
    {"float8_e5m2", "fp8_e5m2"},
    {"alltoall", "all_to_all"},
    {"allreduce", "all_reduce"},
    {"allgather", "all_gather"},
    {"reducescatter", "reduce_scatter"},
    {"sendrecv", "send_recv"},
    {"fwd+bwd", "fwd_bwd"},
    {"full", "fwd_bwd"},
    {"forward", "fwd"},
    {"backward", "bwd"},
    {"bwd_grad_act", "nn"},
    {"dgrad", "nn"},
    {"bwd_grad_w", "nt"},
    {"wgrad", "nt"},
    {"above_hbm_bw(cache)", "above_memory_bandwidth"},
    {"above_hbm_bw_cache", "above_memory_bandwidth"},
    {"above_hbm_bw", "above_memory_bandwidth"},
};

std::string lower(std::string_view text) {
  std::string out{text};
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

std::string list_of(std::span<const std::string_view> words) {
  return join(std::vector<std::string_view>(words.begin(), words.end()));
}

bool find_word(std::string_view text, std::span<const std::string_view> words, std::size_t& index) {
  const auto found = std::find(words.begin(), words.end(), text);
  index = static_cast<std::size_t>(found - words.begin());
  return found != words.end();
}

/// The number, or an explanation: what is no number, not finite or negative.
std::string read_number(std::string_view text, double& value) {
  const auto decimal = scan_decimal(text);
  if (!decimal || decimal->length != text.size()) {
    return fmt::format("{} is not a number", in_quotes(text));
  }
  const auto number = to_double(*decimal);
  if (!number) return fmt::format("{} is beyond what can be counted", text);
  if (*number < 0) return fmt::format("{} is negative", text);
  value = *number;
  return {};
}

}  // namespace

void append_text(std::string& out, std::int64_t value) {
  fmt::format_to(std::back_inserter(out), "{}", value);
}
void append_text(std::string& out, bool value) { out += value ? '1' : '0'; }
void append_text(std::string& out, Bytes value) { out += shortest_text(value.value, 0); }
void append_text(std::string& out, const std::string& value) { out += value; }

std::string read_text(std::string_view text, std::int64_t& value) {
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status == std::errc{} && end == text.data() + text.size() && value >= 0) return {};
  constexpr double kLargestExact = 9007199254740992.0;  // 2^53
  double number = 0;
  if (std::string problem = read_number(text, number); !problem.empty()) return problem;
  if (number != std::floor(number)) return fmt::format("{} is not a whole number", text);
  if (number > kLargestExact) return fmt::format("{} is beyond what can be counted", text);
  value = static_cast<std::int64_t>(number);
  return {};
}

std::string read_text(std::string_view text, bool& value) {
  value = text == "1" || text == "true" || text == "True";
  if (value || text == "0" || text == "false" || text == "False") return {};
  return fmt::format("{} is neither 0 nor 1", in_quotes(text));
}

std::string read_text(std::string_view text, Bytes& value) {
  return read_number(text, value.value);
}

std::string read_text(std::string_view text, std::string& value) {
  value = text;
  return {};
}

std::string read_text(std::string_view text, MeasurementFlags& value) {
  constexpr std::string_view kSeparators = "+,; ";
  MeasurementFlags flags;
  while (!text.empty()) {
    const auto end = std::min(text.find_first_of(kSeparators), text.size());
    if (end > 0) {
      MeasurementFlag flag{};
      std::string problem = read_text(text.substr(0, end), flag);
      if (!problem.empty()) return problem;
      flags.set(flag);
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  value = flags;
  return {};
}

std::string read_word(std::string_view text, std::span<const std::string_view> words,
                      std::size_t& index) {
  if (find_word(text, words, index)) return {};
  const std::string small = lower(text);
  if (find_word(small, words, index)) return {};
  for (const auto& [spelling, word] : kSpellings) {
    if (spelling == small && find_word(word, words, index)) return {};
  }
  // "fwd" is the forward pass where passes are listed and a layout where layouts are.
  if (small == "fwd" && find_word("tn", words, index)) return {};
  if (text.empty() && find_word("unstated", words, index)) return {};
  return fmt::format("{} is not one of {}", in_quotes(text), list_of(words));
}

std::optional<double> read_positive(std::string_view text, int shift) {
  const auto decimal = scan_decimal(text);
  if (!decimal || decimal->length != text.size() || decimal->negative) return std::nullopt;
  const auto value = to_double(*decimal, shift);
  if (!value || !(*value > 0)) return std::nullopt;
  return value;
}

std::string shortest_text(double value, int shift) {
  constexpr int kFewest = -5, kMost = 15;
  if (value == 0) return "0";
  // Scientific first: "d.ddde+XX" holds the shortest digits and where the point belongs.
  char buffer[40];
  const auto written =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  const std::string_view all(buffer, static_cast<std::size_t>(written.ptr - buffer));
  const auto e = all.find('e');
  int exponent = 0;
  const std::string_view power = all.substr(e + 1);
  std::from_chars(power.data() + (power[0] == '+' ? 1 : 0), power.data() + power.size(), exponent);
  exponent += shift;
  std::string digits;
  for (const char c : all.substr(0, e)) {
    if (c != '.' && c != '-') digits += c;
  }
  const std::string sign = value < 0 ? "-" : "";
  if (exponent < kFewest || exponent > kMost) {
    return sign + digits.substr(0, 1) + (digits.size() > 1 ? "." + digits.substr(1) : "") +
           fmt::format("e{}", exponent);
  }
  if (exponent < 0)
    return sign + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  const auto whole = static_cast<std::size_t>(exponent) + 1;
  if (digits.size() <= whole) return sign + digits + std::string(whole - digits.size(), '0');
  return sign + digits.substr(0, whole) + '.' + digits.substr(whole);
}

}  // namespace foreplan::results
