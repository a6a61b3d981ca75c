#include <algorithm>
#include <cmath>

#include "two_jobs.hpp"

namespace dsanalyze {
namespace {

/// What the two still need, in samples; the first is the faster one.
struct Needed {
  double fast = 0;
  double slow = 0;
  double both = 0;
};

/// The integral of (low + r x) x^-r from x0 to x1.
double power_integral(double low, double r, double x0, double x1) {
  const auto part = [](double exponent, double x) { return exponent == 0 ? std::log(x) : std::pow(x, exponent) / exponent; };
  const double first = low == 0 ? 0 : low * (part(1 - r, x1) - part(1 - r, x0));
  return first + r * (part(2 - r, x1) - part(2 - r, x0));
}

/// The faster job draws `draws` samples, the slower `r` times as many; neither ends its epoch before, nor do their needs cross. Returns what they
/// share.
double draw_both(Needed& needed, double r, double draws) {
  const Needed before = needed;
  needed.fast -= draws;
  needed.slow -= r * draws;
  if (before.both <= 0 || draws <= 0) return 0;
  if (before.fast <= before.slow && needed.fast <= needed.slow) {
    needed.both = before.both * needed.fast / before.fast;
    const double turn = before.fast - before.slow / r;
    const double logarithm = turn == 0 || needed.slow <= 0 ? 0 : turn * std::log(before.slow / needed.slow);
    return before.both / before.fast * ((before.slow - needed.slow) / r + logarithm);
  }
  needed.both = before.both * needed.slow / before.slow * std::pow(needed.fast / before.fast, 1 - r);
  const double scale = r * before.both / before.slow * std::pow(before.fast, r - 1);
  return scale * power_integral(before.slow - r * before.fast, r, needed.fast, before.fast);
}

/// Of one job's run through its epochs.
struct Course {
  double epoch = 0;  ///< samples
  double left = 0;   ///< samples, of all epochs
  double arrival = 0;
  double speed = 0;
};

constexpr double negligible = 1e-9;  ///< of an epoch

}  // namespace

TwoJobsShared two_jobs_shared(const MixedJob& one, const MixedJob& other) {
  const bool swapped = other.samples_per_s > one.samples_per_s;
  const auto course = [](const MixedJob& job) {
    const auto epoch = static_cast<double>(count_of(job.samples));
    return Course{epoch, epoch * job.epochs, job.arrival_seconds, job.samples_per_s};
  };
  Course fast = course(swapped ? other : one);
  Course slow = course(swapped ? one : other);
  const auto common = static_cast<double>(count_of_both(one.samples, other.samples));
  const double fast_samples = fast.left;
  const double fast_end = fast.arrival + fast.left / fast.speed;
  const double slow_end = slow.arrival + slow.left / slow.speed;
  const double from = std::max(fast.arrival, slow.arrival);
  const double until = std::min(fast_end, slow_end);
  const double slow_meanwhile = slow.speed * std::max(0.0, std::min(fast_end, slow_end) - from);
  TwoJobsShared result{0, 1};
  if (until <= from || common <= 0) {
    result.prepared_per_fastest = (fast_samples + slow_meanwhile) / fast_samples;
    return result;
  }

  const double r = slow.speed / fast.speed;
  fast.left -= (from - fast.arrival) * fast.speed;
  slow.left -= (from - slow.arrival) * slow.speed;
  const auto needed_now = [](const Course& job) { return job.left - job.epoch * std::max(0.0, std::ceil(job.left / job.epoch - negligible) - 1); };
  Needed needed{needed_now(fast), needed_now(slow), 0};
  // The one that was there first has drawn alone, uniformly; the other has its whole epoch.
  needed.both = std::min(needed.fast / fast.epoch, needed.slow / slow.epoch) * common;
  double draws = (until - from) * fast.speed;  // of the faster one
  while (draws > negligible * fast.epoch) {
    double step = std::min({draws, needed.fast, needed.slow / r});
    const double gap = needed.slow - needed.fast;
    if (gap < 0 && r < 1) step = std::min(step, -gap / (1 - r));  // the faster one needs more: until both need as many
    result.shared += draw_both(needed, r, step);
    draws -= step;
    if (gap < 0 && std::abs(needed.slow - needed.fast) < negligible * fast.epoch) needed.slow = needed.fast;
    const bool fast_over = needed.fast <= negligible * fast.epoch;
    const bool slow_over = needed.slow <= negligible * slow.epoch;
    if (fast_over) needed.fast = fast.epoch;
    if (slow_over) needed.slow = slow.epoch;
    if (fast_over && slow_over) {
      needed.both = common;
    } else if (fast_over) {
      needed.both = needed.slow / slow.epoch * common;
    } else if (slow_over) {
      needed.both = needed.fast / fast.epoch * common;
    }
  }
  result.prepared_per_fastest = (fast_samples + slow_meanwhile - result.shared) / fast_samples;
  return result;
}

}  // namespace dsanalyze
