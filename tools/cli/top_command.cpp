#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include <forebay/error.hpp>

#include <CLI/CLI.hpp>

#include "base/ending.hpp"
#include "commands.hpp"
#include "feed_parts.hpp"
#include "report/live_run.hpp"
#include "terminal.hpp"

namespace forebay::cli {
namespace {

struct TopArguments {
  std::string run;
  double interval_s = 0;  // 0 = 1 on a terminal, 5 elsewhere
};

using TopClock = std::chrono::steady_clock;

// Looks at the folder, on a thread of its own: a folder that does not answer must not keep whoever wants to end. False:
// they do.
bool is_done(std::function<void()> work, const TopArguments& arguments, const std::function<bool()>& is_over) {
  if (ends_within(kSavePatience, std::move(work), is_over)) return true;
  if (is_over()) return false;
  throw Error(arguments.run + ": the folder has not answered for " + std::to_string(kSavePatience.count()) + " s");
}

// `run` is shared with that thread, which may outlive this command if the folder never answers.
bool look(const std::shared_ptr<report::LiveRun>& run, const TopArguments& arguments,
          const std::function<bool()>& is_over) {
  const double now_s = std::chrono::duration<double>(TopClock::now().time_since_epoch()).count();
  return is_done([run, now_s] { run->look(now_s); }, arguments, is_over);
}

// Null: a signal came meanwhile.
std::shared_ptr<report::LiveRun> open(const TopArguments& arguments) {
  const auto opened = std::make_shared<std::shared_ptr<report::LiveRun>>();
  const auto work = [opened, folder = arguments.run] { *opened = std::make_shared<report::LiveRun>(folder); };
  return is_done(work, arguments, [] { return StopOnSignal::flag().load(); }) ? *opened : nullptr;
}

// Until a key or a signal ends it. A run that has ended stays on the screen.
void draw(const std::shared_ptr<report::LiveRun>& run, const TopArguments& arguments) {
  TerminalScreen screen;
  char key = 0;
  const auto is_quit = [&key] { return key == 'q' || key == 'Q' || StopOnSignal::flag(); };
  const auto is_over = [&] {
    if (!is_quit()) key = screen.wait(0);
    return is_quit();
  };
  const auto interval = std::chrono::duration<double>(arguments.interval_s > 0 ? arguments.interval_s : 1);
  while (!is_quit() && look(run, arguments, is_over)) {
    const auto next = TopClock::now() + std::chrono::duration_cast<TopClock::duration>(interval);
    while (!is_quit()) {
      screen.show(report::live_table(*run, arguments.run, screen.size().rows));
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - TopClock::now());
      if (left.count() <= 0) break;
      key = screen.wait(static_cast<int>(left.count()));
    }
  }
}

// A line per interval, until the run ends or a signal comes.
void print(const std::shared_ptr<report::LiveRun>& run, const TopArguments& arguments) {
  const auto is_over = [] { return StopOnSignal::flag().load(); };
  const auto interval = std::chrono::duration<double>(arguments.interval_s > 0 ? arguments.interval_s : 5);
  while (!is_over() && look(run, arguments, is_over)) {
    std::printf("%s\n", report::live_line(*run).c_str());
    if (std::fflush(stdout) != 0 || run->has_ended()) return;
    const auto next = TopClock::now() + interval;
    while (!is_over() && TopClock::now() < next) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }
}

int watch(const TopArguments& arguments) {
  constexpr std::array kSignals{SIGINT, SIGTERM, SIGHUP};
  const StopOnSignal signals(kSignals);
  const auto run = open(arguments);
  if (!run) return 0;
  TerminalScreen::is_there() ? draw(run, arguments) : print(run, arguments);
  return 0;
}

}  // namespace

void add_top_command(CLI::App& app, Invocation& invocation) {
  auto arguments = std::make_shared<TopArguments>();
  CLI::App* command = app.add_subcommand("top", "Show a run while it goes, rank by rank");
  command->add_option("RUN", arguments->run, "the telemetry.dir of the run, which may be on another machine")
      ->required();
  seconds(command->add_option("--interval", arguments->interval_s,
                              "seconds from one look to the next (default: 1; 5 when not on a terminal)"));
  command->footer(
      "On a terminal q or Ctrl-C ends it; elsewhere it prints a line per interval until the run ends.\n"
      "Examples:\n"
      "  forebay top run\n"
      "  ssh -t node7 forebay top /scratch/run");
  on_call(*command, invocation, [arguments] { return watch(*arguments); });
}

}  // namespace forebay::cli
