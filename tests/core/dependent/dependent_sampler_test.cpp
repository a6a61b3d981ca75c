#include "core/dependent/dependent_sampler.hpp"
#include "../../base/sanitizers.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <span>
#include <vector>

#include "../../base/texts.hpp"
#include "base/error.hpp"

using namespace dsanalyze;

namespace {

using Sets = std::vector<std::vector<SampleId>>;

template <typename Sampler>
void begin(Sampler& sampler, const Sets& sets) {
  for (std::uint32_t job = 0; job < sets.size(); ++job) sampler.begin_epoch(job, sets[job]);
}

JobSet first_jobs(std::size_t count) { return (JobSet{1} << count) - 1; }

constexpr SampleId nothing = 1'000'000;

/// What each job was given in one round.
std::vector<SampleId> given(std::span<const DependentSampler::Draw> draws, std::size_t jobs) {
  std::vector<SampleId> samples(jobs, nothing);
  for (const auto& draw : draws)
    for (std::uint32_t job = 0; job < jobs; ++job)
      if ((draw.jobs & set_of(job)) != 0) samples[job] = draw.sample;
  return samples;
}

/// Makes the choices of a script, and the first one where the script has none.
class Scripted final : public DependentSampler {
 public:
  Scripted(std::uint32_t samples, std::vector<std::uint64_t>& script) : DependentSampler(samples, 1), m_script(script) {}
  [[nodiscard]] const std::vector<std::uint64_t>& bounds() const { return m_bounds; }

 private:
  std::uint64_t below(std::uint64_t bound) override {
    m_bounds.push_back(bound);
    if (m_script.size() < m_bounds.size()) m_script.push_back(0);
    return m_script[m_bounds.size() - 1];
  }
  std::vector<std::uint64_t>& m_script;
  std::vector<std::uint64_t> m_bounds;
};

/// All results of one round with their probabilities, by every sequence of choices.
std::map<std::vector<SampleId>, double> every_round(std::uint32_t samples, const Sets& sets) {
  std::map<std::vector<SampleId>, double> results;
  std::vector<std::uint64_t> script;
  for (;;) {
    Scripted sampler(samples, script);
    begin(sampler, sets);
    const auto result = given(sampler.draw(first_jobs(sets.size())), sets.size());
    double probability = 1;
    for (const std::uint64_t bound : sampler.bounds()) probability /= static_cast<double>(bound);
    results[result] += probability;
    script.resize(sampler.bounds().size());
    while (!script.empty() && script.back() + 1 == sampler.bounds()[script.size() - 1]) script.pop_back();
    if (script.empty()) return results;
    ++script.back();
  }
}

std::vector<SampleId> shared_by_all(const Sets& sets) {
  std::vector<SampleId> shared = sets.front();
  for (const auto& set : sets) {
    std::vector<SampleId> both;
    std::ranges::set_intersection(shared, set, std::back_inserter(both));
    shared = both;
  }
  return shared;
}

double expected_same(const Sets& sets) {
  std::size_t most = 0;
  for (const auto& set : sets) most = std::max(most, set.size());
  return static_cast<double>(shared_by_all(sets).size()) / static_cast<double>(most);
}

bool all_equal(const std::vector<SampleId>& samples) {
  return std::ranges::all_of(samples, [&](SampleId each) { return each == samples.front(); });
}

/// Beyond it lies one of a thousand sums of so many squares of normal values (Wilson and Hilferty).
double chi_square_bound(double freedom) {
  constexpr double normal = 3.0902;
  const double part = 2 / (9 * freedom);
  return freedom * std::pow(1 - part + normal * std::sqrt(part), 3);
}

std::vector<SampleId> range(SampleId begin, SampleId end) {
  std::vector<SampleId> ids(end - begin);
  std::iota(ids.begin(), ids.end(), begin);
  return ids;
}

}  // namespace

