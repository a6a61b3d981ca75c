#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/statistics.hpp"
#include "base/text/enum_names.hpp"
#include "base/text/json_reader.hpp"

namespace dsanalyze {

// One table beside each record says how its fields stand in JSON; what writes a record and what reads it follow from the table.
//
//   template <>
//   struct Fields<JobEpochRecord> {
//     using R = JobEpochRecord;
//     static constexpr std::tuple list{field("epoch", &R::epoch), field("cache_hits", &R::cache_hits), ...};
//     static void check(JsonObject& object, R& record);  // if fields may contradict each other; after all of them were read
//   };
//
// Keys are written in the table's order. Every error is a UsageError that names the place. A record that several sources need is instantiated in one
// of them (`extern template` in result_json.hpp).
template <typename Record>
struct Fields;

using Json = nlohmann::ordered_json;

constexpr double most_number = std::numeric_limits<double>::max();
constexpr double most_record_bytes = 4e18;    ///< of bytes that are shown as a whole number
constexpr std::size_t most_numbers = 65'536;  ///< of a list
constexpr std::int64_t most_integer = std::numeric_limits<std::int64_t>::max();

/// A record as JSON and back, by its table.
template <typename Record>
struct RecordJson {
  static Json write(const Record& record);
  static Record read(JsonObject object);
};
template <typename Record>
Json record_json(const Record& record) {
  return RecordJson<Record>::write(record);
}
template <typename Record>
Record read_record(JsonObject object) {
  return RecordJson<Record>::read(std::move(object));
}

/// The document as text: indented, doubles in their shortest form that reads back equal, bytes that are not UTF-8 (file names) replaced.
std::string document_text(const Json& document);
Json interval_json(const Interval& interval);
/// `low` and `high` bound both ends.
Interval read_interval(JsonObject parent, std::string_view key, double low, double high);
std::vector<std::string> read_texts(JsonObject& object, std::string_view key);
/// `schema` is "dsanalyze.profile/1", `command` what writes such records.
void require_schema(JsonObject& root, const std::string& schema, const std::string& command);
/// Whether the key is there with anything but null.
bool is_known(JsonObject& object, std::string_view key);

template <typename T>
struct HeldIn {
  using Type = T;
};
template <typename T>
struct HeldIn<std::optional<T>> : HeldIn<T> {};
template <typename T>
struct HeldIn<std::vector<T>> : HeldIn<T> {};

template <typename T>
inline constexpr bool is_optional = false;
template <typename T>
inline constexpr bool is_optional<std::optional<T>> = true;
template <typename T>
inline constexpr bool is_list = false;
template <typename T>
inline constexpr bool is_list<std::vector<T>> = true;
template <typename T>
concept WholeNumber = std::is_integral_v<T> && !std::is_same_v<T, bool>;

/// What a value may be. Counts are 0 or more, other numbers too unless the table says otherwise.
template <typename T>
struct FieldRange {
  double low = 0;
  double high = most_number;
  std::span<const char* const> choices{};
};
template <WholeNumber T>
struct FieldRange<T> {
  std::int64_t low = 0;
  std::int64_t high = std::numeric_limits<T>::digits >= 63 ? most_integer : static_cast<std::int64_t>(std::numeric_limits<T>::max());
  bool all_64_bits = false;
};

template <typename Value>
Json value_json(const Value& value) {
  if constexpr (is_optional<Value>) {
    return value ? value_json(*value) : Json(nullptr);
  } else if constexpr (std::is_enum_v<Value>) {
    return enum_names<Value>.at(static_cast<std::size_t>(value));
  } else if constexpr (std::is_arithmetic_v<Value> || std::is_same_v<Value, std::string>) {
    return value;
  } else if constexpr (std::is_same_v<Value, Interval>) {
    return interval_json(value);
  } else if constexpr (is_list<Value>) {
    Json list = Json::array();
    for (const auto& each : value) list.push_back(value_json(each));
    return list;
  } else {
    return record_json(value);
  }
}

template <typename Enum>
Enum read_enum(JsonObject& object, const char* key, std::span<const char* const> choices) {
  if (choices.empty()) return object.named<Enum>(key);
  return *enum_named<Enum>(object.choice(key, {choices.begin(), choices.end()}));
}

template <typename Value>
Value read_value(JsonObject& object, const char* key, const FieldRange<typename HeldIn<Value>::Type>& range) {
  if constexpr (is_optional<Value>) {
    return read_value<typename Value::value_type>(object, key, range);
  } else if constexpr (std::is_same_v<Value, bool>) {
    return object.boolean(key);
  } else if constexpr (std::is_enum_v<Value>) {
    return read_enum<Value>(object, key, range.choices);
  } else if constexpr (WholeNumber<Value>) {
    return static_cast<Value>(range.all_64_bits ? object.unsigned_integer(key)
                                                : static_cast<std::uint64_t>(object.integer(key, range.low, range.high)));
  } else if constexpr (std::is_floating_point_v<Value>) {
    return object.number(key, range.low, range.high);
  } else if constexpr (std::is_same_v<Value, std::string>) {
    return range.choices.empty() ? object.text(key) : object.choice(key, {range.choices.begin(), range.choices.end()});
  } else if constexpr (std::is_same_v<Value, Interval>) {
    return read_interval(object, key, range.low, range.high);
  } else if constexpr (std::is_same_v<Value, std::vector<std::string>>) {
    return read_texts(object, key);
  } else if constexpr (std::is_same_v<Value, std::vector<double>>) {
    return object.numbers(key, 0, most_numbers, range.low, range.high);
  } else if constexpr (is_list<Value>) {
    Value list;
    for (JsonObject& each : object.objects(key)) list.push_back(read_record<typename Value::value_type>(each));
    return list;
  } else {
    return read_record<Value>(object.object(key));
  }
}

/// Whether a value is what stands for "not known": none, empty, 0.
template <typename Value>
bool is_absent(const Value& value) {
  if constexpr (is_optional<Value>) {
    return !value;
  } else if constexpr (requires { value.empty(); }) {
    return value.empty();
  } else if constexpr (std::is_arithmetic_v<Value>) {
    return value == 0;
  } else {
    return false;
  }
}

/// How a value that is not known is written.
enum class WhenAbsent { as_it_is, null, omitted };

/// A member under a key. It is written always and has to be there, an optional one is null where it is not known; the rest says the table.
template <typename Record, typename Member>
struct TableField {
  const char* key;
  Member Record::*member;
  FieldRange<typename HeldIn<Member>::Type> range{};
  WhenAbsent absent = is_optional<Member> ? WhenAbsent::null : WhenAbsent::as_it_is;
  bool may_lack = is_optional<Member>;
  bool may_be_null = is_optional<Member>;
  bool is_identity = true;

