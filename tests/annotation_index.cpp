// Saved indexes of YOLO, labelme and CVAT, and data that changed.
#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include "data/saved_index.hpp"
#include "index_support.hpp"
#include "yolo_support.hpp"

using namespace forebay;
using namespace forebay::testing;

TEST_CASE("yolo: a saved index notices labels, images and classes that changed") {
  namespace fs = std::filesystem;
  const Yolo yolo;
  const auto check = [&](const Kept& kept) {
    const auto is_stale = [&](const std::string& what) {
      return contains(kept.error(), "was built from other data: " + what);
    };
    const fs::path a = yolo.path("labels/train/a.txt");
    const std::string before = read_file(a);
    change_in_place(a, "1 0.5", "0 0.5");
    CHECK(is_stale("the annotation " + a.string() + " has other contents"));
    write_file(a, before);
    CHECK(kept.error().empty());
    fs::remove(a);
    CHECK(is_stale("the folder " + yolo.path("labels/train") + " has other"));
    write_file(a, before);

    for (const char* added : {"labels/train/none.txt", "images/train/none.txt"}) {
      write_file(yolo.path(added), "0 0.5 0.5 1 1\n");
      CHECK(is_stale("the folder " + fs::path(yolo.path(added)).parent_path().string() + " has other"));
      fs::remove(yolo.path(added));
    }
    write_file(yolo.path("images/train/notes.md"), "text");
    write_file(yolo.path("README.txt"), "text");
    CHECK(kept.error().empty());

    yolo.yaml("path: .\ntrain: images/train\nval: images/val\nnames: [cat, eel]\n");
    CHECK(contains(kept.error(), "other contents of data.yaml"));
    yolo.yaml("path: .\ntrain: images/train\nval: images/val\nnames: [cat, dog]\n");
    CHECK(kept.error().empty());
  };
  for (const char* path : {"data.yaml", "images/train"}) {
    const Kept kept(images_options(yolo.path(path)));
    check(kept);
    write_image(yolo.path("images/train/new.jpg"));
    CHECK(contains(kept.error(), yolo.path("images/train") + " has other images"));
    fs::remove(yolo.path("images/train/new.jpg"));
    fs::rename(yolo.path("images/train/b.jpg"), yolo.path("images/train/c.jpg"));
    CHECK(contains(kept.error(), yolo.path("images/train") + " has other images"));
    fs::rename(yolo.path("images/train/c.jpg"), yolo.path("images/train/b.jpg"));
    CHECK(kept.error().empty());
  }
  write_file(yolo.path("train.txt"), "./images/train/a.jpg\n./images/train/b.jpg\n./images/train/none.jpg\n");
  DatasetOptions list = images_options(yolo.path("train.txt"));
  list.format = "yolo";
  {
    const Kept kept(list);
    yolo.yaml("path: .\ntrain: images/train\nval: images/val\nnames: [cat, eel]\n");
    CHECK(contains(kept.error(), "other contents of data.yaml"));
  }
  // A folder whose only part is a list.
  yolo.yaml("train: train.txt\nnames: [cat, dog]\n");
  {
    const Kept kept(images_options(yolo.folder.path()));
    change_in_place(yolo.path("train.txt"), "none", "only");
    CHECK(contains(kept.error(), "other contents of data.yaml, classes.txt or a list"));
  }
}

TEST_CASE("yolo: a folder of labels that appears, and classes beside images") {
  const TemporaryDirectory folder;
  write_image(folder / "images/a.jpg");
  write_image(folder / "images/b.jpg");
  write_file(folder / "images/b.txt", "0 0.5 0.5 1 1\n");
  write_file(folder / "images/classes.txt", "cat\ndog\n");
  const Kept kept(images_options(folder / "images"));
  write_file(folder / "labels/b.txt", "1 0.5 0.5 1 1\n");
  CHECK(
      contains(kept.error(), "the folder " + (folder / "labels").string() + " has other annotations (0 then, 1 now)"));
  std::filesystem::remove_all(folder / "labels");
  CHECK(kept.error().empty());
  change_in_place(folder / "images/classes.txt", "dog", "eel");
  CHECK(contains(kept.error(), "other contents of data.yaml, classes.txt or a list"));
}

TEST_CASE("yolo: a copy of the data is as good as the data") {
  const Yolo yolo;
  const Kept kept(images_options(yolo.path("data.yaml")));
  const TemporaryDirectory elsewhere;
  std::filesystem::copy(yolo.folder.path(), elsewhere / "copy", std::filesystem::copy_options::recursive);
  std::filesystem::remove_all(yolo.path("labels"));
  CHECK(contains(kept.error(), "the folder " + yolo.path("labels/train") + " is gone"));
  std::filesystem::remove_all(yolo.path("images"));
  std::filesystem::copy(elsewhere / "copy", yolo.folder.path(),
                        std::filesystem::copy_options::recursive | std::filesystem::copy_options::overwrite_existing);
  const auto opened = open_with_remark(kept.options, {});
  CHECK(contains(opened.remark.text, "compared 2 folders and 2 annotations in "));
}

TEST_CASE("labelme: a saved index notices files that changed, came and went") {
  const TemporaryDirectory folder;
  const auto json = [&](const std::string& name) {
    write_file(folder / (name + ".json"), R"({"shapes":[{"label":"dog","points":[[1,2],[9,8]],)"
                                          R"("shape_type":"rectangle"}],"imagePath":")" +
                                              name + R"(.jpg"})");
  };
  for (const char* name : {"a", "sub/b", "c"}) write_image(folder / (std::string(name) + ".jpg"));
  json("a");
  json("sub/b");
  const Kept kept(images_options(folder.path()));
  const std::string stale = "was built from other data: the ";
  change_in_place(folder / "sub/b.json", "dog", "eel");
  CHECK(contains(kept.error(), stale + "annotation " + (folder / "sub/b.json").string() + " has other contents"));
  json("sub/b");
  CHECK(kept.error().empty());
  json("c");
  CHECK(contains(kept.error(), stale + "folder " + folder.path().string() + " has other"));
  std::filesystem::remove(folder / "c.json");
  CHECK(kept.error().empty());
  std::filesystem::remove(folder / "sub/b.jpg");
  CHECK(contains(kept.error(), stale + "folder " + (folder / "sub").string() + " has other"));
  write_image(folder / "sub/b.jpg");
  write_file(folder / "sub/notes.txt", "text");
  CHECK(kept.error().empty());
}

TEST_CASE("cvat: a saved index notices that its file changed") {
  const TemporaryDirectory folder;
  write_image(folder / "images/a.jpg");
  write_file(folder / "annotations.xml",
             "<?xml version=\"1.0\"?><annotations><image name=\"a.jpg\" width=\"100\" height=\"50\">"
             "<box label=\"dog\" xtl=\"1\" ytl=\"2\" xbr=\"10\" ybr=\"20\"/></image></annotations>");
  const Kept kept(images_options(folder / "annotations.xml"));
  change_in_place(folder / "annotations.xml", "dog", "eel");
  CHECK(contains(kept.error(), "other contents of the file"));
}
