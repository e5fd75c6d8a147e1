// Ranks that meet over TCP, as threads of this process on its own network. Oracle: arithmetic.

#include "harness/launch/tcp_ranks.hpp"
#include "harness/launch/together.hpp"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <functional>
#include <future>
#include <stdexcept>
#include <string>
#include <vector>

namespace foreplan::harness {
namespace {

constexpr Seconds kPatience{20};

/// A port that is free now.
int free_port() {
  const Socket socket(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t length = sizeof address;
  ::bind(socket.descriptor(), reinterpret_cast<const sockaddr*>(&address), length);
  ::getsockname(socket.descriptor(), reinterpret_cast<sockaddr*>(&address), &length);
  return ntohs(address.sin_port);
}

RankPlace place_of(int rank, int size, int port) {
  return {.rank = rank,
          .world_size = size,
          .local_rank = rank,
          .local_size = size,
          .master_host = "127.0.0.1",
          .master_port = port,
          .launcher = "test"};
}

/// What `work` gives on each of `size` ranks, which run side by side; what one throws is thrown.
template <class T>
std::vector<T> on_ranks(int size, const std::function<T(TcpRanks&)>& work) {
  const int port = free_port();
  std::vector<std::future<T>> running;
  for (int rank = 0; rank < size; ++rank) {
    running.push_back(std::async(std::launch::async, [=, &work] {
      const auto ranks = TcpRanks::meet(place_of(rank, size, port), kPatience);
      return work(*ranks);
    }));
  }
  std::vector<T> results;
  for (auto& one : running) results.push_back(one.get());
  return results;
}

TEST(TcpRanks, ALoneProcessNeedsNoNetwork) {
  const auto ranks = TcpRanks::meet(RankPlace{}, kPatience);
  EXPECT_EQ(ranks->size(), 1);
  EXPECT_EQ(ranks->maximum(3.5), 3.5);
  EXPECT_EQ(ranks->from_root(2.5), 2.5);
  ranks->barrier();
}

TEST(TcpRanks, AgreeOnTheLargestOfWhatTheySay) {
  const auto said =
      on_ranks<double>(5, [](TcpRanks& ranks) { return ranks.maximum(ranks.rank() * 1.5); });
  EXPECT_THAT(said, testing::Each(6.0));
}

TEST(TcpRanks, HearWhatRankZeroSays) {
  const auto said =
      on_ranks<double>(3, [](TcpRanks& ranks) { return ranks.from_root(10.0 + ranks.rank()); });
  EXPECT_THAT(said, testing::Each(10.0));
}

TEST(TcpRanks, HearRankZerosBytes) {
  const auto said = on_ranks<std::string>(4, [](TcpRanks& ranks) {
    std::string text(128, static_cast<char>('a' + ranks.rank()));
    ranks.from_root(std::as_writable_bytes(std::span(text)));
    return text;
  });
  EXPECT_THAT(said, testing::Each(std::string(128, 'a')));
}

TEST(TcpRanks, KeepTheirWordsInOrderOverManyExchanges) {
  const auto sums = on_ranks<double>(3, [](TcpRanks& ranks) {
    double sum = 0;
    for (int i = 0; i < 200; ++i) sum += ranks.maximum(i % 3 == ranks.rank() ? i : -1.0);
    return sum;
  });
  EXPECT_THAT(sums, testing::Each(199.0 * 200 / 2));
}

TEST(TcpRanks, ALostRankIsNoticedByTheOthers) {
  const auto noticed = on_ranks<bool>(3, [](TcpRanks& ranks) {
    if (ranks.rank() == 2) return true;  // it leaves, and its connection is closed
    try {
      ranks.barrier();
      ranks.barrier();
    } catch (const std::runtime_error&) {
      return true;
    }
    return false;
  });
  EXPECT_THAT(noticed, testing::Each(true));
}

TEST(TcpRanks, ARankThatNeverComesIsNamedAfterTheTimeLimit) {
  try {
    static_cast<void>(TcpRanks::meet(place_of(0, 2, free_port()), Seconds{0.2}));
    FAIL() << "rank 1 does not exist";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("1 of 2 did not come"));
  }
}

TEST(TcpRanks, TwoProcessesOfTheSameRankAreRefused) {
  const int port = free_port();
  auto root = std::async(std::launch::async, [port]() -> std::string {
    try {
      static_cast<void>(TcpRanks::meet(place_of(0, 3, port), Seconds{10}));
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return {};
  });
  const auto caller = [port] {
    try {
      static_cast<void>(TcpRanks::meet(place_of(1, 3, port), Seconds{10}));
    } catch (const std::runtime_error&) {
      return true;  // rank 0 has gone
    }
    return false;
  };
  auto first = std::async(std::launch::async, caller),
       second = std::async(std::launch::async, caller);
  EXPECT_THAT(root.get(), testing::HasSubstr("two processes say that they are rank 1"));
  EXPECT_TRUE(first.get());
  EXPECT_TRUE(second.get());
}

TEST(TcpRanks, AStrangerOnThePortIsNotTakenForARank) {
  const int port = free_port();
  auto root = std::async(std::launch::async, [port] {
    return TcpRanks::meet(place_of(0, 2, port), kPatience)->size();
  });
  // The stranger calls until rank 0 listens, says something else and stays.
  const Socket stranger(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  ::inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
  while (::connect(stranger.descriptor(), reinterpret_cast<const sockaddr*>(&address),
                   sizeof address) != 0) {
    ::usleep(1000);
  }
  const std::string words = "GET / HTTP/1.1\r\n\r\n";
  ASSERT_EQ(::send(stranger.descriptor(), words.data(), words.size(), 0), std::ssize(words));
  EXPECT_EQ(TcpRanks::meet(place_of(1, 2, port), kPatience)->size(), 2);
  EXPECT_EQ(root.get(), 2);
}

TEST(Together, IsGoodOnlyWhereItWasGoodEverywhere) {
  const auto verdicts = on_ranks<Attempt>(3, [](TcpRanks& ranks) {
    const Attempt first = together(&ranks, [&] { return ranks.rank() != 1; });
    const Attempt second = together(&ranks, [] { return true; });
    return first == Attempt::again ? second : Attempt::elsewhere_failed;
  });
  EXPECT_THAT(verdicts, testing::Each(Attempt::good));
}

TEST(Together, LeavesNobodyWaitingWhenOneRankThrows) {
  const auto told = on_ranks<bool>(3, [](TcpRanks& ranks) {
    bool knows = false;
    try {
      knows = together(&ranks, [&]() -> bool {
                if (ranks.rank() == 1) throw std::runtime_error("no memory");
                return true;
              }) == Attempt::elsewhere_failed;
    } catch (const std::runtime_error& error) {
      knows = std::string{error.what()} == "no memory";
    }
    // The next exchange is in step.
    return knows && ranks.maximum(ranks.rank()) == 2;
  });
  EXPECT_THAT(told, testing::Each(true));
}

}  // namespace
}  // namespace foreplan::harness
