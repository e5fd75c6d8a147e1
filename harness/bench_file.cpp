#include "harness/bench_file.hpp"

#include "core/document.hpp"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <set>

namespace foreplan::harness {
namespace {

constexpr std::int64_t kMostSize = std::int64_t{1} << 40;
constexpr std::int64_t kMostRanks = 1'000'000;

template <class Traits>
std::vector<std::string_view> names_of(const Traits& table) {
  std::vector<std::string_view> names;
  for (const auto& row : table) names.push_back(row.name);
  return names;
}

/// One entry of the list. Keys are noted as they are read; what is left over is unknown.
class PointReader {
 public:
  explicit PointReader(Node node) : node_(std::move(node)) {}

  Point read() {
    Point point;
    const std::string op = required("op").text();
    const auto kind = collective_named(op);
    if (kind) {
      point.question = collective(*kind);
    } else if (op == "overlap") {
      point.question = overlap();
    } else {
      point.question = kernel(op);
    }
    point.cache = static_cast<CacheMode>(word("cache", {"cold", "hot"}));
    point.launch = static_cast<LaunchMode>(word("launch", {"stream", "graph"}));
    point.selection = static_cast<Selection>(word("selection", {"heuristic", "autotuned"}));
    if (const auto variant = optional("variant")) point.variant = variant->text();
    if (const auto reason = optional("reason")) point.reason = reason->text();
    constexpr double kLeastWeight = 1e-9, kMostWeight = 1e9;
    if (const auto weight = optional("weight")) {
      point.weight = weight->number(kLeastWeight, kMostWeight);
    }
    refuse_others();
    return point;
  }

 private:
  Node required(std::string_view key) {
    known_.push_back(key);
    return node_.required(key);
  }
  std::optional<Node> optional(std::string_view key) {
    known_.push_back(key);
    return node_.find(key);
  }
  std::int64_t size(std::string_view key) { return required(key).integer(1, kMostSize); }
  std::int64_t size_or(std::string_view key, std::int64_t fallback, std::int64_t low,
                       std::int64_t high = kMostSize) {
    const auto node = optional(key);
    return node ? node->integer(low, high) : fallback;
  }
  /// Position of the word; the first where the key is missing.
  std::size_t word(std::string_view key, const std::vector<std::string_view>& words) {
    const auto node = optional(key);
    return node ? node->one_of(words) : 0;
  }
  bool flag_or(std::string_view key, bool fallback) {
    const auto node = optional(key);
    return node ? node->boolean() : fallback;
  }

  static std::optional<CollectiveKind> collective_named(std::string_view op) {
    for (const CollectiveTraits& row : kCollectives) {
      if (row.name == op) return row.kind;
    }
    return std::nullopt;
  }

  /// `pass`, with `backward` for dgrad; `layout` says the same of a product and must agree.
  Pass pass() {
    constexpr Pass kPasses[] = {Pass::forward, Pass::dgrad, Pass::wgrad, Pass::dgrad};
    constexpr Pass kLayouts[] = {Pass::forward, Pass::dgrad, Pass::wgrad};
    std::optional<Pass> stated;
    if (const auto node = optional("pass")) {
      stated = kPasses[node->one_of({"forward", "dgrad", "wgrad", "backward"})];
    }
    if (const auto node = optional("layout")) {
      const Pass laid_out = kLayouts[node->one_of({"tn", "nn", "nt"})];
      if (stated && *stated != laid_out) {
        node->error(
            fmt::format("this layout belongs to pass {}, but pass is {} (tn: forward, nn: "
                        "dgrad, nt: wgrad)",
                        name(laid_out), name(*stated)));
      }
      stated = laid_out;
    }
    return stated.value_or(Pass::forward);
  }

  DType dtype(std::string_view key, std::optional<DType> fallback) {
    known_.push_back(key);
    const auto node = fallback ? node_.find(key) : std::optional{node_.required(key)};
    return node ? kDTypes[node->one_of(names_of(kDTypes))].dtype : *fallback;
  }

