#include "job_state.hpp"

#include <zlib.h>
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

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace forebay {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kVersionMember = "forebay_state";
constexpr std::uint64_t kVersion = 2;
constexpr const char* kContiguousMember = "contiguous";
// Levels of nested lists and objects. Some JSON code recurses once per level.
constexpr std::size_t kDeepest = 8;
// The end of the text; the checksum of everything before it is between the two parts.
constexpr std::string_view kBeforeChecksum = R"(,"checksum":")";
constexpr std::string_view kAfterChecksum = "\"}\n";
constexpr std::size_t kChecksumDigits = 16;
constexpr std::size_t kEnd = kBeforeChecksum.size() + kChecksumDigits + kAfterChecksum.size();

constexpr std::uint64_t kMostShards = std::uint64_t{1} << 20U;  // the largest mpi.virtual_shards
// More means damage or malice: a few bytes could claim to encode more epochs and pieces than fit into memory. No job
// has more than Ledger::kEpochs open.
constexpr std::uint64_t kMostEpochs = std::uint64_t{1} << 16U;
static_assert(kMostEpochs >= Ledger::kEpochs);
std::string checksum(std::string_view text) { return hex(XXH3_64bits(text.data(), text.size()), kChecksumDigits); }

std::uint64_t blocks_of(const JobState& state, std::uint32_t shard) noexcept {
  return forebay::blocks_of({.batches = state.batches, .shards = state.virtual_shards, .contiguous = state.contiguous},
                            shard);
}

auto order_of(const Piece& piece) noexcept { return std::tuple(piece.epoch, piece.shard, piece.begin); }

// What the ledger holds, and in each shard of an opened epoch what a rank has planned and what was then handed to
// another. It does not depend on the ranks: what many of them left may be saved again by a few.
std::uint64_t most_pieces(const JobState& state) noexcept {
  constexpr std::uint64_t kMostPlanned = std::uint64_t{1} << 22U;
  const Deal deal{.batches = state.batches, .shards = state.virtual_shards, .ranks = state.ranks};
  const std::uint64_t planned = 2 * (state.opened - state.epochs) * used_shards(deal);
  return Ledger::most_pieces(deal) + std::min(planned, kMostPlanned);
}

std::string too_many(std::uint64_t pieces, std::uint64_t most) {
  return "left has " + std::to_string(pieces) + " pieces, and a job can have " + std::to_string(most) + " at most";
}

std::string described(const Piece& piece) {
  return "blocks " + std::to_string(piece.begin) + " to " + std::to_string(piece.end) + " of shard " +
         std::to_string(piece.shard) + " in epoch " + std::to_string(piece.epoch);
}

