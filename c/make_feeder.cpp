// Makes a feeder from the caller's structs, in two stages. Given reads and checks everything
// without taking ownership, so that after a refused call the contexts still belong to the caller.
// From make() on the library owns the contexts, and each is destroyed exactly once, whether a
// feeder is made or not.
//
// All ranks make a feeder together. Options given as text may differ between ranks, so the ranks
// exchange their errors before any of them leaves (parse_alike).

#include <algorithm>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <forebay/config.hpp>

#include "feeder.hpp"
#include "parts.hpp"
#include "structs.hpp"

namespace forebay::c {

DescribedField::DescribedField(Field described) : field(std::move(described)) {
  std::ranges::transform(field.classes, std::back_inserter(classes), &std::string::c_str);
}

namespace {

static_assert(static_cast<int>(LogLevel::info) == FOREBAY_LOG_INFO);
static_assert(static_cast<int>(LogLevel::warning) == FOREBAY_LOG_WARNING);
static_assert(static_cast<int>(LogLevel::error) == FOREBAY_LOG_ERROR);

// The caller's structs, read and checked; ownership is not taken yet.
struct Given {
  forebay_feeder_options options;
  std::optional<forebay_communicator> communicator;
  std::optional<forebay_dataset> dataset;
  std::vector<Field> fields;
  std::optional<forebay_policy> policy;
  std::vector<std::string> settings;

  explicit Given(const forebay_feeder_options* passed) : options(read_struct(passed, "forebay_feeder_options")) {
    if (options.file != nullptr && options.text != nullptr) refuse("forebay_feeder_options: give file or text");
    if (options.communicator != nullptr && options.is_solo) {
      refuse("forebay_feeder_options: is_solo is for a process without a communicator");
    }
    if (options.setting_count > 0) static_cast<void>(given(options.settings, "forebay_feeder_options::settings"));
    for (const char* const setting : std::span(options.settings, options.setting_count)) {
      settings.emplace_back(given(setting, "a string of forebay_feeder_options::settings"));
    }
    read(options.communicator, "forebay_communicator", communicator);
    read(options.dataset, "forebay_dataset", dataset);
    if (dataset) fields = fields_of(*dataset);
    read(options.policy, "forebay_policy", policy);
  }

 private:
  // read_struct() accepts structs of other versions of the header.
  template <typename Struct>
  static void read(const Struct* passed, const char* name, std::optional<Struct>& into) {
    if (passed != nullptr) check(into.emplace(read_struct(passed, name)));
  }
};

// Parses the options; all ranks throw the same error if any of them fails, because a rank that
// threw alone would leave the others waiting. Uses its own duplicate, because the feeder's
// communicator must not carry anything before the feeder exists.
Options parse_alike(const Given& given, const Communicator& ranks) {
  constexpr double kTimeout = 5;
  const std::unique_ptr<Communicator> own = ranks.duplicate();
  Options options;
  std::string problem;
  try {
    options = parse_options(given.options.text, "config", given.settings);
  } catch (const std::exception& error) {
    problem = error.what();
  }
  const std::vector<std::string> problems = own->all_gather(problem);
  own->close(kTimeout);
  const auto first = std::ranges::find_if(problems, [](const std::string& text) { return !text.empty(); });
  if (first == problems.end()) return options;
  throw ConfigError("rank " + std::to_string(first - problems.begin()) + ": " + *first);
}

// With neither file nor text: the defaults with the settings.
Options read_options(Given& given, const Communicator* ranks) {
  if (given.options.file != nullptr) {
    return ranks != nullptr ? load_options(given.options.file, *ranks, given.settings)
                            : load_options(given.options.file, given.settings);
  }
  if (given.options.text == nullptr) given.options.text = "";
  if (ranks != nullptr && ranks->size() > 1) return parse_alike(given, *ranks);
  return parse_options(given.options.text, "config", given.settings);
}

Logger logger_of(const forebay_feeder_options& given) {
  if (given.log == nullptr) return {};
  return [log = given.log, context = given.log_context](LogLevel level, std::string_view text) {
    log(context, static_cast<std::int32_t>(level), std::string(text).c_str());
  };
}

// Takes ownership of the contexts: whatever happens, each is destroyed exactly once. For the
// caller, the field "label" lists the dataset's classes.
std::unique_ptr<forebay_feeder> make(Given given) {
  Parts parts;
  std::shared_ptr<void> dataset_owner;
  std::shared_ptr<void> policy_owner;
  if (given.dataset) dataset_owner = owned(given.dataset->context, given.dataset->destroy);
  if (given.policy) policy_owner = owned(given.policy->context, given.policy->destroy);
  if (given.dataset) parts.dataset = made_of(*given.dataset, std::move(given.fields), std::move(dataset_owner));
  if (given.policy) add(parts.policies, *given.policy, std::move(policy_owner));
  if (given.options.resume != nullptr) parts.resume = given.options.resume;
  if (given.options.trace != nullptr) parts.trace = given.options.trace;
  if (given.options.trace_s > 0) parts.trace_s = given.options.trace_s;
  parts.log = logger_of(given.options);
  const auto waiting = std::make_shared<Waiting>(given.options.while_waiting, given.options.waiting_context);
  parts.while_waiting = [waiting] { waiting->look(); };

  std::unique_ptr<Communicator> ranks;
  if (given.communicator) ranks = made_of(*given.communicator);
  if (given.options.is_solo) ranks = solo_communicator();
  const bool is_alone = !ranks || ranks->size() == 1;
  try {
    Options options = read_options(given, ranks.get());
    Feeder feeder =
        ranks ? Feeder(std::move(options), *ranks, std::move(parts)) : Feeder(std::move(options), std::move(parts));
    const auto most = static_cast<std::size_t>(feeder.options().queue.max_leases);
    std::vector<DescribedField> fields;
    for (Field field : feeder.fields()) {
      if (field.name == "label") field.classes = feeder.dataset().classes();
      fields.emplace_back(std::move(field));
    }
    // NOLINTNEXTLINE(modernize-make-unique): an aggregate is not made by parentheses everywhere
    return std::unique_ptr<forebay_feeder>(new forebay_feeder{.waiting = waiting,
                                                              .is_alone = is_alone,
                                                              .feeder = std::move(feeder),
                                                              .batches = std::make_shared<Batches>(most),
                                                              .fields = std::move(fields)});
  } catch (const std::exception& error) {
    if (waiting->was_interrupted()) throw StatusError(FOREBAY_ERROR_INTERRUPTED, error.what());
    throw;
  }
}

}  // namespace
}  // namespace forebay::c

forebay_status forebay_feeder_new(const forebay_feeder_options* options, forebay_feeder** feeder,
                                  forebay_error** error) {
  return forebay::c::guarded(error, [&] {
    *forebay::c::given(feeder, "feeder") = nullptr;
    *feeder = forebay::c::make(forebay::c::Given(options)).release();
  });
}