TEST_CASE("by all choices of a round, each job's sample is uniform over what it needs, and all jobs get the same one as often as can be") {
  const std::vector<Sets> designs = {
      {{0, 1, 2}, {0, 1, 2}},
      {{0, 1, 2, 3}, {2, 3, 4}},
      {{0, 1}, {2, 3, 4, 5}},
      {{0}, {0, 1, 2, 3, 4, 5}},
      {{0, 1, 2}, {1, 2, 3, 4}, {0, 1, 2, 3, 4}},
      {{0, 1}, {2, 3}, {0, 1, 2, 3}},
      {{0, 1, 2, 3}, {0, 1, 4, 5}, {1, 2, 3, 4, 5}},
      {{0, 1, 2}, {0, 1}, {1, 2}, {0, 1, 2, 3}},
      {{5}, {0, 1}, {0, 1, 2}, {2, 3}},
  };
  for (const Sets& sets : designs) {
    const auto results = every_round(6, sets);
    double whole = 0;
    double same = 0;
    std::vector<std::map<SampleId, double>> marginal(sets.size());
    for (const auto& [result, probability] : results) {
      whole += probability;
      if (all_equal(result)) same += probability;
      for (std::size_t job = 0; job < sets.size(); ++job) marginal[job][result[job]] += probability;
    }
    CHECK(whole == doctest::Approx(1));
    CHECK(same == doctest::Approx(expected_same(sets)));
    for (std::size_t job = 0; job < sets.size(); ++job) {
      CHECK(marginal[job].size() == sets[job].size());
      for (const SampleId sample : sets[job]) CHECK(marginal[job][sample] == doctest::Approx(1 / static_cast<double>(sets[job].size())));
    }
  }
}

namespace {

double chi_square(const std::vector<double>& counts, double each) {
  double sum = 0;
  for (const double count : counts) sum += (count - each) * (count - each) / each;
  return sum;
}

/// What one job draws, epoch after epoch.
struct Followed {
  explicit Followed(std::vector<SampleId> set)
      : needs(std::move(set)), first(needs.size()), middle(needs.size()), pairs(std::size_t{groups} * groups) {}
  static constexpr std::size_t groups = 8;

  void got(SampleId sample) {
    const auto at = static_cast<std::size_t>(std::ranges::lower_bound(needs, sample) - needs.begin());
    if (order.empty()) {
      ++first[at];
      const std::size_t group = at * groups / needs.size();
      if (epochs > 0) ++pairs[last_group * groups + group];
      last_group = group;
    }
    if (order.size() == needs.size() / 2) ++middle[at];
    order.push_back(sample);
  }
  /// Whether the epoch that ends had each sample once.
  bool end_epoch() {
    std::ranges::sort(order);
    const bool whole = order == needs;
    order.clear();
    ++epochs;
    return whole;
  }

  std::vector<SampleId> needs, order;
  std::vector<double> first, middle, pairs;
  std::size_t last_group = 0;
  int epochs = 0;
};

std::uint64_t needed_by_all(const RemainingSets& sets, JobSet jobs) {
  std::uint64_t count = 0;
  for (std::size_t cell = 0; cell < sets.cells().size(); ++cell)
    if ((sets.cells()[cell] & jobs) == jobs) count += sets.samples_in(cell).size();
  return count;
}

}  // namespace

TEST_CASE(
    "over a million rounds of two to eight jobs, each job's order is uniform and each epoch independent, and all get the same as often as the paper "
    "has it" *
    doctest::skip(testing::too_often)) {
  for (const std::size_t jobs : {2U, 3U, 5U, 8U}) {
    const int rounds = jobs == 8 ? 1'000'000 : 300'000;
    std::vector<Followed> followed;
    DependentSampler sampler(400, 70 + jobs);
    // The jobs' sets overlap and differ in size, so that their epochs end at different times.
    for (std::uint32_t job = 0; job < jobs; ++job) {
      const auto from = static_cast<SampleId>(4 * job);
      followed.emplace_back(range(from, from + 56 + 16 * job));
      sampler.begin_epoch(job, followed[job].needs);
    }
    double surplus = 0;
    double variance = 0;
    bool whole = true;
    for (int round = 0; round < rounds; ++round) {
      std::uint64_t largest = 0;
      for (std::uint32_t job = 0; job < jobs; ++job) largest = std::max(largest, sampler.sets().remaining(job));
      const double expected = static_cast<double>(needed_by_all(sampler.sets(), first_jobs(jobs))) / static_cast<double>(largest);
      const auto draws = sampler.draw(first_jobs(jobs));
      surplus += (draws.size() == 1 ? 1 : 0) - expected;
      variance += expected * (1 - expected);
      const auto samples = given(draws, jobs);
      for (std::uint32_t job = 0; job < jobs; ++job) {
        followed[job].got(samples[job]);
        if (sampler.sets().remaining(job) > 0) continue;
        whole = followed[job].end_epoch() && whole;
        sampler.begin_epoch(job, followed[job].needs);
      }
    }
    CHECK(whole);
    CHECK(std::abs(surplus) < 3.3 * std::sqrt(variance));  // one of a thousand lies beyond
    for (const Followed& job : followed) {
      const double bound = chi_square_bound(static_cast<double>(job.needs.size()) - 1);
      const auto each = [&](const std::vector<double>& counts) {
        return std::reduce(counts.begin(), counts.end()) / static_cast<double>(counts.size());
      };
      CHECK(chi_square(job.first, each(job.first)) < bound);
      CHECK(chi_square(job.middle, each(job.middle)) < bound);
      CHECK(chi_square(job.pairs, each(job.pairs)) < chi_square_bound(Followed::groups * Followed::groups - 1));
    }
  }
}

