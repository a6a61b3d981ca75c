#include "cli/help/help.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "cli/options/typed_options.hpp"
#include "loaders/dataset/tools/dataset_make.hpp"

using namespace dsanalyze::cli;

namespace {

std::vector<std::string> offered(const std::vector<std::string>& words) {
  std::vector<std::string> found;
  for (const Completion::Candidate& candidate : complete(words).candidates) found.push_back(candidate.word);
  return found;
}

bool offers(const std::vector<std::string>& words, const std::string& word) {
  const auto found = offered(words);
  return std::ranges::find(found, word) != found.end();
}

using Words = std::vector<std::string>;

}  // namespace

TEST_CASE("commands are completed, with what they are for") {
  CHECK(offered({"pro"}) == Words{"profile"});
  CHECK_FALSE(complete({"pro"}).candidates.front().text.empty());
  for (const CommandEntry& entry : commands()) CHECK(offers({""}, std::string(entry.name)));
  CHECK(offered({"--json", "pro"}) == Words{"profile"});
  CHECK(offered({"--seed", "3", "pro"}) == Words{"profile"});
  CHECK(offered({"help", "what"}) == Words{"whatif"});
}

TEST_CASE("options are completed with what the help page says of them, and those that were given are not offered again") {
  const auto found = complete({"profile", "--cache-s"}).candidates;
  REQUIRE(found.size() == 1);
  CHECK(found.front().word == "--cache-size");
  CHECK(found.front().text.find("35%") != std::string::npos);
  CHECK(offers({"profile", "--cache", "lru", "--c"}, "--cores"));
  CHECK_FALSE(offers({"profile", "--cache", "lru", "--c"}, "--cache"));
  CHECK(offers({"profile", "--j"}, "--json"));
}

TEST_CASE("values are completed: words, names of configurations, parts of lists, behind a space and behind an equals sign") {
  CHECK(offered({"profile", "--step", ""}) == Words{"lockstep", "independent"});
  CHECK(offered({"profile", "--step=l"}) == Words{"--step=lockstep"});
  CHECK(offered({"profile", "--storage", "em"}) == Words{"emulated:"});
  CHECK(offers({"profile", "--storage", "emulated:"}, "emulated:ssd"));
  CHECK(offers({"profile", "--workload", "res"}, "resnet18"));
  CHECK(offered({"whatif", "--find", "cache,c"}) == Words{"cache,cores"});
  CHECK(offered({"--color", "a"}) == Words{"auto", "always"});
}

TEST_CASE("actions come before what belongs to them") {
  CHECK(offers({"dataset", ""}, "make"));
  CHECK(offers({"dataset", "make", "data", "--p"}, "--preset"));
  CHECK_FALSE(offers({"dataset", "info", "data", "--p"}, "--preset"));
  CHECK(complete({"dataset", "make", ""}).paths == Completion::Paths::files);
}

TEST_CASE("files are left to the shell where a file is what is asked for") {
  CHECK(complete({"profile", "--index", ""}).paths == Completion::Paths::files);
  CHECK(complete({"list", ""}).paths == Completion::Paths::none);
  CHECK(complete({"profile", "data", "-o", ""}).paths == Completion::Paths::files);
  CHECK(completion_lines(complete({"profile", "--index", ""})) == ":files\n");
}

TEST_CASE("where nothing is known nothing is offered") {
  CHECK(complete({}).candidates.empty());
  CHECK(offered({"nonsense", ""}).empty());
  CHECK(offered({"profile", "--nonsense="}).empty());
  CHECK(offered({"profile", "--seed", ""}).empty());
  CHECK(offered({"\x1b[2J", "--"}).empty());
}

TEST_CASE("every choice that completion offers is one that the parser takes") {
  for (const Option* option : every_option()) {
    if (!option->closed || option->is_argument()) continue;
    const std::string name = names_of_option(*option).back();
    for (const CommandEntry& entry : commands()) {
      const Option::Place* const place = place_of(*option, entry.name);
      if (place == nullptr) continue;
      Words typed;
      if (!place->actions.empty()) typed.push_back(words_of(place->actions).front());
      typed.push_back(name);
      Words before_cursor = typed;
      before_cursor.insert(before_cursor.begin(), std::string(entry.name));
      before_cursor.emplace_back();
      const Words words = offered(before_cursor);
      CHECK_MESSAGE(words == words_of(option->words), entry.name, " ", name);
      for (const std::string& word : words) {
        typed.push_back(word);
        CHECK(TypedOptions(entry, typed).text(name) == word);
        typed.pop_back();
      }
      typed.emplace_back("nonsense");
      CHECK_THROWS_AS(TypedOptions(entry, typed), dsanalyze::UsageError);
    }
  }
}

TEST_CASE("dataset make has the presets that its table names") {
  const std::vector<const Option*> options = every_option();
  const auto preset =
      std::ranges::find_if(options, [](const Option* option) { return has_name(*option, "--preset") && place_of(*option, "dataset") != nullptr; });
  REQUIRE(preset != options.end());
  CHECK(words_of((*preset)->words) == dsanalyze::make_presets());
}

TEST_CASE("each shell has a script that asks the program") {
  for (const char* shell : {"bash", "fish", "zsh"}) CHECK(completion_script(shell).find("__complete") != std::string::npos);
  CHECK_THROWS(completion_script("tcsh"));
}
