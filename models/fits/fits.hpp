#pragma once

#include <array>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/rates.hpp"
#include "core/records/result.hpp"
#include "core/storage_cost.hpp"

namespace dsanalyze {

/// P measured on so many cores.
struct ScalingPoint {
  double cores = 0;
  double samples_per_s = 0;
  double relative_error = 0;  ///< half of its 95 % interval over its value
};

/// A law through measured points, and how far it may be off.
class FittedScaling {
 public:
  /// Least squares of n / X(n), relative errors weighted alike; contention and coherence at least 0, each only from as many points as tell it: one
  /// point: linear; two: contention; three and more: both. Points without a positive number and rate are left out.
  FittedScaling(std::span<const ScalingPoint> points, double physical_cores, double host_threads = std::numeric_limits<double>::infinity());
  /// `one_core` samples/s each, whatever their number: virtual cores.
  static FittedScaling linear(double one_core);

  [[nodiscard]] const ScalingLaw& law() const { return m_law; }
  /// By the law, corrected at the measured points to what was measured there; between two of them by both corrections (straight in log-log), beyond
  /// by the last one.
  [[nodiscard]] double rate(double cores) const;
  /// X(to) / X(from).
  [[nodiscard]] double factor(double from, double to) const { return rate(to) / rate(from); }
  /// The fewest cores (any part of one) that reach `rate`; nullopt when none do.
  [[nodiscard]] std::optional<double> cores_for(double rate) const;
  /// What the points' errors make of the factor's, as a share of it (each point moved by its error, the changes in quadrature).
  [[nodiscard]] double factor_error(double from, double to) const;
  /// The error of (a rate measured on `from` cores) x factor(from, to), as a share of it. Where that rate is a point of the fit the product is X(to),
  /// and the points' errors say what X(to) is off by; elsewhere the rate's own `from_error` comes beside the factor's.
  [[nodiscard]] double scaled_error(double from, double to, double from_error) const;
  /// The fits with one point lower and higher by its error, for each point that has one: what factor_error() and scaled_error() are made from.
  [[nodiscard]] std::vector<std::array<FittedScaling, 2>> moved_by_errors() const;
  [[nodiscard]] double most_measured() const;  ///< cores; infinite for virtual ones

 private:
  explicit FittedScaling(const ScalingLaw& law) : m_law(law) {}
  /// (cores, what the law is multiplied by there), cores rising: measured over the law's. None for virtual cores.
  [[nodiscard]] std::vector<std::pair<double, double>> corrections() const;
  /// What moving each point by its error makes of a value of the fit, as a share of it, in quadrature.
  template <typename Value>
  [[nodiscard]] double moved_error(const Value& value) const;
  FittedScaling(std::vector<ScalingPoint> points, const ScalingLaw& law) : m_points(std::move(points)), m_law(law) {}
  std::vector<ScalingPoint> m_points;  ///< cores rising
  ScalingLaw m_law;
};

/// The ingestion rate of one accelerator measured at a batch size.
struct BatchPoint {
  double batch_size = 0;
  double samples_per_s = 0;
};
/// Least squares of seconds a step = fixed + b x per_sample, relative errors weighted alike, both at least 0. One point, or all of one batch size:
/// nothing is fixed.
BatchLaw fit_batch_law(std::span<const BatchPoint> points);

/// The law through measured points, corrected at them to what was measured there, as FittedScaling is.
class FittedBatch {
 public:
  /// Of two points of one batch size the first counts.
  explicit FittedBatch(std::span<const BatchPoint> points);
  /// samples/s. Requires batch > 0 and at least one point.
  [[nodiscard]] double rate(double batch) const;

 private:
  BatchLaw m_law;
  std::vector<std::pair<double, double>> m_corrections;  ///< (batch size, what the law is multiplied by there), sizes rising
};

/// S over request size and concurrency, from the profile's points: log-log between the points measured at the run's own concurrency; of other
/// concurrencies, by the ratio measured at the size nearest to the request. Past the largest request the line of core/storage_cost.hpp goes on (a
/// fixed cost and a cost a byte), past the measured concurrencies nothing changes; either is marked as extrapolated, and so is what differs from the
/// run in size and concurrency both.
class StorageCurve {
 public:
  StorageCurve(std::vector<StoragePoint> points, double run_concurrency);
  struct Rate {
    double bytes_per_s = 0;
    bool extrapolated = false;
  };
  /// nullopt where the curve has no points. Requires both > 0.
  [[nodiscard]] std::optional<Rate> at(double request_bytes, double concurrency) const;
  [[nodiscard]] double largest_request() const { return m_by_size.empty() ? 0 : m_by_size.back().request_bytes; }
  [[nodiscard]] double largest_concurrency() const;  ///< measured, the run's own among them

 private:
  [[nodiscard]] Rate by_size(double request_bytes) const;
  [[nodiscard]] Rate concurrency_factor(double concurrency) const;
  double m_run_concurrency;
  std::vector<StoragePoint> m_by_size;         // at the run's concurrency, sizes rising
  std::vector<StoragePoint> m_by_concurrency;  // at the size that has most of them, concurrencies rising
  StorageCost m_cost;
};

}  // namespace dsanalyze
