#include "dsanalyze/core/modes.hpp"

#include <array>

namespace dsanalyze {
namespace {

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
