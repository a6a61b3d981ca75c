#include "signal_relay.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <mutex>

namespace dsanalyze {
namespace {

std::mutex relay_mutex;
const SignalRelay* present = nullptr;  ///< guarded by relay_mutex

}  // namespace

SignalRelay::SignalRelay(int process) : m_process(process), m_handle(static_cast<int>(::syscall(SYS_pidfd_open, process, 0))) {
  const std::scoped_lock lock(relay_mutex);
  present = this;
}

SignalRelay::~SignalRelay() {
  const std::scoped_lock lock(relay_mutex);
  present = nullptr;
}

void SignalRelay::send(int signal) const {
  if (m_handle.get() < 0)
    ::kill(m_process, signal);
  else
    ::syscall(SYS_pidfd_send_signal, m_handle.get(), signal, nullptr, 0);
}

bool SignalRelay::relay(int signal, bool from_terminal) {
  const std::scoped_lock lock(relay_mutex);
  if (present == nullptr) return false;
  if (!from_terminal) present->send(signal);
  return true;
}

}  // namespace dsanalyze
