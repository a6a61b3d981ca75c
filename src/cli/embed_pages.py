#!/usr/bin/env python3
"""Turns the commands' help pages (Markdown) into one C++ source: embed_pages.py OUTPUT.cpp PAGE.md..."""

import pathlib
import sys


def main():
    output, *pages = map(pathlib.Path, sys.argv[1:])
    entries = []
    for page in pages:
        text = page.read_text(encoding="utf-8")
        if ")PAGE\"" in text:
            sys.exit(f"{page}: holds the text )PAGE\" that ends an embedded page")
        entries.append(f'    {{"{page.stem}", R"PAGE({text})PAGE"}},\n')
    output.write_text(
        '#include "help_pages.hpp"\n\n#include <array>\n\n'
        "namespace dsanalyze::cli {\nnamespace {\n\n"
        f"constexpr std::array<HelpPage, {len(pages)}> pages{{{{\n" + "".join(entries) + "}};\n\n"
        "}  // namespace\n\n"
        "std::span<const HelpPage> help_pages() { return pages; }\n\n"
        "}  // namespace dsanalyze::cli\n",
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
