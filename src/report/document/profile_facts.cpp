#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text/text.hpp"
#include "profile_document.hpp"
#include "profile_text.hpp"

namespace dsanalyze::report {
namespace {

/// Names and values, a column a profile; of several, those that differ come first and are marked.
class Facts {
 public:
  Facts(std::string caption, ProfileViews views) : m_views(views), m_table{std::move(caption), {{"what", Align::left}}} {
    for (const ProfileView& view : views) m_table.columns.push_back({views.size() > 1 ? view.label : "value", Align::left});
  }
  void add(const std::string& name, std::vector<std::string> values) {
    const bool differs = std::ranges::any_of(values, [&](const std::string& value) { return value != values.front(); });
    std::vector<Cell> row{{name}};
    for (std::string& value : values) row.push_back({std::move(value), differs ? Cell::Look::differs : Cell::Look::plain});
    m_table.rows.insert(differs ? m_table.rows.begin() + static_cast<std::ptrdiff_t>(m_differing++) : m_table.rows.end(), std::move(row));
  }
  template <typename Value>
  void add_each(const std::string& name, const Value& value_of) {
    std::vector<std::string> values;
    for (const ProfileView& view : m_views) values.push_back(value_of(*view.profile));
    add(name, std::move(values));
  }
  [[nodiscard]] std::size_t differing() const { return m_differing; }
  [[nodiscard]] Table table() && { return std::move(m_table); }

 private:
  ProfileViews m_views;
  Table m_table;
  std::size_t m_differing = 0;
};

std::string amount_text(const nlohmann::ordered_json& amount) {
  if (amount.contains("pinned"))
    return fmt::format("{} from {} memory in {}", format_bytes(amount["bytes"].get<Bytes>()), amount["pinned"].get<bool>() ? "pinned" : "pageable",
                       format_seconds(amount["seconds"].get<double>()));
  if (amount.contains("fraction")) return format_share(amount["fraction"].get<double>()) + " of the dataset";
  return format_bytes(amount.value("bytes", Bytes{0}));
}

/// A setting's value as a person reads it; its unit is the last part of its name.
std::string setting_text(const std::string& name, const nlohmann::ordered_json& value) {
  if (value.is_null()) return "not given";
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_object()) return amount_text(value);
  if (value.is_array()) {
    std::vector<std::string> items;
    items.reserve(value.size());
    for (const auto& item : value) items.push_back(item.is_string() ? item.get<std::string>() : item.dump());
    return fmt::format("{}", fmt::join(items, ", "));
  }
  if (value.is_string()) return value.get<std::string>().empty() ? "not given" : value.get<std::string>();
  if (name == "seed") return value.dump();
  const double number = value.get<double>();
  if (name.ends_with("_bytes_per_s")) return number > 0 ? format_bytes_per_second(number) : "none";
  if (name.ends_with("_seconds")) return format_seconds(number);
  if (name.ends_with("_fraction")) return format_share(number);
  if (name.ends_with("_samples_per_s") || name.ends_with("_per_core")) return format_number(number) + " samples/s";
  return format_number(number);
}

std::string name_text(std::string name) {
  for (const std::string unit : {"_bytes_per_s", "_seconds", "_fraction", "_samples_per_s", "_samples_per_s_per_core"})
    if (name.ends_with(unit) && name.size() > unit.size()) name.resize(name.size() - unit.size());
  std::ranges::replace(name, '_', ' ');
  return name;
}

std::string or_not_known(const std::string& text) { return text.empty() ? "not known" : text; }

std::string cores_text(const HostRecord& host) {
  std::string text = fmt::format("{} usable of {} online", format_number(host.cores), host.cores_online);
  if (host.cores_physical > 0) text += fmt::format(", on {} physical", host.cores_physical);
  return text;
}

std::string control_text(const HostRecord& host) { return host.cgroup_version > 0 ? fmt::format("version {}", host.cgroup_version) : "none"; }

std::string windows_text(const RateRecord& rate) {
  return rate.void_windows > 0 ? fmt::format("{} and {} void", rate.windows, rate.void_windows) : fmt::format("{}", rate.windows);
}

/// What orders a setting's values: their number, if they have one.
std::optional<double> number_of(const nlohmann::ordered_json& value) {
  if (value.is_number()) return value.get<double>();
  if (value.is_object() && value.contains("fraction")) return value["fraction"].get<double>();
  if (value.is_object() && value.contains("bytes")) return value["bytes"].get<double>();
  return std::nullopt;
}

std::vector<Setting> settings_of(const ProfileResult& result) {
  std::vector<Setting> settings;
  const auto record = nlohmann::ordered_json::parse(to_json(result));
  for (const auto& item : record["settings"].items())
    settings.push_back({item.key(), name_text(item.key()), setting_text(item.key(), item.value()), number_of(item.value())});
  return settings;
}

}  // namespace

