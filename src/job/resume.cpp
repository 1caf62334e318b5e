#include "resume.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include <forebay/error.hpp>

#include "base/text.hpp"
#include "order/selection.hpp"
#include "order/state_file.hpp"
#include "settings.hpp"

namespace forebay {
namespace {

struct PartHead {
  std::uint64_t steps;
  std::uint64_t fresh_samples;
};

std::string to_bytes(const RankPart& part) {
  const PartHead head{part.steps, part.fresh_samples};
  std::string bytes(sizeof(head) + part.left.size() * sizeof(Piece), '\0');
  std::memcpy(bytes.data(), &head, sizeof(head));
  if (!part.left.empty()) std::memcpy(bytes.data() + sizeof(head), part.left.data(), part.left.size() * sizeof(Piece));
  return bytes;
}

RankPart from_bytes(const std::string& bytes) {
  PartHead head{};
  std::memcpy(&head, bytes.data(), sizeof(head));
  RankPart part{.steps = head.steps, .fresh_samples = head.fresh_samples, .left = {}};
  part.left.resize((bytes.size() - sizeof(head)) / sizeof(Piece));
  if (!part.left.empty()) std::memcpy(part.left.data(), bytes.data() + sizeof(head), part.left.size() * sizeof(Piece));
  return part;
}

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

}  // namespace

std::vector<RankPart> gather_parts(Communicator& communicator, const RankPart& mine) {
  std::vector<RankPart> parts;
  for (const std::string& bytes : communicator.all_gather(to_bytes(mine))) parts.push_back(from_bytes(bytes));
  for (std::size_t rank = 1; rank < parts.size(); ++rank) {
    if (parts[rank].steps == parts[0].steps) continue;
    throw Error("the state of a job is that of all ranks after the same step, but rank 0 asks after " +
                std::to_string(parts[0].steps) + " steps and rank " + std::to_string(rank) + " after " +
                std::to_string(parts[rank].steps) + ": call state() and save() on all ranks alike");
  }
  return parts;
}

std::optional<std::string> share_state(const std::filesystem::path& file, Communicator& communicator) {
  std::vector<std::byte> bytes;
  if (communicator.rank() == 0) {
    try {
      const std::optional<std::string> text = file.empty() ? std::nullopt : read_state(file);
      bytes = text ? message('s', *text) : message('n', "");
    } catch (const std::exception& error) {
      bytes = message('e', error.what());
    }
  }
  if (communicator.size() > 1) bytes = communicator.broadcast(std::move(bytes), 0);
  const auto kind = static_cast<char>(bytes.at(0));
  if (kind == 'n') return std::nullopt;
  std::string text(reinterpret_cast<const char*>(bytes.data()) + 1, bytes.size() - 1);
  if (kind == 'e') throw ConfigError(text);
  return text;
}

JobState state_of(const Options& options, const Dataset& dataset, const Order& order, std::uint32_t ranks) {
  JobState state;
  state.ranks = ranks;
  state.batches = order.batches();
  state.virtual_shards = static_cast<std::uint32_t>(options.mpi.virtual_shards);
  state.samples = dataset.size();
  state.dataset = hex(fingerprint(dataset), 16);
  state.policy = options.policy.name;
  state.settings = batch_settings(options);
  if (const auto& selection = order.options().selection) {
    constexpr std::array<std::string_view, 4> kKeys{"dataset.split", "dataset.part", "dataset.fraction",
                                                    "dataset.weights"};
    add_settings(state.settings, options, kKeys);
    state.settings.emplace("the contents of dataset.weights", hex(selection->fingerprint(), 16));
  }
  return state;
}

void require_same_job(const JobState& saved, const JobState& ours, std::string_view source) {
  for (const auto& [key, value] : ours.settings) {
    const auto found = saved.settings.find(key);
    if (found != saved.settings.end() && found->second == value) continue;
    std::string what =
        found == saved.settings.end() ? "had no " + key : "had " + key + " = " + printable(found->second);
    what.append(" and this one has ").append(key).append(" = ").append(value);
    refuse(source, what, "set it as it was");
  }
  for (const auto& [key, value] : saved.settings) {
    if (ours.settings.contains(key)) continue;
    refuse(source, "had " + printable(key) + " = " + printable(value) + " and this one has none", "set it as it was");
  }
  if (saved.dataset != ours.dataset || saved.samples != ours.samples || saved.batches != ours.batches) {
    refuse(source,
           "had another dataset (" + std::to_string(saved.samples) + " samples, fingerprint " +
               printable(saved.dataset) + ") than this one (" + std::to_string(ours.samples) + " samples, " +
               ours.dataset + ")",
           "check dataset.path, dataset.classes and dataset.index");
  }
}

}  // namespace forebay
