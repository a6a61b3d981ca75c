#include "page_cache_forms.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "core/rates.hpp"

namespace dsanalyze {
namespace {

void require_servers(double servers) {
  if (!(servers >= 1) || std::isinf(servers)) throw std::domain_error(fmt::format("the number of servers must be at least 1, found {}", servers));
}

void require_jobs(std::uint32_t jobs) {
  if (jobs == 0) throw std::domain_error("the number of jobs must be at least 1, found 0");
}

/// Where f, positive at first, falls below 0 in (0, high).
template <typename Function>
double root(double high, Function f) {
  double low = 0;
  for (int step = 0; step < 60; ++step) {
    const double middle = (low + high) / 2;
    (f(middle) > 0 ? low : high) = middle;
  }
  return (low + high) / 2;
}

/// P(T1 > t): since the job's own last use of the item that it reads now, t epochs have not yet gone by.
double own_use_older(double t) { return t < 1 ? 1 - t * t / 2 : (2 - t) * (2 - t) / 2; }

/// P(T2 > t) of another job, at any moment.
double other_use_older(double t) { return t < 1 ? 1 - t + t * t * t / 6 : (2 - t) * (2 - t) * (2 - t) / 6; }

/// P(no job used it within t epochs).
double unused_for(double t, std::uint32_t jobs) { return own_use_older(t) * std::pow(other_use_older(t), jobs - 1); }

/// The mean of e^(-hT) over P(T > t) = unused_for(t): 1 - integral of h e^(-ht) P(T > t), by Simpson's rule with steps that follow the faster decay.
double mean_survival(double h, std::uint32_t jobs) {
  const double reach = std::min(2.0, 40 / (h + jobs - 1));
  constexpr int steps = 512;
  const double width = reach / steps;
  double sum = 0;
  for (int i = 0; i <= steps; ++i) {
    const double t = width * i;
    const double weight = i == 0 || i == steps ? 1 : i % 2 == 1 ? 4 : 2;
    sum += weight * h * std::exp(-h * t) * unused_for(t, jobs);
  }
  return 1 - sum * width / 3;
}

/// P(XY >= z), X and Y uniform in [least, 1].
double product_reaches(double z, double least) {
  const double width = 1 - least;
  if (z <= least * least) return 1;
  if (z >= 1) return 0;
  const double from = std::max(z, least);
  // Where z / x < least, any Y will do; else Y must reach z / x.
  const double any = least > 0 ? std::clamp(z / least, from, 1.0) : 1.0;
  return ((1 - any) * width + (any - from) - z * std::log(any / from)) / (width * width);
}

}  // namespace

double random_replacement_misses_of_server(double cached, double servers) {
  require_cached_fraction(cached);
  require_servers(servers);
  if (cached == 0 || cached == 1) return 1 - cached;
  // pc ln(e^(1/(pc)) (1 - c + c e^(-1/(pc)))), so that a small c does not overflow.
  return 1 + servers * cached * std::log1p(cached * std::expm1(-1 / (servers * cached)));
}

double random_replacement_misses(double cached) { return random_replacement_misses_of_server(cached, 1); }

double random_replacement_misses_even(double cached) {
  require_cached_fraction(cached);
  if (cached == 0 || cached == 1) return 1 - cached;
  return root(1, [cached](double m) {
    const double h = m / cached;
    return 1 - m - std::pow(-std::expm1(-h) / h, 2);
  });
}

double random_replacement_misses_in_order(double cached) {
  require_cached_fraction(cached);
  if (cached == 0 || cached == 1) return 1 - cached;
  // 1 - m - e^(-m/c) is 0 at m = 0 too, and positive between the roots.
  return root(1, [cached](double m) { return m == 0 ? 1 : 1 - m - std::exp(-m / cached); });
}

double random_replacement_misses_of_jobs(double cached, std::uint32_t jobs) {
  require_cached_fraction(cached);
  require_jobs(jobs);
  if (jobs == 1) return random_replacement_misses(cached);
  if (cached == 0 || cached == 1) return 1 - cached;
  return root(1, [cached, jobs](double m) { return 1 - m - mean_survival(jobs * m / cached, jobs); });
}

double lru_misses(double cached) {
  require_cached_fraction(cached);
  return cached == 1 ? 0 : 1 - cached - (1 - cached) * std::log1p(-cached);
}

double lru_misses_of_server(double cached, double servers) {
  require_cached_fraction(cached);
  require_servers(servers);
  if (servers == 1) return lru_misses(cached);
  if (cached == 0 || cached == 1) return 1 - cached;
  const double read = 1 / servers;
  double hits = 0;
  double absent = 1;  // (1 - 1/p)^(k - 1)
  while (absent > 1 - cached) {
    hits += read * absent * product_reaches((1 - cached) / absent, 1 - read);
    absent *= 1 - read;
  }
  return 1 - hits;
}

double lru_misses_of_jobs(double cached, std::uint32_t jobs) {
  require_cached_fraction(cached);
  require_jobs(jobs);
  if (jobs == 1) return lru_misses(cached);
  if (cached == 0 || cached == 1) return 1 - cached;
  const double characteristic = root(2, [cached, jobs](double t) { return std::pow(other_use_older(t), jobs) - (1 - cached); });
  return unused_for(characteristic, jobs);
}

}  // namespace dsanalyze
