// What libforeplan_mpi.so exports.

#include "harness/mpi/collectives.hpp"
#include "harness/mpi/message_passing.hpp"

#include <unistd.h>

#include <exception>

namespace foreplan::harness {
namespace {

std::string version_text() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string all(text, static_cast<std::size_t>(length));
  return all.substr(0, all.find_first_of(",\n"));
}

class World final : public MessagePassing {
 public:
  World() {
    int provided = 0;
    expect_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided),
               "MPI_Init_thread");
    expect_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN),
               "MPI_Comm_set_errhandler");
    expect_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
    expect_mpi(MPI_Comm_size(MPI_COMM_WORLD, &size_), "MPI_Comm_size");
    MPI_Comm node = MPI_COMM_NULL;
    expect_mpi(
        MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &node),
        "MPI_Comm_split_type");
    expect_mpi(MPI_Comm_size(node, &ranks_per_node_), "MPI_Comm_size");
    MPI_Comm_free(&node);
    // Nodes may hold different numbers of ranks; the first one's counts for all.
    expect_mpi(MPI_Bcast(&ranks_per_node_, 1, MPI_INT, 0, MPI_COMM_WORLD), "MPI_Bcast");
  }
  ~World() override { MPI_Finalize(); }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  [[nodiscard]] int ranks_per_node() const override { return ranks_per_node_; }
  [[nodiscard]] bool is_crowded() const override {
    return ranks_per_node_ > ::sysconf(_SC_NPROCESSORS_ONLN);
  }
  void barrier() override { expect_mpi(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier"); }
  [[nodiscard]] double maximum(double value) override {
    double all = value;
    expect_mpi(MPI_Allreduce(&value, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD),
               "MPI_Allreduce");
    return all;
  }
  [[nodiscard]] double from_root(double value) override {
    expect_mpi(MPI_Bcast(&value, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD), "MPI_Bcast");
    return value;
  }
  [[nodiscard]] std::string library_version() const override { return version_text(); }
  [[nodiscard]] Result<std::unique_ptr<Runnable>> prepare(const CollectivePoint& point) override {
    return prepare_collective(point, size_);
  }

 private:
  int rank_ = 0, size_ = 1, ranks_per_node_ = 1;
};

}  // namespace
}  // namespace foreplan::harness

extern "C" {

foreplan::harness::MessagePassing* foreplan_open_message_passing(std::string& failure) {
  try {
    return new foreplan::harness::World();
  } catch (const std::exception& reason) {
    failure = reason.what();
    return nullptr;
  }
}

const char* foreplan_message_passing_version() {
  static const std::string text = foreplan::harness::version_text();
  return text.c_str();
}

}  // extern "C"
