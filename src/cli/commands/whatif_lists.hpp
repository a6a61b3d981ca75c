#pragma once

#include <string>

#include "models/whatif/whatif.hpp"

namespace CLI {
class App;
}

namespace dsanalyze::cli {

/// whatif's lists of what to change, and --find.
class WhatIfLists {
 public:
  void declare(CLI::App& app);
  /// Throws UsageError that names the option.
  [[nodiscard]] WhatIfQuestion question(const RateModel& model) const;

 private:
  std::string m_cache_sizes, m_caches, m_cores, m_accelerator_speeds, m_accelerators, m_batch_sizes, m_storage, m_request_sizes, m_concurrencies,
      m_jobs, m_shares, m_servers, m_partitions, m_balances, m_scopes, m_networks, m_find;
};

}  // namespace dsanalyze::cli
