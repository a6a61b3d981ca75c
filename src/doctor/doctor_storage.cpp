#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/host/mounts.hpp"
#include "base/text/text.hpp"
#include "doctor_context.hpp"
#include "loaders/fetch/storage_meter.hpp"

namespace dsanalyze {
namespace {

constexpr std::uint32_t most_files_looked_at = 64;
constexpr Bytes room_for_results = Bytes{64} << 20;
constexpr int least_read_ahead_kib = 128;  // Linux's own default

/// What a profile can prove of cold and cached runs there.
std::string proof_on(const DatasetPlace& place) {
  if (!place.memory_behind.empty())
    return fmt::format("no counter proves what a profile reads from storage, as {}: its runs are unproved", printable(place.memory_behind));
  switch (StorageMeter::scope_on(place.filesystem)) {
    case StorageMeter::Scope::process:
      return "what a profile reads from storage is proved, by the process's own counter";
    case StorageMeter::Scope::client:
      return "what a profile reads from storage is corroborated, by the client's counters, which others share";
    case StorageMeter::Scope::none:
      break;
  }
  return "no counter tells what a profile reads from storage: cold runs are corroborated where the page cache tells, cached runs are unproved";
}

bool is_among(std::string_view name, std::initializer_list<std::string_view> names) { return std::ranges::find(names, name) != names.end(); }

std::string lies_on(const DatasetPlace& place) {
  return fmt::format("{} lies on {} ({})", printable(place.path), printable(place.filesystem), printable(place.source));
}

/// In quotes: every JSON text is one of YAML.
std::string yaml_text(const std::string& text) { return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace); }

DoctorCommand volume_of(const DoctorContext& context, const DatasetPlace& place) {
  return context
      .launch(fmt::format("-v /DATA/ON/HOST:{}:ro", shell_word(place.path)),
              fmt::format("volumeMounts: [{{name: data, mountPath: {}, readOnly: true}}]", yaml_text(place.path)))
      .front();
}

std::string queue_file(const DatasetPlace& place, const char* name) { return fmt::format("/sys/block/{}/queue/{}", place.disk, name); }

std::string disk_name(const DatasetPlace& place) {
  const std::string below = place.disks_below.empty() ? "" : fmt::format(" on {}", fmt::join(place.disks_below, ", "));
  return place.device == place.disk ? place.disk + below : fmt::format("{} of {}{}", place.device, place.disk, below);
}

/// Who made it, where that tells that a hypervisor did.
bool made_by_hypervisor(const DoctorContext& context, const std::string& disk) {
  if (disk.starts_with("vd") || disk.starts_with("xvd")) return true;
  std::string maker = context.read("/sys/block/" + disk + "/device/vendor").text.value_or("");
  maker += " " + context.read("/sys/block/" + disk + "/device/model").text.value_or("");
  constexpr std::array makers{"QEMU", "VMware", "Msft", "Virtual", "Google", "Amazon", "VBOX", "Xen"};
  return std::ranges::any_of(makers, [&](const char* name) { return maker.find(name) != std::string::npos; });
}

}  // namespace

std::optional<DoctorAnswer> look_at_dataset_access(const DoctorContext& context) {
  if (!context.reads_files()) return std::nullopt;
  const DatasetIndex& index = *context.inputs.index;
  const std::uint32_t looks = std::min(index.file_count(), most_files_looked_at);
  std::uint32_t refused = 0;
  std::string first;
  for (std::uint32_t i = 0; i < looks; ++i) {
    const auto file = static_cast<std::uint32_t>(std::uint64_t{i} * index.file_count() / looks);
    const std::filesystem::path path = std::filesystem::path(index.facts().root) / index.file_path(file);
    const auto attempt = context.system.read_access(path);
    if (attempt.done) continue;
    if (refused++ == 0) first = fmt::format("{}: {}", shell_word(path.native()), describe_errno(attempt.error));
  }
  if (refused == 0) return fine(fmt::format("{} of {} files looked at can be read", looks, format_number(index.file_count())));
  return DoctorAnswer{
      DoctorStatus::problem,
      fmt::format("{} of {} files looked at cannot be read; {}", refused, looks, first),
      "Give this user the right to read them:",
      {context.system.is_root() ? DoctorCommand{DoctorCommand::Where::here, "dsanalyze dataset verify " + shell_word(context.inputs.settings.dataset)}
                                : DoctorCommand{DoctorCommand::Where::here, fmt::format("sudo chmod -R a+rX {}", shell_word(index.facts().root))}}};
}

