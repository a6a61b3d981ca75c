#pragma once

#include <string>

#include "core/records/result.hpp"

namespace dsanalyze::cli {

/// What the HTML page's sliders need of one profile (models/live_model.hpp), as a JSON object; empty where what-if answers cannot be had of it, for
/// a rate is missing. `path` is where the profile lies, for the command line that the page shows; empty: the last profile.
std::string live_model_json(const ProfileResult& profile, const std::string& path);

}  // namespace dsanalyze::cli
