#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "dsanalyze/dsanalyze.h"

// The C ABI of libdsanalyze for C++20: a job of a group that shares prepared batches. Header only; needs nothing but the library.
//
//   dsanalyze::client::Client job;
//   while (auto batch = job.next()) train_on(batch->elements<float>(), batch->labels());
//
// A batch is given back when it goes out of scope. Threads: as dsanalyze.h has it.
namespace dsanalyze::client {

/// A call that did not end well: its status, and what happened in words.
class ClientError : public std::runtime_error {
 public:
  ClientError(dsa_status status, const std::string& text) : std::runtime_error(text), m_status(status) {}
  [[nodiscard]] dsa_status status() const noexcept { return m_status; }

 private:
  dsa_status m_status;
};

inline void require_ok(dsa_status status) {
  if (status != DSA_OK) throw ClientError(status, std::string(dsa_status_text(status)) + ": " + dsa_last_error());
}

/// How to attach; what is left open is as the group has it.
struct Options {
  std::string address{};  ///< "unix:PATH"; empty: DSANALYZE_GROUP in the environment
  std::optional<std::uint32_t> batch_size{};
  std::optional<std::uint64_t> seed{};
  std::string dataset_digest{};
  std::string prep{};
  std::int32_t timeout_ms = 0;                                         ///< 0: DSA_DEFAULT_TIMEOUT_MS
  std::uint64_t epochs = 0;                                            ///< 0: as the group has it
  std::string subset{};                                                ///< as in dsa_options; empty: the whole dataset
  std::string name{};                                                  ///< as in dsa_options; empty: DSANALYZE_JOB in the environment
  std::function<void(std::uint64_t epoch, double seconds)> waiting{};  ///< as dsa_waiting; what it throws is thrown by the constructor
};

/// A batch that is held, read in place. Gives it back when it is destroyed; its job stays in the group as long.
class HeldBatch {
 public:
  HeldBatch(std::shared_ptr<dsa_client> client, const dsa_batch& batch) : m_client(std::move(client)), m_batch(batch) {}
  HeldBatch(HeldBatch&& other) noexcept : m_client(std::move(other.m_client)), m_batch(other.m_batch) {}
  HeldBatch& operator=(HeldBatch&& other) noexcept {
    if (this != &other) {
      give_back();
      m_client = std::move(other.m_client);
      m_batch = other.m_batch;
    }
    return *this;
  }
  ~HeldBatch() { give_back(); }

  /// Now. Throws ClientError: what was read may have been overwritten (DSA_EXPELLED).
  void release() {
    const std::shared_ptr<dsa_client> client = std::move(m_client);
    if (client != nullptr) require_ok(dsa_release(client.get(), m_batch.token));
  }

  [[nodiscard]] const dsa_batch& facts() const { return m_batch; }
  [[nodiscard]] std::uint64_t epoch() const { return m_batch.epoch; }
  [[nodiscard]] std::uint64_t index() const { return m_batch.index; }
  [[nodiscard]] bool last_of_epoch() const { return m_batch.last_of_epoch != 0; }
  [[nodiscard]] std::span<const std::uint32_t> ids() const { return {m_batch.ids, m_batch.count}; }
  [[nodiscard]] std::span<const std::uint32_t> labels() const { return {m_batch.labels, m_batch.count}; }
  [[nodiscard]] std::span<const std::int64_t> shape() const { return {m_batch.shape, static_cast<std::size_t>(m_batch.ndim)}; }
  /// In elements, as DLPack has them.
  [[nodiscard]] std::span<const std::int64_t> strides() const { return {m_batch.strides, static_cast<std::size_t>(m_batch.ndim)}; }
  /// The samples where they lie: float, or std::uint8_t. Throws ClientError (DSA_INVALID) when the elements are of another type.
  template <typename Element>
  [[nodiscard]] std::span<const Element> elements() const {
    constexpr bool floats = std::is_floating_point_v<Element>;
    if (m_batch.dtype.code != (floats ? DSA_FLOAT : DSA_UINT) || m_batch.dtype.bits != 8 * sizeof(Element)) {
      throw ClientError(DSA_INVALID, "the batch's elements are of another type");
    }
    std::size_t size = 1;
    for (const std::int64_t extent : shape()) size *= static_cast<std::size_t>(extent);
    return {static_cast<const Element*>(m_batch.samples), size};
  }

