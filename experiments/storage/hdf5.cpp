// Rows of an HDF5 dataset by many threads: through the HDF5 library, and by pread at the places that the library tells
// once. bench_hdf5 [--rounds N] DIR

#include <hdf5.h>

#include <array>
#include <mutex>

#include "read_list.hpp"

namespace {

using namespace storage;

constexpr std::array kThreads{1U, 2U, 4U, 16U};
constexpr std::array kCases{Case{"rows of 10 kB", Layout::records, 10'000, 4000},
                            Case{"rows of 100 kB", Layout::records, 100'000, 1000}};

template <typename Id>
Id checked(Id result, const char* what) {
  if (result < 0) give_up(what, EIO);
  return result;
}

// A dataset "images" of uint8 [reads, length], a chunk for each row.
std::string make_file(const std::filesystem::path& folder, const Case& wanted) {
  std::filesystem::create_directories(folder);
  const std::string path = (folder / ("rows-" + std::to_string(wanted.length) + ".h5")).string();
  const hid_t file = checked(::H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), "H5Fcreate");
  const std::array<hsize_t, 2> shape{wanted.reads, wanted.length};
  const std::array<hsize_t, 2> row{1, wanted.length};
  const hid_t space = ::H5Screate_simple(2, shape.data(), nullptr);
  const hid_t list = ::H5Pcreate(H5P_DATASET_CREATE);
  checked(::H5Pset_chunk(list, 2, row.data()), "H5Pset_chunk");
  const hid_t data =
      checked(::H5Dcreate2(file, "images", H5T_NATIVE_UINT8, space, H5P_DEFAULT, list, H5P_DEFAULT), "H5Dcreate2");
  std::vector<char> bytes(wanted.length);
  std::mt19937_64 random(wanted.length);
  for (hsize_t i = 0; i < wanted.reads; ++i) {
    for (char& byte : bytes) byte = static_cast<char>(random());
    const std::array<hsize_t, 2> at{i, 0};
    checked(::H5Dwrite_chunk(data, H5P_DEFAULT, 0, at.data(), bytes.size(), bytes.data()), "H5Dwrite_chunk");
  }
  ::H5Pclose(list);
  ::H5Sclose(space);
  ::H5Dclose(data);
  ::H5Fclose(file);
  ::sync();
  return path;
}

struct File {
  explicit File(const std::string& path)
      : id(checked(::H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), "H5Fopen")),
        images(checked(::H5Dopen2(id, "images", H5P_DEFAULT), "H5Dopen2")) {}
  ~File() {
    ::H5Dclose(images);
    ::H5Fclose(id);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  hid_t id;
  hid_t images;
};

// Where each row lies, in random order; and how long the library took to tell.
ReadList places_of(const std::string& path, const Case& wanted, double& seconds) {
  const File file(path);
  ReadList list{.layout = Layout::records, .length = wanted.length, .reads = {}};
  const auto begin = std::chrono::steady_clock::now();
  for (hsize_t i = 0; i < wanted.reads; ++i) {
    const std::array<hsize_t, 2> at{i, 0};
    unsigned filters = 0;
    haddr_t address = 0;
    hsize_t size = 0;
    checked(::H5Dget_chunk_info_by_coord(file.images, at.data(), &filters, &address, &size), "H5Dget_chunk_info");
    list.reads.push_back({.path = path, .offset = address});
  }
  seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::mt19937_64 random(17);
  std::ranges::shuffle(list.reads, random);
  return list;
}

enum class Way { rows, chunks, pread };
constexpr std::array<const char*, 3> kWays{"H5Dread of a row", "H5Dread_chunk", "pread at its place"};

Cost measure(const std::string& path, const ReadList& list, std::span<const hsize_t> order, Way way, unsigned threads,
             From from) {
  if (way == Way::pread) {
    const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    return by_threads(list, from, threads,
                      [&](std::size_t i, char* to) { pread_all(file.get(), to, span_of(list, i, from)); });
  }
  const File file(path);
  hbool_t is_safe = 0;
  ::H5is_library_threadsafe(&is_safe);
  std::mutex mutex;  // where the library has none of its own
  return by_threads(list, from, threads, [&](std::size_t i, char* to) {
    std::unique_lock lock(mutex, std::defer_lock);
    if (is_safe == 0) lock.lock();
    const std::array<hsize_t, 2> at{order[i], 0};
    if (way == Way::chunks) {
      std::uint32_t filters = 0;
      checked(::H5Dread_chunk(file.images, H5P_DEFAULT, at.data(), &filters, to), "H5Dread_chunk");
      return;
    }
    const std::array<hsize_t, 2> row{1, list.length};
    const hid_t memory = ::H5Screate_simple(2, row.data(), nullptr);
    const hid_t space = ::H5Dget_space(file.images);
    checked(::H5Sselect_hyperslab(space, H5S_SELECT_SET, at.data(), nullptr, row.data(), nullptr),
            "H5Sselect_hyperslab");
    checked(::H5Dread(file.images, H5T_NATIVE_UINT8, memory, space, H5P_DEFAULT, to), "H5Dread");
    ::H5Sclose(space);
    ::H5Sclose(memory);
  });
}

void table(const std::filesystem::path& folder, const Case& wanted, std::size_t rounds) {
  const std::string path = make_file(folder, wanted);
  double seconds = 0;
  const ReadList list = places_of(path, wanted, seconds);
  std::vector<hsize_t> order(wanted.reads);
  for (hsize_t i = 0; i < order.size(); ++i) order[i] = i;
  std::mt19937_64 random(17);
  std::ranges::shuffle(order, random);
  struct Cell {
    Spread cache, processor, disk;
  };
  std::array<std::array<Cell, kThreads.size()>, kWays.size()> rows;
  for (std::size_t round = 0; round < rounds; ++round) {
    for (std::size_t column = 0; column < kThreads.size(); ++column) {
      for (std::size_t row = 0; row < kWays.size(); ++row) {
        Cell& cell = rows[row][column];
        list.drop_from_cache();
        cell.disk.values.push_back(
            measure(path, list, order, static_cast<Way>(row), kThreads[column], From::disk).reads_per_s);
        const Cost cost = measure(path, list, order, static_cast<Way>(row), kThreads[column], From::cache);
        cell.cache.values.push_back(cost.reads_per_s);
        cell.processor.values.push_back(cost.processor_us);
      }
    }
  }
  std::printf(
      "\n%s, %zu of them, in chunks of a row; the library told their places in %.0f ms; medians of %zu rounds\n",
      wanted.name, wanted.reads, seconds * 1e3, rounds);
  std::printf("%-20s  threads   in the page cache, rows/s [range]   us each   on the disk, rows/s [range]\n", "");
  for (std::size_t row = 0; row < kWays.size(); ++row) {
    for (std::size_t column = 0; column < kThreads.size(); ++column) {
      Cell& cell = rows[row][column];
      const double cache = cell.cache.median();
      const double disk = cell.disk.median();
      std::printf("%-20s  %7u   %7.0f [%7.0f .. %7.0f]     %8.1f   %7.0f [%6.0f .. %6.0f]\n", kWays[row],
                  kThreads[column], cache, cell.cache.values.front(), cell.cache.values.back(), cell.processor.median(),
                  disk, cell.disk.values.front(), cell.disk.values.back());
    }
  }
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  std::filesystem::path folder;
  std::size_t rounds = 5;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--rounds" && i + 1 < argc) {
      rounds = std::strtoul(argv[++i], nullptr, 10);
    } else {
      folder = word;
    }
  }
  if (folder.empty() || rounds == 0) {
    std::fputs("usage: bench_hdf5 [--rounds N] DIR     writes 140 MB there\n", stderr);
    return 2;
  }
  hbool_t is_safe = 0;
  ::H5is_library_threadsafe(&is_safe);
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  ::H5get_libversion(&major, &minor, &release);
  std::printf(
      "HDF5 %u.%u.%u, %s\n", major, minor, release,
      is_safe != 0 ? "thread-safe: one lock for the whole library" : "not thread-safe: one lock around every call");
  for (const Case& each : kCases) table(folder, each, rounds);
}
