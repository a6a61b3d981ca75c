#include "rank_options.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/host/host.hpp"
#include "base/text/text.hpp"
#include "cli/process/data_files.hpp"
#include "option_table.hpp"
#include "share/load_plan.hpp"

namespace dsanalyze::cli {
namespace {

constexpr std::string_view emulated_network = "emulated:";
constexpr std::uint64_t files_of_a_profile = 32;  ///< the cache's memory, the dataset's shards, what it writes
constexpr std::uint32_t most_io_threads = 2;
constexpr double min_peer_timeout = 0.1;
constexpr double max_peer_timeout = 600;

std::optional<std::uint32_t> number(const TypedOptions& typed, const char* option, std::int64_t least) {
  std::optional<std::uint32_t> value;
  typed.set(value, option, [least](const std::string& word) { return static_cast<std::uint32_t>(parse_integer(word, least, most_ranks)); });
  return value;
}

double parse_peer_timeout(const std::string& word) {
  double seconds = 0;
  try {
    seconds = parse_seconds(word);
  } catch (const UsageError&) {  // It lacks the range.
  }
  if (!(seconds >= min_peer_timeout && seconds <= max_peer_timeout))
    throw UsageError(fmt::format("found \"{}\", expected a time from {} to {}", printable(word), format_seconds(min_peer_timeout),
                                 format_seconds(max_peer_timeout)));
  return seconds;
}

/// Raises the limit of this process as far as it may. Throws UsageError where that is too low for so many ranks, before any of them is kept waiting.
void require_open_files(const RankFacts& facts, const ProfileSettings& settings) {
  const std::uint64_t own = count_open_files() + static_cast<std::uint64_t>(settings.fetch_concurrency) + files_of_a_profile;
  const std::uint64_t needed = rank_descriptors(facts) + own;
  const std::uint64_t wanted = needed + passing_descriptors;
  const std::uint64_t allowed = allow_open_files(wanted);
  if (allowed >= needed) return;
  throw UsageError(fmt::format(
      "rank {} of {} needs {} open files ({} for each other rank, and its own), and the hard limit allows this process {}; raise the limit "
      "before you start the rank: ulimit -n {} as root, or LimitNOFILE of the service that starts it",
      facts.rank, facts.world, needed, facts.connections_per_peer, allowed, wanted));
}

class MetRank final : public LaunchedRank {
 public:
  MetRank(std::unique_ptr<MpiModule> mpi, std::unique_ptr<Ranks> ranks) : m_mpi(std::move(mpi)), m_team(std::move(ranks)) {}
  RankTeam& team() override { return m_team; }
  void finish() override {
    if (m_mpi) m_mpi->finish();
  }