 private:
  void give_back() noexcept {
    if (m_client != nullptr) static_cast<void>(dsa_release(m_client.get(), m_batch.token));
    m_client.reset();
  }

  std::shared_ptr<dsa_client> m_client;
  dsa_batch m_batch;
};

/// A membership. Leaves when it and its batches are gone.
class Client {
 public:
  /// As dsa_attach(). Throws ClientError.
  explicit Client(const Options& options = {}) {
    dsa_options asked = DSA_OPTIONS_INIT;
    if (!options.address.empty()) asked.address = options.address.c_str();
    asked.batch_size = options.batch_size.value_or(0);
    if (options.seed) asked.seed = &*options.seed;
    if (!options.dataset_digest.empty()) asked.dataset_digest = options.dataset_digest.c_str();
    if (!options.prep.empty()) asked.prep = options.prep.c_str();
    asked.timeout_ms = options.timeout_ms;
    asked.epochs = options.epochs;
    if (!options.subset.empty()) asked.subset = options.subset.c_str();
    if (!options.name.empty()) asked.name = options.name.c_str();
    Waiting waiting{options, {}};
    if (options.waiting) {
      asked.waiting = &Waiting::told;
      asked.waiting_context = &waiting;
    }
    dsa_client* client = nullptr;
    const dsa_status status = dsa_attach(&asked, &client);
    if (status == DSA_OK) m_client = std::shared_ptr<dsa_client>(client, [](dsa_client* of) { static_cast<void>(dsa_detach(of)); });
    if (waiting.thrown) std::rethrow_exception(waiting.thrown);
    require_ok(status);
  }

  /// The group's terms; texts in it are valid as long as this.
  [[nodiscard]] dsa_terms terms() const {
    dsa_terms terms = DSA_TERMS_INIT;
    require_ok(dsa_info(m_client.get(), &terms));
    return terms;
  }
  /// The next batch, however long it takes; nothing when none will come any more. Throws ClientError.
  std::optional<HeldBatch> next() {
    while (true) {
      dsa_batch batch = DSA_BATCH_INIT;
      const dsa_status status = dsa_next(m_client.get(), &batch, -1);
      if (status == DSA_TIMEOUT) continue;
      if (status == DSA_END) return std::nullopt;
      require_ok(status);
      return HeldBatch(m_client, batch);
    }
  }
  /// The same within so many milliseconds: DSA_OK with a batch, DSA_TIMEOUT, DSA_END or DSA_BUSY without. Throws ClientError for all else.
  std::pair<dsa_status, std::optional<HeldBatch>> next_within(std::int32_t timeout_ms) {
    dsa_batch batch = DSA_BATCH_INIT;
    const dsa_status status = dsa_next(m_client.get(), &batch, timeout_ms);
    if (status == DSA_TIMEOUT || status == DSA_END || status == DSA_BUSY) return {status, std::nullopt};
    require_ok(status);
    return {status, HeldBatch(m_client, batch)};
  }
  /// For event loops; as dsa_event_fd().
  [[nodiscard]] int event_descriptor() {
    int descriptor = -1;
    require_ok(dsa_event_fd(m_client.get(), &descriptor));
    return descriptor;
  }
  void leave_after(std::uint64_t epoch) { require_ok(dsa_leave_after(m_client.get(), epoch)); }
  void leave() { require_ok(dsa_leave(m_client.get())); }
  /// For calls of dsanalyze.h that this lacks.
  [[nodiscard]] dsa_client* handle() const { return m_client.get(); }

 private:
  /// No exception goes through the library.
  struct Waiting {
    const Options& options;
    std::exception_ptr thrown{};
    static void told(void* context, std::uint64_t epoch, double seconds) {
      auto& self = *static_cast<Waiting*>(context);
      if (self.thrown) return;
      try {
        self.options.waiting(epoch, seconds);
      } catch (...) {
        self.thrown = std::current_exception();
      }
    }
  };

  std::shared_ptr<dsa_client> m_client;
};

}  // namespace dsanalyze::client
