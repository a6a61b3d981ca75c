#include "abi_call.hpp"

#include <array>
#include <cstring>

namespace dsanalyze::client {
namespace {

thread_local std::array<char, 2048> thread_error{};

bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

}  // namespace

const char* last_error() noexcept { return thread_error.data(); }

void set_last_error(std::string_view text) noexcept {
  std::size_t size = text.size();
  if (size >= thread_error.size()) {
    size = thread_error.size() - 1;
    while (size > 0 && continues_character(text[size])) --size;
  }
  std::memmove(thread_error.data(), text.data(), size);
  thread_error[size] = '\0';
}

}  // namespace dsanalyze::client
