#include "kernels/reference/row_question.hpp"

#include "core/assert.hpp"

#include <algorithm>
#include <cmath>

namespace foreplan::kernels::reference {
namespace {

template <class T>
bool among(const std::vector<T>& known, T value) {
  return std::find(known.begin(), known.end(), value) != known.end();
}

template <class T>
std::string names(const std::vector<T>& values) {
  std::vector<std::string_view> words;
  for (const T value : values) words.push_back(name(value));
  return join(words);
}

/// Collects what is wrong with one question.
class Reader {
 public:
  explicit Reader(const Question& question) : question_(question) {}

  void check_types(const Accepted& accepted) {
    if (!among(accepted.passes, question_.pass)) {
      add("pass " + std::string(name(question_.pass)) + "; has " + names(accepted.passes), "pass");
    }
    if (!among(accepted.inputs, question_.input)) {
      add("input " + std::string(name(question_.input)) + "; takes " + names(accepted.inputs),
          "input");
    }
    const auto& outputs =
        accepted.outputs.empty() ? std::vector<DType>{question_.input} : accepted.outputs;
    if (!among(outputs, question_.output)) {
      add("output " + std::string(name(question_.output)) + "; gives " + names(outputs), "output");
    }
  }

  RowShape shape() {
    const auto* const rows = std::get_if<RowShape>(&question_.shape);
    if (!rows) {
      add("the shape is not rows x cols", "shape");
      return {};
    }
    if (rows->rows < 1) add("rows = " + std::to_string(rows->rows) + "; at least 1", "rows");
    if (rows->cols < 1 || rows->cols > kMostCols) {
      add("cols = " + std::to_string(rows->cols) + "; 1 to " + std::to_string(kMostCols), "cols");
    } else if (rows->rows > kMostElements / rows->cols) {
      add("rows x cols is more than " + std::to_string(kMostElements), "rows");
    }
    return *rows;
  }

  std::map<std::string, std::int64_t, std::less<>> parameters(std::span<const Parameter> declared) {
    std::map<std::string, std::int64_t, std::less<>> values;
    std::vector<std::string_view> known;
    for (const Parameter& parameter : declared) {
      known.push_back(parameter.name);
      const std::int64_t value = parameter_of(question_, declared, parameter.name);
      values.emplace(parameter.name, value);
      if (value < parameter.least || value > parameter.most) {
        add(std::to_string(value) + "; " + std::to_string(parameter.least) + " to " +
                std::to_string(parameter.most) + " (" + std::string(parameter.meaning) + ")",
            parameter.name);
      }
    }
    for (const auto& [name, value] : question_.parameters) {
      if (values.contains(name)) continue;
      add("unknown parameter " + in_quotes(name) +
              (known.empty() ? "; there are none" : "; there are " + join(known)),
          name);
    }
    return values;
  }

  Errors errors;

 private:
  void add(std::string message, std::string_view key) {
    errors.push_back({question_.op + ": " + std::move(message), {.key = std::string(key)}});
  }
  const Question& question_;
};

}  // namespace

std::int64_t RowQuestion::parameter(std::string_view name) const {
  const auto found = parameters.find(name);
  FOREPLAN_ASSERT(found != parameters.end(), "a case asks for a parameter that it declares");
  return found->second;
}

std::int64_t parameter_of(const Question& question, std::span<const Parameter> parameters,
                          std::string_view name) {
  const auto given = question.parameters.find(std::string(name));
  if (given != question.parameters.end()) return given->second;
  const auto declared = std::find_if(parameters.begin(), parameters.end(),
                                     [name](const Parameter& p) { return p.name == name; });
  FOREPLAN_ASSERT(declared != parameters.end(), "a kernel asks for a parameter that it declares");
  return declared->fallback;
}

Result<RowQuestion> read_rows(const Question& question, std::span<const Parameter> parameters,
                              const Accepted& accepted) {
  Reader reader(question);
  reader.check_types(accepted);
  RowQuestion rows{.pass = question.pass,
                   .shape = reader.shape(),
                   .input = question.input,
                   .output = question.output,
                   .parameters = reader.parameters(parameters)};
  if (!reader.errors.empty()) return fail(std::move(reader.errors));
  return rows;
}

Storage storage_of(DType type) {
  switch (type) {
    case DType::fp32: return Storage::fp32;
    case DType::tf32: return Storage::tf32;
    case DType::fp16: return Storage::fp16;
    case DType::bf16: return Storage::bf16;
    case DType::fp8_e4m3: return Storage::fp8_e4m3;
    case DType::fp8_e5m2: return Storage::fp8_e5m2;
    case DType::fp4_e2m1:
    case DType::int8: break;
  }
  FOREPLAN_ASSERT(false, "no kernel stores this type");
}

double rounding(Storage storage) {
  switch (storage) {
    case Storage::fp32: return 0x1p-24;
    case Storage::tf32:
    case Storage::fp16: return 0x1p-11;
    case Storage::bf16: return 0x1p-8;
    case Storage::fp8_e4m3: return 0x1p-4;
    case Storage::fp8_e5m2: return 0x1p-3;
    case Storage::int32:
    case Storage::int64:
    case Storage::uint8: return 0;
  }
  return 0;
}

double smallest_error(Storage storage) {
  switch (storage) {
    case Storage::fp32:
    case Storage::tf32:
    case Storage::bf16: return 0x1p-134;
    case Storage::fp16: return 0x1p-25;
    case Storage::fp8_e4m3: return 0x1p-10;
    case Storage::fp8_e5m2: return 0x1p-17;
    case Storage::int32:
    case Storage::int64:
    case Storage::uint8: return 0;
  }
  return 0;
}

double sum_error(std::int64_t terms, double total) {
  const double additions =
      48 + static_cast<double>(terms) / 512 + std::log2(static_cast<double>(terms));
  return additions * kFp32Error * total;
}

Operand input(std::string_view name, std::int64_t elements, Storage storage, Fill fill,
              double scale) {
  return {.name = name, .elements = elements, .storage = storage, .fill = fill, .scale = scale};
}

Operand output(std::string_view name, std::int64_t elements, Storage storage, double absolute,
               double relative) {
  return {.name = name,
          .elements = elements,
          .storage = storage,
          .fill = Fill::unwritten,
          .absolute = absolute + smallest_error(storage),
          .relative = relative + rounding(storage)};
}

}  // namespace foreplan::kernels::reference
