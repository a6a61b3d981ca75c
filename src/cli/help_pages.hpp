#pragma once

#include <span>
#include <string>
#include <string_view>

namespace dsanalyze::cli {

/// A help page as written, in Markdown; `name` is its file's name without ".md".
struct HelpPage {
  std::string_view name;
  std::string_view markdown;
};

/// All pages of this folder (the source is made at build time by embed_pages.py).
std::span<const HelpPage> help_pages();

/// The page for a terminal: headings without marks, code without back quotes, the options that all commands share at the end.
/// Throws std::logic_error for a name without a page.
std::string help_text(std::string_view name);

}  // namespace dsanalyze::cli
