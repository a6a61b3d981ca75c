#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace dsanalyze {

// Text from outside inside documents. All of them make line ends blanks, show control characters, what is not UTF-8 and marks that turn the
// direction of writing as "\x1b", so that a name can neither break a document nor look like another. Threads: any.

/// For HTML: between tags and in quoted attributes.
std::string html_text(std::string_view text);
/// For GitHub-flavoured Markdown: a paragraph, an item or a table's cell. No markup, HTML, link or mention comes of it.
std::string markdown_text(std::string_view text);
/// A JSON document for an HTML <script type="application/json">: the same document, without any "<", ">", "&" and line separators.
std::string script_json(std::string_view json);
/// At most about `most` bytes of the text, cut between characters; says how many bytes there were.
std::string shortened(std::string_view text, std::size_t most);

}  // namespace dsanalyze
