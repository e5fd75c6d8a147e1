#pragma once
// A kernel as everyone who runs one sees it: a name, the shapes that it takes, what it is given,
// what it counts, a plain launch function, and a reference in double precision to be checked
// against.

#include "core/dtype.hpp"
#include "core/operator.hpp"
#include "core/quantity.hpp"
#include "core/result.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace foreplan::kernels {

/// What a kernel is asked to compute. `op` is the word of core/operator.hpp or of a kernel that the
/// simulator does not know ("copy_strided", "grad_norm"); `parameters` are whole numbers that a
/// shape does not hold ("vocabulary", "experts", "topk"), each declared by its kernel.
struct Question {
  std::string op;
  Pass pass = Pass::forward;
  OperatorShape shape;
  DType input = DType::bf16;
  DType output = DType::bf16;
  std::map<std::string, std::int64_t> parameters;
};

/// The least that any implementation computes and moves: each input once, each output once.
struct Work {
  Flops flops;
  Bytes read, written;
  [[nodiscard]] Bytes bytes() const { return read + written; }
};

/// How the harness fills a buffer before the first launch. Never zeros: they draw less power.
enum class Fill : std::uint8_t {
  normal,       ///< mean 0, standard deviation `scale`
  uniform,      ///< 0 to `scale`
  index,        ///< whole numbers from 0 to `limit` - 1
  permutation,  ///< 0 to elements - 1, each once
  ones,         ///< scales of quantised operands
  listed,       ///< `contents`, over and over
  accumulator,  ///< normal; the kernel adds to it
  unwritten,    ///< an output: filled with NaN bytes, so that a hole shows
};

/// Elements as a buffer stores them.
enum class Storage : std::uint8_t {
  fp32,
  tf32,
  fp16,
  bf16,
  fp8_e4m3,
  fp8_e5m2,
  int32,
  int64,
  uint8
};
[[nodiscard]] std::size_t bytes_per_element(Storage storage);

/// One buffer of a case.
struct Operand {
  std::string_view name;
  std::int64_t elements = 0;
  Storage storage = Storage::bf16;
  Fill fill = Fill::normal;
  double scale = 1;                ///< of `normal` and `uniform`
  std::int64_t limit = 0;          ///< of `index`
  std::vector<double> contents{};  ///< of `listed`, never empty there
  bool updated = false;  ///< read and written: filled as `fill` says, compared as an output
  /// Of outputs: allowed |got - reference| <= absolute + relative * |reference|. Derived where the
  /// case is made, from the length of its sums and the types involved.
  double absolute = 0, relative = 0;
  [[nodiscard]] bool is_output() const {
    return updated || fill == Fill::unwritten || fill == Fill::accumulator;
  }
  [[nodiscard]] std::size_t bytes() const {
    return static_cast<std::size_t>(elements) * bytes_per_element(storage);
  }
};

/// A stream of the device; null on a host.
using Stream = void*;

/// One kernel at one shape, ready for buffers.
struct Case {
  std::vector<Operand> operands;
  std::size_t workspace_bytes = 0;
  Work work;
  std::string algorithm;  ///< what was chosen, as provenance: tile, split, library's own name
  /// Enqueues the kernel and returns; throws std::runtime_error where the launch itself fails.
  /// `buffers` stand in the order of `operands`.
  std::function<void(std::span<void* const> buffers, void* workspace, Stream stream)> launch;
  /// The same in double: reads the inputs (already rounded to their storage) and fills the outputs.
  std::function<void(std::span<std::span<double>> values)> reference;
};

/// A whole number that a kernel takes beside its shape.
struct Parameter {
  std::string_view name;
  std::int64_t fallback = 0, least = 0, most = 0;
  std::string_view meaning;
};

/// One implementation of one operator on one kind of device.
struct Kernel {
  std::string_view op;       ///< what Question::op has to be
  std::string_view variant;  ///< "mma", "wgmma", "cublaslt", "onednn"; unique within `op`
  std::string_view summary;
  std::vector<Parameter> parameters;
  /// Fails, in words, for a shape, type or pass that it does not do.
  Result<Case> (*make)(const Question& question);
};

}  // namespace foreplan::kernels
