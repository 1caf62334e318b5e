// A job's state as text: one line of JSON, whose last member is a checksum of everything before it.
// to_text() writes it, alike on all ranks. parse_state() reads it, and checks in this order:
// nesting and size of the text, before a parser sees it; the version (another version may have its
// checksum elsewhere); the checksum; the type of each member; and finally whether the numbers are
// possible for any job: shards, ranks, epochs, and ranges that lie inside them, in order, without
// overlap.
//
// The checks are strict because a state may be years old, cut short by a full disk, or edited. What
// passes is used without further checks, as sizes and as indexes.

#include "job_state.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <forebay/error.hpp>
#include <limits>
#include <new>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "base/file_io.hpp"
#include "base/text.hpp"
#include "ledger.hpp"
#include "packed_ranges.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace forebay::order {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kVersionMember = "forebay_state";
constexpr std::uint64_t kVersion = 2;
constexpr const char* kContiguousMember = "contiguous";
// Levels of nested lists and objects; some JSON code recurses once per level.
constexpr std::size_t kDeepest = 8;
// Commas in the text. A state has about as many as there are settings, a hundred or so; commas
// within values count too.
constexpr std::ptrdiff_t kMostCommas = 20'000;
// How the text ends; the checksum of everything before is between the two parts.
constexpr std::string_view kBeforeChecksum = R"(,"checksum":")";
constexpr std::string_view kAfterChecksum = "\"}\n";
constexpr std::size_t kChecksumDigits = 16;
constexpr std::size_t kEnd = kBeforeChecksum.size() + kChecksumDigits + kAfterChecksum.size();

constexpr std::uint64_t kMostShards = std::uint64_t{1} << 20U;  // the largest mpi.virtual_shards
// The limit of open epochs is a choice; a job has at most Ledger::kEpochs. More means damage or
// malice: a few bytes could claim more epochs and ranks than fit into memory.
constexpr std::uint64_t kMostEpochs = std::uint64_t{1} << 16U;
static_assert(kMostEpochs >= Ledger::kEpochs);
// XXH3 is not a signature: it detects damage and careless edits, not attacks.
std::string checksum(std::string_view text) { return hex(XXH3_64bits(text.data(), text.size()), kChecksumDigits); }

std::uint64_t blocks_of(const JobState& state, std::uint32_t shard) noexcept {
  return forebay::order::blocks_of(
      {.batches = state.batches, .shards = state.virtual_shards, .contiguous = state.contiguous}, shard);
}

auto order_of(const BatchRange& range) noexcept { return std::tuple(range.epoch, range.shard, range.begin); }

// The most ranges that a state may have: those of the ledger, and in each shard of an open epoch
// what a rank has planned and what was then handed to another. The limit does not depend on the
// number of ranks, because a few ranks may save what many left.
std::uint64_t most_ranges(const JobState& state) noexcept {
  constexpr std::uint64_t kMostPlanned = std::uint64_t{1} << 22U;
  const Partition partition{.batches = state.batches, .shards = state.virtual_shards, .ranks = state.ranks};
  const std::uint64_t planned = 2 * (state.opened - state.epochs) * used_shards(partition);
  return Ledger::most_ranges(partition) + std::min(planned, kMostPlanned);
}

std::string described(const BatchRange& range) {
  return "blocks " + std::to_string(range.begin) + " to " + std::to_string(range.end) + " of shard " +
         std::to_string(range.shard) + " in epoch " + std::to_string(range.epoch);
}

// What is wrong with a range by itself; "" if nothing is.
std::string impossible(const JobState& state, const BatchRange& range) {
  if (range.epoch < state.epochs || range.epoch >= state.opened) {
    return "are outside the opened epochs, " + std::to_string(state.epochs) + " to " + std::to_string(state.opened);
  }
  if (range.shard >= state.virtual_shards) {
    return "are outside the " + std::to_string(state.virtual_shards) + " virtual shards";
  }
  if (range.begin >= range.end || range.end > blocks_of(state, range.shard)) {
    return "are not a part of its " + std::to_string(blocks_of(state, range.shard)) + " blocks";
  }
  if (range.owner >= state.ranks) {
    return "belong to rank " + std::to_string(range.owner) + " of " + std::to_string(state.ranks);
  }
  return {};
}

