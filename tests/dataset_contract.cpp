#include "container_files.hpp"
#include "data/build.hpp"
#include "dataset_support.hpp"
#include "detection_support.hpp"
#include "pack_support.hpp"
#include "test.hpp"

// The contract of every dataset, checked for every format.

namespace forebay::test_dataset_contract {

using namespace forebay::data;
using namespace forebay::testing;

namespace {

std::string big_endian(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> static_cast<unsigned>(shift));
  return bytes;
}

std::string idx_images(std::uint32_t count) {
  std::string bytes = std::string("\0\0\x08\x03", 4) + big_endian(count) + big_endian(2) + big_endian(3);
  for (std::uint32_t i = 0; i < count * 6; ++i) bytes += static_cast<char>(i);
  return bytes;
}

std::string idx_labels(std::uint32_t count) {
  std::string bytes = std::string("\0\0\x08\x01", 4) + big_endian(count);
  for (std::uint32_t i = 0; i < count; ++i) bytes += static_cast<char>(i % 3);
  return bytes;
}

struct Made {
  std::string format;
  DatasetOptions options;
  std::uint64_t samples = 0;
};

Made make_voc(const TemporaryDirectory& folder) {
  for (const char* name : {"a", "b", "c"}) {
    write_file(folder.path() / "JPEGImages" / (std::string(name) + ".jpg"), std::string("bytes of ") + name);
    write_file(folder.path() / "Annotations" / (std::string(name) + ".xml"),
               annotation(object("dog") + object("cat", bndbox("3", "4", "50", "60"), "<difficult>1</difficult>")));
  }
  return {"voc", options_for(folder.path(), "voc"), 6};
}

Made make_filelist(const TemporaryDirectory& folder) {
  std::string list;
  for (int i = 0; i < 5; ++i) {
    const std::string name = "image " + std::to_string(i) + ".jpg";
    write_file(folder.path() / "images" / name, "bytes of " + std::to_string(i));
    list += "images/" + name + "," + (i % 2 == 0 ? "even" : "odd") + "\n";
  }
  write_file(folder / "list.txt", list);
  return {"filelist", options_for(folder / "list.txt", "filelist"), 5};
}

Made make_folder(const TemporaryDirectory& folder) {
  for (const char* name : {"n01/a.JPEG", "n01/deep/er/b.jpg", "n02/a.jpe", "n10/c.jpeg"}) {
    write_file(folder.path() / name, std::string("bytes of ") + name);
  }
  return {"folder", options_for(folder.path(), "folder"), 4};
}

Made make_idx(const TemporaryDirectory& folder) {
  write_file(folder / "train-images-idx3-ubyte", idx_images(7));
  write_file(folder / "train-labels-idx1-ubyte", idx_labels(7));
  return {"idx", options_for(folder.path(), "idx"), 7};
}

Made make_cifar(const TemporaryDirectory& folder) {
  std::string records;
  for (int i = 0; i < 3; ++i) records.append(1, static_cast<char>(i)).append(3072, static_cast<char>('a' + i));
  write_file(folder / "data_batch_1.bin", records);
  write_file(folder / "data_batch_2.bin", records.substr(0, 3073));
  return {"cifar", options_for(folder.path(), "cifar"), 4};
}

Made make_tfrecord(const TemporaryDirectory& folder) {
  for (int shard = 0; shard < 3; ++shard) {
    std::string records;
    for (int i = 0; i <= shard; ++i)
      records += tf_record(image_example("\xFF\xD8\xFF" + std::to_string(10 * shard + i), i));
    write_file(folder / ("train-0000" + std::to_string(shard) + "-of-00003"), records);
  }
  return {"tfrecord", options_for(folder.path(), "tfrecord"), 6};
}

Made make_webdataset(const TemporaryDirectory& folder) {
  std::string archives[2];
  for (int i = 0; i < 5; ++i) {
    archives[i % 2] += tar_sample("n" + std::to_string(i), "\xFF\xD8\xFF" + std::to_string(i), std::to_string(i % 3));
  }
  write_file(folder / "shard-0.tar", archives[0] + tar_end());
  write_file(folder / "shard-1.tar", archives[1] + tar_end());
  return {"webdataset", options_for(folder.path(), "webdataset"), 5};
}

Made make_recordio(const TemporaryDirectory& folder) {
  std::string records;
  for (int i = 0; i < 4; ++i)
    records += record_part(image_record("\xFF\xD8\xFF" + std::to_string(i), static_cast<float>(i % 3)));
  write_file(folder / "train.rec", records);
  write_file(folder / "train.idx", "0\t0\n");
  write_file(folder / "val.rec", record_part(image_record("\xFF\xD8\xFF", 0.0F)));
  return {"recordio", options_for(folder.path(), "recordio"), 4};
}

Made make_lmdb(const TemporaryDirectory& folder) {
  LmdbFile::Entries entries;
  for (int i = 0; i < 7; ++i) {
    const std::string image = "\xFF\xD8\xFF" + std::string(i % 2 == 0 ? 10 : 3000, static_cast<char>('a' + i));
    entries.emplace_back("key " + std::to_string(i), encoded_datum(image, i % 3));
  }
  write_file(folder / "data.mdb", LmdbFile::of(entries));
  return {"lmdb", options_for(folder.path(), "lmdb"), 7};
}

Made make_coco(const TemporaryDirectory& folder) {
  std::string images;
  std::string objects;
  for (int i = 0; i < 3; ++i) {
    const std::string id = std::to_string(i);
    write_file(folder / ("images/" + id + ".jpg"), "bytes of " + id);
    images += (i == 0 ? "" : ",") + (R"({"id":)" + id + R"(,"file_name":")" + id + ".jpg\"}");
    for (const char* category : {"4", "9"}) {
      objects += (objects.empty() ? "" : ",") + (R"({"image_id":)" + id + R"(,"category_id":)") + category +
                 R"(,"bbox":[1,2,3.5,4]})";
    }
  }
  write_file(folder / "instances.json", R"({"images":[)" + images + R"(],"annotations":[)" + objects +
                                            R"(],"categories":[{"id":4,"name":"cat"},{"id":9,"name":"ant"}]})");
  return {"coco", options_for(folder / "instances.json", "coco"), 6};
}

