// The YAML list of points: read, refused with places, written and read back.

#include "harness/bench_file.hpp"

#include "harness/standard.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>

namespace foreplan::harness {
namespace {

using ::testing::HasSubstr;

BenchFile read(const std::string& points) {
  const auto file = parse_bench_file("foreplan_bench: 1\npoints:\n" + points, "b.yaml");
  EXPECT_TRUE(file) << to_text(file.error());
  return file ? *file : BenchFile{};
}

std::string refusal(const std::string& points) {
  const auto file = parse_bench_file("foreplan_bench: 1\npoints:\n" + points, "b.yaml");
  return file ? std::string{} : to_text(file.error());
}

TEST(BenchFile, ReadsEveryKindOfPoint) {
  const BenchFile file = read(R"(
  - {op: gemm, m: 4096, n: 8192, k: 1024, dtype: bf16, layout: nt, dtype_out: fp32, reason: "7 %"}
  - {op: attention, batch: 1, heads: 32, kv_heads: 8, q_len: 4096, kv_len: 4096, head_dim_qk: 192, head_dim_v: 128, causal: false, dtype: bf16, pass: backward}
  - {op: rms_norm, rows: 8192, cols: 4096, dtype: bf16, cache: hot, launch: graph, weight: 3}
  - {op: all_reduce, size_bytes: 134217728, ranks: 16, nodes: 2, dtype: fp16, in_place: true}
  - op: overlap
    kernel: {op: gemm, m: 64, n: 64, k: 64, dtype: fp16}
    collective: {op: all_gather, size_bytes: 1024, ranks: 2}
    timed: collective
  - {op: embedding, rows: 16, cols: 64, dtype: bf16, parameters: {vocabulary: 1000}, selection: autotuned, variant: mine}
)");
  ASSERT_EQ(file.points.size(), 6u);
  EXPECT_EQ(key(file.points[0]),
            "gemm wgrad m=4096 n=8192 k=1024 batch=1 in=bf16 out=fp32 cold stream heuristic");
  EXPECT_EQ(file.points[0].reason, "7 %");
  const auto& attention =
      std::get<AttentionShape>(std::get<kernels::Question>(file.points[1].question).shape);
  EXPECT_EQ(attention.heads_kv, 8);
  EXPECT_EQ(attention.head_dim_v, 128);
  EXPECT_FALSE(attention.causal);
  EXPECT_EQ(std::get<kernels::Question>(file.points[1].question).pass, Pass::dgrad);
  EXPECT_EQ(file.points[2].cache, CacheMode::hot);
  EXPECT_EQ(file.points[2].launch, LaunchMode::graph);
  EXPECT_EQ(file.points[2].weight, 3);
  const auto& collective = std::get<CollectivePoint>(file.points[3].question);
  EXPECT_EQ(collective.group_size, 16);
  EXPECT_EQ(collective.nodes, 2);
  EXPECT_TRUE(collective.in_place);
  EXPECT_FALSE(std::get<OverlapPoint>(file.points[4].question).time_kernel);
  EXPECT_EQ(key(file.points[5]),
            "embedding forward rows=16 cols=64 in=bf16 out=bf16 vocabulary=1000 cold stream "
            "autotuned variant=mine");
}

TEST(BenchFile, TellsEveryMistakeWithItsPlace) {
  const std::string wrong = refusal(R"(  - {op: gemm, m: 0, n: 64, dtype: bf61}
  - {op: all_reduce, size_bytes: 64, ranks: 1, colour: red}
  - {op: attention, batch: 1, heads: 6, kv_heads: 4, q_len: 8, head_dim_qk: 64, dtype: bf16}
)");
  EXPECT_THAT(wrong, HasSubstr("b.yaml:3:"));
  EXPECT_THAT(wrong, HasSubstr("points[0].m"));
  EXPECT_THAT(wrong, HasSubstr("k"));
  EXPECT_THAT(wrong, HasSubstr("bf16"));
  EXPECT_THAT(wrong, HasSubstr("colour"));
  EXPECT_THAT(wrong, HasSubstr("kv_heads = 4 does not divide heads = 6"));
  EXPECT_THAT(wrong, HasSubstr("b.yaml:5:"));
}

TEST(BenchFile, AWrongKeyNamesTheNearest) {
  EXPECT_THAT(refusal("  - {op: gemm, m: 1, n: 1, k: 1, dtype: bf16, resaon: x}\n"),
              HasSubstr("did you mean \"reason\""));
}

TEST(BenchFile, LayoutAndPassMustAgree) {
  EXPECT_THAT(refusal("  - {op: gemm, m: 1, n: 1, k: 1, dtype: bf16, layout: tn, pass: dgrad}\n"),
              HasSubstr("layout"));
  EXPECT_EQ(refusal("  - {op: gemm, m: 1, n: 1, k: 1, dtype: bf16, layout: nn, pass: dgrad}\n"),
            "");
}

TEST(BenchFile, AQuestionAskedTwiceIsRefused) {
  EXPECT_THAT(refusal("  - {op: copy, rows: 1, cols: 8, dtype: bf16}\n"
                      "  - {op: copy, cols: 8, rows: 1, dtype: bf16, reason: again}\n"),
              HasSubstr("asks the same as line 3"));
}

TEST(BenchFile, RefusesWhatIsNoList) {
  for (const char* text :
       {"", "foreplan_bench: 2\npoints: [{op: copy, rows: 1, cols: 1, dtype: bf16}]\n",
        "foreplan_bench: 1\n", "foreplan_bench: 1\npoints: []\n", "foreplan_bench: 1\npoints: 3\n",
        "foreplan_bench: 1\npoints: [7]\n", "points: [",
        "foreplan_bench: 1\nextra: 1\npoints: []\n"}) {
    EXPECT_FALSE(parse_bench_file(text, "b.yaml")) << text;
  }
  EXPECT_FALSE(read_bench_file("/nowhere/b.yaml"));
}

TEST(BenchFile, TheStandardListReadsBackAsItWasWritten) {
  StandardScope scope;
  scope.gemm_types = {DType::bf16, DType::fp8_e4m3};
  scope.has_host_copies = true;
  std::vector<Point> points = standard_points(scope, 1);
  points[0].variant = "a \"quoted\" one";
  points[1].reason = "says: {this}, and # that";
  std::vector<Point> messages = standard_points(scope, 4);
  points.insert(points.end(), messages.begin(), messages.end());
  const auto back = parse_bench_file(bench_file_text("H100-SXM5-80GB", points), "b.yaml");
  ASSERT_TRUE(back) << to_text(back.error());
  EXPECT_EQ(back->device, "H100-SXM5-80GB");
  ASSERT_EQ(back->points.size(), points.size());
  for (std::size_t i = 0; i < points.size(); ++i) {
    EXPECT_EQ(key(back->points[i]), key(points[i]));
    EXPECT_EQ(back->points[i].weight, points[i].weight);
    EXPECT_EQ(back->points[i].reason, points[i].reason);
  }
  EXPECT_EQ(points_hash(back->points), points_hash(points));
}

TEST(StandardList, AsksEveryQuestionOnceAndKeepsWithinItsScope) {
  for (const int ranks : {1, 2, 8}) {
    StandardScope scope;
    scope.largest_product = Flops{1e11};
    scope.largest_buffer = Bytes{1e8};
    scope.attention_library = "of_a_library";
    std::set<std::string> keys;
    bool collectives = false;
    const std::vector<Point> points = standard_points(scope, ranks);
    for (const Point& point : points) {
      EXPECT_TRUE(keys.insert(key(point)).second) << key(point);
      if (const auto* q = std::get_if<kernels::Question>(&point.question)) {
        const auto* g = std::get_if<GemmShape>(&q->shape);
        EXPECT_TRUE(g == nullptr || flops(*g) <= Flops{1e11}) << key(point);
      } else {
        collectives = true;
      }
    }
    EXPECT_EQ(collectives, ranks > 1);
  }
}

TEST(StandardList, AsksALibrarysAttentionOnlyBesideTheSameQuestionOfOurOwn) {
  StandardScope scope;
  EXPECT_TRUE(std::ranges::all_of(standard_points(scope, 1),
                                  [](const Point& point) { return point.variant.empty(); }));
  scope.attention_library = "cudnn";
  std::set<std::string> own;
  std::vector<Point> library;
  for (const Point& point : standard_points(scope, 1)) {
    if (point.variant.empty()) {
      own.insert(key(point));
    } else {
      library.push_back(point);
    }
  }
  std::set<Pass> passes;
  for (Point& point : library) {
    EXPECT_EQ(point.variant, "cudnn");
    passes.insert(std::get<kernels::Question>(point.question).pass);
    point.variant.clear();
    EXPECT_TRUE(own.contains(key(point))) << key(point);
  }
  EXPECT_EQ(passes, (std::set{Pass::forward, Pass::dgrad}));
}

// A fit is judged on sizes that were left out: it has to have neighbours. Every message has one
// within half an octave (3/2 or 4/3 of it), every copy within one.
TEST(StandardList, LeavesNoGapBetweenMessagesOrCopies) {
  StandardScope scope;
  scope.largest_message = Bytes{1e8};
  std::map<std::string, std::set<std::int64_t>> sizes;
  for (const int ranks : {1, 2}) {
    for (const Point& point : standard_points(scope, ranks)) {
      if (const auto* c = std::get_if<CollectivePoint>(&point.question)) {
        sizes[std::string{name(c->kind)}].insert(c->size_bytes);
      } else if (const auto* q = std::get_if<kernels::Question>(&point.question);
                 q != nullptr && q->op == "copy") {
        sizes["copy"].insert(std::get<RowShape>(q->shape).rows);
      }
    }
  }
  EXPECT_EQ(sizes.size(), 1 + std::size(kCollectives));
  for (const auto& [of, all] : sizes) {
    const double most = of == "copy" ? 2.0 : 1.5;
    for (auto next = std::next(all.begin()); next != all.end(); ++next) {
      EXPECT_LE(static_cast<double>(*next), most * static_cast<double>(*std::prev(next))) << of;
    }
  }
  EXPECT_GT(2.0 * static_cast<double>(*sizes["all_reduce"].rbegin()), 1e8);
}

TEST(StandardList, LeavesGroupsOfSomeRanksOutWhereRanksTakeTurns) {
  StandardScope scope;
  const auto groups = [&scope] {
    std::set<int> found;
    for (const Point& point : standard_points(scope, 4)) {
      const auto* c = std::get_if<CollectivePoint>(&point.question);
      if (c != nullptr) found.insert(c->group_size);
    }
    return found;
  };
  EXPECT_EQ(groups(), (std::set{2, 4}));
  scope.all_ranks_only = true;
  EXPECT_EQ(groups(), std::set{4});
}

TEST(PointsHash, DoesNotDependOnOrderReasonOrWeight) {
  std::vector<Point> points = standard_points({}, 1);
  const std::string hash = points_hash(points);
  std::swap(points.front(), points.back());
  points[3].weight = 77;
  points[3].reason = "another";
  EXPECT_EQ(points_hash(points), hash);
  points[3].cache = CacheMode::hot;
  EXPECT_NE(points_hash(points), hash);
}

}  // namespace
}  // namespace foreplan::harness