// Why a job with these numbers of ranks, shards, batches and epochs is impossible; "" if it is possible.
std::string impossible_job(const JobState& state) {
  if (state.virtual_shards == 0 || state.virtual_shards > kMostShards) {
    return "virtual_shards is " + std::to_string(state.virtual_shards) + ", not 1 to " + std::to_string(kMostShards);
  }
  if (state.ranks == 0 || state.ranks > state.virtual_shards) {
    return "ranks is " + std::to_string(state.ranks) + ", not 1 to " + std::to_string(state.virtual_shards);
  }
  if (state.batches == 0) return "batches is 0";
  if (state.opened < state.epochs || state.opened - state.epochs > kMostEpochs) {
    return "opened is " + std::to_string(state.opened) + " where epochs is " + std::to_string(state.epochs) +
           ", and at most " + std::to_string(kMostEpochs) + " epochs can be open";
  }
  return {};
}

// Why these ranges cannot be what is left of the job; "" if they can. REQUIRES: impossible_job()
// returned "".
std::string impossible_ranges(const JobState& state) {
  const BatchRange* before = nullptr;
  for (const BatchRange& range : state.left) {
    std::string what = impossible(state, range);
    if (what.empty() && before != nullptr) {
      const bool same_shard = before->epoch == range.epoch && before->shard == range.shard;
      if (order_of(range) < order_of(*before)) what = "are out of order";
      if (same_shard && what.empty() && range.begin < before->end) what = "are left twice in part";
    }
    if (!what.empty()) return described(range) + " " + what;
    before = &range;
  }
  return {};
}

class StateReader {
 public:
  StateReader(std::string_view text, std::string_view source) : text_(text), source_(source) {}

  [[nodiscard]] JobState read() {
    json_ = parsed();
    require_version();
    require_checksum();
    JobState state = job();
    if (const std::string what = impossible_job(state); !what.empty()) refuse_contents(what);
    try {
      state.left = unpack_ranges(member("left"), most_ranges(state));
    } catch (const Error& error) {
      refuse_contents(error.what());
    } catch (const std::bad_alloc&) {
      refuse("needs more memory than there is");
    }
    if (const std::string what = impossible_ranges(state); !what.empty()) refuse_contents(what);
    return state;
  }

 private:
  // Turns the parser's exceptions into one of three messages: cut off, not JSON at some byte, or
  // too large for memory.
  [[nodiscard]] Json parsed() const {
    if (text_.empty()) refuse("is empty");
    if (json_depth(text_) > kDeepest) refuse("is not a Forebay state: a state is not nested that deep");
    // Each parsed value takes many times the memory of its text. The only long values of a state
    // are strings, so many commas mean something else.
    if (std::ranges::count(text_, ',') > kMostCommas) refuse("is not a Forebay state: a state has fewer members");
    try {
      return Json::parse(text_);
    } catch (const Json::parse_error& error) {
      if (error.byte > text_.size()) refuse_cut();
      refuse("is not JSON at byte " + std::to_string(error.byte));
    } catch (const Json::exception& error) {
      refuse("is not JSON: " + std::string(error.what()));
    } catch (const std::bad_alloc&) {
      refuse("needs more memory than there is");
    }
  }

  // Checked before the checksum, which may be elsewhere in another version.
  void require_version() const {
    const auto version = json_.find(kVersionMember);  // none unless json_ is an object
    if (version == json_.end() || !version->is_number_unsigned()) {
      refuse("is not a Forebay state: it has no \"" + std::string(kVersionMember) + "\" with a version");
    }
    const auto number = version->get<std::uint64_t>();
    if (number == kVersion) return;
    const std::string_view origin = number == 0         ? ", which never was"
                                    : number < kVersion ? ", written by an older Forebay"
                                                        : ", written by a newer Forebay";
    throw ConfigError(std::string(source_) + " is a state of version " + std::to_string(number) + std::string(origin) +
                      "; this one reads version " + std::to_string(kVersion) +
                      ": resume with the Forebay that saved it");
  }

  // The checksum covers the bytes, not their meaning: a state can be written in only one way, so
  // every change is noticed.
  void require_checksum() const {
    if (!text_.ends_with('\n')) refuse_cut();
    constexpr std::string_view kWhy = ": it was edited, reformatted or damaged";
    const std::string_view end = text_.substr(text_.size() - std::min(kEnd, text_.size()));
    if (!end.starts_with(kBeforeChecksum) || !end.ends_with(kAfterChecksum)) {
      refuse("does not end with a checksum" + std::string(kWhy));
    }
    const std::string_view given = end.substr(kBeforeChecksum.size(), kChecksumDigits);
    const std::string actual = checksum(text_.substr(0, text_.size() - kEnd));
    if (given == actual) return;
    refuse("has the checksum " + actual + " and not " + std::string(given) + ", which it was saved with" +
           std::string(kWhy));
  }

