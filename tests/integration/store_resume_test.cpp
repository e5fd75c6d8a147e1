// A process killed at any moment leaves a store that another goes on with, to the same rows.

#include "results/store.hpp"
#include "tests/integration/store_child_process.hpp"
#include "tests/unit/results/store_fixture.hpp"

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/mman.h>

#include <csignal>
#include <vector>

namespace foreplan::results {
namespace {

using namespace testing_rows;

/// Events left until this process kills itself. An event is a row written, or a transaction about
/// to be made permanent.
int events_left = 0;

void count_event() {
  if (--events_left == 0) ::raise(SIGKILL);
}

/// Makes SQLite call `count_event` on every connection that this process opens from now on.
void die_after(int events) {
  events_left = events;
  const auto hook = +[](sqlite3* handle, char**, const sqlite3_api_routines*) {
    sqlite3_update_hook(
        handle, [](void*, int, const char*, const char*, sqlite3_int64) { count_event(); },
        nullptr);
    sqlite3_commit_hook(
        handle, [](void*) { return count_event(), 0; }, nullptr);
    return SQLITE_OK;
  };
  sqlite3_auto_extension(reinterpret_cast<void (*)()>(hook));
}

/// One flag per chunk that a child sets when the store has reported the chunk as stored; memory
/// that outlives the child.
class ReportedChunks {
 public:
  explicit ReportedChunks(int count)
      : count_(static_cast<std::size_t>(count)),
        flags_(static_cast<bool*>(
            ::mmap(nullptr, count_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
  ~ReportedChunks() { ::munmap(flags_, count_); }
  ReportedChunks(const ReportedChunks&) = delete;
  ReportedChunks& operator=(const ReportedChunks&) = delete;
  [[nodiscard]] bool& operator[](int chunk) { return flags_[chunk]; }

 private:
  std::size_t count_;
  bool* flags_;
};

class StoreResume : public ::testing::TestWithParam<KeepPolicy> {
 protected:
  TemporaryFolder folder_;
  MiniatureSearch search_{.keep = GetParam()};

  /// The rows of a run that nobody interrupted.
  std::string uninterrupted() {
    const fs::path file = folder_.path() / "whole.db";
    {
      Store store = writable(file);
      search_.complete(store);
    }
    return dump(file);
  }
  /// Begins a search that dies after `events`; how it ended.
  ChildEnd killed_search(const fs::path& file, int events, ReportedChunks& reported) {
    return in_child([&] {
      die_after(events);
      Store store = writable(file);
      search_.complete(store, [&](int chunk) { reported[chunk] = true; });
      return 0;
    });
  }
  /// Goes on with it to the end; every reported chunk must be there.
  void complete(const fs::path& file, ReportedChunks& reported) {
    Store store = writable(file);
    if (store.runs().empty() || store.runs()[0].status == RunStatus::running) {
      const RunProgress run = begin(store, search_.keep, search_.chunk_count);
      for (int chunk = 0; chunk < search_.chunk_count; ++chunk) {
        EXPECT_TRUE(!reported[chunk] || run.finished_chunks.contains(chunk)) << "lost " << chunk;
      }
      search_.complete(store);
    }
  }
};

TEST_P(StoreResume, AKillAtAnyRowOrCommitChangesNoRowOfTheEnd) {
  const std::string expected = uninterrupted();
  constexpr int kMoreThanThereAre = 1000;
  int kills = 0;
  for (int events = 1; events < kMoreThanThereAre; ++events) {
    const fs::path file = folder_.path() / ("killed" + std::to_string(events) + ".db");
    ReportedChunks reported(search_.chunk_count);
    const ChildEnd end = killed_search(file, events, reported);
    if (end.signal != SIGKILL) {
      ASSERT_EQ(end.exit_status, 0);
      break;
    }
    ++kills;
    complete(file, reported);
    ASSERT_EQ(dump(file), expected) << "killed at event " << events;
    ASSERT_FALSE(fs::exists(file.string() + "-wal"));
  }
  // Four chunks of three plans, one chunk row and two bins each, and the rows and commits around
  // them: a loop that ended early would not have looked at much.
  EXPECT_GT(kills, 4 * 6);
  EXPECT_LT(kills, kMoreThanThereAre - 1);
}

TEST_P(StoreResume, ASearchKilledAgainAndAgainStillEnds) {
  const std::string expected = uninterrupted();
  const fs::path file = folder_.path() / "killed.db";
  ReportedChunks reported(search_.chunk_count);
  // Enough for one chunk each time, not for two.
  constexpr int kEvents = 14;
  int kills = 0;
  while (killed_search(file, kEvents, reported).signal == SIGKILL && kills < 100) ++kills;
  EXPECT_GE(kills, 2);
  complete(file, reported);
  EXPECT_EQ(dump(file), expected);
}

INSTANTIATE_TEST_SUITE_P(Keep, StoreResume, ::testing::Values(KeepPolicy::best, KeepPolicy::all),
                         [](const auto& tested) { return std::string{name(tested.param)}; });

}  // namespace
}  // namespace foreplan::results
