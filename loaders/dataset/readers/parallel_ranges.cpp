#include "parallel_ranges.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "base/error.hpp"

namespace dsanalyze {

void parallel_ranges(std::size_t count, std::size_t piece, int threads, const std::stop_token& stop,
                     const std::function<void(std::size_t, std::size_t)>& body) {
  piece = std::max<std::size_t>(piece, 1);
  const std::size_t pieces = (count + piece - 1) / piece;
  std::atomic<std::size_t> next{0};
  std::atomic<bool> failed{false};
  std::mutex mutex;
  std::exception_ptr failure;
  std::size_t failed_piece = pieces;

  const auto work = [&] {
    while (!failed.load() && !stop.stop_requested()) {
      const std::size_t mine = next.fetch_add(1);
      if (mine >= pieces) return;
      try {
        body(mine * piece, std::min(count, (mine + 1) * piece));
      } catch (...) {
        failed.store(true);
        const std::scoped_lock lock(mutex);
        if (mine >= failed_piece) continue;
        failed_piece = mine;
        failure = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> helpers;
    const std::size_t wanted = std::min<std::size_t>(static_cast<std::size_t>(std::max(threads, 1)), pieces);
    try {
      for (std::size_t helper = 1; helper < wanted; ++helper) helpers.emplace_back(work);
    } catch (const std::exception&) {  // no more threads, or no memory for one: those that are there do it
    }
    work();
  }
  if (failure) std::rethrow_exception(failure);
  if (stop.stop_requested()) throw Interrupted();
}

}  // namespace dsanalyze
