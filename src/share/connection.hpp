#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "messages.hpp"

namespace dsanalyze::group_protocol {

/// Descriptors that a message carries, open until it is sent.
using Attachments = std::shared_ptr<const std::vector<FileDescriptor>>;

/// A host's end of the line to one process. Never waits. Threads: one.
class Connection {
 public:
  enum class Stage : std::uint8_t {
    fresh,    ///< has not said what it wants
    greeted,  ///< knows the terms
    asking,   ///< waits for a place
    called,   ///< a place is kept for it
    placed,   ///< its job takes part
    done,     ///< its job does not any more
    gone
  };
  /// What it did not do until `deadline` it does not do any more.
  Connection(FileDescriptor socket, Deadline given_deadline);

  /// False when the line is not worth keeping: it is gone, or too much lies undelivered.
  bool send(const Head& head, const std::string& text = {}, const Attachments& attached = nullptr);
  /// Sends what could not be sent before, as far as possible. False as send().
  bool send_rest();
  [[nodiscard]] bool wants_room() const { return m_full && !m_rest.empty(); }

  /// From now on the process's end is seen. Otherwise why not, in words.
  std::string_view watch(std::int64_t process);
  /// The other end is closed, whatever still lies unread.
  [[nodiscard]] bool hung_up() const;
  [[nodiscard]] int socket() const { return m_socket.get(); }
  [[nodiscard]] int process_descriptor() const { return m_process_descriptor.get(); }
  [[nodiscard]] std::int64_t process() const { return m_process; }
  /// Ends the line for every process that has it.
  void close();
  /// The process is gone, or is not looked after any more.
  void forget_process() { m_process_descriptor.reset(); }

  Stage stage = Stage::fresh;
  Deadline deadline;
  std::uint32_t place = 0;                ///< while placed
  std::uint64_t command = 0;              ///< that its process belongs to, as it says; 0: none
  std::uint64_t asked = 0;                ///< who asked first is let in first
  std::uint64_t told_epoch = UINT64_MAX;  ///< that it waits for

 private:
  struct Rest {
    std::vector<std::byte> bytes;
    Attachments attached;
  };
  Status try_to_send(std::span<const std::byte> bytes, const Attachments& attached);

  FileDescriptor m_socket;
  FileDescriptor m_process_descriptor;
  std::int64_t m_process = 0;
  std::deque<Rest> m_rest;
  bool m_full = false;  ///< the socket is: poll says when there is room
};

}  // namespace dsanalyze::group_protocol
