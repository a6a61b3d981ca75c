#include "door.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <iterator>
#include <map>

#include "base/error.hpp"
#include "base/text/text.hpp"
#include "transport/team/ranks.hpp"

namespace dsanalyze::transport {
namespace {

constexpr std::size_t most_strangers = 128;  // that have not proved to be members yet
constexpr std::size_t most_calls_at_once = 64;
constexpr Nanoseconds longest_handshake = 2 * nanoseconds_per_second;
/// Of the peer deadline: a call that opens a connection again and is not answered by then is made anew, as the kernel repeats a lost SYN after 1 s
/// alone.
constexpr int redials_per_deadline = 5;
constexpr Nanoseconds before_next_call = nanoseconds_per_second / 20;
constexpr std::chrono::milliseconds busy_interval(10);  // while calls are to be made
constexpr std::chrono::milliseconds quiet_interval(100);
constexpr std::chrono::milliseconds without_descriptors(20);

asio::ip::tcp protocol_of(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  return address.ss_family == AF_INET6 ? asio::ip::tcp::v6() : asio::ip::tcp::v4();
}

/// BBR paces what it sends by timers: between servers of one job that takes a third of the sender's CPU time and half of the rate. What other control
/// the system has been given stays; Reno is always allowed.
void send_unpaced(int socket) {
  std::array<char, 16> name{};
  socklen_t size = name.size();
  if (::getsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name.data(), &size) != 0) return;
  if (!std::string_view(name.data(), ::strnlen(name.data(), name.size())).starts_with("bbr")) return;
  for (const std::string_view unpaced : {"cubic", "reno"}) {
    if (::setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, unpaced.data(), static_cast<socklen_t>(unpaced.size())) == 0) return;
  }
}

}  // namespace

Door::Door(FileDescriptor listening, const RankFacts& facts, std::vector<asio::ip::tcp::endpoint> peers, const Clock& clock, Calls calls)
    : m_own(own_side(facts)),
      m_peers(std::move(peers)),
      m_clock(&clock),
      m_hooks(std::move(calls)),
      m_acceptor(m_context, protocol_of(listening.get()), listening.get()),
      m_timer(m_context),
      m_pause(m_context),
      m_longest_redial(to_nanoseconds(facts.peer_deadline_seconds) / redials_per_deadline),
      m_troubles(facts.world) {
  static_cast<void>(listening.release());
  m_acceptor.non_blocking(true);
  for (std::uint32_t rank = 0; rank < facts.rank; ++rank) {
    for (std::uint32_t connection = 0; connection < facts.connections_per_peer; ++connection) m_calls.push_back({{rank, connection}});
  }
  static_cast<void>(random_nonce());  // throws here, not in the thread
}

void Door::open() {
  accept_next();
  asio::post(m_context, [this] { look_around(); });
  m_thread = std::thread([this] { m_context.run(); });
}

void Door::close() {
  m_context.stop();
  if (m_thread.joinable()) m_thread.join();
}

Door::~Door() { close(); }

std::string Door::trouble(std::uint32_t rank) const {
  const std::scoped_lock lock(m_mutex);
  return m_troubles[rank];
}

void Door::accept_next() {
  m_acceptor.async_accept([this](const asio::error_code& error, asio::ip::tcp::socket socket) {
    if (error == asio::error::operation_aborted) return;
    if (!error) receive(std::move(socket));
    const bool is_of_caller = error == asio::error::connection_aborted || error == asio::error::interrupted || error == asio::error::try_again;
    if (!error || is_of_caller) return accept_next();
    // Trying at once would be all that this thread does.
    m_pause.expires_after(without_descriptors);
    m_pause.async_wait([this](const asio::error_code& aborted) {
      if (!aborted) accept_next();
    });
  });
}

