#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace dsanalyze::report {

// A report as a tree of plain text: what is said is made once, from the records, and written as HTML, Markdown or for a terminal by a renderer of
// its own. Texts here are not quoted; each renderer quotes.

struct Cell {
  enum class Look { plain, differs, heat };
  std::string text;
  Look look = Look::plain;
  int heat = 0;  ///< of Look::heat: 0 (lowest) to 9
};

enum class Align { left, right };
struct Column {
  std::string heading;
  Align align = Align::right;
};

/// The first cell of a row is its heading. At most `most_rows` rows are shown, on a page fewer where they are long; the caption says when there were
/// more.
struct Table {
  std::string caption;
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows{};
  bool row_headings = true;

  void add(const std::vector<std::string>& cells) {
    auto& row = rows.emplace_back();
    for (const std::string& cell : cells) row.push_back({cell});
  }
};
constexpr std::size_t most_rows = 1000;

/// What the scripts of the page draw above a table, which holds the same numbers.
struct Chart {
  enum class Kind {
    lines,   ///< y over x
    points,  ///< one row a category, x its value with its interval
    bars     ///< one group a category
  };
  enum class Scale { linear, logarithmic };
  struct Point {
    double x = 0;  ///< of points and bars: the category's number
    double y = 0;
    std::optional<double> low{}, high{};
  };
  struct Series {
    std::string label;
    std::string
        colour;  ///< the name of a colour of the page: ingestion, prep, fetch, cache, storage, compute, result; empty: the next of the palette
    std::vector<Point> points;
    enum class Line { solid, dashed, none } line = Line::solid;
  };
  struct Mark {
    double x = 0;
    std::string label;
  };
  std::string name;   ///< in the page, where it is unique
  std::string title;  ///< what it shows, a phrase
  Kind kind = Kind::lines;
  std::string x_label, y_label;
  Scale x_scale = Scale::linear, y_scale = Scale::linear;
  std::vector<std::string> categories{};
  std::vector<Series> series{};
  std::vector<Mark> marks{};
};

enum class Folding { open, folded };

/// Charts with the table that holds all their numbers.
struct Figure {
  std::string title;
  std::string text;
  std::vector<Chart> charts;
  Table table;
  Folding folding = Folding::open;
};

struct Paragraph {
  enum class Tone { plain, muted, warning };
  std::string text;
  Tone tone = Tone::plain;
};

struct List {
  std::vector<std::string> items;
};

/// Terms with what is to be said of each.
struct Terms {
  struct Term {
    std::string term;
    std::string text;
    enum class Weight { plain, first } weight = Weight::plain;
  };
  std::vector<Term> terms;
};

/// An epoch's time, split. Fractions of 1 for the bar's widths, texts for readers.
struct EpochSplit {
  struct Part {
    std::string kind;  ///< compute, prep, fetch
    std::string name;
    double fraction = 0;
    std::string share;
    std::string time;
  };
  std::string label;  ///< whose; may be empty
  std::vector<Part> parts;
};

/// Where the page's sliders go, for each result that has a model.
struct LivePlace {
  std::size_t result = 0;
  std::string label;
};

using Block = std::variant<Paragraph, List, Terms, EpochSplit, Figure, LivePlace>;

struct Section {
  std::string id;
  std::string title;
  std::vector<Block> blocks{};
};

struct Document {
  std::string title;     ///< of the window
  std::string subtitle;  ///< what was looked at, where and when
  std::vector<Section> sections;
};

/// Up to `most` numbers from 0 to count - 1, evenly spread, the first and the last among them.
std::vector<std::size_t> spread(std::size_t count, std::size_t most);

constexpr std::size_t longest_html_text = 2000;  ///< bytes of one text of a page

std::string html_navigation(const Document& document);
/// The sections of a page, static: every number and sentence is there without a script. `room`: bytes that tables and lists may take, beyond the
/// first row or item of each.
std::string html_sections(const Document& document, std::size_t room);
/// What the scripts draw: a JSON object from the charts' names to what they hold, without line ends.
std::string charts_json(const Document& document);
/// The whole document as GitHub-flavoured Markdown.
std::string markdown(const Document& document);

}  // namespace dsanalyze::report