  OperatorShape shape(const std::string& op) {
    if (op == "gemm" || op == "grouped_gemm") {
      return GemmShape{size("m"), size("n"), size("k"), size_or("batch", 1, 1)};
    }
    if (op == "attention") {
      AttentionShape s;
      s.batch = size("batch");
      s.heads_q = size("heads");
      s.heads_kv = size_or("kv_heads", s.heads_q, 1);
      s.q_len = size("q_len");
      s.kv_len = size_or("kv_len", s.q_len, 1);
      s.head_dim_qk = size("head_dim_qk");
      s.head_dim_v = size_or("head_dim_v", s.head_dim_qk, 1);
      s.window = size_or("window", 0, 0);
      s.causal = flag_or("causal", true);
      if (s.heads_q % s.heads_kv != 0) {
        node_.error(fmt::format("kv_heads = {} does not divide heads = {}", s.heads_kv, s.heads_q));
      }
      return s;
    }
    return RowShape{size("rows"), size("cols")};
  }

  kernels::Question kernel(const std::string& op) {
    kernels::Question q{
        .op = op, .pass = pass(), .shape = shape(op), .input = {}, .output = {}, .parameters = {}};
    q.input = dtype("dtype", std::nullopt);
    q.output = dtype("dtype_out", q.input);
    if (const auto parameters = optional("parameters")) {
      for (const std::string& parameter : parameters->keys()) {
        q.parameters[parameter] = parameters->required(parameter).integer(-kMostSize, kMostSize);
      }
    }
    return q;
  }

  CollectivePoint collective(CollectiveKind kind) {
    return {.kind = kind,
            .size_bytes = size("size_bytes"),
            .group_size = static_cast<int>(size_or("ranks", 0, 2, kMostRanks)),
            .stride = static_cast<int>(size_or("stride", 1, 1, kMostRanks)),
            .nodes = static_cast<int>(size_or("nodes", 0, 1, kMostRanks)),
            .dtype = dtype("dtype", DType::bf16),
            .in_place = flag_or("in_place", false)};
  }

  OverlapPoint overlap() {
    OverlapPoint o;
    const Node kernel_node = required("kernel"), collective_node = required("collective");
    PointReader kernel_reader(kernel_node), collective_reader(collective_node);
    o.kernel = kernel_reader.kernel(kernel_reader.required("op").text());
    kernel_reader.refuse_others();
    const Node op = collective_reader.required("op");
    const auto index = op.one_of(names_of(kCollectives));
    o.collective = collective_reader.collective(kCollectives[index].kind);
    collective_reader.refuse_others();
    o.time_kernel = word("timed", {"kernel", "collective"}) == 0;
    return o;
  }

  void refuse_others() const {
    const std::set<std::string_view> known(known_.begin(), known_.end());
    const std::vector<std::string_view> list(known.begin(), known.end());
    if (!node_.is_map()) return;  // told by the first key that was missed
    for (const std::string& one : node_.keys()) {
      if (known.contains(one)) continue;
      const auto near = nearest(one, list);
      const auto node = node_.find(one);
      node->error(fmt::format("unknown key{}; keys here: {}",
                              near.empty() ? "" : fmt::format(", did you mean \"{}\"", near),
                              join(list)));
    }
  }

  Node node_;
  std::vector<std::string_view> known_;
};

BenchFile read_root(const Node& root) {
  BenchFile file;
  root.only({"foreplan_bench", "device", "points"});
  constexpr std::int64_t kVersion = 1;
  static_cast<void>(root.required("foreplan_bench").integer(kVersion, kVersion));
  if (const auto device = root.find("device")) file.device = device->text();
  std::map<std::string, int> lines;
  const Node points = root.required("points");
  const std::vector<Node> items = points.items();
  if (points.is_list() && items.empty()) points.error("the list is empty: nothing to measure");
  for (const Node& item : items) {
    file.points.push_back(PointReader(item).read());
    const int line = item.place().line;
    const auto [first, is_new] = lines.try_emplace(key(file.points.back()), line);
    if (!is_new) item.error(fmt::format("asks the same as line {}", first->second));
  }
  return file;
}

Result<BenchFile> read_document(const Result<Document>& document) {
  if (!document) return fail(document.error());
  BenchFile file = read_root(document->root());
  if (!document->ok()) return fail(document->errors());
  return file;
}

}  // namespace

Result<BenchFile> read_bench_file(const std::filesystem::path& file) {
  return read_document(Document::read_yaml(file));
}

Result<BenchFile> parse_bench_file(std::string text, std::string file_name) {
  return read_document(Document::parse_yaml(std::move(text), std::move(file_name)));
}

}  // namespace foreplan::harness