void Door::receive(asio::ip::tcp::socket socket) {
  close_on_exec(socket.native_handle());
  asio::error_code error;
  socket.non_blocking(true, error);
  if (error) return;
  if (m_strangers == most_strangers) refuse(one_of_the_most_crowded(), Refusal::crowded, {});
  ++m_strangers;
  const asio::ip::tcp::endpoint from = socket.remote_endpoint(error);
  const CallerPointer caller = add(std::move(socket), Handshake::to_accept(m_own, random_nonce()));
  if (!error) caller->from = from.address();
  await(caller);
}

Door::CallerPointer Door::one_of_the_most_crowded() {
  std::map<asio::ip::address, std::vector<CallerPointer>> by_address;
  for (const CallerPointer& caller : m_callers) {
    if (caller->call == SIZE_MAX) by_address[caller->from].push_back(caller);
  }
  const auto& most = std::ranges::max_element(by_address, {}, [](const auto& of_address) { return of_address.second.size(); })->second;
  return most[m_random.below(most.size())];
}

Door::CallerPointer Door::add(asio::ip::tcp::socket socket, Handshake handshake) {
  auto caller = std::make_shared<Caller>(std::move(socket), std::move(handshake), m_clock->now());
  caller->place = m_callers.insert(m_callers.end(), caller);
  return caller;
}

void Door::remove(const CallerPointer& caller) {
  caller->is_gone = true;
  if (caller->call == SIZE_MAX) {
    --m_strangers;
  } else {
    --m_calling;
  }
  m_callers.erase(caller->place);
}

void Door::note(std::uint32_t rank, const std::string& trouble) {
  const std::scoped_lock lock(m_mutex);
  if (rank < m_troubles.size()) m_troubles[rank] = trouble;
}

void Door::call(std::size_t number) {
  Call& call = m_calls[number];
  call.stage = Call::Stage::calling;
  ++m_calling;
  const std::uint32_t connection = call.claim.connection | (call.claim.opens_again ? opened_again : 0);
  const CallerPointer caller = add(asio::ip::tcp::socket(m_context), Handshake::to_dial(m_own, call.claim.rank, connection, random_nonce()));
  caller->call = number;
  caller->socket.async_connect(m_peers[call.claim.rank], [this, caller](const asio::error_code& error) {
    if (caller->is_gone) return;
    caller->is_answered = true;
    asio::error_code failure = error;
    if (!failure) close_on_exec(caller->socket.native_handle());
    if (!failure) caller->socket.non_blocking(true, failure);
    if (failure) return refuse(caller, Refusal::closed, describe_errno(failure.value()));
    if (send_output(*caller)) return await(caller);
    refuse(caller, Refusal::closed, "hung up");
  });
}

void Door::open_again(std::uint32_t rank, std::uint32_t connection) {
  asio::post(m_context, [this, rank, connection] {
    const auto call = std::ranges::find_if(m_calls, [&](const Call& each) { return each.claim.rank == rank && each.claim.connection == connection; });
    if (call == m_calls.end()) return;
    call->claim.opens_again = true;
    if (call->stage == Call::Stage::over) call->stage = Call::Stage::waiting;
    make_calls();
    look_later();
  });
}

void Door::await(const CallerPointer& caller) {
  caller->socket.async_wait(asio::ip::tcp::socket::wait_read, [this, caller](const asio::error_code& error) {
    if (!caller->is_gone && error != asio::error::operation_aborted) read(caller);
  });
}

