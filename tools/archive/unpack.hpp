#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <forebay/dataset.hpp>

namespace forebay::archive {

// Where the image with this name goes, below the folder: "cat/a.jpg" for "cat/a.jpg#object 2", and for a record in a
// container, which has no file of its own, "x.tar/n01.jpg" for "x.tar[record 5, n01]". `ending` is ".jpg" and so on.
[[nodiscard]] std::string unpacked_name(std::string_view key, std::string_view ending);
// The name without all that could lead out of the folder: "..", ".", and slashes that separate nothing. "../x/a.jpg"
// and "/x/a.jpg" become "x/a.jpg". Empty for a name of which nothing is left, or that no file can have.
[[nodiscard]] std::string safe_name(std::string_view name);

// Lets the iterations of a parallel loop through one after another, by their numbers. Any thread.
class Turns {
 public:
  // An iteration's turn, which it passes on at the end, whatever becomes of it. REQUIRES: every number below has one,
  // and takes it without waiting for this one.
  class Turn {
   public:
    Turn(Turns& turns, std::size_t number) noexcept : turns_(turns), number_(number) {}
    ~Turn() { pass(); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    // Returns once all below have passed theirs.
    void wait();
    void pass();

   private:
    Turns& turns_;
    std::size_t number_;
    bool has_passed_ = false;
  };

 private:
  std::mutex mutex_;
  std::condition_variable moved_;
  std::size_t next_ = 0;
};

// The names of files that are written into one folder, each given once. One thread at a time.
class UnpackNames {
 public:
  enum class Claim : std::uint8_t {
    is_free,  // it is the caller's now
    is_same,  // given for the same bytes
    is_taken  // given for other bytes, or it is a folder, or lies below a file
  };
  // `name`: a safe_name(), not empty. `bytes`: hash of what the file will hold.
  [[nodiscard]] Claim claim(std::string_view name, std::uint64_t bytes);
  // The same for a folder, which may be claimed again. False if a file has its name.
  bool claim_folder(std::string_view name);

 private:
  // By the hash of the name: a set may have very many. Two names with one hash cost one of them its name, no bytes.
  std::unordered_map<std::uint64_t, std::uint64_t> files_;
  std::unordered_set<std::uint64_t> folders_;
};

struct UnpackReport {
  std::uint64_t files = 0;  // written
  std::uint64_t bytes = 0;
  std::uint64_t pixels = 0;     // images that are stored as pixels, whose files are gone
  std::uint64_t renamed = 0;    // files whose own names are taken or impossible
  std::vector<Skipped> failed;  // "FILE[record N, KEY]", and why it was not written
};

// Writes the files of a packed set into a folder, which must be empty or absent, and in no case outside of it, whatever
// names the set has. Each file has been compared with the hash of the original. Which of several files gets a name that
// they share depends on the set alone: the first. Throws ConfigError if there is no packed set or the folder is not
// empty; Error naming a file that cannot be written.
[[nodiscard]] UnpackReport unpack(const std::filesystem::path& set, const std::filesystem::path& folder,
                                  unsigned threads, const IndexProgress& progress);

}  // namespace forebay::archive
