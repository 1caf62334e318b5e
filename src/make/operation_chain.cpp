// The operations of transform.operations as a run applies them, and the registry from which they
// are made. The chain is built once, on the thread that starts the run; decoder threads then call
// it for each view, and devices get its pixel operations as numbers.

#include "operation_chain.hpp"

#include <exception>
#include <utility>

#include <forebay/error.hpp>
#include <forebay/operation.hpp>

#include "base/text.hpp"
#include "builtin_operations.hpp"

namespace forebay::make {

// The order of the draws is part of what a seed means, so it must not change: colour first, then
// erase.
void PixelOperation::apply(const PixelView& view, Random& random) const {
  PixelChange change;
  change.recolours = rule_.has_colour;
  change.fill = rule_.erase.fill;
  if (rule_.has_colour) change.colours = colour_matrix(draw_factors(rule_.colour, random));
  if (rule_.has_erase) change.erased = draw_erased(rule_.erase, view.width, view.height, random);
  const RowChanger changer(change, kernels_->recolour, static_cast<std::size_t>(view.width));
  for (std::int32_t y = 0; y < view.height; ++y) {
    auto* const row = reinterpret_cast<std::uint8_t*>(view.row(y).data());
    if (changer.changes(y)) changer.change(y, row, row);
  }
}

// A call's place is that in the configuration, even where evaluation leaves operations out, so that
// the remaining ones draw the same numbers.
OperationChain::OperationChain(const OperationRegistry& registry, const TransformOptions& options, bool eval) {
  for (std::size_t i = 0; i < options.operations.size(); ++i) {
    Call call{.name = options.operations[i],
              .place = static_cast<std::uint32_t>(i),
              .operation = registry.make(options.operations[i], options)};
    if (!eval || call.operation->in_evaluation()) calls_.push_back(std::move(call));
  }
  take_pixel_operations();
}

// Built-in pixel operations at the end of the chain are applied to each row on its way to the slot,
// and on devices. Searches from the end: an erase, then a colour before it; anything else stops the
// search.
void OperationChain::take_pixel_operations() {
  while (!calls_.empty()) {
    const Call& last = calls_.back();
    const auto* const operation = dynamic_cast<const PixelOperation*>(last.operation.get());
    if (operation == nullptr || pixels_.has_colour || (operation->rule().has_erase && pixels_.has_erase)) return;
    if (operation->rule().has_erase) {
      pixels_.has_erase = true;
      pixels_.erase = operation->rule().erase;
      pixels_.erase_place = last.place;
    } else {
      pixels_.has_colour = true;
      pixels_.colour = operation->rule().colour;
      pixels_.colour_place = last.place;
    }
    calls_.pop_back();
  }
}

// Each operation draws from a generator of its own place, so appending one does not change the
// draws of the others.
void OperationChain::call(const PixelView& view, std::uint64_t key) const {
  for (const Call& call : calls_) {
    const auto failed = [&](const std::string& why) {
      return OperationError("the operation \"" + call.name + "\" of transform.operations failed: " + why);
    };
    Random random = operation_random(key, call.place);
    try {
      call.operation->apply(view, random);
    } catch (const std::exception& error) {
      throw failed(error.what());
    } catch (...) {
      throw failed("it threw something that is no std::exception");
    }
  }
}

}  // namespace forebay::make

namespace forebay {

OperationRegistry OperationRegistry::builtin() {
  OperationRegistry registry;
#define FOREBAY_ADD_OPERATION(NAME, HELP) registry.add(#NAME, make::operations::NAME);
  FOREBAY_OPERATIONS(FOREBAY_ADD_OPERATION)
#undef FOREBAY_ADD_OPERATION
  return registry;
}

void OperationRegistry::add(std::string name, OperationFactory factory) {
  factories_.insert_or_assign(std::move(name), std::move(factory));
}

std::vector<std::string> OperationRegistry::names() const {
  std::vector<std::string> names;
  names.reserve(factories_.size());
  for (const auto& [name, factory] : factories_) names.push_back(name);
  return names;
}

// The error lists the known operations, because a program may have added its own.
std::unique_ptr<const Operation> OperationRegistry::make(std::string_view name, const TransformOptions& options) const {
  const auto found = factories_.find(name);
  if (found != factories_.end()) {
    auto operation = found->second(options);
    if (operation) return operation;
    throw ConfigError("transform.operations: the factory of \"" + std::string(name) + "\" returned no operation");
  }
  throw ConfigError("transform.operations: there is no operation \"" + std::string(name) +
                    "\"; known operations: " + joined(names(), ", "));
}

}  // namespace forebay
