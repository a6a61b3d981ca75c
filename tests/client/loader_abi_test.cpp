#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "base/system/files.hpp"
#include "client_rig.hpp"
#include "dsanalyze/dsanalyze.h"

using dsanalyze::testing::Rig;

namespace {

constexpr int rows = 22;
constexpr int row_bytes = 6;
constexpr int batch_size = 4;
constexpr int wait_ms = 20'000;

/// A NumPy array whose row r has six bytes of r.
class Rows {
 public:
  Rows() : m_folder(Rig::made_folder()) {
    std::string header = "{'descr': '|u1', 'fortran_order': False, 'shape': (22, 6), }";
    header.resize(118 - 1, ' ');
    header += '\n';
    std::ofstream file(path(), std::ios::binary);
    file << "\x93NUMPY" << '\1' << '\0' << static_cast<char>(header.size()) << '\0' << header;
    for (int row = 0; row < rows; ++row) file << std::string(row_bytes, static_cast<char>(row));
  }
  ~Rows() {
    std::error_code ignored;
    std::filesystem::remove_all(m_folder, ignored);
  }
  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;
  [[nodiscard]] std::filesystem::path path() const { return m_folder / "rows.npy"; }
  [[nodiscard]] std::string options(const std::string& more = "") const {
    return R"({"settings": {"dataset": ")" + path().string() + R"(", "batch_size": 4, "workers": 1, "seed": 5})" + more + "}";
  }

 private:
  std::filesystem::path m_folder;
};

dsa_loader* opened(const std::string& options) {
  dsa_loader* loader = nullptr;
  const dsa_status status = dsa_loader_open(options.c_str(), &loader);
  REQUIRE_MESSAGE(status == DSA_OK, std::string(dsa_last_error()));
  return loader;
}

struct Taken {
  std::vector<int> ids;
  dsa_batch batch = DSA_BATCH_INIT;
};
Taken take(dsa_loader* loader) {
  Taken taken;
  REQUIRE_MESSAGE(dsa_loader_next(loader, &taken.batch, wait_ms) == DSA_OK, std::string(dsa_last_error()));
  const auto* const bytes = static_cast<const std::uint8_t*>(taken.batch.samples);
  for (std::uint32_t at = 0; at < taken.batch.count; ++at) {
    taken.ids.push_back(static_cast<int>(taken.batch.ids[at]));
    for (int byte = 0; byte < row_bytes; ++byte) CHECK(bytes[at * row_bytes + static_cast<std::uint32_t>(byte)] == taken.batch.ids[at]);
  }
  return taken;
}

std::vector<int> take_epoch(dsa_loader* loader) {
  std::vector<int> ids;
  for (bool last = false; !last;) {
    Taken taken = take(loader);
    last = taken.batch.last_of_epoch != 0;
    ids.insert(ids.end(), taken.ids.begin(), taken.ids.end());
    CHECK(dsa_loader_release(loader, taken.batch.token) == DSA_OK);
  }
  return ids;
}

std::string state_of(dsa_loader* loader, std::uint64_t epoch, std::uint64_t index) {
  std::size_t size = 0;
  REQUIRE(dsa_loader_state(loader, epoch, index, nullptr, &size) == DSA_OK);
  std::string text(size, '\0');
  REQUIRE(dsa_loader_state(loader, epoch, index, text.data(), &size) == DSA_OK);
  text.resize(size - 1);
  return text;
}

}  // namespace

