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

// The path of an unpacked image, below the folder, for its key in the set: "cat/a.jpg" for
// "cat/a.jpg#object 2", and "x.tar/n01.jpg" for "x.tar[record 5, n01]", a record of a container,
// which had no file of its own. `ending` is the extension for records, such as ".jpg".
[[nodiscard]] std::string unpacked_name(std::string_view key, std::string_view ending);
// The name without anything that could lead out of the folder: "..", ".", and superfluous slashes.
// "../x/a.jpg" and "/x/a.jpg" become "x/a.jpg". Empty if nothing is left, or if no file can have
// such a name.
[[nodiscard]] std::string safe_name(std::string_view name);

// Orders a section of a parallel loop: its iterations pass through it one by one, in ascending
// order. Any thread.
class Turns {
 public:
  // An iteration's turn, which is passed on at the latest when this is destroyed. REQUIRES: every
  // lower number has a turn too, and reaches it without waiting for this one.
  class Turn {
   public:
    Turn(Turns& turns, std::size_t number) noexcept : turns_(turns), number_(number) {}
    ~Turn() { pass(); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    // Returns once all lower numbers have passed their turns.
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

// The names of files written into one folder, each used once. One thread at a time.
class UnpackNames {
 public:
  enum class Claim : std::uint8_t {
    is_free,  // the name now belongs to the caller
    is_same,  // already used for a file with the same bytes
    is_taken  // used for other bytes, or a folder, or below a file
  };
  // `name`: a safe_name(), not empty. `bytes`: hash of what the file will hold.
  [[nodiscard]] Claim claim(std::string_view name, std::uint64_t bytes);
  // Claims a folder, which may be claimed again. False if it, or a folder above it, is the name of
  // a file.
  bool claim_folder(std::string_view name);

 private:
  // From the hash of a name to the hash of the content, as a set may have very many files. If the
  // hashes of two names collide, one file is renamed; no bytes are lost.
  std::unordered_map<std::uint64_t, std::uint64_t> files_;
  std::unordered_set<std::uint64_t> folders_;
};

struct UnpackReport {
  std::uint64_t files = 0;  // written
  std::uint64_t bytes = 0;
  std::uint64_t pixels = 0;     // images stored as pixels, whose original files cannot be restored
  std::uint64_t labels = 0;     // samples whose class no file says: it was in a container, a list or an annotation
  std::uint64_t fields = 0;     // files in fields/
  std::uint64_t renamed = 0;    // files whose own names are taken or impossible
  std::vector<Skipped> failed;  // "FILE[record N, KEY]", and why it was not written
};

// Writes the files of a packed set into a folder, which must be empty or absent, and never outside
// of it, whatever the names in the set are. The content of every file is checked against the hash
// of the original. If several files have the same name, the first one in the set gets it. Throws
// ConfigError if there is no packed set or the folder is not empty; Error naming a file that cannot
// be written.
[[nodiscard]] UnpackReport unpack(const std::filesystem::path& set, const std::filesystem::path& folder,
                                  unsigned threads, const IndexProgress& progress);

}  // namespace forebay::archive
