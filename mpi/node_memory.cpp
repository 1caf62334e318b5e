#include "node_memory.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <random>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <forebay/error.hpp>

#include "base/file_io.hpp"
#include "mpi_error.hpp"

namespace forebay {
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

// The ranks of `comm` on this node. All of them free it before share_on_node returns.
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

// What the leader of a node tells the others: the name of the object (empty if it could not be made) and its size.
struct Offer {
  std::array<char, 64> name{};
  std::uint64_t bytes = 0;
};

// The leader's object in /dev/shm. Its name is removed as soon as all have opened it, whatever happens.
class NamedObject {
 public:
  NamedObject(std::size_t bytes, std::string& problem) {
    std::random_device entropy;
    std::snprintf(offer_.name.data(), offer_.name.size(), "/forebay-%ld-%08x%08x", static_cast<long>(::getpid()),
                  entropy(), entropy());
    offer_.bytes = bytes;
    const FileDescriptor file(::shm_open(offer_.name.data(), O_CREAT | O_EXCL | O_RDWR, 0600));
    if (file.get() < 0) {
      problem = "shm_open: " + std::generic_category().message(errno);
      offer_.name = {};
      return;
    }
    // Reserves the pages now: after ftruncate a full /dev/shm would raise SIGBUS at first use.
    const int failure = ::posix_fallocate(file.get(), 0, static_cast<off_t>(bytes));
    if (failure == 0) return;
    problem = "posix_fallocate: " + std::generic_category().message(failure);
    ::shm_unlink(offer_.name.data());
    offer_.name = {};
  }
  ~NamedObject() {
    if (offer_.name[0] != '\0') ::shm_unlink(offer_.name.data());
  }
  NamedObject(const NamedObject&) = delete;
  NamedObject& operator=(const NamedObject&) = delete;
  [[nodiscard]] const Offer& offer() const noexcept { return offer_; }

 private:
  Offer offer_;
};

std::unique_ptr<SharedMemory> map(const Offer& offer, std::size_t bytes, std::string& problem) {
  if (offer.name[0] == '\0') return nullptr;
  const std::size_t mapped = std::max<std::size_t>(bytes, 1);
  if (offer.bytes != mapped) {
    problem = "ranks of one node asked for different sizes";
    return nullptr;
  }
  const FileDescriptor file(::shm_open(offer.name.data(), O_RDWR, 0));
  if (file.get() < 0) {
    problem = "shm_open: " + std::generic_category().message(errno);
    return nullptr;
  }
  void* address = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (address == MAP_FAILED) {
    problem = "mmap: " + std::generic_category().message(errno);
    return nullptr;
  }
  return std::make_unique<MappedMemory>(address, bytes, mapped);
}

}  // namespace

std::unique_ptr<SharedMemory> share_on_node(MPI_Comm comm, std::size_t bytes) {
  const NodeRanks node(comm);
  std::string problem;
  Offer offer;
  std::unique_ptr<NamedObject> object;
  if (node.is_leader()) {
    object = std::make_unique<NamedObject>(std::max<std::size_t>(bytes, 1), problem);
    offer = object->offer();
  }
  check(MPI_Bcast(&offer, sizeof(offer), MPI_BYTE, 0, node.get()), "MPI_Bcast");
  auto memory = map(offer, bytes, problem);

  int all_mapped = memory ? 1 : 0;
  check(MPI_Allreduce(MPI_IN_PLACE, &all_mapped, 1, MPI_INT, MPI_MIN, comm), "MPI_Allreduce");
  if (all_mapped == 0)
    throw Error("cannot share " + std::to_string(bytes) + " bytes of memory between the ranks of a node (" +
                (problem.empty() ? "another rank failed" : problem) +
                "): the ranks must see one /dev/shm with that much room");
  return memory;
}

}  // namespace forebay