TEST_CASE("a loader of a program's own gives each sample once an epoch, and goes on at any place") {
  const Rows data;
  dsa_loader* const loader = opened(data.options());
  dsa_terms terms = DSA_TERMS_INIT;
  REQUIRE(dsa_loader_info(loader, &terms) == DSA_OK);
  CHECK(terms.samples == rows);
  CHECK(terms.batches_per_epoch == 6);
  CHECK(terms.batch_size == batch_size);
  CHECK(terms.dtype.code == DSA_UINT);
  std::vector<std::vector<int>> epochs;
  for (int epoch = 0; epoch < 3; ++epoch) {
    epochs.push_back(take_epoch(loader));
    std::vector<int> sorted = epochs.back();
    std::ranges::sort(sorted);
    for (int row = 0; row < rows; ++row) CHECK(sorted[static_cast<std::size_t>(row)] == row);
  }
  CHECK(epochs[0] != epochs[1]);
  REQUIRE(dsa_loader_seek(loader, state_of(loader, 1, 2).c_str()) == DSA_OK);
  const Taken taken = take(loader);
  CHECK(taken.batch.epoch == 1);
  CHECK(taken.batch.index == 2);
  CHECK(taken.ids == std::vector<int>(epochs[1].begin() + 8, epochs[1].begin() + 12));
  // Behind an epoch's last batch lies the next one's first.
  CHECK(state_of(loader, 0, 6) == state_of(loader, 1, 0));
  // What is held stays as it is, whatever the loader does, and after it was closed.
  REQUIRE(dsa_loader_seek(loader, state_of(loader, 2, 0).c_str()) == DSA_OK);
  CHECK(dsa_loader_close(loader) == DSA_OK);
  const auto* const bytes = static_cast<const std::uint8_t*>(taken.batch.samples);
  for (std::uint32_t at = 0; at < taken.batch.count; ++at) CHECK(bytes[at * row_bytes] == taken.batch.ids[at]);
  dsa_batch none = DSA_BATCH_INIT;
  CHECK(dsa_loader_next(loader, &none, 0) == DSA_END);
  CHECK(dsa_loader_release(loader, taken.batch.token) == DSA_OK);
  CHECK(dsa_loader_release(loader, taken.batch.token) == DSA_INVALID);
  CHECK(dsa_loader_close(loader) == DSA_INVALID);
}

TEST_CASE("no more batches are held than were asked for, and ranks have their parts") {
  const Rows data;
  dsa_loader* const one = opened(data.options(R"(, "held": 2, "rank": 1, "world": 2)"));
  const Taken first = take(one);
  const Taken second = take(one);
  dsa_batch third = DSA_BATCH_INIT;
  CHECK(dsa_loader_next(one, &third, wait_ms) == DSA_BUSY);
  CHECK(dsa_loader_release(one, first.batch.token) == DSA_OK);
  CHECK(dsa_loader_next(one, &third, wait_ms) == DSA_OK);
  CHECK(third.last_of_epoch == 1);  // 22 samples are two global batches of 8 and one of 6.
  CHECK(third.count == 3);
  CHECK(dsa_loader_release(one, second.batch.token) == DSA_OK);
  CHECK(dsa_loader_release(one, third.token) == DSA_OK);
  CHECK(dsa_loader_close(one) == DSA_OK);
}

TEST_CASE("what makes no sense of a loader is refused with words, and nothing is done") {
  const Rows data;
  dsa_loader* loader = nullptr;
  CHECK(dsa_loader_open(nullptr, &loader) == DSA_INVALID);
  CHECK(dsa_loader_open("{}", nullptr) == DSA_INVALID);
  for (const char* const options : {"", "{", "[]", R"({"settings": {}})", R"({"settings": {"dataset": "x"}, "rank": 2, "world": 2})"}) {
    CAPTURE(options);
    CHECK(dsa_loader_open(options, &loader) == DSA_INVALID);
    CHECK(loader == nullptr);
    CHECK_FALSE(std::string(dsa_last_error()).empty());
  }
  for (const char* const of_a_profile : {R"("jobs": 2)", R"("world": 2)", R"("storage": "null")", R"("prep": "null")"}) {
    CAPTURE(of_a_profile);
    CHECK(dsa_loader_open((std::string(R"({"settings": {"dataset": "/no/such/folder", )") + of_a_profile + "}}").c_str(), &loader) == DSA_INVALID);
    CHECK(std::string(dsa_last_error()).find("emulates nothing") != std::string::npos);
  }
  CHECK(dsa_loader_open(R"({"settings": {"dataset": "/no/such/folder"}})", &loader) == DSA_FAILED);
  loader = opened(data.options());
  const std::string good = state_of(loader, 0, 0);
  CHECK(dsa_loader_seek(loader, nullptr) == DSA_INVALID);
  CHECK(dsa_loader_seek(loader, "nonsense") == DSA_INVALID);
  std::size_t size = 0;
  CHECK(dsa_loader_state(loader, 0, 7, nullptr, &size) == DSA_INVALID);
  CHECK(dsa_loader_state(loader, UINT64_MAX, 0, nullptr, &size) == DSA_INVALID);
  CHECK(dsa_loader_state(loader, 0, 0, nullptr, nullptr) == DSA_INVALID);
  dsa_loader* const other = opened(R"({"settings": {"dataset": ")" + data.path().string() + R"(", "batch_size": 4, "workers": 1, "seed": 6}})");
  CHECK(dsa_loader_seek(other, good.c_str()) == DSA_INVALID);
  CHECK(std::string(dsa_last_error()).find("seed 5") != std::string::npos);
  CHECK(take_epoch(loader).size() == rows);
  CHECK(dsa_loader_close(other) == DSA_OK);
  CHECK(dsa_loader_close(loader) == DSA_OK);
  CHECK(dsa_loader_close(nullptr) == DSA_OK);
}