 private:
  std::unique_ptr<MpiModule> m_mpi;
  RankTeam m_team;
};

}  // namespace

void RankOptions::apply(ProfileSettings& settings) {
  m_launch = find_launch(number(m_typed, "--rank", 0), number(m_typed, "--world", 1), process_environment());
  settings.world = static_cast<int>(m_launch.world);
  m_typed.set(m_peer_timeout, "--peer-timeout", parse_peer_timeout);
  if (const std::string& network = m_typed.text("--network"); !network.empty() && network != "real") {
    if (!network.starts_with(emulated_network))
      throw UsageError(fmt::format("--network: found \"{}\", expected real, or emulated:40Gbit/s", printable(network)));
    settings.network = Seam::emulated;
    settings.network_bytes_per_s = parsed("--network", network.substr(emulated_network.size()), parse_bytes_per_second);
  }
  if (m_launch.world > 1 || settings.partition != PartitionMode::none) return;
  for (const char* option : {"--rendezvous", "--key-file", "--listen", "--peer-timeout"}) {
    if (m_typed.given(option))
      throw UsageError(fmt::format("{}: one rank has no other rank to meet; pass --rank and --world, or start it with mpirun or srun", option));
  }
}

std::unique_ptr<LaunchedRank> RankOptions::launch(const ProfileInputs& inputs, const std::stop_token& stop, Timing timing) const {
  const ProfileSettings& settings = inputs.settings;
  if (!runs_ranks(settings)) return nullptr;
  const std::string& listen = m_typed.text("--listen");
  const std::string& key_file = m_typed.text("--key-file");
  if (!listen.empty() && key_file.empty() && m_launch.launcher == Launcher::by_hand) {
    throw UsageError(
        "--listen: any process that reaches that address could try to take part; pass --key-file FILE, the same 32 bytes on every server "
        "(head -c 32 /dev/urandom > FILE; chmod 600 FILE)");
  }
  RankFacts facts;
  facts.rank = m_launch.rank;
  facts.world = m_launch.world;
  facts.io_threads = most_io_threads;
  require_open_files(facts, settings);
  facts.peer_deadline_seconds = m_peer_timeout;
  std::vector<AgreedValue> agreed = agreed_values(inputs);
  // A rank gives signs of life as often as its own timeout asks for.
  agreed.push_back({"--peer-timeout", fmt::format("{:.17g} s", facts.peer_deadline_seconds)});
  Listener listener(listen.empty() ? "127.0.0.1" : listening_host(listen));
  Meeting meeting{m_launch.rank, m_launch.world, listener.address(), agreed, {}};
  if (!key_file.empty()) meeting.key = read_key_file(key_file);
  std::unique_ptr<MpiModule> mpi;
  const auto meet_all = [&]() -> Roster {
    if (m_launch.world == 1) return {{listener.address()}, meeting.key ? *meeting.key : make_key()};
    if (m_typed.given("--rendezvous")) return meet(m_typed.text("--rendezvous"), meeting, timing, stop);
    const Environment environment = process_environment();
    if (m_launch.launcher == Launcher::by_hand) throw UsageError(how_to_meet(m_launch, environment));
    mpi = std::make_unique<MpiModule>(mpi_module_places(environment, own_program()));
    return mpi->meet(meeting, m_launch, environment);
  };
  const Roster roster = meet_all();
  complete_facts(facts, roster, agreed, !key_file.empty(), settings, *inputs.index);
  auto ranks = join_ranks(std::move(listener), facts, roster.addresses, timing, stop);
  return std::make_unique<MetRank>(std::move(mpi), std::move(ranks));
}

namespace {

std::string setting_text(const nlohmann::json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_array()) {
    std::string list;
    for (const nlohmann::json& item : value) list += (list.empty() ? "" : ",") + setting_text(item);
    return list;
  }
  if (value.is_object() && value.contains("fraction")) return format_share(value.at("fraction").get<double>());
  if (value.is_object() && value.contains("bytes")) return fmt::format("{} bytes", value.at("bytes").get<Bytes>());
  if (value.is_number_float()) return fmt::format("{}", value.get<double>());
  return value.is_null() ? "" : value.dump();
}

/// What the option says, in the words of a result; what it leaves open is left out.
std::string option_text(const Option& option, const nlohmann::json& settings) {
  const std::vector<std::string> decided = settings_of(option);
  std::string text;
  for (const std::string& name : decided) {
    if (!settings.contains(name)) continue;
    const nlohmann::json& setting = settings.at(name);
    const bool is_zero = setting.is_number() && setting.get<double>() == 0;
    // What comes after the first setting belongs to some of its values only: to "emulated" and not to "real".
    const bool says_nothing = is_zero && (name != decided.front() || option.zero == ZeroMeans::nothing);
    const std::string word = says_nothing ? "" : setting_text(setting);
    if (!word.empty()) text += (text.empty() ? "" : " ") + word;
  }
  return text.empty() ? "nothing" : text;
}

std::string sampled_contents_text(const std::optional<ContentSample>& contents) {
  if (!contents) return "nothing";
  if (contents->unreadable == 0) return contents->digest;
  return fmt::format("{} ({} of {} unreadable: {})", contents->digest, contents->unreadable, contents->samples, contents->first_unreadable);
}

}  // namespace

std::vector<AgreedValue> agreed_values(const ProfileInputs& inputs) {
  const auto settings = nlohmann::json::parse(to_json(inputs.settings));
  std::vector<AgreedValue> values;
  const std::vector<ActionEntry> profile = actions_of("profile");
  for (const Option* option : profile.front().options) {
    if (option->ranks == AmongRanks::same && !settings_of(*option).empty())
      values.push_back({std::string(option->names), agreed_line(option_text(*option, settings))});
  }
  values.push_back({"prep", agreed_line(prep_text(inputs))});
  values.push_back({"samples", std::to_string(inputs.index->size())});
  values.push_back({"index_digest", agreed_line(inputs.index->facts().digest)});
  values.push_back({"content_sample_digest", agreed_line(sampled_contents_text(inputs.contents))});
  return values;
}

}  // namespace dsanalyze::cli
