#pragma once

#include <memory>
#include <string_view>

#include <forebay/operation.hpp>
#include <forebay/options.hpp>

// The built-in operations, one per line: the name, also that of the factory in operation_NAME.cpp,
// and what it does.
#define FOREBAY_OPERATIONS(OPERATION)                                     \
  OPERATION(colour, "random brightness, contrast, saturation, hue, grey") \
  OPERATION(blur, "a Gaussian blur of random width")                      \
  OPERATION(solarise, "bright values are inverted")                       \
  OPERATION(erase, "a random rectangle gets the mean colour")

namespace forebay::make {

// Factories; each throws ConfigError for options it cannot honour. Any thread.
namespace operations {
#define FOREBAY_DECLARE_OPERATION(NAME, HELP) std::unique_ptr<const Operation> NAME(const TransformOptions& options);
FOREBAY_OPERATIONS(FOREBAY_DECLARE_OPERATION)
#undef FOREBAY_DECLARE_OPERATION
}  // namespace operations

// Texts for the configuration schema: the names as "colour | erase | ...", and their descriptions
// for docs/configuration.md.
#define FOREBAY_OPERATION_CHOICE(NAME, HELP) #NAME " | "
inline constexpr std::string_view kOperationChoicesText =
    "in this order: " FOREBAY_OPERATIONS(FOREBAY_OPERATION_CHOICE) "what the program adds";
#undef FOREBAY_OPERATION_CHOICE
#define FOREBAY_OPERATION_ON_PAGE(NAME, HELP) "`" #NAME "`: " HELP ". "
inline constexpr std::string_view kOperationsOnPage =
    "Changes to the pixels of a view before they are normalised, in this order. " FOREBAY_OPERATIONS(
        FOREBAY_OPERATION_ON_PAGE) "None is applied in evaluation. "
        "The program may add others; see [operations.md](operations.md).";
#undef FOREBAY_OPERATION_ON_PAGE

}  // namespace forebay::make
