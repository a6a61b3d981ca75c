#include "standstill.hpp"

#include <fmt/format.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <map>
#include <optional>
#include <sstream>
#include <thread>

#include "base/error.hpp"
#include "base/host/host.hpp"
#include "base/system/files.hpp"
#include "base/text/text.hpp"
#include "base/text/units.hpp"

namespace dsanalyze {
namespace {

constexpr double answer_seconds = 1;
constexpr Bytes most_dump_bytes = Bytes{1} << 20;
constexpr std::size_t most_processes_told = 16;

/// What the kernel says of a process's main thread.
struct KernelView {
  std::string call;  ///< "reading /data/x.jpg", "waiting for a lock or a thread", "computing"; empty where the kernel does not say
  bool computes = false;
  bool stopped = false;  ///< by a signal, or a debugger
};

bool is_librarys(std::string_view file) {
  constexpr std::array<std::string_view, 4> folders{"/site-packages/", "/dist-packages/", "/lib/python", "/dsanalyze/_attach/"};
  return file.starts_with('<') || std::ranges::any_of(folders, [&](std::string_view folder) { return file.find(folder) != std::string_view::npos; });
}

/// "train.py", but of a library "PIL/Image.py".
std::string short_name(const std::string& file) {
  for (const std::string_view folder : {"/site-packages/", "/dist-packages/"})
    if (const std::size_t at = file.find(folder); at != std::string::npos) return file.substr(at + folder.size());
  return file.substr(file.rfind('/') + 1);
}

std::string frame_text(const StackFrame& frame) {
  return fmt::format("{}:{} in {}", printable(short_name(frame.file)), frame.line, printable(frame.function));
}

bool is_within(const StackFrame& frame, std::string_view folder) { return frame.file.find(folder) != std::string::npos; }

constexpr std::string_view of_workers = "torch/utils/data/_utils/worker.py";

bool lies_in(const StackFrame& frame, std::string_view file) { return std::string_view(frame.file).ends_with(file); }

bool is_hooks_link(const StackFrame& frame) { return lies_in(frame, "dsanalyze/_attach/link.py"); }

std::optional<std::string> content(const std::filesystem::path& path) {
  try {
    return read_file(path, most_dump_bytes);
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::string target(int pid, std::uint64_t descriptor) {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::read_symlink(fmt::format("/proc/{}/fd/{}", pid, descriptor), error);
  return error ? fmt::format("descriptor {}", descriptor) : printable(path.native());
}

std::string text_at(int pid, std::uint64_t address) {
  constexpr std::size_t page = 4096;
  std::array<char, page> bytes{};
  const iovec here{bytes.data(), bytes.size() - 1};
  const std::size_t first = std::min<std::size_t>(here.iov_len, page - address % page);
  // The text may go on in the next page, which may as well not be there: the kernel reads one piece after the other.
  const std::array<iovec, 2> there{{{reinterpret_cast<void*>(address), first},  // NOLINT(performance-no-int-to-ptr): an address of another process
                                    {reinterpret_cast<void*>(address + first), here.iov_len - first}}};  // NOLINT(performance-no-int-to-ptr)
  if (::process_vm_readv(pid, &here, 1, there.data(), there.size(), 0) <= 0) return "a file";
  return printable(bytes.data());
}

enum class Subject { none, descriptor, path };
struct CallWord {
  const char* word;
  Subject subject = Subject::none;
  std::size_t argument = 0;  ///< the subject, or its address
};

const std::map<long, CallWord>& call_words() {
  static const std::map<long, CallWord> words{
      {SYS_read, {"reading", Subject::descriptor}},
      {SYS_pread64, {"reading", Subject::descriptor}},
      {SYS_write, {"writing", Subject::descriptor}},
      {SYS_recvfrom, {"receiving from", Subject::descriptor}},
      {SYS_flock, {"waiting for the lock of", Subject::descriptor}},
      {SYS_openat, {"opening", Subject::path, 1}},
      {SYS_newfstatat, {"looking at", Subject::path, 1}},
      {SYS_statx, {"looking at", Subject::path, 1}},
#ifdef SYS_open
      {SYS_open, {"opening", Subject::path}},
      {SYS_stat, {"looking at", Subject::path}},
      {SYS_poll, {"waiting for a descriptor"}},
      {SYS_epoll_wait, {"waiting for a descriptor"}},
#endif
      {SYS_ppoll, {"waiting for a descriptor"}},
      {SYS_pselect6, {"waiting for a descriptor"}},
      {SYS_epoll_pwait, {"waiting for a descriptor"}},
      {SYS_futex, {"waiting for a lock or a thread"}},
      {SYS_wait4, {"waiting for a process"}},
      {SYS_clock_nanosleep, {"sleeping"}},
  };
  return words;
}

std::string status_of(int pid) { return content(fmt::format("/proc/{}/status", pid)).value_or(""); }

/// By the first line of its file syscall: "running", or the number of the call and its arguments.
KernelView kernel_view(int pid) {
  const std::string status = status_of(pid);
  if (status.find("\nState:\tT") != std::string::npos || status.find("\nState:\tt") != std::string::npos)
    return {"stopped by a signal or a debugger", false, true};
  std::istringstream line(content(fmt::format("/proc/{}/syscall", pid)).value_or(""));
  std::string word;
  line >> word;
  if (word == "running") return {"computing", true};
  long number = -1;
  if (std::from_chars(word.data(), word.data() + word.size(), number).ec != std::errc{} || number < 0) return {};
  std::array<std::uint64_t, 2> arguments{};
  for (std::uint64_t& argument : arguments) line >> std::hex >> argument;
  const auto found = call_words().find(number);
  if (found == call_words().end()) return {fmt::format("in system call {}", number)};
  const CallWord& call = found->second;
  if (call.subject == Subject::none) return {call.word};
  const std::uint64_t subject = arguments.at(call.argument);
  return {fmt::format("{} {}", call.word, call.subject == Subject::path ? text_at(pid, subject) : target(pid, subject))};
}

/// Whether a signal's handler is set: its default would end the process.
bool catches(int pid, int number) {
  constexpr std::string_view key = "\nSigCgt:\t";
  const std::string status = status_of(pid);
  const std::size_t at = status.find(key);
  if (at == std::string::npos || number < 1 || number > 64) return false;
  std::uint64_t mask = 0;
  std::from_chars(status.data() + at + key.size(), status.data() + status.size(), mask, 16);
  return ((mask >> (number - 1)) & 1) != 0;
}

/// Whether the process still has the file open to which its handler writes: one that has closed all descriptors may have another there.
bool has_open(int pid, const std::filesystem::path& file) {
  std::error_code error;
  for (std::filesystem::directory_iterator each(fmt::format("/proc/{}/fd", pid), error), end; !error && each != end; each.increment(error)) {
    std::error_code unreadable;
    if (std::filesystem::read_symlink(each->path(), unreadable) == file) return true;
  }
  return false;
}

/// Of a process that has loaded the hook.
struct Asked {
  std::filesystem::path file;  ///< to which its main thread writes where it is, at a signal
  std::string dump{};          ///< what it wrote
};

/// By process, once all that could be asked have answered or the time is over.
std::map<int, Asked> ask(const std::filesystem::path& folder, const Clock& clock) {
  std::map<int, Asked> found;
  std::vector<Asked*> asked;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    int pid = 0;
    int number = 0;
    char more = 0;
    if (std::sscanf(entry->path().filename().c_str(), "stacks-%9d-%3d%c", &pid, &number, &more) != 2) continue;
    Asked& each = found[pid];
    each.file = entry->path();
    if (catches(pid, number) && has_open(pid, each.file) && ::syscall(SYS_tgkill, pid, pid, number) == 0) asked.push_back(&each);
  }
  const Deadline deadline = clock.after(answer_seconds);
  constexpr std::chrono::milliseconds pause{50};
  for (bool all = asked.empty(); !all && clock.now() < deadline.at;) {
    std::this_thread::sleep_for(pause);
    all = true;
    for (Asked* const each : asked) {
      std::string dump = content(each->file).value_or("");
      all &= !dump.empty() && dump == each->dump;  // Nothing was added since the last look.
      each->dump = std::move(dump);
    }
  }
  return found;
}

std::string memory_text() {
  const HostFacts host = read_host_facts();
  std::string text = fmt::format("memory: {} usable", format_bytes(host.memory_usable));
  std::error_code error;
  const std::filesystem::space_info shared = std::filesystem::space("/dev/shm", error);
  if (!error && shared.capacity > 0) text += fmt::format("; /dev/shm: {} of {} free", format_bytes(shared.available), format_bytes(shared.capacity));
  return text;
}

struct Seen {
  const TreeProcess* process = nullptr;
  std::optional<ProcessRole> role{};  ///< absent where it did not say where it is
  std::optional<int> rank{};          ///< of those that train, where that is known
  bool may_be_asked = false;          ///< it has loaded the hook
  bool at_checkpoint = false;
  std::string place{};
  KernelView kernel;
  std::string batch{};
};

const char* word_of(const Seen& seen, bool ranks_known) {
  constexpr std::array<const char*, 5> by_role{"trains", "waits for other ranks, or computes", "waits for a batch", "loader's worker",
                                               "loader's worker without work"};
  if (!seen.role) return "does not say where it is";
  if (seen.role == ProcessRole::training && !seen.rank && ranks_known) return "does not train";
  return by_role.at(static_cast<std::size_t>(*seen.role));
}

std::string place_and_call(const Seen& seen) {
  return seen.place + (seen.kernel.call.empty() ? "" : (seen.place.empty() ? "" : ", ") + seen.kernel.call);
}

std::string line_of(const Seen& seen, std::size_t ranks) {
  return fmt::format("PID {} {} ({}{}{}): {}", seen.process->pid, printable(seen.process->command),
                     seen.rank && ranks > 1 ? fmt::format("rank {}, ", *seen.rank) : "", word_of(seen, ranks > 0),
                     seen.batch.empty() ? "" : ": " + printable(seen.batch), place_and_call(seen));
}

/// "is at train.py:23 in __getitem__, opening /data/fifo"; of one that did not say where it is, its call alone.
std::string stand_of(const Seen& seen) {
  if (!seen.place.empty()) return "is at " + place_and_call(seen);
  return seen.kernel.call.empty() ? "does not say where it is" : "is " + seen.kernel.call;
}

/// Who is to blame: a worker at work, and one that does not compute before one that does; of several ranks one that waits for no other. What has
/// started the ranks is none of them.
std::string cause_of(const std::vector<Seen>& processes, const std::map<int, int>& ranks) {
  using Is = bool (*)(const Seen&);
  constexpr std::array<Is, 8> most_likely_first{
      [](const Seen& seen) { return seen.kernel.stopped && seen.may_be_asked; },
      [](const Seen& seen) { return seen.role == ProcessRole::working && !seen.kernel.computes; },
      [](const Seen& seen) { return seen.role == ProcessRole::training && seen.rank.has_value(); },
      [](const Seen& seen) { return seen.role == ProcessRole::working; },
      [](const Seen& seen) { return seen.role == ProcessRole::waiting; },
      [](const Seen& seen) { return seen.role == ProcessRole::with_ranks && seen.rank.has_value() && !seen.at_checkpoint; },
      [](const Seen& seen) { return seen.role == ProcessRole::training; },
      [](const Seen& seen) { return seen.role == ProcessRole::with_ranks; }};
  for (const Is is : most_likely_first) {
    const auto found = std::ranges::find_if(processes, is);
    if (found == processes.end()) continue;
    const bool works = found->role == ProcessRole::working;
    const auto rank = ranks.size() > 1 ? ranks.find(works ? found->process->parent : found->process->pid) : ranks.end();
    std::string who = fmt::format("{} {}", works ? "worker" : "process", found->process->pid);
    if (rank != ranks.end()) who = works ? fmt::format("{} of rank {}", who, rank->second) : fmt::format("rank {} ({})", rank->second, who);
    return who + " " + stand_of(*found);
  }
  return "";
}

}  // namespace

std::vector<StackFrame> main_stack(std::string_view dump) {
  const std::size_t begin = dump.rfind("(most recent call first)");
  if (begin == std::string_view::npos) return {};
  std::vector<StackFrame> stack;
  std::istringstream lines{std::string(dump.substr(begin))};
  std::string line;
  std::getline(lines, line);  // the thread's
  while (std::getline(lines, line) && line.starts_with("  ")) {
    constexpr std::string_view before_file = "  File \"";
    constexpr std::string_view before_line = "\", line ";
    constexpr std::string_view before_function = " in ";
    const std::size_t at = line.rfind(before_line);
    if (!line.starts_with(before_file) || at == std::string::npos || at < before_file.size()) continue;
    StackFrame frame;
    frame.file = line.substr(before_file.size(), at - before_file.size());
    const std::size_t number = at + before_line.size();
    const auto [end, error] = std::from_chars(line.data() + number, line.data() + line.size(), frame.line);
    const std::string_view rest(end, line.data() + line.size());
    if (error != std::errc{} || !rest.starts_with(before_function)) continue;
    frame.function = rest.substr(before_function.size());
    stack.push_back(std::move(frame));
  }
  return stack;
}

ProcessRole role_of(const std::vector<StackFrame>& stack) {
  const auto has = [&](std::string_view file) { return std::ranges::find_if(stack, [&](const StackFrame& frame) { return lies_in(frame, file); }); };
  if (const auto worker = has(of_workers); worker != stack.end()) {
    const bool fetches = has("torch/utils/data/_utils/fetch.py") != stack.end();
    const bool of_script = std::any_of(stack.begin(), worker, [](const StackFrame& frame) { return !is_librarys(frame.file); });
    return fetches || of_script ? ProcessRole::working : ProcessRole::idle;
  }
  const auto loader = has("torch/utils/data/dataloader.py");
  // Without workers the script's own process prepares, and stands where it does so.
  if (loader != stack.end() && has("torch/utils/data/_utils/fetch.py") == stack.end()) return ProcessRole::waiting;
  if (stack.empty()) return ProcessRole::training;
  // The agent of torchrun waits for its ranks. A rank that has come to a checkpoint of the hook waits for the others there.
  const StackFrame& front = stack.front();
  const bool is_agent = std::ranges::any_of(stack, [](const StackFrame& frame) { return is_within(frame, "torch/distributed/elastic/"); });
  const bool with_ranks = is_within(front, "torch/distributed/") || is_within(front, "torch/nn/parallel/") ||
                          lies_in(front, "torch/autograd/__init__.py") || lies_in(front, "torch/autograd/graph.py") || is_hooks_link(front);
  return with_ranks && !is_agent ? ProcessRole::with_ranks : ProcessRole::training;
}

std::string place_of(const std::vector<StackFrame>& stack) {
  if (stack.empty()) return "";
  const auto end = std::ranges::find_if(stack, [](const StackFrame& frame) { return lies_in(frame, of_workers); });
  const auto of_script = std::find_if_not(stack.begin(), end, [](const StackFrame& frame) { return is_librarys(frame.file); });
  if (of_script == end) return frame_text(stack.front());
  std::string text = frame_text(*of_script);
  if (of_script != stack.begin()) text += ", " + frame_text(stack.front());
  return text;
}

Standstill explain_standstill(const std::vector<TreeProcess>& processes, const std::map<int, int>& ranks, const std::filesystem::path& folder,
                              const Clock& clock) {
  std::map<int, KernelView> kernel;  // before a signal takes a process out of its call
  for (const TreeProcess& process : processes) kernel[process.pid] = kernel_view(process.pid);
  const std::map<int, Asked> asked = ask(folder, clock);
  std::vector<Seen> seen;
  for (const TreeProcess& process : processes) {
    const auto answer = asked.find(process.pid);
    Seen each{.process = &process, .may_be_asked = answer != asked.end(), .kernel = kernel[process.pid]};
    if (const auto rank = ranks.find(process.pid); rank != ranks.end()) each.rank = rank->second;
    if (const auto stack = main_stack(each.may_be_asked ? answer->second.dump : ""); !stack.empty()) {
      each.role = role_of(stack);
      each.place = place_of(stack);
      each.at_checkpoint = is_hooks_link(stack.front());
    }
    if (each.role == ProcessRole::waiting) {
      each.batch = content(folder / fmt::format("batch-{}", process.pid)).value_or("");
      each.batch.resize(std::min(each.batch.size(), each.batch.find('\0')));  // A longer text may have stood there before.
    }
    seen.push_back(std::move(each));
  }
  // One that is more than a hundred calls deep, or that lets no signal through (storage that does not answer), does not show that it is a worker.
  for (Seen& each : seen)
    if (each.may_be_asked && !each.rank && each.role.value_or(ProcessRole::training) == ProcessRole::training &&
        std::ranges::any_of(seen,
                            [&](const Seen& other) { return other.role == ProcessRole::waiting && other.process->pid == each.process->parent; }))
      each.role = ProcessRole::working;
  std::ranges::stable_sort(seen, {}, [](const Seen& each) { return !each.role ? 2 : *each.role == ProcessRole::idle ? 1 : 0; });
  Standstill found{.cause = cause_of(seen, ranks), .lines = {}};
  for (const Seen& each : seen)
    if (found.lines.size() < most_processes_told) found.lines.push_back(line_of(each, ranks.size()));
  if (seen.size() > found.lines.size()) found.lines.push_back(fmt::format("and {} further processes", seen.size() - found.lines.size()));
  found.lines.push_back(memory_text());
  return found;
}

}  // namespace dsanalyze
