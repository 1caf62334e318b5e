#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "container_bytes.hpp"

namespace forebay::data {

// A feature of a tf.train.Example: a list of values of one type.
struct TfFeature {
  enum class Type : std::uint8_t { none, bytes, floats, integers };

  std::string name;
  Type type = Type::none;
  Extent list;  // the message that holds the values
};

// The features of a tf.train.Example. Reads only their names and positions; values are read on request. REQUIRES:
// `bytes` outlives it.
class TfExample {
 public:
  // Throws SampleError with the byte where the message is damaged or is not an Example.
  TfExample(ContainerBytes& bytes, const Extent& message);

  [[nodiscard]] const std::vector<TfFeature>& features() const noexcept { return features_; }
  // Null if there is none of this name.
  [[nodiscard]] const TfFeature* find(std::string_view name) const noexcept;

  // The first values of a feature, at most `most`; none if the feature is of another type. Throw SampleError if the
  // list is damaged.
  [[nodiscard]] std::vector<Extent> byte_strings(const TfFeature& feature, std::size_t most) const;
  [[nodiscard]] std::vector<std::int64_t> integers(const TfFeature& feature, std::size_t most) const;
  [[nodiscard]] std::vector<float> floats(const TfFeature& feature, std::size_t most) const;

 private:
  void read_features(const Extent& message);
  void read_feature(const Extent& entry);

  ContainerBytes& bytes_;
  std::vector<TfFeature> features_;
  std::size_t entries_ = 0;  // map entries of the message so far, including repeated names
};

}  // namespace forebay::data
