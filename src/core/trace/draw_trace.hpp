#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "base/system/files.hpp"
#include "base/text/units.hpp"
#include "core/dependent/draw_recorder.hpp"
#include "core/dependent/prepared_store.hpp"

namespace dsanalyze {

/// What a trace of a dependent group's draws says of itself before them.
struct DrawTraceHeader {
  std::uint32_t samples = 0;  ///< of the dataset
  std::string digest;         ///< dataset_digest() of them; may be empty
  std::uint64_t seed = 0;     ///< of the draws
  StagingPolicy policy = StagingPolicy::refcnt;
  std::uint32_t store_places = 0;  ///< of the group that was recorded
  Bytes place_bytes = 0;           ///< of a prepared sample

  bool operator==(const DrawTraceHeader&) const = default;
};

/// Writes a trace of draws. The file appears with finish(), whole; without it, whatever happens, there is none. 16 bytes a draw, in pieces of 256
/// KiB, handed to the kernel by the thread that records. Threads: one at a time.
class DrawTraceWriter final : public DrawRecorder {
 public:
  /// Throws Error naming path and cause when nothing can be written there, or for a header that no reader would take.
  DrawTraceWriter(const std::filesystem::path& path, const DrawTraceHeader& header);
  DrawTraceWriter(const DrawTraceWriter&) = delete;
  DrawTraceWriter& operator=(const DrawTraceWriter&) = delete;
  ~DrawTraceWriter() override;

  void began(std::uint32_t job, std::span<const SampleRange> samples) override;
  void ended(std::uint32_t job) override;
  void drew(std::span<const Drawn> round) override;
  /// Throws Error naming path and cause when it could not all be written; there is no file then. Once.
  void finish();

 private:
  struct State;
  std::unique_ptr<State> m_state;
};

/// Reads a trace of draws once, in bounded memory, and believes nothing of it: what is wrong ends in an Error that names file, offset, what was found
/// and what was expected.
class DrawTraceReader {
 public:
  explicit DrawTraceReader(const std::filesystem::path& path);
  /// A file that is open, by the name that errors give it.
  DrawTraceReader(FileDescriptor file, std::string name);
  DrawTraceReader(const DrawTraceReader&) = delete;
  DrawTraceReader& operator=(const DrawTraceReader&) = delete;
  ~DrawTraceReader();

  [[nodiscard]] const DrawTraceHeader& header() const;
  /// Records, of which each draw is one.
  [[nodiscard]] std::uint64_t records() const;
  /// Tells `into` all of it; errors that it throws get file and offset. Whether the records are those that were written is known at the end. Once.
  void replay(DrawRecorder& into);

 private:
  struct State;
  std::unique_ptr<State> m_state;
};

/// Whether the file begins as a trace of draws does. Throws Error when it cannot be read.
bool is_draw_trace(const std::filesystem::path& path);

}  // namespace dsanalyze
