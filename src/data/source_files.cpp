// Keeps files of records open, so that a record costs one read instead of open, compare, read and
// close.
//
// A file is opened by the first reader that needs it, compared with its stamp in the index, and
// kept if fewer than kMostOpen are kept and descriptors are left; otherwise it serves only this
// read. When the process runs out of descriptors, all kept files are given back and the opening is
// tried once more. A file that is given back while others read from it is closed by the next thread
// that finds it without users (close_unused), because a descriptor closed under a reader might be
// reused for another file.
//
// With a cache on the node (store/cache.hpp), files of records are opened through it, and whole
// files are read through it. An open file keeps its cache alive, so that a reader of one run may go
// on with the cache of another run that ends. Files are opened through the cache of the last run
// that set one, until that run ends.
//
// Any thread may read. The fast path takes no lock; source_files.hpp has the argument for `open`
// and `users`. mutex_ guards only the list of files that wait to be closed.

#include "source_files.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>
#include <vector>

#include <forebay/error.hpp>

#include "base/file_io.hpp"
#include "base/limits.hpp"
#include "base/retry.hpp"
#include "base/text.hpp"
#include "npy.hpp"
#include "parallel.hpp"
#include "scan.hpp"
#include "store/files.hpp"

namespace forebay::data {

SourceFiles::SourceFiles(std::uint64_t sources, std::span<const std::int64_t> modified,
                         std::function<Known(std::uint64_t source)> known)
    : count_(sources), sources_(std::make_unique<Source[]>(sources)), known_(std::move(known)) {
  for (std::uint64_t i = 0; i < std::min<std::uint64_t>(sources, modified.size()); ++i) {
    sources_[i].modified.store(modified[i], std::memory_order_relaxed);
  }
}

// No thread reads any more, because a dataset outlives the run that uses it.
SourceFiles::~SourceFiles() {
  for (std::uint64_t i = 0; i < count_; ++i) delete sources_[i].open.load(std::memory_order_relaxed);
}

// Opens the file only for this question; a file that cannot be opened does not answer it.
std::string SourceFiles::problem_of_bypass(const std::string& path) {
  if (store::is_url(path)) return {};  // no page cache is in between
  try {
    OpenFile file = open_regular(path);
    const std::string problem = forebay::bypass_page_cache(file);
    return problem.empty() ? "" : path + ": " + problem;
  } catch (const SampleError&) {  // a read will report what is wrong
    return {};
  }
}

// The kernel assigns the lowest free number, so a descriptor's number is a lower bound of how many
// the process has open.
bool SourceFiles::may_keep(const OpenFile& file) noexcept {
  return file.remote != nullptr || static_cast<unsigned long>(file.descriptor.get()) < open_file_limit() / 4 * 3;
}

// exchange() makes one of several callers the owner; the others get null.
void SourceFiles::give_back(std::uint64_t source) {
  const std::lock_guard lock(mutex_);
  if (const OpenFile* const file = sources_[source].open.exchange(nullptr)) {
    kept_.fetch_sub(1, std::memory_order_relaxed);
    given_back_.push_back({source, std::unique_ptr<const OpenFile>(file)});
  }
  close_unused();
}

void SourceFiles::give_all_back() {
  if (kept_.load(std::memory_order_relaxed) > 0) {
    for (std::uint64_t source = 0; source < count_; ++source) {
      if (sources_[source].open.load(std::memory_order_relaxed) != nullptr) give_back(source);
    }
  }
  const std::lock_guard lock(mutex_);
  close_unused();
}

void SourceFiles::close_kept() noexcept {
  try {
    give_all_back();
  } catch (...) {  // NOLINT(bugprone-empty-catch): no memory; what is left closes with the dataset
  }
}

// The file is no longer in `open`, so no new user can get it. Later users of the source have
// another descriptor, so waiting for zero users may take longer than needed but never ends too
// early.
void SourceFiles::close_unused() {
  std::erase_if(given_back_, [this](const GivenBack& each) { return sources_[each.source].users.load() == 0; });
}

// The second attempt is the last. If it fails, the rest of the program holds the descriptors, and
// the error says so.
OpenFile SourceFiles::open_file(const std::string& path, OpenFile (*opener)(const std::string&)) {
  {
    const std::lock_guard lock(mutex_);
    close_unused();
  }
  try {
    return opener(path);
  } catch (const NoDescriptor&) {
    give_all_back();
    return opener(path);
  }
}

std::uint64_t SourceFiles::identity(std::uint64_t source) const noexcept {
  return std::bit_cast<std::uint64_t>(sources_[source].modified.load(std::memory_order_relaxed));
}

// Once the file has matched, its present modification time replaces that in the index, so that the
// next opening need not read its blocks, even for a copy whose times all differ.
OpenFile SourceFiles::open(std::uint64_t source) {
  const Known known = known_(source);
  if (store::is_url(known.path)) {
    OpenFile object = store::open_object(known.path, {.bytes = known.stamp.bytes, .identity = identity(source)});
    prepare(object, known.path);
    return object;
  }
  RecordTable::Stamp expected = known.stamp;
  expected.modified = sources_[source].modified.load(std::memory_order_relaxed);
  OpenFile opened = open_file(known.path, open_regular);
  if (!RecordTable::is_still(opened, expected)) throw store::is_changed();
  sources_[source].modified.store(RecordTable::modified_of(opened), std::memory_order_relaxed);
  prepare(opened, known.path);
  return opened;
}

void SourceFiles::check(std::uint64_t source) {
  if (sources_[source].is_checked.load(std::memory_order_relaxed)) return;
  if (const Known known = known_(source); store::is_url(known.path)) {  // for a URL open() sends no request
    const OpenFile file = store::open_object(known.path);
    if (file.size != known.stamp.bytes || file.remote->identity() != identity(source)) throw store::is_changed();
  } else {
    (void)open(source);
  }
  sources_[source].is_checked.store(true, std::memory_order_relaxed);
}

// Each file has its own element of `problems`, so threads write without a lock, and the first
// problem in order is reported.
SourceComparison SourceFiles::compare(std::span<const std::uint64_t> sources, unsigned threads,
                                      const IndexProgress& progress) {
  std::vector<std::string> problems(sources.size());
  if (sources.empty()) return {};
  run_parallel({sources.size(), threads, progress}, [&](std::size_t i) {
    try {
      read_patiently([&] { return known_(sources[i]).path; }, [&] { check(sources[i]); });
    } catch (const SampleError& error) {
      const std::string path = known_(sources[i]).path;
      if (error.is_transient()) end_scan(path, error);
      problems[i] = path + ": " + error.what();
    }
  });
  const auto first = std::ranges::find_if(problems, [](const std::string& problem) { return !problem.empty(); });
  return {sources.size(), first == problems.end() ? "" : *first};
}

void SourceFiles::use_cache(std::shared_ptr<const store::NodeCache> cache) {
  const std::lock_guard lock(cache_mutex_);
  cache_ = std::move(cache);
  has_cache_.store(true);
}

std::shared_ptr<const store::NodeCache> SourceFiles::cache() const {
  if (!has_cache_.load(std::memory_order_relaxed)) return nullptr;
  const std::lock_guard lock(cache_mutex_);
  if (cache_ != nullptr && cache_->has_left()) {
    cache_.reset();
    has_cache_.store(false);
  }
  return cache_;
}

// A file system that refuses was reported when the run began.
void SourceFiles::prepare(OpenFile& file, const std::string& path) const {
  if (const auto cache = this->cache()) file = cache->through(std::move(file), path);
  if (file.remote == nullptr && is_direct_.load(std::memory_order_relaxed)) (void)forebay::bypass_page_cache(file);
}

void SourceFiles::read(const OpenFile& file, std::size_t offset, std::span<std::byte> bytes) {
  if (file.block == 0) return read_at(file, offset, bytes);
  direct_.read(file, offset, std::array{bytes});
}

void SourceFiles::read(const OpenFile& file, std::size_t offset, std::span<const std::span<std::byte>> pieces) {
  if (file.block == 0) return read_at(file, offset, pieces);
  direct_.read(file, offset, pieces);
}

// The file is not kept open: it is a sample, and there may be millions of them.
void SourceFiles::read_whole(const std::string& path, ReadTarget& target, bool may_be_empty) {
  const auto cache = this->cache();
  if (const auto place = array_place(path)) {
    OpenFile archive = store::open_regular(place->archive);
    if (cache != nullptr) archive = cache->through(std::move(archive), place->archive);
    return read_array(archive, place->array, target);
  }
  if (store::is_url(path)) {
    const auto reserve = [&](std::size_t bytes) { return target.reserve(bytes); };
    if (cache != nullptr) return cache->read_object(path, reserve);
    return (void)store::read_object(path, reserve);
  }
  OpenFile file = open_file(
      path, may_be_empty ? +[](const std::string& name) { return open_sample_file(name, true); }
                         : +[](const std::string& name) { return open_sample_file(name, false); });
  if (file.size == 0) return (void)target.reserve(0);
  prepare(file, path);
  read(file, 0, target.reserve(file.size));
}

// Each rank opens the cache for itself: one whose disk is broken reads from the store, and the
// others go on with their cache.
std::shared_ptr<const store::NodeCache> open_cache(const Options& options, const Dataset& dataset,
                                                   const std::function<void(const std::string&)>& tell) {
  const CacheOptions& wanted = options.cache;
  if (wanted.dir.empty()) return nullptr;
  try {
    auto cache = std::make_shared<const store::NodeCache>(wanted, options.dataset.path);
    if (use_cache(dataset, cache)) return cache;
    tell("cache.dir has no effect: the dataset is the program's own");
  } catch (const Error& error) {
    tell("cache.dir has no effect: " + printable(wanted.dir) + ": " + error.what());
  }
  return nullptr;
}

}  // namespace forebay::data
