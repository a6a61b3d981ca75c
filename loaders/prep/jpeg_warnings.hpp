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

/// Whether a warning means that image data is damaged and that the library patched it: it took zeros for codes that it could not read, and skipped
/// what it could not place, so pixels differ from those that were encoded. `scan` is the number of the scan that is read, 0 before the first one:
/// bytes that are skipped there hold no pixels. Odd progressions and parameters of scans, versions of JFIF, transforms of Adobe's and profiles are no
/// damage either.
constexpr bool is_patched_damage(int warning, int scan) {
  switch (warning) {
    case JWRN_ARITH_BAD_CODE:
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_MUST_RESYNC:
      return true;
    case JWRN_EXTRANEOUS_DATA:
      return scan > 0;
    default:
      return false;
  }
}

}  // namespace dsanalyze
