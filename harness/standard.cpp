#include "harness/standard.hpp"

#include "harness/session/nominal.hpp"

#include <array>
#include <cmath>
#include <string>
#include <utility>

namespace foreplan::harness {
namespace {

/// What a point is worth, in steps: the coarse picture before the fine one.
constexpr double kCoarse = 8, kMedium = 4, kFine = 2, kFinest = 1;

class StandardList {
 public:
  StandardList(const StandardScope& scope, int ranks) : scope_(scope), ranks_(ranks) {}

  std::vector<Point> make() {
    if (ranks_ > 1) {
      collectives();
      return std::move(points_);
    }
    for (const DType type : scope_.gemm_types) {
      transformer_gemms(type);
      grid_gemms(type);
    }
    for (const DType type : scope_.attention_types) attention(type);
    row_operators();
    copies();
    return std::move(points_);
  }

 private:
  void add(kernels::Question question, double weight, std::string reason,
           std::string variant = {}) {
    const kernels::Work work = nominal_work(question);
    if (work.flops > scope_.largest_product || work.bytes() > scope_.largest_buffer) return;
    Point point;
    point.question = std::move(question);
    point.weight = weight;
    point.reason = std::move(reason);
    point.variant = std::move(variant);
    points_.push_back(std::move(point));
  }

  void add_gemm(const GemmShape& shape, DType type, Pass pass, double weight,
                const std::string& reason) {
    const bool narrow = bytes_per_element(type) < 2;
    // Weight gradients add up in fp32, as training frameworks keep them.
    const DType out = pass == Pass::wgrad ? DType::fp32 : narrow ? DType::bf16 : type;
    add({.op = "gemm",
         .pass = pass,
         .shape = shape,
         .input = type,
         .output = out,
         .parameters = {}},
        weight, reason);
  }

  /// The four products of a layer with hidden size h and feed-forward size f, of t tokens.
  void transformer_gemms(DType type) {
    for (const std::int64_t tokens : scope_.tokens) {
      for (const LayerShape& layer : scope_.layers) {
        const std::pair<std::int64_t, std::int64_t> outputs_inputs[] = {
            {3 * layer.hidden / 2, layer.hidden},
            {layer.hidden, layer.hidden},
            {2 * layer.feed_forward, layer.hidden},
            {layer.hidden, layer.feed_forward}};
        for (const auto& [out, in] : outputs_inputs) {
          const std::string why = "layer of hidden size " + std::to_string(layer.hidden);
          add_gemm({tokens, out, in, 1}, type, Pass::forward, kCoarse, why);
          add_gemm({tokens, in, out, 1}, type, Pass::dgrad, kMedium, why);
          add_gemm({out, in, tokens, 1}, type, Pass::wgrad, kMedium, why);
        }
      }
    }
  }

  /// Every combination of a few sizes, one of them no multiple of a tile.
  void grid_gemms(DType type) {
    for (const std::int64_t m : scope_.grid) {
      for (const std::int64_t n : scope_.grid) {
        for (const std::int64_t k : scope_.grid) {
          const bool cube = m == n && n == k;
          const bool twins = m == n || n == k;
          const double weight = cube ? kCoarse : twins ? kFine : kFinest;
          add_gemm({m, n, k, 1}, type, Pass::forward, weight, "log-spaced grid");
        }
      }
    }
    for (const std::int64_t batch : {4, 32}) {
      add_gemm({1024, 1024, 128, batch}, type, Pass::forward, kFine, "batched products");
    }
  }

  void attention(DType type) {
    for (const HeadShape& heads : scope_.heads) {
      for (const std::int64_t length : scope_.sequences) {
        for (const std::int64_t batch : {1, 4}) {
          for (const bool causal : {true, false}) {
            const bool usual = heads.dim == 128 && causal;
            const double weight = usual ? kCoarse : causal ? kMedium : kFine;
            kernels::Question q{.op = "attention",
                                .pass = Pass::forward,
                                .shape = AttentionShape{batch, heads.queries, heads.keys, length,
                                                        length, heads.dim, heads.dim, 0, causal},
                                .input = type,
                                .output = type,
                                .parameters = {}};
            for (const Pass pass : {Pass::forward, Pass::dgrad}) {
              q.pass = pass;
              add(q, weight, "sequence length " + std::to_string(length));
              if (usual && !scope_.attention_library.empty()) {
                add(q, kMedium, "beside our own attention", scope_.attention_library);
              }
            }
          }
        }
      }
    }
  }

