#include <doctest/doctest.h>

#include <algorithm>

#include "ranks_fixture.hpp"

namespace dsanalyze {
namespace {

using test::Deliveries;
using test::JobOfRanks;
using test::MadeSamples;

TEST_CASE("Every sample that another rank holds comes as it is, to all ranks at once") {
  const MadeSamples samples(300);
  for (const std::uint32_t io_threads : {1U, 2U}) {
    JobOfRanks job(3, [&](RankFacts& facts, std::vector<std::string>&) { facts.io_threads = io_threads; });
    job.each([&](std::uint32_t /*rank*/, Ranks& ranks) {
      ranks.serve(&samples);
      CHECK(ranks.collective().barrier(test::in_good_time()).ok());
    });
    job.each([&](std::uint32_t rank, Ranks& ranks) {
      Deliveries deliveries(ranks.peers(), samples);
      std::size_t asked = 0;
      for (SampleId sample = 0; sample < samples.count(); ++sample) {
        for (std::uint32_t other = 0; other < 3; ++other) {
          if (other == rank) continue;
          const PeerRequest request = samples.request(sample, other, asked);
          CHECK(test::comes_true([&] { return ranks.peers().submit(std::span(&request, 1)).ok(); }));
          ++asked;
        }
      }
      std::set<std::uint64_t> tags;
      for (const PeerCompletion& completion : deliveries.await(asked)) {
        CHECK(completion.status.ok());
        CHECK(completion.took >= 0);
        tags.insert(completion.tag);
      }
      CHECK(tags.size() == asked);
      CHECK(deliveries.count() == asked);
      CHECK_FALSE(deliveries.has_wrong_bytes());
      CHECK(ranks.peers().free_places() == ranks.peers().capacity());
    });
    CHECK(job[0].counters().bytes_received == job[0].peers().received());
    CHECK(job[0].counters().requests_served == 2 * samples.count());
    CHECK(job[0].counters().bytes_sent == job[0].counters().bytes_received);
    job.each([](std::uint32_t, Ranks& ranks) { CHECK(ranks.collective().barrier(test::in_good_time()).ok()); });
  }
}

TEST_CASE("A sample that is not held, or has another length, ends as that") {
  const MadeSamples samples(4);
  JobOfRanks job(2);
  Deliveries deliveries(job[1].peers(), samples);
  const PeerRequest early = samples.request(0, 0);
  CHECK(job[1].peers().submit(std::span(&early, 1)).ok());
  CHECK(deliveries.await(1).back().status.code == StatusCode::not_found);
  job[0].serve(&samples);
  PeerRequest absent = samples.request(1, 0);
  absent.sample = 99;
  CHECK(job[1].peers().submit(std::span(&absent, 1)).ok());
  CHECK(deliveries.await(2).back().status.code == StatusCode::not_found);
  PeerRequest shorter = samples.request(2, 0);
  shorter.bytes -= 1;
  CHECK(job[1].peers().submit(std::span(&shorter, 1)).ok());
  CHECK(deliveries.await(3).back().status.code == StatusCode::corrupt);
  const PeerRequest right = samples.request(3, 0);
  CHECK(job[1].peers().submit(std::span(&right, 1)).ok());
  CHECK(deliveries.await(4).back().status.ok());
  CHECK(job[0].counters().requests_refused == 3);
  CHECK(job[1].peers().free_places() == job[1].peers().capacity());
}

TEST_CASE("What was held is not given any more once serve() has returned") {
  auto samples = std::make_unique<MadeSamples>(8);
  const MadeSamples same(8);
  JobOfRanks job(2);
  job[0].serve(samples.get());
  Deliveries deliveries(job[1].peers(), same);
  for (SampleId sample = 0; sample < 8; ++sample) {
    const PeerRequest request = same.request(sample, 0);
    CHECK(job[1].peers().submit(std::span(&request, 1)).ok());
  }
  job[0].serve(nullptr);
  samples.reset();
  const PeerRequest late = same.request(0, 0);
  CHECK(job[1].peers().submit(std::span(&late, 1)).ok());
  CHECK(deliveries.await(9).back().status.code == StatusCode::not_found);
  CHECK_FALSE(deliveries.has_wrong_bytes());
}

TEST_CASE("A group of requests is taken whole or refused whole, and a place is free again when its buffer is given back") {
  const MadeSamples samples(10);
  JobOfRanks job(2, [](RankFacts& facts, std::vector<std::string>&) { facts.places = 4; });
  job[0].serve(&samples);
  PeerSource& peers = job[1].peers();
  std::mutex mutex;
  std::vector<PeerCompletion> held;
  peers.deliver_to([&](std::span<const PeerCompletion> completions) {
    const std::scoped_lock lock(mutex);
    held.insert(held.end(), completions.begin(), completions.end());
  });
  std::vector<PeerRequest> requests;
  for (SampleId sample = 0; sample < 5; ++sample) requests.push_back(samples.request(sample, 0));
  CHECK(peers.submit(requests).code == StatusCode::busy);
  CHECK(peers.free_places() == 4);
  CHECK(peers.submit(std::span(requests).first(3)).ok());
  CHECK(peers.submit(std::span(requests).first(2)).code == StatusCode::busy);
  CHECK(test::comes_true([&] {
    const std::scoped_lock lock(mutex);
    return held.size() == 3;
  }));
  CHECK(peers.free_places() == 1);
  // The bytes stay until then.
  for (const PeerCompletion& completion : held) CHECK(samples.is_right(completion));
  const std::vector<std::uint32_t> twice = {held[0].buffer, held[0].buffer, UINT32_MAX};
  peers.release(twice);
  CHECK(peers.free_places() == 2);
  peers.deliver_to({});
}

TEST_CASE("Requests that make no sense are refused") {
  const MadeSamples samples(1);
  JobOfRanks job(2);
  PeerRequest request = samples.request(0, 0);
  const auto refused = [&](PeerRequest changed) { return job[1].peers().submit(std::span(&changed, 1)).code == StatusCode::unsupported; };
  request.rank = 1;
  CHECK(refused(request));  // of itself
  request.rank = 2;
  CHECK(refused(request));
  request = samples.request(0, 0);
  request.bytes = 4001;
  CHECK(refused(request));
  request.bytes = 0;
  CHECK(refused(request));
  CHECK(job[1].peers().free_places() == job[1].peers().capacity());
}

TEST_CASE("A rank that has left is dead to the others, and what is asked of it ends as that") {
  const MadeSamples samples(50);
  JobOfRanks job(3);
  job.each([&](std::uint32_t, Ranks& ranks) { ranks.serve(&samples); });
  Deliveries deliveries(job[0].peers(), samples);
  job.end(2);
  CHECK(test::comes_true([&] { return !job[0].peers().alive(2); }));
  CHECK(job[0].peers().alive(1));
  CHECK(job[0].alive() == std::vector<std::uint32_t>{0, 1});
  for (SampleId sample = 0; sample < 50; ++sample) {
    const std::vector<PeerRequest> requests = {samples.request(sample, 1), samples.request(sample, 2)};
    CHECK(test::comes_true([&] { return job[0].peers().submit(requests).ok(); }));
  }
  for (const PeerCompletion& completion : deliveries.await(100))
    CHECK(completion.status.code == (completion.rank == 1 ? StatusCode::ok : StatusCode::io));
  CHECK(job[0].peers().free_places() == job[0].peers().capacity());
}

TEST_CASE("A rank that dies while samples are on their way leaves no request without an end") {
  const MadeSamples samples(200);
  JobOfRanks job(2);
  job[0].serve(&samples);
  Deliveries deliveries(job[1].peers(), samples);
  std::size_t asked = 0;
  std::jthread death([&] {
    test::comes_true([&] { return deliveries.count() > 300; });
    job.end(0);
  });
  while (job[1].peers().alive(0)) {
    const PeerRequest request = samples.request(static_cast<SampleId>(asked % 200), 0, asked);
    if (job[1].peers().submit(std::span(&request, 1)).ok()) ++asked;
  }
  std::set<std::uint64_t> tags;
  for (const PeerCompletion& completion : deliveries.await(asked)) tags.insert(completion.tag);
  CHECK(tags.size() == asked);
  CHECK(deliveries.count() == asked);
  CHECK_FALSE(deliveries.has_wrong_bytes());
}

TEST_CASE("Requests that are cancelled end soon, once each, and what is asked afterwards comes") {
  const MadeSamples samples(64);
  JobOfRanks job(2);
  job[0].serve(&samples);
  Deliveries deliveries(job[1].peers(), samples);
  std::vector<PeerRequest> requests;
  for (SampleId sample = 0; sample < 64; ++sample) requests.push_back(samples.request(sample, 0, sample));
  for (int round = 1; round <= 20; ++round) {
    CHECK(test::comes_true([&] { return job[1].peers().submit(requests).ok(); }));
    job[1].peers().cancel();
    for (const PeerCompletion& completion : deliveries.await(64 * static_cast<std::size_t>(round))) {
      CHECK((completion.status.ok() || completion.status.code == StatusCode::cancelled));
    }
  }
  CHECK(test::comes_true([&] { return job[1].peers().submit(requests).ok(); }));
  const auto all = deliveries.await(std::size_t{64} * 21);
  CHECK(std::all_of(all.end() - 64, all.end(), [](const PeerCompletion& completion) { return completion.status.ok(); }));
  CHECK_FALSE(deliveries.has_wrong_bytes());
}

TEST_CASE("A job of one rank needs no peer") {
  JobOfRanks job(1);
  CHECK(job[0].alive() == std::vector<std::uint32_t>{0});
  CHECK(job[0].collective().barrier(test::in_good_time()).ok());
  CHECK(job[0].agree_alive(0, test::in_good_time()).ranks == std::vector<std::uint32_t>{0});
}

}  // namespace
}  // namespace dsanalyze
