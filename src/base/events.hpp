#pragma once

#include <array>
#include <string>

namespace dsanalyze {

/// Something that the user should know although the work goes on; it ends up in the result's findings.
struct Finding {
  enum class Severity { info, warning, error };
  std::string code;  ///< stable, kebab-case: "cached-run-read-storage"
  Severity severity = Severity::warning;
  std::string message;  ///< what happened, what it means for the result, what to do

  bool operator==(const Finding&) const = default;
};
constexpr std::array<const char*, 3> names_of(Finding::Severity /*type*/) { return {"info", "warning", "error"}; }

/// How far a piece of work is, and how fast. What is negative is not known; a sink may tell the time left from how the fraction grows.
struct Progress {
  std::string activity;
  double fraction = -1;  ///< in [0, 1]
  double eta_seconds = -1;
  double samples_per_s = -1;
  std::string detail{};  ///< of the activity, where there is room to show it
};

/// Where libraries, which never print, say what happens. Implementations must be callable from any thread.
class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void progress(const Progress& progress) = 0;  ///< may be called often; the sink thins it out
  virtual void note(const std::string& line) = 0;       ///< a line worth keeping in a log (a run ended: its provisional result)
  virtual void finding(const Finding& finding) = 0;     ///< shown at once as a warning
};

/// Drops everything.
inline EventSink& null_events() {
  class NullEvents final : public EventSink {
    void progress(const Progress& /*progress*/) override {}
    void note(const std::string& /*line*/) override {}
    void finding(const Finding& /*finding*/) override {}
  };
  static NullEvents sink;
  return sink;
}

}  // namespace dsanalyze