Made make_yolo(const TemporaryDirectory& folder) {
  for (const char* name : {"a", "b", "c"}) {
    write_file(folder / ("images/train/" + std::string(name) + ".jpg"), grey_npy(40, 20, name[0]));
    write_file(folder / ("labels/train/" + std::string(name) + ".txt"), "1 0.5 0.5 0.2 0.2\n0 0.4 0.5 0.1 0.2\n");
  }
  write_file(folder / "data.yaml", "train: images/train\nnames: [cat, ant]\n");
  return {"yolo", options_for(folder / "data.yaml", "yolo"), 6};
}

Made make_labelme(const TemporaryDirectory& folder) {
  for (const char* label : {"cat", "ant"}) {
    const std::string name(label);
    write_file(folder / (name + ".jpg"), "bytes of " + name);
    write_file(folder / (name + ".json"), R"({"shapes":[{"label":")" + name +
                                              R"(","points":[[1,2],[3,4]],"shape_type":"rectangle"}],"imagePath":")" +
                                              name + R"(.jpg"})");
  }
  return {"labelme", options_for(folder.path(), "labelme"), 2};
}

Made make_cvat(const TemporaryDirectory& folder) {
  std::string images;
  for (const char* label : {"cat", "ant"}) {
    const std::string name(label);
    write_file(folder / ("images/" + name + ".jpg"), "bytes of " + name);
    images += "<image name=\"" + name + ".jpg\"><box label=\"" + name +
              "\" xtl=\"1\" ytl=\"2\" xbr=\"3\" ybr=\"4\"/></image>";
  }
  write_file(folder / "annotations.xml", "<annotations>" + images + "</annotations>");
  return {"cvat", options_for(folder / "annotations.xml", "cvat"), 2};
}

Made make_npy(const TemporaryDirectory& folder) {
  const auto file = [](const std::string& type, const std::string& shape, const std::string& elements) {
    const std::string text = "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }\n";
    return std::string("\x93NUMPY\1\0", 8) + static_cast<char>(text.size()) + '\0' + text + elements;
  };
  write_file(folder / "images.npy", file("|u1", "(5, 2, 3)", "abcdefghijklmnopqrstuvwxyzABCD"));
  write_file(folder / "labels.npy", file("|u1", "(5,)", std::string("\0\1\2\1\0", 5)));
  return {"npy", options_for(folder / "images.npy", "npy"), 5};
}

