#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include <forebay/error.hpp>

#include <CLI/CLI.hpp>

#include "base/output_file.hpp"
#include "base/text.hpp"
#include "commands.hpp"
#include "measure/run_log.hpp"
#include "output.hpp"
#include "report/page.hpp"
#include "report/run_data.hpp"

// `forebay report`: checks where the page may be written before reading anything, reads the
// telemetry of all runs, and then replaces the page atomically.
namespace forebay::cli {
namespace {

namespace fs = std::filesystem;

struct ReportArguments {
  std::vector<std::string> runs;
  std::string out;
  bool force = false;
};

// report.html next to the first run's folder.
fs::path default_file(const std::string& run) {
  const fs::path folder = fs::absolute(run).lexically_normal();
  const fs::path name = folder.has_filename() ? folder : folder.parent_path();
  return (name.parent_path() / "report.html").lexically_proximate(fs::current_path());
}

// Reports begin with a mark, so that one can be replaced by another without --force.
bool is_report(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::string head(report::kReportMark.size(), '\0');
  in.read(head.data(), static_cast<std::streamsize>(head.size()));
  return head == report::kReportMark;
}

// For the default path, which the user did not name: refuses to follow a link that somebody may
// have left there, and to write into another user's folder.
void require_own(const fs::path& file) {
  const std::string name = printable(file.native());
  std::error_code error;
  if (fs::is_symlink(fs::symlink_status(file, error))) {
    throw ConfigError(name + " is a link, which is not followed: name the page with --out");
  }
  struct stat folder {};
  const fs::path parent = file.has_parent_path() ? file.parent_path() : fs::path(".");
  if (::stat(parent.c_str(), &folder) == 0 && folder.st_uid != ::geteuid() && folder.st_uid != 0) {
    throw ConfigError(name + " would be in a folder of another user: name the page with --out");
  }
}

void require_replaceable(const fs::path& file, bool force) {
  std::error_code error;
  if (force || !fs::is_regular_file(file, error) || fs::file_size(file, error) == 0 || is_report(file)) return;
  throw ConfigError("--out: " + printable(file.native()) +
                    " is not a report, and would be lost: name another file, or give --force to overwrite it");
}

// Writes the page. It is replaced atomically, so a browser that reloads never sees half a page.
int write_report(const ReportArguments& arguments) {
  const fs::path file = arguments.out.empty() ? default_file(arguments.runs.front()) : fs::path(arguments.out);
  if (arguments.out.empty()) require_own(file);
  require_writable("--out", file);
  if (file != "-") require_replaceable(file, arguments.force);
  std::vector<report::RunData> runs;
  for (const std::string& run : arguments.runs) {
    ProgressBar bar("reading " + printable(run));
    runs.push_back(report::read_run(run, {}, bar.progress()));
  }
  report::name_runs(runs);
  for (const report::RunData& run : runs) {
    for (const std::string& note : run.notes) {
      std::fprintf(stderr, "forebay: %s: %s\n", run.name.c_str(), printable(note).c_str());
    }
  }
  const std::string page = report::report_page(runs, measure::utc_now());
  if (file == "-") {
    std::fwrite(page.data(), 1, page.size(), stdout);  // main() checks the result
    return 0;
  }
  try {
    replace_file(replaceable(file), std::as_bytes(std::span(page)), ".new");
  } catch (const Error& error) {
    throw Error("--out: cannot write " + printable(file.native()) + ": " + error.what());
  }
  std::printf("%s: %s, %s\n", printable(file.native()).c_str(), counted(runs.size(), "run").c_str(),
              size_text(page.size()).c_str());
  return 0;
}

}  // namespace

void add_report_command(CLI::App& app, Invocation& invocation) {
  auto arguments = std::make_shared<ReportArguments>();
  CLI::App* command = app.add_subcommand("report", "Make a page about runs from their telemetry");
  command->add_option("RUN", arguments->runs, "the telemetry.dir of a run; several are compared")->required();
  command
      ->add_option("--out", arguments->out, "the page (default: report.html beside the first run); - = standard output")
      ->type_name("FILE");
  command->add_flag("--force", arguments->force, "overwrite a file that is not a report");
  command->footer(
      "The page is one HTML file that needs no network. A run may still be going.\n"
      "Examples:\n"
      "  forebay report run\n"
      "  forebay report block.run adaptive.run --out comparison.html");
  on_call(*command, invocation, [arguments] { return write_report(*arguments); });
}

}  // namespace forebay::cli
