#include "standstill.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
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
#include <set>
#include <sstream>
#include <thread>

#include "base/error.hpp"
#include "base/host/host.hpp"
#include "base/system/files.hpp"
#include "base/text/text.hpp"
#include "base/text/units.hpp"

namespace dsanalyze {
namespace {

constexpr const char* waits_for_descriptor = "waiting for a descriptor";
constexpr double answer_seconds = 1;
constexpr Bytes most_dump_bytes = Bytes{1} << 20;
constexpr std::size_t most_shown_path_bytes = 4096;
constexpr std::size_t most_processes_told = 16;

/// What the kernel says of a process's main thread.
struct KernelView {
  std::string call;  ///< "reading /data/x.jpg", "waiting for a lock or a thread", "computing"; empty where the kernel does not say
  bool computes = false;
  bool stopped = false;  ///< by a signal, or a debugger
  bool network = false;  ///< it may wait for another machine
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
  std::array<char, most_shown_path_bytes> bytes{};
  constexpr std::uint64_t page = 4096;
  static_assert(most_shown_path_bytes <= page);
  const iovec here{bytes.data(), bytes.size() - 1};
  const std::size_t first = std::min<std::size_t>(here.iov_len, page - address % page);
  // The text may go on in the next page, which may as well not be there: the kernel reads one piece after the other.
  const std::array<iovec, 2> there{{{reinterpret_cast<void*>(address), first},  // NOLINT(performance-no-int-to-ptr): an address of another process
                                    {reinterpret_cast<void*>(address + first), here.iov_len - first}}};  // NOLINT(performance-no-int-to-ptr)
  if (::process_vm_readv(pid, &here, 1, there.data(), there.size(), 0) <= 0) return "a file";
  return printable(bytes.data());
}

enum class Subject { none, descriptor, first_path, second_path };
struct CallWord {
  const char* word;
  Subject subject;
};

const std::map<long, CallWord>& call_words() {
  static const std::map<long, CallWord> words{
      {SYS_read, {"reading", Subject::descriptor}},
      {SYS_pread64, {"reading", Subject::descriptor}},
      {SYS_readv, {"reading", Subject::descriptor}},
      {SYS_preadv, {"reading", Subject::descriptor}},
      {SYS_write, {"writing", Subject::descriptor}},
      {SYS_pwrite64, {"writing", Subject::descriptor}},
      {SYS_writev, {"writing", Subject::descriptor}},
      {SYS_fsync, {"writing out", Subject::descriptor}},
      {SYS_fdatasync, {"writing out", Subject::descriptor}},
      {SYS_flock, {"waiting for the lock of", Subject::descriptor}},
      {SYS_fcntl, {"waiting for the lock of", Subject::descriptor}},
      {SYS_recvfrom, {"receiving from", Subject::descriptor}},
      {SYS_recvmsg, {"receiving from", Subject::descriptor}},
      {SYS_sendto, {"sending to", Subject::descriptor}},
      {SYS_sendmsg, {"sending to", Subject::descriptor}},
      {SYS_connect, {"connecting", Subject::descriptor}},
      {SYS_accept4, {"waiting for a connection to", Subject::descriptor}},
      {SYS_openat, {"opening", Subject::second_path}},
      {SYS_newfstatat, {"looking at", Subject::second_path}},
      {SYS_statx, {"looking at", Subject::second_path}},
#ifdef SYS_open
      {SYS_open, {"opening", Subject::first_path}},
      {SYS_stat, {"looking at", Subject::first_path}},
      {SYS_poll, {waits_for_descriptor, Subject::none}},
      {SYS_select, {waits_for_descriptor, Subject::none}},
      {SYS_epoll_wait, {waits_for_descriptor, Subject::none}},
#endif
      {SYS_ppoll, {waits_for_descriptor, Subject::none}},
      {SYS_pselect6, {waits_for_descriptor, Subject::none}},
      {SYS_epoll_pwait, {waits_for_descriptor, Subject::none}},
      {SYS_futex, {"waiting for a lock or a thread", Subject::none}},
      {SYS_wait4, {"waiting for a process", Subject::none}},
      {SYS_waitid, {"waiting for a process", Subject::none}},
      {SYS_nanosleep, {"sleeping", Subject::none}},
      {SYS_clock_nanosleep, {"sleeping", Subject::none}},
  };
  return words;
}

/// The letter behind the name in the file stat of a process or thread; blank where there is none.
char state_of(const std::filesystem::path& folder) {
  const std::string stat = content(folder / "stat").value_or("");
  const std::size_t name_end = stat.rfind(") ");
  return name_end == std::string::npos || name_end + 2 >= stat.size() ? ' ' : stat[name_end + 2];
}

/// Of a process's thread, by the first line of its file syscall: "running", or the number of the call and its arguments.
KernelView kernel_view(int pid, int thread) {
  const std::filesystem::path folder = fmt::format("/proc/{}/task/{}", pid, thread);
  const char state = state_of(folder);
  if (state == 'T' || state == 't') return {"stopped by a signal or a debugger", false, true};
  std::istringstream line(content(folder / "syscall").value_or(""));
  std::string word;
  line >> word;
  if (word == "running") return {"computing", true};
  long number = -1;
  if (std::from_chars(word.data(), word.data() + word.size(), number).ec != std::errc{} || number < 0) return {};
  std::array<std::uint64_t, 2> arguments{};
  for (std::uint64_t& argument : arguments) line >> std::hex >> argument;
  const auto call = call_words().find(number);
  if (call == call_words().end()) return {fmt::format("in system call {}", number)};
  const CallWord& known = call->second;
  switch (known.subject) {
    case Subject::descriptor: {
      const std::string what = target(pid, arguments[0]);
      return {fmt::format("{} {}", known.word, what), false, false, what.starts_with("socket:")};
    }
    case Subject::first_path:
      return {fmt::format("{} {}", known.word, text_at(pid, arguments[0]))};
    case Subject::second_path:
      return {fmt::format("{} {}", known.word, text_at(pid, arguments[1]))};
    case Subject::none:
      break;
  }
  return {known.word, false, false, std::string_view(known.word) == waits_for_descriptor};
}

/// Whether a thread of a loader's worker beside its main one may wait for another machine, as those of a thread pool do. One waits for a connection
/// to a socket of this machine, to hand batches over.
bool receives_in_a_thread(int pid) {
  std::error_code error;
  for (std::filesystem::directory_iterator each(fmt::format("/proc/{}/task", pid), error), end; !error && each != end; each.increment(error)) {
    const std::string name = each->path().filename().native();
    int thread = 0;
    std::from_chars(name.data(), name.data() + name.size(), thread);
    if (thread == pid) continue;
    if (const KernelView view = kernel_view(pid, thread); view.network && !view.call.starts_with(call_words().at(SYS_accept4).word)) return true;
  }
  return false;
}

/// Whether a signal is in a set ("SigCgt", "SigBlk") that the file status of a process or thread tells.
bool is_in_set(const std::filesystem::path& folder, std::string_view set, int number) {
  const std::string status = content(folder / "status").value_or("");
  const std::string key = fmt::format("\n{}:\t", set);
  const std::size_t at = status.find(key);
  if (at == std::string::npos) return false;
  std::uint64_t mask = 0;
  std::from_chars(status.data() + at + key.size(), status.data() + status.size(), mask, 16);
  return number >= 1 && number <= 64 && ((mask >> (number - 1)) & 1) != 0;
}

/// Whether a signal's handler is set: its default would end the process.
bool catches(int pid, int number) { return is_in_set(fmt::format("/proc/{}", pid), "SigCgt", number); }

/// How a process is asked.
struct Asked {
  std::filesystem::path file;  ///< that it writes to
  int of_main = 0;             ///< the signal at which its main thread writes where it is
  int of_all = 0;              ///< the signal at which a thread writes where all are; not sent to a process that can be asked otherwise
};

/// Where a main thread lets no signal through (storage that does not answer), another one of its process can say where all of them are: a loader's
/// worker has one that hands its batches over. Returns whether one was asked.
bool ask_other_thread(int pid, const Asked& how) {
  constexpr char uninterruptible = 'D';
  const std::filesystem::path process = fmt::format("/proc/{}", pid);
  const int number = how.of_all;
  const bool deaf = state_of(process) == uninterruptible || is_in_set(process, "SigBlk", how.of_main);
  if (!deaf || !catches(pid, number)) return false;
  std::error_code error;
  for (std::filesystem::directory_iterator each(process / "task", error), end; !error && each != end; each.increment(error)) {
    const std::string name = each->path().filename().native();
    int thread = 0;
    std::from_chars(name.data(), name.data() + name.size(), thread);
    if (thread == pid || state_of(each->path()) == uninterruptible || is_in_set(each->path(), "SigBlk", number)) continue;
    if (::syscall(SYS_tgkill, pid, thread, number) == 0) return true;
  }
  return false;
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

/// The files by which processes say that they may be asked: by process, with the signals.
std::map<int, Asked> askable(const std::filesystem::path& folder) {
  std::map<int, Asked> found;
  std::error_code error;
  for (std::filesystem::directory_iterator each(folder, error), end; !error && each != end; each.increment(error)) {
    int pid = 0;
    int of_main = 0;
    int of_all = 0;
    char more = 0;
    if (std::sscanf(each->path().filename().c_str(), "stacks-%9d-%3d-%3d%c", &pid, &of_main, &of_all, &more) == 3)
      found[pid] = {each->path(), of_main, of_all};
  }
  return found;
}

/// What the processes wrote, once all that were asked have answered or the time is over.
std::map<int, std::string> dumps_of(const std::vector<TreeProcess>& processes, const std::map<int, Asked>& can, const Clock& clock) {
  std::map<int, Asked> asked;
  for (const TreeProcess& process : processes)
    if (const auto each = can.find(process.pid); each != can.end() && catches(process.pid, each->second.of_main) &&
                                                 has_open(process.pid, each->second.file) &&
                                                 ::syscall(SYS_tgkill, process.pid, process.pid, each->second.of_main) == 0)
      asked.insert(*each);
  std::set<int> asked_twice;
  std::map<int, std::string> dumps;
  const Deadline deadline = clock.after(answer_seconds);
  const Deadline silent = clock.after(answer_seconds / 2);  // A call that only reads from a disk has ended by then.
  constexpr std::chrono::milliseconds pause{50};
  for (bool all = asked.empty(); !all && clock.now() < deadline.at;) {
    std::this_thread::sleep_for(pause);
    all = true;
    for (const auto& [pid, each] : asked) {
      std::string dump = content(each.file).value_or("");
      all &= !dump.empty() && dump == dumps[pid];  // Nothing was added since the last look.
      if (dump.empty() && clock.now() >= silent.at && !asked_twice.contains(pid) && ask_other_thread(pid, each)) asked_twice.insert(pid);
      dumps[pid] = std::move(dump);
    }
  }
  return dumps;
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
  std::string place;
  KernelView kernel;
  std::string batch{};
};

const char* word_of(const Seen& seen, bool ranks_known) {
  if (!seen.role) return "does not say where it is";
  switch (*seen.role) {
    case ProcessRole::waiting:
      return "waits for a batch";
    case ProcessRole::working:
      return "loader's worker";
    case ProcessRole::idle:
      return "loader's worker without work";
    case ProcessRole::with_ranks:
      return "waits for other ranks, or computes";
    case ProcessRole::training:
      break;
  }
  return seen.rank || !ranks_known ? "trains" : "does not train";
}

std::string place_and_call(const Seen& seen) {
  return seen.place + (seen.kernel.call.empty() ? "" : (seen.place.empty() ? "" : ", ") + seen.kernel.call);
}

std::string line_of(const Seen& seen, std::size_t ranks) {
  return fmt::format("PID {} {} ({}{}{}): {}", seen.process->pid, printable(seen.process->command),
                     seen.rank && ranks > 1 ? fmt::format("rank {}, ", *seen.rank) : "", word_of(seen, ranks > 0),
                     seen.batch.empty() ? "" : ": " + printable(seen.batch), place_and_call(seen));
}

/// Whether a process's call ends when another process or thread does something.
bool waits_for_another(const Seen& seen) {
  const std::string& call = seen.kernel.call;
  return call == waits_for_descriptor || call == call_words().at(SYS_futex).word || call.starts_with("reading pipe:") || seen.kernel.network;
}

/// Of a rank: the worker that its batch waits for, also where a thread of the script takes the batches, or a process that the script has started,
/// which stands in a call of its own.
const Seen* held_up_by(const Seen& rank, const std::vector<Seen>& processes) {
  const auto stands = [&](const Seen& seen) {
    return seen.process->parent == rank.process->pid && seen.role && !seen.rank && !seen.kernel.computes && !seen.place.empty() &&
           (seen.role == ProcessRole::working || (seen.role == ProcessRole::training && !waits_for_another(seen)));
  };
  const bool waits = rank.role == ProcessRole::waiting || (rank.role == ProcessRole::training && waits_for_another(rank));
  const auto found = waits ? std::ranges::find_if(processes, stands) : processes.end();
  return found == processes.end() ? nullptr : &*found;
}

/// Whether a worker, or a program that one has started for a download, may wait for another machine.
bool may_receive(const Seen& seen, const std::vector<Seen>& processes) {
  if (seen.role == ProcessRole::working) return seen.kernel.network || receives_in_a_thread(seen.process->pid);
  return !seen.may_be_asked && seen.kernel.network && std::ranges::any_of(processes, [&](const Seen& other) {
    return other.role == ProcessRole::working && other.process->pid == seen.process->parent;
  });
}

/// Who is to blame: a worker at work where a batch is waited for, and one that does not compute before one that does; of several ranks one that waits
/// for no other.
std::string cause_of(const std::vector<Seen>& processes) {
  const auto first = [&](const auto& is) -> const Seen* {
    const auto found = std::ranges::find_if(processes, is);
    return found == processes.end() ? nullptr : &*found;
  };
  const auto with = [&](ProcessRole role) { return first([&](const Seen& seen) { return seen.role == role; }); };
  if (const Seen* stopped = first([](const Seen& seen) { return seen.kernel.stopped && seen.may_be_asked; }))
    return fmt::format("process {} is {}", stopped->process->pid, stopped->kernel.call);
  const bool several = std::ranges::count_if(processes, [](const Seen& seen) { return seen.rank.has_value(); }) > 1;
  for (const Seen& seen : processes)
    if (const Seen* held = seen.rank ? held_up_by(seen, processes) : nullptr)
      return fmt::format("{} {}{} is at {}", held->role == ProcessRole::working ? "worker" : "process", held->process->pid,
                         several ? fmt::format(" of rank {}", *seen.rank) : "", place_and_call(*held));
  const Seen* const ranked = first([](const Seen& seen) { return seen.role == ProcessRole::training && seen.rank; });
  if (ranked != nullptr && first([](const Seen& seen) { return seen.role == ProcessRole::with_ranks && seen.rank; }) != nullptr)
    return fmt::format("rank {} (process {}) is at {}", *ranked->rank, ranked->process->pid, place_and_call(*ranked));
  if (const Seen* waiting = with(ProcessRole::waiting)) {
    const auto its = [&](const Seen& seen) { return seen.role == ProcessRole::working && seen.process->parent == waiting->process->pid; };
    const Seen* working = first([&](const Seen& seen) { return its(seen) && !seen.kernel.computes; });
    if (working == nullptr) working = first(its);
    if (working != nullptr) return fmt::format("worker {} is at {}", working->process->pid, place_and_call(*working));
    // One that was forked while a lock was held comes nowhere.
    const Seen* silent = first(
        [&](const Seen& seen) { return !seen.role && seen.process->parent == waiting->process->pid && !cleans_up_after_others(seen.process->pid); });
    if (silent != nullptr)
      return fmt::format("process {}, which process {} has started, does not say where it is{}{}", silent->process->pid, waiting->process->pid,
                         silent->kernel.call.empty() ? "" : ": ", silent->kernel.call);
    const auto idle = std::ranges::count(processes, std::optional(ProcessRole::idle), &Seen::role);
    return idle > 0 ? fmt::format("process {} waits for a batch at {}, and none of its workers ({} living) is at work", waiting->process->pid,
                                  waiting->place, idle)
                    : fmt::format("process {} waits for a batch at {}, and no worker says where it is", waiting->process->pid, waiting->place);
  }
  const auto is_at = [](const Seen* seen) { return fmt::format("process {} is at {}", seen->process->pid, place_and_call(*seen)); };
  if (ranked != nullptr) return is_at(ranked);
  if (const Seen* working = with(ProcessRole::working)) return is_at(working);
  // Where all ranks wait for one another, the one that has not come to a checkpoint; what has started the ranks is none of them.
  const Seen* trains = first(
      [](const Seen& seen) { return seen.role == ProcessRole::with_ranks && seen.rank && seen.place.find("_attach/link.py") == std::string::npos; });
  if (trains == nullptr) trains = with(ProcessRole::training);
  if (trains == nullptr) trains = with(ProcessRole::with_ranks);
  return trains == nullptr ? "" : is_at(trains);
}

}  // namespace

std::vector<StackFrame> main_stack(std::string_view dump) {
  const std::size_t begin = dump.rfind("(most recent call first)");
  // Of more than a hundred threads, the last ones are left out, and the main thread comes last.
  if (begin == std::string_view::npos || dump.ends_with("\n...\n")) return {};
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
                          lies_in(front, "torch/autograd/__init__.py") || lies_in(front, "torch/autograd/graph.py") ||
                          lies_in(front, "dsanalyze/_attach/link.py");
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
  for (const TreeProcess& process : processes) kernel[process.pid] = kernel_view(process.pid, process.pid);
  const std::map<int, Asked> can_be_asked = askable(folder);
  const std::map<int, std::string> dumps = dumps_of(processes, can_be_asked, clock);
  std::vector<Seen> seen;
  for (const TreeProcess& process : processes) {
    Seen each{&process, std::nullopt, std::nullopt, can_be_asked.contains(process.pid), "", kernel[process.pid]};
    if (const auto rank = ranks.find(process.pid); rank != ranks.end()) each.rank = rank->second;
    if (const auto dump = dumps.find(process.pid); dump != dumps.end()) {
      const std::vector<StackFrame> stack = main_stack(dump->second);
      each.place = place_of(stack);
      if (!stack.empty()) each.role = role_of(stack);
    }
    if (each.role == ProcessRole::waiting) {
      each.batch = content(folder / fmt::format("batch-{}", process.pid)).value_or("");
      each.batch.resize(std::min(each.batch.size(), each.batch.find('\0')));  // A longer text may have stood there before.
    }
    seen.push_back(std::move(each));
  }
  // faulthandler writes a hundred frames at most: a worker that is deeper in its calls does not show that it is one.
  for (Seen& each : seen)
    if (each.role == ProcessRole::training && !each.rank && std::ranges::any_of(seen, [&](const Seen& other) {
          return other.role == ProcessRole::waiting && other.process->pid == each.process->parent;
        }))
      each.role = ProcessRole::working;
  std::ranges::stable_sort(seen, {}, [](const Seen& each) { return !each.role ? 2 : *each.role == ProcessRole::idle ? 1 : 0; });
  Standstill found{cause_of(seen),
                   {},
                   std::ranges::any_of(seen, [](const Seen& each) { return each.role == ProcessRole::waiting; }),
                   std::ranges::any_of(seen, [&](const Seen& each) { return may_receive(each, seen); })};
  for (const Seen& each : seen)
    if (found.lines.size() < most_processes_told) found.lines.push_back(line_of(each, ranks.size()));
  if (seen.size() > found.lines.size()) found.lines.push_back(fmt::format("and {} further processes", seen.size() - found.lines.size()));
  found.lines.push_back(memory_text());
  return found;
}

}  // namespace dsanalyze