Made make_pack(const TemporaryDirectory& folder) {
  for (const char* name : {"n01/a.jpg", "n01/b.png", "n02/c.jpg", "n03/d.jpg", "n03/deep/e.jpg"}) {
    write_file(folder / "original" / name, std::string("bytes of ") + name);
  }
  return {"pack", packed_options(options_for(folder / "original"), folder / "packed"), 5};
}

using Make = std::function<Made(const TemporaryDirectory&)>;
const std::vector<Make> kFormats{make_yolo,       make_labelme,  make_cvat, make_voc,   make_filelist,
                                 make_folder,     make_coco,     make_idx,  make_cifar, make_tfrecord,
                                 make_webdataset, make_recordio, make_lmdb, make_npy,   make_pack};

void for_each_format(const std::function<void(const TemporaryDirectory&, const Made&)>& check) {
  for (const auto& make : kFormats) {
    const TemporaryDirectory folder;
    const Made made = make(folder);
    CAPTURE(made.format);
    check(folder, made);
  }
}

std::vector<std::string> all_bytes(const Dataset& dataset) {
  std::vector<std::string> all;
  for (std::uint64_t id = 0; id < dataset.size(); ++id) all.push_back(read_sample(dataset, id));
  return all;
}

void check_equal(const Dataset& a, const Dataset& b) {
  CHECK(a.format() == b.format());
  CHECK(a.classes() == b.classes());
  CHECK(describe_samples(a) == describe_samples(b));
  CHECK(all_bytes(a) == all_bytes(b));
  CHECK(fingerprint(a) == fingerprint(b));
  CHECK(a.serialize() == b.serialize());
  CHECK(a.counts().images == b.counts().images);
  CHECK(a.counts().objects == b.counts().objects);
  CHECK(a.skipped().size() == b.skipped().size());
}

}  // namespace

TEST_CASE("a dataset has the samples of its files, with labels of its classes") {
  for_each_format([](const TemporaryDirectory&, const Made& made) {
    const auto dataset = build_dataset(made.options);
    CHECK(dataset->format() == made.format);
    REQUIRE(dataset->size() == made.samples);
    for (std::uint64_t id = 0; id < dataset->size(); ++id) {
      const Sample sample = dataset->sample(id);
      CHECK(sample.label >= 0);
      CHECK(sample.label < static_cast<std::int64_t>(dataset->classes().size()));
      CHECK((sample.encoding != Encoding::raw || sample.width > 0));  // images may have a size, too
    }
  });
}

TEST_CASE("reading reserves once and fills all of it") {
  for_each_format([](const TemporaryDirectory&, const Made& made) {
    const auto dataset = build_dataset(made.options);
    for (std::uint64_t id = 0; id < dataset->size(); ++id) {
      Reading reading;
      dataset->read(id, reading);
      CHECK(reading.reserves == 1);
      CHECK(reading.bytes.size() > 0);
      CHECK_FALSE(contains(reading.text(), "\xEE"));
    }
  });
}

TEST_CASE("names tell samples apart and begin with a path that exists") {
  for_each_format([](const TemporaryDirectory&, const Made& made) {
    const auto dataset = build_dataset(made.options);
    std::vector<std::string> names;
    for (std::uint64_t id = 0; id < dataset->size(); ++id) {
      names.push_back(dataset->name(id));
      const std::string path = names.back().substr(0, names.back().find_first_of("#["));
      CHECK(std::filesystem::exists(path));
    }
    std::sort(names.begin(), names.end());
    CHECK(std::adjacent_find(names.begin(), names.end()) == names.end());
  });
}

TEST_CASE("an index is the same for any number of threads and from build to build") {
  for_each_format([](const TemporaryDirectory&, const Made& made) {
    const auto once = build_dataset(made.options);
    for (const unsigned threads : {1U, 2U, 13U}) {
      const auto again = build_dataset_with({.options = made.options, .progress = {}, .threads = threads});
      check_equal(*once, *again);
    }
  });
}

TEST_CASE("a serialized index restores to an equal dataset") {
  for_each_format([](const TemporaryDirectory& folder, const Made& made) {
    const auto dataset = build_dataset(made.options);
    const auto restored = restore_dataset(dataset->serialize(), "memory");
    check_equal(*dataset, *restored);

    save_index(*dataset, folder / "saved.index");
    check_equal(*dataset, *load_index(folder / "saved.index"));
  });
}

