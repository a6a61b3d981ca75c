#include "record_documents.hpp"

#include <fmt/format.h>

#include "document.hpp"

namespace dsanalyze::report {
namespace {

/// Behind the others, with names that are its own.
void append(Document& whole, Document part, std::size_t& parts) {
  if (++parts == 1) {
    whole = std::move(part);
    return;
  }
  const std::string suffix = fmt::format("-{}", parts);
  for (Section& section : part.sections) {
    section.id += suffix;
    for (Block& block : section.blocks)
      if (auto* figure = std::get_if<Figure>(&block))
        for (Chart& chart : figure->charts) chart.name += suffix;
    whole.sections.push_back(std::move(section));
  }
}

struct MakeDocument {
  Document operator()(const ProfileResult&) const { return {}; }  // profiles stand side by side, in one document
  Document operator()(const WhatIfResult& result) const { return whatif_document(result); }
  Document operator()(const SimulateResult& result) const { return simulate_document(result); }
  Document operator()(const DoctorResult& result) const { return doctor_document(result); }
  Document operator()(const GateResult& result) const { return gate_document(result); }
};

}  // namespace

std::vector<ProfileView> profile_views(std::span<const ReportInput> inputs) {
  std::vector<ProfileView> views;
  for (std::size_t at = 0; at < inputs.size(); ++at)
    if (const auto* profile = std::get_if<ProfileResult>(&inputs[at].record)) views.push_back({inputs[at].label, profile, &inputs[at].curves, at});
  return views;
}

Document report_document(std::span<const ReportInput> inputs) {
  Document whole;
  std::size_t parts = 0;
  const std::vector<ProfileView> profiles = profile_views(inputs);
  if (!profiles.empty()) append(whole, profile_document(profiles), parts);
  for (const ReportInput& input : inputs) {
    if (std::holds_alternative<ProfileResult>(input.record)) continue;
    Document part = std::visit(MakeDocument{}, input.record);
    part.title = inputs.size() == 1 ? "dsanalyze: " + input.label : fmt::format("dsanalyze: {} results", inputs.size());
    if (inputs.size() > 1)
      for (Section& section : part.sections) section.title = input.label + ": " + section.title;
    append(whole, std::move(part), parts);
  }
  return whole;
}

}  // namespace dsanalyze::report

namespace dsanalyze {

std::string markdown_report(std::span<const ReportInput> inputs) { return report::markdown(report::report_document(inputs)); }

}  // namespace dsanalyze
