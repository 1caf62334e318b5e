#include <forebay/config.hpp>
#include <forebay/dataset.hpp>
#include <forebay/feeder.hpp>

#include "data/index_image.hpp"
#include "dataset_support.hpp"
#include "job/agreed_start.hpp"
#include "job/start_checks.hpp"
#include "memory_dataset.hpp"
#include "mpi_world.hpp"
#include "test.hpp"

// How the ranks of a job obtain the same index.

namespace forebay::test_mpi_startup {

using namespace forebay::data;
using namespace forebay::job;
using namespace forebay::testing;

namespace {

constexpr std::uint64_t kImages = 30'000;

// A list that rank 0 writes, with the same path on every rank. Rank 0 removes it at the end, after
// close() has waited for all ranks.
class SharedList {
 public:
  explicit SharedList(Communicator& communicator) {
    std::string name;
    if (communicator.rank() == 0) {
      folder_ = std::make_unique<TemporaryDirectory>();
      std::string list;
      for (std::uint64_t i = 0; i < kImages; ++i)
        list += "image" + std::to_string(i) + ".jpg," + std::to_string(i % 9) + "\n";
      write_file(*folder_ / "list.txt", list);
      name = folder_->path().string();
    }
    path_ = communicator.all_gather(name)[0];
  }
  [[nodiscard]] DatasetOptions options() const { return options_for(path_ + "/list.txt", "filelist"); }
  [[nodiscard]] std::string index() const { return path_ + "/set.index"; }
  [[nodiscard]] std::string own(std::uint32_t rank) const { return path_ + "/" + std::to_string(rank) + ".index"; }

