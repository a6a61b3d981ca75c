#include "sample_bytes.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string_view>

#include "../prep/any_image_decoder.hpp"
#include "dsanalyze/base/error.hpp"
#include "dsanalyze/base/files.hpp"
#include "format_names.hpp"

namespace dsanalyze {
namespace {

std::string not_an_image(std::string_view bytes) {
  const UnreadFormat* format = unread_format_of_bytes(bytes);
  return format == nullptr ? "not a JPEG, PNG or WebP file" : "not a JPEG, PNG or WebP file but " + std::string(format->name);
}

std::string decode_all(AnyImageDecoder& decoder, const std::vector<std::byte>& bytes, std::uint64_t& pixels) {
  const auto cause_of = [&](const Status& status) {
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (is_jpeg_bytes(text)) return decoder.jpeg_cause();
    const std::string_view kind = image_extension_of_bytes(text) == ".png" ? "PNG" : "WebP";
    return fmt::format("a {} image that does not decode ({})", kind, status_name(status.code));
  };
  Status status = decoder.open(bytes);
  if (!status.ok()) return cause_of(status);
  const ImageInfo info = decoder.info();
  status = decoder.begin({0, 0, info.width, info.height}, 1);
  for (PixelRows rows; status.ok();) {
    status = decoder.next_rows(rows);
    if (status.ok() && rows.count == 0) break;
  }
  if (!status.ok()) return cause_of(status);
  pixels = static_cast<std::uint64_t>(info.width) * static_cast<std::uint64_t>(info.height);
  return {};
}

}  // namespace

std::string read_sample_bytes(const DatasetIndex& index, SampleId sample, std::vector<std::byte>& bytes) {
  const IndexRecord& record = index[sample];
  const std::filesystem::path file = std::filesystem::path(index.facts().root) / index.file_path(record.file);
  const FileDescriptor descriptor = open_file(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (!descriptor.valid()) return describe_errno(errno);
  struct stat facts {};
  if (fstat(descriptor.get(), &facts) != 0) return describe_errno(errno);
  if (!S_ISREG(facts.st_mode)) return "it is no file";
  const auto size = static_cast<std::uint64_t>(facts.st_size);
  if (record.offset > size || record.length > size - record.offset) {
    return fmt::format("its file has {} bytes, fewer than when the index was made, or is cut off ({} bytes at {} are needed)", size, record.length,
                       record.offset);
  }
  if (index.facts().format == "folder" && size != record.length)
    return fmt::format("it has {} bytes, more than when the index was made ({})", size, record.length);
  bytes.resize(record.length);
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t got = pread(descriptor.get(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(record.offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return describe_errno(errno);
    if (got == 0) return "it became shorter while it was read";
    done += static_cast<std::size_t>(got);
  }
  return {};
}

struct ImageChecker::Decoder {
  AnyImageDecoder images;
};

ImageChecker::ImageChecker() : m_decoder(std::make_unique<Decoder>()) {}
ImageChecker::~ImageChecker() = default;

std::string ImageChecker::check(const std::vector<std::byte>& bytes, std::uint64_t& pixels) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (bytes.empty()) return "the file is empty";
  if (image_extension_of_bytes(text).empty()) return not_an_image(text);
  return decode_all(m_decoder->images, bytes, pixels);
}

}  // namespace dsanalyze
