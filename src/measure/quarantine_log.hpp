#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "console_log.hpp"

namespace forebay::measure {

// One bad sample. Path and reason may contain any bytes.
struct QuarantineEntry {
  std::optional<std::uint64_t> sample{};  // dataset id; none, as below, if the index left it out
  std::string_view path;
  std::string_view reason;
  std::optional<std::uint64_t> epoch{};
  std::optional<std::uint64_t> position{};     // within the epoch
  std::optional<std::uint32_t> attempt{};      // bad samples at this position before it
  std::optional<std::uint64_t> replacement{};  // id of the sample that replaces it, if any
};

// The bad samples of one rank. Each is a line of DIR/quarantine.RANK.jsonl, and the first few are
// also warnings on the console. The file is opened for the first entry, so a clean run has none.
// Any thread; takes a lock, because bad samples are rare.
class QuarantineLog {
 public:
  static constexpr std::uint64_t kWarnings = 5;

  // `dir`: telemetry.dir; "" keeps nothing on disk. `console` must outlive the object.
  QuarantineLog(const std::string& dir, std::uint32_t rank, ConsoleLog& console);
  ~QuarantineLog();  // begin()
  QuarantineLog(const QuarantineLog&) = delete;
  QuarantineLog& operator=(const QuarantineLog&) = delete;

  // Declares the folder ready. Until then lines are kept in memory: it is not known yet whether the
  // run is new, in which case the folder is cleared first. Any thread.
  void begin() noexcept;

  // A failure to write is reported once and never thrown; the entry still counts.
  void add(const QuarantineEntry& entry) noexcept;

  // Entries so far. Any thread, without a lock.
  [[nodiscard]] std::uint64_t count() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace forebay::measure
