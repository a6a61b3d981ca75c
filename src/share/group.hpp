#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/system/files.hpp"
#include "base/system/shared_memory.hpp"
#include "core/batch.hpp"
#include "core/index.hpp"
#include "core/records/jobs_record.hpp"
#include "loaders/server/server_scope.hpp"
#include "loaders/staging/staging.hpp"

namespace dsanalyze {

// A group of jobs that share prepared batches [CoorDL, section 4.3]: how processes find one another and come to the segments of the staging area
// (loaders/staging.hpp). docs/sharing.md has the messages.

/// What all members have in common. Who asks for something else is refused with the difference.
struct GroupTerms {
  StagingFacts staging;
  std::uint64_t samples = 0;  ///< of an epoch
  std::uint64_t seed = 0;     ///< of order and augmentation
  std::string dataset_digest;
  std::string prep;      ///< in words, the same for the same prep: "image 224 x 224, uint8, nhwc"
  TensorShape tensor;    ///< of a full batch; a slot holds it as SlotLayout says
  std::string settings;  ///< JSON: what a member that prepares batches needs to know beside the index; this layer does not read it
};

/// What a job demands of a group; what is left open is as the group has it.
struct GroupDemands {
  std::optional<std::uint32_t> batch_size{};
  std::optional<std::uint64_t> seed{};
  std::optional<std::string> dataset_digest{};
  std::optional<std::string> prep{};
  std::optional<std::uint64_t> epochs{};  ///< 0: until the group is ended
  std::optional<std::string> subset{};    ///< of the dataset, as parse_subset() reads it; of a dependent group alone
  std::optional<std::string> name{};      ///< under which it comes again; of a dependent group alone
  bool name_is_given = true;              ///< false: the name is the command's number, and may be another job's of the same command
};

/// Why a group, not a dependent one, would refuse these demands, naming what differs and both values; empty when it would not.
std::string refusal(const GroupTerms& terms, const GroupDemands& demands);

/// Where a job comes from, for a program that started commands for a group.
struct GroupJobOrigin {
  std::uint64_t command = 0;       ///< the number that its member gave (GroupMember::Parts); 0: none
  std::int64_t process_group = 0;  ///< of its process when it joined
};

/// What a host saw. `text` is for people; strangers' bytes in it are quoted.
struct GroupEvent {
  enum class Kind : std::uint8_t {
    joined,
    waiting,  ///< a job came in mid-epoch and waits for the next
    refused,
    left,
    died,
    garbage,     ///< a job wrote what no working process writes: it was put out
    late,        ///< a batch is late and the job that is to make it alive: all were told to wait on
    slow_start,  ///< the same while a producer may still be filling its slots for the first time: jobs that start have no iterations to compare with
    epoch_opened,
    epoch_ended,  ///< all who take part have released all of it
    ended
  };
  Kind kind = Kind::joined;
  std::uint32_t place = 0;
  std::int64_t process = 0;
  std::uint64_t epoch = 0;
  std::string text;
};

/// One job that took part in a group, or came to.
struct GroupJobAccount {
  using End = JobEnd;
  std::uint32_t place = 0;  ///< another's once it has gone
  std::int64_t process = 0;
  std::uint64_t first_epoch = 0;
  End end = End::none;
  StagingCounts counts;  ///< as it says itself; of garbage, what it said before
  GroupJobOrigin origin;
};

/// Holds a group: takes jobs in, hands their segments round, watches over their processes. One thread of its own. Only processes of this user are
/// served. Threads: any.
class GroupHost {
 public:
  struct Parts {
    GroupTerms terms;
    std::filesystem::path socket;               ///< where members find it; empty: they are given their line by connect()
    std::shared_ptr<const DatasetIndex> index;  ///< handed to members that prepare batches; may be empty with Producers::coordinator
    ServerHolder* server = nullptr;             ///< cache and emulated devices, for the same; outlives the host
    Timing timing;
    std::function<void(const GroupEvent&)> events;  ///< called by the host's thread; may be empty
    StagingObserver observer;                       ///< of the coordinator's steps, for tests
    const MemorySegment* index_segment = nullptr;   ///< the index as share_index() gives it, where that is done; outlives the host
    SlabMemory slab{};                              ///< how the coordinator comes to its batch slots
  };
  /// Throws UsageError (facts; a socket path that is too long or belongs to another running host) and Error (memory, the system).
  explicit GroupHost(Parts parts);
  /// Ends the group: members' waits end with an error when it was not over; nothing is left of the socket.
  ~GroupHost();
  GroupHost(const GroupHost&) = delete;
  GroupHost& operator=(const GroupHost&) = delete;

  /// "unix:/path"; empty without a socket.
  [[nodiscard]] std::string address() const;
  /// A line for a member that this process starts: to be inherited, or passed on.
  FileDescriptor connect();
  /// Serves a process that another listener accepted, and heard say hello: what it demanded, its command's number, and who it is.
  void adopt(FileDescriptor line, GroupDemands demands, std::uint64_t command, MessageSender sender);
  /// As StagingCoordinator's.
  void begin();
  void end();
  [[nodiscard]] Bytes promised_bytes() const;
  StagingProducer& producer();
  std::uint64_t withdraw();

