#include "harness/launch/tcp_ranks.hpp"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <thread>
#include <utility>

namespace foreplan::harness {
namespace {

using Steady = std::chrono::steady_clock;
using Time = Steady::time_point;

/// First words of a rank to rank 0, so that a stranger who calls the port is not taken for one.
struct Greeting {
  std::uint64_t magic = 0x466f7265506c616eU;
  std::int32_t rank = 0, world_size = 0;
};

[[noreturn]] void broken(const std::string& what) {
  throw std::runtime_error("ranks: " + what +
                           (errno != 0 ? fmt::format(": {}", std::strerror(errno)) : ""));
}

Time deadline_after(Seconds patience) {
  return Steady::now() + std::chrono::duration_cast<Steady::duration>(
                             std::chrono::duration<double>(patience.value));
}

/// Answers are small and waited for; a lost peer shows at last by the time limits.
void configure(int socket, Seconds patience) {
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  timeval limit{};
  limit.tv_sec = static_cast<time_t>(std::max(1.0, patience.value));
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  ::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

/// False when the other end has gone or the time limit has passed.
bool send_all(int socket, const void* data, std::size_t size) {
  const char* next = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t sent = ::send(socket, next, size, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    next += sent;
    size -= static_cast<std::size_t>(sent);
  }
  return true;
}

bool receive_all(int socket, void* data, std::size_t size) {
  char* next = static_cast<char*>(data);
  while (size > 0) {
    errno = 0;
    const ssize_t received = ::recv(socket, next, size, 0);
    if (received < 0 && errno == EINTR) continue;
    if (received <= 0) return false;
    next += received;
    size -= static_cast<std::size_t>(received);
  }
  return true;
}

void send_to(const Socket& socket, const void* data, std::size_t size) {
  if (!send_all(socket.descriptor(), data, size)) broken("another rank has gone");
}
void receive_from(const Socket& socket, void* data, std::size_t size) {
  if (!receive_all(socket.descriptor(), data, size)) broken("another rank has gone or is silent");
}

Socket listening_socket(int port, int others) {
  Socket socket(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 any6{};
  sockaddr_in any4{};
  const auto* address = reinterpret_cast<const sockaddr*>(&any6);
  socklen_t length = sizeof any6;
  any6.sin6_family = AF_INET6;
  any6.sin6_port = htons(static_cast<std::uint16_t>(port));
  const int on = 1, off = 0;
  if (socket.descriptor() >= 0) {
    ::setsockopt(socket.descriptor(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  } else {
    socket = Socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    any4.sin_family = AF_INET;
    any4.sin_port = any6.sin6_port;
    address = reinterpret_cast<const sockaddr*>(&any4);
    length = sizeof any4;
  }
  if (socket.descriptor() < 0) broken("no socket");
  ::setsockopt(socket.descriptor(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  errno = 0;
  if (::bind(socket.descriptor(), address, length) != 0 ||
      ::listen(socket.descriptor(), others) != 0) {
    broken(fmt::format("rank 0 cannot listen on port {} (set MASTER_PORT to a free one)", port));
  }
  return socket;
}

/// Connected to the first address that answers; -1 if none does.
Socket connected(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), fmt::format("{}", port).c_str(), &hints, &found) != 0)
    return Socket{};
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owned(found, ::freeaddrinfo);
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    Socket socket(::socket(one->ai_family, one->ai_socktype | SOCK_CLOEXEC, one->ai_protocol));
    if (socket.descriptor() < 0) continue;
    if (::connect(socket.descriptor(), one->ai_addr, one->ai_addrlen) == 0) return socket;
  }
  return Socket{};
}

}  // namespace

Socket::Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}
Socket::~Socket() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::unique_ptr<TcpRanks> TcpRanks::meet(const RankPlace& place, Seconds patience) {
  std::unique_ptr<TcpRanks> group(new TcpRanks(place));
  if (place.world_size == 1) return group;
  place.rank == 0 ? group->listen_for_others(patience) : group->call_root(patience);
  group->barrier();
  return group;
}

void TcpRanks::listen_for_others(Seconds patience) {
  const Socket socket = listening_socket(place_.master_port, place_.world_size);
  others_.resize(static_cast<std::size_t>(place_.world_size - 1));
  const Time deadline = deadline_after(patience);
  for (int missing = place_.world_size - 1; missing > 0;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Steady::now());
    pollfd waiting{.fd = socket.descriptor(), .events = POLLIN, .revents = 0};
    errno = 0;
    if (left.count() <= 0 || ::poll(&waiting, 1, static_cast<int>(left.count())) == 0) {
      broken(fmt::format("{} of {} did not come to port {}", missing, place_.world_size,
                         place_.master_port));
    }
    Socket other(::accept4(socket.descriptor(), nullptr, nullptr, SOCK_CLOEXEC));
    if (other.descriptor() < 0) continue;
    // A stranger may call and say nothing: he does not get the time that ranks have.
    configure(other.descriptor(), Seconds{1});
    Greeting greeting;
    const std::uint64_t magic = greeting.magic;
    if (!receive_all(other.descriptor(), &greeting, sizeof greeting) || greeting.magic != magic)
      continue;
    if (greeting.world_size != place_.world_size || greeting.rank < 1 ||
        greeting.rank >= place_.world_size) {
      errno = 0;
      broken(fmt::format("a process says that it is rank {} of {}, this is rank 0 of {}",
                         greeting.rank, greeting.world_size, place_.world_size));
    }
    Socket& seat = others_[static_cast<std::size_t>(greeting.rank - 1)];
    errno = 0;
    if (seat.descriptor() >= 0)
      broken(fmt::format("two processes say that they are rank {}", greeting.rank));
    configure(other.descriptor(), patience);
    seat = std::move(other);
    --missing;
  }
}

void TcpRanks::call_root(Seconds patience) {
  const Time deadline = deadline_after(patience);
  constexpr std::chrono::milliseconds kPause{50};
  Socket root = connected(place_.master_host, place_.master_port);
  while (root.descriptor() < 0) {
    errno = 0;
    if (Steady::now() > deadline) {
      broken(fmt::format("rank 0 does not answer at {} port {}", place_.master_host,
                         place_.master_port));
    }
    std::this_thread::sleep_for(kPause);
    root = connected(place_.master_host, place_.master_port);
  }
  configure(root.descriptor(), patience);
  const Greeting greeting{.rank = place_.rank, .world_size = place_.world_size};
  send_to(root, &greeting, sizeof greeting);
  others_.push_back(std::move(root));
}

void TcpRanks::barrier() { static_cast<void>(maximum(0)); }

double TcpRanks::maximum(double value) {
  if (place_.rank != 0) {
    send_to(others_.front(), &value, sizeof value);
    receive_from(others_.front(), &value, sizeof value);
    return value;
  }
  for (const Socket& other : others_) {
    double said = 0;
    receive_from(other, &said, sizeof said);
    value = std::max(value, said);
  }
  for (const Socket& other : others_) send_to(other, &value, sizeof value);
  return value;
}

double TcpRanks::from_root(double value) {
  from_root(std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

void TcpRanks::from_root(std::span<std::byte> bytes) {
  if (place_.rank != 0) return receive_from(others_.front(), bytes.data(), bytes.size());
  for (const Socket& other : others_) send_to(other, bytes.data(), bytes.size());
}

}  // namespace foreplan::harness
