#include <sys/stat.h>
#include <unistd.h>

#include "data/fields.hpp"
#include "dataset_support.hpp"
#include "test.hpp"

// What format = "auto" detects in folders with images and XML: a detection dataset is never taken
// for class folders.

namespace forebay::test_dataset_layouts {

using namespace forebay::testing;

namespace {

using Files = std::vector<std::pair<std::string, std::string>>;

const std::string kDog = annotation(object("dog"));

void make(const TemporaryDirectory& folder, const Files& files) {
  for (const auto& [path, content] : files) write_file(folder / path, content);
}

std::string refusal(const TemporaryDirectory& folder, const std::string& below = "") {
  return build_error(options_for(below.empty() ? folder.path() : folder / below));
}

// Checks that the message shows both commands; `voc_path` is the path for reading it as VOC.
void check_both(const std::string& error, const std::filesystem::path& voc_path, const std::filesystem::path& path) {
  CAPTURE(error);
  CHECK(contains(error, "dataset.path = \"" + path.string() + "\": can be read in two ways"));
  CHECK(contains(error, "forebay index \"" + voc_path.string() + "\" --format voc"));
  CHECK(contains(error, "forebay index \"" + path.string() + "\" --format folder"));
}

// Root can list every folder, so the process becomes another user while this exists. False if it is
// still root.
class AsNobody {
 public:
  AsNobody() : is_root_(::geteuid() == 0) {
    if (is_root_ && ::seteuid(65534) != 0) is_root_ = false;
  }
  ~AsNobody() {
    if (is_root_) (void)::seteuid(0);
  }
  AsNobody(const AsNobody&) = delete;
  AsNobody& operator=(const AsNobody&) = delete;

  explicit operator bool() const { return ::geteuid() != 0; }

