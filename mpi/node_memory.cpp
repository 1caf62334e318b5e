// Memory that the ranks of a node share, for the index and for counters. Collective: the ranks of a
// node are found with MPI_Comm_split_type, the first of them (the leader) creates the memory and
// tells the others how to open it, and either all map it or none does. A memfd, opened through the
// leader's /proc, is tried first, because it leaves nothing behind when a process is killed; then
// an object in /dev/shm. MPI's shared windows are not used: all ranks would have to free them
// together, which a rank that fails alone cannot do.

#include "communicator.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <forebay/error.hpp>

#include "base/file_io.hpp"
#include "mpi_error.hpp"

namespace forebay::mpi {
namespace {

class MappedMemory final : public SharedMemory {
 public:
  MappedMemory(void* address, std::size_t bytes, std::size_t mapped) noexcept
      : address_(address), bytes_(bytes), mapped_(mapped) {}
  ~MappedMemory() override { ::munmap(address_, mapped_); }
  MappedMemory(const MappedMemory&) = delete;
  MappedMemory& operator=(const MappedMemory&) = delete;

  [[nodiscard]] std::span<std::byte> bytes() noexcept override { return {static_cast<std::byte*>(address_), bytes_}; }

 private:
  void* address_;
  std::size_t bytes_;
  std::size_t mapped_;
};

// The ranks of `comm` on this node. All of them free this communicator before share_on_node()
// returns.
class NodeRanks {
 public:
  explicit NodeRanks(MPI_Comm comm) {
    check(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node_), "MPI_Comm_split_type");
  }
  ~NodeRanks() { MPI_Comm_free(&node_); }
  NodeRanks(const NodeRanks&) = delete;
  NodeRanks& operator=(const NodeRanks&) = delete;

  [[nodiscard]] MPI_Comm get() const noexcept { return node_; }
  [[nodiscard]] bool is_leader() const {
    int rank = 0;
    check(MPI_Comm_rank(node_, &rank), "MPI_Comm_rank");
    return rank == 0;
  }

 private:
  MPI_Comm node_ = MPI_COMM_NULL;
};

// What the leader tells the others: the name to open ("" if the memory could not be created), and
// size, device and inode to verify it.
struct Offer {
  std::array<char, 64> name{};
  std::uint64_t bytes = 0;
  std::uint64_t device = 0;
  std::uint64_t inode = 0;

  [[nodiscard]] bool is_made() const noexcept { return name[0] != '\0'; }
};

std::string failed(const char* call, int error) {
  return std::string(call) + ": " + std::generic_category().message(error);
}

// Reserves the pages now: later, a lack of memory or a full /dev/shm would raise SIGBUS at first
// use. Device and inode let the others verify that they opened this very file, which may not be so
// in containers with separate namespaces.
bool reserve(const FileDescriptor& file, std::size_t bytes, Offer& offer, std::string& problem) {
  const int failure = ::posix_fallocate(file.get(), 0, static_cast<off_t>(bytes));
  if (failure != 0) {
    problem = failed("posix_fallocate", failure);
    return false;
  }
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) {
    problem = failed("fstat", errno);
    return false;
  }
  offer.bytes = bytes;
  offer.device = status.st_dev;
  offer.inode = status.st_ino;
  return true;
}

// The most that is reserved in a memfd. No file system limits it, so larger sizes could take all
// memory of the node.
constexpr std::size_t kMostNameless = std::size_t{64} << 20U;

// A memfd, which the others open through the leader's /proc. It needs no room in /dev/shm, and
// leaves nothing behind when a process is killed.
class NamelessMemory {
 public:
  NamelessMemory(std::size_t bytes, std::string& problem) : file_(::memfd_create("forebay", MFD_CLOEXEC)) {
    if (file_.get() < 0) {
      problem = failed("memfd_create", errno);
      return;
    }
    if (!reserve(file_, bytes, offer_, problem)) return;
    std::snprintf(offer_.name.data(), offer_.name.size(), "/proc/%ld/fd/%d", static_cast<long>(::getpid()),
                  file_.get());
  }
  [[nodiscard]] const Offer& offer() const noexcept { return offer_; }

 private:
  FileDescriptor file_;
  Offer offer_;
};

