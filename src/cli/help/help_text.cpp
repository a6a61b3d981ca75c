#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "base/text/text.hpp"
#include "cli/options/option_table.hpp"
#include "help.hpp"

namespace dsanalyze::cli {
namespace {

constexpr int written_width = 80;
constexpr int least_width = 40;

/// "<!-- options: GROUP COLUMN -->": there stand a group's options, their texts from that column on.
constexpr std::string_view options_mark = "<!-- options: ";

std::string_view markdown_of(std::string_view name) {
  for (const EmbeddedText& page : help_pages())
    if (page.name == name) return page.text;
  throw std::logic_error(fmt::format("no help page {}.md", name));
}

/// Takes the lines of a page one by one, without their marks.
class PageLayout {
 public:
  explicit PageLayout(int width) : m_width(static_cast<std::size_t>(std::max(width, least_width))), m_as_written(width >= written_width) {}

  void fence() {
    end_text();
    m_fenced = !m_fenced;
  }
  void line(const std::string& text) {
    if (m_as_written)
      m_shown += text + "\n";
    else if (m_fenced)
      fenced(text);
    else if (text.empty())
      verbatim(text);
    else
      m_text += " " + text;
  }
  void option(const OptionLine& option, std::size_t column) {
    end_text();
    std::string head = "  " + option.head;
    std::string text = option.text;
    std::erase(text, '`');
    if (!m_as_written) {
      m_shown += paragraph("  ", option.head, m_width);
      std::ranges::replace(text, '\n', ' ');
      if (!text.empty()) m_shown += paragraph("      ", text, m_width);
      return;
    }
    if (head.size() >= column || text.empty()) {
      m_shown += head + "\n";
      head.clear();
    }
    head.resize(column, ' ');
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      m_shown += paragraph(head, text.substr(0, end), written_width);
      text.erase(0, end + 1);
      head.assign(column, ' ');
    }
  }
  std::string shown() {
    end_text();
    return std::move(m_shown);
  }

 private:
  void verbatim(const std::string& text) {
    end_text();
    m_shown += text + "\n";
  }

  /// "  --option VALUE   what is said of it", the same of a word or a command, a line that goes on with that, or one to copy.
  void fenced(const std::string& text) {
    const std::size_t begin = std::min(text.find_first_not_of(' '), text.size());
    if (begin > 2 && begin < text.size() && !m_text.empty()) {
      m_text += text.substr(begin - 1);
      return;
    }
    end_text();
    const std::size_t gap = std::min(text.find("  ", begin), text.size());
    const bool option = text.compare(begin, 1, "-") == 0;
    if (begin != 2 || (gap == text.size() && !option)) {
      verbatim(text);
      return;
    }
    m_shown += option ? paragraph("  ", text.substr(begin, gap - begin), m_width) : text.substr(0, gap) + "\n";
    m_lead = "      ";
    m_text = text.substr(std::min(text.find_first_not_of(' ', gap), text.size()));
  }

  void end_text() {
    if (!m_text.empty()) m_shown += paragraph(m_lead, m_text, m_width);
    m_text.clear();
    m_lead.clear();
  }

  std::size_t m_width;
  bool m_as_written;
  bool m_fenced = false;
  std::string m_shown;
  std::string m_lead, m_text;  ///< what is being gathered to be wrapped
};

}  // namespace

std::string laid_out_help(std::string_view markdown, int width, std::string_view command) {
  PageLayout layout(width);
  while (!markdown.empty()) {
    const auto end = std::min(markdown.find('\n'), markdown.size());
    std::string_view line = markdown.substr(0, end);
    markdown.remove_prefix(std::min(end + 1, markdown.size()));
    if (line.starts_with("```")) {
      layout.fence();
      continue;
    }
    if (line.starts_with(options_mark)) {
      line.remove_prefix(options_mark.size());
      const std::size_t gap = line.find(' ');
      const auto column = static_cast<std::size_t>(std::stoi(std::string(line.substr(gap))));
      for (const OptionLine& option : option_lines(command, line.substr(0, gap))) layout.option(option, column);
      continue;
    }
    if (line.starts_with('#')) line.remove_prefix(std::min(line.find_first_not_of("# "), line.size()));
    std::string text(line);
    std::erase(text, '`');
    layout.line(text);
  }
  return layout.shown();
}

std::string help_text(std::string_view name, int width) {
  std::string text = laid_out_help(markdown_of(name), width, name == "common" ? "" : name);
  if (name != "common") text += "\n" + laid_out_help(markdown_of("common"), width);
  return text;
}

std::string short_help_text(std::string_view name, int width) {
  const std::string short_name = fmt::format("{}-short", name);
  for (const EmbeddedText& page : help_pages())
    if (page.name == short_name) return laid_out_help(page.text, width, name);
  return help_text(name, width);
}

}  // namespace dsanalyze::cli
