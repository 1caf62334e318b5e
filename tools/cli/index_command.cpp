// `forebay index`: builds or loads an index, says what is in it, and can save and check it.
//
// Order: options, the index (built with a progress bar, or loaded), checks if they are asked for, a
// look at every label and box (IndexReport), the files of a list, how well the order mixes; then
// saving and the report. The exit code is 1 if a run with these options would fail for its bad
// samples. Threads are used within building and checking only.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <forebay/config.hpp>
#include <forebay/dataset.hpp>
#include <forebay/error.hpp>
#include <forebay/field.hpp>

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
#include "jpeg/decode_index.hpp"
#include "mixing_report.hpp"
#include "output.hpp"
#include "ranks/coordinator.hpp"

namespace forebay::cli {
namespace {

using Count = std::pair<std::string, std::uint64_t>;

// The boxes of a field, counted.
struct BoxCounts {
  // Reads those of every sample.
  BoxCounts(const Dataset& dataset, std::size_t field);

  std::string field;
  std::vector<Count> per_class;  // in the order of their numbers
  std::uint64_t boxes = 0;
  std::uint64_t largest = 0;   // in one sample
  std::uint64_t too_many = 0;  // samples with more than a batch has room for
  std::int64_t room = 0;       // for so many: `most`
};

// What `forebay index` says of a dataset.
struct IndexReport {
  // Reads every sample's label.
  explicit IndexReport(const Dataset& dataset);

