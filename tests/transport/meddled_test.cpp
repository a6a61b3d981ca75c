#include <doctest/doctest.h>

#include "../base/sanitizers.hpp"
#include "meddler.hpp"
#include "transport/wire/frame_sums.hpp"

// Somebody between two ranks who has not their key, and networks that cut them off from one another.

namespace dsanalyze {
namespace {

using test::MadeSamples;
using test::MeddledJob;
using test::Meddler;
using transport::FrameHead;

using Frames = std::vector<std::byte>;

/// A frame that was left out shows by the next one, which comes after a quarter of this at the latest.
constexpr double seconds_until_missed = testing::threads_only ? 8 : 4;

/// Changes, repeats, swaps, leaves out and makes up frames, each at times that follow from the seed.
class SeededMeddling {
 public:
  explicit SeededMeddling(std::uint64_t seed) : m_random(seed) {}

  Frames operator()(Meddler::To to, Frames frame) {
    const std::scoped_lock lock(m_mutex);
    Frames held = std::exchange(m_held[to == Meddler::To::dialer ? 1 : 0], {});
    if (!held.empty()) {  // the two change places
      frame.insert(frame.end(), held.begin(), held.end());
      return frame;
    }
    if (m_random.below(12) != 0) {
      m_last = frame;
      return frame;
    }
    ++m_meddled;
    switch (m_random.below(7)) {
      case 0:  // any bit
        frame[m_random.below(frame.size())] ^= std::byte{1} << m_random.below(8);
        return frame;
      case 1:  // any byte of the head
        frame[m_random.below(transport::head_bytes)] ^= static_cast<std::byte>(1 + m_random.below(255));
        return frame;
      case 2: {  // twice
        const Frames once = frame;
        frame.insert(frame.end(), once.begin(), once.end());
        return frame;
      }
      case 3:  // left out
        return {};
      case 4:
        m_held[to == Meddler::To::dialer ? 1 : 0] = std::move(frame);
        return {};
      case 5:  // one of the other way, or of before, in front
        frame.insert(frame.begin(), m_last.begin(), m_last.end());
        return frame;
      default:
        return made_up(frame);
    }
  }
  [[nodiscard]] std::uint64_t meddled() const { return m_meddled; }

 private:
  /// A control frame with the sum that anybody can compute, in place of a frame or before it.
  Frames made_up(const Frames& frame) {
    const std::uint64_t said = 1 + m_random.below(40);
    FrameHead head{transport::FrameKind::leaving, 0, 0, said, 0};
    if (m_random.below(2) == 0) head = {transport::FrameKind::given_up, 0, static_cast<std::uint64_t>(transport::Death::silent), 0, 0};
    const transport::HeadBytes written = transport::write_head(head);
    const transport::FrameSum sum = transport::FrameSums().next(written, {});
    Frames whole(written.begin(), written.end());
    whole.insert(whole.end(), sum.begin(), sum.end());
    whole.insert(whole.end(), frame.begin(), frame.end());
    return whole;
  }

