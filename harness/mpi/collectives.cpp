#include "harness/mpi/collectives.hpp"

#include <fmt/format.h>

#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <vector>

namespace foreplan::harness {
namespace {

float from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}
/// To nearest, ties to even.
std::uint16_t to_bf16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

void add_bf16(void* in, void* inout, int* count, MPI_Datatype*) {
  const auto* const from = static_cast<const std::uint16_t*>(in);
  auto* const to = static_cast<std::uint16_t*>(inout);
  for (int i = 0; i < *count; ++i) to[i] = to_bf16(from_bf16(to[i]) + from_bf16(from[i]));
}

/// Elements that a rank sends and receives in all. Sizes mean what they mean in nccl-tests
/// (core/collective.hpp) and are rounded down to whole elements per rank.
struct Counts {
  std::size_t send = 0, receive = 0, chunk = 0;
};
Counts counts_of(const CollectivePoint& point, std::size_t element_bytes, int ranks) {
  const auto n = static_cast<std::size_t>(ranks);
  const std::size_t all = static_cast<std::size_t>(point.size_bytes) / element_bytes;
  const std::size_t chunk = all / n;
  switch (point.kind) {
    case CollectiveKind::all_reduce:
    case CollectiveKind::broadcast:
    case CollectiveKind::send_recv: return {all, all, all};
    case CollectiveKind::all_gather: return {chunk, chunk * n, chunk};
    case CollectiveKind::reduce_scatter: return {chunk * n, chunk, chunk};
    case CollectiveKind::all_to_all: return {chunk * n, chunk * n, chunk};
  }
  return {};
}

/// What rank `rank` sends at `index`: small whole numbers, whose sums over all ranks are exact in
/// bf16, whatever the order.
int sent(int rank, std::size_t index, int ranks) {
  const int values = ranks <= 20 ? 13 : 2;
  return static_cast<int>((index + static_cast<std::size_t>(7 * rank)) %
                          static_cast<std::size_t>(values));
}

class CollectiveLaunch final : public Runnable {
 public:
  CollectiveLaunch(const CollectivePoint& point, int size)
      : point_(point),
        elements_(point.dtype),
        group_(size, point.stride),
        counts_(counts_of(point, elements_.bytes(), size)),
        send_(counts_.send * elements_.bytes()),
        receive_(counts_.receive * elements_.bytes()) {
    fill();
  }

  Seconds run(int launches) override {
    expect_mpi(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < launches; ++i) launch();
    return Seconds{std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count()};
  }

  Check check() override {
    fill();
    launch();
    for (std::size_t i = 0; i < counts_.receive; ++i) {
      const float got = elements_.value(receive_.data(), i);
      const auto expected = static_cast<float>(expected_at(i));
      if (got == expected) continue;
      return {.right = false,
              .worst = std::numeric_limits<double>::infinity(),
              .message = fmt::format("element {} is {}, should be {}", i, got, expected)};
    }
    return {.right = true, .worst = 0, .message = {}};
  }

  [[nodiscard]] kernels::Work work() const override {
    const auto bytes = [&](std::size_t elements) {
      return Bytes{static_cast<double>(elements * elements_.bytes())};
    };
    return {.flops = Flops{0}, .read = bytes(counts_.send), .written = bytes(counts_.receive)};
  }

  [[nodiscard]] Identity identity() const override {
    int length = 0;
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    MPI_Get_library_version(text, &length);
    return {"mpi", std::string(text).substr(0, std::string(text).find(',')), ""};
  }

 private:
  /// In place, the buffer that a rank receives into holds what it sends, where MPI expects it.
  void fill() {
    for (std::size_t i = 0; i < counts_.send; ++i) {
      elements_.put(send_.data(), i, sent(group_.rank(), i, group_.size()));
    }
    // A broadcast has one buffer; the first rank sends from where the others receive.
    const bool is_root = point_.kind == CollectiveKind::broadcast && group_.rank() == 0;
    if (!point_.in_place && !is_root) {
      std::memset(receive_.data(), 0xff, receive_.size());  // NaN: a hole shows
      return;
    }
    const std::size_t first = point_.kind == CollectiveKind::all_gather
                                  ? static_cast<std::size_t>(group_.rank()) * send_.size()
                                  : 0;
    std::memcpy(receive_.data() + first, send_.data(), send_.size());
  }

  void launch() {
    void* const receive = receive_.data();
    void* const send = point_.in_place ? MPI_IN_PLACE : send_.data();
    const auto chunk = static_cast<int>(counts_.chunk);
    const MPI_Datatype type = elements_.type();
    const MPI_Comm ranks = group_.communicator();
    switch (point_.kind) {
      case CollectiveKind::all_reduce:
        expect_mpi(MPI_Allreduce(send, receive, chunk, type, elements_.sum(), ranks),
                   "MPI_Allreduce");
        return;
      case CollectiveKind::all_gather:
        expect_mpi(MPI_Allgather(send, chunk, type, receive, chunk, type, ranks), "MPI_Allgather");
        return;
      case CollectiveKind::reduce_scatter:
        expect_mpi(MPI_Reduce_scatter_block(send, receive, chunk, type, elements_.sum(), ranks),
                   "MPI_Reduce_scatter_block");
        return;
      case CollectiveKind::all_to_all:
        expect_mpi(MPI_Alltoall(send, chunk, type, receive, chunk, type, ranks), "MPI_Alltoall");
        return;
      case CollectiveKind::broadcast:
        expect_mpi(MPI_Bcast(receive, chunk, type, 0, ranks), "MPI_Bcast");
        return;
      case CollectiveKind::send_recv: pass_on(receive, chunk, type, ranks); return;
    }
  }

