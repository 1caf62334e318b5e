#include "stronger_than_needed.hpp"

#include <regex>

namespace forebay::model {
namespace {

constexpr std::string_view kWord =
    "Only read-modify-writes change the word, so each continues the release sequence of all before it. The notifier's "
    "release and the waiter's acquire are what carries the condition; W3 says of all of them what is true of these "
    "two, "
    "which is simpler and costs nothing on x86.";
constexpr std::string_view kHeld =
    "The consumer has acquired the end of every lease through SlotStore::held() before a slot that it retires can be "
    "claimed: the numbers of R6 leave a slot that may be claimed at once only where all other leases are still held. "
    "R5 "
    "names an order of its own, so that it does not rest on how many slots there are.";
constexpr std::string_view kSignal =
    "The wait itself would do with relaxed (W3), and whoever is stopped sees why with release and acquire. What stands "
    "around such a signal in src/read is not under the explorer, and a signal is raised once in a run.";

constexpr std::array kUnneeded = {
    Unneeded{"src/base/wait.hpp", "word_.fetch_add", std::memory_order_release, kWord},
    Unneeded{"src/base/wait.hpp", "word_.fetch_or", std::memory_order_acquire, kWord},
    Unneeded{"src/base/wait.cpp", "word_.fetch_and", std::memory_order_acquire, kWord},
    Unneeded{"src/base/wait.cpp", "word_.fetch_and", std::memory_order_release, kWord},
    Unneeded{"src/base/wait.cpp", "word_.fetch_and", std::memory_order_relaxed, kWord},
    Unneeded{"src/base/wait.hpp", "raised_.store", std::memory_order_release, kSignal},
    Unneeded{"src/base/wait.hpp", "raised_.load", std::memory_order_acquire, kSignal},
    Unneeded{"src/ring/lease.cpp", "leases.fetch_sub", std::memory_order_relaxed, kHeld},
    Unneeded{"src/serve/reuse_pool.cpp", "leases.load", std::memory_order_relaxed, kHeld},
};

std::string text_of(std::string_view file, unsigned line) {
  std::ifstream in(std::filesystem::path(testing::source_dir()) / file);
  std::string text;
  for (unsigned i = 0; i < line; ++i) std::getline(in, text);
  return text;
}

}  // namespace

const Unneeded* unneeded(std::string_view file, unsigned line, std::memory_order weaker) {
  const std::string text = text_of(file, line);
  for (const Unneeded& entry : kUnneeded) {
    if (entry.file == file && entry.weaker == weaker && text.find(entry.code) != std::string::npos) return &entry;
  }
  return nullptr;
}

std::size_t count_of_unneeded() noexcept { return kUnneeded.size(); }

std::vector<NamedOrder> orders_in_sources() {
  const std::filesystem::path top = testing::source_dir();
  std::vector<std::string> files{"src/base/wait.hpp", "src/base/wait.cpp", "src/serve/reuse_pool.cpp",
                                 "src/measure/record_ring.hpp"};
  for (const auto& entry : std::filesystem::directory_iterator(top / "src/ring")) {
    files.push_back("src/ring/" + entry.path().filename().string());
  }
  const std::regex order("memory_order_([a-z_]+)");
  std::vector<NamedOrder> found;
  for (const std::string& file : files) {
    std::ifstream in(top / file);
    std::string text;
    for (unsigned line = 1; std::getline(in, text); ++line) {
      text = text.substr(0, text.find("//"));
      for (auto match = std::sregex_iterator(text.begin(), text.end(), order); match != std::sregex_iterator();
           ++match) {
        if ((*match)[1] != "relaxed") found.push_back({file, line, (*match)[1]});
      }
    }
  }
  return found;
}

}  // namespace forebay::model