  const Dataset& dataset;
  std::vector<std::uint64_t> per_class;  // samples, in the order of dataset.classes()
  std::uint64_t unlabelled = 0;
  std::vector<BoxCounts> boxes;  // by field
  std::uint64_t bad = 0;         // skipped for damage
  std::string fingerprint;       // 16 hexadecimal digits
  std::uint64_t bytes = 0;       // of the serialized index
  data::MissingFiles missing;    // empty unless looked for
  std::optional<MixingReport> mixing;
};

constexpr std::size_t kMostLines = 20;  // of classes, and of reasons
constexpr std::size_t kColumn = 13;     // where values begin

std::string row(std::string name, const std::string& value) {
  name.resize(std::max(name.size() + 1, kColumn), ' ');
  return name + value + "\n";
}

// Names and counts in two columns, the most frequent first.
// Numbers are right-aligned in the column where other values begin.
std::string counts_text(std::vector<Count> counts) {
  std::ranges::stable_sort(counts, std::ranges::greater{}, &Count::second);
  const std::size_t shown = std::min(counts.size(), kMostLines);
  std::string text;
  for (const auto& [name, count] : std::span(counts).first(shown)) {
    std::string number = grouped(count);
    number.insert(0, number.size() < 11 ? 11 - number.size() : 0, ' ');
    text.append(number).append("  ").append(printable(name)).append("\n");
  }
  if (shown < counts.size()) text += "             ... and " + grouped(counts.size() - shown) + " more\n";
  return text;
}

std::string classes_text(const IndexReport& report) {
  const auto& classes = report.dataset.classes();
  std::vector<Count> counts;
  for (std::size_t i = 0; i < classes.size(); ++i) counts.emplace_back(classes[i], report.per_class[i]);
  std::string text = row("classes", grouped(classes.size())) + counts_text(std::move(counts));
  if (report.unlabelled > 0) text += row("unlabelled", grouped(report.unlabelled));
  return text;
}

std::string skipped_text(const IndexReport& report, std::uint64_t most) {
  const auto& skipped = report.dataset.skipped();
  std::string text = row("skipped", grouped(skipped.size()) + " (" + grouped(report.bad) + " bad)");
  if (skipped.empty() || most == 0) return text;
  std::map<std::string, std::uint64_t> reasons;
  for (const Skipped& entry : skipped) ++reasons[entry.reason];
  text += counts_text({reasons.begin(), reasons.end()});
  const auto shown = static_cast<std::size_t>(std::min<std::uint64_t>(most, skipped.size()));
  for (const Skipped& entry : std::span(skipped).first(shown)) {
    text += std::string("  ") +
            (entry.bad    ? "bad    "
             : entry.told ? "warning "
                          : "other  ") +
            printable(entry.path) + ": " + printable(entry.reason) + "\n";
  }
  if (shown < skipped.size()) text += "  ... and " + grouped(skipped.size() - shown) + " more (--skipped N)\n";
  return text;
}

std::string missing_text(const IndexReport& report, std::uint64_t most) {
  const auto& files = report.missing.files;
  if (files.empty()) return "";
  std::string text =
      row("missing", grouped(files.size()) + " of the " + grouped(report.dataset.counts().images) +
                         " files; relative paths begin in " + printable(data::image_of(report.dataset)->record().root));
  const auto shown = static_cast<std::size_t>(std::min<std::uint64_t>(most, files.size()));
  for (const Skipped& entry : std::span(files).first(shown)) {
    text += "  " + printable(entry.path) + ": " + printable(entry.reason) + "\n";
  }
  if (shown < files.size()) text += "  ... and " + grouped(files.size() - shown) + " more (--skipped N)\n";
  return text;
}

std::string boxes_text(const IndexReport& report) {
  std::string text;
  for (const BoxCounts& counts : report.boxes) {
    text += row(counts.field, grouped(counts.boxes) + " boxes, " + grouped(counts.largest) + " in one sample at most");
    text += counts_text(counts.per_class);
    if (counts.too_many == 0) continue;
    text += "             " + grouped(counts.too_many) + " samples are bad: they have more than fields." +
            counts.field + ".most = " + std::to_string(counts.room) + "\n";
  }
  return text;
}

// Boxes lie in the index, so every sample's can be read quickly.
BoxCounts::BoxCounts(const Dataset& dataset, std::size_t number) {
  struct Target final : ReadTarget {
    std::span<std::byte> reserve(std::size_t size) override {
      bytes.resize(size);
      return bytes;
    }
    std::vector<std::byte> bytes;
  } target;
  const Field& counted = dataset.fields()[number];
  field = counted.name;
  room = counted.shape[0];
  std::map<std::int32_t, std::uint64_t> by_label;
  for (std::uint64_t id = 0; id < dataset.size(); ++id) {
    dataset.read_field(id, number, target);
    const std::uint64_t here = target.bytes.size() / sizeof(LabelledBox);
    for (std::uint64_t i = 0; i < here; ++i) {
      LabelledBox box;
      std::memcpy(&box, target.bytes.data() + i * sizeof box, sizeof box);
      ++by_label[box.label];
    }
    boxes += here;
    largest = std::max(largest, here);
    too_many += here > static_cast<std::uint64_t>(room) ? 1 : 0;
  }
  for (const auto& [label, count] : by_label) {
    const bool is_named = label >= 0 && static_cast<std::size_t>(label) < counted.classes.size();
    per_class.emplace_back(is_named ? counted.classes[static_cast<std::size_t>(label)] : std::to_string(label), count);
  }
}

IndexReport::IndexReport(const Dataset& reported)
    : dataset(reported), per_class(reported.classes().size()), fingerprint(hex(forebay::fingerprint(reported), 16)) {
  for (std::uint64_t id = 0; id < dataset.size(); ++id) {
    const std::int64_t label = dataset.sample(id).label;
    const bool is_named = label >= 0 && static_cast<std::uint64_t>(label) < per_class.size();
    ++(is_named ? per_class[static_cast<std::size_t>(label)] : unlabelled);
  }
  for (std::size_t i = 0; i < dataset.fields().size(); ++i) {
    if (dataset.fields()[i].kind == FieldKind::boxes) boxes.emplace_back(dataset, i);
  }
  bad = static_cast<std::uint64_t>(std::ranges::count(dataset.skipped(), true, &Skipped::bad));
  const data::IndexImage* image = data::image_of(dataset);
  bytes = image != nullptr ? image->bytes() : dataset.serialize().size();
}

// For people: names the first `most_skipped` entries that were left out.
// The fingerprint is what recordings and saved states compare.
std::string to_text(const IndexReport& report, std::uint64_t most_skipped) {
  const IndexCounts counts = report.dataset.counts();
  return row("format", std::string(report.dataset.format())) + row("images", grouped(counts.images)) +
         row("annotations", grouped(counts.annotations)) + row("objects", grouped(counts.objects)) +
         row("samples", grouped(report.dataset.size())) + classes_text(report) + boxes_text(report) +
         skipped_text(report, most_skipped) + missing_text(report, most_skipped) +
         row("fingerprint", report.fingerprint) + row("index", size_text(report.bytes)) +
         (report.mixing ? row("mixed", to_text(*report.mixing, kColumn)) : "");
}

// One JSON object with everything.
std::string to_json(const IndexReport& report, const DecodePoints& points, const std::string& points_file,
                    const std::optional<CacheFill>& fill) {
  using Json = nlohmann::ordered_json;
  const IndexCounts counts = report.dataset.counts();
  Json classes = Json::object();
  for (std::size_t i = 0; i < report.per_class.size(); ++i) {
    classes[report.dataset.classes()[i]] = report.per_class[i];
  }
  Json boxes = Json::object();
  for (const BoxCounts& of : report.boxes) {
    Json entry{{"boxes", of.boxes}, {"largest", of.largest}, {"too_many", of.too_many}};
    for (const auto& [name, count] : of.per_class) entry["classes"][name] = count;
    boxes[of.field] = std::move(entry);
  }
  Json skipped = Json::array();
  for (const Skipped& entry : report.dataset.skipped()) {
    skipped.push_back({{"path", entry.path}, {"reason", entry.reason}, {"bad", entry.bad}, {"told", entry.told}});
  }
  Json missing = Json::array();
  for (const Skipped& entry : report.missing.files) missing.push_back({{"path", entry.path}, {"reason", entry.reason}});
  Json json{{"format", report.dataset.format()}, {"images", counts.images},
            {"annotations", counts.annotations}, {"objects", counts.objects},
            {"samples", report.dataset.size()},  {"classes", std::move(classes)},
            {"boxes", std::move(boxes)},         {"skipped", std::move(skipped)},
            {"missing", std::move(missing)},     {"fingerprint", report.fingerprint}};
  if (report.mixing) {
    const auto figures = [](const order::Mixing& mixing) {
      return Json{
          {"displacement", mixing.displacement}, {"neighbours", mixing.neighbours}, {"together", mixing.together}};
    };
    json["mixing"] = {{"order", figures(report.mixing->mixing)}, {"shuffle", figures(report.mixing->shuffle)}};
    if (report.mixing->meetings > 0) json["mixing"]["meetings"] = report.mixing->meetings;
  }
  if (!points_file.empty()) json["decode_index"] = to_json(points, points_file);
  if (fill) json["cache"] = to_json(*fill);
  // Paths are bytes: those that are not UTF-8 must not end the report.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

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

std::unique_ptr<Dataset> open_or_build(const IndexArguments& arguments, const Options& options) {
  if (data::is_saved_index(arguments.path)) return load_index(arguments.path);
  ProgressBar bar("indexing");
  return open_dataset(options.dataset, [&](std::uint64_t done, std::uint64_t total) { bar.update(done, total); });
}

// For lists, whose files were not looked for yet; the other formats found theirs in folders.
data::MissingFiles look_for_files(const IndexArguments& arguments, const Dataset& dataset) {
  const bool is_asked_for = arguments.check || !data::is_saved_index(arguments.path);
  const data::Format* format = data::find_format(dataset.format());
  if (format == nullptr || format->finds_files || !is_asked_for) return {};
  ProgressBar bar("looking for files");
  return data::find_missing_files(dataset, data::index_threads(),
                                  [&](std::uint64_t done, std::uint64_t total) { bar.update(done, total); });
}

// As a run would, once it has met all bad samples.
// The same rules as in a run: on_bad and max_bad, and, with an automatic budget, that no part of
// the data is lost as a whole.
void require_within_budget(const Options& options, const IndexReport& report) {
  const auto& missing = report.missing.samples;
  const std::uint64_t entries = report.dataset.size() + report.bad;
  std::uint64_t bad = report.bad + missing.size();
  for (const BoxCounts& counts : report.boxes) bad += counts.too_many;
  const std::uint64_t allowed = options.on_bad == OnBad::fail ? 0 : ranks::allowed_bad(options.max_bad, entries);
  const bool none_left = missing.size() == report.dataset.size();
  if (bad > allowed || none_left)
    throw Error(std::to_string(bad) + " of " + std::to_string(entries) + " samples are bad, but " +
                (options.on_bad == OnBad::fail ? "on_bad = \"fail\" allows none"
                 : none_left                   ? "a run needs some that are not"
                                               : "max_bad allows " + std::to_string(allowed)));
  if (std::holds_alternative<AutomaticBudget>(options.max_bad)) ranks::LostParts(report.dataset).refuse(missing);
}

// Beside the index that is saved, or is one already.
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
  return save_decode_points(dataset, options.transform, file,
                            [&](std::uint64_t done, std::uint64_t total) { bar.update(done, total); });
}

// Throws Error if the data is no longer what the index was made from.
data::DataComparison compare_or_throw(const Dataset& dataset) {
  data::DataComparison compared = data::compare_all_with_data(dataset, {});
  if (compared.difference.empty()) return compared;
  throw Error("the index was made from other data: " + compared.difference + "; build it again");
}

// The time is that of opening and looking, without saving.
int print_index(const IndexArguments& arguments) {
  require_writable("--save", arguments.save);
  const auto start = std::chrono::steady_clock::now();
  const Options options = options_for_data(arguments.path, arguments.overrides, arguments.format);
  require_fillable(arguments.fill, arguments.path, options);
  const std::string points_file = decode_index_file(arguments, options);
  const auto dataset = open_or_build(arguments, options);
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
    std::puts(to_json(report, points, points_file, fill).c_str());
  } else {
    std::fputs(to_text(report, static_cast<std::uint64_t>(arguments.skipped)).c_str(), stdout);
    std::printf("%-13s%.2f s\n", "time", taken.count());
    if (arguments.check) std::printf("%-13s%s\n", "checked", "every byte of the index");
    if (!compared.done.empty()) std::printf("%-13s%s\n", "compared", compared.done.c_str());
    if (!arguments.save.empty()) std::printf("%-13s%s\n", "saved", printable(arguments.save).c_str());
    if (!points_file.empty()) std::fputs(to_text(points, points_file).c_str(), stdout);
    if (fill) std::printf("%-13s%s\n", "cached", to_text(*fill).c_str());
  }
  require_within_budget(options, report);
  return 0;
}

}  // namespace

// A path that ends in .toml is a configuration; anything else is data, with the defaults for the
// rest.
Options options_for_data(const std::string& path, const std::vector<std::string>& overrides,
                         const std::string& format) {
  const bool is_config = std::filesystem::path(path).extension() == ".toml";
  Options options = options_from(is_config ? path : "", overrides);
  if (!is_config) options.dataset.path = path;
  if (!format.empty()) options.dataset.format = format;
  validate(options);
  return options;
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
