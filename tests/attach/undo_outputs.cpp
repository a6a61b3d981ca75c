/// undo_outputs FOLDER: what the launcher does at a run's end, for tests of the hook.
#include "attach/outputs.hpp"

#include <cstdio>

int main(int count, char** words) {
  if (count != 2) return 2;
  const dsanalyze::OutputsUndone undone = dsanalyze::undo_outputs(words[1]);
  for (const std::string& failure : undone.failures) std::fprintf(stderr, "%s\n", failure.c_str());
  std::printf("%zu %zu\n", undone.removed, undone.restored);
  return undone.failures.empty() ? 0 : 1;
}
