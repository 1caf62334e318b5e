#include <forebay/feeder.hpp>

#include <utility>

#include "feeder_impl.hpp"

namespace forebay {

Feeder::Feeder(Options options, Parts parts)
    : impl_(std::make_unique<Impl>(std::move(options), solo_communicator(), std::move(parts))) {}

Feeder::Feeder(Options options, const Communicator& communicator, Parts parts)
    : impl_(std::make_unique<Impl>(std::move(options), communicator.duplicate(), std::move(parts))) {}

Feeder::Feeder(Feeder&&) noexcept = default;
Feeder& Feeder::operator=(Feeder&&) noexcept = default;
Feeder::~Feeder() = default;

std::optional<Lease> Feeder::next(StreamView /*stream*/) { return impl_->next(); }
StreamView Feeder::stream() const noexcept { return {}; }
void Feeder::request_stop() noexcept { impl_->request_stop(); }
std::uint64_t Feeder::epochs_completed() const noexcept { return impl_->epochs_completed(); }
std::uint64_t Feeder::batches_per_epoch() const noexcept { return impl_->order().batches(); }
const Dataset& Feeder::dataset() const noexcept { return *impl_->dataset(); }
std::shared_ptr<const Dataset> Feeder::shared_dataset() const noexcept { return impl_->dataset(); }
const Options& Feeder::options() const noexcept { return impl_->options(); }
std::string Feeder::describe() const { return impl_->describe(); }
Summary Feeder::summary() const { return impl_->summary(); }
void Feeder::close() { impl_->close(); }

}  // namespace forebay