  std::mutex m_mutex;
  RandomStream m_random;
  std::array<Frames, 2> m_held;
  Frames m_last;
  std::atomic<std::uint64_t> m_meddled{0};
};

TEST_CASE("Who stands between ranks and has not their key can cost them time, and changes nothing that they take") {
  const MadeSamples samples(60);
  for (std::uint64_t seed = 1; seed <= (testing::threads_only ? 1 : 2); ++seed) {
    CAPTURE(seed);
    SeededMeddling meddling(seed);
    MeddledJob job(3, seconds_until_missed, FrameCheck::tag, [&meddling](Meddler::To to, Frames frame) { return meddling(to, std::move(frame)); });
    job.each([&](std::uint32_t rank, Ranks& ranks) {
      ranks.serve(&samples);
      test::Deliveries deliveries(ranks.peers(), samples);
      for (std::uint64_t epoch = 0; epoch < 4; ++epoch) {
        INFO("seed ", seed, ", rank ", rank, ", epoch ", epoch, ": ", ranks.given_up(), "; alive ", ranks.alive().size());
        CHECK(ranks.agree_alive(epoch, test::in_good_time()).ranks == std::vector<std::uint32_t>{0, 1, 2});
        std::vector<std::byte> all(3);
        const auto mine = static_cast<std::byte>(10 * epoch + rank);
        CHECK(ranks.collective().gather(std::span(&mine, 1), all, test::in_good_time()).ok());
        for (std::uint32_t other = 0; other < 3; ++other) CHECK(all[other] == static_cast<std::byte>(10 * epoch + other));
        std::vector<PeerRequest> requests;
        for (SampleId sample = 0; sample < 60; sample += 2) requests.push_back(samples.request(sample, (rank + 1 + sample / 2 % 2) % 3));
        CHECK(ranks.peers().submit(requests).ok());
        for (const PeerCompletion& completion : deliveries.await(30 * (epoch + 1))) CHECK(completion.status.ok());
      }
      CHECK_FALSE(deliveries.has_wrong_bytes());
      CHECK(ranks.collective().barrier(test::in_good_time()).ok());
      CHECK(ranks.given_up().empty());
      CHECK(ranks.counters().nonsense == 0);
    });
    std::uint64_t corrupt = 0;
    for (std::uint32_t rank = 0; rank < 3; ++rank) corrupt += job[rank].counters().corrupt;
    CHECK(meddling.meddled() > 10);
    CHECK(corrupt > 0);
  }
}

TEST_CASE("Connections that are reset are opened again, and nothing is lost") {
  const MadeSamples samples(200);
  MeddledJob job(4, test::patience_seconds, FrameCheck::checksum, [](Meddler::To, Frames frame) { return frame; });
  std::atomic<bool> is_over{false};
  const std::jthread resets([&] {
    // All ways between two halves at once, again and again.
    while (!is_over) {
      for (const std::uint32_t one : {0U, 1U}) {
        for (const std::uint32_t other : {2U, 3U}) job.between(one, other).set(Meddler::Way::reset);
      }
      for (const std::uint32_t one : {0U, 1U}) {
        for (const std::uint32_t other : {2U, 3U}) job.between(one, other).set(Meddler::Way::open);
      }
      system_timing().waiter->sleep_until(system_timing().clock->after(0.1).at);
    }
  });
  job.each([&](std::uint32_t rank, Ranks& ranks) {
    ranks.serve(&samples);
    test::Deliveries deliveries(ranks.peers(), samples);
    for (std::uint64_t epoch = 0; epoch < 10; ++epoch) {
      CHECK(ranks.agree_alive(epoch, test::in_good_time()).ranks.size() == 4);
      std::vector<PeerRequest> requests;
      for (SampleId sample = 0; sample < 60; ++sample) requests.push_back(samples.request(sample, (rank + 1 + sample % 3) % 4));
      CHECK(ranks.peers().submit(requests).ok());
      for (const PeerCompletion& completion : deliveries.await(60 * (epoch + 1))) CHECK(completion.status.ok());
      double one = 1;
      CHECK(ranks.collective().sum(std::span(&one, 1), test::in_good_time()).ok());
      CHECK(one == 4);
    }
    CHECK_FALSE(deliveries.has_wrong_bytes());
    if (rank == 0) is_over = true;
  });
  std::uint64_t reopened = 0;
  for (std::uint32_t rank = 0; rank < 4; ++rank) reopened += job[rank].counters().reopened;
  CHECK(reopened > 0);
}

/// The parts of a network that was cut by `part` (a rank's bit tells its side), which go on: at most one may.
std::vector<bool> sides_that_go_on(std::uint32_t world, std::uint32_t part, Meddler::Way way) {
  MeddledJob job(world, 0.3, FrameCheck::tag, [](Meddler::To, Frames frame) { return frame; });
  job.each([](std::uint32_t, Ranks& ranks) { static_cast<void>(ranks.agree_alive(0, test::in_good_time())); });
  for (std::uint32_t one = 0; one < world; ++one) {
    for (std::uint32_t other = one + 1; other < world; ++other) {
      if ((part >> one & 1U) != (part >> other & 1U)) job.between(one, other).set(way);
    }
  }
  std::array<std::atomic<bool>, 2> goes_on{};
  job.each([&](std::uint32_t rank, Ranks& ranks) {
    for (std::uint64_t epoch = 1; epoch < 4; ++epoch) {
      const Agreement agreement = ranks.agree_alive(epoch, test::in_good_time());
      if (!agreement.status.ok()) return;
      // A network that was just cut may not have been noticed: what is gathered of all is.
      std::vector<std::byte> all(world);
      const std::byte mine{1};
      static_cast<void>(ranks.collective().gather(std::span(&mine, 1), all, test::in_good_time()));
      if (epoch == 3) goes_on[part >> rank & 1U] = true;
    }
  });
  return {goes_on[0], goes_on[1]};
}

TEST_CASE("Of a network that is cut in two, however it is cut, at most one part goes on") {
  struct Case {
    std::uint32_t world;
    std::uint32_t part;
  };
  for (const Case& each : {Case{2, 1}, {3, 2}, {3, 6}, {4, 12}, {4, 2}, {5, 24}}) {
    const std::uint32_t world = each.world;
    const std::uint32_t part = each.part;
    for (const Meddler::Way way : {Meddler::Way::silent, Meddler::Way::silent_half, Meddler::Way::reset}) {
      CAPTURE(world);
      CAPTURE(part);
      CAPTURE(static_cast<int>(way));
      const std::vector<bool> sides = sides_that_go_on(world, part, way);
      CHECK_FALSE((sides[0] && sides[1]));
    }
  }
}

}  // namespace
}  // namespace dsanalyze
