"""JPEG files that the library warns about or refuses, made of plain ones: what pixels_vs_pillow.py asks prep and Pillow about."""
import io
import random
import struct

import numpy
from PIL import Image

SOI, EOI, SOS, DHT, ADOBE = 0xD8, 0xD9, 0xDA, 0xC4, 0xEE
RESTARTS = range(0xD0, 0xD8)


def picture(width, height, channels):
    y, x = numpy.mgrid[0:height, 0:width]
    planes = [128 + 60 * numpy.sin(x * 0.2 + c) + 50 * numpy.cos(y * 0.15 - c) + ((x // 9 + y // 7 + c) % 3 == 0) * 15 for c in range(channels)]
    pixels = numpy.stack(planes, -1).clip(0, 255).astype(numpy.uint8)
    return Image.fromarray(pixels[..., 0], "L") if channels == 1 else Image.fromarray(pixels, {3: "RGB", 4: "CMYK"}[channels])


def encoded(channels, width=40, height=32, **options):
    file = io.BytesIO()
    picture(width, height, channels).save(file, "JPEG", quality=60, **options)
    return file.getvalue()


def segments(file):
    """[(marker, bytes)] behind the first marker; a scan's data belongs to its header."""
    found = []
    at = 2
    while True:
        marker = file[at + 1]
        if marker == EOI:
            return found + [(marker, file[at:at + 2])]
        end = at + 2 + struct.unpack(">H", file[at + 2:at + 4])[0]
        while marker == SOS and not (file[end] == 0xFF and file[end + 1] != 0 and file[end + 1] not in RESTARTS):
            end += 1
        found.append((marker, file[at:end]))
        at = end


def joined(parts):
    return bytes([0xFF, SOI]) + b"".join(part for _, part in parts)


def adobe(transform):
    return ADOBE, bytes([0xFF, ADOBE]) + b"\0\x0eAdobe\0\x64\0\0\0\0" + bytes([transform])


def scan_with_tables(parts, scan):
    first = scan
    while parts[first - 1][0] == DHT:
        first -= 1
    return range(first, scan + 1)


def not_sequential(parts):
    changed = []
    for marker, part in parts:
        if marker == SOS:
            at = 5 + 2 * part[4]
            part = part[:at] + bytes([0, 0, 0]) + part[at + 3:]
        changed.append((marker, part))
    return joined(changed)


def odd_progressions(parts):
    scans = [place for place, (marker, _) in enumerate(parts) if marker == SOS]
    for number, scan in enumerate(scans):
        with_tables = scan_with_tables(parts, scan)
        again = [parts[place] for place in with_tables]
        yield f"scan-{number}-missing", joined([part for place, part in enumerate(parts) if place not in with_tables])
        yield f"scan-{number}-twice", joined(parts[:scan + 1] + again + parts[scan + 1:])
        yield f"scan-{number}-last", joined(parts[:scan + 1] + parts[-1:])


def odd_inks():
    inks = segments(encoded(4))
    bare = [part for part in inks if part[0] != ADOBE]
    yield "cmyk-with-marker", joined(inks)
    yield "cmyk-without-marker", joined(bare)
    for transform in (0, 1, 2, 7):
        yield f"cmyk-transform-{transform}", joined([adobe(transform)] + bare)
        yield f"rgb-transform-{transform}", joined([adobe(transform)] + segments(encoded(3))[1:])


def odd_ends(kind, file, rng):
    header = file.index(bytes([0xFF, SOS])) + 14
    for share in (0.3, 0.7, 0.99):
        cut = header + int((len(file) - 2 - header) * share)
        yield f"{kind}-cut-{share}", file[:cut]
        yield f"{kind}-ended-early-{share}", file[:cut] + bytes([0xFF, EOI])
    yield f"{kind}-without-end", file[:-2]
    yield f"{kind}-trailing", file + bytes(100)
    yield f"{kind}-two-in-one", file + file
    for number in range(20):
        damaged = bytearray(file)
        for _ in range(1 + number % 4):
            damaged[rng.randrange(header, len(file) - 2)] ^= 1 << rng.randrange(8)
        yield f"{kind}-damaged-{number}", bytes(damaged)


def odd_jpegs(seed):
    """(name, bytes) of each."""
    rng = random.Random(seed)
    plain, progressive, grey = encoded(3, subsampling=2), encoded(3, progressive=True, subsampling=2), encoded(1)
    parts = segments(plain)
    yield "not-sequential", not_sequential(parts)
    yield "bytes-between-markers", joined(parts[:2] + [(0, b"\0bytes\1")] + parts[2:])
    yield "jfif-3", plain.replace(b"JFIF\0\1\1", b"JFIF\0\3\1")
    yield from odd_progressions(segments(progressive))
    yield from odd_inks()
    for kind, file in (("baseline", plain), ("progressive", progressive), ("grey", grey)):
        yield from odd_ends(kind, file, rng)
