// `forebay index`: builds or loads an index, describes it, and can save and check it.
//
// The order is: options; the index (built with a progress bar, or loaded); checks, if asked for;
// counts of all labels and boxes (IndexReport); the files of a list; how well the order mixes; then
// saving and the report. The exit code is 1 if a run with these options would fail because of bad
// samples. Only building and checking use threads.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <forebay/config.hpp>
#include <forebay/dataset.hpp>
#include <forebay/error.hpp>
#include <forebay/field.hpp>

#include <spdlog/fmt/fmt.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "commands.hpp"
#include "data/formats.hpp"
#include "data/index_image.hpp"
#include "data/parallel.hpp"
#include "data/placed_samples.hpp"
#include "data/saved_index.hpp"
#include "decode_points.hpp"
#include "fill_cache.hpp"
#include "index_report.hpp"
#include "jpeg/decode_index.hpp"
#include "output.hpp"
#include "ranks/coordinator.hpp"

namespace forebay::cli {
namespace {

struct IndexArguments {
  std::string path;
  std::vector<std::string> overrides;
  std::string format;
  std::string save;
  bool decode_index = false;
  std::int64_t skipped = 20;
  bool check = false;
  bool mixing = false;
  FillArguments fill;
  bool json = false;
};

// Lists name files that nobody has looked for yet; the other formats found theirs in folders.
data::MissingFiles look_for_files(const IndexArguments& arguments, const Dataset& dataset) {
  const bool is_asked_for = arguments.check || !data::is_saved_index(arguments.path);
  const data::Format* format = data::find_format(dataset.format());
  if (format == nullptr || format->finds_files || !is_asked_for) return {};
  ProgressBar bar("looking for files");
  return data::find_missing_files(dataset, data::index_threads(), bar.progress());
}

// Throws as a run would once it had met all bad samples. The rules are those of a run: on_bad and
// max_bad, and, with an automatic budget, that no part of the data is lost as a whole.
void require_within_budget(const Options& options, const IndexReport& report) {
  const auto& missing = report.missing.samples;
  const std::uint64_t entries = report.dataset.size() + report.bad;
  std::uint64_t bad = report.bad + missing.size();
  for (const BoxCounts& counts : report.boxes) bad += counts.too_many;
  const std::uint64_t allowed = ranks::allowed_bad(options, entries);
  const bool none_left = missing.size() == report.dataset.size();
  if (bad > allowed || none_left)
    throw Error(std::to_string(bad) + " of " + std::to_string(entries) + " samples are bad, but " +
                (options.on_bad == OnBad::fail ? "on_bad = \"fail\" allows none"
                 : none_left                   ? "a run needs some that are not"
                                               : "max_bad allows " + std::to_string(allowed)));
  if (std::holds_alternative<AutomaticBudget>(options.max_bad)) ranks::LostParts(report.dataset).refuse(missing);
}

// The path of the decode index: next to the index that is saved, or the saved index that was given.
std::string decode_index_file(const IndexArguments& arguments, const Options& options) {
  if (!arguments.decode_index) return {};
  const std::string index = !arguments.save.empty()                ? arguments.save
                            : data::is_saved_index(arguments.path) ? arguments.path
                                                                   : options.dataset.index;
  if (index.empty()) {
    throw ConfigError("--decode-index needs an index to lie beside: add --save FILE, or name a saved index");
  }
  std::string file = jpeg::decode_index_of(index);
  require_writable("--decode-index", file);
  return file;
}

DecodePoints save_points(const Dataset& dataset, const Options& options, const std::string& file) {
  if (file.empty()) return {};
  ProgressBar bar("finding where to begin decoding");
  return save_decode_points(dataset, options.transform, file, bar.progress());
}

// Throws Error if the data is no longer what the index was made from.
data::DataComparison compare_or_throw(const Dataset& dataset) {
  data::DataComparison compared = data::compare_all_with_data(dataset, {});
  if (compared.difference.empty()) return compared;
  throw Error("the index was made from other data: " + compared.difference + "; build it again");
}

// The printed time covers opening and counting, not saving.
int print_index(const IndexArguments& arguments) {
  require_writable("--save", arguments.save);
  if (const std::string problem = data::problem_of_replacing(arguments.save); !problem.empty()) {
    throw ConfigError("--save: cannot write " + printable(arguments.save) + ": " + problem);
  }
  const auto start = std::chrono::steady_clock::now();
  const Options options = options_for_data(arguments.path, arguments.overrides, arguments.format);
  require_fillable(arguments.fill, arguments.path, options);
  const std::string points_file = decode_index_file(arguments, options);
  const auto dataset = open_or_build(arguments.path, options);
  data::DataComparison compared;
  if (arguments.check) {
    data::image_of(*dataset)->check();
    compared = compare_or_throw(*dataset);
  }
  IndexReport report(*dataset);
  report.missing = look_for_files(arguments, *dataset);
  if ((arguments.mixing || options.dataset.order != SampleOrder::global) && dataset->size() > 0) {
    report.mixing.emplace(options.dataset, options.seed, dataset->size());
  }
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  if (!arguments.save.empty()) save_index(*dataset, arguments.save);
  const DecodePoints points = save_points(*dataset, options, points_file);
  const std::optional<CacheFill> fill = fill_cache(arguments.fill, options, *dataset);

  if (arguments.json) {
    nlohmann::ordered_json json = to_json(report);
    if (!points_file.empty()) json["decode_index"] = to_json(points, points_file);
    if (fill) json["cache"] = to_json(*fill);
    // Paths are bytes; those that are not UTF-8 must not end the report with an exception.
    std::puts(json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace).c_str());
  } else {
    std::fputs(to_text(report, static_cast<std::uint64_t>(arguments.skipped)).c_str(), stdout);
    print_row("time", fmt::format("{:.2f} s", taken.count()));
    if (arguments.check) print_row("checked", "every byte of the index");
    if (!compared.done.empty()) print_row("compared", compared.done);
    if (!arguments.save.empty()) print_row("saved", printable(arguments.save));
    if (!points_file.empty()) std::fputs(to_text(points, points_file).c_str(), stdout);
    if (fill) print_row("cached", to_text(*fill));
  }
  require_within_budget(options, report);
  return 0;
}

}  // namespace