 private:
  bool is_root_;
};

}  // namespace

TEST_CASE("VOC's XML decides, whatever its folder is called") {
  const std::array layouts{
      std::pair{"images/x.jpg", "annots/x.xml"},
      std::pair{"images/x.jpg", "labels/x.xml"},
      std::pair{"images/x.jpg", "xml/x.xml"},
      std::pair{"images/x.jpg", "xmls/x.xml"},
      std::pair{"images/x.jpg", "annotation/x.xml"},
      std::pair{"images/x.jpg", "boxes of Anna/x.xml"},
      std::pair{"train/images/x.jpg", "train/annots/x.xml"},
      std::pair{"images/train/x.jpg", "labels/train/x.xml"},
      std::pair{"train/x.jpg", "xml/train/x.xml"},
      std::pair{"train/x.jpg", "train/xml/x.xml"},
      std::pair{"images/x.jpg", "annotations/xmls/x.xml"},
      std::pair{"x.jpg", "labels/x.xml"},
      std::pair{"a.b/x.y.jpg", "c.d/x.y.xml"},
      std::pair{"Images/n02-Chihuahua/x.jpg", "Annotation/n02-Chihuahua/x"},
      std::pair{"Images/a.b/x.jpg", "Annotation/a.b/x"},
  };
  for (const auto& [image, xml] : layouts) {
    for (const char* format : {"auto", "voc"}) {
      CAPTURES(image, format);
      const FolderOf folder{{image, "jpeg"}, {xml, kDog}};
      const auto dataset = build_dataset(options_for(folder.path(), format));
      CHECK(dataset->format() == "voc");
      REQUIRE(dataset->size() == 1);
      CHECK(dataset->name(0) == (folder / image).string() + "#object 1");
      CHECK(dataset->skipped().empty());
    }
  }
}

TEST_CASE("the same names in training and test folders are told apart by the folders around them") {
  const std::array layouts{
      std::array{"train/images/1.jpg", "train/annots/1.xml", "test/images/1.jpg", "test/annots/1.xml"},
      std::array{"images/train/1.jpg", "labels/train/1.xml", "images/test/1.jpg", "labels/test/1.xml"},
      std::array{"train/1.jpg", "xml/train/1.xml", "test/1.jpg", "xml/test/1.xml"},
      std::array{"train/1.jpg", "train/1.xml", "test/1.jpg", "test/1.xml"},
  };
  for (const auto& [image, xml, other_image, other_xml] : layouts) {
    CAPTURE(image);
    const FolderOf folder{{image, "jpeg"},
                          {xml, annotation(object("dog"))},
                          {other_image, "jpeg"},
                          {other_xml, annotation(object("cat"))}};
    const auto dataset = build_dataset(options_for(folder.path()));
    REQUIRE(dataset->size() == 2);
    for (std::uint64_t id = 0; id < 2; ++id) {
      const bool is_first = dataset->name(id).starts_with((folder / image).string());
      CHECK(dataset->sample(id).label == (is_first ? 1 : 0));
    }
    CHECK(count_bad(*dataset) == 0);
  }
}

TEST_CASE("an image of a class whose annotation is missing does not get another class's") {
  const FolderOf folder{{"images/a/1.jpg", "jpeg"}, {"images/b/1.jpg", "jpeg"}, {"annots/a/1.xml", kDog}};
  const auto dataset = build_dataset(options_for(folder.path()));
  REQUIRE(dataset->size() == 1);
  CHECK(dataset->name(0).ends_with("/images/a/1.jpg#object 1"));
  REQUIRE(find_skipped(*dataset, "images/b/1.jpg") != nullptr);
}

TEST_CASE("where pairing is not clear, auto shows both readings, and voc takes what is clear") {
  const FolderOf folder{{"train/1.jpg", "jpeg"},
                        {"test/1.jpg", "jpeg"},
                        {"test/2.jpg", "jpeg"},
                        {"xml/1.xml", kDog},
                        {"xml/2.xml", kDog}};
  const std::string error = refusal(folder);
  check_both(error, folder.path(), folder.path());
  CHECK(contains(error, "xml/1.xml: it could belong to test/1.jpg and to train/1.jpg"));
  CHECK(contains(error, "classes \"test\", \"train\""));

  const auto voc = build_dataset(options_for(folder.path(), "voc"));
  REQUIRE(voc->size() == 1);
  CHECK(voc->name(0).ends_with("test/2.jpg#object 1"));
  REQUIRE(find_skipped(*voc, "xml/1.xml") != nullptr);
  CHECK(find_skipped(*voc, "xml/1.xml")->bad);
  CHECK(build_dataset(options_for(folder.path(), "folder"))->size() == 3);
}

TEST_CASE("an image with two annotations is in doubt") {
  const FolderOf folder{{"images/1.jpg", "jpeg"}, {"xml/1.xml", kDog}, {"xml_old/1.xml", annotation(object("cat"))}};
  const std::string error = refusal(folder);
  check_both(error, folder.path(), folder.path());
  CHECK(contains(error, "images/1.jpg has several annotations"));
}

TEST_CASE("VOC's XML that belongs to no image is not passed over") {
  const FolderOf folder{{"cat/1.jpg", "jpeg"}, {"dog/2.jpg", "jpeg"}, {"other/7.xml", kDog}};
  const std::string error = refusal(folder);
  check_both(error, folder.path(), folder.path());
  CHECK(contains(error, "0 of the 2 images have an annotation (other/7.xml, ...)"));
}

TEST_CASE("class folders with a few annotated images can be meant either way") {
  const TemporaryDirectory folder;
  for (const char* name : {"cat/1.jpg", "cat/2.jpg", "dog/3.jpg", "dog/4.jpg", "dog/5.jpg"}) {
    make(folder, {{name, "jpeg"}});
  }
  make(folder, {{"cat/1.xml", kDog}, {"dog/3.xml", kDog}});
  check_both(refusal(folder), folder.path(), folder.path());
  make(folder, {{"dog/4.xml", kDog}});
  CHECK(build_dataset(options_for(folder.path()))->format() == "voc");
}

TEST_CASE("class folders beside annotations of the same names are not taken for classes") {
  const FolderOf folder{{"images/train/1.jpg", "jpeg"},
                        {"images/val/2.jpg", "jpeg"},
                        {"annots/train/1.xml", kDog},
                        {"annots/val/2.xml", kDog}};
  check_both(refusal(folder, "images"), folder.path(), folder / "images");
  CHECK(build_dataset(options_for(folder / "images", "folder"))->classes().size() == 2);
}

TEST_CASE("a folder that cannot be listed, beside class folders, is ignored") {
  const FolderOf folder{{"images/cat/1.jpg", "jpeg"}, {"images/dog/2.jpg", "jpeg"}, {"labels/1.xml", kDog}};
  REQUIRE(::chmod((folder / "labels").c_str(), 0) == 0);
  {
    const AsNobody nobody;
    if (nobody) {
      const auto dataset = build_dataset(options_for(folder / "images"));
      CHECK(dataset->format() == "folder");
      CHECK(dataset->size() == 2);
    } else {
      MESSAGE("skipped: root may list every folder");
    }
  }
  REQUIRE(::chmod((folder / "labels").c_str(), 0700) == 0);
}

TEST_CASE("the path may be the folder of images, with annotations beside it in a folder of any name") {
  const FolderOf folder{{"images/x.jpg", "jpeg"}, {"boxes/x.xml", kDog}, {"lists/train.txt", "x"}};
  const auto dataset = build_dataset(options_for(folder / "images"));
  CHECK(dataset->format() == "voc");
  CHECK(dataset->size() == 1);
}

TEST_CASE("masks beside annotated images are not images of their own") {
  const auto names = [](const std::filesystem::path& path) {
    const auto dataset = build_dataset(options_for(path));
    CHECK(dataset->format() == "voc");
    std::string all;
    for (std::uint64_t id = 0; id < dataset->size(); ++id) {
      all += (all.empty() ? "" : " ") + std::filesystem::relative(dataset->name(id), path).string();
    }
    return all;
  };
  SUBCASE("Pascal VOC's own") {
    const FolderOf folder{{"JPEGImages/1.jpg", ""},        {"JPEGImages/2.jpg", ""},
                          {"Annotations/1.xml", kDog},     {"Annotations/2.xml", kDog},
                          {"SegmentationClass/1.png", ""}, {"SegmentationObject/1.png", ""}};
    CHECK(names(folder.path()) == "JPEGImages/1.jpg#object 1 JPEGImages/2.jpg#object 1");
    const auto dataset = build_dataset(options_for(folder.path()));
    CHECK(skip_reason(*dataset, "SegmentationClass/1.png") == "taken for a mask of another image");
    CHECK_FALSE(find_skipped(*dataset, "SegmentationClass/1.png")->bad);
  }
  SUBCASE("PNG images, their masks in a folder that says so") {
    const FolderOf folder{{"images/1.png", ""}, {"annots/1.xml", kDog}, {"Masks/1.png", ""}};
    CHECK(names(folder.path()) == "images/1.png#object 1");
  }
  SUBCASE("beside a JPEG of the same name") {
    const FolderOf folder{{"a/1.jpg", ""}, {"a/1.xml", kDog}, {"a/1.png", ""}};
    CHECK(names(folder.path()) == "a/1.jpg#object 1");
    const FolderOf classes{{"cat/1.jpg", ""}, {"cat/1.png", ""}, {"cat/2.png", ""}, {"dog/1.png", ""}};
    const auto dataset = build_dataset(options_for(classes.path()));
    CHECK(dataset->size() == 3);
    REQUIRE(find_skipped(*dataset, "cat/1.png") != nullptr);
    CHECK_FALSE(find_skipped(*dataset, "cat/1.png")->bad);
  }
  SUBCASE("a PNG with an annotation of its own is an image") {
    const FolderOf folder{{"a/1.jpg", ""}, {"a/1.xml", kDog}, {"b/1.png", ""}, {"b/1.xml", kDog}};
    CHECK(names(folder.path()) == "a/1.jpg#object 1 b/1.png#object 1");
    const FolderOf faces{
        {"images/1.png", ""}, {"annotations/1.xml", kDog}, {"images/1_mask.png", ""}, {"annotations/1_mask.xml", kDog}};
    CHECK(names(faces.path()) == "images/1.png#object 1 images/1_mask.png#object 1");
    const FolderOf below{{"masked/images/1.png", ""},     {"masked/annotations/1.xml", kDog},
                         {"bare/images/2.png", ""},       {"bare/annotations/2.xml", kDog},
                         {"bare/masks/2.png", ""},        {"bare/masks/3.png", ""},
                         {"masks/x/4.png", ""},           {"annotations/x/4.xml", kDog},
                         {"bare/annotations/3.xml", kDog}};
    CHECK(names(below.path()) == "bare/images/2.png#object 1 masked/images/1.png#object 1");
  }
}

TEST_CASE("masks beside images of any kind are no samples of a class folder") {
  const FolderOf folder{{"benign/benign (1).png", ""},   {"benign/benign (1)_mask.png", ""},
                        {"benign/benign (2).png", ""},   {"benign/benign (2)_mask_1.png", ""},
                        {"malignant/1.tif", ""},         {"malignant/1_mask.tif", ""},
                        {"malignant/with_mask.tif", ""}, {"malignant/face_mask_2.tif", ""}};
  const auto dataset = build_dataset(options_for(folder.path()));
  CHECK(dataset->size() == 5);
  CHECK(skip_reason(*dataset, "(2)_mask_1.png") == "taken for a mask of another image");
}

TEST_CASE("images that a class folder leaves out are warned of") {
  const FolderOf folder{{"a/1.jpg", ""},  {"a/1.png", ""}, {"a/2.jpg", ""},  {"a/2.png", ""},
                        {"b/1.JFIF", ""}, {"b/1.gif", ""}, {"b/2.HEIC", ""}, {"b/3.txt", ""}};
  DatasetOptions options = options_for(folder.path());
  const auto warnings_of = [&] {
    const auto dataset = build_dataset(options);
    std::string all;
    for (const Skipped& each : dataset->skipped()) all += each.told ? each.reason + "\n" : "";
    return all;
  };
  CHECK(warnings_of() ==
        "2 files of a kind of image that is not read, the first: b/1.gif\n"
        "2 files left out: beside a JPEG of its name, so taken for its mask, the first: a/1.png\n");
  CHECK(build_dataset(options)->size() == 3);
  options.fields = {{.name = "mask", .from = "{folder}/{stem}.png", .kind = FieldKind::mask}};
  CHECK_FALSE(contains(warnings_of(), "taken for its mask"));
}

TEST_CASE("XML that is not VOC's leaves class folders what they are") {
  const FolderOf folder{{"cat/1.jpg", "jpeg"},
                        {"dog/2.jpg", "jpeg"},
                        {"cat/1.xml", "<?xml version=\"1.0\"?><!-- <annotation><object> --><metadata/>"},
                        {"dog/2.xml", "not XML at all"},
                        {"notes/3.xml", "<annotation><source>no object</source></annotation>"},
                        {"notes/4.xml", "<annotations><object/></annotations>"},
                        {"dog/2", "no annotation either"}};
  const auto dataset = build_dataset(options_for(folder.path()));
  CHECK(dataset->format() == "folder");
  CHECK(dataset->size() == 2);
}

TEST_CASE("VOC's XML is known behind a byte order mark, a declaration and comments, and when it is cut short") {
  for (const char* text : {"\xEF\xBB\xBF<?xml version=\"1.0\"?>\n<!-- <x> -->\n<annotation verified=\"no\">\n<object>",
                           "<annotation>\n<object><name>dog</name></object>"}) {
    CAPTURE(text);
    const FolderOf folder{{"images/x.jpg", "jpeg"}, {"images/y.jpg", "jpeg"}, {"xml/x.xml", text}, {"xml/y.xml", kDog}};
    const auto dataset = build_dataset(options_for(folder.path()));
    CHECK(dataset->format() == "voc");
    CHECK(dataset->size() == 1);
    CHECK(count_bad(*dataset) == 1);
  }
}

TEST_CASE("images beside each other are a dataset without classes where fields say what is to be learned of them") {
  const FolderOf folder{
      {"images/x.jpg", "jpeg"}, {"images/y.png", "png"}, {"masks/x.png", "png"}, {"masks/y.png", "png"}};
  DatasetOptions options = options_for(folder / "images", "folder");
  CHECK(contains(build_error(options), "no image in a class folder"));
  options.fields = {{.name = "mask", .from = "../masks/{stem}.png", .kind = FieldKind::mask}};
  const auto dataset = build_dataset(options);
  CHECK(describe_samples(*dataset).size() == 2);
  CHECK(dataset->classes().empty());
  CHECK(dataset->counts().images == 2);
  CHECK(dataset->sample(0).label == -1);
  CHECK(dataset->name(1) == (folder / "images/y.png").string());
  CHECK(dataset->skipped().empty());
  // An image in a folder has a class, those next to the folder have none.
  make(folder, {{"images/cat/z.jpg", "jpeg"}, {"masks/z.png", "png"}});
  const auto classes = build_dataset(options);
  CHECK(classes->size() == 1);
  CHECK(std::ranges::count_if(classes->skipped(), [](const Skipped& each) { return !each.told; }) == 2);
}

TEST_CASE("bare images beside each other get advice for each kind of target") {
  const FolderOf folder{
      {"images/x.jpg", "jpeg"}, {"images/y.png", "png"}, {"masks/x.png", "png"}, {"masks/y.png", "png"}};
  const std::string text = build_error(options_for(folder / "images"));
  CAPTURE(text);
  for (const char* said : {"found 2 images", "CLASS/x.jpg", "dataset.format = \"folder\"", "[fields.NAME]", "list"}) {
    CHECK(contains(text, said));
  }
  // If VOC was requested, the message is about VOC.
  CHECK(contains(build_error(options_for(folder / "images", "voc")), "the voc format needs"));
}

TEST_CASE("real sets are read alike when their folder of annotations has another name") {
  const auto data = real_data();
  if (!data) return;
  for (const auto& [set, images, annotations] :
       {std::tuple{"raccoon", "images", "annotations"}, std::tuple{"bccd", "JPEGImages", "Annotations"}}) {
    const auto original = build_dataset(options_for(*data / "voc" / set));
    for (const char* name : {"annots", "labels", "xml"}) {
      const TemporaryDirectory folder;
      std::filesystem::create_directory_symlink(*data / "voc" / set / images, folder / "images");
      std::filesystem::create_directory_symlink(*data / "voc" / set / annotations, folder / name);
      const auto renamed = build_dataset(options_for(folder.path()));
      CHECK(renamed->format() == "voc");
      CHECK(renamed->size() == original->size());
      CHECK(renamed->counts().objects == original->counts().objects);
      CHECK(count_bad(*renamed) == count_bad(*original));
    }
  }
}

TEST_CASE("images of one name that get one file by {stem} are told of, since {folder} was probably forgotten") {
  const FolderOf folder{{"photos/a/0.jpg", "jpeg"}, {"photos/b/0.jpg", "jpeg"},
                        {"photos/b/1.jpg", "jpeg"}, {"masks/0.png", "png"},
                        {"masks/1.png", "png"},     {"masks/a/0.png", "png"},
                        {"masks/b.png", "png"},     {"list.txt", "photos/a/0.jpg\nphotos/b/1.jpg\nphotos/a/0.jpg\n"}};
  const auto told = [&](const char* path, const char* from, FieldKind kind) {
    DatasetOptions options = options_for(folder / path);
    options.fields = {{.name = "mask", .from = from, .kind = kind, .most = kind == FieldKind::bytes ? 9 : 0}};
    const auto dataset = build_dataset(options);
    const auto found = std::ranges::find_if(dataset->skipped(), &Skipped::told);
    return found == dataset->skipped().end() ? "" : found->reason;
  };
  const std::string shared =
      "fields.mask: no file of its own for 1 image, as another has the same name: a/0.jpg and b/0.jpg have "
      "../masks/0.png; "
      "{folder} in `from` stands for the image's folder";
  for (const FieldKind kind : {FieldKind::mask, FieldKind::image, FieldKind::bytes})
    CHECK(told("photos", "../masks/{stem}.png", kind) == shared);
  CHECK(told("photos", "../masks/{folder}/{stem}.png", FieldKind::mask).empty());
  CHECK(told("photos", "../masks/{folder}.png", FieldKind::mask).empty());  // one for each folder is what it says
  CHECK(told("list.txt", "masks/{stem}.png", FieldKind::mask).empty());     // the same image twice
  write_file(folder / "list.txt", "photos/b/0.jpg\nphotos/b/1.jpg\nphotos/a/0.jpg\n");
  CHECK(contains(told("list.txt", "masks/{stem}.png", FieldKind::mask), "photos/a/0.jpg and photos/b/0.jpg have"));
}

TEST_CASE("{stem-ENDING} takes the ending off, and an image that lacks it is bad and says so") {
  const FolderOf folder{{"city/left/a/a_1_left.png", "png"},
                        {"city/left/b/b_1_left.png", "png"},
                        {"city/left/b/b_2.png", "png"},
                        {"city/gt/a/a_1_gt.png", "png"},
                        {"city/gt/b/b_1_gt.png", "png"}};
  write_file(folder / "city.csv", "image\nleft/a/a_1_left.png\n");
  DatasetOptions options = options_for(folder / "city/left");
  options.fields = {{.name = "mask", .from = "../gt/{folder}/{stem}_gt.png", .kind = FieldKind::mask}};
  CHECK(contains(build_error(options), "; {stem-ENDING} takes an ending off the image's name"));
  options.fields[0].from = "../gt/{folder}/{stem-_left}_gt.png";
  const auto dataset = build_dataset(options);
  REQUIRE(dataset->size() == 3);
  CHECK(
      skip_reason(*dataset, "/left") ==
      "fields.mask: 1 image will be bad: the name does not end in \"_left\", as {stem-...} says, the first: b/b_2.png");
  std::filesystem::rename(folder / "city.csv", folder / "city/table.csv");
  options.path = (folder / "city/table.csv").string();
  options.fields[0].from = "gt/a/{stem-_left}_gt.png";
  CHECK(build_dataset(options)->size() == 1);
  CHECK(data::path_beside("m/{stem-_left}.png", "x/1_left.jpg") == "m/1.png");
  CHECK(data::path_beside("m/{stem-_left}.png", "x/1.jpg") == "m/{stem-_left}.png");
  CHECK(data::path_beside("{stem-", "x/1.jpg") == "{stem-");
  CHECK_FALSE(data::is_pattern("{stem-"));
}

}  // namespace forebay::test_dataset_layouts
