#include <forebay/feeder.hpp>

#include "codec_files.hpp"
#include "dataset_support.hpp"
#include "make/sample_maker.hpp"
#include "test.hpp"

using namespace forebay::make;

// Image files of all kinds, from a folder to batches.
namespace forebay {
namespace {

using namespace testing;

// Files of one size, so that nothing is resized.
std::vector<CodecFile> files_of_one_size() {
  std::vector<CodecFile> files = testing::codec_files();
  std::erase_if(files, [](const CodecFile& file) { return file.width != 31 || file.height != 17; });
  return files;
}

std::string_view text_of(const CodecFile& file) {
  return {reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size()};
}

// ".png" of "PNG, ..."
std::string ending_of(const CodecFile& file) {
  std::string ending = "." + file.what.substr(0, file.what.find(','));
  std::ranges::transform(ending, ending.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return ending;
}

}  // namespace

TEST_CASE("a folder of images of all kinds is served pixel by pixel, whatever each file is called") {
  const std::vector<CodecFile> files = files_of_one_size();
  REQUIRE(files.size() > 10);
  const TemporaryDirectory folder;
  std::map<std::int64_t, const CodecFile*> file_of;
  for (std::size_t i = 0; i < files.size(); ++i) {
    // A separate class for each, so that the label identifies the file.
    const std::string name = "class" + std::to_string(1000 + i) + "/file";
    write_file(folder / (name + (i % 3 == 0 ? ".jpg" : ending_of(files[i]))), text_of(files[i]));
    file_of[static_cast<std::int64_t>(i)] = &files[i];
  }
  Options options;
  options.dataset.path = folder.path().string();
  options.dataset.batch_size = 1;
  options.transform.crop = Crop::none;
  options.transform.mirror = 0;
  options.transform.size = {17, 31};
  options.transform.dtype = DType::uint8;
  options.transform.layout = Layout::nhwc;
  options.transform.exif = false;
  options.run.epochs = 1;
  Feeder feeder(options);
  std::size_t served = 0;
  while (auto batch = feeder.next()) {
    if (!batch->is_fresh()) continue;
    REQUIRE(batch->size() == 1);
    const CodecFile& file = *file_of.at(batch->labels()[0]);
    CAPTURE(file.what);
    ++served;
    CHECK(std::equal(file.rgb.begin(), file.rgb.end(), batch->images().as<std::uint8_t>()));
  }
  CHECK(served == files.size());
}

TEST_CASE("views of one file that are made together are those that are made alone") {
  TransformOptions options;
  options.size = {16, 16};
  options.mirror = 0.5;
  const SampleMaker maker(options, 5, false, {});
  SampleMaker::Workspace workspace;
  for (const CodecFile& file : testing::codec_files()) {
    CAPTURE(file.what);
    constexpr std::uint64_t kMembers = 3;
    std::vector<std::vector<std::byte>> together(kMembers, std::vector<std::byte>(maker.sample_bytes()));
    std::vector<SampleMaker::Member> members;
    for (std::uint64_t i = 0; i < kMembers; ++i) {
      members.push_back({.sample = {}, .epoch = 1, .position = i, .out = SamplePlace(together[i])});
    }
    REQUIRE(maker.make_together(file.bytes, members, workspace));
    for (std::uint64_t i = 0; i < kMembers; ++i) {
      std::vector<std::byte> alone(maker.sample_bytes());
      maker.make(file.bytes, {}, 1, i, SamplePlace(alone), workspace);
      CHECK(alone == together[i]);
    }
  }
}

}  // namespace forebay