TEST_CASE("restoring does not touch the data") {
  for_each_format([](const TemporaryDirectory& folder, const Made& made) {
    const auto bytes = build_dataset(made.options)->serialize();
    std::filesystem::remove_all(folder.path());
    const auto restored = restore_dataset(bytes, "memory");
    CHECK(restored->size() == made.samples);
    Reading reading;
    CHECK_THROWS_AS(restored->read(0, reading), SampleError);
  });
}

TEST_CASE("the fingerprint follows the samples, not the place") {
  for (const auto& make : kFormats) {
    const TemporaryDirectory here;
    const TemporaryDirectory there;
    const auto a = build_dataset(make(here).options);
    const auto b = build_dataset(make(there).options);
    CAPTURE(a->format());
    CHECK(fingerprint(*a) == fingerprint(*b));
  }
  const TemporaryDirectory folder;
  Made made = make_folder(folder);
  const auto before = fingerprint(*build_dataset(made.options));
  made.options.classes = {"n10", "n02", "n01"};
  CHECK(fingerprint(*build_dataset(made.options)) != before);
  made.options.classes.clear();
  write_file(folder / "n02/new.jpg", "new");
  CHECK(fingerprint(*build_dataset(made.options)) != before);
}

TEST_CASE("given classes decide the labels") {
  for_each_format([](const TemporaryDirectory&, const Made& made) {
    DatasetOptions options = made.options;
    const auto found = build_dataset(options)->classes();
    options.classes.assign(found.rbegin(), found.rend());
    if (made.format == "idx") options.classes = {"zero", "one", "two"};
    CHECK(build_dataset(options)->classes() == options.classes);
    options.classes.push_back(options.classes.front());
    CHECK(contains(build_error(options), "dataset.classes"));
  });
}

TEST_CASE("many threads read at the same time, also the first time after a restore") {
  for_each_format([](const TemporaryDirectory&, const Made& made) {
    const auto built = build_dataset(made.options);
    const auto expected = all_bytes(*built);
    const auto restored = restore_dataset(built->serialize(), "memory");
    std::atomic<int> wrong{0};
    {
      std::vector<std::jthread> threads;
      for (int i = 0; i < 8; ++i) {
        threads.emplace_back([&] {
          for (int round = 0; round < 20; ++round) wrong += all_bytes(*restored) == expected ? 0 : 1;
        });
      }
    }
    CHECK(wrong == 0);
  });
}

TEST_CASE("progress comes from the calling thread and ends complete") {
  for_each_format([](const TemporaryDirectory&, const Made& made) {
    std::uint64_t last_done = 0;
    std::uint64_t last_total = 0;
    bool elsewhere = false;
    const auto caller = std::this_thread::get_id();
    (void)build_dataset(made.options, [&](std::uint64_t done, std::uint64_t total) {
      elsewhere = elsewhere || std::this_thread::get_id() != caller;
      CHECK(done <= total);
      last_done = done;
      last_total = total;
    });
    CHECK_FALSE(elsewhere);
    CHECK(last_done == last_total);
  });
}

TEST_CASE("an exception in the progress callback ends the build") {
  for_each_format([](const TemporaryDirectory&, const Made& made) {
    if (made.format == "filelist") return;  // reports no progress: labels are in the list
    CHECK_THROWS_AS((void)build_dataset(made.options, [](auto, auto) { throw std::runtime_error("enough"); }),
                    std::runtime_error);
  });
}

TEST_CASE("auto finds each format") {
  for_each_format([](const TemporaryDirectory&, const Made& made) {
    DatasetOptions options = made.options;
    options.format = "auto";
    CHECK(build_dataset(options)->format() == made.format);
  });
}

TEST_CASE("a path that is missing or of the wrong kind is an error that names dataset.path") {
  for_each_format([](const TemporaryDirectory& folder, const Made& made) {
    DatasetOptions options = made.options;
    options.path = (folder / "absent").string();
    CHECK_THROWS_AS((void)build_dataset(options), ConfigError);
    CHECK(contains(build_error(options), "dataset.path = \"" + options.path));
    options.path.clear();
    CHECK(contains(build_error(options), "dataset.path is not set"));
    std::filesystem::create_directory(folder / "empty");
    options.path = (folder / "empty").string();
    CHECK_THROWS_AS((void)build_dataset(options), ConfigError);
    CHECK(contains(build_error(options), "dataset.path = "));
    options.path = "/dev/null";
    CHECK(contains(build_error(options), "is a device"));
  });
}

}  // namespace forebay::test_dataset_contract
