#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dsanalyze::cli {

/// A text file of the sources that is part of the program (embed_texts.py writes the functions' source at build time).
struct EmbeddedText {
  std::string_view name;  ///< the file's, without its extension
  std::string_view text;
};

/// The help pages of this folder, in Markdown.
std::span<const EmbeddedText> help_pages();
/// The scripts of completions/: bash, fish, zsh.
std::span<const EmbeddedText> completion_scripts();

/// The page for a terminal, with its groups of options from their tables: headings without marks, code without back quotes, the options that all
/// commands share at the end. As it is written where there are 80 columns; in fewer, down to 40, sentences and what is said of options are laid out
/// anew. Lines to copy, and JSON, are never broken. Throws std::logic_error for a name without a page.
std::string help_text(std::string_view name, int width = 80);
/// What --help shows first: the command's short page, by task, where it has one; else its page.
std::string short_help_text(std::string_view name, int width = 80);
/// The same for Markdown that is no page, or is that of a command.
std::string laid_out_help(std::string_view markdown, int width, std::string_view command = {});

/// What a shell may put in place of the word under the cursor.
struct Completion {
  enum class Paths { none, files, folders };
  struct Candidate {
    std::string word;
    std::string text;  ///< what it means; may be empty
  };
  std::vector<Candidate> candidates;
  Paths paths = Paths::none;  ///< names of the file system complete it too
};

/// `words`: what was typed after the program's name up to the cursor, the last one (perhaps empty) under it. Never throws for what was typed: where
/// nothing is known, nothing is offered.
Completion complete(const std::vector<std::string>& words);

/// For the shells' scripts: a line a candidate (word, tab, text), and ":files" or ":folders".
std::string completion_lines(const Completion& completion);

/// The script that hooks the program up to a shell: bash, zsh or fish.
std::string completion_script(const std::string& shell);

}  // namespace dsanalyze::cli
