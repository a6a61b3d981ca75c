#pragma once

#include <memory>

#include "launch.hpp"

namespace dsanalyze {

/// One start of a command, from its beginning to the end of all its processes: launch_training(). `so_far`: what earlier starts have measured.
LaunchedTraining launch_once(const LaunchSettings& settings, std::shared_ptr<const Sandbox> sandbox, EventSink& events, const std::stop_token& stop,
                             Timing timing, AttachedTraining so_far);

}  // namespace dsanalyze
