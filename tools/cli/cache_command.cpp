// `forebay cache`: shows what a node's cache holds, or clears it. It goes through the same code as
// runs (store/cache_folder.hpp) and may be called while runs use the cache: data in use is locked,
// so it is reported as such and not removed.

#include <array>
#include <cstdio>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/text.hpp"
#include "commands.hpp"
#include "output.hpp"
#include "store/cache_folder.hpp"

namespace forebay::cli {
namespace {

struct CacheArguments {
  std::string dir;
  bool verify = false;
  bool clear = false;
};

std::string day_text(std::int64_t seconds) {
  const std::time_t time = seconds;
  std::tm parts{};
  std::array<char, 32> text{};
  if (::gmtime_r(&time, &parts) == nullptr) return "?";
  (void)std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M UTC", &parts);
  return text.data();
}

// Exits with 1 if something is damaged: runs survive them, but the disk may be failing.
int show_cache(const CacheArguments& arguments) {
  std::uint64_t damaged = 0;
  std::uint64_t bytes = 0;
  for (const store::CachedData& data : store::look_into_cache(arguments.dir, arguments.verify)) {
    std::string line = printable(data.data) + ": " + size_text(data.bytes) + " of " + grouped(data.objects) +
                       (data.objects == 1 ? " file" : " files") + ", " +
                       (data.is_in_use ? "in use" : "last used " + day_text(data.used_s));
    if (arguments.verify) {
      line += "; " + grouped(data.blocks) + " blocks, " +
              (data.damaged == 0 ? "none damaged" : grouped(data.damaged) + " of them damaged, now forgotten");
      if (data.damaged_files > 0) line += "; " + counted(data.damaged_files, "damaged file") + ", now removed";
    }
    std::printf("%s\n", line.c_str());
    damaged += data.damaged + data.damaged_files;
    bytes += data.bytes;
  }
  std::printf("%s: %s\n", printable(arguments.dir).c_str(), size_text(bytes).c_str());
  return damaged == 0 ? 0 : 1;
}

int clear_it(const CacheArguments& arguments) {
  std::printf("%s: %s removed\n", printable(arguments.dir).c_str(),
              size_text(store::clear_cache(arguments.dir)).c_str());
  for (const store::CachedData& data : store::look_into_cache(arguments.dir, false)) {
    std::printf("%s: kept, because a process uses it\n", printable(data.data).c_str());
  }
  return 0;
}

}  // namespace

void add_cache_command(CLI::App& app, Invocation& invocation) {
  auto arguments = std::make_shared<CacheArguments>();
  CLI::App* command = app.add_subcommand("cache", "Show what is in a cache of the node (cache.dir), or clear it");
  command->add_option("DIR", arguments->dir, "the cache.dir of runs on this node")->required();
  CLI::Option* verify = command->add_flag("--verify", arguments->verify, "compare all bytes with their checksums");
  command->add_flag("--clear", arguments->clear, "remove all data that no process uses")->excludes(verify);
  command->footer(
      "Runs verify what they read; --verify finds out about the disk. Damaged blocks are forgotten, and the exit\n"
      "code is 1.\n"
      "Examples:\n"
      "  forebay cache /local/nvme/forebay\n"
      "  forebay cache /local/nvme/forebay --verify");
  on_call(*command, invocation,
          [arguments] { return arguments->clear ? clear_it(*arguments) : show_cache(*arguments); });
}

}  // namespace forebay::cli
