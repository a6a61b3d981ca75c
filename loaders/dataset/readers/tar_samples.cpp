#include "tar_samples.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <span>
#include <utility>

#include "base/error.hpp"
#include "npy_header.hpp"

namespace dsanalyze {
namespace {

constexpr std::size_t most_label_bytes = 64;

std::optional<std::int64_t> parse_label(std::span<const std::byte> bytes) {
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto is_space = [](char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t' || c == '\0'; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);  // as Python's int() takes it
  std::int64_t label = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), label);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return label;
}

/// Whether the last part of the extension says that the member is an array: "npy", "left.npy".
bool names_array(std::string_view extension) { return extension == "npy" || extension.ends_with(".npy"); }

}  // namespace

void TarSampleMaker::take(const TarMember& member) {
  const TarMemberName name = split_member_name(member.name);
  if (name.key.empty() || is_about_the_shard(member.name)) {
    m_shard.other_members.add(fmt::format("{}: {}", m_name, member.name));
    return;
  }
  if (name.key != m_sample.key) {
    finish(FollowedBy::members);
    m_sample.key = name.key;
    m_sample.begin = member.header;
  }
  const std::string extension = lower_extension(name.extension);
  const auto [same, is_new] = m_sample.members.try_emplace(extension, member.name);
  if (!is_new) {
    throw Error(fmt::format(
        "the shard {} has two members of the key '{}' with the extension '{}' side by side: {} and {} (at offset {}); a sample has one of each: give "
        "the samples keys of their own",
        m_name, name.key, extension, same->second, member.name, member.header));
  }
  m_shard.extensions.add(extension);
  if (const auto rank = m_keys.label_rank(extension)) take_label(member, *rank);
  if (const auto rank = m_keys.data_rank(extension)) take_data(member, extension, *rank);
}

std::string TarSampleMaker::missing_of_last() const {
  if (m_sample.key.empty()) return {};
  if (!m_sample.data)
    return m_shard.samples.empty() ? std::string() : fmt::format("the last key, {}, has no {} member", m_sample.key, m_keys.data_text());
  return m_sample.label || m_shard.labelled == 0 ? std::string()
                                                 : fmt::format("the last key, {}, has no {} member", m_sample.key, m_keys.label_text());
}

void TarSampleMaker::finish(FollowedBy next) {
  if (m_sample.key.empty()) return;
  Sample sample = std::exchange(m_sample, {});
  const std::string name = fmt::format("{}: {}", m_name, sample.key);
  const Met now{sample.begin, sample.data.has_value(), sample.label.has_value()};
  const auto [before, is_new] = m_met.try_emplace(std::move(sample.key), now);
  if (!is_new) {
    if (before->second.has_data != now.has_data && before->second.has_label != now.has_label && now.has_data != now.has_label) {
      throw Error(fmt::format(
          "the shard {} has members of the key '{}' at offset {} and again at offset {}, with members of other keys between them; those of "
          "one key must lie side by side: write the shard anew in sorted order (tar --sort=name)",
          m_name, before->first, before->second.begin, now.begin));
    }
    m_shard.keys_repeated.add(name);
  }
  const bool label_is_lost = !sample.label && m_shard.damage && next != FollowedBy::members;
  const bool lacks_a_part = sample.label ? sample.label->kind == SampleLabel::Kind::cut_off : label_is_lost && m_shard.labelled > 0;
  if (sample.label) ++m_shard.labelled;
  if (!sample.data) {
    m_shard.keys_without_data.add(name);
    return;
  }
  TarSample& data = sample.data->value;
  if (sample.label) data.label = *sample.label;
  if (label_is_lost) data.label.kind = SampleLabel::Kind::cut_off;
  if (lacks_a_part && next == FollowedBy::file_end) tear(data);
  m_shard.samples.push_back(data);
}

void TarSampleMaker::take_label(const TarMember& member, std::size_t rank) {
  if (m_sample.label && m_sample.label_rank < rank) return;
  const auto length = static_cast<std::size_t>(std::min<std::uint64_t>(member.bytes, most_label_bytes));
  const std::span<const std::byte> text = m_window.at(member.data, length);
  m_sample.label = is_torn(member) ? SampleLabel{SampleLabel::Kind::cut_off, 0}
                                   : SampleLabel::of(member.bytes <= most_label_bytes ? parse_label(text) : std::nullopt);
  m_sample.label_rank = rank;
  if (m_sample.label->kind == SampleLabel::Kind::invalid) m_shard.labels_unreadable.add(fmt::format("{}: {}", m_name, member.name));
}

void TarSampleMaker::take_data(const TarMember& member, const std::string& extension, std::size_t rank) {
  if (m_sample.data && !m_keys.data_is_chosen()) {
    throw Error(
        fmt::format("the shard {} has two members of the key '{}' that could be the sample: {} and {}; say which to use, for example --image-key {}",
                    m_name, m_sample.key, m_sample.data->name, member.name, extension));
  }
  if (m_sample.data && m_sample.data->rank < rank) return;
  TarSample sample{member.data, member.bytes, {}, names_array(extension) ? TarSampleKind::array : TarSampleKind::image};
  if (sample.kind == TarSampleKind::array) {
    take_array(sample, is_torn(member), member.name);
  } else if (is_torn(member)) {
    tear(sample);
  }
  m_sample.data = {sample, rank, std::string(member.name)};
}

void TarSampleMaker::take_array(TarSample& sample, bool is_torn, std::string_view name) {
  const std::uint64_t member_bytes = sample.length;
  try {
    std::span<const std::byte> head = m_window.at(sample.offset, static_cast<std::size_t>(std::min<std::uint64_t>(member_bytes, npy_preamble_bytes)));
    if (is_torn && head.size() < npy_preamble_bytes) return tear_array(sample);
    const std::size_t head_bytes = npy_header_bytes(head);
    head = m_window.at(sample.offset, static_cast<std::size_t>(std::min<std::uint64_t>(member_bytes, head_bytes)));
    if (is_torn && head.size() < head_bytes) return tear_array(sample);
    const NpyHeader header = parse_npy_header(head);
    if (header.fortran_order && header.shape.size() > 1) throw Error("it is stored in Fortran order (columns first), which samples may not be");
    if (header.data_bytes > member_bytes - header.header_bytes)
      throw Error(fmt::format("it has {} bytes where its shape needs {}", member_bytes - header.header_bytes, header.data_bytes));
    const ArrayDescription array{header.dtype, header.shape, header.data_bytes};
    if (!m_shard.array) m_shard.array = array;
    if (*m_shard.array != array) throw Error("its shape or type is not that of the arrays before it");
    sample.offset += header.header_bytes;
    sample.length = header.data_bytes;
  } catch (const Error& error) {
    throw Error(fmt::format("cannot use the array {} of the shard {} (at offset {}): {}", name, m_name, sample.offset, error.what()));
  }
}

/// Lets the sample end a byte behind the file. Arrays keep their size, which all of a dataset have, and begin there.
void TarSampleMaker::tear(TarSample& sample) const {
  if (sample.kind == TarSampleKind::array) {
    sample.offset = m_window.size();
  } else {
    sample.length = m_window.size() + 1 - std::min(sample.offset, m_window.size());
  }
}

/// An array whose own header is cut off: one of the others' size that begins where the file ends.
void TarSampleMaker::tear_array(TarSample& sample) const {
  sample.length = m_shard.array ? m_shard.array->sample_bytes : 0;
  tear(sample);
}

bool TarSampleMaker::is_torn(const TarMember& member) const { return member.bytes > m_window.size() - std::min(member.data, m_window.size()); }

}  // namespace dsanalyze
