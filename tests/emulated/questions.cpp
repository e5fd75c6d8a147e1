#include "tests/emulated/questions.hpp"

#include <map>
#include <string>
#include <utility>

namespace foreplan::kernels {
namespace {

using Values = std::map<std::string, std::int64_t>;

const std::vector<DType> kFloats{DType::fp32, DType::fp16, DType::bf16};
const std::vector<Pass> kForward{Pass::forward};
const std::vector<Pass> kBoth{Pass::forward, Pass::dgrad};

/// Rows of 1, of less and of a bit more than a warp or a block, whole vectors and not.
const std::vector<RowShape> kRows{{1, 1},   {7, 33},  {3, 127},  {5, 128},
                                  {2, 129}, {9, 512}, {2, 1024}, {1, 4097}};
/// 512 threads with 2 and with 4 vectors each, and more than they hold, in 16-bit types.
const std::vector<RowShape> kHeldRows{{2, 8192}, {1, 12288}};
const std::vector<RowShape> kLongRows{{1, 16392}};

class List {
 public:
  explicit List(std::string_view op) : op_(op) {}

  List& add(const std::vector<Pass>& passes, const std::vector<RowShape>& shapes,
            const std::vector<std::pair<DType, DType>>& types,
            const std::vector<Values>& parameters) {
    for (const Pass pass : passes) {
      for (const RowShape shape : shapes) {
        for (const auto& [in, out] : types) {
          for (const Values& values : parameters) {
            questions_.push_back({.op = op_,
                                  .pass = pass,
                                  .shape = shape,
                                  .input = in,
                                  .output = out,
                                  .parameters = values});
          }
        }
      }
    }
    return *this;
  }
  operator std::vector<Question>() const { return questions_; }

