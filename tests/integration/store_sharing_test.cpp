// Several processes with one store.

#include "results/store.hpp"
#include "tests/integration/store_child_process.hpp"
#include "tests/unit/results/store_fixture.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

namespace foreplan::results {
namespace {

using namespace testing_rows;

/// Forks `count` children that all wait for one signal and then do `work(i)`; true if all succeed.
template <class Work>
bool all_at_once(int count, Work&& work) {
  int start[2];
  if (::pipe(start) != 0) return false;
  std::vector<pid_t> children;
  for (int i = 0; i < count; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::close(start[1]);
      char none = 0;
      static_cast<void>(::read(start[0], &none, 1));  // returns when the parent closes its end
      int exit_status = 0;
      try {
        work(i);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "child %d: %s\n", i, error.what());
        exit_status = kChildThrew;
      }
      ::_exit(exit_status);
    }
    children.push_back(child);
  }
  ::close(start[1]);
  ::close(start[0]);
  bool good = true;
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    good = good && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  return good;
}

TEST(StoreSharing, ProcessesThatCreateTheSameStoreAtOnceShareOne) {
  for (int repetition = 0; repetition < 5; ++repetition) {
    TemporaryFolder folder;
    const fs::path file = folder.path() / "store.db";
    constexpr int kProcesses = 8;
    EXPECT_TRUE(all_at_once(kProcesses, [&](int i) {
      Store store = writable(file);
      store.scenario_id({"of process " + std::to_string(i), "", "{}"});
      store.profile_id(some_profile());
    }));
    const Database database(file, {.mode = AccessMode::read_only});
    EXPECT_EQ(database.value_of<int>("read", "SELECT count(*) FROM scenario"), kProcesses);
    EXPECT_EQ(database.value_of<int>("read", "SELECT count(*) FROM profile"), 1);
  }
}

TEST(StoreSharing, ProcessesMayWorkOnOneRunTogether) {
  TemporaryFolder folder;
  const MiniatureSearch search{.chunk_count = 6};
  const fs::path alone = folder.path() / "alone.db", shared = folder.path() / "shared.db";
  {
    Store store = writable(alone);
    search.complete(store);
  }
  {
    // The run must exist before the race: afterwards a latecomer would find it finished and begin
    // another, as it should.
    Store store = writable(shared);
    begin(store, search.keep, search.chunk_count);
  }
  EXPECT_TRUE(all_at_once(4, [&](int) {
    Store store = writable(shared);
    const RunProgress run = store.begin_or_resume(some_key(store, search.keep, search.chunk_count),
                                                  {.reuse_finished = true});
    for (int chunk = 0; chunk < search.chunk_count; ++chunk) {
      store.store_chunk(run.id, chunk, MiniatureSearch::counters(chunk), search.plans(chunk),
                        MiniatureSearch::bins(chunk));
    }
    store.finish(run.id, MiniatureSearch::outcome());
  }));
  EXPECT_EQ(dump(shared), dump(alone));
}

TEST(StoreSharing, AReaderSeesWholeTransactionsWhileAWriterWrites) {
  TemporaryFolder folder;
  const fs::path file = folder.path() / "store.db";
  Store writer = writable(file);
  const RunId run = begin(writer, KeepPolicy::all, 2).id;
  const Store reader = Store::open(file, AccessMode::read_only);
  EXPECT_TRUE(reader.candidates(run).empty());
  writer.store_chunk(run, 0, MiniatureSearch::counters(0), MiniatureSearch{}.plans(0));
  EXPECT_EQ(reader.candidates(run), MiniatureSearch{}.plans(0));
}

}  // namespace
}  // namespace foreplan::results
