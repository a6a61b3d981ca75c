#include "interrupt.hpp"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/process/processes.hpp"
#include "base/process/spawn.hpp"
#include "base/system/files.hpp"
#include "cli/commands/command.hpp"

namespace dsanalyze::cli {
namespace {

constexpr std::array stop_signals = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
/// Signals without a meaning to this program, which schedulers send to jobs. SIGUSR2 wakes the thread, too.
constexpr std::array relayed_signals = {SIGUSR1, SIGUSR2};

void write_plainly(int descriptor, const std::string& text) {
  // Nothing can be done about a failure here: the process is about to stop.
  [[maybe_unused]] const ssize_t written = ::write(descriptor, text.data(), text.size());
}

bool is_ignored(int signal) {
  struct sigaction action {};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

InterruptWatch::InterruptWatch(std::string notice, std::string last_words) : m_notice(std::move(notice)), m_last_words(std::move(last_words)) {
  ::sigemptyset(&m_signals);
  for (const int signal : stop_signals)
    if (!is_ignored(signal)) ::sigaddset(&m_signals, signal);
  // The destructor wakes the thread with SIGUSR2.
  for (const int signal : relayed_signals) ::sigaddset(&m_signals, signal);
  ::pthread_sigmask(SIG_BLOCK, &m_signals, &m_previous);
  m_thread = std::thread([this] { watch(); });
}

InterruptWatch::~InterruptWatch() {
  m_ending = true;
  ::pthread_kill(m_thread.native_handle(), SIGUSR2);
  m_thread.join();
  ::pthread_sigmask(SIG_SETMASK, &m_previous, nullptr);
}

void InterruptWatch::watch() {
  siginfo_t facts{};
  for (;;) {
    const int signal = ::sigwaitinfo(&m_signals, &facts);
    if (m_ending) return;
    if (signal < 0 || SignalRelay::relay(signal, facts.si_code == SI_KERNEL)) continue;
    if (std::ranges::find(relayed_signals, signal) != relayed_signals.end()) continue;
    if (m_stop.request_stop()) {
      write_plainly(STDERR_FILENO, m_notice);
      continue;
    }
    kill_started_groups();
    remove_named_places();
    // The bar or the "^C" that the terminal wrote would stand before the shell's prompt.
    if (::isatty(STDERR_FILENO) == 1) write_plainly(STDERR_FILENO, "\n");
    if (claim_output()) write_plainly(STDOUT_FILENO, m_last_words);
    ::_exit(exit_interrupted);
  }
}

}  // namespace dsanalyze::cli