std::vector<std::vector<Setting>> settings_of_all(ProfileViews views) {
  std::vector<std::vector<Setting>> own;
  std::vector<Setting> any;  // of each the first that there is, behind the one that it follows in its result
  for (const ProfileView& view : views) {
    auto behind = any.begin();
    for (const Setting& setting : own.emplace_back(settings_of(*view.profile))) {
      auto at = std::ranges::find(any, setting.key, &Setting::key);
      if (at == any.end()) at = any.insert(behind, setting);
      behind = at + 1;
    }
  }
  std::vector<std::vector<Setting>> aligned;
  for (const std::vector<Setting>& settings : own) {
    std::vector<Setting>& all = aligned.emplace_back();
    for (const Setting& each : any) {
      const auto found = std::ranges::find(settings, each.key, &Setting::key);
      all.push_back(found == settings.end() ? Setting{each.key, each.name, "not given", std::nullopt} : *found);
    }
  }
  return aligned;
}

namespace {

/// Of a launched training its loader says all; the settings are those of a loader that did not run.
Section launched_section(ProfileViews views) {
  Section section{"settings", "Settings"};
  Facts facts("the training and its loader", views);
  const auto record = nlohmann::ordered_json::parse(to_json(*views.front().profile));
  std::vector<std::string> words;
  words.reserve(views.front().profile->command.size());
  for (const std::string& word : views.front().profile->command) words.push_back(shell_word(word));
  facts.add("command", {fmt::format("{}", fmt::join(words, " "))});
  for (const auto& item : record["loader"].items())
    facts.add(name_text(item.key()),
              {item.key() == "samples_per_step" ? batch_text(*views.front().profile) : setting_text(item.key(), item.value())});
  section.blocks.emplace_back(Figure{"", "", {}, std::move(facts).table(), Folding::open});
  return section;
}

}  // namespace

Section settings_section(ProfileViews views) {
  if (views.size() == 1 && views.front().profile->loader) return launched_section(views);
  Section section{"settings", "Settings"};
  Facts facts("every setting of the profile", views);
  const std::vector<std::vector<Setting>> settings = settings_of_all(views);
  for (std::size_t at = 0; at < settings.front().size(); ++at) {
    std::vector<std::string> values;
    values.reserve(settings.size());
    for (const auto& each : settings) values.push_back(each[at].text);
    facts.add(settings.front()[at].name, std::move(values));
  }
  if (views.size() == 1) section.blocks.emplace_back(Paragraph{setup_text(*views.front().profile) + "."});
  if (views.size() > 1)
    section.blocks.emplace_back(
        Paragraph{facts.differing() == 0 ? "All are the same." : fmt::format("{} differ; they come first.", facts.differing())});
  for (const ProfileView& view : views)
    if (view.profile->order && view.profile->order->kind != "random")
      section.blocks.emplace_back(Paragraph{(views.size() > 1 ? view.label + ": order " : "Order: ") + order_text(*view.profile->order) + "."});
  section.blocks.emplace_back(Figure{"", "", {}, std::move(facts).table(), Folding::open});
  return section;
}

