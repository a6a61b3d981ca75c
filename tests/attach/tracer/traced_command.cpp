// Runs a command under the tracer, and prints what it read as JSON: traced_command LIBRARY FOLDER COMMAND...
// The environment variable TRACED_PAUSE, in seconds, keeps the launcher from taking anything for so long after the start.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "attach/reads/access_tracer.hpp"
#include "base/process/process_tree.hpp"
#include "base/process/spawn.hpp"
#include "base/text/enum_names.hpp"

using namespace dsanalyze;

namespace {

nlohmann::ordered_json json_of(const AccessTrace& trace) {
  nlohmann::ordered_json json;
  json["file_bytes"] = trace.file_bytes;
  json["other_bytes"] = trace.other_bytes;
  json["network_bytes"] = trace.network_bytes;
  json["lost_accesses"] = trace.lost_accesses;
  json["lost_bytes"] = trace.lost_bytes;
  json["left_out"] = trace.left_out;
  json["processes"] = nlohmann::ordered_json::array();
  for (const TracedProcess& process : trace.processes) json["processes"].push_back({{"pid", process.pid}, {"command", process.command}});
  json["untraced"] = nlohmann::ordered_json::array();
  for (const TracedProcess& process : trace.untraced) json["untraced"].push_back({{"pid", process.pid}, {"command", process.command}});
  json["files"] = nlohmann::ordered_json::object();
  for (const TracedFile& file : trace.files) json["files"][file.path]["size"] = file.bytes;
  json["accesses"] = nlohmann::ordered_json::array();
  for (const FileAccess& access : trace.accesses)
    json["accesses"].push_back({{"path", trace.files[access.file].path},
                                {"pid", trace.processes[access.process].pid},
                                {"kind", enum_name(access.kind)},
                                {"opening", access.opening},
                                {"offset", access.offset},
                                {"bytes", access.bytes}});
  return json;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const Clock& clock = *system_timing().clock;
  adopt_orphans();
  AccessTracer tracer(argv[1], argv[2], clock);
  const ProcessTree tree(::getpid());
  const std::vector<std::string> command(argv + 3, argv + argc);
  const pid_t process =
      spawn_command(command, tracer.environment(), {SpawnWay::Input::nothing, SpawnWay::Output::to_stderr, SpawnWay::Group::callers});
  if (const char* const pause = std::getenv("TRACED_PAUSE")) std::this_thread::sleep_for(std::chrono::duration<double>(std::atof(pause)));
  Nanoseconds next_look = 0;
  std::optional<int> status;
  while (!status) {
    tracer.serve();
    if (clock.now() >= next_look) {
      tracer.look(tree);
      next_look = clock.now() + nanoseconds_per_second / 10;
    }
    status = collect_children(process);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  end_descendants(2);
  fmt::print("{}\n", json_of(tracer.take()).dump());
  return WIFSIGNALED(*status) ? 128 + WTERMSIG(*status) : WEXITSTATUS(*status);
}
