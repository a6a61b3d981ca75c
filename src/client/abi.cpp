#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "abi_call.hpp"
#include "base/error.hpp"
#include "client.hpp"
#include "handles.hpp"

using dsanalyze::Deadline;
using dsanalyze::FileDescriptor;
using dsanalyze::GroupDemands;
using dsanalyze::Timing;
using dsanalyze::client::Answer;
using dsanalyze::client::call;
using dsanalyze::client::Client;
using dsanalyze::client::deadline_of;
using dsanalyze::client::give_batch;
using dsanalyze::client::give_terms;
using dsanalyze::client::invalid;

namespace {

constexpr const char* group_variable = "DSANALYZE_GROUP";
constexpr const char* job_variable = "DSANALYZE_JOB";
constexpr const char* command_variable = "DSANALYZE_COMMAND";
constexpr double look_again_seconds = 0.001;

using Clients = dsanalyze::client::Handles<Client, dsa_client>;

Answer no_client(const char* function, const Clients::Found& found) {
  if (found.kind == Clients::Found::Kind::parents) {
    return {DSA_FORKED, fmt::format("{}: the client is the parent process's; a child that was forked attaches anew, as a job of its own", function)};
  }
  return {DSA_INVALID, fmt::format("{}: this is no client: it was detached already, or never attached", function)};
}

/// A call on a client.
template <typename Body>
dsa_status with(const char* function, const dsa_client* handle, const Body& body) noexcept {
  return call([&] {
    const Clients::Found found = Clients::find(handle);
    return found.object ? body(*found.object) : no_client(function, found);
  });
}

GroupDemands demands_of(const dsa_options& options) {
  GroupDemands demands;
  if (options.batch_size != 0) demands.batch_size = options.batch_size;
  if (options.seed != nullptr) demands.seed = *options.seed;
  if (options.dataset_digest != nullptr) demands.dataset_digest = options.dataset_digest;
  if (options.prep != nullptr) demands.prep = options.prep;
  if (options.epochs != 0) demands.epochs = options.epochs;
  if (options.subset != nullptr) demands.subset = options.subset;
  const char* const job = std::getenv(job_variable);
  if (options.name != nullptr) {
    demands.name = options.name;
  } else if (job != nullptr && *job != '\0') {
    demands.name = job;
    demands.name_is_given = false;
  }
  return demands;
}

/// A line to the group's coordinator, or why there is none.
Answer connect(const std::string& address, Timing timing, FileDescriptor& line) {
  try {
    line = dsanalyze::connect_group(address, timing);
    return {};
  } catch (const dsanalyze::RefusedError&) {
    throw;
  } catch (const dsanalyze::UsageError& error) {
    return {DSA_INVALID, error.what()};
  }
}

/// The number of the command of `dsanalyze share` that this process belongs to; 0 for none.
std::uint64_t own_command() {
  const char* const given = std::getenv(command_variable);
  const std::string_view text = given == nullptr ? std::string_view() : std::string_view(given);
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, 16);
  return error == std::errc() && end == text.data() + text.size() ? number : 0;
}

Answer attach(const dsa_options& options, dsa_client** client) {
  const Timing timing = dsanalyze::system_timing();
  const Deadline deadline = deadline_of(options.timeout_ms > 0 ? options.timeout_ms : -1, timing);
  const char* address = options.address != nullptr ? options.address : std::getenv(group_variable);
  if (address == nullptr || *address == '\0') {
    return invalid("dsa_attach", fmt::format("which group? Set {}=unix:PATH, as `dsanalyze share` prints it, or give an address", group_variable));
  }
  FileDescriptor line;
  if (Answer answer = connect(address, timing, line); answer.status != DSA_OK) return answer;
  const auto waiting = [&options](std::uint64_t epoch, double seconds) {
    if (options.waiting != nullptr) options.waiting(options.waiting_context, epoch, seconds);
  };
  std::shared_ptr<Client> made;
  {
    const dsanalyze::client::SignalsBlocked blocked;
    made = std::make_shared<Client>(std::move(line), demands_of(options), own_command(), timing);
  }
  Answer answer = made->enter(deadline, waiting);
  if (answer.status == DSA_OK) *client = Clients::enlist(std::move(made));
  return answer;
}

}  // namespace

std::uint32_t dsa_version() { return DSA_VERSION; }

const char* dsa_status_text(dsa_status status) {
  constexpr std::array texts{"ok",
                             "timeout",
                             "end",
                             "busy",
                             "invalid argument",
                             "no group",
                             "refused by the group",
                             "coordinator lost",
                             "expelled from the group",
                             "failed",
                             "out of memory",
                             "client of the parent process"};
  static_assert(texts.size() == DSA_FORKED + 1);
  return status >= 0 && static_cast<std::size_t>(status) < texts.size() ? texts[static_cast<std::size_t>(status)] : "unknown status";
}

const char* dsa_last_error() { return dsanalyze::client::last_error(); }

dsa_status dsa_attach(const dsa_options* options, dsa_client** client) {
  return call([&] {
    if (client == nullptr) return invalid("dsa_attach", "there is nowhere to put the client: NULL");
    *client = nullptr;
    dsa_options read = DSA_OPTIONS_INIT;
    if (options != nullptr && !dsanalyze::client::read_struct(*options, read)) {
      return invalid("dsa_attach",
                     "struct_size of the options is none that they have, or they ask for what this library does not know; begin with "
                     "DSA_OPTIONS_INIT");
    }
    return attach(read, client);
  });
}

dsa_status dsa_info(dsa_client* client, dsa_terms* terms) {
  return with("dsa_info", client, [&](const Client& of) { return give_terms("dsa_info", of, terms); });
}

dsa_status dsa_next(dsa_client* client, dsa_batch* batch, std::int32_t timeout_ms) {
  return with("dsa_next", client, [&](Client& of) { return give_batch("dsa_next", of, batch, deadline_of(timeout_ms, dsanalyze::system_timing())); });
}

dsa_status dsa_release(dsa_client* client, std::uint64_t token) {
  return with("dsa_release", client, [&](Client& of) { return of.release(token); });
}

dsa_status dsa_event_fd(dsa_client* client, int* descriptor) {
  return with("dsa_event_fd", client, [&](Client& of) {
    if (descriptor == nullptr) return invalid("dsa_event_fd", "there is nowhere to put the descriptor: NULL");
    *descriptor = of.event_descriptor();
    return Answer{};
  });
}

dsa_status dsa_leave_after(dsa_client* client, std::uint64_t epoch) {
  return with("dsa_leave_after", client, [&](Client& of) {
    of.leave_after(epoch);
    return Answer{};
  });
}

dsa_status dsa_leave(dsa_client* client) {
  return with("dsa_leave", client, [&](Client& of) {
    of.leave();
    return Answer{};
  });
}

dsa_status dsa_detach(dsa_client* client) {
  return call([&] {
    if (client == nullptr) return Answer{};
    Clients::Found found = Clients::strike_off(client);
    if (found.kind == Clients::Found::Kind::parents) return Answer{};
    if (!found.object) return no_client("dsa_detach", found);
    found.object->leave();
    // Calls in other threads end at their next look.
    const Timing timing = dsanalyze::system_timing();
    while (found.object.use_count() > 1) timing.waiter->sleep_until(timing.clock->after(look_again_seconds).at);
    return Answer{};
  });
}

const char* dsa_error(dsa_client* client) {
  const dsa_status status = with("dsa_error", client, [&](const Client& of) { return Answer{DSA_END, of.failure()}; });
  return status == DSA_OK ? "" : dsanalyze::client::last_error();
}
