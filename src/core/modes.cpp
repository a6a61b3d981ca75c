#include "dsanalyze/core/modes.hpp"

#include <array>

namespace dsanalyze {
namespace {

bool is_page_model(const ProfileSettings& settings) {
  return settings.cache == CacheKind::page_model_random || settings.cache == CacheKind::page_model_linux;
}

constexpr std::array rules = {
    ModeRule{"--cache page", "--direct",
             "direct I/O goes past the page cache, so nothing would ever be found there; use --cache none, minio or lru, or leave out --direct",
             [](const ProfileSettings& settings) { return settings.cache == CacheKind::page && settings.read_mode == ReadMode::direct; }},
    ModeRule{"--cache page", "--storage emulated",
             "the kernel's page cache knows nothing of emulated storage; use --cache none, minio or lru, or --storage real",
             [](const ProfileSettings& settings) { return settings.cache == CacheKind::page && settings.storage == Seam::emulated; }},
    ModeRule{"--cache page", "--storage null",
             "null storage reads nothing that the page cache could keep; use --cache none, minio or lru, or --storage real",
             [](const ProfileSettings& settings) { return settings.cache == CacheKind::page && settings.storage == Seam::null; }},
    ModeRule{"--cache page-model", "--storage real",
             "a model of the page cache stands in where the kernel's own cannot be; over real storage use --cache page",
             [](const ProfileSettings& settings) { return is_page_model(settings) && settings.storage == Seam::real; }},
    ModeRule{"--cache page-model", "--storage null", "null storage reads nothing that a page cache could keep; use --storage emulated:NAME",
             [](const ProfileSettings& settings) { return is_page_model(settings) && settings.storage == Seam::null; }},
    ModeRule{"--admit cost-aware", "any cache but minio",
             "only MinIO chooses what it admits; the others replace what they hold. Use --cache minio, or leave out --admit",
             [](const ProfileSettings& settings) { return settings.admission == Admission::cost_aware && settings.cache != CacheKind::minio; }},
    ModeRule{"--admit cost-aware", "--storage null",
             "null storage takes no time that a cache could save; use --admit first, or --storage real or emulated:NAME",
             [](const ProfileSettings& settings) { return settings.admission == Admission::cost_aware && settings.storage == Seam::null; }},
    ModeRule{"--accelerator cpu", "--prep emulated",
             "emulated prep writes no samples that a network could learn from; use --prep real, or --accelerator emulated:RATE",
             [](const ProfileSettings& settings) { return settings.accelerator == AcceleratorKind::cpu && settings.prep == Seam::emulated; }},
    ModeRule{"--accelerator cpu", "--prep null",
             "null prep writes no samples that a network could learn from; use --prep real, or --accelerator emulated:RATE",
             [](const ProfileSettings& settings) { return settings.accelerator == AcceleratorKind::cpu && settings.prep == Seam::null; }},
    ModeRule{"--accelerator cpu", "--storage null",
             "null storage delivers no images, so nothing could be learned; use --storage real or emulated:NAME, or --accelerator emulated:RATE",
             [](const ProfileSettings& settings) { return settings.accelerator == AcceleratorKind::cpu && settings.storage == Seam::null; }},
    ModeRule{"--accelerator cpu", "--step independent",
             "one network learns, so its threads take their steps together; leave out --step, or use --accelerator emulated:RATE",
             [](const ProfileSettings& settings) { return settings.accelerator == AcceleratorKind::cpu && settings.step == StepMode::independent; }},
    ModeRule{"--memory-limit", "any cache but page",
             "the limit is that of the kernel's page cache; the loader's own caches have --cache-size. Use --cache page, or leave out --memory-limit",
             [](const ProfileSettings& settings) { return settings.memory_limit.has_value() && settings.cache != CacheKind::page; }},
};

}  // namespace

std::span<const ModeRule> mode_rules() { return rules; }

std::optional<ModeRule> broken_mode_rule(const ProfileSettings& settings) {
  for (const ModeRule& rule : rules) {
    if (rule.applies(settings)) return rule;
  }
  return std::nullopt;
}

}  // namespace dsanalyze
