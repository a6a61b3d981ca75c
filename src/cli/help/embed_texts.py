#!/usr/bin/env python3
"""Turns text files into one C++ source: embed_texts.py OUTPUT.cpp FUNCTION FILE... makes `std::span<const EmbeddedText> FUNCTION()`."""

import pathlib
import sys

END_MARK = ')TEXT"'


def main():
    output, function, *files = sys.argv[1:]
    entries = []
    for file in map(pathlib.Path, files):
        text = file.read_text(encoding="utf-8")
        if END_MARK in text:
            sys.exit(f"{file}: holds the text {END_MARK} that ends an embedded one")
        entries.append(f'    {{"{file.stem}", R"TEXT({text})TEXT"}},\n')
    pathlib.Path(output).write_text(
        '#include "cli/help/help.hpp"\n\n#include <array>\n\n'
        "namespace dsanalyze::cli {\nnamespace {\n\n"
        f"constexpr std::array<EmbeddedText, {len(entries)}> {function}_texts{{{{\n" + "".join(entries) + "}};\n\n"
        "}  // namespace\n\n"
        f"std::span<const EmbeddedText> {function}() {{ return {function}_texts; }}\n\n"
        "}  // namespace dsanalyze::cli\n",
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
