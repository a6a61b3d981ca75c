#include <fmt/format.h>

#include <cerrno>

#include "base/error.hpp"
#include "base/text/text.hpp"
#include "doctor_context.hpp"

namespace dsanalyze {
namespace {

bool lies_in_memory(const DatasetPlace& place) {
  return place.filesystem == "tmpfs" || place.filesystem == "ramfs" || place.filesystem == "hugetlbfs";
}

}  // namespace

std::optional<DoctorAnswer> look_at_io_uring(const DoctorContext& context) {
  const IoEngine asked = context.inputs.settings.io;
  if (asked == IoEngine::pread || (context.inputs.index && !context.reads_files())) return std::nullopt;
  const IoSupport support = context.system.io_uring();
  if (support.usable) return fine("allowed");
  DoctorAnswer answer{asked == IoEngine::uring ? DoctorStatus::problem : DoctorStatus::note, "refused: " + support.reason, {}, {}};
  answer.fix = asked == IoEngine::uring ? "Pass --io auto, or allow it:" : "Threads read instead, with more of the CPU. To allow it:";
  const std::string disabled = context.read("/proc/sys/kernel/io_uring_disabled").text.value_or("0");
  if (disabled == "1" || disabled == "2") {
    answer.commands = {context.as_root("sysctl kernel.io_uring_disabled=0")};
  } else {
    answer.commands = context.launch("--security-opt seccomp=unconfined", "securityContext: {seccompProfile: {type: Unconfined}}");
    if (!answer.commands.empty())
      answer.fix =
          "Threads read instead. Allow io_uring_setup, io_uring_enter and io_uring_register in the container's seccomp profile, or go without one:";
  }
  return answer;
}

std::optional<DoctorAnswer> look_at_direct_io(const DoctorContext& context) {
  const ProfileSettings& settings = context.inputs.settings;
  const DatasetPlace& place = context.dataset();
  if (!context.reads_files() || settings.cache == CacheKind::page) return std::nullopt;
  if (place.file.empty()) return not_known("the dataset has no file with bytes in it to try with");
  const auto attempt = context.system.direct_read(place.file);
  if (attempt.done) return fine("a read past the page cache worked");
  const std::string where =
      fmt::format("{} on {}", printable(place.path), place.filesystem.empty() ? "an unknown filesystem" : printable(place.filesystem));
  if (attempt.error != EINVAL && attempt.error != EOPNOTSUPP)
    return not_known(fmt::format("the try on {} failed: {}", printable(place.file.native()), describe_errno(attempt.error)));
  if (settings.read_mode == ReadMode::direct)
    return DoctorAnswer{DoctorStatus::problem,
                        fmt::format("{} refuses it, and --direct asks for it", where),
                        "Leave --direct out, or move the dataset to ext4 or XFS on a disk with blocks of at most 4 KiB:",
                        {copy_of(place)}};
  return DoctorAnswer{DoctorStatus::note,
                      fmt::format("{} refuses it, or wants blocks larger than 4 KiB", where),
                      "Reads go through the page cache, and what they leave there is dropped. ext4 and XFS allow direct reads.",
                      {}};
}

std::optional<DoctorAnswer> look_at_page_cache(const DoctorContext& context) {
  const DatasetPlace& place = context.dataset();
  if (!context.reads_files() || lies_in_memory(place)) return std::nullopt;
  if (place.file.empty()) return not_known("the dataset has no file with bytes in it to try with");
  const auto attempt = context.system.drop_pages(place.file);
  const std::string file = shell_word(place.file.native());
  if (attempt.done) return fine("a page of a file of the dataset was dropped when asked to be; no right of root is needed");
  if (attempt.error == EACCES || attempt.error == EPERM) {
    return DoctorAnswer{DoctorStatus::note,
                        fmt::format("{} is another user's: the kernel drops its pages, and does not tell this user whether they went", file),
                        "A profile looks by reads that may not wait, at a few pages a file. As the files' owner all pages can be looked at.",
                        {}};
  }
  if (attempt.error != 0) return not_known(fmt::format("the try on {} failed: {}", file, describe_errno(attempt.error)));
  const DoctorCommand who{DoctorCommand::Where::here, "fuser -v " + file};
  DoctorAnswer answer{DoctorStatus::warning,
                      fmt::format("a page of {} stayed although it was asked to be dropped", file),
                      "Another program maps or locks the dataset's files: end it, then drop what it left:",
                      {who, context.as_root("sysctl vm.drop_caches=1")}};
  if (place.filesystem == "overlay" || place.filesystem == "aufs") {
    answer.fix = "Its layers lie in memory, or another program maps or locks the dataset's files. Copy it to a disk, or end that program:";
    answer.commands = {copy_of(place), who};
  }
  return answer;
}

}  // namespace dsanalyze
