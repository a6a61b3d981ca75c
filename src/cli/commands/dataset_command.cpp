#include "command.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.hpp"
#include "base/host/host.hpp"
#include "base/text/text.hpp"
#include "cli/options/typed_options.hpp"
#include "core/records/result.hpp"
#include "loaders/dataset/dataset.hpp"
#include "loaders/dataset/tools/dataset_convert.hpp"
#include "loaders/dataset/tools/dataset_make.hpp"

namespace dsanalyze::cli {
namespace {

/// Long enough to ask every file for its size, however slow the filer.
constexpr double no_stat_budget_seconds = 1e6;

std::string count(std::uint64_t number) { return format_number(static_cast<double>(number)); }

class DatasetCommand final : public Command {
 public:
  Outcome run(const CommandContext& context) override {
    constexpr std::array<std::pair<std::string_view, Outcome (DatasetCommand::*)(const CommandContext&)>, 5> actions{
        {{"make", &DatasetCommand::make},
         {"index", &DatasetCommand::index},
         {"info", &DatasetCommand::info},
         {"verify", &DatasetCommand::verify},
         {"convert", &DatasetCommand::convert}}};
    const auto* const action = std::ranges::find(actions, context.typed.action(), [](const auto& each) { return each.first; });
    if (action == actions.end()) throw UsageError("expected one of make, index, info, verify, convert, for example: dsanalyze dataset info DIR");
    m_folder = context.typed.text("DATASET");
    m_index = context.typed.text("--index");
    m_keys = {context.typed.text("--image-key"), context.typed.text("--label-key")};
    if (m_folder.empty()) throw UsageError("the dataset's folder is missing: dsanalyze dataset ACTION DATASET");
    Outcome outcome = (this->*action->second)(context);
    outcome.text = printable_lines(outcome.text);
    return outcome;
  }

 private:
  static int threads() { return read_host_facts().worker_count(); }

  [[nodiscard]] OpenOptions open_options(const CommandContext& context, double stat_budget_seconds) const {
    OpenOptions options;
    options.stat_budget_seconds = stat_budget_seconds;
    options.seed = context.options.seed;
    options.keys = m_keys;
    if (!m_index.empty()) options.index_file = m_index;
    return options;
  }

  [[nodiscard]] DatasetCommandResult describe(const std::string& action, const DatasetIndex& index) const {
    DatasetCommandResult result;
    result.tool = this_tool();
    result.command = action;
    const DatasetIndex::Facts& facts = index.facts();
    result.path = !facts.source.empty() ? facts.source : facts.root.empty() ? m_folder : facts.root;
    result.format = index.facts().format;
    result.samples = index.facts().total_samples;
    result.bytes = index.facts().total_bytes;
    result.mean_sample_bytes = result.samples > 0 ? static_cast<double>(result.bytes) / static_cast<double>(result.samples) : 0;
    result.digest = index.facts().digest;
    result.sizes_sampled = index.facts().sizes_sampled;
    result.labels = index.labels().size();
    result.skipped = index.facts().skipped_count;
    result.files = index.file_count();
    if (facts.array) result.array = DatasetCommandResult::Array{facts.array->dtype, facts.array->shape};
    result.findings = facts.findings;
    if (facts.skipped_count > 0)
      result.findings.push_back(
          {"files-skipped", Finding::Severity::info,
           fmt::format("Left out, as they are no samples: {} {}{} ({}).", count(facts.skipped_count), facts.format == "tar" ? "member" : "file",
                       facts.skipped_count == 1 ? "" : "s", fmt::join(facts.skipped, ", "))});
    return result;
  }

  static std::string describe_text(const DatasetCommandResult& result) {
    std::string text = fmt::format("{}: {}\n", result.path, result.format);
    text += fmt::format("  samples  {}\n", count(result.samples));
    text += fmt::format("  bytes    {}{}, {} a sample\n", format_bytes(result.bytes),
                        result.sizes_sampled ? " (estimated: only a random part of the files was asked for its size)" : "",
                        format_bytes(static_cast<Bytes>(std::llround(result.mean_sample_bytes))));
    if (result.files && result.format != "folder") text += fmt::format("  files    {}\n", count(*result.files));
    if (result.array)
      text += fmt::format("  array    {} of {} a sample\n",
                          result.array->shape.empty() ? "one number" : fmt::format("{}", fmt::join(result.array->shape, " x ")), result.array->dtype);
    if (result.labels) text += fmt::format("  labels   {}\n", count(*result.labels));
    if (!result.digest.empty()) text += fmt::format("  digest   {} (names, sizes and labels)\n", result.digest);
    if (result.content_sample_digest) text += fmt::format("  sampled  {} (a sample of the contents)\n", *result.content_sample_digest);
    if (result.index_file) text += fmt::format("  index    {}\n", *result.index_file);
    for (const Finding& finding : result.findings) {
      if (finding.severity == Finding::Severity::info) text += fmt::format("note: {}\n", finding.message);  // warnings were shown at once
    }
    return text;
  }

