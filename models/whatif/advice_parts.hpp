#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/records/result.hpp"
#include "training_model.hpp"

namespace dsanalyze {

// What the parts of advise() have in common.

constexpr double least_advised_gain = 1.05;

/// "train.py:41 ", or nothing.
std::string place_text(const std::string& file, int line);
/// Over what the model predicts of the training unchanged: what the rates do not explain is no gain.
GainRecord gain_of(const TrainingModel& model, const TrainingRates& now, const TrainingRates& rates, bool at_most);
/// Whether the training is surely faster, by so much that it is worth a line.
bool worthwhile(const TrainingModel& model, const GainRecord& gain);
/// "at most 1,200 ± 30 samples/s (1.8x), then the bottleneck is compute".
std::string gain_text(const GainRecord& gain);

/// Adds one piece of advice about a place in the script (no file: about none), with its gain where one is predicted.
void add_advice(std::vector<AdviceRecord>& list, std::string code, std::string text, const std::optional<GainRecord>& gain = {},
                const std::string& file = {}, int line = 0);

/// What the script does beside its steps, by line.
void advise_script(const ProfileResult& profile, const TrainingModel& model, const TrainingRates& now, std::vector<AdviceRecord>& list);
/// dsanalyze.Loader in place of the script's own.
void advise_own_loader(const ProfileResult& profile, const TrainingModel& model, const TrainingRates& now, std::vector<AdviceRecord>& list);

}  // namespace dsanalyze
