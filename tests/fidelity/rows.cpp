#include "rows.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <fstream>

namespace dsanalyze::fidelity {
namespace {

struct Row {
  double paper;
  double ours;
  Unit unit;
  Allowed allowed;
};

std::string number(double value, const Unit& unit) {
  if (std::isnan(value)) return "none";
  const double shown = unit.kind == Unit::Kind::share ? 100 * value : value;
  return fmt::format("{:.{}f}{}", shown, unit.digits, unit.name.empty() ? "" : " " + unit.name);
}

/// Differences of shares are points.
std::string distance(double value, const Unit& unit) {
  if (unit.kind == Unit::Kind::share) return fmt::format("{:.{}f} points", 100 * value, unit.digits);
  return number(value, unit);
}

bool fulfilled(const Row& row) {
  if (!std::isfinite(row.ours)) return false;
  switch (row.allowed.kind) {
    case Allowed::Kind::share:
      return std::abs(row.ours - row.paper) <= row.allowed.high * row.paper;
    case Allowed::Kind::distance:
      return std::abs(row.ours - row.paper) <= row.allowed.high;
    case Allowed::Kind::range:
      return row.ours >= row.allowed.low && row.ours <= row.allowed.high;
    case Allowed::Kind::reported:
      break;
  }
  return true;
}

std::string allowed_text(const Row& row) {
  switch (row.allowed.kind) {
    case Allowed::Kind::share:
      return fmt::format("±{:g} %", 100 * row.allowed.high);
    case Allowed::Kind::distance:
      return "±" + distance(row.allowed.high, row.unit);
    case Allowed::Kind::range:
      return fmt::format("{} to {}", number(row.allowed.low, {"", row.unit.digits, row.unit.kind}), number(row.allowed.high, row.unit));
    case Allowed::Kind::reported:
      break;
  }
  return "reported";
}

std::string difference_text(const Row& row) {
  if (std::isnan(row.paper)) return "-";
  const double difference = row.ours - row.paper;
  const bool by_share = row.unit.kind != Unit::Kind::share && row.allowed.kind != Allowed::Kind::distance && row.paper != 0;
  std::string amount = by_share ? fmt::format("{:.1f} %", std::abs(100 * difference / row.paper)) : distance(std::abs(difference), row.unit);
  if (amount.find_first_of("123456789") == std::string::npos) return amount;  // what rounds to nothing has no sign
  return (difference < 0 ? "-" : "+") + amount;
}

}  // namespace

Allowed within_share(double share) { return {Allowed::Kind::share, 0, share}; }
Allowed within(double distance) { return {Allowed::Kind::distance, 0, distance}; }
Allowed between(double low, double high) { return {Allowed::Kind::range, low, high}; }
Allowed reported() { return {}; }
Unit percent(int digits) { return {"%", digits, Unit::Kind::share}; }

void check(const std::string& table, const std::string& reference, const std::string& what, double paper, double ours, const Unit& unit,
           const Allowed& allowed, const std::string& how) {
  const Row row{paper, ours, unit, allowed};
  CHECK_MESSAGE(fulfilled(row), reference, ", ", what, ": paper ", number(row.paper, row.unit), ", ours ", number(row.ours, row.unit), ", allowed ",
                allowed_text(row));
  const char* const path = std::getenv("DSANALYZE_FIDELITY_ROWS");
  if (path == nullptr) return;
  std::ofstream(path, std::ios::app) << fmt::format("{}\t| {} | {} | {} | {} | {} | {} | {} |\n", table, reference, what, number(row.paper, row.unit),
                                                    number(row.ours, row.unit), difference_text(row), allowed_text(row), how);
}

}  // namespace dsanalyze::fidelity