  using Bound = decltype(range.low);
  [[nodiscard]] constexpr TableField in(Bound low, Bound high) const {
    return with([&](TableField& row) { row.range.low = low, row.range.high = high; });
  }
  /// A number of either sign.
  [[nodiscard]] constexpr TableField any_sign() const { return in(-most_number, most_number); }
  /// Up to 2^64 - 1, as a seed may be.
  [[nodiscard]] constexpr TableField all_64_bits() const {
    return with([](TableField& row) { row.range.all_64_bits = true; });
  }
  /// One of these texts, which live as long as the program; of an enum: only those of its names.
  [[nodiscard]] constexpr TableField one_of(std::span<const char* const> choices) const {
    return with([&](TableField& row) { row.range.choices = choices; });
  }
  /// Not written where it is not known.
  [[nodiscard]] constexpr TableField omitted() const { return with_absence(WhenAbsent::omitted, true, true); }
  /// null where it is not known, also of a member that is no optional.
  [[nodiscard]] constexpr TableField or_null() const { return with_absence(WhenAbsent::null, true, true); }
  /// The same, but the key has to be there.
  [[nodiscard]] constexpr TableField null_if_unknown() const { return with_absence(WhenAbsent::null, false, true); }
  /// Older records do without: it keeps its default.
  [[nodiscard]] constexpr TableField newer() const { return with_absence(absent, true, true); }
  /// Runs that differ in it alone measure the same: the gate compares them.
  [[nodiscard]] constexpr TableField may_differ() const {
    return with([](TableField& row) { row.is_identity = false; });
  }
  /// null is an error.
  [[nodiscard]] constexpr TableField not_null() const { return with_absence(absent, may_lack, false); }

  void write(Json& object, const Record& record) const {
    const Member& value = record.*member;
    if (absent == WhenAbsent::omitted && is_absent(value)) return;
    object[key] = absent == WhenAbsent::null && is_absent(value) ? Json(nullptr) : value_json(value);
  }
  void read(JsonObject& object, Record& record) const {
    if (may_lack && !object.has(key)) return;
    if (may_be_null && object.has(key) && !is_known(object, key)) return;
    record.*member = read_value<Member>(object, key, range);
  }