 private:
  std::string op_;
  std::vector<Question> questions_;
};

std::vector<std::pair<DType, DType>> same(const std::vector<DType>& types) {
  std::vector<std::pair<DType, DType>> pairs;
  for (const DType type : types) pairs.emplace_back(type, type);
  return pairs;
}
const auto kSame = same(kFloats);
const auto kBf16 = same({DType::bf16});

std::vector<Question> norm(std::string_view op) {
  // Sums over the columns of long rows take the emulation long: one norm stands for all.
  const auto& passes = op == "rms_norm" ? kBoth : kForward;
  return List(op)
      .add(kBoth, kRows, kSame, {{}})
      .add(kBoth, kHeldRows, kBf16, {{}})
      .add(passes, kLongRows, kBf16, {{}});
}

std::vector<Question> adaln() {
  return List("adaln_modulate")
      .add(kBoth, {{6, 33}, {12, 128}, {6, 1152}}, kSame, {{}, {{"rows_per_sample", 3}}})
      .add(kBoth, {{4, 8192}}, kBf16, {{{"rows_per_sample", 2}}});
}

std::vector<Question> activation() {
  return List("activation")
      .add(kBoth, {{1, 1}, {7, 33}, {3, 129}, {5, 1024}, {1, 4097}}, kSame,
           {{{"form", 0}}, {{"form", 1}}, {{"form", 2}}});
}

std::vector<Question> rope() {
  const Values table{{"head_dim", 128}, {"positions", 40}};
  const Values space{{"head_dim", 128}, {"positions", 40}, {"axes", 3}};
  const Values odd{{"head_dim", 6}, {"positions", 1}, {"axes", 3}};
  return List("rope")
      .add(kBoth, {{1, 128}, {7, 384}}, kSame, {table, space})
      .add(kBoth, {{33, 66}}, kSame, {odd});
}

std::vector<Question> cross_entropy(const std::vector<Pass>& passes,
                                    const std::vector<Values>& values) {
  return List("cross_entropy")
      .add(passes, {{1, 1}, {7, 33}, {3, 129}, {5, 512}, {2, 4097}}, kSame, values)
      .add(passes, kHeldRows, kBf16, values)
      .add(passes, kLongRows, kBf16, values);
}

std::vector<Question> embedding() {
  std::vector<std::pair<DType, DType>> gradients;
  for (const DType type : kFloats) gradients.emplace_back(type, DType::fp32);
  const std::vector<RowShape> shapes{{1, 1}, {33, 33}, {7, 128}, {5, 4096}};
  const std::vector<Values> tables{{{"vocabulary", 1}}, {{"vocabulary", 19}}};
  std::vector<Question> all = List("embedding").add(kForward, shapes, kSame, tables);
  const std::vector<Question> back =
      List("embedding").add({Pass::dgrad}, shapes, gradients, tables);
  all.insert(all.end(), back.begin(), back.end());
  return all;
}

std::vector<Question> quantize() {
  return List("quantize")
      .add(kForward, {{1, 1}, {7, 33}, {128, 128}, {129, 127}, {130, 264}},
           {{DType::bf16, DType::fp8_e4m3}, {DType::fp16, DType::fp8_e5m2}},
           {{{"transpose", 0}}, {{"transpose", 1}}});
}

std::vector<Question> adamw() {
  return List("optimizer")
      .add(kForward, {{1, 1}, {7, 33}, {1, 4097}, {3, 8192}},
           {{DType::fp32, DType::bf16},
            {DType::bf16, DType::bf16},
            {DType::bf16, DType::fp32},
            {DType::fp32, DType::fp16}},
           {{{"state_bits", 32}}, {{"state_bits", 16}}, {{"state_bits", 8}}});
}

std::vector<Question> route() {
  std::vector<Values> kinds;
  for (const std::int64_t sigmoid : {0, 1}) {
    for (const std::int64_t normalised : {0, 1}) {
      kinds.push_back({{"topk", 2}, {"sigmoid", sigmoid}, {"normalised", normalised}});
    }
  }
  const auto fp32 = same({DType::fp32});
  return List("route")
      .add(kBoth, {{1, 2}, {7, 33}, {5, 64}, {3, 127}, {5, 256}}, fp32, kinds)
      .add(kBoth, {{3, 512}, {2, 1023}}, fp32, {{{"topk", 8}}})
      .add(kBoth, {{3, 1}}, fp32, {{{"topk", 1}}});
}

std::vector<Question> moved(std::string_view op, std::vector<Values> values) {
  return List(op)
      .add(kBoth, {{3, 1}, {21, 33}, {6, 128}, {9, 1024}}, kSame, values)
      .add(kBoth, {{3, 8192}, {3, 16392}}, kBf16, values);
}

std::vector<Question> copied(std::string_view op, const std::vector<Values>& values) {
  return List(op).add(
      kForward, {{1, 1}, {7, 33}, {3, 129}, {1, 4097}, {40, 256}},
      same({DType::fp32, DType::bf16, DType::fp8_e4m3, DType::fp8_e5m2, DType::fp16}), values);
}

}  // namespace

std::vector<Question> small_questions(std::string_view op, std::string_view variant) {
  const Values last{{"ranks", 3}, {"rank", 2}}, middle{{"ranks", 2}, {"rank", 0}};
  if (op == "rms_norm" || op == "layer_norm") return norm(op);
  if (op == "adaln_modulate") return adaln();
  if (op == "activation") return activation();
  if (op == "rope") return rope();
  if (op == "add")
    return List("add").add(kBoth, kRows, kSame, {{{"branches", 1}}, {{"branches", 2}}});
  if (op == "cross_entropy" && variant == "row") return cross_entropy(kBoth, {{}});
  if (op == "cross_entropy" && variant == "fused") return cross_entropy(kForward, {{}});
  if (op == "cross_entropy") return cross_entropy(kBoth, {last, middle});
  if (op == "embedding") return embedding();
  if (op == "quantize") return quantize();
  if (op == "transpose") {
    return List("transpose")
        .add(kForward, {{1, 1}, {7, 33}, {64, 64}, {129, 127}, {68, 132}}, same({DType::fp8_e4m3}),
             {{}});
  }
  if (op == "optimizer") return adamw();
  if (op == "grad_norm") {
    return List("grad_norm")
        .add(kForward, kRows,
             {{DType::fp32, DType::fp32}, {DType::bf16, DType::fp32}, {DType::fp16, DType::fp32}},
             {{}});
  }
  if (op == "route") return route();
  if (op == "permute") return moved(op, {{{"topk", 1}}, {{"topk", 3}}});
  if (op == "unpermute") {
    return moved(op,
                 {{{"topk", 3}}, {{"topk", 1}, {"weighted", 1}}, {{"topk", 3}, {"weighted", 1}}});
  }
  if (op == "copy" || op == "fill") return copied(op, {{}});
  if (op == "copy_strided") return copied(op, {{}, {{"pitch", 4100}}});
  return {};
}

}  // namespace foreplan::kernels