TEST_CASE("a call that waits ends when the loader is closed, and a child of fork has none of it") {
  const Rows data;
  dsa_loader* const loader = opened(data.options());
  const Taken held = take(loader);
  const pid_t child = ::fork();
  if (child == 0) {
    dsa_batch batch = DSA_BATCH_INIT;
    const bool right = dsa_loader_next(loader, &batch, 0) == DSA_FORKED && dsa_loader_release(loader, held.batch.token) == DSA_FORKED &&
                       dsa_loader_close(loader) == DSA_OK;
    ::_exit(right ? 0 : 1);
  }
  int status = 1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(dsa_loader_release(loader, held.batch.token) == DSA_OK);
  std::thread other([loader] { dsa_loader_close(loader); });
  dsa_status last = DSA_OK;
  while (last == DSA_OK || last == DSA_TIMEOUT) {
    dsa_batch batch = DSA_BATCH_INIT;
    last = dsa_loader_next(loader, &batch, wait_ms);
    if (last == DSA_OK) dsa_loader_release(loader, batch.token);
  }
  other.join();
  CHECK((last == DSA_END || last == DSA_INVALID));
}

TEST_CASE("a dataset is opened in the background, which ready() waits for and close() gives up") {
  const Rows data;
  const std::string options = data.options(R"(, "background": true)");
  dsa_loader* const loader = opened(options);
  REQUIRE(dsa_loader_ready(loader, wait_ms) == DSA_OK);
  CHECK(take_epoch(loader).size() == rows);
  CHECK(dsa_loader_close(loader) == DSA_OK);
  dsa_batch batch = DSA_BATCH_INIT;
  for (int round = 0; round < 100; ++round) {
    dsa_loader* const given_up = opened(options);
    const dsa_status status = dsa_loader_next(given_up, &batch, 0);
    CHECK((status == DSA_OK || status == DSA_TIMEOUT));
    if (status == DSA_OK) dsa_loader_release(given_up, batch.token);
    std::thread waiting([given_up] {
      const dsa_status ended = dsa_loader_ready(given_up, wait_ms);
      CHECK_MESSAGE((ended == DSA_OK || ended == DSA_END || ended == DSA_INVALID), std::string(dsa_last_error()));
    });
    CHECK(dsa_loader_close(given_up) == DSA_OK);
    CHECK(dsa_loader_ready(given_up, 0) == DSA_INVALID);
    waiting.join();
  }
  dsa_loader* missing = nullptr;
  REQUIRE(dsa_loader_open(R"({"settings": {"dataset": "/nowhere"}, "background": true})", &missing) == DSA_OK);
  CHECK(dsa_loader_ready(missing, wait_ms) == DSA_FAILED);
  CHECK(std::string(dsa_last_error()).find("/nowhere") != std::string::npos);
  CHECK(dsa_loader_next(missing, &batch, 0) == DSA_FAILED);
  CHECK(dsa_loader_close(missing) == DSA_OK);
}

TEST_CASE("a child of fork closes a loader whose dataset its parent is opening, and the parent goes on") {
  const Rows data;
  for (int round = 0; round < 10; ++round) {
    dsa_loader* const loader = opened(data.options(R"(, "background": true)"));
    const pid_t child = ::fork();
    if (child == 0) ::_exit(dsa_loader_ready(loader, 0) == DSA_FORKED && dsa_loader_close(loader) == DSA_OK ? 0 : 1);
    int status = 1;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    CHECK(take_epoch(loader).size() == rows);
    CHECK(dsa_loader_close(loader) == DSA_OK);
  }
}

