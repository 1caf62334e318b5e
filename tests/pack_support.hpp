#pragma once

#include <forebay/dataset.hpp>

#include "archive/pack_set.hpp"
#include "archive/unpack.hpp"
#include "container_files.hpp"
#include "dataset_support.hpp"
#include "order/sample_weights.hpp"
#include "test.hpp"

// Packs small datasets and compares the result.
namespace forebay::testing {

inline archive::PackSettings pack_settings(const std::filesystem::path& out, const DatasetOptions& options) {
  archive::PackSettings settings;
  settings.out = out;
  settings.samples = options.samples;
  settings.threads = 3;
  return settings;
}

// Sets of the same data differ in nothing but their manifest, which says when each was begun.
inline auto shards_below(const std::filesystem::path& folder) {
  auto files = files_below(folder);
  files.erase("manifest.json");
  return files;
}

inline DatasetOptions class_folder(const TemporaryDirectory& dir, int images = 12) {
  for (int i = 0; i < images; ++i) {
    const std::string name = std::string(i % 2 == 0 ? "cat" : "dog/deep") + "/" + std::to_string(i) + ".jpg";
    write_file(dir / "in" / name, "bytes of " + name + std::string(static_cast<std::size_t>(i), '.'));
  }
  return options_for(dir / "in");
}

// Packs the dataset into `out` in small shards, and returns the options for reading it: the same
// with another path.
inline DatasetOptions packed_options(const DatasetOptions& options, const std::filesystem::path& out,
                                     std::uint64_t shard_bytes = 30) {
  archive::PackSettings settings = pack_settings(out, options);
  settings.shard_bytes = shard_bytes;
  const archive::PackReport report = archive::pack_dataset(*build_dataset(options), settings, {});
  CHECK(report.left_out.empty());
  CHECK(report.written == report.shards);
  DatasetOptions packed = options;
  packed.format = "auto";
  packed.path = out.string();
  packed.labels.clear();
  return packed;
}

// Everything that a run can learn about each sample, in order: names, labels, boxes, shapes, bytes,
// fields.
inline std::vector<std::string> contents_of(const Dataset& dataset) {
  const order::SampleNames names(dataset);
  std::vector<std::string> all;
  for (std::uint64_t id = 0; id < dataset.size(); ++id) {
    const Sample sample = dataset.sample(id);
    std::string text = names.of(id) + " of " + names.of_source(id) + " label " + std::to_string(sample.label);
    if (sample.box) {
      for (const auto side : {sample.box->left, sample.box->top, sample.box->right, sample.box->bottom}) {
        text += " " + std::to_string(side);
      }
    }
    text += sample.difficult ? " difficult" : "";
    text += sample.truncated ? " truncated" : "";
    if (sample.encoding == Encoding::raw) {
      for (const auto extent : {sample.width, sample.height, sample.channels}) text += " " + std::to_string(extent);
      text += sample.planar ? " planar" : "";
      text += sample.bgr ? " bgr" : "";
    }
    text += ": " + read_sample(dataset, id);
    for (std::size_t f = 0; f < dataset.fields().size(); ++f) {
      Reading reading;
      text += "\n" + dataset.fields()[f].name + " ";
      const bool is_there = error_of([&] {
                              dataset.read_field(id, f, reading);
                              return 0;
                            }).empty();
      text += is_there ? reading.text() : "is missing";
    }
    all.push_back(std::move(text));
  }
  return all;
}

inline void check_same_data(const Dataset& original, const Dataset& packed) {
  CHECK(packed.format() == "pack");
  CHECK(packed.classes() == original.classes());
  CHECK(packed.counts().images == original.counts().images);
  CHECK(packed.counts().annotations == original.counts().annotations);
  CHECK(packed.counts().objects == original.counts().objects);
  REQUIRE(packed.size() == original.size());
  CHECK(contents_of(packed) == contents_of(original));
  REQUIRE(packed.fields().size() == original.fields().size());
  for (std::size_t f = 0; f < packed.fields().size(); ++f) {
    const Field& a = packed.fields()[f];
    const Field& b = original.fields()[f];
    CHECK(a.name == b.name);
    CHECK(a.kind == b.kind);
    CHECK(a.dtype == b.dtype);
    CHECK(a.shape == b.shape);
    CHECK(a.classes == b.classes);
  }
  // Which samples share the bytes of the one before.
  for (std::uint64_t id = 1; id < packed.size(); ++id) {
    if (original.sample(id).box) {
      CHECK((packed.source(id) == packed.source(id - 1)) == (original.source(id) == original.source(id - 1)));
    }
  }
}

}  // namespace forebay::testing
