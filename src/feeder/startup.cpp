#include "startup.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <forebay/config.hpp>
#include <forebay/error.hpp>

namespace forebay {
namespace {

// What rank 0 sends: one of these, then the index or the message.
enum class Opened : std::uint8_t { index, config_error, error };

std::vector<std::byte> message(Opened kind, std::span<const std::byte> body) {
  std::vector<std::byte> bytes;
  bytes.reserve(body.size() + 1);
  bytes.push_back(static_cast<std::byte>(kind));
  bytes.insert(bytes.end(), body.begin(), body.end());
  return bytes;
}

std::vector<std::byte> message(Opened kind, std::string_view text) {
  return message(kind, std::as_bytes(std::span(text)));
}

std::string run_key(const Options& options, const Dataset& dataset) {
  Options common = options;
  common.telemetry = {};
  common.workers = {};
  common.storage = {};
  common.trainer = {};
  common.dataset.index.clear();
  return to_toml(common) + "# dataset fingerprint " + std::to_string(fingerprint(dataset)) + "\n";
}

std::string first_difference(std::string_view a, std::string_view b) {
  while (!a.empty() && !b.empty()) {
    const auto line_a = a.substr(0, a.find('\n'));
    const auto line_b = b.substr(0, b.find('\n'));
    if (line_a != line_b) return "\"" + std::string(line_a) + "\" there, \"" + std::string(line_b) + "\" on rank 0";
    a.remove_prefix(std::min(a.size(), line_a.size() + 1));
    b.remove_prefix(std::min(b.size(), line_b.size() + 1));
  }
  return "one has more keys than the other";
}

}  // namespace

std::shared_ptr<const Dataset> share_dataset(const DatasetOptions& options, Communicator& communicator) {
  if (communicator.size() == 1) return open_dataset(options);
  std::unique_ptr<Dataset> opened;
  std::vector<std::byte> bytes;
  if (communicator.rank() == 0) {
    try {
      opened = open_dataset(options);
      bytes = message(Opened::index, opened->serialize());
    } catch (const ConfigError& error) {
      bytes = message(Opened::config_error, error.what());
    } catch (const std::exception& error) {
      bytes = message(Opened::error, error.what());
    }
  }
  bytes = communicator.broadcast(std::move(bytes), 0);
  const auto kind = static_cast<Opened>(bytes.at(0));
  const auto body = std::span<const std::byte>(bytes).subspan(1);
  const std::string text(reinterpret_cast<const char*>(body.data()), kind == Opened::index ? 0 : body.size());
  if (kind == Opened::config_error) throw ConfigError(text);
  if (kind == Opened::error) throw Error(text);
  if (opened) return opened;
  return restore_dataset(body, "the index that rank 0 sent");
}

void require_same_run(const Options& options, const Dataset& dataset, Communicator& communicator) {
  if (communicator.size() == 1) return;
  const std::vector<std::string> keys = communicator.all_gather(run_key(options, dataset));
  for (std::size_t rank = 1; rank < keys.size(); ++rank) {
    if (keys[rank] == keys[0]) continue;
    throw ConfigError("rank " + std::to_string(rank) + " runs with another configuration or dataset than rank 0 (" +
                      first_difference(keys[rank], keys[0]) + "); give all ranks the same file and overrides");
  }
}

std::uint32_t count_node_ranks(std::int64_t& counter, Communicator& communicator) {
  if (communicator.size() == 1) return 1;
  std::atomic_ref<std::int64_t>(counter).fetch_add(1);
  (void)communicator.all_gather("");  // everybody has counted itself
  return static_cast<std::uint32_t>(std::atomic_ref<std::int64_t>(counter).load());
}

}  // namespace forebay