Section host_section(ProfileViews views) {
  Section section{"host", "Machine and dataset"};
  using Result = const ProfileResult&;
  Facts host("the machine", views);
  host.add_each("processor", [](Result result) { return or_not_known(result.host.cpu_model); });
  host.add_each("cores", [](Result result) { return cores_text(result.host); });
  host.add_each("memory", [](Result result) {
    return fmt::format("{} usable of {}", format_bytes(result.host.memory_bytes), format_bytes(result.host.memory_total_bytes));
  });
  host.add_each("kernel", [](Result result) { return or_not_known(result.host.kernel); });
  host.add_each("cgroups", [](Result result) { return control_text(result.host); });
  host.add_each("storage", [](Result result) { return or_not_known(result.host.storage_device); });
  host.add_each("filesystem", [](Result result) { return or_not_known(result.host.storage_filesystem); });
  host.add_each("what proves the bytes read", [](Result result) { return or_not_known(result.host.storage_meter); });
  host.add_each("accelerators", [](Result result) { return or_not_known(result.host.accelerator); });
  host.add_each("measured", [](Result result) { return or_not_known(result.started_utc); });
  host.add_each("dsanalyze", [](Result result) { return result.tool.version + (result.tool.commit.empty() ? "" : " (" + result.tool.commit + ")"); });
  section.blocks.emplace_back(Figure{"", "", {}, std::move(host).table()});

  Facts dataset("the dataset", views);
  dataset.add_each("dataset", [](Result result) { return dataset_text(result.dataset); });
  dataset.add_each("format", [](Result result) { return or_not_known(result.dataset.format); });
  dataset.add_each("mean sample", [](Result result) {
    return or_not_known(result.dataset.mean_sample_bytes > 0 ? format_bytes(static_cast<Bytes>(result.dataset.mean_sample_bytes)) : "");
  });
  dataset.add_each("digest of names, sizes and labels", [](Result result) { return or_not_known(result.dataset.digest); });
  dataset.add_each("digest of a sample of contents", [](Result result) { return or_not_known(result.dataset.content_sample_digest.value_or("")); });
  section.blocks.emplace_back(Figure{"", "", {}, std::move(dataset).table()});
  return section;
}

Section methods_section(ProfileViews views) {
  Section section{"methods", "How each number was measured"};
  const bool several = views.size() > 1;
  Table table{"what each rate rests on", {{"rate", Align::left}, {"how it was measured", Align::left}, {"windows"}}};
  if (several) table.columns.insert(table.columns.begin(), Column{"result", Align::left});
  for (const ProfileView& view : views)
    for (const NamedRate& named : named_rates()) {
      const auto& rate = view.profile->*named.rate;
      if (!rate) continue;
      std::vector<std::string> cells{fmt::format("{} [{}]", named.words, named.letter), or_not_known(rate->method), windows_text(*rate)};
      if (several) cells.insert(cells.begin(), view.label);
      table.add(cells);
    }
  // NOLINTBEGIN(bugprone-suspicious-missing-comma): sentences over several lines
  section.blocks.emplace_back(List{
      {"F = 1 / (x/C + (1 − x)/S) with a share x of the dataset in the cache [DS-Analyzer, Eq 4]. The bottleneck is the lowest of F, P and G.",
       "A rate is the mean of time windows; its 95 % interval follows from how much they differ within this run; another run may differ by "
       "more. Windows in which other processes took more than 2 % "
       "of the "
       "CPU are void and count only where there are no others.",
       "Compute is the time that the accelerators need with data always there (run synthetic); the prep stall is what the run cached takes longer "
       "than that, "
       "the fetch stall what the run full takes longer than cached [DS-Analyzer, section 3.2].",
       "What storage delivered is counted by the kernel, not by the loader: cached must have read nothing, fetch must not have read from memory. "
       "Where that is not proved, the result is not trusted.",
       "Curves over cache, cores and accelerator speed are predictions by these equations from the measured rates, not measurements."}});
  // NOLINTEND(bugprone-suspicious-missing-comma)
  if (!table.rows.empty()) section.blocks.emplace_back(Figure{"", "", {}, std::move(table)});
  return section;
}

}  // namespace dsanalyze::report
