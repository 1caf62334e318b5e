// Offers the library's MPI communicator as callbacks, as a program would bring them. A program in C
// or another language that has started MPI passes the Fortran handle of its communicator, which is
// an int in every MPI, and gets a forebay_communicator.
//
// Each callback converts its arguments, calls the C++ communicator (mpi/), and turns exceptions
// into messages. `heard` and `shared` keep what a callback has handed out, until the next call or
// until it is released.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <forebay/forebay_mpi.h>
#include <forebay/mpi.hpp>

#include "c/errors.hpp"
#include "c/structs.hpp"

namespace forebay::c {
namespace {

// The context of the callbacks.
struct MpiRanks {
  std::unique_ptr<Communicator> ranks;
  std::map<void*, std::unique_ptr<SharedMemory>> shared = {};
  std::optional<Notice> heard = {};
};

struct Interrupted {};

// Runs work(context) and turns any exception into a message. Interrupted is thrown by Looking's
// hook and has its own status.
template <typename Work>
forebay_status answer(void* context, char* message, Work&& work) noexcept {
  try {
    work(*static_cast<MpiRanks*>(context));
    return FOREBAY_OK;
  } catch (const Interrupted&) {
    return FOREBAY_ERROR_INTERRUPTED;
  } catch (const std::exception& error) {
    std::snprintf(message, FOREBAY_MESSAGE_SIZE, "%s", error.what());
  } catch (...) {
    std::snprintf(message, FOREBAY_MESSAGE_SIZE, "an error of unknown type");
  }
  return FOREBAY_ERROR;
}

// While it exists, a call that waits for other ranks runs the caller's look().
class Looking {
 public:
  Looking(Communicator& ranks, const forebay_waiting& waiting) : ranks_(ranks) {
    ranks_.while_waiting([&waiting] {
      if (waiting.look(waiting.context)) throw Interrupted();
    });
  }
  ~Looking() { ranks_.while_waiting({}); }
  Looking(const Looking&) = delete;
  Looking& operator=(const Looking&) = delete;

 private:
  Communicator& ranks_;
};

// All ranks pass the same length; a different one would overrun the caller's memory.
void broadcast(Communicator& ranks, std::span<std::byte> bytes, std::uint32_t root) {
  std::vector<std::byte> mine;
  if (ranks.rank() == root) mine.assign(bytes.begin(), bytes.end());
  const std::vector<std::byte> got = ranks.broadcast(std::move(mine), root);
  if (got.size() != bytes.size()) throw Error("ranks broadcast different numbers of bytes");
  std::ranges::copy(got, bytes.begin());
}

void gather(Communicator& ranks, std::string_view mine, void* all) {
  auto* into = static_cast<char*>(all);
  for (const std::string& theirs : ranks.all_gather(mine)) {
    if (theirs.size() != mine.size()) throw Error("ranks gather different numbers of bytes");
    into = std::ranges::copy(theirs, into).out;
  }
}

// destroy frees the context; each duplicate has its own context.
forebay_communicator callbacks_of(std::unique_ptr<Communicator> ranks) {
  forebay_communicator calls{};
  calls.rank = ranks->rank();
  calls.size = ranks->size();
  calls.context = new MpiRanks{.ranks = std::move(ranks)};
  calls.duplicate = [](void* context, void** duplicate, char* message) {
    return answer(context, message,
                  [&](const MpiRanks& self) { *duplicate = new MpiRanks{.ranks = self.ranks->duplicate()}; });
  };
  calls.destroy = [](void* context) { delete static_cast<MpiRanks*>(context); };
  calls.start_reduction = [](void* context, std::uint32_t channel, std::int64_t* values, std::size_t count,
                             std::size_t minima, char* message) {
    return answer(context, message, [&](const MpiRanks& self) {
      self.ranks->start_reduction(channel, std::span(values, count), minima);
    });
  };
  calls.test = [](void* context, std::uint32_t channel, bool* done, char* message) {
    return answer(context, message, [&](const MpiRanks& self) { *done = self.ranks->test(channel); });
  };
  calls.broadcast = [](void* context, void* bytes, std::size_t size, std::uint32_t root, char* message) {
    return answer(context, message, [&](const MpiRanks& self) {
      broadcast(*self.ranks, std::span(static_cast<std::byte*>(bytes), size), root);
    });
  };
  calls.all_gather = [](void* context, const void* mine, std::size_t size, void* all, const forebay_waiting* waiting,
                        char* message) {
    return answer(context, message, [&](const MpiRanks& self) {
      const Looking looking(*self.ranks, *waiting);
      gather(*self.ranks, std::string_view(static_cast<const char*>(mine), size), all);
    });
  };
  calls.share_on_node = [](void* context, std::size_t bytes, void** memory, char* message) {
    return answer(context, message, [&](MpiRanks& self) {
      auto shared = self.ranks->share_on_node(bytes);
      *memory = shared->bytes().data();
      self.shared[*memory] = std::move(shared);
    });
  };
  calls.release_shared = [](void* context, void* memory, std::size_t /*bytes*/) {
    static_cast<MpiRanks*>(context)->shared.erase(memory);
  };
  calls.tell = [](void* context, const void* text, std::size_t size, char* message) {
    return answer(context, message, [&](const MpiRanks& self) {
      self.ranks->tell(std::string_view(static_cast<const char*>(text), size));
    });
  };
  calls.listen = [](void* context, std::uint32_t* from, const void** text, std::size_t* size, char* message) {
    return answer(context, message, [&](MpiRanks& self) {
      self.heard = self.ranks->listen();
      *text = nullptr;
      if (!self.heard) return;
      *from = self.heard->rank;
      *text = self.heard->text.data();
      *size = self.heard->text.size();
    });
  };
  calls.close = [](void* context, double timeout_s, bool* closed, const forebay_waiting* waiting, char* message) {
    return answer(context, message, [&](const MpiRanks& self) {
      const Looking looking(*self.ranks, *waiting);
      *closed = self.ranks->close(timeout_s);
    });
  };
  return calls;
}

}  // namespace
}  // namespace forebay::c

// MPI_Comm_f2c() of an invalid number is undefined; a null handle, at least, is detected.
forebay_status forebay_mpi_communicator(int32_t handle, forebay_communicator* communicator, forebay_error** error) {
  return forebay::c::guarded(error, [&] {
    forebay::c::require_size<forebay_communicator>(forebay::c::given(communicator, "communicator")->struct_size,
                                                   "forebay_communicator");
    int is_initialised = 0;
    int is_finalised = 0;
    MPI_Initialized(&is_initialised);
    MPI_Finalized(&is_finalised);
    if (is_initialised == 0 || is_finalised != 0) {
      throw forebay::Error("MPI is not running: call MPI_Init_thread() before, and MPI_Finalize() after Forebay's use");
    }
    MPI_Comm ranks = MPI_Comm_f2c(handle);
    if (ranks == MPI_Comm{}) {
      throw forebay::Error(std::to_string(handle) + " is no communicator's Fortran handle: give MPI_Comm_c2f(comm)");
    }
    forebay::c::write_struct(communicator, forebay::c::callbacks_of(forebay::make_communicator(ranks)),
                             "forebay_communicator");
  });
}