  Outcome make(const CommandContext& context) {
    MakeOptions options;
    context.typed.put(options);
    options.seed = context.options.seed;
    options.threads = threads();
    const MakeReport report = make_dataset(m_folder, options, context.events, context.stop);

    DatasetCommandResult result;
    result.tool = this_tool();
    result.command = "make";
    result.path = m_folder;
    result.format = "folder";
    result.samples = report.samples;
    result.bytes = report.bytes;
    result.mean_sample_bytes = report.mean_bytes;
    result.already_there = report.already_there;
    result.seconds = report.seconds;
    const std::string text =
        fmt::format("{}: {} samples, {}, {} a sample{}, in {}\nnext: dsanalyze dataset info {}\n", m_folder, count(report.samples),
                    format_bytes(report.bytes), format_bytes(static_cast<Bytes>(std::llround(report.mean_bytes))),
                    report.already_there > 0 ? fmt::format(" ({} were there already)", count(report.already_there)) : "",
                    format_seconds(report.seconds), m_folder);
    return {to_json(result), text};
  }

  Outcome index(const CommandContext& context) {
    // The index is made anew: an older one at its place is not to be believed.
    OpenOptions options = open_options(context, no_stat_budget_seconds);
    options.index_file.reset();
    const std::filesystem::path kept = default_index_file(m_folder, m_keys);
    const std::filesystem::path file = m_index.empty() ? kept : std::filesystem::path(m_index);
    std::error_code ignored;
    std::filesystem::remove(kept, ignored);
    const auto dataset = open_dataset(m_folder, options, context.events, context.stop);
    if (file.has_parent_path()) std::filesystem::create_directories(file.parent_path(), ignored);
    write_index_file(*dataset, file);
    DatasetCommandResult result = describe("index", *dataset);
    result.index_file = file.string();
    return {to_json(result), describe_text(result)};
  }

  Outcome info(const CommandContext& context) {
    const auto dataset = open_dataset(m_folder, open_options(context, OpenOptions{}.stat_budget_seconds), context.events, context.stop);
    DatasetCommandResult result = describe("info", *dataset);
    if (!m_index.empty()) result.index_file = m_index;
    add_contents(*dataset, context, result);
    return {to_json(result), describe_text(result)};
  }

  /// What cannot be read is verify's to tell.
  static void add_contents(const DatasetIndex& index, const CommandContext& context, DatasetCommandResult& result) {
    try {
      if (const auto contents = sample_contents(index, context.options.seed, context.stop)) result.content_sample_digest = contents->digest;
    } catch (const Interrupted&) {
      throw;
    } catch (const Error& error) {
      result.findings.push_back({"contents-not-read", Finding::Severity::info, error.what()});
    }
  }

  Outcome verify(const CommandContext& context) {
    const auto dataset = open_dataset(m_folder, open_options(context, no_stat_budget_seconds), context.events, context.stop);
    const VerifyReport report = verify_dataset(*dataset, threads(), context.events, context.stop);
    DatasetCommandResult result = describe("verify", *dataset);
    result.content_digest = report.content_digest;
    add_contents(*dataset, context, result);
    result.failed = report.failed;
    result.seconds = report.seconds;
    for (const auto& failure : report.failures) result.failures.push_back({failure.path, failure.cause});

    add_patched(report, context, result);
    result.damaged_files = report.damaged_files.size();
    for (const auto& damaged : report.damaged_files) result.failures.push_back({damaged.path, damaged.cause});

    std::string text = describe_text(result) + fmt::format("  content  {}\n", report.content_digest);
    if (report.failed == 0 && report.damaged_files.empty()) {
      text += fmt::format("all {} samples {} ({})\n", count(report.samples), result.array ? "are whole" : "decode", format_seconds(report.seconds));
      return {to_json(result), text + patched_text(report)};
    }
    if (report.failed > 0) text += fmt::format("{} of {} samples cannot be used:\n", count(report.failed), count(report.samples));
    text += failures_text(report.failures, report.failed);
    if (!report.damaged_files.empty()) text += fmt::format("{} of {} files are damaged:\n", count(report.damaged_files.size()), count(*result.files));
    text += failures_text(report.damaged_files, report.damaged_files.size());
    return {to_json(result), text + patched_text(report), exit_failed};
  }

