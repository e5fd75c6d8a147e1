#include "harness/targets/host/kernel_launch.hpp"

#include "core/version.hpp"
#include "kernels/host/onednn.hpp"
#include "kernels/operand_values.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace foreplan::harness {
namespace {

using kernels::Case;
using kernels::Fill;
using kernels::Operand;
using kernels::Question;

constexpr std::size_t kAlignment = 4096;  // a page: no two operands share one
constexpr std::size_t kMostSets = 1024;
/// Numbers are drawn for a prefix of so many elements and repeated: drawing all of them takes
/// longer than measuring. Prime, so that rows of a power of two do not repeat.
constexpr std::int64_t kDrawnElements = 65521;

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

std::size_t bytes_of_set(const Case& made) {
  std::size_t bytes = 0;
  for (const Operand& operand : made.operands) bytes += aligned(operand.bytes());
  return bytes;
}

std::size_t sets_of(const Case& made, CacheMode cache, const HostBuffers& how) {
  if (cache == CacheMode::hot) return 1;
  const std::size_t one = std::max<std::size_t>(bytes_of_set(made), 1);
  const auto cold = static_cast<std::size_t>(how.cold_bytes);
  return std::clamp<std::size_t>((cold + one - 1) / one, 1, kMostSets);
}

void fill(const Operand& operand, std::byte* buffer, std::uint64_t seed) {
  Operand drawn = operand;
  if (operand.fill != Fill::permutation)
    drawn.elements = std::min(operand.elements, kDrawnElements);
  kernels::encode(kernels::initial_values(drawn, seed), operand.storage, buffer);
  const std::size_t size = operand.bytes();
  for (std::size_t done = drawn.bytes(); done < size;) {
    const std::size_t more = std::min(done, size - done);
    std::memcpy(buffer + done, buffer, more);
    done += more;
  }
}

Question halved(Question question, GemmShape& shape) {
  std::int64_t& most = shape.batch > 1                            ? shape.batch
                       : shape.m >= shape.n && shape.m >= shape.k ? shape.m
                       : shape.n >= shape.k                       ? shape.n
                                                                  : shape.k;
  most = (most + 1) / 2;
  question.shape = shape;
  return question;
}

Question halved(Question question, AttentionShape& shape) {
  const std::int64_t per_kv = shape.heads_q / std::max<std::int64_t>(shape.heads_kv, 1);
  if (shape.batch > 2) {
    shape.batch = (shape.batch + 1) / 2;
  } else if (shape.heads_kv > 1) {
    shape.heads_kv = (shape.heads_kv + 1) / 2;
    shape.heads_q = shape.heads_kv * per_kv;
  } else {
    shape.q_len = (shape.q_len + 1) / 2;
    shape.kv_len = (shape.kv_len + 1) / 2;
  }
  question.shape = shape;
  return question;
}

Question halved(Question question, RowShape& shape) {
  const auto vocabulary = question.parameters.find("vocabulary");
  if (vocabulary != question.parameters.end() && vocabulary->second > shape.rows) {
    vocabulary->second = (vocabulary->second + 1) / 2;
  } else if (shape.rows > 1) {
    shape.rows = (shape.rows + 1) / 2;
  } else {
    shape.cols = (shape.cols + 1) / 2;
  }
  question.shape = shape;
  return question;
}

/// Steps of the reference's inner loops, roughly.
double effort(const Question& question) {
  const auto of = [](auto... sizes) { return (static_cast<double>(sizes) * ...); };
  if (const auto* g = std::get_if<GemmShape>(&question.shape))
    return of(g->m, g->n, g->k, g->batch);
  if (const auto* a = std::get_if<AttentionShape>(&question.shape)) {
    return of(a->batch, a->heads_q, a->q_len, a->kv_len, a->head_dim_qk + a->head_dim_v);
  }
  const auto& rows = std::get<RowShape>(question.shape);
  const auto vocabulary = question.parameters.find("vocabulary");
  const std::int64_t more = vocabulary == question.parameters.end() ? 0 : vocabulary->second;
  constexpr double kDrawing = 32;  // a number is drawn, converted, computed and compared
  return kDrawing * of(rows.rows + more, rows.cols);
}

std::string size_text(const Question& question) {
  Point point;
  point.question = question;
  return key(point);
}

}  // namespace

