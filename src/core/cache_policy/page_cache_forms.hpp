#pragma once

#include <cstdint>

namespace dsanalyze {

// Misses in closed form: the share m of a reader's reads that a cache of items of one size misses in the long run. `cached` is the fraction c of the
// dataset that the cache holds. All functions: pure; 0 for c = 1 and 1 for c = 0; std::domain_error for c outside [0, 1] or no number.

/// Random replacement, one job that reads everything in a new uniform order each epoch: m = c ln(c + (1 - c) e^(1/c)).
/// Let M(v) be the misses over D up to the point v of an epoch, M(1) = m. An item used at u of the last epoch, uniform, is still held at v with
/// e^(-(m - M(u) + M(v)) / c), so M'(v) = 1 - A e^(-M(v)/c) with A the mean of e^(-(m - M(u))/c) over u. Its solution is e^(M(v)/c) = A + (1 - A)
/// e^(v/c); put into A's definition, A = c: an epoch begins with cD held, none of them used, and v = 1 gives m.
double random_replacement_misses(double cached);

/// The same with misses taken to be spread evenly over the epoch: the root of 1 - m = ((1 - e^(-m/c)) / (m/c))^2. Close (0.2 points at most), not
/// exact: misses are rarer at an epoch's beginning.
double random_replacement_misses_even(double cached);

/// Random replacement in an order that is the same in every epoch: the root of 1 - m = e^(-m/c). Between two uses of an item lie D reads, hence mD
/// misses, each of which drops any of the cD held alike: (1 - 1/(cD))^(mD).
/// Also of `jobs` that read the same order, each an equal part of an epoch behind the one before it: then 1/jobs of an epoch with `jobs` times the
/// misses lies between two uses.
double random_replacement_misses_in_order(double cached);

/// Random replacement, a server that reads a random 1/p of the dataset each epoch (data-parallel training without a partition):
/// m = pc ln(c + (1 - c) e^(1/(pc))), of its own reads. The derivation above holds with 1/p as many reads an epoch and A summed over the epochs (1/p)
/// (1 - 1/p)^k in which an item was not read; A = c again. p = 1 is the form above; the limit for many servers is 1 - c.
double random_replacement_misses_of_server(double cached, double servers);

/// Random replacement, `jobs` that read everything, each in orders of its own, not in step with the others, through one cache. Misses are taken to be
/// spread evenly: an item is held with e^(-h T) when T epochs have gone by since anyone used it, with h = jobs m / c. The job's own last use lies T1
/// = 1 - u + v back (u, v uniform: P(T1 > t) = 1 - t^2/2 up to 1, (2 - t)^2/2 up to 2), the use of another, seen from any moment, T2 with P(T2 > t) =
/// 1 - t + t^3/6 up to 1, (2 - t)^3/6 up to 2, the ages of renewals T1. Quadrature and bisection. One job: the exact form.
double random_replacement_misses_of_jobs(double cached, std::uint32_t jobs);

/// LRU, one job in a new uniform order each epoch: 1 - c - (1 - c) ln(1 - c). An item drawn at u of one epoch and at v of the next has 1 - u (1 - v)
/// of the others between, and is held if u (1 - v) is at least 1 - c.
double lru_misses(double cached);

/// LRU, a server that reads a random 1/p of the dataset each epoch. Read at u of an epoch and at v of the k-th after it, 1 - (1 - (1 - u)/p) (1 -
/// 1/p)^(k - 1) (1 - v/p) of the dataset lies between.
double lru_misses_of_server(double cached, double servers);

/// LRU, `jobs` in orders of their own through one cache: an item is held if no more than T* epochs have gone by since anyone used it, where T* is the
/// time in which all jobs together touch the fraction c (the characteristic-time approximation of Che and others; T1, T2 as above). One job: the
/// exact form.
double lru_misses_of_jobs(double cached, std::uint32_t jobs);

}  // namespace dsanalyze