// A path that ends in .toml is a configuration; anything else is data, and the other keys have
// their defaults.
Options options_for_data(const std::string& path, const std::vector<std::string>& overrides,
                         const std::string& format) {
  const bool is_config = std::filesystem::path(path).extension() == ".toml";
  Options options = options_from(is_config ? path : "", overrides);
  if (!is_config) options.dataset.path = path;
  if (!format.empty()) options.dataset.format = format;
  validate(options);
  return options;
}

std::unique_ptr<Dataset> open_or_build(const std::string& path, const Options& options) {
  if (data::is_saved_index(path)) return load_index(path);
  ProgressBar bar("indexing");
  return open_dataset(options.dataset, bar.progress());
}

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
  command->add_flag("--decode-index", arguments->decode_index,
                    "read all JPEG files, and write where to begin decoding parts of them to FILE.points beside the "
                    "index FILE, which runs with that dataset.index then use");
  command->add_option("--skipped", arguments->skipped, "how many of the entries left out to name")
      ->check(CLI::Range(0, 1'000'000'000))
      ->capture_default_str();
  command->add_flag(
      "--check", arguments->check,
      "read a saved index whole and check it, and look for the files of a list; otherwise that happens where "
      "they are used");
  command->add_flag("--mixing", arguments->mixing,
                    "say how well the configured order mixes the samples; dataset.order = \"shards\" and \"local\" "
                    "always do");
  add_fill_options(*command, arguments->fill);
  command->add_flag("--json", arguments->json, "print one JSON object instead");
  add_set_option(*command, arguments->overrides);
  std::string known;
  for (const auto& [name, help, format] : data::kFormats) {
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
      "  forebay index train.index --decode-index\n"
      "  forebay index feed.toml --fill-cache --node $SLURM_NODEID\n"
      "  forebay index data/shards --set dataset.order=shards --set dataset.window=4096\n"
      "\n"
      "Exits with 1 when more entries are bad, files that a list names and that are not there included, than\n"
      "on_bad and max_bad allow (--set max_bad=0: none).");
  on_call(*command, invocation, [arguments] { return print_index(*arguments); });
}

}  // namespace forebay::cli