  [[nodiscard]] JobState job() const {
    JobState state;
    state.steps = number("steps");
    state.epochs = number("epochs");
    state.opened = number("opened");
    state.fresh_samples = number("fresh_samples");
    state.ranks = small_number("ranks");
    state.batches = number("batches");
    state.virtual_shards = small_number("virtual_shards");
    state.samples = number("samples");
    state.dataset = text("dataset");
    state.policy = text("policy");
    const Json& settings = member("settings");
    if (!settings.is_object()) refuse_contents("settings is not an object");
    for (const auto& [key, value] : settings.items()) {
      if (!value.is_string()) refuse_contents("settings: \"" + key + "\" is not text");
      state.settings.emplace(key, value.get<std::string>());
    }
    if (const auto contiguous = json_.find(kContiguousMember); contiguous != json_.end()) {
      if (*contiguous != true) refuse_contents(std::string(kContiguousMember) + " is not true");
      state.contiguous = true;
    }
    return state;
  }

  [[nodiscard]] const Json& member(const char* name) const {
    const auto found = json_.find(name);
    if (found == json_.end()) refuse_contents(std::string(name) + " is missing");
    return *found;
  }
  [[nodiscard]] std::uint64_t number(const char* name) const {
    const Json& value = member(name);
    if (!value.is_number_unsigned()) refuse_contents(std::string(name) + " is not a whole number from 0 up");
    return value.get<std::uint64_t>();
  }
  [[nodiscard]] std::uint32_t small_number(const char* name) const {
    const std::uint64_t value = number(name);
    if (value > std::numeric_limits<std::uint32_t>::max()) refuse_contents(std::string(name) + " is too large");
    return static_cast<std::uint32_t>(value);
  }
  [[nodiscard]] std::string text(const char* name) const {
    const Json& value = member(name);
    if (!value.is_string()) refuse_contents(std::string(name) + " is not text");
    return value.get<std::string>();
  }

  [[noreturn]] void refuse(const std::string& what) const {
    throw ConfigError(std::string(source_) + " " + what + "; resume from an older state, or start again without one");
  }
  [[noreturn]] void refuse_cut() const { refuse("is cut off after " + std::to_string(text_.size()) + " bytes"); }
  // A text with a valid checksum that is not a possible state was made by hand, or by a faulty
  // Forebay.
  [[noreturn]] void refuse_contents(const std::string& what) const { refuse("is not a possible state: " + what); }

  std::string_view text_;
  std::string_view source_;
  Json json_;
};

}  // namespace

// A state that could not be read again is a bug, which should be found now and not when the job
// resumes.
std::string to_text(const JobState& state) {
  std::string what = impossible_job(state);
  if (what.empty() && state.left.size() > most_ranges(state))
    what = too_many_ranges(state.left.size(), most_ranges(state));
  if (what.empty()) what = impossible_ranges(state);
  if (!what.empty()) throw Error("the state of the job is impossible, which is a bug in Forebay: " + what);

  Json settings = Json::object();
  for (const auto& [key, value] : state.settings) settings.emplace(key, value);
  Json json{{kVersionMember, kVersion},
            {"steps", state.steps},
            {"epochs", state.epochs},
            {"opened", state.opened},
            {"fresh_samples", state.fresh_samples},
            {"ranks", state.ranks},
            {"batches", state.batches},
            {"virtual_shards", state.virtual_shards},
            {"samples", state.samples},
            {"dataset", state.dataset},
            {"policy", state.policy},
            {"settings", std::move(settings)},
            {"left", pack_ranges(state.left)}};
  if (state.contiguous) json.emplace(kContiguousMember, true);
  // Invalid UTF-8, as in the name of a file, is replaced, because a state must be valid JSON.
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  text.pop_back();  // the closing brace, which follows the checksum
  const std::string sum = checksum(text);
  return text.append(kBeforeChecksum).append(sum).append(kAfterChecksum);
}

JobState parse_state(std::string_view text, std::string_view source) { return StateReader(text, source).read(); }

}  // namespace forebay::order
