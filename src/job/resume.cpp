// Saved states in a job: reading one on rank 0 and sharing it, comparing it with this run, and
// gathering one from all ranks. A state belongs to a run that would serve the same batches;
// require_same_job() names the first setting or the dataset that differs. Collective where a
// Communicator is an argument, on the trainer's thread.

#include "resume.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <forebay/error.hpp>

#include "base/text.hpp"
#include "order/state_file.hpp"
#include "settings.hpp"

namespace forebay::job {
namespace {

// In the machine's own layout, since the ranks of a job run one build; a length that does not fit
// says that they do not.
struct PartHead {
  std::uint64_t steps;
  std::uint64_t fresh_samples;
  std::uint64_t has_lost;
};

std::string to_bytes(const RankPart& part) {
  const PartHead head{part.steps, part.fresh_samples, part.has_lost ? 1U : 0U};
  std::string bytes(sizeof(head) + part.left.size() * sizeof(order::BatchRange), '\0');
  std::memcpy(bytes.data(), &head, sizeof(head));
  if (!part.left.empty())
    std::memcpy(bytes.data() + sizeof(head), part.left.data(), part.left.size() * sizeof(order::BatchRange));
  return bytes;
}

// Throws Error for what to_bytes() does not make.
RankPart from_bytes(const std::string& bytes) {
  PartHead head{};
  if (bytes.size() < sizeof(head) || (bytes.size() - sizeof(head)) % sizeof(order::BatchRange) != 0) {
    throw Error("a rank said in " + std::to_string(bytes.size()) +
                " bytes what it has not served, which no rank of this build does: start all ranks with the same build");
  }
  std::memcpy(&head, bytes.data(), sizeof(head));
  RankPart part{.steps = head.steps, .fresh_samples = head.fresh_samples, .left = {}, .has_lost = head.has_lost != 0};
  part.left.resize((bytes.size() - sizeof(head)) / sizeof(order::BatchRange));
  if (!part.left.empty())
    std::memcpy(part.left.data(), bytes.data() + sizeof(head), part.left.size() * sizeof(order::BatchRange));
  return part;
}

// Rank 0's answer: 's' and a state, 'n' for none, 'e' and an error.
std::vector<std::byte> message(char kind, std::string_view text) {
  std::vector<std::byte> bytes(text.size() + 1);
  bytes[0] = static_cast<std::byte>(kind);
  std::memcpy(bytes.data() + 1, text.data(), text.size());
  return bytes;
}

[[noreturn]] void refuse(std::string_view source, const std::string& what, const std::string& advice) {
  throw ConfigError(printable(source) + ": the saved job " + what + ": " + advice +
                    ", or move the file away to begin anew");
}

// By rank. Throws Error on all ranks alike when they are not at the same step, or one has lost a batch.
std::vector<RankPart> gather_parts(Communicator& communicator, const RankPart& mine) {
  std::vector<RankPart> parts;
  for (const std::string& bytes : communicator.all_gather(to_bytes(mine))) parts.push_back(from_bytes(bytes));
  for (std::size_t rank = 1; rank < parts.size(); ++rank) {
    if (parts[rank].steps == parts[0].steps) continue;
    throw Error("the state of a job is that of all ranks after the same step, but rank 0 asks after " +
                std::to_string(parts[0].steps) + " steps and rank " + std::to_string(rank) + " after " +
                std::to_string(parts[rank].steps) + ": call state() and save() on all ranks alike");
  }
  if (const auto lost = std::ranges::find(parts, true, &RankPart::has_lost); lost != parts.end()) {
    throw Error("there is no state to save: rank " + std::to_string(lost - parts.begin()) +
                " lost a batch when its device failed, so resume from the last state that was saved");
  }
  return parts;
}

constexpr std::int64_t kMostParts = 1 << 20;  // the largest dataset.nodes

}  // namespace

std::optional<SavedState> share_state(const std::filesystem::path& file, Communicator& communicator) {
  std::vector<std::byte> bytes;
  if (communicator.rank() == 0) {
    try {
      const std::optional<std::string> text = file.empty() ? std::nullopt : order::read_state(file);
      bytes = text ? message('s', *text) : message('n', "");
    } catch (const std::exception& error) {
      bytes = message('e', cause_of(error));
    }
  }
  if (communicator.size() > 1) bytes = communicator.broadcast(std::move(bytes), 0);
  if (bytes.empty()) throw Error("rank 0 did not say whether there is a state to resume from");
  const auto kind = static_cast<char>(bytes.front());
  if (kind == 'n') return std::nullopt;
  std::string text(reinterpret_cast<const char*>(bytes.data()) + 1, bytes.size() - 1);
  if (kind == 'e') throw ConfigError(text);
  return SavedState{std::move(text), file.string()};
}

ResumePoint::ResumePoint(SavedState saved, const Options& options) : saved_(std::move(saved)) {
  if (options.run.eval) {
    throw ConfigError(saved_.source +
                      ": an evaluation begins at the beginning (run.eval = true); it cannot resume from a saved state");
  }
  job_ = order::parse_state(saved_.text, saved_.source);
}

// Whatever else stands there is refused when settings are compared.
std::int64_t ResumePoint::parts() const noexcept {
  const auto found = job_.settings.find("dataset.nodes");
  std::int64_t parts = 0;
  if (found != job_.settings.end()) {
    const std::string& text = found->second;
    std::from_chars(text.data(), text.data() + text.size(), parts);
  }
  return std::clamp<std::int64_t>(parts, 0, kMostParts);
}

bool ResumePoint::is_end_of(const RunOptions& run) const noexcept {
  if (!is_saved()) return false;
  return run.steps > 0 ? job_.steps >= static_cast<std::uint64_t>(run.steps)
                       : job_.epochs >= static_cast<std::uint64_t>(run.epochs);
}

void ResumePoint::require_same_job(const order::JobState& ours) const {
  if (const auto difference = first_difference(job_.settings, ours.settings)) {
    refuse(saved_.source, "had " + difference->theirs + " and this one has " + difference->ours, "set it as it was");
  }
  // They follow from the settings, unless somebody has changed the state.
  if (job_.contiguous != ours.contiguous || job_.virtual_shards != ours.virtual_shards) {
    const auto dealt = [](const order::JobState& job) {
      return std::to_string(job.virtual_shards) + (job.contiguous ? " shards of batches in a row" : " shards in turn");
    };
    refuse(saved_.source, "dealt its batches out to " + dealt(job_) + " and this one deals them out to " + dealt(ours),
           "the state is not as it was saved");
  }
  if (job_.dataset != ours.dataset || job_.samples != ours.samples || job_.batches != ours.batches) {
    refuse(saved_.source,
           "had another dataset (" + std::to_string(job_.samples) + " samples, fingerprint " + printable(job_.dataset) +
               ") than this one (" + std::to_string(ours.samples) + " samples, " + ours.dataset + ")",
           "check dataset.path, dataset.classes and dataset.index");
  }
  if (const auto contents = other_contents(job_.settings, ours.settings)) {
    refuse(saved_.source,
           "had the same number of samples in files of the same sizes, but other contents (" + contents->theirs +
               ") than this one (" + contents->ours + ")",
           "check dataset.path");
  }
}

// The ranges are moved out: states of large jobs have many, and they are needed once.
order::Ledger ResumePoint::take_ledger(const order::Partition& partition) {
  if (!is_saved()) return order::Ledger(partition);
  return {partition, job_.epochs, job_.opened, std::move(job_.left), job_.ranks};
}

std::string ResumePoint::describe() const {
  return "resumes from " + printable(saved_.source) + ": step " + std::to_string(job_.steps) + ", epoch " +
         std::to_string(job_.epochs) + ", " + std::to_string(job_.fresh_samples) + " samples served fresh, saved by " +
         counted(job_.ranks, "rank");
}

std::string ResumePoint::describe_complete() const {
  return describe() +
         ": that run was complete, so there are no batches; raise run.epochs or run.steps, or remove that state";
}

order::JobState begin_state(const Options& options, const Dataset& dataset, const Order& order, std::uint32_t ranks) {
  order::JobState state;
  state.ranks = ranks;
  state.batches = order.batches();
  state.virtual_shards = static_cast<std::uint32_t>(options.mpi.virtual_shards);
  state.contiguous = order.is_contiguous();
  state.samples = dataset.size();
  state.dataset = hex(fingerprint(dataset), 16);
  state.policy = options.policy.name;
  state.settings = batch_settings(options);
  add_data(state.settings, options, dataset, order.options().selection.get());
  return state;
}

order::JobState gather_state(order::JobState state, const RankPart& mine, Communicator& communicator) {
  state.steps = mine.steps;
  for (const RankPart& part : gather_parts(communicator, mine)) {
    state.fresh_samples += part.fresh_samples;
    state.left.insert(state.left.end(), part.left.begin(), part.left.end());
  }
  order::tidy(state.left);
  state.epochs = state.left.empty() ? state.opened : state.left.front().epoch;
  return state;
}

}  // namespace forebay::job
