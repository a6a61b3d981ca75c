#include "share_options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "base/error.hpp"
#include "base/text/text.hpp"
#include "cli/commands/command.hpp"
#include "loaders/staging/staging.hpp"
#include "option_table.hpp"
#include "option_values.hpp"

namespace dsanalyze::cli {
namespace {

constexpr std::string_view producers_words = choices_of<Producers>;
constexpr std::string_view listen_prefix = "unix:";
constexpr double stat_patience_seconds = 30.0 * 24 * 3600;  // a part of a dataset would do for measuring, not for training
constexpr std::int64_t most_epochs = 1'000'000;
constexpr std::uint32_t usual_held = 2;  // one that is trained on, and the next on its way to an accelerator

std::int64_t number_of(const char* option, const std::string& text, std::int64_t least, std::int64_t most) {
  try {
    return parse_integer(text, least, most);
  } catch (const Error& error) {
    throw UsageError(fmt::format("{}: {}", option, error.what()));
  }
}

}  // namespace

void ShareOptions::declare(CLI::App& app) {
  m_loading.declare_loading(app);
  app.add_option("--jobs", m_jobs);
  app.add_option("--producers", m_producers)->type_name(std::string(producers_words));
  app.add_option("--epochs", m_epochs);
  app.add_option("--held", m_held);
  app.add_option("--listen", m_listen)->type_name("unix:");
}

ProfileInputs ShareOptions::resolve(std::uint64_t seed, EventSink& events, const std::stop_token& stop) const {
  m_loading.require_dataset();
  if (m_jobs.empty()) throw UsageError("how many jobs take part? Pass --jobs N: the first epoch begins when as many are there");
  ProfileInputs inputs = m_loading.resolve_settings(seed);
  ProfileSettings& settings = inputs.settings;
  settings.jobs = static_cast<int>(number_of("--jobs", m_jobs, 1, ProfileSettings::most_jobs));
  settings.share = JobSharing::coordinated;
  if (!m_producers.empty()) {
    const bool jobs = checked_choice("--producers", m_producers, words_of(producers_words)) == "jobs";
    settings.producers = jobs ? Producers::jobs : Producers::coordinator;
  }
  settings.runs = {"full"};
  const double time_budget = settings.time_budget_seconds;
  settings.time_budget_seconds = stat_patience_seconds;
  inputs.index = m_loading.open(settings, events, stop);
  settings.time_budget_seconds = time_budget;
  if (inputs.index->facts().sizes_sampled) {
    throw UsageError(
        fmt::format("the index of {} has a part of its samples only: make it anew with `dsanalyze dataset index`", printable(settings.dataset)));
  }
  return inputs;
}

std::uint64_t ShareOptions::epochs() const {
  return m_epochs.empty() ? 0 : static_cast<std::uint64_t>(number_of("--epochs", m_epochs, 1, most_epochs));
}

std::uint32_t ShareOptions::held() const {
  return m_held.empty() ? usual_held : static_cast<std::uint32_t>(number_of("--held", m_held, 1, staging_most_held));
}

std::filesystem::path ShareOptions::socket() const {
  if (m_listen.empty()) return {};
  if (!m_listen.starts_with(listen_prefix) || m_listen.size() == listen_prefix.size())
    throw UsageError(fmt::format("--listen: found \"{}\", expected unix:PATH of a socket, which is made", printable(m_listen)));
  return std::filesystem::absolute(m_listen.substr(listen_prefix.size()));
}

}  // namespace dsanalyze::cli
