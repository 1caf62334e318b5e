#include "writer.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <string_view>

#include <forebay/config.hpp>

#include "size_text.hpp"

namespace forebay::config {
namespace {

// A TOML basic string.
std::string in_quotes(std::string_view text) {
  static constexpr std::string_view kHex = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (byte < 0x20 || byte == 0x7f) {
      out += std::string("\\u00") + kHex[byte >> 4] + kHex[byte & 15];
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string text_of(std::int64_t value) { return std::to_string(value); }
std::string text_of(double value) { return to_text(value); }
std::string text_of(const std::string& value) { return in_quotes(value); }

template <typename Items>
std::string array_text(const Items& items) {
  std::string text = "[";
  for (const auto& item : items) text += (text.size() > 1 ? ", " : "") + text_of(item);
  return text + "]";
}

std::string seed_text(std::uint64_t seed) {
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  return seed <= kMost ? std::to_string(seed) : in_quotes(std::to_string(seed));
}

std::string size_text(std::int64_t bytes) {
  const std::string size = exact_size(bytes);
  return size.empty() ? std::to_string(bytes) : in_quotes(size);
}

void append_line(std::string& out, const std::string& text, std::string_view comment) {
  constexpr std::size_t kCommentColumn = 33;
  out += text;
  if (!comment.empty()) {
    out.append(text.size() + 2 <= kCommentColumn ? kCommentColumn - text.size() : 2, ' ');
    out.append("# ").append(comment);
  }
  out += '\n';
}

}  // namespace

std::string to_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::array<char, 32> buffer{};
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  std::string text(buffer.data(), result.ptr);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

std::string value_text(const Key& key, const Options& options) {
  return std::visit(
      Overloaded{
          [&](const Flag& flag) { return std::string(flag.field.get(options) ? "true" : "false"); },
          [&](const Seed& seed) { return seed_text(seed.field.get(options)); },
          [&](const Integer& integer) { return text_of(integer.field.get(options)); },
          [&](const Bytes& bytes) { return size_text(bytes.field.get(options)); },
          [&](const Threads& threads) {
            const auto count = threads.field.get(options);
            return count == 0 ? in_quotes("auto") : text_of(count);
          },
          [&](const Real& real) { return text_of(real.field.get(options)); },
          [&]<typename T, std::size_t N>(const Tuple<T, N>& tuple) { return array_text(tuple.field.get(options)); },
          [&](const Text& text) { return in_quotes(text.field.get(options)); },
          [&](const TextList& list) { return array_text(list.field.get(options)); },
          [&](const Choice& choice) {
            const std::size_t place = choice.get(options);
            return place < choice.names.size() ? in_quotes(choice.names[place]) : std::to_string(place);
          },
          [&](const Budget& budget) {
            return std::visit([](auto value) { return text_of(value); }, budget.field.get(options));
          },
      },
      key.kind);
}

}  // namespace forebay::config

namespace forebay {

std::string to_toml(const Options& options) {
  std::string out;
  std::string_view section;
  for (const config::Key& key : config::keys()) {
    if (key.section != section) {
      section = key.section;
      out += '\n';
      config::append_line(out, "[" + std::string(section) + "]", config::find_section(section)->help);
    }
    config::append_line(out, std::string(key.name) + " = " + config::value_text(key, options), key.help);
  }
  return out;
}

}  // namespace forebay