TEST_CASE("only jobs that ask take part, equal sizes go by the jobs' numbers, and a job that ended draws nothing") {
  DependentSampler sampler(100, 3);
  for (std::uint32_t job = 0; job < 3; ++job) sampler.begin_epoch(job);
  CHECK(sampler.draw(0).empty());
  const auto draws = sampler.draw(set_of(0) | set_of(2));
  REQUIRE(draws.size() == 1);  // both need all
  CHECK(draws.front().jobs == (set_of(0) | set_of(2)));
  CHECK(sampler.sets().remaining(0) == 99);
  CHECK(sampler.sets().remaining(1) == 100);
  CHECK(sampler.sets().needed_by(draws.front().sample) == set_of(1));
  sampler.end(2);
  CHECK(sampler.sets().remaining(2) == 0);
  for (const JobSet jobs : sampler.sets().cells()) CHECK((jobs & set_of(2)) == 0);
  for (int left = 99; left > 0; --left) {
    const auto again = sampler.draw(first_jobs(2));
    CHECK(given(again, 2)[0] < 100);
  }
  CHECK(sampler.sets().remaining(0) == 0);
  CHECK(sampler.sets().remaining(1) == 1);
}

TEST_CASE("a job that arrives in another's epoch draws from the whole dataset, and a saved sampler goes on with the same draws") {
  DependentSampler sampler(500, 11);
  sampler.begin_epoch(0);
  for (int round = 0; round < 200; ++round) sampler.draw(set_of(0));
  sampler.begin_epoch(1);
  for (int round = 0; round < 100; ++round) sampler.draw(first_jobs(2));
  sampler.begin_epoch(63, range(100, 300));
  const JobSet all = first_jobs(2) | set_of(63);
  for (int round = 0; round < 50; ++round) sampler.draw(all);
  DependentSampler other(sampler.state());
  CHECK(other.sets().remaining(63) == 150);
  for (int round = 0; round < 150; ++round) {
    const auto one = sampler.draw(all);
    const auto two = other.draw(all);
    CHECK(std::ranges::equal(one, two, [](const auto& left, const auto& right) { return left.sample == right.sample && left.jobs == right.jobs; }));
  }
  CHECK(sampler.sets().remaining(0) == 0);
}

TEST_CASE("cells of a saved sampler that cannot be are refused") {
  const auto refused = [](std::vector<RemainingSets::Cell> cells) {
    return testing::message_of<UsageError>([&] { DependentSampler(DependentSampler::State{10, 1, cells}); });
  };
  CHECK(testing::says(refused({{1, {3, 10}}}), "sample 10 of 10"));
  CHECK(testing::says(refused({{1, {3}}, {2, {4, 3}}}), "sample 3 twice"));
  CHECK(testing::says(refused({{1, {3}}, {1, {4}}}), "one set of jobs twice"));
}

TEST_CASE("jobs that end leave each sample in the cell of those that still need it, whichever cell is larger") {
  for (const SampleId taken : {10U, 90U}) {
    RemainingSets sets(100);
    sets.add_all(0);
    sets.add(1, range(0, taken));
    sets.add(2, range(0, 100));
    sets.remove(1);
    CHECK(sets.remaining(1) == 0);
    std::uint64_t counted = 0;
    for (std::size_t cell = 0; cell < sets.cells().size(); ++cell) {
      for (const SampleId sample : sets.samples_in(cell)) CHECK(sets.needed_by(sample) == sets.cells()[cell]);
      counted += sets.samples_in(cell).size();
    }
    CHECK(counted == 100);
    CHECK(sets.needed_by(5) == (set_of(0) | set_of(2)));
    CHECK(sets.needed_by(95) == (set_of(0) | set_of(2)));
    sets.remove(0);
    sets.remove(2);
    CHECK(sets.needed_by(5) == 0);
    sets.add_all(1);
    CHECK(sets.needed_by(99) == set_of(1));
  }
}
