#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <forebay/config.hpp>
#include <forebay/dataset.hpp>
#include <forebay/error.hpp>

#include <CLI/CLI.hpp>

#include "base/text.hpp"
#include "commands.hpp"
#include "data/formats.hpp"
#include "data/index_image.hpp"
#include "data/parallel.hpp"
#include "index_report.hpp"
#include "output.hpp"
#include "ranks/coordinator.hpp"
#include "terminal.hpp"

namespace forebay {
namespace {

struct IndexArguments {
  std::string path;
  std::vector<std::string> overrides;
  std::string format;
  std::string save;
  std::int64_t skipped = 20;
  bool check = false;
  bool json = false;
};

Options options_of(const IndexArguments& arguments) {
  const bool is_config = std::filesystem::path(arguments.path).extension() == ".toml";
  Options options = options_from(is_config ? arguments.path : "", arguments.overrides);
  if (!is_config) options.dataset.path = arguments.path;
  if (!arguments.format.empty()) options.dataset.format = arguments.format;
  validate(options);
  return options;
}

std::unique_ptr<Dataset> open_or_build(const IndexArguments& arguments, const Options& options) {
  if (is_saved_index(arguments.path)) return load_index(arguments.path);
  ProgressBar bar("indexing");
  return open_dataset(options.dataset, [&](std::uint64_t done, std::uint64_t total) { bar.update(done, total); });
}

// For lists, whose files were not looked for yet; the other formats found theirs in folders.
MissingFiles look_for_files(const IndexArguments& arguments, const Dataset& dataset) {
  const bool is_asked_for = arguments.check || !is_saved_index(arguments.path);
  const Format* format = find_format(dataset.format());
  if (format == nullptr || format->finds_files || !is_asked_for) return {};
  ProgressBar bar("looking for files");
  return find_missing_files(dataset, index_threads(),
                            [&](std::uint64_t done, std::uint64_t total) { bar.update(done, total); });
}

// As a run would, once it has met all bad samples.
void require_within_budget(const Options& options, const IndexReport& report) {
  const std::uint64_t entries = report.dataset.size() + report.bad;
  const std::uint64_t bad = report.bad + report.missing.samples;
  const std::uint64_t allowed = options.on_bad == OnBad::fail ? 0 : allowed_bad(options.max_bad, entries);
  const bool none_left = report.missing.samples > 0 && report.missing.samples == report.dataset.size();
  if (bad <= allowed && !none_left) return;
  throw Error(std::to_string(bad) + " of " + std::to_string(entries) + " samples are bad, but " +
              (options.on_bad == OnBad::fail ? "on_bad = \"fail\" allows none"
               : none_left                   ? "a run needs some that are not"
                                             : "max_bad allows " + std::to_string(allowed)));
}

int print_index(const IndexArguments& arguments) {
  require_writable("--save", arguments.save);
  const auto start = std::chrono::steady_clock::now();
  const Options options = options_of(arguments);
  const auto dataset = open_or_build(arguments, options);
  if (arguments.check) image_of(*dataset)->check();
  IndexReport report(*dataset);
  report.missing = look_for_files(arguments, *dataset);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  if (!arguments.save.empty()) save_index(*dataset, arguments.save);

  if (arguments.json) {
    std::puts(to_json(report).c_str());
  } else {
    std::fputs(to_text(report, static_cast<std::uint64_t>(arguments.skipped)).c_str(), stdout);
    std::printf("%-13s%.2f s\n", "time", taken.count());
    if (arguments.check) std::printf("%-13s%s\n", "checked", "every byte of the index");
    if (!arguments.save.empty()) std::printf("%-13s%s\n", "saved", printable(arguments.save).c_str());
  }
  require_within_budget(options, report);
  return 0;
}

}  // namespace

void add_index_command(CLI::App& app, Invocation& invocation) {
  auto arguments = std::make_shared<IndexArguments>();
  CLI::App* command = app.add_subcommand("index", "Say what a dataset holds, and what was left out and why");
  command
      ->add_option("PATH", arguments->path,
                   "data (a folder, list or idx file), a configuration (.toml), or a saved index")
      ->required();
  command->add_option("--format", arguments->format, "how the data is laid out (dataset.format)")->type_name("FORMAT");
  command->add_option("--save", arguments->save, "write the index to this file (dataset.index of a configuration)")
      ->type_name("FILE");
  command->add_option("--skipped", arguments->skipped, "how many of the entries left out to name")
      ->check(CLI::Range(0, 1'000'000'000))
      ->capture_default_str();
  command->add_flag(
      "--check", arguments->check,
      "read a saved index whole and check it, and look for the files of a list; otherwise that happens where "
      "they are used");
  command->add_flag("--json", arguments->json, "print one JSON object instead");
  add_set_option(*command, arguments->overrides);
  std::string known;
  for (const auto& [name, help, format] : kFormats) {
    known.append("  ").append(name).append(12 - name.size(), ' ').append(help).append("\n");
  }
  command->footer(
      "Formats (auto finds out which):\n" + known +
      "\n"
      "Examples:\n"
      "  forebay index data/VOC2012\n"
      "  forebay index feed.toml --json\n"
      "  forebay index train.txt --format filelist --save train.index\n"
      "  forebay index train.index --check\n"
      "\n"
      "Exits with 1 when more entries are bad, files that a list names and that are not there included, than\n"
      "on_bad and max_bad allow (--set max_bad=0: none).");
  on_call(*command, invocation, [arguments] { return print_index(*arguments); });
}

}  // namespace forebay
