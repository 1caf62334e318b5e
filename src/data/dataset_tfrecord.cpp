// TFRecord files: each record is a length, its checksum, the data, and their checksum. The data are
// a tf.train.Example, one feature of which is the image, and one may be its class.
//
// One thread reads a file from beginning to end, headers and features without the image's bytes
// (tf_example.cpp). A record whose Example is odd is left out. A wrong checksum of a length ends
// the file, because nothing says where the next record begins. The checksum of the data is verified
// when a run reads the sample; here it would mean reading all images.
//
// Names of features differ between writers; usual ones are tried in turn, and [fields.NAME] names
// any other.

#include <algorithm>
#include <cmath>
#include <forebay/error.hpp>

#include "base/crc32c.hpp"
#include "base/text.hpp"
#include "file_nature.hpp"
#include "formats.hpp"
#include "object_samples.hpp"
#include "shards.hpp"
#include "tf_example.hpp"

namespace forebay::data {
namespace {

// tensorflow/core/lib/io/record_writer.h: uint64 length, uint32 masked CRC-32C of the length, the
// data, uint32 masked CRC-32C of the data, all little-endian.
constexpr std::size_t kRecordHeader = 12;  // the length and its checksum
constexpr std::size_t kRecordFooter = 4;

// Feature names used in practice, the likeliest first.
constexpr std::array<std::string_view, 12> kImageFeatures{"image/encoded", "image_raw", "image", "image/image_raw",
                                                          "image/raw",     "jpeg",      "png",   "image_encoded",
                                                          "image_bytes",   "encoded",   "img",   "jpg"};
constexpr std::array<std::string_view, 11> kLabelFeatures{
    "image/class/label", "label", "image/label",     "class", "class_id", "class_label", "labels", "target",
    "targets",           "cls",   "image/class/text"};
constexpr std::array<std::string_view, 3> kHeightFeatures{"image/height", "height", "rows"};
constexpr std::array<std::string_view, 3> kWidthFeatures{"image/width", "width", "cols"};
constexpr std::array<std::string_view, 3> kDepthFeatures{"image/channels", "channels", "depth"};

// TensorFlow's shards often have no extension at all: "train-00000-of-01024".
bool is_tfrecord_name(std::string_view given) {
  const std::string lower = lower_case(given);
  std::string_view name = lower;
  if (name.ends_with(".gz")) name.remove_suffix(3);
  const auto has_shard_number = [&] {
    const auto of = name.rfind("-of-");
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    return of != std::string_view::npos && of > 0 && of + 4 < name.size() &&
           std::ranges::all_of(name.substr(of + 4), is_digit) && is_digit(name[of - 1]);
  };
  const std::array<std::string_view, 4> endings{".tfrecord", ".tfrecords", ".tfrec", ".record"};
  return has_shard_number() || std::ranges::any_of(endings, [&](auto ending) { return name.ends_with(ending); });
}

// The first of these features that the example has with this type.
template <std::size_t N>
const TfFeature* feature_of(const TfExample& example, const std::array<std::string_view, N>& names,
                            std::optional<TfFeature::Type> type = std::nullopt) {
  for (const auto name : names) {
    const TfFeature* feature = example.find(name);
    if (feature != nullptr && (!type || feature->type == *type)) return feature;
  }
  return nullptr;
}

// 16 bytes are enough for every signature that is looked for.
bool is_encoded(ContainerBytes& bytes, const Extent& image) {
  constexpr std::uint64_t kMagic = 16;
  return starts_as_picture(bytes.at(image.offset, static_cast<std::size_t>(std::min(image.length, kMagic))));
}

std::string names_of_features(const TfExample& example) {
  constexpr std::size_t kNamed = 40;
  const std::span features(example.features());
  return joined(features.first(std::min(kNamed, features.size())), ", ", &TfFeature::name) +
         (features.size() > kNamed ? ", ..." : "");
}

// The feature of this name. Throws SampleError listing the existing names.
const TfFeature& named_feature(const TfExample& example, std::string_view name) {
  if (const TfFeature* found = example.find(name)) return *found;
  throw SampleError("is no feature \"" + std::string(name) + "\" of the Example (it has " + names_of_features(example) +
                    ")");
}

// The only byte string of a feature; nothing if it has none. Throws SampleError if it has several: to serve the first
// would lose the others.
std::optional<Extent> only_bytes(const TfExample& example, const TfFeature& feature) {
  const auto values = example.byte_strings(feature, 2);
  if (values.size() > 1) {
    throw SampleError("has several byte strings in the feature \"" + feature.name +
                      "\", where one is expected; write each as a feature or a sample of its own");
  }
  return values.empty() ? std::nullopt : std::optional(values.front());
}

// The image: the feature that the configuration names, else one with a usual name, else the only
// one that holds a picture; if several do, none is guessed.
Extent image_of_example(ContainerBytes& bytes, const TfExample& example, const std::string& wanted) {
  if (!wanted.empty()) {
    if (const auto image = only_bytes(example, named_feature(example, wanted))) return *image;
    throw SampleError("the feature \"" + wanted + "\" holds no bytes");
  }
  if (const TfFeature* named = feature_of(example, kImageFeatures, TfFeature::Type::bytes)) {
    if (const auto image = only_bytes(example, *named)) return *image;
  }
  std::vector<const TfFeature*> pictures;
  for (const TfFeature& feature : example.features()) {
    const auto values = example.byte_strings(feature, 1);
    if (!values.empty() && is_encoded(bytes, values.front())) pictures.push_back(&feature);
  }
  if (pictures.size() == 1) return *only_bytes(example, *pictures.front());
  if (example.features().empty()) throw SampleError("an Example without features");
  throw SampleError("no image among its features (" + joined(example.features(), ", ", &TfFeature::name) + ")");
}

// Two texts are requested only to know whether there is more than one.
FoundLabel label_of_example(ContainerBytes& bytes, const TfExample& example, const std::string& wanted) {
  const TfFeature* feature = wanted.empty() ? feature_of(example, kLabelFeatures) : example.find(wanted);
  if (feature == nullptr) return {};
  switch (feature->type) {
    case TfFeature::Type::integers: return label_of_list(example.integers(*feature, kMostOneHot));
    case TfFeature::Type::floats: return label_of_list(example.floats(*feature, kMostOneHot));
    case TfFeature::Type::bytes: {
      const auto texts = example.byte_strings(*feature, 2);
      if (texts.size() == 1) return label_of_text(bytes.text(texts.front()));
      return texts.empty() ? FoundLabel::none() : FoundLabel::odd("it has several texts");
    }
    case TfFeature::Type::none: break;
  }
  return {};
}

// For raw pixels: the kind that height, width and channels describe. For an encoded image with
// boxes: one with the size to which these are relative. If raw pixels do not match their size, the
// kind stays that of an encoded image, and the decoder will say what is wrong.
RecordTable::Kind kind_of_example(ContainerBytes& bytes, const TfExample& example, const Extent& image,
                                  bool has_boxes) {
  const bool is_image = is_encoded(bytes, image);
  if (is_image && !has_boxes) return {};
  const auto number = [&](const auto& names, std::int64_t otherwise) {
    const TfFeature* feature = feature_of(example, names, TfFeature::Type::integers);
    const auto numbers = feature == nullptr ? std::vector<std::int64_t>{} : example.integers(*feature, 1);
    return numbers.empty() ? otherwise : numbers.front();
  };
  if (is_image) return kind_of_size(number(kWidthFeatures, 0), number(kHeightFeatures, 0));
  return raw_kind(number(kHeightFeatures, 0), number(kWidthFeatures, 0), number(kDepthFeatures, 1), image.length)
      .value_or(RecordTable::Kind{});
}

// The boxes of the Object Detection API and their classes: "image/object/bbox/xmin" and so on, as
// fractions of the image's size, and "image/object/class/label" or "/text" for each box.
std::vector<LabelledBox> boxes_of_example(ContainerBytes& bytes, const TfExample& example,
                                          const WantedFields::Wanted& wanted) {
  const std::string prefix = wanted.from + "/";
  std::array<std::vector<float>, 4> sides;
  constexpr std::array<std::string_view, 4> kSides{"xmin", "ymin", "xmax", "ymax"};
  for (std::size_t i = 0; i < sides.size(); ++i) {
    sides[i] = example.floats(named_feature(example, prefix + std::string(kSides[i])), wanted.most());
    // Tells fractions from pixels. Boxes often reach past their image, but pixels are far larger.
    // Chosen between the two: no box reaches that far past its image, and no useful box in pixels
    // is that small.
    constexpr float kFarthest = 8;
    const auto far = std::ranges::find_if(sides[i], [](float side) { return !(std::fabs(side) <= kFarthest); });
    if (far != sides[i].end()) {
      throw SampleError("has " + std::string(kSides[i]) + " " + shortest(*far) +
                        ", where sides are shares of the image, from 0 to 1; divide pixels by its width and height");
    }
    if (sides[i].size() != sides[0].size()) throw SampleError("has lists of different lengths");
  }
  std::array<double, 2> size{};
  for (std::size_t i = 0; i < size.size(); ++i) {
    const TfFeature* side = feature_of(example, i == 0 ? kWidthFeatures : kHeightFeatures, TfFeature::Type::integers);
    const auto numbers = side == nullptr ? std::vector<std::int64_t>{} : example.integers(*side, 1);
    size[i] = numbers.empty() ? 0 : static_cast<double>(numbers.front());
  }
  if (!sides[0].empty() && !(size[0] > 0 && size[1] > 0)) throw SampleError("needs image/width and image/height");
  const std::string object = wanted.from.ends_with("/bbox") ? wanted.from.substr(0, wanted.from.size() - 4) : prefix;
  const TfFeature* label = example.find(object + "class/label");
  const TfFeature* text = example.find(object + "class/text");
  const bool by_name = text != nullptr && !wanted.field.classes.empty();
  const auto numbers = label == nullptr ? std::vector<std::int64_t>{} : example.integers(*label, wanted.most());
  const auto texts = by_name ? example.byte_strings(*text, wanted.most()) : std::vector<Extent>{};
  if ((by_name && texts.size() != sides[0].size()) ||
      (!by_name && label != nullptr && numbers.size() != sides[0].size())) {
    throw SampleError("has not a class for each box");
  }
  std::vector<LabelledBox> boxes;
  for (std::size_t i = 0; i < sides[0].size(); ++i) {
    LabelledBox box{.left = static_cast<float>(sides[0][i] * size[0]),
                    .top = static_cast<float>(sides[1][i] * size[1]),
                    .right = static_cast<float>(sides[2][i] * size[0]),
                    .bottom = static_cast<float>(sides[3][i] * size[1])};
    if (by_name) {
      const auto found = std::ranges::find(wanted.field.classes, bytes.text(texts[i]));
      if (found == wanted.field.classes.end()) throw SampleError("has a class that is not listed");
      box.label = static_cast<std::int32_t>(found - wanted.field.classes.begin());
    } else if (label != nullptr) {
      if (numbers[i] < -1 || numbers[i] > std::numeric_limits<std::int32_t>::max()) {
        throw SampleError("has class " + std::to_string(numbers[i]));
      }
      box.label = static_cast<std::int32_t>(numbers[i]);
    }
    boxes.push_back(box);
  }
  return boxes;
}

// A field's value in an Example: the feature of that name. At most most() elements are read, so
// that huge lists cost nothing.
FieldValue value_of_feature(ContainerBytes& bytes, const TfExample& example, const WantedFields::Wanted& wanted) {
  if (wanted.field.kind == FieldKind::boxes) return {.boxes = boxes_of_example(bytes, example, wanted)};
  const TfFeature& feature = named_feature(example, wanted.from);
  if (wanted.is_bytes()) {
    if (feature.type != TfFeature::Type::bytes) throw SampleError("has numbers, no bytes");
    if (const auto only = only_bytes(example, feature)) return {.bytes = *only};
    throw SampleError("has an empty list of bytes");
  }
  FieldValue value{.integers = example.integers(feature, wanted.most())};
  const auto floats = example.floats(feature, wanted.most());
  value.floats.assign(floats.begin(), floats.end());
  for (const Extent& each : example.byte_strings(feature, wanted.most())) {
    if (each.length <= kLongestClassName) value.texts.emplace_back(bytes.text(each));
  }
  return value;
}

bool may_have_feature(const WantedFields::Wanted& /*wanted*/) { return true; }

void add_example(ContainerBytes& bytes, const Extent& data, ShardDraft& draft) {
  const TfExample example(bytes, data);
  FoundSample sample{.checked = data};
  const WantedFields& wanted = draft.wanted();
  sample.image = image_of_example(bytes, example, wanted.image);
  sample.label = label_of_example(bytes, example, wanted.label);
  if (sample.label.kind == FoundLabel::Kind::absent && draft.needs_label_hint()) {
    draft.give_label_hint("the first Example has the features " + names_of_features(example) +
                          "; [fields.label] from = \"NAME\" says which is the class");
  }
  sample.fields = fields_of_sample(wanted, [&](const auto& each) { return value_of_feature(bytes, example, each); });
  sample.kind = kind_of_example(bytes, example, sample.image, wanted.has_boxes());
  std::string class_name;
  if (const TfFeature* text = example.find("image/class/text")) {
    const auto texts = example.byte_strings(*text, 2);
    if (texts.size() == 1 && texts.front().length <= kLongestClassName) class_name = bytes.text(texts.front());
  }
  sample.class_name = class_name;
  draft.add(bytes, sample);
}

// The data of the record at `offset`. Throws SampleError if its length is not reliable. The length
// is compared with what is left, because it may be near 2^64 and a sum could overflow.
Extent record_data(ContainerBytes& bytes, std::uint64_t offset) {
  if (!bytes.has(offset, kRecordHeader)) throw at_byte(offset, "it ends within the header of a record");
  const auto header = bytes.at(offset, kRecordHeader);
  std::uint64_t length = 0;
  std::uint32_t sum = 0;
  std::memcpy(&length, header.data(), sizeof length);
  std::memcpy(&sum, header.data() + sizeof length, sizeof sum);
  if (masked_crc32c(crc32c(header.first(sizeof length))) != sum) {
    if (offset == 0 && may_be_zlib(header)) {
      throw SampleError(
          "it seems to be compressed by zlib (TensorFlow's \"ZLIB\"), which is not read; write it without "
          "compression, or with \"GZIP\"");
    }
    throw at_byte(offset, "the checksum of a record's length is wrong");
  }
  const Extent data{.offset = offset + kRecordHeader, .length = length};
  const std::uint64_t left = bytes.size() - data.offset;
  if (left >= kRecordFooter && length <= left - kRecordFooter) return data;
  throw at_byte(offset, "it ends within a record of " + std::to_string(length) + " bytes");
}

void read_tfrecords(ContainerBytes& bytes, ShardDraft& draft) {
  for (std::uint64_t offset = 0; offset < bytes.size();) {
    const Extent data = record_data(bytes, offset);
    draft.begin(offset);
    try {
      add_example(bytes, data, draft);
    } catch (const SampleError& error) {
      if (error.is_transient()) throw;
      draft.add_bad(error.what());
    }
    offset = data.end() + kRecordFooter;
  }
}

// The checksum of the first length is proof enough: in a file of another kind it is right once in
// 2^32.
bool is_tfrecord(PathContents& contents) {
  if (contents.is_folder()) return is_folder_of_shards(contents, is_tfrecord_name);
  if (is_tfrecord_name(contents.files().front())) return true;
  const auto head = contents.contents_head();
  if (head.size() < kRecordHeader) return false;
  ContainerBytes bytes(head);
  return masked_crc32c(crc32c(head.first(8))) == bytes.number<std::uint32_t>(8);
}

IndexDraft build_tfrecord(PathContents& contents) {
  return build_from_shards(contents, {.is_name = is_tfrecord_name,
                                      .read = read_tfrecords,
                                      .may_have = may_have_feature,
                                      .missing = "no record of a tf.train.Example with an image"});
}

std::uint64_t hash_tfrecord(const DatasetOptions& options) { return hash_shards(options, is_tfrecord_name); }

}  // namespace

const Format formats::tfrecord{.needs = "a TFRecord file",
                               .detect = is_tfrecord,
                               .build = build_tfrecord,
                               .hash = hash_tfrecord,
                               .hashed = "the compressed files, or other files",
                               .takes_patterns = true,
                               .chooses_image = true,
                               .reads_urls = true,
                               .is_shard = is_tfrecord_name};

}  // namespace forebay::data
