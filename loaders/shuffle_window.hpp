#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "loader_item.hpp"

namespace dsanalyze {

/// The loader's shuffle buffer: samples that were asked of storage in its order and wait, encoded, for the batch that training's order puts them in.
/// A place is taken when a sample is asked for; its work goes on when both its bytes have come and its batch has drawn it, whichever is later.
/// Threads: any.
class ShuffleWindow {
 public:
  /// `places`: most samples asked for and not passed on; `samples`: of the dataset.
  ShuffleWindow(std::size_t places, std::size_t samples) : m_places(places), m_place_of(samples, none) {
    for (std::size_t i = places; i > 0; --i) m_free.push_back(static_cast<std::uint32_t>(i - 1));
  }

  /// The sample is asked for.
  std::uint32_t take(SampleId sample) {
    const std::scoped_lock lock(m_mutex);
    const std::uint32_t place = m_free.back();
    m_free.pop_back();
    m_places[place] = {};
    m_place_of[sample] = place;
    return place;
  }
  /// Its bytes have come (or it is a hit, or failed). The whole work if its batch has drawn it already.
  std::optional<LoaderWork> arrive(std::uint32_t place, const LoaderWork& work) {
    const std::scoped_lock lock(m_mutex);
    Place& at = m_places[place];
    at.work = work;
    at.arrived = true;
    return at.drawn ? std::optional(pass_on(place)) : std::nullopt;
  }
  /// A batch has drawn it. The whole work if its bytes have come already. It is ready from now on at the earliest: its bytes may have come long ago,
  /// but an emulated core must not begin before a batch draws it.
  std::optional<LoaderWork> draw(SampleId sample, std::uint32_t entry, std::uint32_t position, Nanoseconds now) {
    const std::scoped_lock lock(m_mutex);
    const std::uint32_t place = m_place_of[sample];
    Place& at = m_places[place];
    at.entry = entry;
    at.position = position;
    at.drawn_at = now;
    at.drawn = true;
    return at.arrived ? std::optional(pass_on(place)) : std::nullopt;
  }
  /// One that has come and no batch will draw, for the end of the work.
  std::optional<LoaderWork> left_over() {
    const std::scoped_lock lock(m_mutex);
    for (Place& at : m_places) {
      if (!at.arrived) continue;
      at.arrived = false;
      return at.work;
    }
    return std::nullopt;
  }

 private:
  static constexpr std::uint32_t none = UINT32_MAX;
  struct Place {
    LoaderWork work;
    std::uint32_t entry = 0;
    std::uint32_t position = 0;
    Nanoseconds drawn_at = 0;
    bool arrived = false;
    bool drawn = false;
  };
  LoaderWork pass_on(std::uint32_t place) {
    Place& at = m_places[place];
    LoaderWork work = at.work;
    work.entry = at.entry;
    work.position = at.position;
    work.ready = std::max(work.ready, at.drawn_at);
    m_place_of[work.sample] = none;
    at = {};
    m_free.push_back(place);
    return work;
  }

  std::mutex m_mutex;
  std::vector<Place> m_places;
  std::vector<std::uint32_t> m_free;
  std::vector<std::uint32_t> m_place_of;
};

}  // namespace dsanalyze
