#include "format_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace dsanalyze {
namespace {

using namespace std::string_view_literals;

constexpr UnreadFormat tfrecord{
    "TFRecord",
    R"(mkdir -p folder && python3 -c "import sys, tensorflow as tf; [open(f'folder/{{n:08d}}.jpg', 'wb').write(tf.train.Example.FromString(r.numpy()).features.feature['image/encoded'].bytes_list.value[0]) for n, r in enumerate(tf.data.TFRecordDataset(sys.argv[1:]))]" '{}')"};
constexpr UnreadFormat record_io{
    "MXNet RecordIO",
    R"(mkdir -p folder && python3 -c "import sys, mxnet as mx; r = mx.recordio.MXRecordIO(sys.argv[1], 'r'); [open(f'folder/{{n:08d}}.jpg', 'wb').write(mx.recordio.unpack(s)[1]) for n, s in enumerate(iter(r.read, None))]" '{}')"};
constexpr UnreadFormat record_io_index{"MXNet RecordIO", "the command for the .rec file that '{}' belongs to"};
constexpr UnreadFormat compressed_tar{
    "compressed tar archive",
    "nothing: decompress it (gunzip, zstd -d, bunzip2, unxz: '{}' becomes a .tar); samples are read at random, which needs a plain tar"};
constexpr UnreadFormat zip{"zip archive", "unzip -q '{}' -d folder"};
constexpr UnreadFormat parquet{
    "Parquet",
    R"(mkdir -p folder && python3 -c "import sys, pyarrow.parquet as p; [open(f'folder/{{n:08d}}.jpg', 'wb').write(i['bytes']) for n, i in enumerate(p.read_table(sys.argv[1])['image'].to_pylist())]" '{}')"};
constexpr UnreadFormat lmdb{
    "LMDB",
    R"(mkdir -p folder && python3 -c "import os, sys, lmdb; e = lmdb.open(sys.argv[1], subdir=os.path.isdir(sys.argv[1]), readonly=True, lock=False); [open(f'folder/{{n:08d}}.jpg', 'wb').write(v) for n, (k, v) in enumerate(e.begin().cursor())]" '{}')"
    " (where each value is one JPEG file)"};
constexpr UnreadFormat hdf5{
    "HDF5",
    R"(mkdir -p folder && python3 -c "import sys, h5py; [open(f'folder/{{n:08d}}.jpg', 'wb').write(bytes(v)) for n, v in enumerate(h5py.File(sys.argv[1])['images'])]" '{}')"
    " (where the table 'images' holds one JPEG file a row; h5ls shows the tables)"};
constexpr UnreadFormat npz{"NumPy archive (.npz)",
                           R"(python3 -c "import sys, numpy; a = numpy.load(sys.argv[1]); numpy.save('samples.npy', a[a.files[0]]);" '{}')"
                           " (the first of its arrays; an .npy file is read as it is)"};
constexpr UnreadFormat ffcv{"FFCV .beton", "nothing: a .beton file is made from a folder of images; give that folder instead of '{}'"};
constexpr UnreadFormat mosaic{
    "MosaicML streaming (MDS)",
    R"(mkdir -p folder && python3 -c "import streaming; [s['image'].convert('RGB').save(f'folder/{{n:08d}}.jpg', quality=95) for n, s in enumerate(streaming.StreamingDataset(local='.', batch_size=1))]")"
    " in the folder of '{}'"};
constexpr UnreadFormat other_image{"images other than JPEG, PNG and WebP (GIF, BMP, TIFF)",
                                   "mogrify -format png '{}' (ImageMagick; with '*' in place of the name for a whole folder), then move "
                                   "the .png files to a folder of their own"};
constexpr UnreadFormat audio{"audio (MP3, WAV, FLAC)", "nothing today: only images and arrays are read, and '{}' is sound"};

struct NamedExtension {
  std::string_view extension;
  const UnreadFormat* format;
};

constexpr std::array extensions{
    NamedExtension{".tfrecord", &tfrecord},
    NamedExtension{".tfrecords", &tfrecord},
    NamedExtension{".tfrec", &tfrecord},
    NamedExtension{".rec", &record_io},
    NamedExtension{".idx", &record_io_index},
    NamedExtension{".tgz", &compressed_tar},
    NamedExtension{".tar.gz", &compressed_tar},
    NamedExtension{".tar.zst", &compressed_tar},
    NamedExtension{".tar.bz2", &compressed_tar},
    NamedExtension{".tar.xz", &compressed_tar},
    NamedExtension{".tar.lz4", &compressed_tar},
    NamedExtension{".zip", &zip},
    NamedExtension{".parquet", &parquet},
    NamedExtension{".lmdb", &lmdb},
    NamedExtension{".h5", &hdf5},
    NamedExtension{".hdf5", &hdf5},
    NamedExtension{".npz", &npz},
    NamedExtension{".beton", &ffcv},
    NamedExtension{".mds", &mosaic},
    NamedExtension{".mds.zstd", &mosaic},
    NamedExtension{".gif", &other_image},
    NamedExtension{".bmp", &other_image},
    NamedExtension{".tif", &other_image},
    NamedExtension{".tiff", &other_image},
    NamedExtension{".mp3", &audio},
    NamedExtension{".wav", &audio},
    NamedExtension{".flac", &audio},
};

struct Magic {
  std::size_t offset;
  std::string_view bytes;
  const UnreadFormat* format;
};

// MXNet's record head is 0xced7230a, little-endian; 0xbeefc0de is LMDB's meta page behind its 16-byte page head.
constexpr std::array magics{
    Magic{0, "\x0a\x23\xd7\xce"sv, &record_io},
    Magic{0, "PK\x03\x04"sv, &zip},
    Magic{0, "PAR1"sv, &parquet},
    Magic{16, "\xde\xc0\xef\xbe"sv, &lmdb},
    Magic{0, "\x89HDF\r\n\x1a\n"sv, &hdf5},
    Magic{0, "GIF8"sv, &other_image},
    Magic{0, "II*\0"sv, &other_image},
    Magic{0, "MM\0*"sv, &other_image},
    Magic{8, "WAVE"sv, &audio},
    Magic{0, "fLaC"sv, &audio},
    Magic{0, "ID3"sv, &audio},
};

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

/// "train-00000-of-01024", "imagenet.tfrecord-00000-of-01024": how TensorFlow names the shards of a dataset.
bool is_shard_name(std::string_view name) {
  const std::size_t of = name.rfind("-of-");
  if (of == std::string_view::npos) return false;
  const auto digits = [](std::string_view text) {
    return text.size() >= 4 && std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
  };
  const std::string_view before = name.substr(0, of);
  const std::size_t dash = before.rfind('-');
  return dash != std::string_view::npos && digits(before.substr(dash + 1)) && digits(name.substr(of + 4));
}

}  // namespace

