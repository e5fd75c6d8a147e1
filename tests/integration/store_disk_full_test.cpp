// A disk that fills up at any byte: the step is undone, the reported chunks stay, the run goes on.

#include "results/store.hpp"
#include "tests/integration/store_child_process.hpp"
#include "tests/unit/results/store_fixture.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>

namespace foreplan::results {
namespace {

using namespace testing_rows;

constexpr int kChildDone = 50;
constexpr int kChildOtherFailure = 51;

/// No file of this process may grow beyond this, which SQLite sees as a write that fails (EFBIG).
void limit_file_size(rlim_t limit_bytes) {
  std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{.rlim_cur = limit_bytes, .rlim_max = limit_bytes};
  if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) ::_exit(kChildOtherFailure);
}

class StoreDiskFull : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  MiniatureSearch search_{.chunk_count = 12, .keep = KeepPolicy::all, .padding_bytes = 3000};

  /// Runs the search under the limit. Exit status: number of chunks reported as stored when the
  /// disk was full, or one of the constants above.
  ChildEnd limited_search(const fs::path& file, rlim_t limit_bytes) {
    return in_child([&] {
      limit_file_size(limit_bytes);
      int reported = 0;
      try {
        Store store = writable(file);
        search_.complete(store, [&](int) { ++reported; });
      } catch (const StoreError& error) {
        if (error.kind() == StoreErrorKind::disk_full) return reported;
        std::fprintf(stderr, "limit %llu: %s\n", static_cast<unsigned long long>(limit_bytes),
                     error.what());
        return kChildOtherFailure;
      }
      return kChildDone;
    });
  }
  std::string uninterrupted() {
    const fs::path file = folder_.path() / "whole.db";
    {
      Store store = writable(file);
      search_.complete(store);
    }
    return dump(file);
  }
};

TEST_F(StoreDiskFull, AtAnySizeNothingReportedIsLostAndTheRunGoesOn) {
  const std::string expected = uninterrupted();
  constexpr rlim_t kStep = 3584;  // not a multiple of the page size: writes are cut within pages
  bool done = false;
  int failed_creations = 0, cut_searches = 0;
  for (rlim_t limit = 0; !done && limit < 500 * kStep; limit += kStep) {
    const fs::path file = folder_.path() / ("full" + std::to_string(limit) + ".db");
    const ChildEnd end = limited_search(file, limit);
    ASSERT_NE(end.exit_status, kChildOtherFailure) << "limit " << limit;
    ASSERT_NE(end.exit_status, kChildThrew) << "limit " << limit;
    ASSERT_EQ(end.signal, 0) << "limit " << limit;
    done = end.exit_status == kChildDone;
    if (done) continue;
    if (!fs::exists(file)) {
      ++failed_creations;
      EXPECT_EQ(end.exit_status, 0);
      EXPECT_FALSE(fs::exists(file.string() + "-journal"));
      EXPECT_FALSE(fs::exists(file.string() + "-wal"));
      continue;
    }
    ++cut_searches;
    Store store = writable(file);  // checks the pages
    const RunProgress run = begin(store, search_.keep, search_.chunk_count);
    EXPECT_EQ(run.finished_chunks.size(), static_cast<std::size_t>(end.exit_status));
    search_.complete(store);
    ASSERT_EQ(dump(file), expected) << "limit " << limit;
  }
  EXPECT_TRUE(done) << "no limit was large enough";
  EXPECT_GT(failed_creations, 0);
  EXPECT_GT(cut_searches, 0);
}

TEST_F(StoreDiskFull, TheMessageSaysWhatIsSafeAndWhatToDo) {
  const fs::path file = folder_.path() / "store.db";
  { Store store = writable(file); }
  const ChildEnd end = in_child([&] {
    constexpr rlim_t kSmall = 65'536;
    limit_file_size(kSmall);
    const StoreError error = store_error([&] {
      Store store = writable(file);
      search_.complete(store);
    });
    EXPECT_EQ(error.kind(), StoreErrorKind::disk_full);
    EXPECT_THAT(error.what(),
                ::testing::AllOf(::testing::StartsWith(file.string() + ": cannot store chunk "),
                                 ::testing::HasSubstr("File too large"),
                                 ::testing::HasSubstr("make room and run the same command again")));
    return ::testing::Test::HasFailure() ? 1 : 0;
  });
  EXPECT_EQ(end.exit_status, 0);
}

}  // namespace
}  // namespace foreplan::results
