#pragma once

#include <csignal>

namespace dsanalyze::client {

/// While it lives, threads that the calling one starts have all signals blocked: the program's handlers run in the program's threads. What is sent to
/// the calling thread meanwhile is delivered afterwards.
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept {
    sigset_t all;
    ::sigfillset(&all);
    m_changed = ::pthread_sigmask(SIG_SETMASK, &all, &m_before) == 0;
  }
  ~SignalsBlocked() {
    if (m_changed) ::pthread_sigmask(SIG_SETMASK, &m_before, nullptr);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t m_before{};
  bool m_changed = false;
};

}  // namespace dsanalyze::client
