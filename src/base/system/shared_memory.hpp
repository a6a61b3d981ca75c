#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "files.hpp"

namespace dsanalyze {

enum class Access { read_write, read_only };

/// Whether the kernel is asked for huge pages: fewer address translations, but memory is taken 2 MiB at a time. It grants them to shared memory only
/// where /sys/kernel/mm/transparent_hugepage/shmem_enabled says so; a refusal changes nothing else.
enum class HugePages { where_allowed, never };

/// So many bytes, if the memory that this process may use (cgroup limit less use, MemAvailable) has them beside what was `promised` to others; else
/// throws NoMemoryError with needed and available bytes. `label`: what they are for.
std::size_t required(const std::string& label, std::size_t bytes, std::size_t promised = 0);

/// A piece of memory that processes share by descriptor (memfd): without a name in the file system, gone with its last user.
class MemorySegment {
 public:
  MemorySegment() = default;
  /// A new zeroed segment that can never be resized (sealed). Pages are taken as they are touched.
  /// Throws as required() does. `promised`: to others, who have not touched it yet.
  static MemorySegment create(const std::string& label, std::size_t bytes, HugePages huge_pages = HugePages::where_allowed, std::size_t promised = 0);
  /// Maps a segment that another process made (the process that touches a page first decides on its size); throws Error if it is not a sealed memfd
  /// of at least `minimum_bytes`.
  static MemorySegment attach(FileDescriptor descriptor, Access access, std::size_t minimum_bytes);

  MemorySegment(MemorySegment&& other) noexcept;
  MemorySegment& operator=(MemorySegment&& other) noexcept;
  MemorySegment(const MemorySegment&) = delete;
  MemorySegment& operator=(const MemorySegment&) = delete;
  ~MemorySegment();

  [[nodiscard]] std::byte* data() const { return m_data; }
  [[nodiscard]] std::size_t size() const { return m_size; }
  [[nodiscard]] std::span<std::byte> span() const { return {m_data, m_size}; }
  [[nodiscard]] int descriptor() const { return m_descriptor.get(); }
  /// Takes all its pages now, so that their first use costs no page faults; where the kernel cannot (before 5.14, or no memory), nothing happens.
  void populate();
  /// The same of a part, which begins at a multiple of the page size and may reach beyond the end.
  void populate(std::size_t begin, std::size_t bytes);
  /// Bytes of memory that its pages take so far, in whichever process they were touched.
  [[nodiscard]] std::size_t resident_bytes() const;
  /// From now on no process that maps it anew may write (F_SEAL_FUTURE_WRITE); this mapping still may.
  void forbid_future_writers();
  /// Whether the process that made it forbade them.
  [[nodiscard]] bool future_writers_forbidden() const;

 private:
  FileDescriptor m_descriptor;
  std::byte* m_data = nullptr;
  std::size_t m_size = 0;
};

/// A connected pair of Unix sockets that keep message boundaries (SOCK_SEQPACKET, close-on-exec).
std::pair<FileDescriptor, FileDescriptor> socket_pair();
/// Sends one message with descriptors attached (at most 16). Status io when the peer is gone, timeout past the deadline.
Status send_message(int socket, std::span<const std::byte> message, std::span<const int> descriptors, Deadline deadline);
/// Receives one message into `buffer`, which it may not overflow (corrupt then). `size` is its length; end when the peer closed. Descriptors are
/// close-on-exec. The sender must be of this user (SO_PEERCRED), else io with EPERM.
Status receive_message(int socket, std::span<std::byte> buffer, std::size_t& size, std::vector<FileDescriptor>& descriptors, Deadline deadline);

/// Who sent a message, by the kernel's word: also where the socket was made by one process and is used by another.
struct MessageSender {
  std::int64_t process = 0;  ///< 0: not visible from here (another PID namespace)
};
/// What comes in from now on names its sender; sockets accepted from this one do too. Throws Error.
void name_senders(int socket);
/// receive_message() from a socket that names senders. Each message's sender must be of this user, else io with EPERM.
Status receive_message(int socket, std::span<std::byte> buffer, std::size_t& size, std::vector<FileDescriptor>& descriptors, MessageSender& sender,
                       Deadline deadline);

/// Zeroed memory of this process for large tables that are looked up all over: in huge pages where the system grants them, so that fewer address
/// translations miss. Pages are taken as they are touched. Aligned to at least 4096 bytes. Throws Error with the size when there is no memory.
class ZeroedMemory {
 public:
  ZeroedMemory() = default;
  /// Throws Error without the memory's addresses.
  explicit ZeroedMemory(std::size_t bytes);
  ZeroedMemory(ZeroedMemory&& other) noexcept;
  ZeroedMemory& operator=(ZeroedMemory&& other) noexcept;
  ZeroedMemory(const ZeroedMemory&) = delete;
  ZeroedMemory& operator=(const ZeroedMemory&) = delete;
  ~ZeroedMemory();

  [[nodiscard]] std::span<std::byte> bytes() const { return m_bytes; }
  /// As MemorySegment::populate().
  void populate();

 private:
  std::span<std::byte> m_bytes;
};

}  // namespace dsanalyze
