#include "agreed_error.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include <forebay/error.hpp>

namespace forebay::ranks {

void AgreedError::raise() const {
  switch (kind) {
    case ErrorKind::config: throw ConfigError(text);
    case ErrorKind::sample: throw SampleError(text);
    case ErrorKind::watchdog: throw WatchdogError(text);
    case ErrorKind::error: break;
  }
  throw Error(text);
}

// From the most special to the most general: these types derive from each other.
AgreedError described(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const ConfigError& one) {
    return {ErrorKind::config, one.what()};
  } catch (const SampleError& one) {
    return {ErrorKind::sample, one.what()};
  } catch (const WatchdogError& one) {
    return {ErrorKind::watchdog, one.what()};
  } catch (const std::exception& one) {
    return {ErrorKind::error, one.what()};
  } catch (...) {
    return {ErrorKind::error, "an error of unknown type"};
  }
}

// One gather, whose texts have the kind as their first byte; an empty text means "nothing to
// report".
std::optional<AgreedError> agreed_error(Communicator& communicator, const std::optional<AgreedError>& mine) {
  std::string said;
  if (mine) said = static_cast<char>(mine->kind) + mine->text;
  const auto errors = communicator.all_gather(said);
  const auto first = std::ranges::find_if(errors, [](const std::string& error) { return !error.empty(); });
  if (first == errors.end()) return std::nullopt;
  AgreedError agreed{static_cast<ErrorKind>(first->front()), first->substr(1)};
  if (communicator.size() > 1) agreed.text.insert(0, "rank " + std::to_string(first - errors.begin()) + ": ");
  return agreed;
}

std::optional<std::string> agreed_failure(Communicator& communicator, std::string_view mine) {
  std::optional<AgreedError> error;
  if (!mine.empty()) error = AgreedError{.text = std::string(mine)};
  auto agreed = agreed_error(communicator, error);
  if (!agreed) return std::nullopt;
  return std::move(agreed->text);
}

}  // namespace forebay::ranks
