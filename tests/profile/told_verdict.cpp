#include <fmt/format.h>

#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <variant>

#include "attach/messages.hpp"
#include "base/text/enum_names.hpp"
#include "profile/attached/attached_profile.hpp"

// Reads the messages of a training's hook, one a line, and prints the bottleneck that a profile of it names, and whether it is sure of it. The first
// window of each phase is not measured, and what its loader reads lies in memory.

using namespace dsanalyze;

namespace {

DrainMeasurement drain_of(DrainedMessage message) {
  // Batches that take no time have a rate, too.
  for (std::size_t at = 0; at < message.delivered.size(); ++at) message.delivered[at] += static_cast<Nanoseconds>(at);
  DrainMeasurement drain;
  drain.workers = message.workers;
  drain.by_rank[0] = std::move(message);
  drain.before = drain.after = TreeUse{};
  return drain;
}

void take(const std::string& line, AttachedTraining& training) {
  HookMessage message = parse_hook_message(line);
  if (const auto* device = std::get_if<DeviceMessage>(&message)) training.device = *device;
  if (const auto* loader = std::get_if<LoaderMessage>(&message)) training.loader = loader->loader;
  if (auto* drained = std::get_if<DrainedMessage>(&message)) training.drains.push_back(drain_of(std::move(*drained)));
  const auto* at = std::get_if<CheckpointMessage>(&message);
  if (at == nullptr || !at->window) return;
  const std::string mode = nlohmann::json::parse(line)["window"]["mode"];
  PhaseMeasurement& phase = training.phases[mode == "synthetic" ? AttachPhase::synthetic : AttachPhase::full];
  phase.before = phase.after = TreeUse{};
  phase.kept_batches = at->kept;
  phase.by_rank[0].push_back(*at->window);
}

}  // namespace

int main() {
  LaunchedTraining launched;
  AttachedTraining& training = launched.training;
  training.ranks[0].pid = 1;
  for (std::string line; std::getline(std::cin, line);) take(line, training);
  for (auto& [phase, measured] : training.phases) measured.by_rank[0].erase(measured.by_rank[0].begin());
  training.phases[AttachPhase::cached] = training.phases[AttachPhase::full];
  LaunchSettings settings;
  settings.command = {"python3", "train.py"};
  const ProfileResult result = attached_profile(launched, settings, HostFacts{});
  if (!result.bottleneck) return 1;
  fmt::print("{} {}\n", result.bottleneck->detail, result.bottleneck->confident ? "sure" : "unsure");
  return 0;
}
