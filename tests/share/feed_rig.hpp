#pragma once

#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "group_rig.hpp"
#include "share/dependent_feed.hpp"

namespace dsanalyze::testing {

constexpr std::uint32_t dataset_samples = 28;  // of group_index()

inline DependentFeedSpec feed_spec(std::uint32_t store_places, StagingPolicy policy = StagingPolicy::refcnt, Nanoseconds patience = 5'000'000,
                                   std::optional<DependentGroup::State> resumed = {}) {
  return {
      group_index(),     TensorShape::images(DType::uint8, Layout::nhwc, 1, 3, 2, 2), 3, OnError::skip, store_places, policy, 4, patience, nullptr,
      std::move(resumed)};
}

/// A feed, and threads in place of a loader: a sample is its number and its generation.
class FeedRig {
 public:
  explicit FeedRig(std::uint32_t store_places, StagingPolicy policy = StagingPolicy::refcnt, SampleId broken = dataset_samples,
                   Nanoseconds patience = 5'000'000, std::optional<DependentGroup::State> resumed = {})
      : FeedRig(feed_spec(store_places, policy, patience, std::move(resumed)), broken) {}
  explicit FeedRig(const DependentFeedSpec& spec, SampleId broken = dataset_samples) : m_feed(spec, system_timing()), m_broken(broken) {
    for (int i = 0; i < 2; ++i) m_workers.emplace_back([this] { prepare(); });
  }
  ~FeedRig() { m_feed.stop(); }
  FeedRig(const FeedRig&) = delete;
  FeedRig& operator=(const FeedRig&) = delete;
  DependentFeed& feed() { return m_feed; }

 private:
  void prepare() {
    while (true) {
      StagingClaim claim;
      std::uint8_t sample = 0;
      std::uint8_t generation = 0;
      {
        const std::scoped_lock one(m_feeder);
        const Status status = m_feed.claim(claim, system_timing().clock->after(0.005));
        if (status.code == StatusCode::timeout) continue;
        if (!status.ok()) return;
        const ClaimedSamples::Work work = m_feed.of(claim);
        sample = static_cast<std::uint8_t>(work.samples[0]);
        generation = static_cast<std::uint8_t>(work.generation);
      }
      claim.bytes[0] = std::byte{sample};
      claim.bytes[1] = std::byte{generation};
      const bool good = sample != m_broken;
      m_feed.publish(claim, {good ? 1U : 0U, good ? 0U : 1U, 0});
    }
  }

  DependentFeed m_feed;
  SampleId m_broken;
  std::mutex m_feeder;
  std::vector<std::jthread> m_workers;
};

}  // namespace dsanalyze::testing
