// Reads the features of a tf.train.Example, a Protocol Buffers message, without that library
// (wire_format.cpp). The schema is TensorFlow's example.proto and feature.proto.
//
// An Example has one field, Features (1), whose only field (1) is a map: repeated entries with a
// key (1) and a value (2), a Feature. A Feature has one of three lists: bytes (1), floats (2),
// integers (3). The constructor records names, types and where the lists are. Their elements are
// read on request, and only as many as wanted, so that an image is never read to get its label.

#include "tf_example.hpp"

#include <algorithm>
#include <bit>

#include "wire_format.hpp"

namespace forebay::data {
namespace {

using Wire = WireField::Type;

// Chosen: few enough for a linear search.
constexpr std::size_t kMostFeatures = 4096;
constexpr std::uint64_t kLongestFeatureName = 4096;

}  // namespace

// A SequenceExample has the same first field, and is recognised by its second: feature lists.
TfExample::TfExample(ContainerBytes& bytes, const Extent& message) : bytes_(bytes) {
  WireReader reader(bytes_, message);
  for (WireField field; reader.next(field);) {
    if (field.is(1, Wire::bytes)) read_features(field.extent);
    if (field.is(2, Wire::bytes)) {
      throw at_byte(field.extent.offset, "a tf.train.SequenceExample, where a tf.train.Example is expected");
    }
  }
}

void TfExample::read_features(const Extent& message) {
  WireReader reader(bytes_, message);
  for (WireField field; reader.next(field);) {
    if (field.is(1, Wire::bytes)) read_feature(field.extent);
  }
}

// An entry of the map from names to features. The last entry of a name counts, as always in Protocol Buffers.
void TfExample::read_feature(const Extent& entry) {
  TfFeature feature;
  Extent value;
  WireReader reader(bytes_, entry);
  for (WireField field; reader.next(field);) {
    if (field.is(1, Wire::bytes)) {
      if (field.extent.length > kLongestFeatureName) throw at_byte(field.extent.offset, "a feature's name is too long");
      feature.name = bytes_.text(field.extent);
    }
    if (field.is(2, Wire::bytes)) value = field.extent;
  }
  WireReader values(bytes_, value);
  for (WireField field; values.next(field);) {
    if (field.type != Wire::bytes || field.number < 1 || field.number > 3) continue;
    feature.type = static_cast<TfFeature::Type>(field.number);
    feature.list = field.extent;
  }
  // Repeated names count too, so that one record cannot cause unlimited comparisons.
  if (++entries_ > kMostFeatures)
    throw at_byte(entry.offset, "more than " + std::to_string(kMostFeatures) + " features");
  const auto same = std::ranges::find(features_, feature.name, &TfFeature::name);
  if (same != features_.end()) {
    *same = std::move(feature);
  } else {
    features_.push_back(std::move(feature));
  }
}

const TfFeature* TfExample::find(std::string_view name) const noexcept {
  const auto found = std::ranges::find(features_, name, &TfFeature::name);
  return found == features_.end() ? nullptr : &*found;
}

std::vector<Extent> TfExample::byte_strings(const TfFeature& feature, std::size_t most) const {
  std::vector<Extent> strings;
  if (feature.type != TfFeature::Type::bytes) return strings;
  WireReader reader(bytes_, feature.list);
  for (WireField field; strings.size() < most && reader.next(field);) {
    if (field.is(1, Wire::bytes)) strings.push_back(field.extent);
  }
  return strings;
}

// The list may be packed (one field of bytes) or not (one field per number); parsers must accept
// both.
std::vector<std::int64_t> TfExample::integers(const TfFeature& feature, std::size_t most) const {
  std::vector<std::int64_t> numbers;
  if (feature.type != TfFeature::Type::integers) return numbers;
  WireReader reader(bytes_, feature.list);
  for (WireField field; numbers.size() < most && reader.next(field);) {
    if (field.is(1, Wire::varint)) numbers.push_back(static_cast<std::int64_t>(field.value));
    if (!field.is(1, Wire::bytes)) continue;
    WireReader packed(bytes_, field.extent);
    for (std::uint64_t value = 0; numbers.size() < most && packed.next_varint(value);) {
      numbers.push_back(static_cast<std::int64_t>(value));
    }
  }
  return numbers;
}

std::vector<float> TfExample::floats(const TfFeature& feature, std::size_t most) const {
  std::vector<float> numbers;
  if (feature.type != TfFeature::Type::floats) return numbers;
  WireReader reader(bytes_, feature.list);
  for (WireField field; numbers.size() < most && reader.next(field);) {
    if (field.is(1, Wire::fixed32)) numbers.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(field.value)));
    if (!field.is(1, Wire::bytes)) continue;
    WireReader packed(bytes_, field.extent);
    for (std::uint32_t value = 0; numbers.size() < most && packed.next_fixed32(value);) {
      numbers.push_back(std::bit_cast<float>(value));
    }
  }
  return numbers;
}

}  // namespace forebay::data
