#pragma once

#include <CLI/CLI.hpp>

#include "loaders/dataset/dataset.hpp"

namespace dsanalyze::cli {

/// Declares --image-key and --label-key, which write to `keys`. An empty list is a UsageError: it would mean the default.
void declare_keys(CLI::App& app, SampleKeys& keys);

}  // namespace dsanalyze::cli
