#pragma once

#include <atomic>
#include <csignal>
#include <stop_token>
#include <string>
#include <thread>

namespace dsanalyze::cli {

/// SIGINT, SIGTERM, SIGHUP (the terminal is gone) and SIGQUIT as a wish to stop: the first requests it, a second one ends the process at once with
/// 130 (what is left then is unnamed files and segments, which the system takes back). Signals that were ignored when the program started stay
/// ignored (nohup). While a SignalRelay lives, all of them, SIGUSR1 and SIGUSR2 go to its process instead; else these two are ignored.
///
/// Make it before any other thread, so that all inherit the blocked signals and only its own thread takes them. A child process inherits the blocked
/// mask too, and is to set its own before exec. One object a process.
class InterruptWatch {
 public:
  /// `notice` goes to stderr at the first signal; `last_words` to stdout before the end at the second, unless claim_output() was called.
  InterruptWatch(std::string notice, std::string last_words);
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

  [[nodiscard]] std::stop_token token() const { return m_stop.get_token(); }
  /// True for the first caller: from now on stdout is the caller's, and a second signal writes nothing to it.
  bool claim_output() { return !m_output_claimed.exchange(true); }

 private:
  void watch();

  std::string m_notice;
  std::string m_last_words;
  sigset_t m_signals{};
  sigset_t m_previous{};
  std::stop_source m_stop;
  std::atomic<bool> m_ending{false};
  std::atomic<bool> m_output_claimed{false};
  std::thread m_thread;
};

}  // namespace dsanalyze::cli
