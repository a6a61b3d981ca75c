#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/records/rate_text.hpp"
#include "record_documents.hpp"
#include "record_texts.hpp"

namespace dsanalyze::report {

std::string sharing_way_text(const WhatIfJobMix::Answer& answer) {
  if (answer.share == "none") return "nothing";
  if (answer.share != "dependent" || answer.staging_fraction.value_or(0) == 0) return answer.share;
  return fmt::format("{}, store of {}, {}", answer.share, format_share(*answer.staging_fraction), answer.staging_policy);
}

std::string job_mix_text(const WhatIfJobMix& mix) {
  return fmt::format("{} of {} samples; prep supplies {} samples/s [P], fetch {} [F] for one sweep that serves all jobs", mix.path,
                     format_number(static_cast<double>(mix.samples)), format_number(mix.prep), format_number(mix.fetch));
}

std::string job_mix_notes() {
  return "completion: from a job's arrival to the end of its last epoch, above the mean of all jobs; preps: preparings over the samples that jobs "
         "get, one "
         "for several jobs in equal parts; fastest: preparings of all jobs while the fastest job runs, over that job's samples";
}

Section job_mix_section(const WhatIfJobMix& mix) {
  Section section{"job-mix", "Jobs that differ"};
  Table ways{"each way of sharing", {{"jobs share", Align::left}, {"completion"}, {"makespan"}, {"preps"}, {"fastest"}, {"method", Align::left}}};
  Table jobs{"each job", {{"jobs share", Align::left}, {"job", Align::left}, {"own speed"}, {"samples/s"}, {"completion"}, {"preps"}}};
  List reasons;
  for (const WhatIfJobMix::Answer& answer : mix.answers) {
    const std::string way = sharing_way_text(answer);
    if (!answer.not_predicted.empty()) {
      reasons.items.push_back(fmt::format("Not predicted: {}: {}.", way, answer.not_predicted));
      continue;
    }
    ways.add({way, format_seconds(answer.mean_completion_seconds), format_seconds(answer.makespan_seconds),
              fmt::format("{:.2f}", answer.prepared_per_sample), fmt::format("{:.2f}", answer.prepared_per_fastest), answer.method});
    for (std::size_t i = 0; i < mix.jobs.size(); ++i)
      jobs.add({way, mix.jobs[i].name, format_number(mix.jobs[i].samples_per_s), format_number(answer.jobs[i].samples_per_s),
                format_seconds(answer.jobs[i].completion_seconds), fmt::format("{:.2f}", answer.jobs[i].prepared_per_sample)});
  }
  if (!ways.rows.empty()) {
    section.blocks.emplace_back(Figure{"", fmt::format("{}. {}.", job_mix_text(mix), job_mix_notes()), {}, std::move(ways)});
    section.blocks.emplace_back(Figure{"", "", {}, std::move(jobs)});
  }
  if (!reasons.items.empty()) section.blocks.emplace_back(std::move(reasons));
  return section;
}
namespace {

constexpr std::size_t most_in_chart = 12;

/// A cell of the table of answers, nothing where a column has none.
struct AnswerColumn {
  Column column;
  std::string (*text)(const WhatIfAnswer&);
};

bool any(const WhatIfResult& result, bool (*has)(const WhatIfAnswer&)) { return std::ranges::any_of(result.answers, has); }

std::string signed_share(double share) { return fmt::format("{:+.1f} %", 100 * share); }

std::vector<AnswerColumn> answer_columns(const WhatIfResult& result) {
  using Answer = const WhatIfAnswer&;
  std::vector<AnswerColumn> columns{{{"change", Align::left}, [](Answer answer) { return change_text(answer.change); }},
                                    {{"samples/s"}, [](Answer answer) { return format_rate(answer.samples_per_s, answer.ci95_samples_per_s); }}};
  if (any(result, [](Answer answer) { return answer.epoch_seconds > 0; }))
    columns.push_back({{"epoch"}, [](Answer answer) { return answer.epoch_seconds > 0 ? format_seconds(answer.epoch_seconds) : std::string("-"); }});
  columns.push_back({{"bottleneck", Align::left}, binding_text});
  columns.push_back({{"speed-up"}, [](Answer answer) { return fmt::format("{:.2f}x", answer.speedup); }});
  if (any(result, [](Answer answer) { return answer.jobs.has_value(); }))
    columns.push_back({{"each job"}, [](Answer answer) { return answer.jobs ? format_number(answer.jobs->samples_per_s_each) : std::string("-"); }});
  if (any(result, [](Answer answer) { return answer.servers.has_value(); }))
    columns.push_back(
        {{"each server"}, [](Answer answer) { return answer.servers ? format_number(answer.servers->samples_per_s_each) : std::string("-"); }});
  if (any(result, [](Answer answer) { return answer.simulated.has_value(); })) {
    columns.push_back({{"min(F, P, G)"}, [](Answer answer) { return format_number(lowest_rate(answer)); }});
    columns.push_back({{"99 % of waits under"},
                       [](Answer answer) { return answer.simulated ? format_seconds(answer.simulated->stall_p99_seconds) : std::string("-"); }});
  }
  if (any(result, [](Answer answer) { return answer.measured.has_value(); })) {
    columns.push_back({{"measured"}, [](Answer answer) {
                         return answer.measured ? format_rate(answer.measured->samples_per_s, answer.measured->ci95_samples_per_s)
                                                : std::string("not run");
                       }});
    columns.push_back({{"error"}, [](Answer answer) { return answer.measured ? signed_share(answer.measured->error) : std::string("-"); }});
    columns.push_back({{"bound when measured", Align::left}, [](Answer answer) {
                         if (!answer.measured) return std::string("-");
                         return resource_words(answer.measured->bottleneck) +
                                (answer.measured->verdict_right ? ", as predicted" : ", not as predicted");
                       }});
  }
  return columns;
}

Chart answers_chart(const WhatIfResult& result) {
  Chart chart;
  chart.name = "answers";
  chart.title = "samples/s of each answer with its 95 % interval";
  chart.kind = Chart::Kind::points;
  chart.x_label = "samples/s";
  Chart::Series predicted{"predicted", "result", {}, Chart::Series::Line::none}, measured{"measured", "prep", {}, Chart::Series::Line::none};
  for (std::size_t at = 0; at < std::min(result.answers.size(), most_in_chart); ++at) {
    const WhatIfAnswer& answer = result.answers[at];
    chart.categories.push_back(change_text(answer.change));
    const auto row = static_cast<double>(at);
    const auto add = [row](Chart::Series& series, const auto& rate) {
      series.points.push_back({row, rate.samples_per_s, rate.ci95_samples_per_s.low, rate.ci95_samples_per_s.high});
    };
    add(predicted, answer);
    if (answer.measured) add(measured, *answer.measured);
  }
  for (Chart::Series* series : {&predicted, &measured})
    if (!series->points.empty()) chart.series.push_back(std::move(*series));
  return chart;
}

Section answers_section(const WhatIfResult& result) {
  Section section{"answers", "Every answer"};
  Table table{"the unchanged configuration, then the others, the best first", {}};
  const std::vector<AnswerColumn> columns = answer_columns(result);
  for (const AnswerColumn& column : columns) table.columns.push_back(column.column);
  for (const WhatIfAnswer& answer : result.answers) {
    std::vector<std::string> cells;
    cells.reserve(columns.size());
    for (const AnswerColumn& column : columns) cells.push_back(column.text(answer));
    table.add(cells);
  }
  std::string text = "Rates with 95 % intervals; the lowest of what fetch [F], prep [P] and the accelerators [G] can do is the bottleneck.";
  if (any(result, [](const WhatIfAnswer& answer) { return answer.too_close; })) text += " ? inconclusive: another bottleneck cannot be ruled out.";
  if (any(result, [](const WhatIfAnswer& answer) { return answer.far_extrapolated(); })) text += " ~ " + far_extrapolated_text() + ".";
  if (result.answers.size() > most_in_chart) text += fmt::format(" The chart shows the first {}.", most_in_chart);
  section.blocks.emplace_back(Figure{"", text, {answers_chart(result)}, std::move(table)});
  return section;
}

Section sweep_section(const WhatIfResult& result) {
  Section section{"sweep", "Two factors at once"};
  auto map = whatif_sweep(result);
  if (!map) return section;
  std::string text =
      "Each cell holds what training reaches and the bottleneck then: fetch [F], prep [P] or the accelerators [G]. The darker, the faster.";
  if (!map->held.empty()) text += " Held where the best answer has it: " + map->held + ".";
  section.blocks.emplace_back(Figure{"", text, {}, std::move(map->table)});
  return section;
}

/// The fastest; of equals the first, which changes least.
const WhatIfAnswer& best_of(const WhatIfResult& result) { return *std::ranges::max_element(result.answers, {}, &WhatIfAnswer::samples_per_s); }

std::string headline(const WhatIfResult& result) {
  const WhatIfAnswer& base = result.answers.front();
  const WhatIfAnswer& best = best_of(result);
  const auto bottleneck = [](const WhatIfAnswer& answer) {
    const std::string words = is_transfer(answer)          ? "copies to the GPU are"
                              : answer.bottleneck == "gpu" ? "the accelerators are"
                                                           : resource_words(answer.bottleneck) + " is";
    return fmt::format("{} the bottleneck {}", words, binding_letter(answer));
  };
  if (result.answers.size() == 1)
    return fmt::format("Training is predicted to reach {} samples/s: {}", format_number(base.samples_per_s), bottleneck(base));
  if (&best == &base || best.speedup <= 1)
    return fmt::format("Nothing that was asked about is faster than the unchanged configuration: {} samples/s predicted, {}",
                       format_number(base.samples_per_s), bottleneck(base));
  return fmt::format("Best is {}: {} samples/s, {:.2f}x the unchanged configuration; then {}", change_text(best.change),
                     format_number(best.samples_per_s), best.speedup, bottleneck(best));
}

std::string how_sure(const WhatIfResult& result) {
  const WhatIfAnswer& base = result.answers.front();
  const WhatIfAnswer& best = best_of(result);
  std::string text = fmt::format("{} samples/s unchanged, {} changed, both predicted", format_rate(base.samples_per_s, base.ci95_samples_per_s),
                                 format_rate(best.samples_per_s, best.ci95_samples_per_s));
  const bool apart = best.ci95_samples_per_s.low > base.ci95_samples_per_s.high;
  text += apart ? "; their 95 % intervals do not overlap" : "; their 95 % intervals overlap, so that it is faster is not sure";
  if (best.too_close) text += "; the bottleneck is then inconclusive";
  if (best.far_extrapolated()) text += "; " + far_extrapolated_text();
  return text + ".";
}

Section verdict_section(const WhatIfResult& result) {
  Section section{"verdict", headline(result)};
  Terms terms;
  if (result.search && !result.search->conclusions.empty()) terms.terms.push_back({"Cheapest", result.search->conclusions.front()});
  if (!result.advice.empty()) terms.terms.push_back({"Do first", result.advice.front().text, Terms::Term::Weight::first});
  if (&best_of(result) != &result.answers.front()) terms.terms.push_back({"How sure", how_sure(result)});
  if (result.attained) terms.terms.push_back({"As measured", begun(attained_text(result)) + "."});
  if (result.validation) terms.terms.push_back({"Tried on this machine: " + result.validation->outcome, result.validation->reason});
  for (const WhatIfFound& found : result.found)
    terms.terms.push_back(
        {begun(question_text(found.question)), (found.value ? value_text(*found.value, found.unit) : "none") + ": " + found.then + "."});
  if (!terms.terms.empty()) section.blocks.emplace_back(std::move(terms));
  section.blocks.emplace_back(
      Paragraph{fmt::format("{}. From {}; {} of the dataset cached.", begun(result.model), result.source, format_share(result.base_cache_fraction)),
                Paragraph::Tone::muted});
  return section;
}

Section validation_section(const WhatIfResult& result) {
  Section section{"validation", "How right the predictions are"};
  if (!result.validation) return section;
  const WhatIfValidation& validation = *result.validation;
  section.blocks.emplace_back(Paragraph{fmt::format("{}: {}", begun(validation.outcome), validation.reason)});
  Table table{"errors of the predictions against what ran", {{"what", Align::left}, {"median"}, {"worst"}}};
  table.add({"predicted", format_share(validation.median_error), format_share(validation.worst_error)});
  table.add({"with the drift of the CPU left in", "-", format_share(validation.worst_error_as_profiled)});
  section.blocks.emplace_back(Figure{
      "",
      fmt::format(
          "{} configurations ran and {} did not. {} of {} verdicts were right; {} of the rates lie in their 95 % intervals; {} of the windows are "
          "void. Prep ran at {} to {} of the profile's speed.",
          validation.measured, validation.not_measured, validation.verdicts_right, validation.measured, format_share(validation.covered_share),
          format_share(validation.void_share), format_share(validation.slowest), format_share(validation.fastest)),
      {},
      std::move(table)});
  std::set<std::string> reasons;
  for (const WhatIfAnswer& answer : result.answers)
    if (!answer.not_measured.empty()) reasons.insert("Not run: " + answer.not_measured + ".");
  if (!reasons.empty()) section.blocks.emplace_back(List{{reasons.begin(), reasons.end()}});
  return section;
}

Section rates_section(const WhatIfResult& result) {
  Section section{"rates", "What it rests on"};
  Table table{"the rates that were measured or typed", {{"rate", Align::left}, {"samples/s"}}};
  if (result.rates.ingestion) table.add({"the accelerators can consume [G]", format_number(*result.rates.ingestion)});
  table.add({"prep can supply [P]", format_number(result.rates.prep)});
  if (result.rates.cache > 0) table.add({"the cache can supply [C]", format_number(result.rates.cache)});
  if (result.rates.storage > 0) table.add({"storage can supply [S]", format_number(result.rates.storage)});
  if (result.network) table.add({"the network can supply [N]", format_number(*result.network)});
  section.blocks.emplace_back(Figure{"", "", {}, std::move(table)});
  return section;
}

}  // namespace

Document whatif_document(const WhatIfResult& result) {
  Document document;
  document.subtitle = "what if: " + result.source;
  document.sections = {verdict_section(result), sweep_section(result), whatif_servers_section(result), answers_section(result)};
  if (result.job_mix) document.sections.push_back(job_mix_section(*result.job_mix));
  if (result.search) document.sections.push_back(whatif_search_section(*result.search));
  Section& advice = document.sections.emplace_back(Section{"advice", "What to do"});
  add_advice(result.advice, advice);
  document.sections.push_back(validation_section(result));
  document.sections.push_back(rates_section(result));
  std::vector<Finding> findings = result.findings;
  if (result.search) findings.insert(findings.end(), result.search->findings.begin(), result.search->findings.end());
  document.sections.push_back(findings_of(findings));
  std::erase_if(document.sections, [](const Section& section) { return section.blocks.empty(); });
  return document;
}

namespace {

Chart front_chart(const SearchResult& search) {
  Chart chart;
  chart.name = "search-front";
  chart.title = "cost of an epoch over its time, for configurations than which nothing is both cheaper and faster";
  chart.x_label = "seconds an epoch";
  chart.y_label = search.currency + " an epoch";
  chart.x_scale = Chart::Scale::logarithmic;
  Chart::Series series{"front", "result", {}};
  for (const SearchPoint& point : search.front) series.points.push_back({point.epoch_seconds, point.cost_per_epoch});
  chart.series.push_back(std::move(series));
  if (search.target) chart.marks.push_back({search.target->epoch_seconds, "target"});
  return chart;
}

}  // namespace

Section whatif_search_section(const SearchResult& search) {
  Section section{"search", "The cheapest configurations"};
  section.blocks.emplace_back(List{search.conclusions});
  Table table{"what more speed costs, the cheapest first",
              {{"configuration", Align::left},
               {"an epoch costs"},
               {"an hour costs"},
               {"an epoch takes"},
               {"samples/s"},
               {"bottleneck", Align::left},
               {"simulated"}}};
  bool close = false;
  bool far = false;
  for (const SearchPoint& point : search.front) {
    close = close || point.close_to_cheaper;
    far = far || point.extrapolation > most_extrapolation;
    table.add({setup_text(point.setup), format_cost(point.cost_per_epoch, search.currency), format_cost(point.cost_per_hour, search.currency),
               format_seconds(point.epoch_seconds) + (point.close_to_cheaper ? " *" : ""), format_rate(point.samples_per_s, point.ci95_samples_per_s),
               resource_words(point.bottleneck) + " " + resource_letter(point.bottleneck) + (point.too_close ? " ?" : "") +
                   (point.extrapolation > most_extrapolation ? " ~" : ""),
               point.simulated ? format_number(point.simulated->samples_per_s) : "-"});
  }
  const std::string text = fmt::format(
      "{}; {} configurations by the closed form{}. Nothing else is both cheaper an epoch and faster.{}{}", price_list_text(search),
      format_number(static_cast<double>(search.setups)), search.simulated > 0 ? fmt::format(", {} simulated", search.simulated) : "",
      close ? " * not surely faster than the cheaper one above: their intervals overlap." : "", far ? " ~ " + far_extrapolated_text() + "." : "");
  if (!table.rows.empty()) {
    std::vector<Chart> charts;
    if (table.rows.size() > 1) charts.push_back(front_chart(search));
    section.blocks.emplace_back(Figure{"What more speed costs", text, std::move(charts), std::move(table)});
  }
  return section;
}

}  // namespace dsanalyze::report
