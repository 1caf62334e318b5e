#include <forebay/feeder.hpp>

#include "memory_dataset.hpp"
#include "mpi_world.hpp"
#include "shared_folder.hpp"
#include "test.hpp"
#include "video_support.hpp"

// Clips under mpirun: every video once per epoch, with the clip that a single rank would serve.

namespace forebay::test_mpi_clips {
namespace {

using namespace forebay::testing;

// A hash of each clip, by epoch and video.
using Served = std::map<std::string, std::uint64_t>;

Served serve(Feeder& feeder) {
  Served served;
  while (const auto batch = feeder.next()) {
    const std::size_t size = batch->images().bytes() / std::max<std::size_t>(batch->size(), 1);
    for (std::size_t i = 0; batch->is_fresh() && i < batch->size(); ++i) {
      const auto* const clip = batch->images().as<char>() + i * size;
      const std::string key = std::to_string(batch->epoch()) + " " + std::to_string(batch->ids()[i]);
      CHECK(served.emplace(key, std::hash<std::string_view>()({clip, size})).second);
    }
  }
  return served;
}

TEST_CASE("any number of ranks serves the clips that one would serve") {
  SharedFolder folder;
  bool is_made = true;
  if (world().rank() == 0) {
    const Videos videos;
    is_made = videos.can_make();
    for (int i = 0; is_made && i < 7; ++i) {
      const auto made = videos.make(std::to_string(i) + ".mp4", "-c:v mpeg4 -g 12 -bf 2", 30 + i);
      const auto to = folder / (i % 2 == 0 ? "data/a" : "data/b");
      std::filesystem::create_directories(to);
      std::filesystem::copy_file(made.value(), to / made->filename());
    }
  }
  if (folder.gather(is_made ? "made" : "").front().empty()) return;
  Options options = memory_options(1);
  options.dataset.path = (folder / "data").string();
  options.dataset.clip = {.frames = 3, .stride = 4, .every = 10};
  options.transform.crop = Crop::random_resized;
  options.transform.size = {20, 20};
  options.run.epochs = 2;
  Served mine;
  {
    Feeder feeder(options, world());
    mine = serve(feeder);
  }
  std::ostringstream text;
  for (const auto& [key, hash] : mine) text << key << ' ' << hash << '\n';
  Served all;
  for (const std::string& part : folder.gather(text.str())) {
    std::istringstream in(part);
    std::string epoch;
    std::string sample;
    for (std::uint64_t hash = 0; in >> epoch >> sample >> hash;) {
      std::string key = epoch;
      CHECK(all.emplace(key.append(" ").append(sample), hash).second);
    }
  }
  Feeder alone(options, *solo_communicator());
  CHECK(all == serve(alone));
  CHECK(all.size() > 2 * 7);
  folder.meet();
}

}  // namespace
}  // namespace forebay::test_mpi_clips
