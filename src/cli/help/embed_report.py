#!/usr/bin/env python3
"""Turns the parts of the HTML report into one C++ source: embed_report.py OUTPUT.cpp PAGE.html PART... (.css and .js, in their order).

The page's content security policy allows exactly these styles and scripts, by their digests.
"""

import base64
import hashlib
import pathlib
import sys

PIECE = 8000  # characters of a literal: compilers need not take more than 65,536 bytes


def digest(text):
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def element(name, path):
    text = path.read_text(encoding="utf-8")
    if f"</{name}" in text.lower() or "<!--" in text:
        sys.exit(f"{path}: holds a text that ends an element <{name}> or opens a comment")
    return text


def policy(styles, scripts):
    return "; ".join(
        [
            "default-src 'none'",
            "base-uri 'none'",
            "form-action 'none'",
            "img-src data:",
            "style-src " + " ".join(map(digest, styles)),
            "style-src-attr 'unsafe-inline'",
            "script-src " + " ".join(map(digest, scripts)),
        ]
    )


def literal(text):
    """A function's body that joins the text from pieces."""
    pieces = [text[start : start + PIECE] for start in range(0, len(text), PIECE)]
    for piece in pieces:
        if ')ASSET"' in piece:
            sys.exit('a part holds the text )ASSET" that ends an embedded piece')
    return "{" + ",\n".join(f'R"ASSET({piece})ASSET"' for piece in pieces) + "}"


def main():
    output, page, *parts = map(pathlib.Path, sys.argv[1:])
    styles = [element("style", part) for part in parts if part.suffix == ".css"]
    scripts = [element("script", part) for part in parts if part.suffix == ".js"]
    assets = {
        "page": page.read_text(encoding="utf-8"),
        "policy": policy(styles, scripts),
        "style": "\n".join(f"<style>{style}</style>" for style in styles),
        "scripts": "\n".join(f"<script>{script}</script>" for script in scripts),
    }
    body = "".join(f"  assets.{name} = joined({literal(text)});\n" for name, text in assets.items())
    output.write_text(
        '#include "cli/commands/saved_profiles.hpp"\n\n#include <initializer_list>\n\n'
        "namespace dsanalyze::cli {\nnamespace {\n\n"
        "std::string joined(std::initializer_list<const char*> pieces) {\n  std::string text;\n"
        "  for (const char* piece : pieces) text += piece;\n  return text;\n}\n\n"
        "}  // namespace\n\n"
        f"HtmlAssets report_assets() {{\n  HtmlAssets assets;\n{body}  return assets;\n}}\n\n"
        "}  // namespace dsanalyze::cli\n",
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
