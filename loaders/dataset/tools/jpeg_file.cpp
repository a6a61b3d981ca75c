#include "photograph_files.hpp"

#include <jpeglib.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdlib>

#include "base/error.hpp"
#include "loaders/prep/jpeg_decoder.hpp"

namespace dsanalyze {

/// libjpeg's errors as a text. The library knows only jumps, so nothing with a destructor may live between guarded() and what it calls.
struct JpegErrorCatcher {
  jpeg_error_mgr base{};
  std::jmp_buf jump{};
  std::array<char, JMSG_LENGTH_MAX> text{};
  bool failed = false;

  JpegErrorCatcher() {
    jpeg_std_error(&base);
    base.error_exit = [](j_common_ptr info) {
      auto* self = reinterpret_cast<JpegErrorCatcher*>(info->err);
      self->keep_text(info);
      std::longjmp(self->jump, 1);
    };
    base.emit_message = [](j_common_ptr info, int level) {
      auto* self = reinterpret_cast<JpegErrorCatcher*>(info->err);
      if (level < 0 && is_truncation(info->err->msg_code) && !self->failed) self->keep_text(info);
    };
  }
  [[nodiscard]] std::string cause() const { return text.data(); }

 private:
  void keep_text(j_common_ptr info) {
    failed = true;
    (*info->err->format_message)(info, text.data());
  }
};

namespace {

constexpr std::uint64_t most_pixels = std::uint64_t{1} << 28;

/// False if libjpeg gave up inside `work`, which must keep nothing that has a destructor.
template <typename Work>
bool guarded(JpegErrorCatcher& errors, const Work& work) {
  if (setjmp(errors.jump) != 0) return false;  // NOLINT(*-err52-cpp): the library's only way out
  work();
  return true;
}

struct Decompressor {
  JpegErrorCatcher errors;
  jpeg_decompress_struct info{};

  Decompressor() {
    info.err = &errors.base;
    guarded(errors, [this] { jpeg_create_decompress(&info); });
  }
  Decompressor(const Decompressor&) = delete;
  Decompressor& operator=(const Decompressor&) = delete;
  Decompressor(Decompressor&&) = delete;
  Decompressor& operator=(Decompressor&&) = delete;
  ~Decompressor() { jpeg_destroy_decompress(&info); }

  /// Reads the header. False with a cause when there is none or the size is absurd.
  bool open(const unsigned char* bytes, std::size_t size, std::string& cause) {
    const bool opened = guarded(errors, [&] {
      jpeg_mem_src(&info, bytes, size);
      jpeg_read_header(&info, TRUE);
    });
    if (!opened) cause = errors.cause();
    if (opened && std::uint64_t{info.image_width} * info.image_height > most_pixels) {
      cause = "absurd dimensions: " + std::to_string(info.image_width) + " x " + std::to_string(info.image_height);
      return false;
    }
    return opened;
  }
};

}  // namespace

RgbImage decode_photograph(std::string_view encoded, int least_short_side) {
  Decompressor decoder;
  std::string cause;
  if (!decoder.open(reinterpret_cast<const unsigned char*>(encoded.data()), encoded.size(), cause)) throw Error(cause);
  jpeg_decompress_struct& info = decoder.info;
  info.out_color_space = JCS_RGB;
  const auto short_side = static_cast<int>(std::min(info.image_width, info.image_height));
  info.scale_num = 1;
  info.scale_denom = short_side / 2 >= least_short_side ? 2 : 1;

  RgbImage image;
  if (!guarded(decoder.errors, [&] { jpeg_start_decompress(&info); })) throw Error(decoder.errors.cause());
  image.width = static_cast<int>(info.output_width);
  image.height = static_cast<int>(info.output_height);
  image.pixels.resize(static_cast<std::size_t>(image.width) * static_cast<std::size_t>(image.height) * 3);
  guarded(decoder.errors, [&] {
    while (info.output_scanline < info.output_height) {
      JSAMPROW row = image.row(static_cast<int>(info.output_scanline));
      jpeg_read_scanlines(&info, &row, 1);
    }
    jpeg_finish_decompress(&info);
  });
  if (decoder.errors.failed) throw Error(decoder.errors.cause());
  return image;
}

struct JpegEncoder::State {
  JpegErrorCatcher errors;
  jpeg_compress_struct info{};
  unsigned char* memory = nullptr;
  unsigned long size = 0;  // NOLINT(google-runtime-int): jpeg_mem_dest's type
};

JpegEncoder::JpegEncoder() : m_state(std::make_unique<State>()) {
  m_state->info.err = &m_state->errors.base;
  if (!guarded(m_state->errors, [this] { jpeg_create_compress(&m_state->info); })) throw Error(m_state->errors.cause());
}

JpegEncoder::~JpegEncoder() {
  jpeg_destroy_compress(&m_state->info);
  std::free(m_state->memory);
}

std::span<const std::byte> JpegEncoder::encode(const RgbImage& image, int quality, const std::string& comment) {
  State& state = *m_state;
  jpeg_compress_struct& info = state.info;
  std::free(state.memory);  // libjpeg takes memory of its own when it is given none, and the caller frees it
  state.memory = nullptr;
  state.size = 0;
  const bool encoded = guarded(state.errors, [&] {
    jpeg_mem_dest(&info, &state.memory, &state.size);
    info.image_width = static_cast<JDIMENSION>(image.width);
    info.image_height = static_cast<JDIMENSION>(image.height);
    info.input_components = 3;
    info.in_color_space = JCS_RGB;
    jpeg_set_defaults(&info);
    jpeg_set_quality(&info, quality, TRUE);
    jpeg_start_compress(&info, TRUE);
    if (!comment.empty()) {
      jpeg_write_marker(&info, JPEG_COM, reinterpret_cast<const JOCTET*>(comment.data()), static_cast<unsigned int>(comment.size()));
    }
    while (info.next_scanline < info.image_height) {
      auto* row = const_cast<JSAMPROW>(image.row(static_cast<int>(info.next_scanline)));  // libjpeg reads it only
      jpeg_write_scanlines(&info, &row, 1);
    }
    jpeg_finish_compress(&info);
  });
  if (!encoded) {
    state.memory = nullptr;  // it may have been freed already when a larger one took its place
    jpeg_abort_compress(&info);
    throw Error(state.errors.cause());
  }
  return {reinterpret_cast<const std::byte*>(state.memory), state.size};
}

}  // namespace dsanalyze