void Door::read(const CallerPointer& caller) {
  std::array<std::byte, 256> bytes;
  const std::size_t wanted = std::min(bytes.size(), caller->handshake.wanted());
  const ssize_t got = ::recv(caller->socket.native_handle(), bytes.data(), wanted, 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return await(caller);
  if (got <= 0) return refuse(caller, Refusal::closed, "hung up, as it does on who has not its key");
  caller->handshake.take(std::span(bytes).first(static_cast<std::size_t>(got)));
  if (caller->handshake.stage() == Handshake::Stage::done) return let_in(caller);
  const bool is_sent = send_output(*caller);
  if (caller->handshake.stage() == Handshake::Stage::refused) {
    return refuse(caller, caller->handshake.refusal(), std::string(refusal_name(caller->handshake.refusal())));
  }
  if (!is_sent) return refuse(caller, Refusal::closed, "hung up");
  await(caller);
}

bool Door::send_output(Caller& caller) {
  const std::vector<std::byte> output = caller.handshake.output();
  if (output.empty()) return true;
  return ::send(caller.socket.native_handle(), output.data(), output.size(), MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(output.size());
}

void Door::let_in(const CallerPointer& caller) {
  const Claim claim{caller->handshake.peer(), caller->handshake.connection(), caller->handshake.opens_again()};
  const Refusal refusal = m_hooks.admit(claim);
  if (const Death death = m_hooks.death(claim.rank); may_live(death) && caller->call == SIZE_MAX) {
    caller->handshake.give_up(death);
    send_output(*caller);
  }
  if (refusal != Refusal::none) return refuse(caller, refusal, std::string(refusal_name(refusal)));
  if (!send_output(*caller)) return refuse(caller, Refusal::closed, "hung up");
  asio::error_code error;
  caller->socket.set_option(asio::ip::tcp::no_delay(true), error);
  send_unpaced(caller->socket.native_handle());
  const FrameKeys keys = caller->handshake.frame_keys();
  FileDescriptor socket(caller->socket.release(error));
  if (error) return refuse(caller, Refusal::closed, error.message());
  if (caller->call != SIZE_MAX) {
    m_calls[caller->call].stage = Call::Stage::over;
    m_calls[caller->call].again_at = m_clock->now() + before_next_call;
  }
  remove(caller);
  m_hooks.enter(std::move(socket), keys, claim);
}

void Door::refuse(const CallerPointer& caller, Refusal refusal, const std::string& trouble) {
  if (refusal == Refusal::other_terms) m_is_hopeless = true;
  if (caller->handshake.given_up() != Death::none) m_hooks.given_up(caller->handshake.given_up());
  if (caller->call == SIZE_MAX) {
    m_refused[static_cast<std::size_t>(refusal)].fetch_add(1, std::memory_order_relaxed);
    if (refusal == Refusal::other_terms) note(caller->handshake.peer(), trouble);
  } else {
    Call& call = m_calls[caller->call];
    call.stage = Call::Stage::waiting;
    call.again_at = m_clock->now() + before_next_call;
    note(call.claim.rank, trouble);
  }
  asio::error_code ignored;
  caller->socket.close(ignored);
  remove(caller);
}

void Door::make_calls() {
  const Nanoseconds now = m_clock->now();
  for (std::size_t number = 0; number < m_calls.size() && m_calling < most_calls_at_once; ++number) {
    Call& next = m_calls[number];
    if (next.stage != Call::Stage::waiting || next.again_at > now) continue;
    if (next.claim.opens_again && !m_hooks.is_missed(next.claim.rank, next.claim.connection)) {
      next.stage = Call::Stage::over;
    } else {
      call(number);
    }
  }
}

void Door::look_around() {
  const Nanoseconds now = m_clock->now();
  while (!m_callers.empty() && now - m_callers.front()->began > longest_handshake) {
    const CallerPointer overdue = m_callers.front();
    refuse(overdue, Refusal::too_slow, "does not answer");
  }
  std::vector<CallerPointer> unanswered;
  std::ranges::copy_if(m_callers, std::back_inserter(unanswered), [&](const CallerPointer& caller) {
    const bool opens_again = caller->call != SIZE_MAX && m_calls[caller->call].claim.opens_again;
    return opens_again && !caller->is_answered && now - caller->began > m_longest_redial;
  });
  for (const CallerPointer& caller : unanswered) refuse(caller, Refusal::too_slow, "does not answer");
  make_calls();
  look_later();
}

void Door::look_later() {
  const bool is_busy = std::ranges::any_of(m_calls, [](const Call& call) { return call.stage != Call::Stage::over; });
  m_timer.expires_after(is_busy ? busy_interval : quiet_interval);
  m_timer.async_wait([this](const asio::error_code& error) {
    if (!error) look_around();
  });
}

}  // namespace dsanalyze::transport

namespace dsanalyze {
namespace {

asio::ip::address parse_listen_address(std::string_view text) {
  asio::error_code error;
  asio::ip::address address = asio::ip::make_address(std::string(text), error);
  if (error) throw UsageError(fmt::format("\"{}\" is no numeric address (10.0.0.2, ::1): names of hosts are not looked up", printable(text)));
  return address;
}

}  // namespace

namespace transport {

asio::ip::tcp::endpoint parse_endpoint(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  std::string_view host = text.substr(0, colon == std::string_view::npos ? 0 : colon);
  const std::string_view digits = colon == std::string_view::npos ? std::string_view{} : text.substr(colon + 1);
  const bool is_bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (is_bracketed) host = host.substr(1, host.size() - 2);
  std::uint16_t port = 0;
  const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  asio::error_code error;
  const asio::ip::address address = asio::ip::make_address(std::string(host), error);
  if (error || failure != std::errc() || end != digits.data() + digits.size() || port == 0 || address.is_v6() != is_bracketed) {
    throw UsageError(fmt::format("\"{}\" is no rank's address: expected one as 10.0.0.2:40123 or [::1]:40123", printable(text)));
  }
  return {address, port};
}

void close_on_exec(int socket) { ::fcntl(socket, F_SETFD, FD_CLOEXEC); }

std::string format_endpoint(const asio::ip::tcp::endpoint& endpoint) {
  return fmt::format(fmt::runtime(endpoint.address().is_v6() ? "[{}]:{}" : "{}:{}"), endpoint.address().to_string(), endpoint.port());
}

}  // namespace transport

std::uint64_t rank_descriptors(const RankFacts& facts) {
  constexpr std::uint64_t of_each_thread = 3;  // what it waits by: readiness, events, time
  return std::uint64_t{facts.connections_per_peer} * (facts.world - 1) + of_each_thread * (facts.io_threads + 1) + 1;
}

Listener::Listener(std::string_view address, std::string_view others_use) {
  const asio::ip::address bound = parse_listen_address(address);
  const asio::ip::address used = others_use.empty() ? bound : parse_listen_address(others_use);
  if (used.is_unspecified()) {
    throw UsageError(fmt::format("{} is every address of this server: say which one the other ranks reach it by", printable(address)));
  }
  asio::io_context context;
  asio::ip::tcp::acceptor acceptor(context);
  try {
    const asio::ip::tcp::endpoint wanted(bound, 0);
    acceptor.open(wanted.protocol());
    transport::close_on_exec(acceptor.native_handle());
    acceptor.bind(wanted);
    acceptor.listen();
    m_address = transport::format_endpoint({used, acceptor.local_endpoint().port()});
    m_socket = FileDescriptor(acceptor.release());
  } catch (const asio::system_error& error) {
    throw Error(fmt::format("cannot listen on {}: {}. It has to be an address of this server (ip address show)", printable(address),
                            describe_errno(error.code().value())));
  }
}

std::string_view refusal_name(Refusal refusal) {
  constexpr std::array<std::string_view, refusal_kinds> names = {"none",    "garbage",     "other version", "closed", "too slow",
                                                                 "crowded", "wrong proof", "other terms",   "known",  "dead"};
  return names[static_cast<std::size_t>(refusal)];
}

std::uint64_t RankCounters::strangers() const {
  std::uint64_t all = 0;
  for (const std::uint64_t count : refused) all += count;
  return all;
}

}  // namespace dsanalyze
