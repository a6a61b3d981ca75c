#pragma once

#include <string>
#include <string_view>

namespace dsanalyze {

/// A kind of file that people keep samples in and that is not read yet.
struct UnreadFormat {
  std::string_view name;        ///< "TFRecord"
  std::string_view conversion;  ///< how to get a format that is read from it today; "{}" stands for a file's name
};

/// Whether the name ends with the extension (lower-case, with its dot) in any case, and is more than that.
bool has_extension(std::string_view file_name, std::string_view extension);
/// .jpg .jpeg .jpe in any case.
bool is_jpeg_name(std::string_view file_name);
/// The same, and .png .webp.
bool is_image_name(std::string_view file_name);
bool is_jpeg_bytes(std::string_view first_bytes);
/// ".jpg", ".png", ".webp" when the bytes begin such an image, else empty.
std::string_view image_extension_of_bytes(std::string_view first_bytes);
bool is_tar_name(std::string_view file_name);
/// By the magic of ustar and GNU tar, which 263 bytes show; V7 archives have none.
bool is_tar_bytes(std::string_view first_bytes);
bool is_npy_name(std::string_view file_name);

/// By the file's name; nullptr when the name says nothing.
const UnreadFormat* unread_format_of_name(std::string_view file_name);
/// By what the file begins with (some need 512 bytes); nullptr when the bytes say nothing.
const UnreadFormat* unread_format_of_bytes(std::string_view first_bytes);
/// "TFRecord: not yet; convert with ..." for a file of that format.
std::string not_yet(const UnreadFormat& format, std::string_view file_name);
/// The lower-case extension with its dot: ".jpeg"; "" for none.
std::string extension_of(std::string_view file_name);

}  // namespace dsanalyze