// An object in /dev/shm, for ranks that do not see the leader's /proc. Its name is removed as soon
// as all ranks of the node have tried to map it, whether or not they succeeded.
class NamedMemory {
 public:
  NamedMemory(std::size_t bytes, std::string& problem) {
    std::random_device entropy;
    std::snprintf(offer_.name.data(), offer_.name.size(), "/forebay-%ld-%08x%08x", static_cast<long>(::getpid()),
                  entropy(), entropy());
    const FileDescriptor file(::shm_open(offer_.name.data(), O_CREAT | O_EXCL | O_RDWR, 0600));
    if (file.get() < 0) {
      problem = failed("shm_open", errno);
      offer_.name = {};
    } else if (!reserve(file, bytes, offer_, problem)) {
      ::shm_unlink(offer_.name.data());
      offer_.name = {};
    }
  }
  ~NamedMemory() {
    if (offer_.is_made()) ::shm_unlink(offer_.name.data());
  }
  NamedMemory(const NamedMemory&) = delete;
  NamedMemory& operator=(const NamedMemory&) = delete;
  [[nodiscard]] const Offer& offer() const noexcept { return offer_; }

 private:
  Offer offer_;
};

int open_nameless(const char* name) { return ::open(name, O_RDWR | O_CLOEXEC); }
int open_named(const char* name) { return ::shm_open(name, O_RDWR, 0); }

std::unique_ptr<SharedMemory> map(const Offer& offer, int (*open)(const char* name), std::size_t bytes,
                                  std::string& problem) {
  const std::size_t mapped = std::max<std::size_t>(bytes, 1);
  if (offer.bytes != mapped) {
    problem = "ranks of one node asked for different sizes";
    return nullptr;
  }
  const FileDescriptor file(open(offer.name.data()));
  struct stat status {};
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0) {
    problem = failed("opening it", errno);
    return nullptr;
  }
  // In its own process namespace, a rank may find something else under that name.
  if (status.st_dev != offer.device || status.st_ino != offer.inode) {
    problem = "the ranks of a node do not see the same files";
    return nullptr;
  }
  void* address = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (address == MAP_FAILED) {
    problem = failed("mmap", errno);
    return nullptr;
  }
  return std::make_unique<MappedMemory>(address, bytes, mapped);
}

// Shared memory of one of these two kinds; null on all ranks of the node if one of them cannot map
// it.
template <typename Memory>
std::unique_ptr<SharedMemory> share(const NodeRanks& node, int (*open)(const char* name), std::size_t bytes,
                                    std::string& problem) {
  std::optional<Memory> made;
  Offer offer;
  if (node.is_leader()) offer = made.emplace(std::max<std::size_t>(bytes, 1), problem).offer();
  check(MPI_Bcast(&offer, sizeof(offer), MPI_BYTE, 0, node.get()), "MPI_Bcast");
  std::unique_ptr<SharedMemory> memory;
  if (offer.is_made()) memory = map(offer, open, bytes, problem);
  int all_mapped = memory ? 1 : 0;
  check(MPI_Allreduce(MPI_IN_PLACE, &all_mapped, 1, MPI_INT, MPI_MIN, node.get()), "MPI_Allreduce");
  if (all_mapped == 0) memory.reset();
  return memory;
}

// The problem of the first rank that has one, on all ranks. Texts have a fixed size, so that one
// call is enough.
std::string first_problem(MPI_Comm comm, const std::string& mine) {
  using Text = std::array<char, 160>;
  int ranks = 1;
  check(MPI_Comm_size(comm, &ranks), "MPI_Comm_size");
  std::vector<Text> texts(static_cast<std::size_t>(ranks));
  Text text{};
  mine.copy(text.data(), text.size() - 1);
  constexpr auto kSize = static_cast<int>(std::tuple_size_v<Text>);
  check(MPI_Allgather(text.data(), kSize, MPI_CHAR, texts.data(), kSize, MPI_CHAR, comm), "MPI_Allgather");
  const auto first = std::ranges::find_if(texts, [](const Text& one) { return one[0] != '\0'; });
  if (first == texts.end()) return "for an unknown reason";
  return "rank " + std::to_string(first - texts.begin()) + ": " + first->data();
}

}  // namespace

// All nodes take part in the final reduction, whatever became of their own attempts.
std::unique_ptr<SharedMemory> share_on_node(MPI_Comm comm, std::size_t bytes) {
  const NodeRanks node(comm);
  std::string problem;
  std::unique_ptr<SharedMemory> memory;
  if (bytes <= kMostNameless) memory = share<NamelessMemory>(node, open_nameless, bytes, problem);
  if (!memory) memory = share<NamedMemory>(node, open_named, bytes, problem);
  int all_mapped = memory ? 1 : 0;
  check(MPI_Allreduce(MPI_IN_PLACE, &all_mapped, 1, MPI_INT, MPI_MIN, comm), "MPI_Allreduce");
  if (all_mapped == 0) {
    throw Error("the ranks of a node cannot share " + std::to_string(bytes) + " bytes of memory (" +
                first_problem(comm, memory ? "" : problem) + "): they need that much, or room for it in one /dev/shm");
  }
  return memory;
}

}  // namespace forebay::mpi
