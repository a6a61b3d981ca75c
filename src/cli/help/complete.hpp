#pragma once

#include <string>
#include <vector>

namespace dsanalyze::cli {

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