  static void add_patched(const VerifyReport& report, const CommandContext& context, DatasetCommandResult& result) {
    result.patched = report.patched;
    for (const auto& patch : report.patches) result.patched_samples.push_back({patch.path, patch.cause});
    if (report.patched == 0) return;
    result.findings.push_back(
        {"samples-patched", Finding::Severity::warning,
         fmt::format("libjpeg patched damaged image data in {} of {} samples: they decode, here as in Pillow, but some of their pixels are not those "
                     "that were encoded. Training runs with them; restore these files from their source, or leave them out.",
                     count(report.patched), count(report.samples))});
    context.events.finding(result.findings.back());
  }

  static std::string patched_text(const VerifyReport& report) {
    if (report.patched == 0) return {};
    return fmt::format("{} of {} samples decode only because libjpeg patched damaged data:\n", count(report.patched), count(report.samples)) +
           failures_text(report.patches, report.patched);
  }

  /// A line for each of the first ten.
  template <typename Failures>
  static std::string failures_text(const Failures& failures, std::uint64_t all) {
    constexpr std::size_t named = 10;
    std::string text;
    for (std::size_t at = 0; at < std::min(failures.size(), named); ++at) text += fmt::format("  {}: {}\n", failures[at].path, failures[at].cause);
    if (all > named) text += fmt::format("  and {} more\n", count(all - named));
    return text;
  }

  static ConvertOptions convert_options(const CommandContext& context) {
    const TypedOptions& typed = context.typed;
    if (!typed.given("DEST")) throw UsageError("the destination is missing: dsanalyze dataset convert SOURCE DEST --to folder|tar|npy");
    if (!typed.given("--to"))
      throw UsageError("--to is missing: one of folder, tar, npy, for example: dsanalyze dataset convert SOURCE DEST --to tar");
    ConvertOptions options;
    const std::string& format = typed.text("--to");
    options.format = format == "folder" ? ConvertFormat::folder : format == "tar" ? ConvertFormat::tar : ConvertFormat::npy;
    const auto only_for = [&](std::string_view option, std::string_view wanted) {
      if (typed.given(option) && format != wanted) throw UsageError(fmt::format("{} is for --to {} only", option, wanted));
    };
    only_for("--shard-size", "tar");
    only_for("--side", "npy");
    if (typed.given("--order")) {
      if (format == "folder") throw UsageError("--order is for --to tar and --to npy only: a folder's files have their names' order");
      options.order = typed.text("--order") == "index" ? ConvertOrder::index : ConvertOrder::random;
    }
    typed.put(options);
    options.bad = typed.given("--skip-bad") ? BadSamples::skip : BadSamples::fail;
    options.seed = context.options.seed;
    options.threads = threads();
    return options;
  }

  Outcome convert(const CommandContext& context) {
    const ConvertOptions options = convert_options(context);
    const std::string& destination = context.typed.text("DEST");
    const auto dataset = open_dataset(m_folder, open_options(context, no_stat_budget_seconds), context.events, context.stop);
    const ConvertReport report = convert_dataset(*dataset, destination, options, context.events, context.stop);
    DatasetCommandResult result = describe("convert", *dataset);
    result.destination = destination;
    result.to = context.typed.text("--to");
    result.samples = report.samples;
    result.bytes = report.bytes;
    result.mean_sample_bytes = static_cast<double>(report.bytes) / static_cast<double>(report.samples);
    result.files = report.files;
    result.failed = report.failed;
    for (const auto& failure : report.failures) result.failures.push_back({failure.path, failure.cause});
    result.seconds = report.seconds;
    std::string text = fmt::format("{}: {} samples, {}, in {} file{} ({})\n", destination, count(report.samples), format_bytes(report.bytes),
                                   count(report.files), report.files == 1 ? "" : "s", format_seconds(report.seconds));
    if (report.failed > 0) text += fmt::format("{} samples were left out:\n", count(report.failed)) + failures_text(report.failures, report.failed);
    return {to_json(result), text + fmt::format("next: dsanalyze dataset info {}\n", destination)};
  }

  std::string m_folder;
  std::string m_index;
  SampleKeys m_keys;
};

}  // namespace

std::unique_ptr<Command> make_dataset_command() { return std::make_unique<DatasetCommand>(); }

}  // namespace dsanalyze::cli
