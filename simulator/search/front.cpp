#include "simulator/search/front.hpp"

#include <algorithm>
#include <tuple>

namespace foreplan::simulator {

bool better(const Candidate& a, const Candidate& b) {
  return std::tie(a.step_time_s, a.peak_bytes, a.gpus, a.index) <
         std::tie(b.step_time_s, b.peak_bytes, b.gpus, b.index);
}

void TopK::offer(const Candidate& candidate) {
  if (k_ == 0) return;
  if (heap_.size() == k_) {
    if (!better(candidate, heap_.front())) return;
    std::pop_heap(heap_.begin(), heap_.end(), better);
    heap_.back() = candidate;
  } else {
    heap_.push_back(candidate);
  }
  std::push_heap(heap_.begin(), heap_.end(), better);
}

void TopK::merge(const TopK& other) {
  for (const Candidate& candidate : other.heap_) offer(candidate);
}

std::vector<Candidate> TopK::sorted() const {
  std::vector<Candidate> candidates = heap_;
  std::sort(candidates.begin(), candidates.end(), better);
  return candidates;
}

namespace {

bool at_least_as_good(const Candidate& a, const Candidate& b) {
  return a.step_time_s <= b.step_time_s && a.peak_bytes <= b.peak_bytes && a.gpus <= b.gpus;
}

bool dominates(const Candidate& a, const Candidate& b) {
  if (!at_least_as_good(a, b)) return false;
  return !at_least_as_good(b, a) || a.index < b.index;
}

}  // namespace

void ParetoFront::offer(const Candidate& candidate) {
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (!dominates(members_[i], candidate)) continue;
    // The member that rejects one plan tends to reject its neighbours: look at it first next time.
    if (i > 0) std::swap(members_[i], members_[i / 2]);
    return;
  }
  std::erase_if(members_, [&](const Candidate& member) { return dominates(candidate, member); });
  members_.push_back(candidate);
}

void ParetoFront::merge(const ParetoFront& other) {
  for (const Candidate& candidate : other.members_) offer(candidate);
}

std::vector<Candidate> ParetoFront::sorted() const {
  std::vector<Candidate> candidates = members_;
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return std::tie(a.gpus, a.step_time_s, a.index) < std::tie(b.gpus, b.step_time_s, b.index);
  });
  return candidates;
}

}  // namespace foreplan::simulator
