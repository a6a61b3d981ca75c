#include "abi.hpp"

#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

namespace dsanalyze::client {
namespace {

/// The clients of one process. Never destroyed: other threads may be in calls while the program ends.
struct ClientList {
  ClientList(pid_t of_process, std::uintptr_t first_number, ClientList* parents)
      : process(of_process), first(first_number), parent(parents), next(first_number) {}

  const pid_t process;
  const std::uintptr_t first;  ///< lower numbers are the parent's
  ClientList* const parent;
  std::atomic<std::uintptr_t> next;
  std::mutex mutex;
  std::map<std::uintptr_t, std::shared_ptr<Client>> clients;
};

std::atomic<ClientList*> newest{nullptr};

ClientList& list() {
  ClientList* found = newest.load(std::memory_order_acquire);
  const pid_t process = ::getpid();
  if (found != nullptr && found->process == process) return *found;
  const std::uintptr_t first = found == nullptr ? 1 : found->next.load();
  auto made = std::make_unique<ClientList>(process, first, found);
  if (newest.compare_exchange_strong(found, made.get(), std::memory_order_acq_rel)) return *made.release();
  return *found;
}

std::uintptr_t number_of(const dsa_client* handle) { return std::bit_cast<std::uintptr_t>(handle); }

/// The parent's list that has the number; its mutex may be held by a thread that this process does not have.
void let_go(ClientList* of, std::uintptr_t number) {
  while (of != nullptr && number < of->first) of = of->parent;
  if (of == nullptr) return;
  std::shared_ptr<Client> client;
  if (const std::unique_lock lock(of->mutex, std::try_to_lock); lock.owns_lock()) {
    if (auto found = of->clients.extract(number)) client = std::move(found.mapped());
  }
}

}  // namespace

dsa_client* enlist(std::shared_ptr<Client> client) {
  ClientList& clients = list();
  const std::scoped_lock lock(clients.mutex);
  const std::uintptr_t number = clients.next.load();
  clients.clients.emplace(number, std::move(client));
  clients.next.store(number + 1);
  return std::bit_cast<dsa_client*>(number);
}

Found find(const dsa_client* handle) {
  ClientList& clients = list();
  const std::uintptr_t number = number_of(handle);
  if (number != 0 && number < clients.first) return {Found::Kind::parents};
  const std::scoped_lock lock(clients.mutex);
  const auto found = clients.clients.find(number);
  if (found == clients.clients.end()) return {};
  return {Found::Kind::client, found->second};
}

Found strike_off(const dsa_client* handle) {
  ClientList& clients = list();
  const std::uintptr_t number = number_of(handle);
  if (number != 0 && number < clients.first) {
    let_go(clients.parent, number);
    return {Found::Kind::parents};
  }
  const std::scoped_lock lock(clients.mutex);
  auto found = clients.clients.extract(number);
  if (!found) return {};
  return {Found::Kind::client, std::move(found.mapped())};
}

namespace {

thread_local std::array<char, 2048> thread_error{};

bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

}  // namespace

const char* last_error() noexcept { return thread_error.data(); }

void set_last_error(std::string_view text) noexcept {
  std::size_t size = text.size();
  if (size >= thread_error.size()) {
    size = thread_error.size() - 1;
    while (size > 0 && continues_character(text[size])) --size;
  }
  std::memmove(thread_error.data(), text.data(), size);
  thread_error[size] = '\0';
}

}  // namespace dsanalyze::client
