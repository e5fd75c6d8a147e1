#include "results/measurement.hpp"

#include "results/measurement_fields.hpp"

#include <fmt/format.h>

#include <array>
#include <iterator>
#include <utility>

namespace foreplan::results {
namespace {

struct ElementTypeTraits {
  ElementType type;
  int bits;
  std::optional<DType> computes_as;
};

constexpr std::array kElementTypes = {
    ElementTypeTraits{ElementType::fp64, 64, std::nullopt},
    ElementTypeTraits{ElementType::fp32, 32, DType::fp32},
    ElementTypeTraits{ElementType::tf32, 32, DType::tf32},
    ElementTypeTraits{ElementType::fp16, 16, DType::fp16},
    ElementTypeTraits{ElementType::bf16, 16, DType::bf16},
    ElementTypeTraits{ElementType::fp8_e4m3, 8, DType::fp8_e4m3},
    ElementTypeTraits{ElementType::fp8_e5m2, 8, DType::fp8_e5m2},
    ElementTypeTraits{ElementType::mxfp8, 8, DType::fp8_e4m3},
    ElementTypeTraits{ElementType::nvfp4, 4, DType::fp4_e2m1},
    ElementTypeTraits{ElementType::mxfp4, 4, DType::fp4_e2m1},
    ElementTypeTraits{ElementType::int32, 32, std::nullopt},
    ElementTypeTraits{ElementType::int8, 8, DType::int8},
};
static_assert(kElementTypes.size() == static_cast<std::size_t>(ElementType::int8) + 1);

const ElementTypeTraits& traits(ElementType type) {
  return kElementTypes[static_cast<std::size_t>(type)];
}

using Names = std::string_view[];

}  // namespace

int bits(ElementType type) { return traits(type).bits; }
std::optional<DType> computes_as(ElementType type) { return traits(type).computes_as; }

std::span<const std::string_view> texts(MeasurementKind) {
  static constexpr Names kTexts = {"gemm", "attention", "collectives", "memory", "moe"};
  return kTexts;
}
std::span<const std::string_view> texts(ElementType) {
  static constexpr Names kTexts = {"fp64",     "fp32",  "tf32",  "fp16",  "bf16",  "fp8_e4m3",
                                   "fp8_e5m2", "mxfp8", "nvfp4", "mxfp4", "int32", "int8"};
  return kTexts;
}
std::span<const std::string_view> texts(GemmOperator) {
  static constexpr Names kTexts = {"gemm", "linear", "bmm", "grouped_gemm"};
  return kTexts;
}
std::span<const std::string_view> texts(GemmLayout) {
  static constexpr Names kTexts = {"unstated", "tn", "nn", "nt"};
  return kTexts;
}
std::span<const std::string_view> texts(AttentionPhase) {
  static constexpr Names kTexts = {"prefill", "decode", "encoder", "train"};
  return kTexts;
}
std::span<const std::string_view> texts(MeasuredPass) {
  static constexpr Names kTexts = {"fwd", "bwd", "fwd_bwd"};
  return kTexts;
}
std::span<const std::string_view> texts(CollectiveOperation) {
  static constexpr Names kTexts = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all",
                                   "broadcast",  "send_recv",  "moe_dispatch",   "moe_combine"};
  return kTexts;
}
std::span<const std::string_view> texts(MeasurementFlag) {
  static constexpr Names kTexts = {"above_peak",   "above_memory_bandwidth", "above_link",
                                   "suspect_copy", "assumed_device",         "assumed_dtype",
                                   "derived_time"};
  return kTexts;
}

std::string text(MeasurementFlags flags) {
  std::string joined;
  const auto names = texts(MeasurementFlag{});
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!flags.has(static_cast<MeasurementFlag>(i))) continue;
    if (!joined.empty()) joined += '+';
    joined += names[i];
  }
  return joined;
}

std::string MeasurementSet::place_of(const Measured& row) const {
  const std::string_view file = row.file < files.size() ? std::string_view{files[row.file]} : "";
  return row.line == 0 ? std::string{file} : fmt::format("{}:{}", file, row.line);
}

void MeasurementSet::append(MeasurementSet other) {
  const auto first_origin = static_cast<std::uint32_t>(origins.size());
  const auto first_file = static_cast<std::uint32_t>(files.size());
  std::move(other.origins.begin(), other.origins.end(), std::back_inserter(origins));
  std::move(other.files.begin(), other.files.end(), std::back_inserter(files));
  for_each_kind([&]<class Row>() {
    auto& target = rows_of<Row>(*this);
    target.reserve(target.size() + rows_of<Row>(other).size());
    for (Row& row : rows_of<Row>(other)) {
      row.origin += first_origin;
      row.file += first_file;
      target.push_back(std::move(row));
    }
  });
}

}  // namespace foreplan::results
