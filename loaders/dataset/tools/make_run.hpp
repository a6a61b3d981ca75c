#pragma once

#include "dataset_make.hpp"
#include "sample_files.hpp"

namespace dsanalyze {

/// make_dataset() with a writer of its own: a test's full disk.
MakeReport make_dataset_with(const std::filesystem::path& folder, const MakeOptions& options, const WriteSample& write, EventSink& events,
                             const std::stop_token& stop);

}  // namespace dsanalyze