// What is wrong with the piece by itself; "" if nothing is.
std::string impossible(const JobState& state, const Piece& piece) {
  if (piece.epoch < state.epochs || piece.epoch >= state.opened) {
    return "are outside the opened epochs, " + std::to_string(state.epochs) + " to " + std::to_string(state.opened);
  }
  if (piece.shard >= state.virtual_shards) {
    return "are outside the " + std::to_string(state.virtual_shards) + " virtual shards";
  }
  if (piece.begin >= piece.end || piece.end > blocks_of(state, piece.shard)) {
    return "are not a part of its " + std::to_string(blocks_of(state, piece.shard)) + " blocks";
  }
  if (piece.owner >= state.ranks) {
    return "belong to rank " + std::to_string(piece.owner) + " of " + std::to_string(state.ranks);
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

// Why these pieces cannot be what is left of the job; "" if they can. REQUIRES: the job is possible.
std::string impossible_pieces(const JobState& state) {
  const Piece* before = nullptr;
  for (const Piece& piece : state.left) {
    std::string what = impossible(state, piece);
    if (what.empty() && before != nullptr) {
      const bool same_shard = before->epoch == piece.epoch && before->shard == piece.shard;
      if (order_of(piece) < order_of(*before)) what = "are out of order";
      if (same_shard && what.empty() && piece.begin < before->end) what = "are left twice in part";
    }
    if (!what.empty()) return described(piece) + " " + what;
    before = &piece;
  }
  return {};
}

// A piece's numbers, by the names of their lists in the text.
constexpr std::array<const char*, 5> kColumns{"epoch", "shard", "begin", "end", "owner"};
using Row = std::array<std::uint64_t, kColumns.size()>;

Row row_of(const Piece& piece) noexcept { return {piece.epoch, piece.shard, piece.begin, piece.end, piece.owner}; }

Piece piece_of(const Row& row) noexcept {
  // Numbers that are too large become one that no shard and no rank has.
  const auto small = [](std::uint64_t number) {
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(number, std::numeric_limits<std::uint32_t>::max()));
  };
  return {.epoch = row[0], .begin = row[2], .end = row[3], .shard = small(row[1]), .owner = small(row[4])};
}

// The pieces as JSON, compressed: a list for each of their numbers. It has the differences from the piece before,
// modulo 2^64: most pieces resemble their neighbours, so these compress well.
Json pack(const std::vector<Piece>& pieces) {
  std::array<std::vector<std::int64_t>, kColumns.size()> numbers;
  Row before{};
  for (const Piece& piece : pieces) {
    const Row row = row_of(piece);
    for (std::size_t i = 0; i < row.size(); ++i) {
      numbers[i].push_back(static_cast<std::int64_t>(row[i] - before[i]));
    }
    before = row;
  }
  Json columns;
  for (std::size_t i = 0; i < numbers.size(); ++i) columns[kColumns[i]] = numbers[i];
  const std::string text = columns.dump();
  uLongf size = ::compressBound(text.size());
  std::string packed(size, '\0');
  // The fastest level, because a step waits for it.
  if (::compress2(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(text.data()),
                  text.size(), Z_BEST_SPEED) != Z_OK) {
    throw std::bad_alloc();
  }
  packed.resize(size);
  return {{"bytes", text.size()}, {"zlib", base64(packed)}};
}

// The text that pack() compressed, for at most `most` pieces. Throws Error saying what is wrong.
std::string unpacked_text(const Json& left, std::uint64_t most) {
  constexpr std::uint64_t kFrame = 64;      // bytes of the text beside its numbers
  constexpr std::uint64_t kLongest = 21;    // of a number and its comma
  constexpr std::uint64_t kShrinks = 1032;  // zlib makes no more than so many bytes of one
  const auto bytes = left.find("bytes");    // there is none unless it is an object
  const auto zlib = left.find("zlib");
  if (bytes == left.end() || zlib == left.end() || !bytes->is_number_unsigned() || !zlib->is_string()) {
    throw Error(R"(left is not an object with the number "bytes" and the text "zlib")");
  }
  const auto packed = from_base64(zlib->get_ref<const std::string&>());
  if (!packed) throw Error("left: \"zlib\" is not base64");
  uLongf size = bytes->get<std::uint64_t>();
  if (size > kFrame + most * kColumns.size() * kLongest || size / kShrinks > packed->size()) {
    throw Error("left: " + std::to_string(size) + " bytes are more than the pieces of the job can have");
  }
  std::string text(size, '\0');
  const int result = ::uncompress(reinterpret_cast<Bytef*>(text.data()), &size,
                                  reinterpret_cast<const Bytef*>(packed->data()), packed->size());
  if (result != Z_OK || size != text.size()) throw Error(R"(left: "zlib" does not hold what "bytes" says)");
  return text;
}

// The pieces that pack() was given; they may still be impossible. Throws Error saying what is wrong.
std::vector<Piece> unpack(const Json& left, std::uint64_t most) {
  const std::string text = unpacked_text(left, most);
  const Json columns = json_depth(text) > kDeepest ? Json() : Json::parse(text, nullptr, false);
  const auto is_whole = [](const Json& each) { return each.is_number_integer(); };
  std::array<std::vector<std::int64_t>, kColumns.size()> numbers;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto column = columns.find(kColumns[i]);
    if (column == columns.end() || !column->is_array() || !std::ranges::all_of(*column, is_whole)) {
      throw Error("left: \"" + std::string(kColumns[i]) + "\" is not a list of whole numbers");
    }
    if (i > 0 && column->size() != numbers[0].size()) throw Error("left: its lists differ in length");
    column->get_to(numbers[i]);
  }
  if (numbers[0].size() > most) throw Error(too_many(numbers[0].size(), most));
  std::vector<Piece> pieces;
  pieces.reserve(numbers[0].size());
  Row row{};
  for (std::size_t k = 0; k < numbers[0].size(); ++k) {
    for (std::size_t i = 0; i < row.size(); ++i) row[i] += static_cast<std::uint64_t>(numbers[i][k]);
    pieces.push_back(piece_of(row));
  }
  return pieces;
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
      state.left = unpack(member("left"), most_pieces(state));
    } catch (const Error& error) {
      refuse_contents(error.what());
    } catch (const std::bad_alloc&) {
      refuse("needs more memory than there is");
    }
    if (const std::string what = impossible_pieces(state); !what.empty()) refuse_contents(what);
    return state;
  }

 private:
  [[nodiscard]] Json parsed() const {
    if (text_.empty()) refuse("is empty");
    if (json_depth(text_) > kDeepest) refuse("is not a Forebay state: a state is not nested that deep");
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

  // Checked before the checksum, which another version may have elsewhere.
  void require_version() const {
    const auto version = json_.find(kVersionMember);  // there is none unless it is an object
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

  // Of the bytes, not of their meaning: a state can be written in one way only, so no change slips through.
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
  // A text with the right checksum that is not a state was made by hand, or by a faulty Forebay.
  [[noreturn]] void refuse_contents(const std::string& what) const { refuse("is not a possible state: " + what); }

  std::string_view text_;
  std::string_view source_;
  Json json_;
};

}  // namespace

std::string to_text(const JobState& state) {
  std::string what = impossible_job(state);
  if (what.empty() && state.left.size() > most_pieces(state)) what = too_many(state.left.size(), most_pieces(state));
  if (what.empty()) what = impossible_pieces(state);
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
            {"left", pack(state.left)}};
  if (state.contiguous) json.emplace(kContiguousMember, true);
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  text.pop_back();  // the closing brace, which comes after the checksum
  const std::string sum = checksum(text);
  return text.append(kBeforeChecksum).append(sum).append(kAfterChecksum);
}

JobState parse_state(std::string_view text, std::string_view source) { return StateReader(text, source).read(); }

}  // namespace forebay
