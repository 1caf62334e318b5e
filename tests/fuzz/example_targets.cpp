#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <forebay/error.hpp>

#include "data/container_bytes.hpp"
#include "data/tf_example.hpp"
#include "data/wire_format.hpp"
#include "example_reader.hpp"
#include "targets.hpp"

using namespace forebay::data;

// Compares the reader of tf.train.Example with Protocol Buffers' own. These differences are
// permitted:
// - Forebay refuses, with a message, what it does not support: a SequenceExample, more than 4096
//   features, longer names, deeper groups, and field numbers of more than 29 bits, whose lower bits
//   Protocol Buffers take.
// - It accepts what Protocol Buffers refuse in places that it does not need: names that are not
//   UTF-8, and field numbers encoded in more bytes than necessary.
// - Of an entry with several values, or a value with several lists of one kind, which no program
//   writes, it takes the last one. Protocol Buffers join them.
namespace forebay::fuzz {
namespace {

constexpr std::size_t kAll = SIZE_MAX;

ExampleValues read_by_forebay(std::span<const std::byte> message) {
  ContainerBytes bytes(message);
  const TfExample example(bytes, {.offset = 0, .length = message.size()});
  ExampleValues all;
  for (const TfFeature& feature : example.features()) {
    FeatureValues values;
    values.type = static_cast<int>(feature.type);
    for (const Extent& extent : example.byte_strings(feature, kAll)) values.strings.emplace_back(bytes.text(extent));
    for (const float number : example.floats(feature, kAll))
      values.floats.push_back(std::bit_cast<std::uint32_t>(number));
    values.integers = example.integers(feature, kAll);
    all[feature.name] = values;
  }
  return all;
}

// Whether the message has anything that Protocol Buffers would join.
bool has_parts_to_join(ContainerBytes& bytes, const Extent& message, int depth) {
  std::array<int, 4> seen{};
  WireReader reader(bytes, message);
  for (WireField field; reader.next(field);) {
    if (field.type != WireField::Type::bytes || field.number > 3) continue;
    // 0: the example, 1: its features, 2: an entry, 3: a value
    const bool is_value = depth == 2 ? field.number == 2 : depth == 3;
    if (is_value && ++seen[field.number] > 1) return true;
    const bool is_below = depth == 2 ? field.number == 2 : depth < 2 && field.number == 1;
    if (is_below && has_parts_to_join(bytes, field.extent, depth + 1)) return true;
  }
  return false;
}

bool is_permitted(std::string_view refusal) {
  for (const char* const limit :
       {"SequenceExample", "more than 4096 features", "name is too long", "nested too deeply", "more than 29 bits"}) {
    if (refusal.find(limit) != std::string_view::npos) return true;
  }
  return false;
}

}  // namespace

bool use_tf_example(std::string_view input) {
  const auto message = std::as_bytes(std::span(input));
  const auto expected = has_protobuf() ? read_by_protobuf(message) : std::nullopt;
  ExampleValues found;
  try {
    found = read_by_forebay(message);
  } catch (const SampleError& error) {
    if (expected && !is_permitted(error.what())) {
      throw std::logic_error(std::string("refused, although Protocol Buffers read it: ") + error.what());
    }
    return false;
  }
  ContainerBytes bytes(message);
  if (expected && found != *expected && !has_parts_to_join(bytes, {.offset = 0, .length = message.size()}, 0)) {
    throw std::logic_error("other features than Protocol Buffers read");
  }
  return true;
}

std::vector<std::string> tf_example_seeds() {
  const auto field = [](char tag, const std::string& text) { return tag + (static_cast<char>(text.size()) + text); };
  const auto feature = [&](const std::string& name, char type, const std::string& list) {
    return field('\x0a', field('\x0a', name) + field('\x12', field(type, list)));
  };
  using namespace std::string_literals;
  const std::string strings = feature("image", '\x0a', field('\x0a', "JPEG") + field('\x0a', ""));
  const std::string floats = feature("box", '\x12', field('\x0a', "\0\0\x80\x3f\0\0\0\x40"s) + "\x0d\0\0\0\xbf"s);
  const std::string integers = feature("label", '\x1a', field('\x0a', "\x07\xac\x02"s) + "\x08\x03"s);
  return {field('\x0a', strings + floats + integers), field('\x0a', integers),
          field('\x0a', feature("none", '\x22', ""))};
}

}  // namespace forebay::fuzz
