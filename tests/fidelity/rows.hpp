#pragma once

#include <string>

namespace dsanalyze::fidelity {

/// What the difference between the paper's number and ours may be.
struct Allowed {
  enum class Kind {
    share,     ///< of the paper's number
    distance,  ///< in the row's unit
    range,     ///< ours lies between the two
    reported,  ///< nothing is demanded: a parameter was fitted on it, or it is not reached, as the row says
  };
  Kind kind = Kind::reported;
  double low = 0;
  double high = 0;
};
Allowed within_share(double share);
Allowed within(double distance);
Allowed between(double low, double high);
Allowed reported();

/// Of both numbers of a row. A share is written in %.
struct Unit {
  enum class Kind { plain, share };
  std::string name;
  int digits = 0;
  Kind kind = Kind::plain;
};
Unit percent(int digits = 1);

/// One line of docs/measured/fidelity.md: checks ours against the paper's (NaN: the paper prints none), and appends the line to the file that the
/// environment variable DSANALYZE_FIDELITY_ROWS names, if any, from which tests/fidelity/page.py makes the page. `table` is the page's table that the
/// line belongs to, `how` says what was assumed, and what was fitted on which number.
void check(const std::string& table, const std::string& reference, const std::string& what, double paper, double ours, const Unit& unit,
           const Allowed& allowed, const std::string& how);

}  // namespace dsanalyze::fidelity
