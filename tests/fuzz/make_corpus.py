"""Writes the corpora that are made by programs: images, indexes, traces and records by ours, archives by Python's tarfile, ranks' words. The rest was written by hand, or found.

usage: make_corpus.py BUILD_FOLDER     (after: ninja -C BUILD_FOLDER tests/fuzz/make_fuzz_corpus)
"""

import io
import pathlib
import struct
import subprocess
import sys
import tarfile

CORPUS = pathlib.Path(__file__).resolve().parent / "corpus"
NPY = b"\x93NUMPY\x01\x00\x76\x00" + b"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }".ljust(117) + b"\n" + bytes(8)

MEMBERS = [("a/000.jpg", b"\xff\xd8\xff not quite"), ("a/000.cls", b"3"), ("a/001.png", b"\x89PNG" * 200), ("a/001.cls", b"4\n")]
ARRAYS = [("0.npy", NPY), ("1.npy", NPY), ("1.cls", b"-1")]
LONG = [("long/" * 40 + "0.jpg", b"x"), ("ü" * 90 + "/1.jpg", b"y"), ("l" * 101 + ".webp", b"z")]
ODD = [("nodot", b"?"), (".hidden", b"?"), ("0.txt", b"text"), ("0.cls", b"no number"), ("1.jpg", b""), ("1.jpeg", b"second"), ("2.jpg", b"!")]


def archive(members, form, **options):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form, **options) as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


def with_others():
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, kind in (("d", tarfile.DIRTYPE), ("l.jpg", tarfile.SYMTYPE), ("h.jpg", tarfile.LNKTYPE), ("p", tarfile.FIFOTYPE)):
            info = tarfile.TarInfo(name)
            info.type = kind
            info.linkname = "0.jpg"
            tar.addfile(info)
        info = tarfile.TarInfo("0.jpg")
        info.size = 5
        tar.addfile(info, io.BytesIO(b"bytes"))
    return out.getvalue()


def trimmed(tar):
    """Without all but two of the zero blocks at the end."""
    end = len(tar.rstrip(b"\0"))
    return tar[: (end + 511) // 512 * 512 + 1024]


def frame(kind, number, body):
    """As src/transport/wire/wire.hpp has it; checksums are not the parser's to look at."""
    return struct.pack("<IIQQ", kind, len(body), number, 0) + body


def rank_words():
    words = {
        "greeting": b"dsaRank\n" + struct.pack("<I", 1) + bytes(range(32)),
        "requests": frame(1, 5, struct.pack("<IIII", 1, 110000, 2, 90000)),
        "reply": frame(2, 5, b"bytes of a sample"),
        "answers": frame(3, 6, b"") + frame(4, 7, b"") + frame(5, 0, b""),
        "gather": frame(6, 1 << 32, bytes(16)) + frame(6, (1 << 32) + 1, b""),
        "masks": frame(7, 10, b"\xff\x07") + frame(8, 10, b"\x01\x00"),
        "large": struct.pack("<IIQQ", 2, 0xFFFFFFFF, 0, 0),
    }
    words["claim"] = words["greeting"] + bytes(72)
    return words


def main():
    tars = {
        "ustar": trimmed(archive(MEMBERS, tarfile.USTAR_FORMAT)),
        "gnu-long": trimmed(archive(LONG, tarfile.GNU_FORMAT)),
        "pax-long": trimmed(archive(LONG, tarfile.PAX_FORMAT)),
        "pax-global": trimmed(archive(MEMBERS[:1], tarfile.PAX_FORMAT, pax_headers={"comment": "all"})),
        "arrays": trimmed(archive(ARRAYS, tarfile.USTAR_FORMAT)),
        "odd": trimmed(archive(ODD, tarfile.USTAR_FORMAT)),
        "others": trimmed(with_others()),
        "pax-records": b"14 path=a.jpg\n12 size=512\n16 linkpath=a.b\n",
    }
    tars["torn"] = tars["ustar"][:2700]
    tars["torn-header"] = tars["arrays"][:700]
    tars["joined"] = tars["ustar"] + tars["arrays"]
    (CORPUS / "tar").mkdir(parents=True, exist_ok=True)
    for name, content in tars.items():
        (CORPUS / "tar" / name).write_bytes(content)
    (CORPUS / "ranks").mkdir(parents=True, exist_ok=True)
    for name, content in rank_words().items():
        (CORPUS / "ranks" / name).write_bytes(content)
    subprocess.run([pathlib.Path(sys.argv[1]).resolve() / "tests/fuzz/make_fuzz_corpus", CORPUS], check=True)


if __name__ == "__main__":
    main()
