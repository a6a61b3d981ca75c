#include "opening_loader.hpp"

#include <unistd.h>

#include <climits>
#include <stop_token>
#include <system_error>
#include <utility>

#include "base/error.hpp"

namespace dsanalyze::client {

OpeningLoader::OpeningLoader(LoaderRequest request, Timing timing) : m_process(::getpid()), m_timing(timing) {
  const SignalsBlocked blocked;
  try {
    m_thread =
        std::make_unique<std::jthread>([this, asked = std::move(request)](const std::stop_token& stop) mutable { open(std::move(asked), stop); });
  } catch (const std::system_error& error) {
    throw_no_thread(error, "a thread that opens the dataset", "end others, or raise the limit (ulimit -u)");
  }
}

OpeningLoader::~OpeningLoader() {
  if (m_process == ::getpid()) return;
  // A child that was forked has none of the threads, and what the thread was writing is left alone.
  static_cast<void>(m_thread.release());
  if (stage() != Stage::opened) static_cast<void>(m_loader.release());
}

void OpeningLoader::open(LoaderRequest request, const std::stop_token& stop) {
  Stage reached = Stage::failed;
  try {
    m_loader = std::make_unique<OwnLoader>(std::move(request), m_timing, stop);
    reached = Stage::opened;
  } catch (...) {
    m_error = std::current_exception();
  }
  m_stage.store(static_cast<std::uint32_t>(reached), std::memory_order_release);
  m_timing.waiter->wake(m_stage, INT_MAX);
}

OpeningLoader::Stage OpeningLoader::await(Deadline deadline) {
  while (stage() == Stage::opening && m_timing.clock->now() < deadline.at)
    m_timing.waiter->wait(m_stage, static_cast<std::uint32_t>(Stage::opening), deadline);
  return stage();
}

OwnLoader* OpeningLoader::opened(Deadline deadline) {
  switch (await(deadline)) {
    case Stage::failed:
      std::rethrow_exception(m_error);
    case Stage::opening:
      return nullptr;
    case Stage::opened:
      break;
  }
  return m_loader.get();
}

void OpeningLoader::close() {
  m_thread->request_stop();
  if (await(no_deadline) == Stage::opened) m_loader->close();
}

bool OpeningLoader::done() const { return stage() == Stage::failed || (stage() == Stage::opened && m_loader->done()); }

}  // namespace dsanalyze::client
