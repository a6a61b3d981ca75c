#include "core/records/fields/fields.hpp"

#include <doctest/doctest.h>

#include <array>

#include "../../base/texts.hpp"

namespace dsanalyze {
namespace {

enum class Fruit { apple, pear, plum };
constexpr std::array<const char*, 3> names_of(Fruit /*type*/) { return {"apple", "pear", "plum"}; }

struct Crate {
  Fruit fruit = Fruit::apple;
  std::uint32_t pieces = 0;
};

struct Stall {
  std::string name;
  double price = 0;
  double change = 0;
  bool open = false;
  std::uint64_t seed = 0;
  std::optional<double> discount;
  std::string note;
  Interval range;
  std::vector<Crate> crates;
  std::optional<Crate> best;
  double best_price = 0;
  int width = 0;
  int height = 0;
};

constexpr std::array<const char*, 2> some_fruit{"apple", "pear"};
constexpr int widest = 50;

}  // namespace

template <>
struct Fields<Crate> {
  using R = Crate;
  static constexpr std::tuple list{field("fruit", &R::fruit).one_of(some_fruit), field("pieces", &R::pieces)};
};

template <>
struct Fields<Stall> {
  using R = Stall;
  static Json area(const R& record) { return record.width * record.height; }
  static void check(JsonObject& object, const R& record) {
    if (record.open && record.crates.empty()) object.fail("open", "expected crates in an open stall");
  }
  static constexpr std::tuple list{SchemaField{"market.stall/1", "market stall"},
                                   field("name", &R::name).may_differ(),
                                   field("price", &R::price),
                                   field("change", &R::change).any_sign(),
                                   field("open", &R::open),
                                   field("seed", &R::seed).all_64_bits().may_differ(),
                                   field("discount", &R::discount).in(0, 1),
                                   field("note", &R::note).omitted(),
                                   field("range", &R::range),
                                   field("crates", &R::crates),
                                   field("best", &R::best).omitted(),
                                   along(&R::best, field("best_price", &R::best_price)),
                                   group("size", field("width", &R::width).in(1, widest), field("height", &R::height).newer()),
                                   derived("area", &area)};
};

namespace {

using testing::message_of;
using testing::replaced;
using testing::says;

Stall sample() {
  Stall stall;
  stall.name = "north";
  stall.price = 2.5;
  stall.change = -1;
  stall.open = true;
  stall.seed = std::numeric_limits<std::uint64_t>::max();
  stall.range = {1, 4};
  stall.crates = {{Fruit::pear, 7}};
  stall.width = 3;
  stall.height = 2;
  return stall;
}

const std::string sample_text =
    R"({"schema":"market.stall/1","name":"north","price":2.5,"change":-1.0,"open":true,"seed":18446744073709551615,"discount":null,)"
    R"("range":{"low":1.0,"high":4.0},"crates":[{"fruit":"pear","pieces":7}],"size":{"width":3,"height":2},"area":6})";

Stall read(const std::string& text, UnknownKeys unknown = UnknownKeys::ignored) { return record_from_json<Stall>(text, "stall.json", unknown); }

/// What is said of the sample with one place changed.
std::string refused(const std::string& from, const std::string& to, UnknownKeys unknown = UnknownKeys::ignored) {
  return message_of<UsageError>([&] { read(replaced(sample_text, from, to), unknown); });
}

}  // namespace

TEST_CASE("a record is written in its table's order, and read back as it was") {
  CHECK(record_json(sample()).dump() == sample_text);
  CHECK(record_json(read(sample_text)).dump() == sample_text);
  CHECK(read(sample_text).seed == std::numeric_limits<std::uint64_t>::max());
}

TEST_CASE("what is not known is null, or is left out, as its table says") {
  Stall stall = sample();
  stall.discount = 0.5;
  stall.note = "ripe";
  stall.best = Crate{Fruit::apple, 1};
  stall.best_price = 9;
  const std::string text = record_json(stall).dump();
  CHECK(says(text, R"("discount":0.5,"note":"ripe")"));
  CHECK(says(text, R"("best":{"fruit":"apple","pieces":1},"best_price":9.0)"));
  const Stall again = read(text);
  CHECK(again.discount == 0.5);
  CHECK(again.best_price == 9);
  CHECK_FALSE(read(sample_text).best.has_value());
  CHECK(says(message_of<UsageError>([&] { read(replaced(text, R"(,"best_price":9.0)", "")); }), "/best_price"));
}

TEST_CASE("every error of a record names its place") {
  CHECK(says(refused(R"("name":"north",)", ""), "/name"));
  CHECK(says(refused("2.5", "\"much\""), "/price"));
  CHECK(says(refused("2.5", "-2.5"), "/price"));
  CHECK(says(refused(R"("discount":null)", R"("discount":1.5)"), "/discount"));
  CHECK(says(refused("\"high\":4.0", "\"high\":0.5"), "/range"));
  CHECK(says(refused("\"pear\"", "\"plum\""), "/crates/0/fruit"));
  CHECK(says(refused("\"pieces\":7", "\"pieces\":4294967296"), "/crates/0/pieces"));
  CHECK(says(refused("\"width\":3", "\"width\":51"), "/size/width"));
  CHECK(says(refused("[{\"fruit\":\"pear\",\"pieces\":7}]", "[]"), "/open"));
  CHECK(says(refused("market.stall/1", "market.stall/9"), "market stall"));
}

TEST_CASE("records of older versions lack what is newer, and unknown keys are refused where that is asked for") {
  CHECK(read(replaced(sample_text, R"(,"height":2)", "")).height == 0);
  CHECK(read(replaced(sample_text, "\"area\":6", "\"area\":7,\"colour\":1")).width == 3);
  CHECK(says(refused("\"area\":6", "\"area\":6,\"nam\":1", UnknownKeys::refused), "/nam"));
  CHECK(record_json(read(sample_text, UnknownKeys::refused)).dump() == sample_text);
}

TEST_CASE("the keys in which runs may differ are those that a table says") {
  CHECK(free_keys<Stall>() == std::vector<std::string>{"name", "seed"});
  CHECK(free_keys<Crate>().empty());
}

}  // namespace dsanalyze
