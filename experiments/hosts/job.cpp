#include "job.hpp"

#include <cstdlib>
#include <stdexcept>
#include <string_view>

#include "every_container.hpp"
#include "memory_dataset.hpp"

namespace forebay::experiments {
namespace {

constexpr std::uint64_t kSamples = 1000;
constexpr std::int64_t kBatchSize = 4;

std::filesystem::path of_rank(const std::filesystem::path& folder, std::uint32_t part, std::uint32_t rank,
                              const char* what) {
  return folder / "shared" / (std::to_string(part) + "." + std::to_string(rank) + "." + what);
}

}  // namespace

std::filesystem::path JobSettings::steps_seen(std::uint32_t of_part, std::uint32_t rank) const {
  return of_rank(folder, of_part, rank, "steps");
}

std::filesystem::path JobSettings::end_seen(std::uint32_t of_part, std::uint32_t rank) const {
  return of_rank(folder, of_part, rank, "end");
}

JobSettings parse_settings(int argc, char** argv) {
  JobSettings settings;
  for (int i = 0; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const std::size_t equals = argument.find('=');
    if (equals == std::string_view::npos) throw std::invalid_argument(std::string(argument) + " is not KEY=VALUE");
    const std::string_view key = argument.substr(0, equals);
    const std::string value(argument.substr(equals + 1));
    const auto whole = [&] { return std::stoull(value); };
    if (key == "folder") {
      settings.folder = value;
    } else if (key == "ranks") {
      settings.ranks = static_cast<std::uint32_t>(whole());
    } else if (key == "ranks_after") {
      settings.ranks_after = static_cast<std::uint32_t>(whole());
    } else if (key == "epochs") {
      settings.epochs = whole();
    } else if (key == "save_every") {
      settings.save_every = whole();
    } else if (key == "step_ms") {
      settings.step_ms = std::stod(value);
    } else if (key == "watchdog_s") {
      settings.watchdog_s = std::stod(value);
    } else if (key == "lockstep") {
      settings.in_lockstep = whole() != 0;
    } else if (key == "all_reduce") {
      settings.all_reduces = whole() != 0;
    } else if (key == "part") {
      settings.part = static_cast<std::uint32_t>(whole());
    } else {
      throw std::invalid_argument("there is no setting " + std::string(key));
    }
  }
  return settings;
}

testing::OnceCase job_of(const JobSettings& settings) {
  testing::OnceCase job{
      .number = 0, .samples = kSamples, .container = "webdataset with fields", .bad = {}, .parts = {}};
  const testing::ContainerKind& kind = testing::container_of(job.container);
  for (const std::uint32_t ranks : {settings.ranks, settings.ranks_after}) {
    testing::Part part;
    part.ranks = ranks;
    part.options = testing::memory_options(kBatchSize);
    part.options.dataset.path = (settings.data() / kind.path).string();
    part.options.run.epochs = static_cast<std::int64_t>(settings.epochs);
    part.options.transform.size = {1, 1};
    part.options.policy.name = "adaptive";
    part.options.policy.watchdog_s = settings.watchdog_s;
    part.options.mpi.mode = settings.in_lockstep ? MpiMode::lockstep : MpiMode::local;
    testing::add_fields(part.options, kind);
    job.parts.push_back(std::move(part));
  }
  return job;
}

}  // namespace forebay::experiments
