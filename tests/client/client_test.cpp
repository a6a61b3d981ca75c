#include <doctest/doctest.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <thread>

#include "client_rig.hpp"

namespace dsanalyze::testing {
namespace {

std::vector<std::uint32_t> all_samples() {
  std::vector<std::uint32_t> all(rig_samples);
  std::iota(all.begin(), all.end(), 0U);
  return all;
}

#if defined(__SANITIZE_THREAD__)
// The jobs' pages are mapped here twice, by job and coordinator: that a release comes before the slot is used again is nothing that the sanitizer
// sees.
constexpr std::array who_prepares{Producers::jobs};
#else
constexpr std::array who_prepares{Producers::jobs, Producers::coordinator};
#endif

std::string told() { return dsa_last_error(); }

dsa_status refusal_of(const dsa_options& options) {
  dsa_client* client = nullptr;
  const dsa_status status = dsa_attach(&options, &client);
  CHECK(client == nullptr);
  return status;
}

}  // namespace

TEST_CASE("two jobs each take every sample of each epoch once, whichever process prepares") {
  for (const Producers producers : who_prepares) {
    CAPTURE(producers_name(producers));
    Rig rig({.jobs = 2, .epochs = 3, .producers = producers});
    std::array<std::vector<Taken>, 2> taken;
    std::array<dsa_status, 2> ended{};
    {
      std::vector<std::jthread> jobs;
      for (std::size_t i = 0; i < 2; ++i) {
        jobs.emplace_back([&, i] {
          dsa_client* const client = rig.attach();
          taken.at(i) = take_all(client, ended.at(i));
          dsa_detach(client);
        });
      }
    }
    for (std::size_t i = 0; i < 2; ++i) {
      CHECK(ended.at(i) == DSA_END);
      REQUIRE(taken.at(i).size() == 3);
      for (const Taken& epoch : taken.at(i)) {
        std::vector<std::uint32_t> sorted = epoch.ids;
        std::ranges::sort(sorted);
        CHECK(sorted == all_samples());
        CHECK(epoch.batches == 7);
      }
      CHECK(taken.at(i)[0].ids != taken.at(i)[1].ids);
    }
    for (std::size_t epoch = 0; epoch < 3; ++epoch) CHECK(taken[0][epoch].ids == taken[1][epoch].ids);
    REQUIRE(rig.run().wait_over(system_timing().clock->after(60)));
    const ShareResult result = rig.run().finish();
    CHECK(result.samples_prepared == 3 * rig_samples);
    CHECK(result.samples_taken == 2 * 3 * rig_samples);
  }
}

TEST_CASE("the terms say what the group has agreed on, and the tensor as DLPack does") {
  const Rig rig({.jobs = 1, .epochs = 5, .held = 2});
  dsa_client* const client = rig.attach();
  dsa_terms terms = DSA_TERMS_INIT;
  REQUIRE(dsa_info(client, &terms) == DSA_OK);
  CHECK(terms.jobs == 1);
  CHECK(terms.place == 0);
  CHECK(terms.batch_size == rig_batch_size);
  CHECK(terms.held == 2);
  CHECK(terms.producers == DSA_PRODUCERS_JOBS);
  CHECK(terms.samples == rig_samples);
  CHECK(terms.batches_per_epoch == 7);
  CHECK(terms.epochs == 5);
  CHECK(terms.first_epoch == 0);
  CHECK(terms.seed == 7);
  CHECK(terms.dtype.code == DSA_UINT);
  CHECK(terms.dtype.bits == 8);
  CHECK(terms.dtype.lanes == 1);
  REQUIRE(terms.ndim == 4);
  CHECK(terms.shape[0] == rig_batch_size);
  CHECK(terms.strides[3] == 1);
  CHECK(std::string(terms.prep).find("emulated") != std::string::npos);
  CHECK(std::strlen(terms.dataset_digest) > 0);
  dsa_batch batch = DSA_BATCH_INIT;
  REQUIRE(next_batch(client, batch) == DSA_OK);
  CHECK(batch.count == rig_batch_size);
  CHECK(batch.shape[0] == rig_batch_size);
  CHECK(batch.index == 0);
  CHECK(reinterpret_cast<std::uintptr_t>(batch.samples) % 4096 == 0);
  CHECK(*std::max_element(batch.labels, batch.labels + batch.count) < 3);
  dsa_detach(client);
}

TEST_CASE("a group with other terms than demanded refuses, and says what differs") {
  const Rig rig({.jobs = 2});
  const auto refused = [&rig](const auto& demand, const char* first, const char* second) {
    dsa_options options = rig.options();
    demand(options);
    CHECK(refusal_of(options) == DSA_REFUSED);
    CAPTURE(told());
    CHECK(told().find(first) != std::string::npos);
    CHECK(told().find(second) != std::string::npos);
  };
  const std::uint64_t seed = 8;
  refused([](dsa_options& options) { options.batch_size = 512; }, "512", "4");
  refused([&seed](dsa_options& options) { options.seed = &seed; }, "8", "7");
  refused([](dsa_options& options) { options.dataset_digest = "another-dataset"; }, "another-dataset", "digest");
  refused([](dsa_options& options) { options.prep = "image 17 x 17"; }, "image 17 x 17", "emulated");
  // What it has may be demanded.
  const std::uint64_t same = 7;
  dsa_options options = rig.options();
  options.batch_size = rig_batch_size;
  options.seed = &same;
  dsa_client* client = nullptr;
  CHECK(dsa_attach(&options, &client) == DSA_OK);
  dsa_detach(client);
}

TEST_CASE("an address that is none, or where no process listens, is reported so") {
  dsa_client* client = nullptr;
  dsa_options options = DSA_OPTIONS_INIT;
  ::unsetenv("DSANALYZE_GROUP");
  CHECK(dsa_attach(nullptr, &client) == DSA_INVALID);
  CHECK(told().find("DSANALYZE_GROUP") != std::string::npos);
  options.address = "tcp:localhost:80";
  CHECK(dsa_attach(&options, &client) == DSA_INVALID);
  options.address = "unix:/nowhere/group";
  CHECK(dsa_attach(&options, &client) == DSA_NO_GROUP);
  CHECK(told().find("/nowhere/group") != std::string::npos);
  CHECK(dsa_attach(&options, nullptr) == DSA_INVALID);
}

TEST_CASE("the environment names the group") {
  const Rig rig({});
  ::setenv("DSANALYZE_GROUP", rig.address(), 1);
  dsa_client* client = nullptr;
  CHECK(dsa_attach(nullptr, &client) == DSA_OK);
  ::unsetenv("DSANALYZE_GROUP");
  CHECK(dsa_detach(client) == DSA_OK);
}

TEST_CASE("a handle that was detached, or never was one, is refused") {
  const Rig rig({});
  dsa_client* const client = rig.attach();
  dsa_batch batch = DSA_BATCH_INIT;
  dsa_terms terms = DSA_TERMS_INIT;
  int descriptor = -1;
  CHECK(dsa_detach(client) == DSA_OK);
  for (dsa_client* const stale : {client, reinterpret_cast<dsa_client*>(0x12345678), static_cast<dsa_client*>(nullptr)}) {
    CHECK(dsa_next(stale, &batch, 0) == DSA_INVALID);
    CHECK(dsa_info(stale, &terms) == DSA_INVALID);
    CHECK(dsa_release(stale, 1) == DSA_INVALID);
    CHECK(dsa_event_fd(stale, &descriptor) == DSA_INVALID);
    CHECK(dsa_leave(stale) == DSA_INVALID);
    CHECK(dsa_leave_after(stale, 0) == DSA_INVALID);
    CHECK(std::string(dsa_error(stale)).find("no client") != std::string::npos);
  }
  CHECK(dsa_detach(client) == DSA_INVALID);
  CHECK(dsa_detach(nullptr) == DSA_OK);
}

TEST_CASE("structs of older and newer headers are served") {
  const Rig rig({});
  struct Newer {
    dsa_options options = DSA_OPTIONS_INIT;
    std::uint64_t unknown = 0;
  } newer;
  newer.options = rig.options();
  newer.options.struct_size = sizeof newer;
  dsa_client* client = nullptr;
  newer.unknown = 1;
  CHECK(dsa_attach(&newer.options, &client) == DSA_INVALID);  // it asks for what this library does not know
  newer.unknown = 0;
  REQUIRE(dsa_attach(&newer.options, &client) == DSA_OK);

  dsa_terms older = DSA_TERMS_INIT;
  older.struct_size = offsetof(dsa_terms, producers) - offsetof(dsa_terms, producers) % 8;
  older.samples = 4711;
  CHECK(dsa_info(client, &older) == DSA_OK);
  CHECK(older.batch_size == rig_batch_size);
  CHECK(older.samples == 4711);  // beyond what the caller has
  struct NewerTerms {
    dsa_terms terms = DSA_TERMS_INIT;
    std::uint64_t unknown = 4711;
  } terms;
  terms.terms.struct_size = sizeof terms;
  CHECK(dsa_info(client, &terms.terms) == DSA_OK);
  CHECK(terms.terms.samples == rig_samples);
  CHECK(terms.unknown == 0);

  dsa_batch batch = DSA_BATCH_INIT;
  for (const std::uint32_t size : {0U, 4U, 7U, 13U, 1'000'000U}) {
    batch.struct_size = size;
    CHECK(dsa_next(client, &batch, 0) == DSA_INVALID);
    dsa_options options = rig.options();
    options.struct_size = size;
    dsa_client* other = nullptr;
    CHECK(dsa_attach(&options, &other) == DSA_INVALID);
  }
  CHECK(dsa_next(client, nullptr, 0) == DSA_INVALID);
  batch.struct_size = offsetof(dsa_batch, samples);
  batch.ids = nullptr;
  REQUIRE(next_batch(client, batch) == DSA_OK);
  CHECK(batch.count == rig_batch_size);
  CHECK(batch.ids == nullptr);
  CHECK(dsa_release(client, batch.token) == DSA_OK);
  dsa_detach(client);
}

TEST_CASE("epochs and a part of the dataset are demands, which options of an older header do not have") {
  const Rig rig({.jobs = 1, .epochs = 2});
  dsa_client* client = nullptr;
  dsa_options options = rig.options();
  options.epochs = 3;
  CHECK(dsa_attach(&options, &client) == DSA_REFUSED);
  CHECK(told().find("the number of epochs of the group is 2, this job asks for 3") != std::string::npos);
  options.epochs = 0;
  options.subset = "50%";
  CHECK(dsa_attach(&options, &client) == DSA_REFUSED);
  CHECK(told().find("the part of the dataset") != std::string::npos);
  options.struct_size = offsetof(dsa_options, epochs);
  CHECK(dsa_attach(&options, &client) == DSA_OK);
  dsa_detach(client);
}

TEST_CASE("what is in the structs stays where it is") {
  CHECK(sizeof(dsa_options) == 88);
  CHECK(sizeof(dsa_terms) == 224);
  CHECK(sizeof(dsa_batch) == 200);
  CHECK(offsetof(dsa_options, waiting_context) == 56);
  CHECK(offsetof(dsa_options, subset) == 72);
  CHECK(offsetof(dsa_options, name) == 80);
  CHECK(offsetof(dsa_terms, prep) == 216);
  CHECK(offsetof(dsa_batch, samples) == 40);
  CHECK(dsa_version() == DSA_VERSION);
}

TEST_CASE("as many batches are held as the terms say, and are given back in any order, once") {
  const Rig rig({.jobs = 1, .epochs = 1, .held = 2});
  dsa_client* const client = rig.attach();
  std::array<dsa_batch, 2> held{{DSA_BATCH_INIT, DSA_BATCH_INIT}};
  REQUIRE(next_batch(client, held[0]) == DSA_OK);
  REQUIRE(next_batch(client, held[1]) == DSA_OK);
  CHECK(held[0].token != held[1].token);
  dsa_batch third = DSA_BATCH_INIT;
  CHECK(dsa_next(client, &third, 1000) == DSA_BUSY);
  CHECK(dsa_release(client, held[1].token) == DSA_OK);
  CHECK(dsa_release(client, held[1].token) == DSA_INVALID);
  CHECK(dsa_release(client, 0) == DSA_INVALID);
  CHECK(dsa_release(client, 999) == DSA_INVALID);
  CHECK(dsa_release(client, held[0].token) == DSA_OK);
  CHECK(next_batch(client, third) == DSA_OK);
  CHECK(third.index == 2);
  dsa_detach(client);
}

TEST_CASE("a job that waits for others is told to ask again") {
  const Rig rig({.jobs = 2});
  dsa_client* const client = rig.attach();
  dsa_batch batch = DSA_BATCH_INIT;
  CHECK(dsa_next(client, &batch, 0) == DSA_TIMEOUT);
  CHECK(dsa_next(client, &batch, 20) == DSA_TIMEOUT);
  CHECK(std::string(dsa_status_text(DSA_TIMEOUT)) == "timeout");
  CHECK(std::string(dsa_status_text(4711)) == "unknown status");
  CHECK(std::string(dsa_error(client)).empty());
  dsa_detach(client);
}

TEST_CASE("a job that comes while the group has its jobs is told for which epoch it waits") {
  const Rig rig({.jobs = 1, .epochs = 0});
  dsa_client* const client = rig.attach();
  dsa_batch batch = DSA_BATCH_INIT;
  REQUIRE(next_batch(client, batch) == DSA_OK);
  std::vector<std::uint64_t> told_epochs;
  dsa_options options = rig.options();
  options.timeout_ms = 300;
  options.waiting = [](void* context, std::uint64_t epoch, double /*seconds*/) {
    static_cast<std::vector<std::uint64_t>*>(context)->push_back(epoch);
  };
  options.waiting_context = &told_epochs;
  dsa_client* late = nullptr;
  CHECK(dsa_attach(&options, &late) == DSA_TIMEOUT);
  CHECK(late == nullptr);
  CHECK(told().find("epoch 1") != std::string::npos);
  REQUIRE(told_epochs.size() == 1);
  CHECK(told_epochs.front() == 1);
  dsa_detach(client);
}

TEST_CASE("a job that leaves gets no more, and its last batches are not to be read") {
  const Rig rig({.jobs = 1, .epochs = 0});
  dsa_client* const client = rig.attach();
  dsa_batch batch = DSA_BATCH_INIT;
  REQUIRE(next_batch(client, batch) == DSA_OK);
  CHECK(dsa_leave(client) == DSA_OK);
  CHECK(dsa_next(client, &batch, 1000) == DSA_END);
  CHECK(told().find("left") != std::string::npos);
  CHECK(std::string(dsa_error(client)).find("left") != std::string::npos);
  CHECK(dsa_release(client, batch.token) == DSA_INVALID);
  CHECK(dsa_detach(client) == DSA_OK);
}

TEST_CASE("a job leaves after the epoch that it names") {
  const Rig rig({.jobs = 1, .epochs = 0});
  dsa_client* const client = rig.attach();
  CHECK(dsa_leave_after(client, 1) == DSA_OK);
  dsa_status ended = DSA_OK;
  const std::vector<Taken> taken = take_all(client, ended);
  CHECK(ended == DSA_END);
  CHECK(taken.size() == 2);
  CHECK(dsa_detach(client) == DSA_OK);
}

TEST_CASE("an event loop learns of each batch, and of the end") {
  const Rig rig({.jobs = 1, .epochs = 2});
  dsa_client* const client = rig.attach();
  int descriptor = -1;
  REQUIRE(dsa_event_fd(client, &descriptor) == DSA_OK);
  CHECK(dsa_event_fd(client, nullptr) == DSA_INVALID);
  std::uint64_t samples = 0;
  dsa_status status = DSA_TIMEOUT;
  while (status != DSA_END) {
    pollfd waiting{descriptor, POLLIN, 0};
    REQUIRE(::poll(&waiting, 1, 60'000) == 1);
    std::uint64_t count = 0;
    CHECK(::read(descriptor, &count, sizeof count) == sizeof count);
    dsa_batch batch = DSA_BATCH_INIT;
    while ((status = dsa_next(client, &batch, 0)) == DSA_OK) {
      samples += batch.count;
      CHECK(dsa_release(client, batch.token) == DSA_OK);
    }
    REQUIRE((status == DSA_TIMEOUT || status == DSA_END));
  }
  CHECK(samples == 2 * rig_samples);
  dsa_detach(client);
}

TEST_CASE("calls of several threads of one client share its batches out") {
  const Rig rig({.jobs = 1, .epochs = 4});
  dsa_client* const client = rig.attach();
  std::atomic<std::uint64_t> samples{0};
  std::atomic<int> wrong{0};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&] {
        dsa_batch batch = DSA_BATCH_INIT;
        dsa_status status = DSA_OK;
        while ((status = next_batch(client, batch)) == DSA_OK || status == DSA_BUSY) {
          if (status == DSA_BUSY) continue;
          samples += batch.count;
          if (dsa_release(client, batch.token) != DSA_OK) ++wrong;
        }
        if (status != DSA_END) ++wrong;
      });
    }
  }
  CHECK(samples == 4 * rig_samples);
  CHECK(wrong == 0);
  dsa_detach(client);
}

}  // namespace dsanalyze::testing
