#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace dsanalyze::cli {

/// Whether all ranks of a job must be given the same value of an option.
enum class AmongRanks {
  same,  ///< it says what the job is, or how it is measured
  own    ///< it says what this server or this process is: ranks may differ
};

/// What a setting of 0 says of an option that has that one setting.
enum class ZeroMeans {
  zero,    ///< it was given, or is the default
  nothing  ///< the option was not given
};

/// A copy that `change` has changed.
template <typename Row, typename Change>
constexpr Row changed(Row row, const Change& change) {
  change(row);
  return row;
}

/// Its address stands for the type.
template <typename Record>
inline constexpr char record_mark = 0;

/// One option, or one argument that is told by its place. It is declared once, as a row of a table (profile_table.cpp and its neighbours); the
/// parser, the help and manual pages, the completion and what ranks must have alike follow from that row.
///
/// A text is what the help page says. In it {default} and {most} stand for the default and the largest value, a line break is kept, and a choice in
/// brackets ("[lockstep] or [independent]") is marked where it is the default.
struct Option {
  /// Where a command has it.
  struct Place {
    std::string_view command;  ///< empty: every command
    std::string_view group;    ///< of the help page, which shows it there: <!-- options: GROUP COLUMN -->; empty: the page's prose speaks of it
    std::string_view text;     ///< empty: the option's
    std::string_view actions;  ///< "index|info": of the command, those that have it; empty: the command itself
  };
  static constexpr std::size_t most_places = 3;

  std::string_view names;  ///< "--cache", "-o, --output", "DATASET"
  std::string_view value;  ///< "KIND", as help shows it; empty: a flag; of an argument: what errors call it
  std::string_view text;
  std::string_view words;  ///< what may follow, see value_form()
  bool closed = false;     ///< nothing but these words may follow
  bool list = false;       ///< several values, with commas between
  bool repeated = false;   ///< may be given several times
  std::array<Place, most_places> places{};
  std::size_t place_count = 0;

  const char* record = nullptr;  ///< the mark of the struct that `set` writes into
  void (*set)(void* record, const std::string& text) = nullptr;
  std::string (*initial)() = nullptr;  ///< the default, as one would type it
  std::int64_t most = 0;

  std::array<std::string_view, 4> settings{};  ///< of a result, which it decides; empty where it sets one of its own name (or none)
  AmongRanks ranks = AmongRanks::same;         ///< of options that decide settings; the others are a rank's own
  ZeroMeans zero = ZeroMeans::zero;

  [[nodiscard]] constexpr bool is_argument() const { return !names.starts_with('-'); }
  [[nodiscard]] constexpr bool takes_value() const { return !value.empty(); }

  /// A command, or some of its actions, have it.
  [[nodiscard]] constexpr Option on(std::string_view command, std::string_view group = {}, std::string_view said = {},
                                    std::string_view actions = {}) const {
    return changed(*this, [&](Option& row) { row.places.at(row.place_count++) = {command, group, said, actions}; });
  }
  /// Completed by these words; others may follow too.
  [[nodiscard]] constexpr Option offers(std::string_view known) const {
    return changed(*this, [&](Option& row) { row.words = known, row.closed = false; });
  }
  /// Followed by one of these words, or by a list of them.
  [[nodiscard]] constexpr Option one_of(std::string_view known) const {
    return changed(*this, [&](Option& row) { row.words = known, row.closed = true; });
  }
  [[nodiscard]] constexpr Option as_list() const {
    return changed(*this, [](Option& row) { row.list = true; });
  }
  [[nodiscard]] constexpr Option many_times() const {
    return changed(*this, [](Option& row) { row.repeated = true; });
  }
  /// The settings of a result that it decides, by their names there.
  template <typename... Names>
  [[nodiscard]] constexpr Option decides(const Names&... keys) const {
    return changed(*this, [&](Option& row) { row.settings = {keys...}; });
  }
  [[nodiscard]] constexpr Option ranks_own() const {
    return changed(*this, [](Option& row) { row.ranks = AmongRanks::own; });
  }
  [[nodiscard]] constexpr Option zero_is_nothing() const {
    return changed(*this, [](Option& row) { row.zero = ZeroMeans::nothing; });
  }
  /// It has the default of a struct's member, and something other than set() writes it. `Kind` is one of option_kinds.hpp.
  template <auto Member, typename Kind>
  [[nodiscard]] constexpr Option like() const;
  /// It is written into a struct's member (TypedOptions::put()).
  template <auto Member, typename Kind>
  [[nodiscard]] constexpr Option sets() const;
};

constexpr Option option(std::string_view names, std::string_view value, std::string_view text) {
  Option row;
  row.names = names;
  row.value = value;
  row.text = text;
  return row;
}
constexpr Option flag(std::string_view names, std::string_view text) { return option(names, {}, text); }
/// `called`: by errors.
constexpr Option argument(std::string_view name, std::string_view called, std::string_view text = {}) { return option(name, called, text); }

}  // namespace dsanalyze::cli
