#pragma once

#include <forebay/feeder.hpp>

#include "container_files.hpp"
#include "dataset_support.hpp"
#include "support.hpp"
#include "zip_files.hpp"

// A small dataset in each container format. Its samples are identified by their pixels, labels and
// fields.
namespace forebay::testing {

inline int grey_of(std::uint64_t sample) { return static_cast<int>(sample * 5 % 251); }
inline std::int64_t label_of(std::uint64_t sample) { return static_cast<std::int64_t>(sample % 10); }
inline int mask_of(std::uint64_t sample) { return static_cast<int>(sample * 7 % 200); }
inline std::string note_of(std::uint64_t sample) { return "note " + std::to_string(sample * sample); }

struct ContainerKind {
  using Files = std::map<std::string, std::string>;  // contents by name in the folder

  std::string name;
  std::string path;  // of the dataset, in the folder
  bool has_encoded_images = true;
  bool has_fields = false;
  // Record i with this image, which need not be a valid one; containers of raw pixels use
  // grey_of(i) instead.
  std::function<std::string(std::uint64_t i, const std::string& image)> record;
  std::function<Files(const std::vector<std::string>& records)> files;

  [[nodiscard]] std::string record_of(std::uint64_t i) const { return record(i, tiny_png(grey_of(i))); }
  [[nodiscard]] Files files_of(std::uint64_t samples) const {
    std::vector<std::string> records;
    for (std::uint64_t i = 0; i < samples; ++i) records.push_back(record_of(i));
    return files(records);
  }
};

inline std::string concatenated(const std::vector<std::string>& records) {
  std::string all;
  for (const auto& record : records) all += record;
  return all;
}

inline std::string idx_header(std::uint8_t dimensions, const std::vector<std::uint32_t>& extents) {
  std::string header{'\0', '\0', '\x08', static_cast<char>(dimensions)};
  for (const std::uint32_t extent : extents) header += png_number(extent);
  return header;
}

// An array of bytes in NumPy's format.
inline std::string npy_of_bytes(const std::string& shape, const std::string& elements) {
  const std::string text = "{'descr': '|u1', 'fortran_order': False, 'shape': " + shape + ", }\n";
  return std::string("\x93NUMPY\1\0", 8) + static_cast<char>(text.size()) + '\0' + text + elements;
}

inline const std::vector<ContainerKind>& every_container() {
  using Files = ContainerKind::Files;
  using Records = std::vector<std::string>;
  const auto one_file = [](const std::string& name) {
    return [name](const Records& records) { return Files{{name, concatenated(records)}}; };
  };
  const auto label = [](std::uint64_t i) { return std::to_string(label_of(i)); };
  static const std::vector<ContainerKind> all{
      {.name = "tfrecord",
       .path = "x.tfrecord",
       .record = [](auto i, const auto& image) { return tf_record(image_example(image, label_of(i))); },
       .files = one_file("x.tfrecord")},
      {.name = "webdataset",
       .path = "x.tar",
       .record =
           [label](auto i, const auto& image) {
             return tar_member(std::to_string(i) + ".png", image) + tar_member(std::to_string(i) + ".cls", label(i));
           },
       .files = one_file("x.tar")},
      {.name = "recordio",
       .path = "x.rec",
       .record = [](auto i,
                    const auto& image) { return record_part(image_record(image, static_cast<float>(label_of(i)))); },
       .files = one_file("x.rec")},
      {.name = "lmdb",
       .path = "data.mdb",
       .record = [](auto i, const auto& image) { return encoded_datum(image, static_cast<int>(label_of(i))); },
       .files =
           [](const Records& values) {
             LmdbFile::Entries entries;
             for (std::size_t i = 0; i < values.size(); ++i)
               entries.emplace_back(std::to_string(100'000 + i), values[i]);
             return Files{{"data.mdb", LmdbFile::of(entries, 25)}};
           }},
      {.name = "cifar",
       .path = "data_batch_1.bin",
       .has_encoded_images = false,
       .record =
           [](auto i, const auto&) {
             std::string record(3073, static_cast<char>(grey_of(i)));
             record[0] = static_cast<char>(label_of(i));
             return record;
           },
       .files = one_file("data_batch_1.bin")},
      {.name = "idx",
       .path = "train-images-idx3-ubyte",
       .has_encoded_images = false,
       .record =
           [](auto i, const auto&) {
             return std::string{static_cast<char>(grey_of(i)), static_cast<char>(label_of(i))};
           },
       .files =
           [](const Records& records) {
             std::string pixels = idx_header(3, {static_cast<std::uint32_t>(records.size()), 1, 1});
             std::string labels = idx_header(1, {static_cast<std::uint32_t>(records.size())});
             for (const std::string& record : records) {
               pixels += record[0];
               labels += record[1];
             }
             return Files{{"train-images-idx3-ubyte", pixels}, {"train-labels-idx1-ubyte", labels}};
           }},
      {.name = "npy",
       .path = "images.npy",
       .has_encoded_images = false,
       .record =
           [](auto i, const auto&) {
             return std::string{static_cast<char>(grey_of(i)), static_cast<char>(label_of(i))};
           },
       .files =
           [](const Records& records) {
             const std::string count = std::to_string(records.size());
             std::string pixels;
             std::string labels;
             for (const std::string& record : records) {
               pixels += record[0];
               labels += record[1];
             }
             return Files{{"images.npy", npy_of_bytes("(" + count + ", 1, 1)", pixels)},
                          {"labels.npy", npy_of_bytes("(" + count + ",)", labels)}};
           }},
      {.name = "tfrecord with fields",
       .path = "x.tfrecord",
       .has_fields = true,
       .record =
           [](auto i, const auto& image) {
             return tf_record(example({{"mask", bytes_feature({tiny_png(mask_of(i))})},
                                       {"image/encoded", bytes_feature({image})},
                                       {"unwanted", bytes_feature({std::string(i % 300, 'u')})},
                                       {"image/class/label", int64_feature({label_of(i)})},
                                       {"number", float_feature({static_cast<float>(i)})},
                                       {"note", bytes_feature({note_of(i)})}}));
           },
       .files = one_file("x.tfrecord")},
      {.name = "webdataset with fields",
       .path = "x.tar",
       .has_fields = true,
       .record =
           [label](auto i, const auto& image) {
             const std::string stem = std::to_string(i);
             return tar_member(stem + ".note", note_of(i)) + tar_member(stem + ".png", image) +
                    tar_member(stem + ".cls", label(i)) + tar_member(stem + ".json", "{\"number\": " + stem + "}") +
                    tar_member(stem + ".unwanted", std::string(i % 300, 'u')) +
                    tar_member(stem + ".mask", tiny_png(mask_of(i)));
           },
       .files = one_file("x.tar")}};
  return all;
}

// REQUIRES: there is one of this name.
inline const ContainerKind& container_of(const std::string& name) {
  std::size_t i = 0;
  while (every_container().at(i).name != name) ++i;
  return every_container()[i];
}

// Adds the fields "mask", "number" and "note" if the container has them.
inline void add_fields(Options& options, const ContainerKind& kind) {
  if (!kind.has_fields) return;
  FieldOptions mask;
  mask.name = "mask";
  mask.kind = FieldKind::mask;
  FieldOptions number;
  number.name = "number";
  number.kind = FieldKind::numbers;
  if (kind.path == "x.tar") number.from = "json.number";
  FieldOptions note;
  note.name = "note";
  note.kind = FieldKind::bytes;
  note.most = 32;
  options.dataset.fields = {mask, number, note};
}

// The sample at an index of a batch, identified by its pixels; only for fewer than 251 samples,
// with views of one pixel.
inline std::uint64_t sample_at(const Lease& batch, std::size_t i) {
  const TensorView images = batch.images();
  const int grey = images.as<std::uint8_t>()[i * images.bytes() / batch.ids().size()];
  std::uint64_t sample = 0;
  while (grey_of(sample) != grey && sample < 251) ++sample;
  return sample;
}

// Whether pixels, label and fields at an index of a batch are those of the sample.
inline bool is_sample(const Lease& batch, std::size_t i, std::uint64_t sample, const ContainerKind& kind) {
  const TensorView images = batch.images();
  const std::size_t count = batch.ids().size();
  if (images.as<std::uint8_t>()[i * images.bytes() / count] != grey_of(sample)) return false;
  if (batch.labels()[i] != label_of(sample)) return false;
  if (!kind.has_fields) return true;
  const TensorView notes = batch.field("note");
  const std::size_t room = notes.bytes() / count;
  const std::string note(notes.as<char>() + i * room, static_cast<std::size_t>(batch.counts(4).as<std::int32_t>()[i]));
  return batch.field("mask").as<std::uint8_t>()[i] == mask_of(sample) &&
         batch.field("number").as<float>()[i] == static_cast<float>(sample) && note == note_of(sample);
}

}  // namespace forebay::testing
