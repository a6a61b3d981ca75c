#include "dsanalyze/core/result.hpp"

#include "version.hpp"

namespace dsanalyze {

ToolRecord this_tool() { return {"dsanalyze", tool_version, tool_commit}; }

const RunRecord* ProfileResult::run(const std::string& name) const {
  for (const RunRecord& each : runs) {
    if (each.name == name) return &each;
  }
  return nullptr;
}

}  // namespace dsanalyze
