#include "json_lines_file.hpp"

#include <atomic>
#include <fstream>
#include <string>
#include <system_error>

#include <spdlog/logger.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <forebay/error.hpp>

#include "base/text.hpp"

namespace forebay {

void end_last_line(const std::filesystem::path& file) noexcept {
  try {
    std::fstream in_out(file, std::ios::in | std::ios::out | std::ios::binary);
    if (!in_out.seekg(-1, std::ios::end) || in_out.peek() == '\n') return;
    in_out.seekp(0, std::ios::end);
    in_out.put('\n');
  } catch (...) {  // NOLINT(bugprone-empty-catch): opening the file is what tells of trouble
  }
}

struct JsonLinesFile::Impl {
  Impl(std::filesystem::path file, ConsoleLog& to, Mode mode)
      : path(std::move(file)),
        console(to),
        logger("jsonl", std::make_shared<spdlog::sinks::basic_file_sink_st>(path.string(), mode == Mode::truncate)) {
    logger.set_pattern("%v");
    logger.set_error_handler([this](const std::string& cause) { failed(cause); });
  }

  void failed(const std::string& cause) {
    sound = false;
    if (reported) return;
    reported = true;
    console.warn(printable(cause) + "; lines may be missing from it, the run continues");
  }

  const std::filesystem::path path;
  ConsoleLog& console;
  spdlog::logger logger;
  std::uint64_t unsynced = 0;  // lines written since the last sync()
  bool sound = true;           // nothing failed since then
  bool reported = false;
  std::atomic<std::uint64_t> lost{0};
};

JsonLinesFile::JsonLinesFile(const std::filesystem::path& path, ConsoleLog& console, Mode mode) {
  if (mode == Mode::append) end_last_line(path);
  try {
    impl_ = std::make_unique<Impl>(path, console, mode);
  } catch (const spdlog::spdlog_ex& e) {
    throw ConfigError("telemetry.dir: " + printable(e.what()) +
                      "; name a writable directory, or \"\" to write no files");
  }
}

JsonLinesFile::~JsonLinesFile() { sync(); }

void JsonLinesFile::write(std::string_view lines, std::uint64_t count) {
  if (count == 0) return;
  lines.remove_suffix(1);  // the pattern ends the line
  impl_->unsynced += count;
  impl_->logger.log(spdlog::level::info, spdlog::string_view_t(lines.data(), lines.size()));
}

void JsonLinesFile::sync() {
  if (impl_->unsynced == 0) return;
  impl_->logger.flush();
  // A removed file swallows what is written to it without an error.
  std::error_code error;
  if (!std::filesystem::exists(impl_->path, error)) {
    impl_->failed(impl_->path.string() + " is gone" + (error ? ": " + error.message() : ""));
  }
  if (!impl_->sound) impl_->lost.fetch_add(impl_->unsynced, std::memory_order_relaxed);
  impl_->sound = true;
  impl_->unsynced = 0;
}

std::uint64_t JsonLinesFile::lost() const noexcept { return impl_->lost.load(std::memory_order_relaxed); }

}  // namespace forebay
