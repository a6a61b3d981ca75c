#include "loaders/dataset/readers/npy_header.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "../../base/texts.hpp"
#include "dataset_folder.hpp"

using namespace dsanalyze;
using testing::error_of;
using testing::says;

namespace {

/// A header with this text, as version `major`.0.
std::string npy(const std::string& text, int major = 1) {
  std::string bytes = "\x93NUMPY";
  bytes.push_back(static_cast<char>(major));
  bytes.push_back('\0');
  for (int byte = 0; byte < (major == 1 ? 2 : 4); ++byte) bytes.push_back(static_cast<char>(text.size() >> (8 * byte) & 0xff));
  return bytes + text;
}

NpyHeader parse(const std::string& bytes) {
  const std::vector<char> exact(bytes.begin(), bytes.end());  // on the heap, so that a sanitizer sees a byte too many
  return parse_npy_header(std::as_bytes(std::span(exact)));
}

std::string error(const std::string& bytes) {
  return error_of([&] { parse(bytes); });
}

std::string with(const std::string& dtype, const std::string& shape) {
  return npy("{'descr': " + dtype + ", 'fortran_order': False, 'shape': " + shape + ", }\n");
}

}  // namespace

TEST_CASE("headers of versions 1, 2 and 3 are read as NumPy writes them") {
  for (const int major : {1, 2, 3}) {
    const std::string bytes = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (10, 2, 3), }          \n", major);
    const NpyHeader header = parse(bytes + "data");
    CHECK(header.dtype == "<f4");
    CHECK(header.shape == std::vector<std::uint64_t>{10, 2, 3});
    CHECK_FALSE(header.fortran_order);
    CHECK(header.item_bytes == 4);
    CHECK(header.header_bytes == bytes.size());
    CHECK(header.data_bytes == 240);
  }
}

TEST_CASE("keys come in any order, with either quote, and shapes of no, one and long dimensions") {
  const NpyHeader header = parse(npy("{\"shape\": (5L,), \"fortran_order\": True, \"descr\": \">i8\"}\n"));
  CHECK(header.shape == std::vector<std::uint64_t>{5});
  CHECK(header.fortran_order);
  CHECK(header.item_bytes == 8);
  CHECK(parse(with("'|u1'", "()")).data_bytes == 1);
  CHECK(parse(with("'|u1'", "(3, 0, 2)")).data_bytes == 0);
  CHECK(parse(with("'<U5'", "(2,)")).data_bytes == 40);
  CHECK(parse(with("'<M8[ns]'", "(2,)")).data_bytes == 16);
  CHECK(parse(with("'|b1'", "(2,)")).data_bytes == 2);
}

TEST_CASE("pickled objects and structures are refused by name") {
  CHECK(says(error(with("'|O'", "(2,)")), "pickled"));
  CHECK(says(error(with("'O'", "(2,)")), "pickled"));
  CHECK(says(error(with("[('a', '<f4'), ('b', '<i2')]", "(2,)")), "structures"));
  CHECK(says(error(with("'|V8'", "(2,)")), "structures"));
  CHECK(says(error(with("'<q9'", "(2,)")), "not known"));
  CHECK(says(error(with("'<f0'", "(2,)")), "no sense"));
  CHECK(says(error(with("'<f99999999999999999999'", "(2,)")), "not known"));
}

TEST_CASE("shapes beyond any memory are refused") {
  CHECK(says(error(with("'<f8'", "(4294967296, 4294967296)")), "larger than any memory"));
  CHECK(says(error(with("'<f8'", "(2305843009213693952,)")), "larger than any memory"));
  CHECK(says(error(with("'<f8'", "(0, 4294967296, 4294967296, 4294967296)")), "larger than any memory"));
  CHECK(says(error(with("'<f8'", "(99999999999999999999,)")), "no count"));
  CHECK(says(error(with("'<f8'", "(-1,)")), "no count"));
  std::string many = "(";
  for (int dimension = 0; dimension < 100; ++dimension) many += "1, ";
  CHECK(says(error(with("'<f8'", many + ")")), "dimensions"));
}

TEST_CASE("headers that are cut off anywhere, or whose length lies, are refused") {
  const std::string good = with("'<f4'", "(10, 2, 3)");
  for (std::size_t length = 0; length < good.size(); ++length) CHECK_FALSE(error(good.substr(0, length)).empty());
  std::string longer = good;
  longer[8] = '\xff';
  CHECK(says(error(longer), "cut off"));
  std::string absurd = npy("{}", 2);
  absurd[11] = '\x7f';
  CHECK(says(error(absurd), "which no array needs"));
  CHECK(says(error("hello, I am no array"), "no .npy file"));
  CHECK(says(error(npy("{}", 4)), "version 4"));
}

TEST_CASE("texts that are no header of NumPy's are refused") {
  for (const char* text :
       {"", "{", "{}", "[]", "{'descr'}", "{'descr': '<f4'}", "{'descr': '<f4', 'descr': '<f4'}", "{'x': 1}",
        "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (1,)}", "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,", "{'descr': '<f4', 'fortran_order': False, 'shape': 1}", "{'descr': '<f4"}) {
    CAPTURE(text);
    CHECK_FALSE(error(npy(text)).empty());
  }
}

TEST_CASE("a written header is read back, begins its data at a multiple of 64 and keeps its length for other counts of rows") {
  for (const std::vector<std::uint64_t>& shape : {std::vector<std::uint64_t>{}, {7}, {1'281'167, 224, 224, 3}, std::vector<std::uint64_t>(30, 1)}) {
    const std::string bytes = make_npy_header("<f4", shape);
    const NpyHeader header = parse(bytes);
    CHECK(header.shape == shape);
    CHECK(header.dtype == "<f4");
    CHECK(header.header_bytes == bytes.size());
    CHECK(bytes.size() % 64 == 0);
    CHECK(bytes.back() == '\n');
  }
  const std::vector<std::uint64_t> few{1, 224, 224, 3};
  const std::vector<std::uint64_t> many{4'294'967'294, 224, 224, 3};
  CHECK(make_npy_header("|u1", few).size() == make_npy_header("|u1", many).size());
}