std::optional<DoctorAnswer> look_at_filesystem(const DoctorContext& context) {
  if (!context.reads_files()) return std::nullopt;
  const DatasetPlace& place = context.dataset();
  const std::string& type = place.filesystem;
  if (type.empty()) return not_known("/proc/self/mountinfo names no mount of the dataset's folder");
  const std::string lies = lies_on(place);
  if (is_among(type, {"tmpfs", "ramfs", "hugetlbfs"})) {
    return DoctorAnswer{DoctorStatus::problem,
                        lies + ", which is memory: no run can be cold, and S is not a disk's",
                        "Copy it to the disk that training reads from:",
                        {copy_of(place)}};
  }
  if (is_among(type, {"nfs", "nfs4", "cifs", "smb3", "smbfs", "ceph", "lustre", "gpfs", "beegfs", "glusterfs", "afs", "orangefs", "pvfs2"})) {
    return DoctorAnswer{DoctorStatus::warning,
                        fmt::format("{}, across a network: the server's own cache stays warm, and others share it; {}", lies, proof_on(place)),
                        "Read S as that of the server at this hour; spare it with --max-storage-rate. For a disk of one's own:",
                        {copy_of(place)}};
  }
  if (type.starts_with("fuse") || is_among(type, {"9p", "virtiofs", "vboxsf", "prl_fs", "drvfs"})) {
    return DoctorAnswer{DoctorStatus::warning,
                        fmt::format("{}, which another program or the host serves: {}", lies, proof_on(place)),
                        "A profile with cached runs of it is not trusted. Measure on a disk that this kernel reads itself:",
                        {copy_of(place)}};
  }
  if (type == "zfs") {
    return DoctorAnswer{DoctorStatus::warning,
                        lies + ", whose cache (ARC) is not the page cache: a cold run may read from memory",
                        "While measuring, let it cache metadata alone:",
                        {context.as_root("zfs set primarycache=metadata " + shell_word(place.source))}};
  }
  if (type == "overlay" || type == "aufs") {
    DoctorAnswer answer{DoctorStatus::warning,
                        lies + ", the layers of an image: the disk below is not named, and reads take a way of their own",
                        "Keep the dataset outside of the image, in a volume:",
                        {copy_of(place)}};
    if (context.in_container()) answer.commands = {volume_of(context, place)};
    return answer;
  }
  if (is_among(type, {"squashfs", "erofs", "cramfs"})) {
    return DoctorAnswer{DoctorStatus::note,
                        lies + ", which is compressed: S contains unpacking by the CPU",
                        "Measure on the filesystem that training reads from.",
                        {}};
  }
  return fine(fmt::format("{} on {}; {}", printable(type), printable(place.source), proof_on(place)));
}

