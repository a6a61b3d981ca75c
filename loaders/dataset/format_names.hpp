#pragma once

#include <string>
#include <string_view>

namespace dsanalyze {

/// A kind of file that people keep samples in and that is not read yet.
struct UnreadFormat {
  std::string_view name;        ///< "TFRecord"
  std::string_view conversion;  ///< how to get a folder of JPEG files from it today; "{}" stands for a file's name
};

/// .jpg .jpeg .jpe in any case.
bool is_jpeg_name(std::string_view file_name);
bool is_jpeg_bytes(std::string_view first_bytes);

/// By the file's name; nullptr when the name says nothing.
const UnreadFormat* unread_format_of_name(std::string_view file_name);
/// By what the file begins with (some need 512 bytes); nullptr when the bytes say nothing.
const UnreadFormat* unread_format_of_bytes(std::string_view first_bytes);
/// "TFRecord: not yet; convert with ..." for a file of that format.
std::string not_yet(const UnreadFormat& format, std::string_view file_name);
/// The lower-case extension with its dot: ".jpeg"; "" for none.
std::string extension_of(std::string_view file_name);

}  // namespace dsanalyze
