// States are written on a thread of their own: nobody waits for the disk, and nothing that fails is forgotten.

#include <doctest/doctest.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <forebay/error.hpp>

#include "memory_dataset.hpp"
#include "order/state_file.hpp"
#include "process.hpp"

namespace forebay {
namespace {

using testing::eventually;
using testing::Gate;

// A disk that lets writes pass one by one and keeps what was written.
struct Disk {
  StateWriter::Write write() {
    return [this](const std::filesystem::path& file, const std::string& text) {
      ++begun;
      gate.pass();
      if (text.starts_with("bad")) throw Error("no room for " + text);
      const std::lock_guard lock(mutex);
      written.push_back(file.string() + ":" + text);
    };
  }
  bool waits_for(int writes) {
    return eventually([&] { return begun.load() == writes; });
  }

  std::atomic<int> begun{0};
  Gate gate;
  std::mutex mutex;
  std::vector<std::string> written;
};

TEST_CASE("save() returns while the disk stalls; one is written at a time, and the newest of those that wait") {
  Disk disk;
  StateWriter writer(disk.write());
  writer.save("a", "1");
  CHECK(disk.waits_for(1));
  for (int i = 2; i < 100; ++i) writer.save("a", std::to_string(i));
  CHECK(disk.begun == 1);
  CHECK(writer.take_error() == "");
  disk.gate.open();
  writer.finish();
  CHECK(disk.written == std::vector<std::string>{"a:1", "a:99"});
  writer.save("a", "100");
  writer.finish();
  CHECK(disk.written.back() == "a:100");
}

TEST_CASE("a state for another file takes no other's place") {
  Disk disk;
  StateWriter writer(disk.write());
  writer.save("a", "1");
  CHECK(disk.waits_for(1));
  writer.save("a", "2");
  std::atomic<bool> returned{false};
  std::thread saver([&] {
    writer.save("b", "3");
    returned = true;
  });
  disk.gate.open(1);
  CHECK(disk.waits_for(2));
  CHECK(eventually([&] { return returned.load(); }));  // there is room once the second is being written
  disk.gate.open();
  saver.join();
  writer.finish();
  CHECK(disk.written == std::vector<std::string>{"a:1", "a:2", "b:3"});
}

TEST_CASE("the first error is kept until it is asked for, and later states are written all the same") {
  Disk disk;
  disk.gate.open();
  StateWriter writer(disk.write());
  writer.save("a", "bad 1");
  writer.finish();
  writer.save("a", "bad 2");
  writer.finish();
  writer.save("a", "3");
  writer.finish();
  CHECK(disk.written == std::vector<std::string>{"a:3"});
  CHECK(writer.take_error() == "no room for bad 1");
  CHECK(writer.take_error() == "");
}

TEST_CASE("the end waits for what was handed over") {
  Disk disk;
  {
    StateWriter writer(disk.write());
    writer.save("a", "1");
    CHECK(disk.waits_for(1));
    writer.save("a", "2");
    disk.gate.open();
  }
  CHECK(disk.written == std::vector<std::string>{"a:1", "a:2"});
  StateWriter idle(disk.write());  // has no thread to end
  idle.finish();
}

}  // namespace
}  // namespace forebay