std::optional<DoctorAnswer> look_at_disk_type(const DoctorContext& context) {
  const DatasetPlace& place = context.dataset();
  if (!context.reads_files() || is_among(place.filesystem, {"tmpfs", "ramfs"})) return std::nullopt;
  if (place.disk.empty()) return not_known(fmt::format("no block device is behind {} ({})", printable(place.path), printable(place.filesystem)));
  const std::string name = disk_name(place);
  if (!place.memory_behind.empty()) {
    return DoctorAnswer{DoctorStatus::problem,
                        printable(place.memory_behind) + ": S may be memory's, and nothing proves a run cold",
                        "Copy the dataset to the disk that training reads from:",
                        {copy_of(place)}};
  }
  if (place.disk.starts_with("nbd") || place.disk.starts_with("rbd") || place.disk.starts_with("drbd")) {
    return DoctorAnswer{
        DoctorStatus::note, name + " is a disk across a network: its server may cache", "Read S as that of the server at this hour.", {}};
  }
  std::vector<std::string> disks = place.disks_below;
  if (disks.empty()) disks.push_back(place.disk);
  if (std::ranges::any_of(disks, [&](const std::string& disk) { return made_by_hypervisor(context, disk); })) {
    return DoctorAnswer{DoctorStatus::note,
                        name + " is a virtual disk: its host may cache, limit it, or lend it speed for a while",
                        "Measure for longer than a burst lasts (--time-budget 10min), and again at another time.",
                        {}};
  }
  const KernelText rotational = context.read(queue_file(place, "rotational"));
  if (!rotational.text) return not_known(rotational.reason);
  if (*rotational.text == "1") {
    return DoctorAnswer{
        DoctorStatus::note,
        name + " is a hard disk: about a hundred random reads a second",
        "Pack the samples into shards, which are read one after another:",
        {{DoctorCommand::Where::here, fmt::format("dsanalyze dataset convert {} SHARDS --to tar", shell_word(context.inputs.settings.dataset))}}};
  }
  return fine(fmt::format("{} ({})", name, place.disk.starts_with("nvme") ? "NVMe" : "solid state"));
}

std::optional<DoctorAnswer> look_at_disk_scheduler(const DoctorContext& context) {
  const DatasetPlace& place = context.dataset();
  if (!context.reads_files() || place.disk.empty() || !place.disks_below.empty()) return std::nullopt;
  const std::string file = queue_file(place, "scheduler");
  const KernelText choices = context.read(file);
  if (!choices.text) return not_known(choices.reason);
  const std::size_t begin = choices.text->find('[');
  const std::string taken = begin == std::string::npos ? *choices.text : choices.text->substr(begin + 1, choices.text->find(']') - begin - 1);
  const bool spins = context.read(queue_file(place, "rotational")).text == "1";
  if (taken == "bfq" && !spins)
    return DoctorAnswer{DoctorStatus::warning,
                        fmt::format("bfq on {}, which has no heads to move", place.disk),
                        "Take requests as they come:",
                        {context.write_file("none", file)}};
  return fine(fmt::format("{} on {}", taken, place.disk));
}

std::optional<DoctorAnswer> look_at_read_ahead(const DoctorContext& context) {
  const ProfileSettings& settings = context.inputs.settings;
  const DatasetPlace& place = context.dataset();
  const bool in_file_order = settings.order != OrderKind::random && settings.read_mode == ReadMode::buffered;
  if (!context.reads_files() || place.disk.empty() || !in_file_order) return std::nullopt;
  const std::string file = queue_file(place, "read_ahead_kb");
  const KernelText text = context.read(file);
  if (!text.text) return not_known(text.reason);
  const auto numbers = parse_cpu_list(*text.text);
  if (numbers.empty()) return not_known(fmt::format("{} holds no number", file));
  const std::string found = fmt::format("{} KiB on {}", numbers.front(), place.disk);
  if (numbers.front() >= least_read_ahead_kib) return fine(found);
  return DoctorAnswer{
      DoctorStatus::warning, found + ", less than Linux's own default of 128", "Read farther ahead:", {context.write_file("512", file)}};
}

