#include <fmt/format.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "abi_call.hpp"
#include "handles.hpp"
#include "opening_loader.hpp"

using dsanalyze::Deadline;
using dsanalyze::client::Answer;
using dsanalyze::client::call;
using dsanalyze::client::deadline_of;
using dsanalyze::client::give_batch;
using dsanalyze::client::give_terms;
using dsanalyze::client::invalid;
using dsanalyze::client::OpeningLoader;
using dsanalyze::client::OwnLoader;

namespace {

using Loaders = dsanalyze::client::Handles<OpeningLoader, dsa_loader>;

Answer no_loader(const char* function, const Loaders::Found& found) {
  if (found.kind == Loaders::Found::Kind::parents)
    return {DSA_FORKED, fmt::format("{}: the loader is the parent process's; a child that was forked opens one of its own", function)};
  return {DSA_INVALID, fmt::format("{}: this is no loader: it was closed already, or never opened", function)};
}

/// A call on a loader that may take so many milliseconds, in which its dataset has to be open.
template <typename Body>
dsa_status with(const char* function, const dsa_loader* handle, std::int32_t timeout_ms, const Body& body) noexcept {
  return call([&] {
    const Deadline deadline = deadline_of(timeout_ms, dsanalyze::system_timing());
    const Loaders::Found found = Loaders::find(handle);
    if (!found.object) return no_loader(function, found);
    OwnLoader* const loader = found.object->opened(deadline);
    if (loader == nullptr) return Answer{DSA_TIMEOUT, fmt::format("{}: the dataset is being opened; dsa_loader_ready() waits for it", function)};
    return body(*loader, deadline);
  });
}

/// A text into the caller's buffer.
Answer give_text(const char* function, const std::string& text, char* buffer, std::size_t* size) {
  if (size == nullptr || (buffer == nullptr && *size != 0)) return invalid(function, "there is nowhere to put the text: NULL");
  const std::size_t room = *size;
  *size = text.size() + 1;
  if (room == 0) return {};
  if (room < *size) return invalid(function, fmt::format("the text takes {} bytes, and there is room for {}", *size, room));
  std::memcpy(buffer, text.c_str(), *size);
  return {};
}

}  // namespace

dsa_status dsa_loader_open(const char* options, dsa_loader** loader) {
  return call([&] {
    if (loader == nullptr) return invalid("dsa_loader_open", "there is nowhere to put the loader: NULL");
    *loader = nullptr;
    if (options == nullptr) return invalid("dsa_loader_open", "no options: NULL");
    dsanalyze::client::LoaderRequest request = dsanalyze::client::loader_request_from_json(options);
    const bool waits = !request.in_background;
    auto made = std::make_shared<OpeningLoader>(std::move(request), dsanalyze::system_timing());
    if (waits) made->opened(dsanalyze::client::no_deadline);
    *loader = Loaders::enlist(std::move(made));
    return Answer{};
  });
}

dsa_status dsa_loader_info(dsa_loader* loader, dsa_terms* terms) {
  return with("dsa_loader_info", loader, 0, [&](const OwnLoader& of, Deadline) { return give_terms("dsa_loader_info", of, terms); });
}

dsa_status dsa_loader_ready(dsa_loader* loader, std::int32_t timeout_ms) {
  return with("dsa_loader_ready", loader, timeout_ms, [](OwnLoader& of, Deadline deadline) { return of.ready(deadline); });
}

dsa_status dsa_loader_next(dsa_loader* loader, dsa_batch* batch, std::int32_t timeout_ms) {
  return with("dsa_loader_next", loader, timeout_ms,
              [&](OwnLoader& of, Deadline deadline) { return give_batch("dsa_loader_next", of, batch, deadline); });
}

dsa_status dsa_loader_release(dsa_loader* loader, std::uint64_t token) {
  return call([&] {
    Loaders::Found found = Loaders::find(loader);
    if (!found.object) return no_loader("dsa_loader_release", found);
    OwnLoader* const of = found.object->opened(deadline_of(0, dsanalyze::system_timing()));
    Answer answer = of == nullptr ? invalid("dsa_loader_release", "the dataset is being opened: no batch was given") : of->release(token);
    if (found.object->done()) Loaders::strike_off(loader);
    return answer;
  });
}

dsa_status dsa_loader_state(dsa_loader* loader, std::uint64_t epoch, std::uint64_t index, char* text, std::size_t* size) {
  return with("dsa_loader_state", loader, 0,
              [&](const OwnLoader& of, Deadline) { return give_text("dsa_loader_state", of.state(epoch, index), text, size); });
}

dsa_status dsa_loader_seek(dsa_loader* loader, const char* state) {
  return with("dsa_loader_seek", loader, 0, [&](OwnLoader& of, Deadline) {
    if (state == nullptr) return invalid("dsa_loader_seek", "no state: NULL");
    of.seek(state);
    return Answer{};
  });
}

dsa_status dsa_loader_report(dsa_loader* loader, char* text, std::size_t* size) {
  return with("dsa_loader_report", loader, 0, [&](const OwnLoader& of, Deadline) { return give_text("dsa_loader_report", of.report(), text, size); });
}

dsa_status dsa_loader_close(dsa_loader* loader) {
  return call([&] {
    if (loader == nullptr) return Answer{};
    Loaders::Found found = Loaders::find(loader);
    if (found.kind == Loaders::Found::Kind::parents) {
      Loaders::strike_off(loader);
      return Answer{};
    }
    if (!found.object) return no_loader("dsa_loader_close", found);
    found.object->close();
    if (found.object->done()) Loaders::strike_off(loader);
    return Answer{};
  });
}
