#pragma once

#include <exception>
#include <string>

#include <forebay/communicator.hpp>
#include <forebay/error.hpp>

#include "coordinator.hpp"

namespace forebay {

// Runs what only concerns this rank and then lets all ranks succeed or fail together: a rank that left alone would
// leave the others in their next collective call. Collective and blocking.
template <typename Work>
void collectively(Communicator& communicator, Work&& work) {
  if (communicator.size() == 1) return work();
  std::string text;
  bool is_config_error = false;
  try {
    work();
  } catch (const ConfigError& error) {
    text = error.what();
    is_config_error = true;
  } catch (const std::exception& error) {
    text = error.what();
  } catch (...) {
    text = "an error of unknown type";
  }
  const auto failure = agreed_failure(communicator, text);
  if (!failure) return;
  communicator.note_failure(*failure);
  if (is_config_error) throw ConfigError(*failure);
  throw Error(*failure);
}

}  // namespace forebay