bool has_extension(std::string_view file_name, std::string_view extension) {
  if (file_name.size() <= extension.size()) return false;
  return std::equal(extension.begin(), extension.end(), file_name.end() - static_cast<std::ptrdiff_t>(extension.size()),
                    [](char wanted, unsigned char c) { return wanted == static_cast<char>(std::tolower(c)); });
}

bool is_jpeg_name(std::string_view file_name) {
  return has_extension(file_name, ".jpg") || has_extension(file_name, ".jpeg") || has_extension(file_name, ".jpe");
}

bool is_image_name(std::string_view file_name) {
  return is_jpeg_name(file_name) || has_extension(file_name, ".png") || has_extension(file_name, ".webp");
}

std::string_view image_extension_of_bytes(std::string_view first_bytes) {
  if (is_jpeg_bytes(first_bytes)) return ".jpg";
  if (first_bytes.starts_with("\x89PNG\r\n\x1a\n")) return ".png";
  if (first_bytes.starts_with("RIFF") && first_bytes.size() >= 12 && first_bytes.substr(8).starts_with("WEBP")) return ".webp";
  return {};
}

bool is_tar_name(std::string_view file_name) { return has_extension(file_name, ".tar"); }

bool is_tar_bytes(std::string_view first_bytes) { return first_bytes.size() > 257 && first_bytes.substr(257).starts_with("ustar"); }

bool is_npy_name(std::string_view file_name) { return has_extension(file_name, ".npy"); }

bool is_jpeg_bytes(std::string_view first_bytes) { return first_bytes.starts_with("\xff\xd8\xff"); }

const UnreadFormat* unread_format_of_name(std::string_view file_name) {
  const std::string name = lower(file_name);
  const auto* named = std::find_if(extensions.begin(), extensions.end(), [&](const NamedExtension& one) { return name.ends_with(one.extension); });
  if (named != extensions.end()) return named->format;
  if (name == "data.mdb") return &lmdb;
  return is_shard_name(name) ? &tfrecord : nullptr;
}

const UnreadFormat* unread_format_of_bytes(std::string_view first_bytes) {
  const auto* found = std::find_if(magics.begin(), magics.end(), [&](const Magic& magic) {
    return first_bytes.size() > magic.offset && first_bytes.substr(magic.offset).starts_with(magic.bytes);
  });
  return found == magics.end() ? nullptr : found->format;
}

std::string not_yet(const UnreadFormat& format, std::string_view file_name) {
  const std::string how = fmt::format(fmt::runtime(format.conversion), file_name);
  const bool gives_a_folder = how.find("folder") != std::string::npos;
  return fmt::format("{}: not yet; convert with: {}{}", format.name, how,
                     gives_a_folder ? " (then, for shards that are read faster: dsanalyze dataset convert folder shards --to tar)" : "");
}

std::string extension_of(std::string_view file_name) {
  const std::size_t dot = file_name.rfind('.');
  return dot == std::string_view::npos || dot == 0 ? std::string() : lower(file_name.substr(dot));
}

}  // namespace dsanalyze
