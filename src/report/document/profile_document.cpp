#include "profile_document.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/text/text.hpp"
#include "profile_text.hpp"
#include "record_texts.hpp"
#include "report/console/console_verdict.hpp"

namespace dsanalyze::report {
namespace {

EpochSplit epoch_split(const ProfileResult::Stalls& stalls, const std::string& label) {
  const auto part = [](const std::string& kind, const std::string& name, const StallRecord& stall) {
    return EpochSplit::Part{kind, name, stall.fraction, share_with_interval(stall),
                            stall.seconds_per_epoch > 0 ? format_seconds(stall.seconds_per_epoch) + " an epoch" : ""};
  };
  EpochSplit split{label,
                   {part("compute", "the accelerators compute", stalls.compute), part("prep", "they wait for prep", stalls.prep),
                    part("fetch", "they wait for fetch", stalls.fetch)}};
  if (stalls.interference) split.parts.push_back(part("interference", "lost to interference", *stalls.interference));
  return split;
}

/// The parts of a launched training's step, by its own clocks.
EpochSplit step_split(const ProfileResult& result, const std::string& label) {
  constexpr double worth_showing = 0.005;
  const WaitsRecord& waits = *result.waits;
  const bool by_storage = result.bottleneck && result.bottleneck->detail == "storage";
  EpochSplit split{label, {}};
  const auto add = [&split](const std::string& kind, const std::string& name, const WaitRecord& part) {
    if (part.fraction < worth_showing && kind != "compute") return;
    split.parts.push_back({kind, name, part.fraction, format_share(part.fraction), format_seconds(part.seconds_per_step) + " a step"});
  };
  add("compute", "computing", waits.compute);
  add(by_storage ? "fetch" : "prep", "waiting for data", waits.data);
  add("interference", "waiting for other ranks", waits.ranks);
  add(by_storage ? "prep" : "fetch", "outside of the loop's steps", waits.outside);
  return split;
}

std::optional<EpochSplit> split_of(const ProfileView& view, const std::string& label) {
  if (view.profile->waits) return step_split(*view.profile, label);
  return view.profile->stalls ? std::optional(epoch_split(*view.profile->stalls, label)) : std::nullopt;
}

const std::string explanation =
    "An epoch is one pass over the data. Fetch reads samples, from the cache [C] or from storage [S], both together [F]; prep decodes and changes "
    "them on the CPU [P]; the accelerators could train so many if they never waited [G]. All in samples/s; the lowest of F, P and G is the "
    "bottleneck.";

/// Bytes of what may quote names from outside, so that verdict, split and advice are seen without scrolling; further down it stands whole.
constexpr std::size_t first_screen_text = 250;

/// As many whole sentences as there is room for.
std::string first_sentences(const std::string& text, std::size_t most) {
  if (text.size() <= most) return text;
  const std::size_t end = text.rfind(". ", most);
  return end == std::string::npos ? shortened(text, most) : text.substr(0, end + 1);
}

void add_one(const ProfileView& view, Section& section) {
  const ProfileResult& result = *view.profile;
  const console::Verdict verdict = console::verdict_parts(result);
  section.title = begun(verdict.sentence);  // "emulated: ..." begins a title here
  if (auto split = split_of(view, "")) section.blocks.emplace_back(std::move(*split));
  Terms terms{{{"Do first", first_sentences(console::first_step(result), first_screen_text), Terms::Term::Weight::first},
               {"Is it sure", shortened(console::confidence(result), first_screen_text)}}};
  if (result.predicted_steady) terms.terms.push_back({"Later", begun(console::steady_text(*result.predicted_steady))});
  if (result.observed) terms.terms.push_back({"Your own job", observed_text(*result.observed)});
  section.blocks.emplace_back(std::move(terms));
  if (!verdict.rates.empty()) section.blocks.emplace_back(Paragraph{verdict.rates});
  if (!verdict.sharing.empty()) section.blocks.emplace_back(Paragraph{verdict.sharing});
  if (result.stalls && result.stalls->interference && result.attained) section.blocks.emplace_back(Paragraph{interference_text(*result.attained)});
  section.blocks.emplace_back(Paragraph{explanation, Paragraph::Tone::muted});
}

void add_several(ProfileViews views, Section& section) {
  section.title = fmt::format("{} results side by side", views.size());
  section.blocks.emplace_back(Paragraph{fmt::format("Ratios and differences are to the first, {}.", views.front().label)});
  Table table{"what each result says", {{"result", Align::left}, {"verdict", Align::left}, {"how sure", Align::left}, {"do first", Align::left}}};
  for (const ProfileView& view : views)
    table.add({view.label, console::verdict_parts(*view.profile).sentence, console::confidence(*view.profile), console::first_step(*view.profile)});
  for (const ProfileView& view : views)
    if (auto split = split_of(view, view.label)) section.blocks.emplace_back(std::move(*split));
  section.blocks.emplace_back(Figure{"", "", {}, std::move(table)});
  section.blocks.emplace_back(Paragraph{explanation, Paragraph::Tone::muted});
}

Section advice_section(ProfileViews views) {
  Section section{"advice", "What to do"};
  for (const ProfileView& view : views) {
    std::vector<AdviceRecord> advice = view.profile->advice;
    // Of a launched training the first step may come from elsewhere: from its number of workers, or a rank that delays the others.
    const std::string first = console::first_step(*view.profile);
    if (view.profile->loader && std::ranges::find(advice, first, &AdviceRecord::text) == advice.end())
      advice.insert(advice.begin(), AdviceRecord{"first-step", first, {}, {}});
    if (!advice.empty() && views.size() > 1) section.blocks.emplace_back(Paragraph{view.label + ":"});
    add_advice(advice, section);
  }
  return section;
}

Section findings_section(ProfileViews views) {
  Section section{"findings", "Findings"};
  const bool several = views.size() > 1;
  Table table{"what was found while measuring, the most severe first", {}};
  if (several) table.columns.push_back({"result", Align::left});
  table.columns.insert(table.columns.end(), {{"severity", Align::left}, {"finding", Align::left}, {"code", Align::left}});
  for (const auto severity : {Finding::Severity::error, Finding::Severity::warning, Finding::Severity::info})
    for (const ProfileView& view : views)
      for (const Finding& finding : view.profile->findings) {
        if (finding.severity != severity) continue;
        std::vector<std::string> cells{severity_word(severity), finding.message, finding.code};
        if (several) cells.insert(cells.begin(), view.label);
        table.add(cells);
      }
  if (table.rows.empty())
    section.blocks.emplace_back(Paragraph{"None."});
  else
    section.blocks.emplace_back(Figure{"", "", {}, std::move(table)});
  return section;
}

Section live_section(ProfileViews views) {
  Section section{"whatif", "What if"};
  for (const ProfileView& view : views) {
    if (!view.curves->base) continue;
    const std::string begin = views.size() > 1 ? view.label + ": " : "";
    if (view.profile->settings.jobs > 1)
      section.blocks.emplace_back(Paragraph{
          fmt::format("{}the sliders and the predicted curves are of one of the {} jobs, alone on this server.", begin, view.profile->settings.jobs),
          Paragraph::Tone::muted});
    else if (view.profile->settings.world > 1)
      section.blocks.emplace_back(
          Paragraph{fmt::format("{}the sliders and the predicted curves are of one of the {} servers, alone.", begin, view.profile->settings.world),
                    Paragraph::Tone::muted});
    else if (!assumptions_of_models(*view.profile).empty())
      section.blocks.emplace_back(Paragraph{begin + assumptions_of_models(*view.profile), Paragraph::Tone::muted});
    section.blocks.emplace_back(LivePlace{view.number, views.size() > 1 ? view.label : ""});
  }
  return section;
}

std::string subtitle(ProfileViews views) {
  if (views.size() > 1) {
    std::vector<std::string> labels;
    for (const ProfileView& view : views) labels.push_back(view.label);
    return fmt::format("{}", fmt::join(labels, "; "));
  }
  const ProfileResult& result = *views.front().profile;
  std::vector<std::string> parts{result.dataset.path.empty() ? views.front().label : result.dataset.path};
  if (!result.host.cpu_model.empty()) parts.push_back(result.host.cpu_model);
  if (!result.started_utc.empty()) parts.back() += ", " + result.started_utc;
  return fmt::format("{}", fmt::join(parts, " on "));
}

}  // namespace

Section verdict_section(ProfileViews views) {
  Section section{"verdict", ""};
  if (views.size() == 1)
    add_one(views.front(), section);
  else
    add_several(views, section);
  return section;
}

Document profile_document(ProfileViews views) {
  Document document;
  document.title = views.size() == 1 ? "dsanalyze: " + views.front().label : fmt::format("dsanalyze: {} results", views.size());
  document.subtitle = subtitle(views);
  document.sections.push_back(verdict_section(views));
  for (const auto& make : {sweep_section, waits_section, rates_section, stalls_section, advice_section}) document.sections.push_back(make(views));
  std::ranges::move(curve_sections(views), std::back_inserter(document.sections));
  for (const auto& make : {live_section, storage_section, runs_section, jobs_section, ranks_section, training_section, timeline_section,
                           operators_section, distributions_section, findings_section, settings_section, host_section, methods_section})
    document.sections.push_back(make(views));
  std::erase_if(document.sections, [](const Section& section) { return section.blocks.empty(); });
  return document;
}

std::vector<std::size_t> spread(std::size_t count, std::size_t most) {
  std::vector<std::size_t> chosen;
  if (count == 0 || most == 0) return chosen;
  const std::size_t shown = std::min(count, most);
  for (std::size_t at = 0; at < shown; ++at) chosen.push_back(shown == 1 ? 0 : at * (count - 1) / (shown - 1));
  return chosen;
}

}  // namespace dsanalyze::report