  struct State {
    std::uint32_t jobs = 0;     ///< taking part
    std::uint32_t waiting = 0;  ///< for the next epoch
    std::uint64_t joined = 0;   ///< ever
    std::uint32_t lines = 0;    ///< to processes that are there, members or not
    std::uint64_t opened_epochs = 0;
    bool over = false;       ///< the group has ended and no process takes part any more
    Bytes shared_bytes = 0;  ///< of all segments: board, pages, slabs
  };
  [[nodiscard]] State state() const;
  /// Of every job that was ever let in, in that order.
  [[nodiscard]] std::vector<GroupJobAccount> accounts() const;
  /// As StagingCoordinator's.
  [[nodiscard]] Nanoseconds control_time() const;
  /// Waits until `over`, or no job is left that took part, or the deadline. False at the deadline.
  bool wait_over(Deadline deadline);

 private:
  struct Impl;
  std::unique_ptr<Impl> m_impl;
};

/// Nothing answers at the group's address.
class NoGroupError : public Error {
 public:
  using Error::Error;
};
/// The group does not take this job: says what differs.
class RefusedError : public UsageError {
 public:
  using UsageError::UsageError;
};
/// This job had all its epochs: no batch would come.
class EpochsOverError : public Error {
 public:
  using Error::Error;
};
/// The group's host is gone.
class LostGroupError : public Error {
 public:
  using Error::Error;
};

/// A job's membership. Threads: as StagingJob's; the rest any.
class GroupMember {
 public:
  struct Parts {
    FileDescriptor line;  ///< from GroupHost::connect(), or connect_group()
    GroupDemands demands;
    Timing timing;
    StagingObserver observer;   ///< of this job's steps, for tests
    std::uint64_t command = 0;  ///< told to the host: GroupJobOrigin
  };
  /// Is told the group's terms. Throws EpochsOverError, RefusedError (other terms, another version of the protocol), NoGroupError (no answer in 5 s),
  /// LostGroupError, NoMemoryError, and Error for all else.
  explicit GroupMember(Parts parts);
  /// Leaves.
  ~GroupMember();
  GroupMember(const GroupMember&) = delete;
  GroupMember& operator=(const GroupMember&) = delete;

  [[nodiscard]] const GroupTerms& terms() const;
  /// What prepares batches needs, with Producers::jobs: the index as the host has it (mapped, not copied), and a line for attach_server().
  [[nodiscard]] std::shared_ptr<const DatasetIndex> index() const;
  FileDescriptor take_server_line();

  /// Makes its segments and asks to be let in; returns when the host has said yes, which it does at once, or, when the group is full, at an epoch's
  /// end: `waiting` is told (whenever it changes) which epoch it waits for and how long that is expected to last, in seconds, or negative when not
  /// known. timeout at the deadline; io when the group is lost; end when it has ended. Throws RefusedError, and NoMemoryError without the memory that
  /// it takes.
  Status enter(Deadline deadline, const std::function<void(std::uint64_t epoch, double seconds)>& waiting = {});
  /// After enter().
  [[nodiscard]] StagingJob& job();
  [[nodiscard]] std::uint32_t place() const;
  /// The host is gone: every wait ends with io. True in a child that was forked, too: it is not the member.
  [[nodiscard]] bool lost() const;
  /// Why it is lost, in words.
  [[nodiscard]] std::string failure() const;
  /// It is lost because this process had no memory for what the host said.
  [[nodiscard]] bool out_of_memory() const;
  /// An eventfd for event loops: readable when a batch may have come, when the group has ended, when the host is lost. Who reads it drains it, then
  /// takes batches until there is none. At the first call a thread starts that looks out for them. Throws NoMemoryError or Error without one.
  [[nodiscard]] int event_descriptor() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> m_impl;
};

/// Connects to "unix:/path". Throws UsageError (no such kind of address), NoGroupError, RefusedError (another user's), and Error for all else.
FileDescriptor connect_group(std::string_view address, Timing timing);

/// A member's batches as any loader's: in order, read in place from whichever job's slot they lie in.
class GroupBatches final : public BatchSource {
 public:
  /// `member` has entered and outlives it. `accelerators`: of this job; a step takes a batch of each.
  GroupBatches(GroupMember& member, std::uint32_t accelerators);
  ~GroupBatches() override;
  Status next(Batch& batch, Deadline deadline) override;
  void release(ReleaseToken token) override;
  [[nodiscard]] const std::byte* memory(const Batch& batch) const override;
  /// Leaves the group.
  void stop() override;
  [[nodiscard]] std::string failure() const override;

 private:
  struct State;
  std::unique_ptr<State> m_state;
};

}  // namespace dsanalyze
