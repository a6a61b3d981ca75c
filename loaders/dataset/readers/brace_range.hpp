#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace dsanalyze {

/// Whether the text holds a brace range as the shell, and users of WebDataset, write it: "train-{000000..000146}.tar", "{train,val}-{0..9}.tar".
bool has_brace_range(std::string_view text);
/// What it stands for, in the order that the shell gives; a text without a range stands for itself. Numbers keep their leading zeros. Throws Error
/// when a range is not closed or stands for more than `most` texts.
std::vector<std::string> expand_braces(std::string_view text, std::size_t most = 10'000'000);

}  // namespace dsanalyze