 private:
  template <typename Change>
  [[nodiscard]] constexpr TableField with(const Change& change) const {
    TableField changed = *this;
    change(changed);
    return changed;
  }
  [[nodiscard]] constexpr TableField with_absence(WhenAbsent written, bool lack, bool null) const {
    return with([&](TableField& row) { row.absent = written, row.may_lack = lack, row.may_be_null = null; });
  }
};
template <typename Record, typename Member>
constexpr TableField<Record, Member> field(const char* key, Member Record::*member) {
  return {key, member};
}

template <typename... Parts, typename Record>
void write_parts(const std::tuple<Parts...>& parts, Json& object, const Record& record) {
  std::apply([&](const Parts&... each) { (each.write(object, record), ...); }, parts);
}
template <typename... Parts, typename Record>
void read_parts(const std::tuple<Parts...>& parts, JsonObject& object, Record& record) {
  std::apply([&](const Parts&... each) { (each.read(object, record), ...); }, parts);
}

/// Members of a record that stand in an object of their own.
template <typename... Parts>
struct FieldGroup {
  const char* key;
  std::tuple<Parts...> parts;

  template <typename Record>
  void write(Json& object, const Record& record) const {
    Json inner = Json::object();
    write_parts(parts, inner, record);
    object[key] = std::move(inner);
  }
  template <typename Record>
  void read(JsonObject& object, Record& record) const {
    JsonObject inner = object.object(key);
    read_parts(parts, inner, record);
  }
};
template <typename... Parts>
constexpr FieldGroup<Parts...> group(const char* key, const Parts&... parts) {
  return {key, {parts...}};
}

/// Members of a member, among the record's own.
template <typename Record, typename Member, typename... Parts>
struct FieldsWithin {
  Member Record::*member;
  std::tuple<Parts...> parts;

  void write(Json& object, const Record& record) const { write_parts(parts, object, record.*member); }
  void read(JsonObject& object, Record& record) const { read_parts(parts, object, record.*member); }
};
template <typename Record, typename Member, typename... Parts>
constexpr FieldsWithin<Record, Member, Parts...> within(Member Record::*member, const Parts&... parts) {
  return {member, {parts...}};
}

/// Members that are there when an optional one is, which stands before them.
template <typename Record, typename Member, typename... Parts>
struct FieldsAlong {
  std::optional<Member> Record::*member;
  std::tuple<Parts...> parts;

  void write(Json& object, const Record& record) const {
    if (record.*member) write_parts(parts, object, record);
  }
  void read(JsonObject& object, Record& record) const {
    if (record.*member) read_parts(parts, object, record);
  }
};
template <typename Record, typename Member, typename... Parts>
constexpr FieldsAlong<Record, Member, Parts...> along(std::optional<Member> Record::*member, const Parts&... parts) {
  return {member, {parts...}};
}

/// What follows from a record: written, and ignored by the reader.
template <typename Record>
struct DerivedField {
  const char* key;
  Json (*value)(const Record& record);

  void write(Json& object, const Record& record) const { object[key] = value(record); }
  void read(JsonObject& object, Record& /*record*/) const { object.ignore(key); }
};
template <typename Record>
constexpr DerivedField<Record> derived(const char* key, Json (*value)(const Record&)) {
  return {key, value};
}

/// What stands in JSON as no other field does.
template <typename Record>
struct CustomField {
  void (*write)(Json& object, const Record& record);
  void (*read)(JsonObject& object, Record& record);
};
template <typename Record>
constexpr CustomField<Record> custom(void (*write)(Json&, const Record&), void (*read)(JsonObject&, Record&)) {
  return {write, read};
}

/// The first key of a document.
struct SchemaField {
  const char* name;
  const char* command;  ///< that writes such records

  template <typename Record>
  void write(Json& object, const Record& /*record*/) const {
    object["schema"] = name;
  }
  template <typename Record>
  void read(JsonObject& object, Record& /*record*/) const {
    require_schema(object, name, command);
  }
};

template <typename Record>
Json RecordJson<Record>::write(const Record& record) {
  Json object = Json::object();
  write_parts(Fields<Record>::list, object, record);
  return object;
}

template <typename Record>
Record RecordJson<Record>::read(JsonObject object) {
  Record record{};
  read_parts(Fields<Record>::list, object, record);
  if constexpr (requires { Fields<Record>::check(object, record); }) Fields<Record>::check(object, record);
  return record;
}

/// The keys of a record that may_differ().
template <typename Record>
std::vector<std::string> free_keys() {
  std::vector<std::string> keys;
  const auto collect = [&keys](const auto& part) {
    if constexpr (requires { part.is_identity; })
      if (!part.is_identity) keys.emplace_back(part.key);
  };
  std::apply([&collect](const auto&... parts) { (collect(parts), ...); }, Fields<Record>::list);
  return keys;
}

enum class UnknownKeys { ignored, refused };  ///< keys

template <typename Record>
Record record_from_json(std::string_view text, const std::string& source, UnknownKeys unknown) {
  JsonObject root = parse_json_object(text, source);
  auto record = read_record<Record>(root);
  if (unknown == UnknownKeys::refused) root.finish();
  return record;
}

}  // namespace dsanalyze
