#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include <forebay/dataset.hpp>

#include "base/direct_reads.hpp"
#include "base/file_io.hpp"
#include "record_table.hpp"
#include "store/cache.hpp"

namespace forebay::data {

// The result of comparing an index's files of records with its stamps of them.
struct SourceComparison {
  std::uint64_t files = 0;
  std::string difference;  // "PATH is not the file that ..."; empty if there is none
};

// The files from which samples are read. Files of records stay open after their first read, so that a record costs one
// read; at most kMostOpen do, so that a dataset of many shards leaves descriptors for the rest of the program. Others
// are opened for each read. Any thread may call.
class SourceFiles {
 public:
  static constexpr std::uint32_t kMostOpen = 256;

  // A file of records, as the index knows it.
  struct Known {
    std::string path;
    RecordTable::Stamp stamp;  // except `modified`
  };

  // `sources`: the number of files that hold records. `modified`: modification times of the first of them, as in a
  // stamp. `known` describes each; it is called on any thread and may throw.
  SourceFiles(std::uint64_t sources, std::span<const std::int64_t> modified,
              std::function<Known(std::uint64_t source)> known);
  ~SourceFiles();
  SourceFiles(const SourceFiles&) = delete;
  SourceFiles& operator=(const SourceFiles&) = delete;

  // Files opened from now on are read past the page cache, if their file system supports that.
  void bypass_page_cache() noexcept { is_direct_.store(true, std::memory_order_relaxed); }
  // Files opened from now on are read through the cache.
  void use_cache(std::shared_ptr<const store::NodeCache> cache);
  // Closes open files that are not in use; the next read reopens them. If memory runs out they stay open.
  void close_kept() noexcept;
  // "", or the reason, with the file's name, why it cannot be read past the page cache.
  [[nodiscard]] static std::string problem_of_bypass(const std::string& path);

  // Calls use(file) with the source. Throws SampleError if it cannot be opened or does not match the index; the next
  // call tries again. REQUIRES: source < sources.
  template <typename Use>
  void with(std::uint64_t source, Use&& use) {
    Source& place = sources_[source];
    const User user(place);
    // Two threads may both open it; only one result is kept.
    if (const OpenFile* file = place.open.load()) return use_kept(source, *file, use);
    auto opened = std::make_unique<const OpenFile>(open(source));
    if (kept_.fetch_add(1, std::memory_order_relaxed) < kMostOpen && may_keep(*opened)) {
      const OpenFile* first = nullptr;
      if (place.open.compare_exchange_strong(first, opened.get())) return use_kept(source, *opened.release(), use);
    }
    kept_.fetch_sub(1, std::memory_order_relaxed);
    use(*opened);
  }
  // Opens and compares the source once; throws as with() does until that succeeds.
  void check(std::uint64_t source);
  // The same for many. Throws ConfigError when the store fails.
  [[nodiscard]] SourceComparison compare(std::span<const std::uint64_t> sources, unsigned threads,
                                         const IndexProgress& progress);

  // Fill `bytes`, or pieces of memory in order, from a file passed by with(), in one request. Throw SampleError.
  void read(const OpenFile& file, std::size_t offset, std::span<std::byte> bytes);
  void read(const OpenFile& file, std::size_t offset, std::span<const std::span<std::byte>> pieces);
  // Reads a whole file, or an array in an archive; the latter always through the page cache. Throws SampleError, also
  // for an empty file unless it may be; in a store none may.
  void read_whole(const std::string& path, ReadTarget& target, bool may_be_empty = false);

 private:
  // A file that is given back is closed once nobody uses its source. `open` and `users` are
  // sequentially consistent: a user increments `users` before it loads `open`, and the thread that
  // gives the file back clears `open` before it loads `users`, so one of the two sees the other.
  struct Source {
    std::atomic<const OpenFile*> open{nullptr};  // null if the file is not kept open
    std::atomic<std::uint32_t> users{0};
    // Relaxed, like the next: they guard nothing, and a thread that does not see them merely compares the file again.
    std::atomic<std::int64_t> modified{0};  // the file's modification time when it was last compared
    std::atomic<bool> is_checked{false};
  };

  class User {
   public:
    explicit User(Source& source) noexcept : source_(source) { source_.users.fetch_add(1); }
    ~User() { source_.users.fetch_sub(1); }
    User(const User&) = delete;
    User& operator=(const User&) = delete;

   private:
    Source& source_;
  };
  struct GivenBack {
    std::uint64_t source;
    std::unique_ptr<const OpenFile> file;
  };

  // A descriptor that fails may fail forever, like a stale NFS handle: the next read reopens the file.
  template <typename Use>
  void use_kept(std::uint64_t source, const OpenFile& file, Use& use) {
    try {
      use(file);
    } catch (const SampleError& error) {
      if (error.is_transient() && !is_truncated(error)) give_back(source);
      throw;
    }
  }

  // The last quarter of the process's descriptors is left to the rest of the program.
  [[nodiscard]] static bool may_keep(const OpenFile& file) noexcept;
  void give_back(std::uint64_t source);
  void give_all_back();
  // Closes what was given back and is not used. REQUIRES: mutex_ is held.
  void close_unused();
  // Calls opener(path), giving back kept files if the process has run out of descriptors.
  [[nodiscard]] OpenFile open_file(const std::string& path, OpenFile (*opener)(const std::string&));
  [[nodiscard]] OpenFile open(std::uint64_t source);
  // Of an object, in its store.
  [[nodiscard]] std::uint64_t identity(std::uint64_t source) const noexcept;
  // Makes the file be read through the cache, or past the page cache, if one of them is wanted.
  void prepare(OpenFile& file, const std::string& path) const;
  // Null once the run that owns it has ended.
  [[nodiscard]] std::shared_ptr<const store::NodeCache> cache() const;

  std::uint64_t count_;
  std::unique_ptr<Source[]> sources_;
  std::function<Known(std::uint64_t)> known_;
  std::atomic<std::uint32_t> kept_{0};
  std::mutex mutex_;                   // guards given_back_
  std::vector<GivenBack> given_back_;  // files that were in use when they were given back
  mutable std::mutex cache_mutex_;
  mutable std::shared_ptr<const store::NodeCache> cache_;  // that of the last run that has one
  mutable std::atomic<bool> has_cache_{false};
  std::atomic<bool> is_direct_{false};  // relaxed: either way of reading gives the same bytes
  DirectReads direct_;
};

// Compares all of them. Empty for a program's own dataset. Throws ConfigError if the store fails.
[[nodiscard]] SourceComparison compare_sources(const Dataset& dataset, unsigned threads, const IndexProgress& progress);

// Makes those files of an index's dataset that are not yet open be read past the page cache. Returns "", or why that is
// impossible, judging by the first file. Any thread.
[[nodiscard]] std::string bypass_page_cache(const Dataset& dataset);

// Makes those that are not yet open be read through the cache. False for a program's own dataset. Any thread.
bool use_cache(const Dataset& dataset, std::shared_ptr<const store::NodeCache> cache);

// The same with the cache named in the options. Null if they name none, or if it cannot be used, in which case `tell`
// gets a line that says why, and data are read from their store. Any thread.
[[nodiscard]] std::shared_ptr<const store::NodeCache> open_cache(const Options& options, const Dataset& dataset,
                                                                 const std::function<void(const std::string&)>& tell);

// Closes the files that an index's dataset keeps open, because it may not be read from for a long time. Any thread.
void close_kept_files(const Dataset& dataset) noexcept;

}  // namespace forebay::data
