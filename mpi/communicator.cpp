// Forebay's communicator over MPI. Three duplicates of the program's communicator separate kinds of
// traffic: reductions, the farewell at the end, and everything else. So no message is matched with
// one of another kind or of the trainer. All calls come from the thread of next(). Whatever may
// have to wait for another rank during a run is non-blocking: it is tested with short pauses, and
// the hook is called in between. Only the broadcasts at the start block.
//
// In close() the ranks exchange how many reductions and notices each has started, so that
// everything in flight is received before the communicators are freed. If the numbers cannot match,
// because a rank left early, buffers and communicators are leaked on purpose (abandon): MPI may
// still write to them.

#include "communicator.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include <forebay/error.hpp>

#include "base/clock.hpp"
#include "mpi_error.hpp"

namespace forebay::mpi {
namespace {

// Notices are the only point-to-point messages on the control communicator.
constexpr int kNoticeTag = 1;
constexpr std::size_t kChunk = std::size_t{1} << 30;  // MPI counts are int

// Makes MPI return error codes, which check() turns into exceptions; by default MPI would abort the
// job without a cause.
MPI_Comm duplicate_with_returning_errors(MPI_Comm parent) {
  MPI_Comm copy = MPI_COMM_NULL;
  check(MPI_Comm_dup(parent, &copy), "MPI_Comm_dup");
  check(MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  return copy;
}

// The reduction operator. A whole channel is one element of a derived type, so that MPI never
// splits it. Its first number tells how many of its last values are minima; the others are sums.
void reduce_channel(void* in, void* inout, int* channels, MPI_Datatype* type) {
  int bytes = 0;
  MPI_Type_size(*type, &bytes);
  const std::size_t size = static_cast<std::size_t>(bytes) / sizeof(std::int64_t);
  const auto* from = static_cast<const std::int64_t*>(in);
  auto* into = static_cast<std::int64_t*>(inout);
  for (int channel = 0; channel < *channels; ++channel, from += size, into += size) {
    const std::size_t first_minimum = size - static_cast<std::size_t>(from[0]);
    for (std::size_t i = 1; i < size; ++i) into[i] = i < first_minimum ? into[i] + from[i] : std::min(into[i], from[i]);
  }
}

void require_mpi() {
  if (mpi_is_usable()) return;
  throw Error(
      "MPI was finalised while the feeder was in use: close it first, or let its scope end before MpiSession's");
}

}  // namespace

void FailureNote::set(std::string_view cause) {
  const std::lock_guard lock(mutex_);
  if (cause_.empty()) cause_ = cause;
}

std::string FailureNote::get() const {
  const std::lock_guard lock(mutex_);
  return cause_;
}

void FailureNote::set_abort_cause(std::string_view cause) {
  const std::lock_guard lock(mutex_);
  if (abort_cause_.empty()) abort_cause_ = cause;
}

std::string FailureNote::abort_cause() const {
  const std::lock_guard lock(mutex_);
  return abort_cause_;
}

// Collective, like each MPI_Comm_dup.
std::unique_ptr<MpiCommunicator::Traffic> MpiCommunicator::open(MPI_Comm parent) {
  auto traffic = std::make_unique<Traffic>();
  traffic->control = duplicate_with_returning_errors(parent);
  traffic->sums = duplicate_with_returning_errors(traffic->control);
  traffic->partings = duplicate_with_returning_errors(traffic->control);
  check(MPI_Op_create(reduce_channel, 1, &traffic->reduce), "MPI_Op_create");
  return traffic;
}

MpiCommunicator::MpiCommunicator(MPI_Comm parent, std::shared_ptr<FailureNote> note)
    : traffic_(open(parent)), note_(std::move(note)) {
  int rank = 0;
  int size = 1;
  check(MPI_Comm_rank(traffic_->control, &rank), "MPI_Comm_rank");
  check(MPI_Comm_size(traffic_->control, &size), "MPI_Comm_size");
  rank_ = static_cast<std::uint32_t>(rank);
  size_ = static_cast<std::uint32_t>(size);
  traffic_->farewells.resize(size_);
}

MpiCommunicator::~MpiCommunicator() {
  if (!traffic_ || !mpi_is_usable()) return;
  // Waiting for open operations could hang, because the other ranks may never join them. Then the
  // buffers must outlive this object, because MPI still uses them.
  if (is_idle())
    free_communicators();
  else
    abandon();
}

bool MpiCommunicator::is_idle() const noexcept {
  const auto is_free = [](const Channel& channel) { return channel.request == MPI_REQUEST_NULL; };
  return traffic_->notices.empty() && !traffic_->gather && !traffic_->is_parting &&
         std::ranges::all_of(traffic_->channels, is_free);
}

std::unique_ptr<Communicator> MpiCommunicator::duplicate() const {
  require_mpi();
  return std::make_unique<MpiCommunicator>(traffic_->control, note_);
}

void MpiCommunicator::start_reduction(std::size_t channel, std::span<std::int64_t> values, std::size_t minima) {
  if (!mpi_is_usable()) return;  // no rank can take part any more; test() will throw
  Channel& place = traffic_->channels.at(channel);
  if (place.request != MPI_REQUEST_NULL) throw Error("channel " + std::to_string(channel) + " has an operation open");
  resize_channel(place, values.size());
  place.values[0] = static_cast<std::int64_t>(minima);
  std::ranges::copy(values, place.values.begin() + 1);
  place.result = values;
  // NOLINTNEXTLINE(clang-analyzer-optin.mpi.MPI-Checker): waited for by test() and close()
  check(MPI_Iallreduce(MPI_IN_PLACE, place.values.data(), 1, place.type, traffic_->reduce, traffic_->sums,
                       &place.request),
        "MPI_Iallreduce");
  ++traffic_->farewell.sums;
}

// Allocates only at a channel's first use and when its size changes.
void MpiCommunicator::resize_channel(Channel& channel, std::size_t values) {
  if (channel.type != MPI_DATATYPE_NULL && channel.values.size() == values + 1) return;
  if (channel.type != MPI_DATATYPE_NULL) check(MPI_Type_free(&channel.type), "MPI_Type_free");
  channel.values.resize(values + 1);
  check(MPI_Type_contiguous(static_cast<int>(values + 1), MPI_INT64_T, &channel.type), "MPI_Type_contiguous");
  check(MPI_Type_commit(&channel.type), "MPI_Type_commit");
}

bool MpiCommunicator::test(std::size_t channel) {
  require_mpi();
  Channel& place = traffic_->channels.at(channel);
  if (place.request == MPI_REQUEST_NULL) return true;
  int done = 0;
  check(MPI_Test(&place.request, &done, MPI_STATUS_IGNORE), "MPI_Test");
  if (done == 0) return false;
  std::copy(place.values.begin() + 1, place.values.end(), place.result.begin());
  return true;
}

// In chunks, because counts are int before MPI 4.
std::vector<std::byte> MpiCommunicator::broadcast(std::vector<std::byte> bytes, std::uint32_t root) {
  require_mpi();
  const int from = static_cast<int>(root);
  std::uint64_t length = bytes.size();
  check(MPI_Bcast(&length, 1, MPI_UINT64_T, from, traffic_->control), "MPI_Bcast");
  bytes.resize(length);
  for (std::size_t done = 0; done < bytes.size();) {
    const std::size_t count = std::min(kChunk, bytes.size() - done);
    check(MPI_Bcast(bytes.data() + done, static_cast<int>(count), MPI_BYTE, from, traffic_->control), "MPI_Bcast");
    done += count;
  }
  return bytes;
}

// Exchanges lengths first, then the texts. The buffers are members of traffic_, because the hook
// may throw while MPI still uses them; after that the communicator refuses every further exchange.
std::vector<std::string> MpiCommunicator::all_gather(std::string_view text) {
  require_mpi();
  if (traffic_->gather)
    throw Error("the ranks cannot communicate any more: an earlier exchange between them did not end");
  Gather& gather = traffic_->gather.emplace(Gather{});
  gather.mine = text;
  gather.length = text.size();
  gather.lengths.resize(size_);
  // NOLINTNEXTLINE(clang-analyzer-optin.mpi.MPI-Checker): waited for by wait_for_gather()
  check(MPI_Iallgather(&gather.length, 1, MPI_UINT64_T, gather.lengths.data(), 1, MPI_UINT64_T, traffic_->control,
                       &gather.request),
        "MPI_Iallgather");
  wait_for_gather();

  gather.counts.resize(size_);
  gather.offsets.resize(size_);
  std::uint64_t total = 0;
  for (std::size_t r = 0; r < size_; ++r) {
    if (gather.lengths[r] > static_cast<std::uint64_t>(std::numeric_limits<int>::max()) - total)
      throw Error("the texts of all ranks add up to more than 2 GiB, which MPI_Allgatherv cannot take");
    gather.counts[r] = static_cast<int>(gather.lengths[r]);
    gather.offsets[r] = static_cast<int>(total);
    total += gather.lengths[r];
  }
  gather.all.resize(total);
  // NOLINTNEXTLINE(clang-analyzer-optin.mpi.MPI-Checker): waited for by wait_for_gather()
  check(MPI_Iallgatherv(gather.mine.data(), static_cast<int>(gather.length), MPI_CHAR, gather.all.data(),
                        gather.counts.data(), gather.offsets.data(), MPI_CHAR, traffic_->control, &gather.request),
        "MPI_Iallgatherv");
  wait_for_gather();

  std::vector<std::string> texts;
  texts.reserve(size_);
  for (std::size_t r = 0; r < size_; ++r) {
    texts.push_back(gather.all.substr(static_cast<std::size_t>(gather.offsets[r]), gather.lengths[r]));
  }
  traffic_->gather.reset();
  ++gathers_;
  return texts;
}

void MpiCommunicator::wait_for_gather() {
  for (int looks = 0;; ++looks) {
    int done = 0;
    check(MPI_Test(&traffic_->gather->request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done != 0) return;
    if (hook_) hook_();
    pause_before_look(looks);
  }
}

std::unique_ptr<SharedMemory> MpiCommunicator::share_on_node(std::size_t bytes) {
  require_mpi();
  return forebay::mpi::share_on_node(traffic_->control, bytes);
}

// Sent to every other rank individually: notices are rare and small, and a broadcast would need all
// ranks to take part.
void MpiCommunicator::tell(std::string_view text) {
  if (size_ == 1 || !mpi_is_usable()) return;
  forget_sent_notices();
  ++traffic_->farewell.notices;
  Outgoing& notice = traffic_->notices.emplace_back(Outgoing{.text = std::string(text), .requests = {}});
  notice.requests.reserve(size_ - 1);
  for (std::uint32_t r = 0; r < size_; ++r) {
    if (r == rank_) continue;
    // NOLINTNEXTLINE(clang-analyzer-optin.mpi.MPI-Checker): waited for by close()
    check(MPI_Isend(notice.text.data(), static_cast<int>(notice.text.size()), MPI_CHAR, static_cast<int>(r), kNoticeTag,
                    traffic_->control, &notice.requests.emplace_back(MPI_REQUEST_NULL)),
          "MPI_Isend");
  }
}

void MpiCommunicator::forget_sent_notices() {
  std::erase_if(traffic_->notices, [](Outgoing& notice) {
    int done = 0;
    check(MPI_Testall(static_cast<int>(notice.requests.size()), notice.requests.data(), &done, MPI_STATUSES_IGNORE),
          "MPI_Testall");
    return done != 0;
  });
}

std::optional<Notice> MpiCommunicator::listen() {
  return size_ > 1 && mpi_is_usable() ? receive_notice() : std::nullopt;
}

std::optional<Notice> MpiCommunicator::receive_notice() {
  int arrived = 0;
  MPI_Status status;
  check(MPI_Iprobe(MPI_ANY_SOURCE, kNoticeTag, traffic_->control, &arrived, &status), "MPI_Iprobe");
  if (arrived == 0) return std::nullopt;
  int length = 0;
  check(MPI_Get_count(&status, MPI_CHAR, &length), "MPI_Get_count");
  Notice notice{.rank = static_cast<std::uint32_t>(status.MPI_SOURCE),
                .text = std::string(static_cast<std::size_t>(length), '\0')};
  check(MPI_Recv(notice.text.data(), length, MPI_CHAR, status.MPI_SOURCE, kNoticeTag, traffic_->control,
                 MPI_STATUS_IGNORE),
        "MPI_Recv");
  ++notices_received_;
  return notice;
}

void MpiCommunicator::note_failure(std::string_view cause) { note_->set(cause); }

void MpiCommunicator::abort(std::string_view cause) {
  if (note_->has_session()) abort_job(std::string(cause));
}

void MpiCommunicator::abort_at_end(std::string_view cause) { note_->set_abort_cause(cause); }

bool MpiCommunicator::close(double timeout_s) {
  if (!traffic_) return true;
  if (!mpi_is_usable()) return false;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(timeout_s);
  if (!traffic_->is_parting) {
    traffic_->is_parting = true;
    check(MPI_Iallgather(&traffic_->farewell, 2, MPI_INT64_T, traffic_->farewells.data(), 2, MPI_INT64_T,
                         traffic_->partings, &traffic_->farewell_request),
          "MPI_Iallgather");
  }
  for (int looks = 0;; ++looks) {
    const Ending ending = progress_closing();
    if (ending == Ending::complete) free_communicators();
    if (ending == Ending::impossible) abandon();
    if (ending != Ending::waiting) return true;
    if (std::chrono::steady_clock::now() >= deadline) return false;
    if (hook_) hook_();
    pause_before_look(looks);
  }
}

// Complete once all notices that the others counted have arrived, all sends are done, and all
// reductions, too.
MpiCommunicator::Ending MpiCommunicator::progress_closing() {
  int known = 0;
  check(MPI_Test(&traffic_->farewell_request, &known, MPI_STATUS_IGNORE), "MPI_Test");
  if (known == 0) return Ending::waiting;

  std::int64_t expected = -traffic_->farewell.notices;
  for (const Farewell& other : traffic_->farewells) {
    // A reduction that one rank has not started never completes on the others.
    if (other.sums != traffic_->farewell.sums) return Ending::impossible;
    expected += other.notices;
  }
  if (traffic_->gather) return Ending::impossible;
  while (receive_notice()) {
  }
  forget_sent_notices();
  const bool complete = notices_received_ == expected && traffic_->notices.empty() && channels_complete();
  return complete ? Ending::complete : Ending::waiting;
}

bool MpiCommunicator::channels_complete() {
  return std::ranges::all_of(traffic_->channels, [](Channel& channel) {
    int done = 0;
    check(MPI_Test(&channel.request, &done, MPI_STATUS_IGNORE), "MPI_Test");  // the result is no longer needed
    return done != 0;
  });
}

// MPI defines freeing as collective, but Open MPI and MPICH free locally.
void MpiCommunicator::free_communicators() noexcept {
  for (Channel& channel : traffic_->channels) {
    if (channel.type != MPI_DATATYPE_NULL) MPI_Type_free(&channel.type);
  }
  MPI_Op_free(&traffic_->reduce);
  MPI_Comm_free(&traffic_->sums);
  MPI_Comm_free(&traffic_->partings);
  MPI_Comm_free(&traffic_->control);
  traffic_.reset();
}

void MpiCommunicator::abandon() noexcept {
  static_cast<void>(traffic_.release());  // NOLINT(bugprone-unused-return-value): leaked on purpose, see Traffic
}

}  // namespace forebay::mpi

namespace forebay {

std::unique_ptr<Communicator> make_communicator(MPI_Comm comm) {
  mpi::require_thread_level();
  if (comm == MPI_COMM_NULL) throw Error("make_communicator: the communicator is MPI_COMM_NULL");
  int is_inter = 0;
  mpi::check(MPI_Comm_test_inter(comm, &is_inter), "MPI_Comm_test_inter");
  if (is_inter != 0)
    throw Error("make_communicator: an intercommunicator has two groups; pass MPI_Intercomm_merge's result");
  return std::make_unique<mpi::MpiCommunicator>(comm, std::make_shared<mpi::FailureNote>());
}

}  // namespace forebay
