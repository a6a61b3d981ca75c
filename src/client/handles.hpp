#pragma once

#include <unistd.h>

#include <atomic>
#include <bit>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace dsanalyze::client {

/// Which handles are objects of this process. A handle is a number that is never given out twice, so a closed or invented one is known without being
/// looked into; and a child of fork() has numbers of its own, so it knows its parent's without a lock that may have been held. `Handle` is the
/// pointer type that programs hold the number in. Threads: any.
template <typename Object, typename Handle>
class Handles {
 public:
  struct Found {
    enum class Kind { object, none, parents };
    Kind kind = Kind::none;
    std::shared_ptr<Object> object{};  ///< of this process
  };

  /// Throws std::bad_alloc.
  static Handle* enlist(std::shared_ptr<Object> object) {
    List& objects = list();
    const std::scoped_lock lock(objects.mutex);
    const std::uintptr_t number = objects.next.load();
    objects.objects.emplace(number, std::move(object));
    objects.next.store(number + 1);
    return std::bit_cast<Handle*>(number);
  }

  static Found find(const Handle* handle) {
    List& objects = list();
    const auto number = std::bit_cast<std::uintptr_t>(handle);
    if (number != 0 && number < objects.first) return {Found::Kind::parents};
    const std::scoped_lock lock(objects.mutex);
    const auto found = objects.objects.find(number);
    if (found == objects.objects.end()) return {};
    return {Found::Kind::object, found->second};
  }

  /// Takes it off the list: it is gone when its last call has returned. For a parent's, as find() says; the child's copy is let go of.
  static Found strike_off(const Handle* handle) {
    List& objects = list();
    const auto number = std::bit_cast<std::uintptr_t>(handle);
    if (number != 0 && number < objects.first) {
      let_go(objects.parent, number);
      return {Found::Kind::parents};
    }
    const std::scoped_lock lock(objects.mutex);
    auto found = objects.objects.extract(number);
    if (!found) return {};
    return {Found::Kind::object, std::move(found.mapped())};
  }

 private:
  /// The objects of one process. Never destroyed: other threads may be in calls while the program ends.
  struct List {
    List(pid_t of_process, std::uintptr_t first_number, List* parents)
        : process(of_process), first(first_number), parent(parents), next(first_number) {}

    const pid_t process;
    const std::uintptr_t first;  ///< lower numbers are the parent's
    List* const parent;
    std::atomic<std::uintptr_t> next;
    std::mutex mutex;
    std::map<std::uintptr_t, std::shared_ptr<Object>> objects;
  };

  static List& list() {
    List* found = newest.load(std::memory_order_acquire);
    const pid_t process = ::getpid();
    if (found != nullptr && found->process == process) return *found;
    const std::uintptr_t first = found == nullptr ? 1 : found->next.load();
    auto made = std::make_unique<List>(process, first, found);
    if (newest.compare_exchange_strong(found, made.get(), std::memory_order_acq_rel)) return *made.release();
    return *found;
  }

  /// The parent's list that has the number; its mutex may be held by a thread that this process does not have.
  static void let_go(List* of, std::uintptr_t number) {
    while (of != nullptr && number < of->first) of = of->parent;
    if (of == nullptr) return;
    std::shared_ptr<Object> object;
    if (const std::unique_lock lock(of->mutex, std::try_to_lock); lock.owns_lock()) {
      if (auto found = of->objects.extract(number)) object = std::move(found.mapped());
    }
  }

  static inline std::atomic<List*> newest{nullptr};
};

}  // namespace dsanalyze::client