  void add_rows(const std::string& op, Pass pass, RowShape shape, double weight,
                std::map<std::string, std::int64_t> parameters = {}) {
    add({.op = op,
         .pass = pass,
         .shape = shape,
         .input = scope_.row_type,
         .output = scope_.row_type,
         .parameters = std::move(parameters)},
        weight, "bound by memory");
  }

  void row_operators() {
    constexpr std::int64_t kSwiGlu = 1;  // its place among the forms of `activation`
    const std::int64_t usual = scope_.rows[scope_.rows.size() / 2];
    for (const std::int64_t rows : scope_.rows) {
      for (const std::int64_t cols : scope_.cols) {
        const RowShape shape{rows, cols};
        const double weight = rows == usual ? kCoarse : kMedium;
        for (const char* op : {"rms_norm", "layer_norm", "add"}) {
          add_rows(op, Pass::forward, shape, weight);
        }
        for (const char* op : {"rms_norm", "layer_norm"}) add_rows(op, Pass::dgrad, shape, weight);
        add_rows("activation", Pass::forward, shape, weight, {{"form", kSwiGlu}});
        add_rows("activation", Pass::dgrad, shape, weight, {{"form", kSwiGlu}});
        add_rows("rope", Pass::forward, shape, weight);
        add_rows("optimizer", Pass::forward, shape, kMedium);
        add_rows("grad_norm", Pass::forward, shape, kFine);
      }
    }
    for (const DType type : scope_.gemm_types) {
      if (bytes_per_element(type) < 2) casts(type);
    }
    for (const std::int64_t vocabulary : scope_.vocabularies) {
      for (const Pass pass : {Pass::forward, Pass::dgrad}) {
        for (const std::int64_t rows : scope_.rows) {
          add_rows("cross_entropy", pass, {rows / 2, vocabulary},
                   rows == usual ? kMedium : kFinest);
          add_rows("embedding", pass, {rows, scope_.cols[1]}, rows == usual ? kFine : kFinest,
                   {{"vocabulary", vocabulary}});
        }
      }
    }
  }

  void casts(DType narrow) {
    for (const std::int64_t rows : scope_.rows) {
      add({.op = "quantize",
           .pass = Pass::forward,
           .shape = RowShape{rows, scope_.cols[1]},
           .input = scope_.row_type,
           .output = narrow,
           .parameters = {}},
          kFine, "cast of a product's operand");
    }
  }

  void copies() {
    std::vector<const char*> ops = {"copy", "fill"};
    if (scope_.has_host_copies) {
      ops.push_back("copy_to_device");
      ops.push_back("copy_to_host");
    }
    for (int power = 0; power <= 16; ++power) {
      const RowShape shape{std::int64_t{16} << power, 1024};
      for (const char* op : ops) add_rows(op, Pass::forward, shape, weight_of(power));
    }
  }

  /// Of sizes in powers of two: every third is the coarse picture, those between show caches and
  /// changes of protocol.
  static double weight_of(int power) { return power % 3 == 0 ? kCoarse : kFine; }

  void collectives() {
    const int all = ranks_;
    std::vector<std::pair<int, int>> groups = {{all, 1}};  // size and stride
    if (all > 2 && all % 2 == 0 && !scope_.all_ranks_only) {
      groups.emplace_back(all / 2, 1);
      groups.emplace_back(all / 2, 2);
    }
    for (const auto& [size, stride] : groups) {
      for (const CollectiveTraits& traits : kCollectives) {
        const bool usual = traits.kind <= CollectiveKind::all_to_all && size == all;
        for (int power = 0; message(power) <= scope_.largest_message; ++power) {
          const double weight = (usual ? 1 : 0.5) * weight_of(power);
          add_collective(traits.kind, size, stride, message(power), weight);
          const Bytes between = 1.5 * message(power);
          if (between > scope_.largest_message) break;
          add_collective(traits.kind, size, stride, between, kFinest / 2);
        }
      }
    }
  }

  static Bytes message(int power) { return Bytes{std::ldexp(1024, power)}; }

  void add_collective(CollectiveKind kind, int size, int stride, Bytes bytes, double weight) {
    Point point;
    point.question = CollectivePoint{.kind = kind,
                                     .size_bytes = static_cast<std::int64_t>(bytes.value),
                                     .group_size = size,
                                     .stride = stride,
                                     .nodes = 0,
                                     .dtype = scope_.row_type,
                                     .in_place = false};
    point.weight = weight;
    point.reason = "collectives";
    points_.push_back(std::move(point));
  }

  const StandardScope& scope_;
  int ranks_;
  std::vector<Point> points_;
};

}  // namespace

std::vector<Point> standard_points(const StandardScope& scope, int ranks) {
  return StandardList(scope, ranks).make();
}

}  // namespace foreplan::harness
