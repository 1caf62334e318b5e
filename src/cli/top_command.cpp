#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include <CLI/CLI.hpp>

#include "commands.hpp"
#include "feed_parts.hpp"
#include "report/live_run.hpp"
#include "terminal.hpp"

namespace forebay {
namespace {

struct TopArguments {
  std::string run;
  double interval_s = 0;  // 0 = 1 on a terminal, 5 elsewhere
};

using TopClock = std::chrono::steady_clock;

double now_s() { return std::chrono::duration<double>(TopClock::now().time_since_epoch()).count(); }

// Until a key or a signal ends it. A run that has ended stays on the screen.
void draw(LiveRun& run, const TopArguments& arguments) {
  TerminalScreen screen;
  const auto interval = std::chrono::duration<double>(arguments.interval_s > 0 ? arguments.interval_s : 1);
  while (!StopOnSignal::flag()) {
    run.look(now_s());
    const auto next = TopClock::now() + std::chrono::duration_cast<TopClock::duration>(interval);
    while (!StopOnSignal::flag()) {
      screen.show(live_table(run, arguments.run, screen.size().rows));
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - TopClock::now());
      if (left.count() <= 0) break;
      const char key = screen.wait(static_cast<int>(left.count()));
      if (key == 'q' || key == 'Q') return;
    }
  }
}

// A line per interval, until the run ends or a signal comes.
void print(LiveRun& run, const TopArguments& arguments) {
  const auto interval = std::chrono::duration<double>(arguments.interval_s > 0 ? arguments.interval_s : 5);
  while (!StopOnSignal::flag()) {
    run.look(now_s());
    std::printf("%s\n", live_line(run).c_str());
    if (std::fflush(stdout) != 0 || run.has_ended()) return;
    const auto next = TopClock::now() + interval;
    while (!StopOnSignal::flag() && TopClock::now() < next) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }
}

int watch(const TopArguments& arguments) {
  constexpr std::array kSignals{SIGINT, SIGTERM, SIGHUP};
  LiveRun run(arguments.run);
  const StopOnSignal signals(kSignals);
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

}  // namespace forebay
