#include "job_state.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <limits>
#include <new>
#include <utility>

#include <forebay/error.hpp>

#include "base/text.hpp"
#include "piece_coding.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace forebay {
namespace {

constexpr const char* kVersionMember = "forebay_state";
constexpr std::uint64_t kVersion = 1;
// Levels of nested lists and objects. Some JSON code recurses once per level.
constexpr int kDeepest = 8;
// The end of the text; the checksum of everything before it stands between the two parts.
constexpr std::string_view kBeforeChecksum = R"(,"checksum":")";
constexpr std::string_view kAfterChecksum = "\"}\n";
constexpr std::size_t kChecksumDigits = 16;
constexpr std::size_t kEnd = kBeforeChecksum.size() + kChecksumDigits + kAfterChecksum.size();

std::string checksum(std::string_view text) { return hex(XXH3_64bits(text.data(), text.size()), kChecksumDigits); }

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
      // Moved: they may be large.
      CodedPieces coded{.left = std::move(json_["left"]), .cut = std::move(json_["cut"])};
      state.left = decode(state, coded);
    } catch (const Error& error) {
      refuse_contents(error.what());
    } catch (const std::bad_alloc&) {
      refuse("needs more memory than there is");
    }
    if (const std::string what = impossible_pieces(state); !what.empty()) refuse_contents(what);
    return state;
  }

 private:
  [[nodiscard]] StateJson parsed() const {
    if (text_.empty()) refuse("is empty");
    const auto is_shallow = [this](int depth, StateJson::parse_event_t /*event*/, StateJson& /*value*/) {
      if (depth > kDeepest) refuse("is not a Forebay state: a state is not nested that deep");
      return true;
    };
    try {
      return StateJson::parse(text_.begin(), text_.end(), is_shallow);
    } catch (const StateJson::parse_error& error) {
      if (error.byte > text_.size()) refuse_cut();
      refuse("is not JSON at byte " + std::to_string(error.byte));
    } catch (const StateJson::exception& error) {
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
    std::string what = "is a state of version " + std::to_string(number);
    what.append(number > kVersion ? ", written by a newer Forebay" : ", which never was");
    throw ConfigError(std::string(source_) + " " + what + "; this one reads version " + std::to_string(kVersion) +
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
    const StateJson& settings = member("settings");
    if (!settings.is_object()) refuse_contents("settings is not an object");
    for (const auto& [key, value] : settings.items()) {
      if (!value.is_string()) refuse_contents("settings: \"" + key + "\" is not text");
      state.settings.emplace(key, value.get<std::string>());
    }
    (void)member("left");
    (void)member("cut");
    return state;
  }

  [[nodiscard]] const StateJson& member(const char* name) const {
    const auto found = json_.find(name);
    if (found == json_.end()) refuse_contents(std::string(name) + " is missing");
    return *found;
  }
  [[nodiscard]] std::uint64_t number(const char* name) const {
    const StateJson& value = member(name);
    if (!value.is_number_unsigned()) refuse_contents(std::string(name) + " is not a whole number from 0 up");
    return value.get<std::uint64_t>();
  }
  [[nodiscard]] std::uint32_t small_number(const char* name) const {
    const std::uint64_t value = number(name);
    if (value > std::numeric_limits<std::uint32_t>::max()) refuse_contents(std::string(name) + " is too large");
    return static_cast<std::uint32_t>(value);
  }
  [[nodiscard]] std::string text(const char* name) const {
    const StateJson& value = member(name);
    if (!value.is_string()) refuse_contents(std::string(name) + " is not text");
    return value.get<std::string>();
  }

  [[noreturn]] void refuse(const std::string& what) const {
    throw ConfigError(std::string(source_) + " " + what + "; resume from an older state, or start again without one");
  }
  [[noreturn]] void refuse_cut() const { refuse("is cut off after " + std::to_string(text_.size()) + " bytes"); }
  // A text with the right checksum that is no state was made by hand, or by a faulty Forebay.
  [[noreturn]] void refuse_contents(const std::string& what) const { refuse("is not a possible state: " + what); }

  std::string_view text_;
  std::string_view source_;
  StateJson json_;
};

}  // namespace

std::string to_text(const JobState& state) {
  std::string what = impossible_job(state);
  if (what.empty()) what = impossible_pieces(state);
  if (!what.empty()) throw Error("the state of the job is impossible, which is a bug in Forebay: " + what);

  StateJson settings = StateJson::object();
  for (const auto& [key, value] : state.settings) settings.emplace(key, value);
  CodedPieces pieces = encode(state);
  const StateJson json{{kVersionMember, kVersion},
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
                       {"left", std::move(pieces.left)},
                       {"cut", std::move(pieces.cut)}};
  std::string text = json.dump(-1, ' ', false, StateJson::error_handler_t::replace);
  text.pop_back();  // the closing brace, which comes after the checksum
  const std::string sum = checksum(text);
  return text.append(kBeforeChecksum).append(sum).append(kAfterChecksum);
}

JobState parse_state(std::string_view text, std::string_view source) { return StateReader(text, source).read(); }

}  // namespace forebay
