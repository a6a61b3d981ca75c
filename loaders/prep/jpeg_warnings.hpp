#pragma once

#include <cstddef>
#include <cstdio>

#include <jpeglib.h>

#include <jerror.h>

namespace dsanalyze {

/// The rule for every reader of JPEG files: of what libjpeg only warns about, one thing makes a file unusable, that it ended before its image did.
///
/// Pillow and torchvision have the same rule. They decode odd progressions, bytes between markers and segments that are damaged, which the library
/// patches, and so must a loader in their place.
constexpr bool is_truncation(int warning) { return warning == JWRN_JPEG_EOF; }

}  // namespace dsanalyze