std::shared_ptr<std::byte> Arena::take(std::size_t bytes) {
  if (kept_ == nullptr || size_ < bytes || kept_.use_count() > 1) {
    kept_.reset();
    size_ = std::max(aligned(bytes), kAlignment);
    void* const memory = std::aligned_alloc(kAlignment, size_);
    if (memory == nullptr) throw std::bad_alloc();
    kept_ = std::shared_ptr<std::byte>(static_cast<std::byte*>(memory), std::free);
  }
  return kept_;
}

OperandSets::OperandSets(const Case& made, CacheMode cache, const HostBuffers& how) {
  const std::size_t one = bytes_of_set(made), count = sets_of(made, cache, how);
  memory_ = how.arena->take(one * count + made.workspace_bytes);
  std::byte* at = memory_.get();
  workspace_ = at + one * count;
  std::uint64_t seed = how.seed;
  for (std::size_t set = 0; set < count; ++set) {
    sets_.emplace_back();
    for (std::size_t i = 0; i < made.operands.size(); ++i) {
      const Operand& operand = made.operands[i];
      if (set == 0) {
        fill(operand, at, ++seed);
      } else {
        std::memcpy(at, sets_.front()[i], operand.bytes());
      }
      sets_.back().push_back(at);
      at += aligned(operand.bytes());
    }
  }
}

std::span<void* const> OperandSets::next() {
  const auto& set = sets_[turn_];
  turn_ = (turn_ + 1) % sets_.size();
  return set;
}

std::int64_t bytes_of_sets(const Case& made, CacheMode cache, const HostBuffers& how) {
  return static_cast<std::int64_t>(bytes_of_set(made) * sets_of(made, cache, how) +
                                   made.workspace_bytes);
}

KernelLaunch::KernelLaunch(const kernels::Kernel& kernel, Question question, Case made,
                           CacheMode cache, const HostBuffers& how)
    : kernel_(kernel),
      question_(std::move(question)),
      case_(std::move(made)),
      sets_(case_, cache, how),
      seed_(how.seed) {}

Seconds KernelLaunch::run(int launches) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < launches; ++i) case_.launch(sets_.next(), sets_.workspace(), nullptr);
  return Seconds{std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count()};
}

Check KernelLaunch::check() {
  const Question question = within_reach(question_);
  const bool same = size_text(question) == size_text(question_);
  const auto made = same ? Result<Case>(case_) : kernel_.make(question);
  if (!made) return {.right = false, .worst = 0, .message = made.error().front().message};
  Check check = compare_with_reference(*made, seed_);
  if (!same && !check.message.empty()) check.message += " at " + size_text(question);
  return check;
}

Runnable::Identity KernelLaunch::identity() const {
  const bool library = kernel_.variant == "onednn" || kernel_.variant == "tiles";
  return {library ? "onednn" : "foreplan",
          library ? kernels::host::onednn_version() : std::string(program_version()),
          case_.algorithm};
}

Question within_reach(Question question) {
  constexpr double kReach = 1e8;  // steps, about a second
  while (effort(question) > kReach) {
    question = std::visit([&](auto shape) { return halved(question, shape); }, question.shape);
  }
  return question;
}

Check compare_with_reference(const Case& made, std::uint64_t seed) {
  std::vector<std::vector<double>> values;
  std::vector<std::vector<std::byte>> bytes;
  std::vector<void*> buffers;
  for (const Operand& operand : made.operands) {
    values.push_back(kernels::initial_values(operand, ++seed));
    bytes.emplace_back(operand.bytes());
    kernels::encode(values.back(), operand.storage, bytes.back().data());
    buffers.push_back(bytes.back().data());
  }
  std::vector<std::byte> workspace(made.workspace_bytes);
  made.launch(buffers, workspace.data(), nullptr);
  std::vector<std::span<double>> expected(values.begin(), values.end());
  made.reference(expected);
  Check check{.right = true, .worst = 0, .message = {}};
  for (std::size_t i = 0; i < made.operands.size(); ++i) {
    const Operand& operand = made.operands[i];
    std::vector<double> got(values[i].size());
    kernels::decode(bytes[i].data(), operand.storage, got);
    const kernels::Agreement agreement = kernels::compare(operand, got, values[i]);
    check.worst = std::max(check.worst, agreement.worst);
    if (check.message.empty()) check.message = agreement.message;
  }
  check.right = check.worst <= 1;
  return check;
}

}  // namespace foreplan::harness
