#include "process_groups.hpp"

#include <csignal>
#include <mutex>
#include <vector>

namespace dsanalyze {
namespace {

struct Groups {
  std::mutex mutex;
  std::vector<int> leaders;
};

Groups& groups() {
  static Groups all;
  return all;
}

}  // namespace

StartedGroup::StartedGroup(int leader) : m_leader(leader) {
  const std::lock_guard lock(groups().mutex);
  groups().leaders.push_back(leader);
}

StartedGroup::~StartedGroup() {
  const std::lock_guard lock(groups().mutex);
  std::erase(groups().leaders, m_leader);
}

void kill_started_groups() {
  const std::lock_guard lock(groups().mutex);
  for (const int leader : groups().leaders) ::kill(-leader, SIGKILL);
}

}  // namespace dsanalyze
