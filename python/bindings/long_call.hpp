#pragma once
// Work that takes a while: without the GIL, on a thread of its own, ended by Ctrl-C.

#include <pybind11/pybind11.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <future>
#include <utility>

namespace foreplan::python {

/// Thrown inside work that shall end early; never seen by Python.
struct Interrupted : std::exception {};

/// What work and its caller share. The work calls it now and then, from any of its threads.
class Pulse {
 public:
  void operator()(std::size_t done, std::size_t total) {
    done_ = done;
    total_ = total;
    if (interrupted_) throw Interrupted{};
  }
  void interrupt() { interrupted_ = true; }
  [[nodiscard]] std::size_t done() const { return done_; }
  [[nodiscard]] std::size_t total() const { return total_; }

 private:
  std::atomic<std::size_t> done_{0}, total_{0};
  std::atomic<bool> interrupted_{false};
};

/// Waits for `ready`, calling `progress(done, total)` (unless None) and looking for signals about
/// twenty times a second. Requires the GIL, which is free while it waits. A KeyboardInterrupt, or
/// an exception of `progress`, interrupts the work, waits for its end and is passed on.
template <class Future>
void wait_for(const Future& future, Pulse& pulse, const pybind11::object& progress) {
  constexpr std::chrono::milliseconds kPatience{50};
  std::size_t told = 0;
  const auto tell = [&] {
    const std::size_t done = pulse.done();
    if (progress.is_none() || done == told) return;
    told = done;
    progress(done, pulse.total());
  };
  try {
    for (;;) {
      auto status = std::future_status::timeout;
      {
        const pybind11::gil_scoped_release without_gil;
        status = future.wait_for(kPatience);
      }
      if (PyErr_CheckSignals() != 0) throw pybind11::error_already_set();
      tell();
      if (status == std::future_status::ready) return;
    }
  } catch (...) {
    pulse.interrupt();
    const pybind11::gil_scoped_release without_gil;
    future.wait();
    throw;
  }
}

/// Runs `work(Pulse&)` and returns what it returns. Requires the GIL; `work` has it not.
template <class Work>
auto long_call(const pybind11::object& progress, Work work) {
  Pulse pulse;
  auto future = std::async(std::launch::async, [&] { return work(pulse); });
  wait_for(future, pulse, progress);
  return future.get();
}

}  // namespace foreplan::python