std::optional<DoctorAnswer> look_at_access_time(const DoctorContext& context) {
  const DatasetPlace& place = context.dataset();
  if (!context.reads_files() || place.mount_options.empty()) return std::nullopt;
  const std::string options = "," + place.mount_options + ",";
  for (const char* const option : {"noatime", "relatime", "ro"})
    if (options.find(fmt::format(",{},", option)) != std::string::npos) return fine(option);
  if (place.filesystem.starts_with("nfs") || place.filesystem.starts_with("fuse")) return fine("the server's matter");
  return DoctorAnswer{DoctorStatus::warning,
                      fmt::format("{} is mounted with strict access times", printable(place.mount_point)),
                      "Mount it without:",
                      {context.as_root("mount -o remount,noatime " + shell_word(place.mount_point))}};
}

std::optional<DoctorAnswer> look_at_state_space(const DoctorContext& context) {
  const DoctorCommand other_folder{DoctorCommand::Where::here, "export XDG_STATE_HOME=\"$(mktemp -d)\""};
  if (context.inputs.state_directory.empty())
    return DoctorAnswer{DoctorStatus::warning, "neither XDG_STATE_HOME nor HOME names a folder", "Pass -o FILE, or name one:", {other_folder}};
  const auto space = context.system.space(context.inputs.state_directory);
  const std::string folder = shell_word(context.inputs.state_directory.native());
  if (!space.writable)
    return DoctorAnswer{
        DoctorStatus::warning, fmt::format("{} cannot be written to", folder), "Pass -o FILE, or name another folder:", {other_folder}};
  const std::string found = fmt::format("{} free for {}", format_bytes(space.free), folder);
  if (space.free >= room_for_results) return fine(found);
  return DoctorAnswer{DoctorStatus::warning, found, "Make room there, or name another folder:", {other_folder}};
}

namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t most_files_tried = 16;

/// A file with bytes for a try: the first such of a few that lie all over the index.
fs::path some_file(const DatasetIndex& index) {
  const std::uint32_t files = index.file_count();
  for (std::uint32_t i = 0; i < std::min(files, most_files_tried); ++i) {
    const auto file = static_cast<std::uint32_t>(std::uint64_t{i} * files / std::min(files, most_files_tried));
    fs::path path = fs::path(index.facts().root) / index.file_path(file);
    std::error_code error;
    if (fs::is_regular_file(path, error) && fs::file_size(path, error) > 0 && !error) return path;
  }
  return {};
}

}  // namespace

DoctorCommand copy_of(const DatasetPlace& place) { return {DoctorCommand::Where::here, fmt::format("cp -r {} /LOCAL/DISK", shell_word(place.path))}; }

DatasetPlace find_dataset(const DoctorInputs& inputs, DoctorSystem& system) {
  DatasetPlace place;
  if (!inputs.index || inputs.settings.storage != Seam::real) return place;
  place.path = inputs.index->facts().root;
  place.file = some_file(*inputs.index);
  std::error_code error;
  const fs::path absolute = fs::weakly_canonical(place.path, error);
  std::string number = system.device_number(place.path);
  if (const auto mount = mount_of(error ? fs::path(place.path) : absolute, inputs.root)) {
    place.filesystem = mount->filesystem;
    place.source = mount->source;
    place.mount_point = mount->point;
    place.mount_options = mount->options + "," + mount->filesystem_options;
    if (number.empty()) number = mount->device_number;
  }
  BlockDevice device = block_device_at(inputs.root / "sys/dev/block" / number);
  // Filesystems that join devices (btrfs) have a number of their own; what is mounted names one of them.
  if (device.disk.empty() && place.source.starts_with("/dev/"))
    device = block_device_at(inputs.root / "sys/class/block" / fs::path(place.source).filename());
  place.device = device.name;
  place.disk = device.disk;
  place.memory_behind = memory_behind_disk(device.disk, inputs.root);
  if (!place.disk.empty()) {
    for (fs::directory_iterator at(inputs.root / "sys/block" / place.disk / "slaves", error), end; !error && at != end; at.increment(error))
      place.disks_below.push_back(at->path().filename());
    std::ranges::sort(place.disks_below);
  }
  return place;
}

}  // namespace dsanalyze
