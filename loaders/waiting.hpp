#pragma once

namespace dsanalyze {

constexpr double look_up_seconds = 0.25;  ///< how often a waiting thread looks whether it should end

}  // namespace dsanalyze