  /// Each rank sends to the next one and receives from the one before.
  void pass_on(void* receive, int count, MPI_Datatype type, MPI_Comm ranks) {
    const int next = (group_.rank() + 1) % group_.size();
    const int before = (group_.rank() + group_.size() - 1) % group_.size();
    expect_mpi(MPI_Sendrecv(send_.data(), count, type, next, 0, receive, count, type, before, 0,
                            ranks, MPI_STATUS_IGNORE),
               "MPI_Sendrecv");
  }

  [[nodiscard]] int expected_at(std::size_t i) const {
    const int n = group_.size(), own = group_.rank();
    const auto sum_at = [&](std::size_t index) {
      int sum = 0;
      for (int rank = 0; rank < n; ++rank) sum += sent(rank, index, n);
      return sum;
    };
    const std::size_t chunk = counts_.chunk;
    switch (point_.kind) {
      case CollectiveKind::all_reduce: return sum_at(i);
      case CollectiveKind::reduce_scatter: return sum_at(static_cast<std::size_t>(own) * chunk + i);
      case CollectiveKind::all_gather: return sent(static_cast<int>(i / chunk), i % chunk, n);
      case CollectiveKind::all_to_all:
        return sent(static_cast<int>(i / chunk), static_cast<std::size_t>(own) * chunk + i % chunk,
                    n);
      case CollectiveKind::broadcast: return sent(0, i, n);
      case CollectiveKind::send_recv: return sent((own + n - 1) % n, i, n);
    }
    return 0;
  }

  CollectivePoint point_;
  Elements elements_;
  Group group_;
  Counts counts_;
  std::vector<std::byte> send_, receive_;
};

}  // namespace

void expect_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw std::runtime_error(
      fmt::format("{}: {}", call, std::string_view(text, static_cast<std::size_t>(length))));
}

Elements::Elements(DType type) : is_bf16_(type == DType::bf16) {
  if (!is_bf16_) return;
  expect_mpi(MPI_Type_contiguous(2, MPI_BYTE, &type_), "MPI_Type_contiguous");
  expect_mpi(MPI_Type_commit(&type_), "MPI_Type_commit");
  expect_mpi(MPI_Op_create(add_bf16, 1, &sum_), "MPI_Op_create");
}

Elements::~Elements() {
  if (!is_bf16_) return;
  MPI_Op_free(&sum_);
  MPI_Type_free(&type_);
}

void Elements::put(std::byte* at, std::size_t index, int value) const {
  const auto x = static_cast<float>(value);
  const std::uint16_t half = to_bf16(x);
  std::memcpy(at + index * bytes(), is_bf16_ ? static_cast<const void*>(&half) : &x, bytes());
}

float Elements::value(const std::byte* at, std::size_t index) const {
  std::uint16_t half = 0;
  float x = 0;
  std::memcpy(is_bf16_ ? static_cast<void*>(&half) : &x, at + index * bytes(), bytes());
  return is_bf16_ ? from_bf16(half) : x;
}

Group::Group(int size, int stride) {
  int world = 0;
  expect_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &world), "MPI_Comm_rank");
  const int block = size * stride;
  const int colour = world / block * stride + world % stride;
  expect_mpi(MPI_Comm_split(MPI_COMM_WORLD, colour, world, &communicator_), "MPI_Comm_split");
  expect_mpi(MPI_Comm_set_errhandler(communicator_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  expect_mpi(MPI_Comm_rank(communicator_, &rank_), "MPI_Comm_rank");
  expect_mpi(MPI_Comm_size(communicator_, &size_), "MPI_Comm_size");
}

Group::~Group() { MPI_Comm_free(&communicator_); }

Result<std::unique_ptr<Runnable>> prepare_collective(const CollectivePoint& point, int world_size) {
  if (point.dtype != DType::fp32 && point.dtype != DType::bf16) {
    return fail(
        fmt::format("MPI collectives of {}; fp32 and bf16 are measured", name(point.dtype)));
  }
  const bool has_in_place =
      point.kind != CollectiveKind::broadcast && point.kind != CollectiveKind::send_recv;
  if (point.in_place && !has_in_place) {
    return fail(fmt::format("{} has no form in place in MPI", name(point.kind)));
  }
  const int size = point.group_size > 0 ? point.group_size : world_size;
  const Counts counts =
      counts_of(point, static_cast<std::size_t>(bytes_per_element(point.dtype)), size);
  if (counts.chunk < 1 || counts.chunk > std::numeric_limits<int>::max()) {
    return fail(fmt::format("{} bytes over {} ranks are {} elements a rank; 1 to {} can be sent",
                            point.size_bytes, size, counts.chunk, std::numeric_limits<int>::max()));
  }
  return std::make_unique<CollectiveLaunch>(point, size);
}

}  // namespace foreplan::harness
