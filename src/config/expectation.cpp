#include <bit>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>

#include "schema.hpp"
#include "writer.hpp"

// What a kind's values are, in words.
namespace forebay::config {
namespace {

// Powers of 2 and of 10 as such where one would have to count their digits.
std::string number(std::int64_t value) {
  constexpr std::int64_t kLongPowerOf2 = 100'000;
  constexpr std::int64_t kLongPowerOf10 = 10'000'000;
  const auto bits = static_cast<std::uint64_t>(value);
  if (value >= kLongPowerOf2 && std::has_single_bit(bits)) return "2^" + std::to_string(std::countr_zero(bits));
  std::string digits = std::to_string(value);
  if (value < kLongPowerOf10 || digits[0] != '1' || digits.find_first_not_of('0', 1) != std::string::npos)
    return digits;
  return "10^" + std::to_string(digits.size() - 1);
}

// Limits are whole numbers or small decimals.
std::string number(double value) {
  const auto rounded = static_cast<std::int64_t>(value);
  return static_cast<double>(rounded) == value ? number(rounded) : to_text(value);
}

template <typename T>
std::string bounds(const Range<T>& range) {
  if constexpr (std::is_floating_point_v<T>) {
    if (range.high == std::numeric_limits<double>::infinity()) return "of " + number(range.low) + " or more, or inf";
  }
  if (range.above_low) return "above " + number(range.low) + " and up to " + number(range.high);
  return "from " + number(range.low) + " to " + number(range.high);
}

std::string one_of(std::span<const std::string_view> names) {
  std::string text = "one of";
  for (const auto name : names) text += (name == names.front() ? " \"" : ", \"") + std::string(name) + "\"";
  return text;
}

template <std::size_t N>
std::string tuple_of(const char* what, const std::string& range) {
  return "an array of " + std::to_string(N) + " " + what + " " + range;
}

}  // namespace

std::string expectation(const Kind& kind) {
  return std::visit(
      Overloaded{
          [](const Flag&) { return std::string("true or false"); },
          [](const Seed&) { return std::string("a whole number from 0 to 2^64 - 1 (as a string from 2^63 on)"); },
          [](const Integer& integer) { return "a whole number " + bounds(integer.range); },
          [](const Bytes& bytes) {
            return "a number of bytes " + bounds(bytes.range) + R"(, or text such as "256MiB" or "64MB")";
          },
          [](const Threads& threads) {
            return "\"auto\" or a whole number " + bounds(Range<std::int64_t>{1, threads.range.high});
          },
          [](const Real& real) { return "a number " + bounds(real.range); },
          [](const Tuple<std::int64_t, 2>& pair) { return tuple_of<2>("whole numbers", bounds(pair.range)); },
          [](const Tuple<double, 2>& pair) { return tuple_of<2>("numbers", bounds(pair.range)); },
          [](const Tuple<double, 3>& triple) { return tuple_of<3>("numbers", bounds(triple.range)); },
          [](const Text& text) { return text.choices.empty() ? std::string("a string") : one_of(text.choices); },
          [](const TextList&) { return std::string(R"(an array of strings such as ["cat", "dog"])"); },
          [](const Choice& options) { return one_of(options.names); },
          [](const Budget&) {
            return std::string("a share from 0.0 to 1.0, or a count as a whole number of 0 or more");
          },
      },
      kind);
}

}  // namespace forebay::config
