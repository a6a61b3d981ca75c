#include "messages.hpp"

#include <bit>
#include <cstring>
#include <utility>

namespace dsanalyze::group_protocol {

FileDescriptor Message::take(std::uint32_t flag) {
  if ((head.attached & flag) == 0) return {};
  const std::size_t before = (head.kind == Kind::terms ? 1U : 0U) + static_cast<std::size_t>(std::popcount(head.attached & (flag - 1)));
  return before < descriptors.size() ? std::move(descriptors[before]) : FileDescriptor();
}

bool Message::complete() const {
  constexpr std::uint32_t known = has_index | has_server | has_page | has_slab;
  const std::size_t named = (head.kind == Kind::terms ? 1U : 0U) + static_cast<std::size_t>(std::popcount(head.attached));
  return (head.attached & ~known) == 0 && descriptors.size() == named;
}

Inbox::Inbox() : m_buffer(sizeof(Head) + most_text) {}

Status Inbox::receive(int socket, Message& message, Deadline deadline) {
  std::size_t size = 0;
  std::vector<FileDescriptor> descriptors;
  const Status status = receive_message(socket, m_buffer, size, descriptors, deadline);
  return status.ok() ? parse(size, descriptors, message) : status;
}

Status Inbox::receive(int socket, Message& message, MessageSender& sender, Deadline deadline) {
  std::size_t size = 0;
  std::vector<FileDescriptor> descriptors;
  const Status status = receive_message(socket, m_buffer, size, descriptors, sender, deadline);
  return status.ok() ? parse(size, descriptors, message) : status;
}

Status Inbox::parse(std::size_t size, std::vector<FileDescriptor>& descriptors, Message& message) const {
  message = {};
  if (size < sizeof(std::uint32_t)) return {StatusCode::corrupt, 0};
  std::memcpy(&message.head.spoken, m_buffer.data(), sizeof(std::uint32_t));
  if (message.head.spoken != version) return {StatusCode::unsupported, 0};
  if (size < sizeof(Head)) return {StatusCode::corrupt, 0};
  std::memcpy(&message.head, m_buffer.data(), sizeof(Head));
  message.text.assign(reinterpret_cast<const char*>(m_buffer.data()) + sizeof(Head), size - sizeof(Head));
  message.descriptors = std::move(descriptors);
  return {message.complete() ? StatusCode::ok : StatusCode::corrupt, 0};
}

Status send(int socket, const Head& head, std::string_view text, std::span<const int> descriptors, Deadline deadline) {
  std::vector<std::byte> bytes(sizeof head + text.size());
  std::memcpy(bytes.data(), &head, sizeof head);
  if (!text.empty()) std::memcpy(bytes.data() + sizeof head, text.data(), text.size());
  return send_message(socket, bytes, descriptors, deadline);
}

}  // namespace dsanalyze::group_protocol