TEST_CASE("a batch that another thread's call waits for is not given out once the loader is closed") {
  const Rows data;
  for (int round = 0; round < 200; ++round) {
    dsa_loader* const loader = opened(data.options());
    std::thread other([loader] {
      dsa_batch batch = DSA_BATCH_INIT;
      if (dsa_loader_next(loader, &batch, wait_ms) != DSA_OK) return;
      const auto* const bytes = static_cast<const std::uint8_t*>(batch.samples);
      for (std::uint32_t at = 0; at < batch.count; ++at) CHECK(bytes[at * row_bytes] == batch.ids[at]);  // Memory that is there.
      CHECK(dsa_loader_release(loader, batch.token) == DSA_OK);
    });
    CHECK(dsa_loader_close(loader) == DSA_OK);
    other.join();
  }
}

TEST_CASE("two ranks hold a dataset together, go on elsewhere together while each holds a batch, and one that closes is lost to the other") {
  const Rows data;
  const std::string meeting = (data.path().parent_path() / "meeting").string();
  std::array<dsa_loader*, 2> ranks{};
  for (std::size_t rank = 0; rank < 2; ++rank) {
    const std::string options =
        R"({"settings": {"dataset": ")" + data.path().string() +
        R"(", "batch_size": 4, "workers": 1, "seed": 5, "cache": "minio", "partition": "partitioned"}, "cache_size": "60%", "held": 3, )" +
        R"("rendezvous": ")" + meeting + R"(", "world": 2, "rank": )" + std::to_string(rank) + "}";
    ranks[rank] = opened(options);
  }
  // What a rank takes in a thread of its own; checks of doctest's are for the thread that runs the test.
  const auto both = [&](const std::function<void(dsa_loader*, std::vector<int>&)>& body) {
    std::array<std::vector<int>, 2> ids;
    std::thread other([&] { body(ranks[1], ids[1]); });
    body(ranks[0], ids[0]);
    other.join();
    std::vector<int> all = ids[0];
    all.insert(all.end(), ids[1].begin(), ids[1].end());
    std::ranges::sort(all);
    return all;
  };
  const auto epoch = [](dsa_loader* loader, std::vector<int>& ids) {
    dsa_batch batch = DSA_BATCH_INIT;
    while (batch.last_of_epoch == 0 && dsa_loader_next(loader, &batch, wait_ms) == DSA_OK) {
      ids.insert(ids.end(), batch.ids, batch.ids + batch.count);
      dsa_loader_release(loader, batch.token);
    }
  };
  std::vector<int> every(rows);
  std::iota(every.begin(), every.end(), 0);
  for (dsa_loader* const loader : ranks) REQUIRE(dsa_loader_ready(loader, wait_ms) == DSA_OK);
  for (int i = 0; i < 2; ++i) CHECK(both(epoch) == every);
  std::array<dsa_batch, 2> held{dsa_batch(DSA_BATCH_INIT), dsa_batch(DSA_BATCH_INIT)};
  both([&](dsa_loader* loader, std::vector<int>&) { dsa_loader_next(loader, &held[loader == ranks[0] ? 0 : 1], wait_ms); });
  for (dsa_loader* const loader : ranks) REQUIRE(dsa_loader_seek(loader, state_of(loader, 7, 0).c_str()) == DSA_OK);
  CHECK(both(epoch) == every);
  for (std::size_t rank = 0; rank < 2; ++rank) CHECK(dsa_loader_release(ranks[rank], held[rank].token) == DSA_OK);
  CHECK(both(epoch) == every);

  both([&](dsa_loader* loader, std::vector<int>&) { dsa_loader_next(loader, &held[loader == ranks[0] ? 0 : 1], wait_ms); });
  CHECK(dsa_loader_close(ranks[0]) == DSA_OK);
  dsa_status last = DSA_OK;
  for (dsa_batch batch = held[1]; last == DSA_OK; last = dsa_loader_next(ranks[1], &batch, wait_ms)) dsa_loader_release(ranks[1], batch.token);
  CHECK(last == DSA_FAILED);
  CHECK(std::string(dsa_last_error()).find("rank 0 of 2 was lost") != std::string::npos);
  CHECK(dsa_loader_release(ranks[0], held[0].token) == DSA_OK);
  CHECK(dsa_loader_close(ranks[1]) == DSA_OK);
}
