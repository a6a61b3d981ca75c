#include "share_options.hpp"

#include <fmt/format.h>

#include "base/error.hpp"
#include "base/text/text.hpp"
#include "cli/commands/command.hpp"

namespace dsanalyze::cli {
namespace {

constexpr std::string_view listen_prefix = "unix:";
constexpr double stat_patience_seconds = 30.0 * 24 * 3600;  // a part of a dataset would do for measuring, not for training

}  // namespace

ProfileInputs ShareOptions::resolve(std::uint64_t seed, EventSink& events, const std::stop_token& stop) const {
  m_loading.require_dataset();
  const JobSharing sharing = terms().share;
  if (m_typed.given("--trace") && sharing != JobSharing::dependent)
    throw UsageError("--trace: jobs that go in step read in an order that is known; pass --share dependent with it, or leave it out");
  for (const char* const option : {"--save-state", "--resume"}) {
    if (m_typed.given(option) && sharing != JobSharing::dependent)
      throw UsageError(
          fmt::format("{}: only jobs that draw dependently go on in mid-epoch; pass --share dependent with it, or leave it out", option));
    if (m_typed.given(option) && m_typed.text(option).empty()) throw UsageError(fmt::format("{}: found no name of a file", option));
  }
  if (!m_typed.given("--jobs") && sharing == JobSharing::dependent) throw UsageError("how many jobs take part at once, at most? Pass --jobs N");
  if (!m_typed.given("--jobs")) throw UsageError("how many jobs take part? Pass --jobs N: the first epoch begins when as many are there");
  ProfileInputs inputs = m_loading.resolve_settings(seed, sharing);
  inputs.trace_file.clear();  // --trace is of draws here
  ProfileSettings& settings = inputs.settings;
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

ShareTerms ShareOptions::terms() const {
  ShareTerms terms;
  m_typed.put(terms);
  return terms;
}

std::filesystem::path ShareOptions::trace() const { return m_typed.text("--trace"); }

std::filesystem::path ShareOptions::socket() const {
  const std::string& listen = m_typed.text("--listen");
  if (listen.empty()) return {};
  if (!listen.starts_with(listen_prefix) || listen.size() == listen_prefix.size())
    throw UsageError(fmt::format("--listen: found \"{}\", expected unix:PATH of a socket, which is made", printable(listen)));
  return std::filesystem::absolute(listen.substr(listen_prefix.size()));
}

}  // namespace dsanalyze::cli
