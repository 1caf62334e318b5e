// `forebay pack`, `forebay pack --verify` and `forebay unpack`: arguments, checks and reports;
// tools/archive does the work.
//
// Processes that do not communicate can share the packing: each packs every N-th shard (find_part),
// as --part, mpirun or srun tells. The checks here refuse mistakes that would cost hours: a target
// within the dataset, a set that is packed already, options that choose data although a saved index
// has chosen it.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include <forebay/config.hpp>
#include <forebay/dataset.hpp>
#include <forebay/error.hpp>

#include <spdlog/fmt/fmt.h>
#include <CLI/CLI.hpp>

#include "archive/pack_check.hpp"
#include "archive/pack_set.hpp"
#include "archive/unpack.hpp"
#include "base/launch.hpp"
#include "base/text.hpp"
#include "commands.hpp"
#include "config/values.hpp"
#include "data/index_image.hpp"
#include "data/parallel.hpp"
#include "output.hpp"
#include "ranks/coordinator.hpp"

namespace forebay::cli {
namespace {

constexpr std::size_t kMostNamed = 20;  // entries of a list of problems

struct PackArguments {
  std::string in;
  std::string out;
  std::vector<std::string> overrides;
  std::string format;
  std::string shard_size = "512MiB";
  std::int32_t pixels = 0;
  std::uint64_t threads = 0;
  std::string part;
  bool as_is = false;
  bool verify = false;
};

struct UnpackArguments {
  std::string set;
  std::string folder;
  std::uint64_t threads = 0;
};

std::string counted(std::uint64_t count, const std::string& thing) {
  return grouped(count) + " " + thing + (count == 1 ? "" : "s");
}

void name_some(const std::vector<Skipped>& entries) {
  for (std::size_t i = 0; i < std::min(entries.size(), kMostNamed); ++i) {
    std::printf("  %s: %s\n", printable(entries[i].path).c_str(), printable(entries[i].reason).c_str());
  }
  if (entries.size() > kMostNamed) std::printf("  ... and %s more\n", grouped(entries.size() - kMostNamed).c_str());
}

unsigned threads_of(std::uint64_t asked) { return asked == 0 ? data::index_threads() : static_cast<unsigned>(asked); }

// From 1 MiB (smaller shards would be no better than single files) to 64 GiB. Chosen.
std::uint64_t shard_bytes_of(const std::string& text) {
  constexpr std::uint64_t kLeast = std::uint64_t{1} << 20U;
  constexpr std::uint64_t kMost = std::uint64_t{64} << 30U;
  const auto bytes = config::parse_size(text);
  if (bytes && *bytes >= static_cast<std::int64_t>(kLeast) && *bytes <= static_cast<std::int64_t>(kMost)) {
    return static_cast<std::uint64_t>(*bytes);
  }
  throw ConfigError("--shard-size " + text + ": expected a size such as 512MiB, from 1MiB to 64GiB");
}

// Takes the part from --part ("2/8"), or from mpirun or srun. A launcher that does not tell the
// rank is refused: each process would pack everything, over the files of the others.
void find_part(const std::string& text, archive::PackSettings& settings) {
  if (!text.empty()) {
    const auto numbers = split(text, '/');
    const auto number = parse_number<std::uint32_t>(numbers.front());
    const auto count = parse_number<std::uint32_t>(numbers.back());
    if (numbers.size() != 2 || !number || !count || *number < 1 || *number > *count) {
      throw ConfigError("--part " + text + ": expected the number of this process and how many there are, such as 2/8");
    }
    settings.part = *number - 1;
    settings.parts = *count;
  } else if (const auto launch = launched_with_others()) {
    if (!launch->rank) {
      throw ConfigError("a launcher started this process as one of several (" + launch->variable + " is " +
                        launch->processes + "), but does not say which one; say --part I/N, or --part 1/1 for all");
    }
    settings.part = *launch->rank;
    settings.parts = launch->count;
    if (settings.part == 0) {
      std::fprintf(stderr, "forebay: each of %s processes packs a part, as %s says; --part 1/1 packs all in one\n",
                   launch->processes.c_str(), launch->variable.c_str());
    }
  }
}

void print_tally(const archive::PackTally& tally) {
  const double share =
      tally.original_bytes == 0 ? 1 : static_cast<double>(tally.file_bytes) / static_cast<double>(tally.original_bytes);
  print_row("samples", grouped(tally.samples));
  print_row("bytes", fmt::format("{}, {:.3f} of the original's {}", size_text(tally.file_bytes), share,
                                 size_text(tally.original_bytes)));
  if (tally.coefficients > 0) print_row("coefficients", counted(tally.coefficients, "JPEG file"));
  if (tally.pixels > 0) print_row("pixels", counted(tally.pixels, "image"));
  if (tally.as_is > 0) print_row("as they are", counted(tally.as_is, "image"));
}

// A saved index has fixed the data, so options that choose data are refused.
void require_no_choice_of_data(const PackArguments& arguments) {
  const auto is_of_data = [](const std::string& each) {
    return each.starts_with("dataset.") || each.starts_with("fields.");
  };
  const auto found = std::ranges::find_if(arguments.overrides, is_of_data);
  if (found == arguments.overrides.end() && arguments.format.empty()) return;
  throw ConfigError((arguments.format.empty() ? "--set " + *found : "--format " + arguments.format) + ": " +
                    arguments.in + " is a saved index, which says all that; pack the data or its configuration");
}

// The sample unit with which the dataset was indexed. A saved index knows it; the options of this
// call may differ.
SampleUnit samples_of(const Dataset& dataset, const Options& options) {
  const data::IndexImage* const image = data::image_of(dataset);
  return image != nullptr ? image->record().origin.samples : options.dataset.samples;
}

// Refuses a target within the dataset's folder. Among class folders it would become another class,
// and when packing resumes the dataset would have changed. Links are resolved on both sides, as far
// as the paths exist.
void require_outside(const std::filesystem::path& out, const std::filesystem::path& in) {
  std::error_code error;
  const auto of_data = std::filesystem::canonical(in, error);
  if (error || !std::filesystem::is_directory(of_data, error)) return;
  const auto of_set = std::filesystem::weakly_canonical(out, error);
  const auto [end, rest] = std::ranges::mismatch(of_data, of_set);
  if (error || end != of_data.end() || rest == of_set.end()) return;
  throw ConfigError(printable(out.native()) + " lies within the folder of the dataset, " + printable(in.native()) +
                    ", where it could become part of it: name a folder outside");
}

// Refuses a packed set that has coefficients or pixels, since it no longer holds the original
// files. A set packed as-is does, and may be packed again.
void require_not_packed(const Dataset& dataset, const std::string& in) {
  if (dataset.size() > 0 && dataset.sample(0).encoding == Encoding::video) {
    throw ConfigError(
        "clip.frames: clips of videos are not packed, which are compressed already and read where they are");
  }
  bool is_packed = !dataset.tables(0).empty();
  const bool is_set = dataset.size() > 0 && data::original_name(dataset, 0);
  for (std::uint64_t id = 0; is_set && !is_packed && id < dataset.size(); ++id) {
    is_packed = dataset.sample(id).encoding == Encoding::raw;
  }
  if (!is_packed) return;
  throw ConfigError(in + " is packed already; unpack it first, or copy it");
}

// Bad entries of the index, or those that a run tells of at its start.
std::vector<Skipped> left_out_of_index(const Dataset& dataset, bool bad) {
  std::vector<Skipped> some;
  std::ranges::copy_if(dataset.skipped(), std::back_inserter(some),
                       [&](const Skipped& entry) { return bad ? entry.bad : !entry.bad && entry.told; });
  return some;
}

void require_few_left_out(const Options& options, const std::vector<Skipped>& known, std::uint64_t samples) {
  if (known.size() <= ranks::allowed_bad(options, samples + known.size())) return;
  throw Error(printable(known.front().path) + ": " + printable(known.front().reason) + "; the index left out " +
              counted(known.size(), "bad sample") + ", which the set would lack, more than max_bad and on_bad allow; " +
              "mend them or max_bad");
}

void tell_of_index(const std::vector<Skipped>& told, const std::vector<Skipped>& known_bad) {
  if (!told.empty())
    print_row("warnings", grouped(told.size()) + ", which runs from the data repeat and from this do not");
  name_some(told);
  if (!known_bad.empty())
    print_row("not packed", counted(known_bad.size(), "sample") + " that the index left out as bad");
  name_some(known_bad);
}

// max_bad is evaluated with the number of samples, which is known once the dataset is open.
int pack(const PackArguments& arguments) {
  if (data::is_saved_index(arguments.in)) require_no_choice_of_data(arguments);
  const Options options = options_for_data(arguments.in, arguments.overrides, arguments.format);
  if (!data::is_saved_index(arguments.in)) require_outside(arguments.out, options.dataset.path);
  archive::PackSettings settings;
  settings.out = arguments.out;
  settings.shard_bytes = shard_bytes_of(arguments.shard_size);
  settings.pixels = arguments.pixels;
  settings.images = {.exif = options.transform.exif, .max_pixels = options.transform.max_pixels};
  settings.coefficients = !arguments.as_is;
  settings.threads = threads_of(arguments.threads);
  find_part(arguments.part, settings);
  const auto dataset = open_or_build(arguments.in, options);
  require_not_packed(*dataset, arguments.in);
  settings.samples = samples_of(*dataset, options);
  const std::vector<Skipped> known_bad = left_out_of_index(*dataset, true);
  require_few_left_out(options, known_bad, dataset->size());
  // They are in no shard, so that no run from the set counts them: they count here.
  settings.allowed_bad = [&](std::uint64_t samples) {
    const std::uint64_t allowed = ranks::allowed_bad(options, samples + known_bad.size());
    return allowed - std::min<std::uint64_t>(allowed, known_bad.size());
  };
  settings.known_bad = known_bad.size();
  settings.needs_all_parts = options.on_bad != OnBad::fail && std::holds_alternative<AutomaticBudget>(options.max_bad);
  const archive::PackReport report = [&] {
    ProgressBar bar("packing");
    return archive::pack_dataset(*dataset, settings, bar.progress());
  }();
  const std::string of =
      settings.parts > 1 ? " (part " + std::to_string(settings.part + 1) + " of " + std::to_string(settings.parts) + ")"
                         : "";
  print_row("packed", printable(arguments.out) + of);
  print_row("shards",
            grouped(report.written) + " written, " + grouped(report.kept) + " kept, of " + grouped(report.shards));
  print_tally(report.tally);
  if (!report.changed.empty()) {
    print_row("changed",
              counted(report.changed.size(), "file") + " packed again; the first image of each that differed");
  }
  name_some(report.changed);
  if (settings.part == 0) tell_of_index(left_out_of_index(*dataset, false), known_bad);  // the same for all parts
  if (!report.left_out.empty()) print_row("left out", counted(report.left_out.size(), "sample"));
  name_some(report.left_out);
  if (!report.lost_fields.empty()) print_row("absent", counted(report.lost_fields.size(), "field") + " not readable");
  name_some(report.lost_fields);
  return 0;
}

int verify(const PackArguments& arguments) {
  const archive::PackCheck check = [&] {
    ProgressBar bar("verifying");
    return archive::check_pack(arguments.in, threads_of(arguments.threads), bar.progress());
  }();
  print_row("verified", printable(arguments.in));
  print_row("shards", grouped(check.shards));
  print_tally(check.tally);
  print_row("damaged", grouped(check.damaged.size()));
  name_some(check.damaged);
  if (check.damaged.empty()) return 0;
  throw Error(arguments.in + ": " + counted(check.damaged.size(), "record") +
              " damaged; remove the files named above and pack the dataset again into this folder");
}

int pack_or_verify(const PackArguments& arguments) {
  if (!arguments.verify) {
    if (arguments.out.empty()) throw ConfigError("forebay pack needs a folder to write: forebay pack IN OUT");
    return pack(arguments);
  }
  if (!arguments.out.empty()) throw ConfigError("forebay pack --verify takes one folder, the packed one");
  return verify(arguments);
}

int unpack_set(const UnpackArguments& arguments) {
  const archive::UnpackReport report = [&] {
    ProgressBar bar("unpacking");
    return archive::unpack(arguments.set, arguments.folder, threads_of(arguments.threads), bar.progress());
  }();
  print_row("unpacked", printable(arguments.folder));
  print_row("files", grouped(report.files) + ", " + size_text(report.bytes) + ", each as it was packed");
  if (report.pixels > 0)
    print_row("not there", counted(report.pixels, "image") + " stored as pixels, without its file");
  if (report.renamed > 0)
    print_row("renamed", counted(report.renamed, "file") + ", in renamed/: names taken or impossible");
  if (report.fields > 0)
    print_row("fields", counted(report.fields, "file") + ", in fields/: not below the folder packed");
  if (report.fields + report.renamed > 0)
    print_row("", "move fields/ and renamed/ out before you read the folder as classes");
  if (report.labels > 0)
    print_row("no label", counted(report.labels, "sample") + ": no file says its class; forebay reads the pack itself");
  if (report.failed.empty()) return 0;
  print_row("failed", counted(report.failed.size(), "record"));
  name_some(report.failed);
  throw Error(arguments.set + ": not everything could be unpacked");
}

}  // namespace

void add_pack_command(CLI::App& app, Invocation& invocation) {
  auto arguments = std::make_shared<PackArguments>();
  CLI::App* command = app.add_subcommand("pack", "Put a dataset into few large files that are fast to read");
  command->add_option("IN", arguments->in, "what forebay index takes: data, a configuration (.toml) or a saved index")
      ->required();
  command->add_option("OUT", arguments->out, "the folder to write; a run that was interrupted resumes there");
  command->add_option("--format", arguments->format, "how the data is laid out (dataset.format)")->type_name("FORMAT");
  command->add_option("--shard-size", arguments->shard_size, "bytes of the originals that go into one file, about")
      ->type_name("SIZE")
      ->capture_default_str();
  command
      ->add_option("--pixels", arguments->pixels,
                   "store images decoded, their longer side at most N (smaller ones keep their size)")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 18));
  command->add_option("--threads", arguments->threads, "threads; 0 = one per core")
      ->type_name("N")
      ->check(CLI::Range(0, 1024).description(""));
  command
      ->add_option("--part", arguments->part,
                   "this process writes every N-th file from the I-th on; found out under mpirun and srun")
      ->type_name("I/N");
  command->add_flag("--as-is", arguments->as_is, "store JPEG files as they are; they then decode no faster than before")
      ->excludes("--pixels");
  add_set_option(*command, arguments->overrides);
  command->add_flag("--verify", arguments->verify, "read all of a packed set (IN) again and check it")
      ->excludes("--format", "--shard-size", "--pixels", "--part", "--as-is", "--set");
  command->footer(
      "Examples:\n"
      "  forebay pack data/train packed/train\n"
      "  forebay pack feed.toml packed/train --threads 32\n"
      "  mpirun -n 16 forebay pack feed.toml packed/train\n"
      "  forebay pack data/train packed/pixels --pixels 256\n"
      "  forebay pack --verify packed/train\n"
      "\n"
      "The folder is a dataset: dataset.path = \"packed/train\". forebay unpack makes the files again.");
  on_call(*command, invocation, [arguments] { return pack_or_verify(*arguments); });
}

void add_unpack_command(CLI::App& app, Invocation& invocation) {
  auto arguments = std::make_shared<UnpackArguments>();
  CLI::App* command = app.add_subcommand("unpack", "Make the files again that forebay pack packed");
  command->add_option("SET", arguments->set, "the packed folder")->required();
  command->add_option("DIR", arguments->folder, "where the files go: a folder that is empty or not there")->required();
  command->add_option("--threads", arguments->threads, "threads; 0 = one per core")
      ->type_name("N")
      ->check(CLI::Range(0, 1024).description(""));
  command->footer(
      "Examples:\n"
      "  forebay unpack packed/train data/again");
  on_call(*command, invocation, [arguments] { return unpack_set(*arguments); });
}

}  // namespace forebay::cli
