// Every host kernel against its reference in double precision, over odd shapes, with one thread and
// two. What an output may err is derived from types and lengths of sums where the case is made.

#include "harness/targets/host/host_kind.hpp"
#include "harness/targets/target_kind.hpp"

#include <gtest/gtest.h>

#include <exception>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

namespace foreplan::harness {
namespace {

using Values = std::map<std::string, std::int64_t>;

Point point_of(std::string op, Pass pass, OperatorShape shape, DType type, Values values = {}) {
  Point point;
  point.cache = CacheMode::hot;  // one set of buffers
  point.question = kernels::Question{.op = std::move(op),
                                     .pass = pass,
                                     .shape = shape,
                                     .input = type,
                                     .output = type,
                                     .parameters = std::move(values)};
  return point;
}

Point with_output(Point point, DType output) {
  std::get<kernels::Question>(point.question).output = output;
  return point;
}

constexpr DType kTypes[] = {DType::fp32, DType::bf16};
constexpr Pass kBoth[] = {Pass::forward, Pass::dgrad};

void add_products(std::vector<Point>& points) {
  for (const DType type : kTypes) {
    for (const Pass pass : {Pass::forward, Pass::dgrad, Pass::wgrad}) {
      for (const GemmShape& shape : {GemmShape{1, 1, 1, 1}, GemmShape{7, 33, 129, 1},
                                     GemmShape{96, 64, 200, 1}, GemmShape{5, 17, 40, 3}}) {
        points.push_back(point_of("gemm", pass, shape, type));
        points.push_back(
            with_output(point_of("gemm", pass, shape, type, {{"accumulate", 1}}), DType::fp32));
      }
    }
    for (const Values& values :
         {Values{{"bias", 1}}, Values{{"gelu", 1}}, Values{{"bias", 1}, {"gelu", 1}}}) {
      points.push_back(point_of("gemm", Pass::forward, GemmShape{7, 33, 129, 1}, type, values));
      points.push_back(point_of("gemm", Pass::forward, GemmShape{5, 17, 40, 3}, type, values));
    }
  }
}

/// Fields in order: batch, query heads, key heads, queries, keys, both head sizes, window, causal.
void add_attention(std::vector<Point>& points) {
  const AttentionShape kShapes[] = {
      {1, 1, 1, 1, 1, 8, 8, 0, true},        {2, 4, 2, 70, 70, 64, 64, 0, true},
      {1, 2, 1, 300, 300, 32, 16, 0, false}, {1, 2, 2, 40, 300, 24, 40, 0, true},
      {1, 1, 1, 300, 40, 16, 16, 0, true},   {1, 2, 1, 400, 400, 64, 64, 50, true},
      {1, 1, 1, 1, 513, 64, 64, 0, true},
  };
  for (const DType type : kTypes) {
    for (const Pass pass : kBoth) {
      for (const AttentionShape& shape : kShapes) {
        points.push_back(point_of("attention", pass, shape, type));
      }
      points.push_back(point_of("attention", pass,
                                AttentionShape{3, 4, 2, 150, 290, 64, 64, 0, true}, type,
                                {{"ragged", 1}}));
    }
  }
}

void add_rows(std::vector<Point>& points) {
  const RowShape kShapes[] = {{1, 1}, {7, 33}, {3, 129}, {65, 1024}, {2, 4097}};
  for (const DType type : kTypes) {
    for (const Pass pass : kBoth) {
      for (const RowShape shape : kShapes) {
        for (const char* op : {"rms_norm", "layer_norm", "softmax", "cross_entropy"}) {
          points.push_back(point_of(op, pass, shape, type));
        }
        for (const std::int64_t form : {0, 1, 2}) {
          points.push_back(point_of("activation", pass, shape, type, {{"form", form}}));
        }
        points.push_back(point_of("add", pass, shape, type));
        points.push_back(point_of("add", pass, shape, type, {{"branches", 2}}));
        points.push_back(with_output(point_of("embedding", pass, shape, type, {{"vocabulary", 11}}),
                                     pass == Pass::forward ? type : DType::fp32));
      }
      points.push_back(point_of("rope", pass, RowShape{65, 1024}, type, {{"positions", 40}}));
      points.push_back(point_of("rope", pass, RowShape{33, 66}, type,
                                {{"head_dim", 6}, {"positions", 5}, {"axes", 3}}));
    }
  }
}

void add_flat(std::vector<Point>& points) {
  for (const RowShape shape : {RowShape{1, 1}, RowShape{3, 129}, RowShape{41, 1000}}) {
    for (const DType type : kTypes) {
      points.push_back(point_of("optimizer", Pass::forward, shape, type));
      points.push_back(with_output(point_of("grad_norm", Pass::forward, shape, type), DType::fp32));
    }
    for (const DType type : {DType::fp32, DType::fp16, DType::bf16, DType::fp8_e4m3}) {
      points.push_back(point_of("copy", Pass::forward, shape, type));
      points.push_back(point_of("fill", Pass::forward, shape, type));
      points.push_back(point_of("copy_strided", Pass::forward, shape, type));
    }
  }
}

std::vector<Point> all_points() {
  std::vector<Point> points;
  add_products(points);
  add_attention(points);
  add_rows(points);
  add_flat(points);
  return points;
}

std::unique_ptr<Target> target_of(const std::string& threads) {
  auto target = host_kind().make(
      {.device_name = {}, .seed = 5, .clock = nullptr, .settings = {{"threads", threads}}});
  return target ? std::move(*target) : nullptr;
}

class HostKernels : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const Availability there = host_kind().look();
    if (!there.usable) GTEST_SKIP() << there.reason;
    target_ = target_of(GetParam());
    ASSERT_NE(target_, nullptr);
  }
  std::unique_ptr<Target> target_;
};

TEST_P(HostKernels, AgreeWithTheirReferences) {
  int compared = 0;
  for (const Point& point : all_points()) {
    auto ready = target_->prepare(point);
    if (!ready && to_text(ready.error()).find("oneDNN has no such product") != std::string::npos &&
        std::get<kernels::Question>(point.question).input == DType::bf16) {
      continue;  // a processor without bf16 products
    }
    ASSERT_TRUE(ready) << key(point) << ": " << to_text(ready.error());
    try {
      const Check check = (*ready)->check();
      EXPECT_TRUE(check.right) << key(point) << ": " << check.message;
      ++compared;
    } catch (const std::exception& failure) {
      ADD_FAILURE() << key(point) << ": " << failure.what();
    }
  }
  EXPECT_GT(compared, 250);
}

TEST_P(HostKernels, RefuseInWordsWhatTheyDoNotDo) {
  const Point refused[] = {
      point_of("gemm", Pass::forward, GemmShape{8, 8, 8, 1}, DType::fp8_e4m3),
      point_of("attention", Pass::forward, AttentionShape{1, 1, 1, 8, 8, 8, 8, 0, true},
               DType::fp16),
      point_of("rms_norm", Pass::forward, RowShape{2, 8}, DType::fp16),
      point_of("optimizer", Pass::forward, RowShape{2, 8}, DType::bf16, {{"state_bits", 8}}),
      point_of("route", Pass::forward, RowShape{2, 8}, DType::fp32),
  };
  for (const Point& point : refused) {
    const auto ready = target_->prepare(point);
    ASSERT_FALSE(ready) << key(point);
    EXPECT_FALSE(ready.error().front().message.empty());
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, HostKernels, testing::Values("1", "2"));

}  // namespace
}  // namespace foreplan::harness