 private:
  std::unique_ptr<TemporaryDirectory> folder_;
  std::string path_;
};

TEST_CASE("a configuration that only one rank cannot read is refused on all ranks, with that rank's reason") {
  const TemporaryDirectory folder;
  const std::uint32_t odd = world().size() - 1;
  const auto file = folder / "feed.toml";
  write_file(file, world().rank() == odd ? "[queue]\ncapacity = 8\npol = 2\n" : "[queue]\ncapacity = 8\n");
  const std::string refused = testing::error_of<ConfigError>([&] { (void)load_options(file, world()); });
  if (world().size() > 1) CHECK(refused.find("rank " + std::to_string(odd) + ": ") == 0);
  CHECK(contains(refused, "feed.toml:3"));

  write_file(file, "[queue]\ncapacity = 8\n");
  const std::vector<std::string> overrides{"queue.pool=3", "dataset.path=\"data\""};
  const Options options = load_options(file, world(), overrides);
  CHECK(options.queue.capacity == 8);
  CHECK(options.queue.pool == 3);
}

void check_all_of_it(const Dataset& dataset) {
  REQUIRE(dataset.size() == kImages);
  for (std::uint64_t id = 0; id < kImages; id += 997) {
    CHECK(dataset.name(id).ends_with("/image" + std::to_string(id) + ".jpg"));
    CHECK(dataset.sample(id).label == static_cast<std::int64_t>(id % 9));
  }
  CHECK_NOTHROW(image_of(dataset)->check());
}

// Checks that all ranks have the same fingerprint.
void check_one_fingerprint(const Dataset& dataset, Communicator& communicator) {
  const auto all = communicator.all_gather(std::to_string(fingerprint(dataset)));
  CHECK(std::ranges::all_of(all, [&](const std::string& each) { return each == all[0]; }));
}

std::string refusal(Communicator& communicator, const DatasetOptions& options) {
  return error_of([&] { (void)share_dataset(options, communicator); });
}

}  // namespace

TEST_CASE("without an index file rank 0 sends the index, also after its data are gone") {
  const auto communicator = world().duplicate();
  const SharedList list(*communicator);
  const auto dataset = share_dataset(list.options(), *communicator);
  CHECK_FALSE(image_of(*dataset)->is_on_disk());
  check_all_of_it(*dataset);
  check_one_fingerprint(*dataset, *communicator);
  CHECK(communicator->close(60));
}

TEST_CASE("an index file that all ranks see is opened by all") {
  const auto communicator = world().duplicate();
  const SharedList list(*communicator);
  DatasetOptions options = list.options();
  options.index = list.index();
  for (int round = 0; round < 2; ++round) {  // built and saved, then found
    const auto dataset = share_dataset(options, *communicator);
    CHECK(image_of(*dataset)->origin() == "index " + options.index);
    check_all_of_it(*dataset);
    check_one_fingerprint(*dataset, *communicator);
  }
  CHECK(communicator->close(60));
}

TEST_CASE("ranks that find no index, another, or rubbish under the name get rank 0's") {
  const auto communicator = world().duplicate();
  const SharedList list(*communicator);
  const std::uint32_t rank = communicator->rank();
  DatasetOptions options = list.options();
  options.index = list.own(rank);
  if (rank == 1) write_file(options.index, "rubbish");
  if (rank == 2) {
    const FolderOf other{{"list.txt", "a.jpg\n"}};
    save_index(*build_dataset(options_for(other / "list.txt", "filelist")), options.index);
  }
  const auto dataset = share_dataset(options, *communicator);
  const bool is_sent = image_of(*dataset)->origin() == "the index that rank 0 sent";
  CHECK(is_sent == (communicator->size() > 1));
  check_all_of_it(*dataset);
  check_one_fingerprint(*dataset, *communicator);
  CHECK(communicator->close(60));
}

TEST_CASE("what rank 0 cannot open is the same error on all ranks") {
  const auto communicator = world().duplicate();
  const SharedList list(*communicator);
  DatasetOptions options = list.options();
  options.path += ".absent";
  CHECK(contains(refusal(*communicator, options), "list.txt.absent\": there is no such file or folder"));
  options = list.options();
  options.index = list.index();
  if (communicator->rank() == 0) write_file(options.index, "rubbish");
  CHECK(contains(refusal(*communicator, options), "not an index of Forebay"));
  CHECK(communicator->close(60));
}

TEST_CASE("a damaged index that must be sent is an error on all ranks") {
  const auto communicator = world().duplicate();
  if (communicator->size() > 1) {
    const SharedList list(*communicator);
    DatasetOptions options = list.options();
    options.index = list.own(communicator->rank());
    if (communicator->rank() == 0) {
      (void)open_dataset(options);
      std::string bytes = read_text(options.index);
      bytes.back() ^= 1;
      write_file(options.index, bytes);
    }
    CHECK(contains(refusal(*communicator, options), "a damaged index: the checksum of bytes "));
  }
  CHECK(communicator->close(60));
}

TEST_CASE("an index that one rank finds written into while it is used ends all ranks with an error that says so") {
  const std::uint32_t last = world().size() - 1;
  const TemporaryDirectory folder;
  const std::uint64_t images = 20'000;
  write_file(folder / "set-images-idx3-ubyte",
             std::string("\0\0\x08\x03\0\0\x4e\x20\0\0\0\4\0\0\0\4", 16) + std::string(images * 16, 'p'));
  write_file(folder / "set-labels-idx1-ubyte", std::string("\0\0\x08\x01\0\0\x4e\x20", 8) + std::string(images, '\1'));
  const std::string file = (folder / "set.index").string();
  save_index(*build_dataset(options_for(folder / "set-images-idx3-ubyte", "idx")), file);
  Parts parts;
  parts.dataset = restore_index(open_index_file(file, 0));
  Options options = memory_options(2);
  options.run.steps = 1'000'000;
  Feeder feeder(options, world(), std::move(parts));
  std::string cause;
  std::uint64_t steps = 0;
  try {
    while (const auto batch = feeder.next()) {
      CHECK(batch->labels()[0] == 1);
      if (++steps != 5 || world().rank() != last) continue;
      const std::string bytes = read_text(file);
      write_file(file, bytes.substr(0, bytes.size() - images) + std::string(images, '\0'));
    }
  } catch (const Error& error) {
    cause = error.what();
  }
  CHECK(contains(cause, "set.index: was written into or shortened while it was in use"));
  if (last > 0) CHECK(cause.starts_with("rank " + std::to_string(last) + ": "));
  feeder.close();
  const auto communicator = world().duplicate();
  const auto everybodys = communicator->all_gather(std::to_string(steps));
  CHECK(std::ranges::count(everybodys, everybodys[0]) == static_cast<std::ptrdiff_t>(everybodys.size()));
  CHECK(communicator->close(60));
}

TEST_CASE("a stop that reaches one rank before any has a batch ends all ranks without an error") {
  std::atomic<bool> stop{false};
  Gate gate;
  Parts parts;
  parts.stop = &stop;
  parts.dataset = std::make_shared<MemoryDataset>(64, [&](std::uint64_t) {
    if (world().rank() + 1 == world().size()) stop = true;
    gate.pass();
  });
  Feeder feeder(memory_options(4), world(), std::move(parts));
  gate.open();
  CHECK_FALSE(feeder.next());
  CHECK(feeder.was_stopped());
  feeder.close();
}

TEST_CASE("a rank with another configuration or dataset is named on all ranks, with the difference") {
  const auto communicator = world().duplicate();
  const SharedList list(*communicator);
  const auto dataset = share_dataset(list.options(), *communicator);
  Options options;
  options.dataset = list.options();
  CHECK_NOTHROW(require_same_run(options, *dataset, *communicator));
  const std::uint32_t last = communicator->size() - 1;
  if (communicator->rank() == last) options.seed = 99;
  options.workers.io = communicator->rank() + 1;  // may differ
  options.telemetry.dir = "run";
  CHECK(folders_notice(options, *communicator).empty());
  if (communicator->rank() == last) options.telemetry.dir.clear();  // only some ranks write
  CHECK(folders_notice(options, *communicator).empty());
  if (communicator->rank() == last) options.telemetry.dir = "other";
  CHECK(contains(folders_notice(options, *communicator), "and \"other\" on rank " + std::to_string(last)) ==
        (last > 0));
  const std::string message = error_of([&] { require_same_run(options, *dataset, *communicator); });
  if (last == 0) {
    CHECK(message.empty());
  } else {
    CHECK(contains(message, "rank " + std::to_string(last) + " runs with another configuration"));
    CHECK(contains(message, "seed = 99"));
  }
  CHECK(communicator->close(60));
}

}  // namespace forebay::test_mpi_startup
