#include "events.hpp"

namespace dsanalyze {
namespace {

class NullEvents final : public EventSink {
 public:
  void progress(const Progress& /*progress*/) override {}
  void note(const std::string& /*line*/) override {}
  void finding(const Finding& /*finding*/) override {}
};

}  // namespace

EventSink& null_events() {
  static NullEvents sink;
  return sink;
}

}  // namespace dsanalyze
