#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "core/batch.hpp"
#include "core/device.hpp"
#include "core/index.hpp"
#include "core/workload.hpp"

namespace dsanalyze {

class SampleRoom;

/// One sample to prepare into its place of a batch slot.
struct PrepTask {
  std::span<const std::byte> encoded;
  SampleId sample = 0;
  std::uint64_t generation = 0;       ///< prep generation: alone, the epoch
  Nanoseconds ready = 0;              ///< when its bytes were there (emulated prep starts no earlier)
  std::span<std::byte> output;        ///< exactly Prep::output_bytes()
  SampleRoom* room = nullptr;         ///< where a sample of a size of its own goes, which `output` then points to as a PreparedSample
  std::span<Nanoseconds> spent = {};  ///< what each operator took is added here, as operator_times() counts it; empty: not wanted
};

/// Turns encoded samples into tensors: the augmentation is a pure function of (group seed, generation, sample), so a batch is bit-identical whichever
/// thread, process or server makes it. One object a worker thread; not shared. Steady state: no allocation of ours (what the image libraries
/// allocate for each image apart).
class Prep {
 public:
  virtual ~Prep() = default;
  /// Errors: corrupt (truncated, not an image of this format, absurd dimensions), unsupported. The output is undefined then.
  virtual Status prepare(const PrepTask& task) = 0;
  /// Time spent in each operator since construction, as operator_names() of the factory. Read by others without stopping this thread.
  [[nodiscard]] virtual std::vector<Nanoseconds> operator_times() const = 0;
};

/// Makes one Prep per worker. Threads: any.
class PrepFactory {
 public:
  virtual ~PrepFactory() = default;
  virtual std::unique_ptr<Prep> make() const = 0;
  /// Shape of `count` prepared samples; a sample takes tensor(1).sample_bytes().
  [[nodiscard]] virtual TensorShape tensor(std::int64_t count) const = 0;
  [[nodiscard]] virtual std::vector<std::string_view> operator_names() const = 0;
};

/// Which part of an image becomes the sample.
enum class CropRule : std::uint8_t {
  random_resized,  ///< drawn by (seed, generation, sample), mirrored by chance: the training transform
  centre           ///< torchvision's Resize(resize), CenterCrop(crop_size): the shorter side becomes `resize`; never mirrored, nothing is drawn
};
constexpr std::array<const char*, 2> names_of(CropRule /*type*/) { return {"random_resized", "centre"}; }

struct ImagePrepOptions {
  ImagePrep prep;
  DType dtype = DType::float32;
  Layout layout = Layout::nchw;
  std::uint64_t seed = 0;  ///< group seed of the augmentation
  CropRule crop = CropRule::random_resized;
  int resize = 0;  ///< of the centre rule, at least crop_size; 0: crop_size
};

/// Decode (only the crop's part of the image, as far as the format allows), antialiased resize, flip, normalise. The format is what the first bytes
/// say, whatever the file is called: baseline, progressive and arithmetic-coded, greyscale, CMYK and YCCK JPEG; every PNG; lossy and lossless WebP.
/// Crop and flip depend on width and height alone, so they are the same in each format. Transparency is dropped, as Pillow's convert("RGB") does, and
/// so are gamma and colour profiles; of 16-bit values the upper byte counts (Pillow does the same for colour, and clips grey). Inks of CMYK are taken
/// for inverted, with Adobe's marker or without, as Pillow and torchvision take them. Values are within one level of Pillow's.
///
/// A damaged JPEG that Pillow decodes is decoded to the same pixels (libjpeg patches it and warns). Unsupported: rare kinds of JPEG (lossless, 12
/// bits, two components), animated WebP, GIF and TIFF. Corrupt: everything else, also wrong checksums, a file that ends before its image does, even
/// if the crop lies before the end, a JPEG without its end marker, and images of more than 256 million pixels or 65535 a side. Operators: decode,
/// resize, normalise.
/// Throws UsageError for options out of range.
std::unique_ptr<PrepFactory> make_image_prep(const ImagePrepOptions& options);
/// Copies each sample as it is: arrays that need no prep. "|u1" becomes uint8 and "<f4" float32 with the array's own dimensions, joined into one
/// where there are more than three; any other type becomes its bytes, uint8 [N, sample_bytes]. A sample of another length is corrupt. Operator: copy.
/// Throws UsageError for big-endian numbers, for what is no number (objects, text, records), and for a shape that does not make sample_bytes.
std::unique_ptr<PrepFactory> make_array_prep(const ArrayDescription& array);

/// What a batch has of each sample.
enum class SampleForm : std::uint8_t {
  prepared,  ///< a tensor, of the same shape for all
  decoded,   ///< its pixels, as many as it has
  encoded    ///< its bytes, as they are stored
};
constexpr std::array<const char*, 3> names_of(SampleForm /*type*/) { return {"prepared", "decoded", "encoded"}; }
/// Decodes whole images, in their own sizes, to rows of pixels of three bytes (red, green, blue): a PreparedSample each. What is decoded, and what
/// is not, is as of make_image_prep(). Operator: decode. Errors of prepare() beside those: io with ENOMEM.
std::unique_ptr<PrepFactory> make_decoding_prep();
/// Copies the bytes of each sample: a PreparedSample each. Operator: copy. Errors of prepare(): io with ENOMEM.
std::unique_ptr<PrepFactory> make_encoded_prep();
/// Writes nothing, takes no time; the slots keep the shape that `tensor_like` gives.
std::unique_ptr<PrepFactory> make_null_prep(const TensorShape& tensor_like);
/// Waits `seconds_per_sample` on the first free of the server's virtual cores instead of working; `cores` is shared by all who prep on that server.
std::unique_ptr<PrepFactory> make_emulated_prep(const TensorShape& tensor_like, double seconds_per_sample, std::span<DeviceLane> cores,
                                                Timing timing);

enum class ImageFormat : std::uint8_t { unknown, jpeg, png, webp, gif, tiff };
/// By the first bytes. Those that are only named here (gif, tiff) are unsupported.
ImageFormat recognise_image(std::span<const std::byte> encoded);

/// Facts of an encoded image, from its header alone.
struct ImageInfo {
  int width = 0;
  int height = 0;
  int components = 0;        ///< stored for each pixel, transparency too; 1 with a palette
  bool progressive = false;  ///< or interlaced: comes in several passes over the whole image
  ImageFormat format = ImageFormat::unknown;
};
/// Errors: as prepare() gives them for a header.
Status read_image_info(std::span<const std::byte> encoded, ImageInfo& info);

// A slow-down of known size, for tests of what finds one: each sample burns a share of the CPU time that it took once more, on the same thread. The
// operators' times leave that out.

/// The environment variable that asks for it.
constexpr const char* slow_prep_variable = "DSANALYZE_TEST_SLOW_PREP";
/// The share that it asks for, from 0 to 1; 0 where it is not set. Throws UsageError for anything else.
double slow_prep_share();
std::unique_ptr<PrepFactory> make_slowed_prep(std::unique_ptr<PrepFactory> prep, double share);

}  // namespace dsanalyze
