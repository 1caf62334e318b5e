// Whether options make sense, whoever made them: each value by its key's range, then combinations
// of keys, one function each. The first problem is reported with the key to blame, so that a reader
// can say where it was written. Nothing here looks at the machine or the dataset: a configuration
// may be checked elsewhere than it runs.

#include "values.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>

#include <forebay/config.hpp>
#include <forebay/error.hpp>

#include "base/output_file.hpp"
#include "data/fields.hpp"
#include "device/device_choice.hpp"
#include "make/canvas.hpp"
#include "make/conversion.hpp"
#include "measure/metrics.hpp"
#include "ring/queue_slots.hpp"

namespace forebay::config {
namespace {

// Kinds whose every value is possible say true.
bool is_within(const Kind& kind, const Options& options) {
  return std::visit(Overloaded{
                        [](const Flag&) { return true; },
                        [](const Seed&) { return true; },
                        [](const TextList&) { return true; },
                        [&](const RealList& list) {
                          return std::ranges::all_of(list.field.get(options),
                                                     [&](double value) { return list.range.contains(value); });
                        },
                        [&](const WholeList& list) {
                          return std::ranges::all_of(list.field.get(options),
                                                     [&](std::int64_t value) { return list.range.contains(value); });
                        },
                        [&](const Text& text) {
                          return text.choices.empty() ||
                                 std::ranges::find(text.choices, text.field.get(options)) != text.choices.end();
                        },
                        [&](const Choice& choice) { return choice.get(options) < choice.names.size(); },
                        [&](const Automatic& count) {
                          const std::int64_t value = count.field.get(options);
                          return value == count.automatic || count.range.contains(value);
                        },
                        [&](const Budget& budget) {
                          const BadBudget& value = budget.field.get(options);
                          if (const auto* count = std::get_if<std::int64_t>(&value)) return *count >= 0;
                          const auto* share = std::get_if<double>(&value);
                          return share == nullptr || Range<double>{0.0, 1.0}.contains(*share);
                        },
                        [&]<typename T, std::size_t N>(const Tuple<T, N>& tuple) {
                          return std::ranges::all_of(tuple.field.get(options),
                                                     [&](T value) { return tuple.range.contains(value); });
                        },
                        [&](const auto& number) { return number.range.contains(number.field.get(options)); },
                    },
                    kind);
}

std::optional<Problem> value_problem(const Options& options) {
  for (const Key& key : keys()) {
    if (is_within(key.kind, options)) continue;
    return Problem{full_name(key),
                   full_name(key) + ": expected " + expectation(key.kind) + ", found " + value_text(key, options)};
  }
  return std::nullopt;
}

// Kinds and types that were left out are filled in as field_of() does, and its refusal is taken
// over.
std::optional<Problem> field_problem(const FieldOptions& field, const TransformOptions& transform) {
  const std::string section = "fields." + field.name;
  Options alone;
  alone.dataset.fields = {field};
  for (const Key& key : field_keys()) {
    const auto* const choice = std::get_if<Choice>(&key.kind);
    const bool is_left_out = choice != nullptr && choice->get(alone) == SIZE_MAX;
    if (is_left_out || is_within(key.kind, alone)) continue;
    const std::string name = full_name(section, key.name);
    return Problem{name, name + ": expected " + expectation(key.kind) + ", found " + value_text(key, alone)};
  }
  if (data::is_image_or_label(field.name)) return std::nullopt;
  try {
    const Field made = data::field_of(field);
    if (!follows_view(made.kind) || transform.when == When::enqueue) return std::nullopt;
  } catch (const ConfigError& error) {
    const std::string message = error.what();
    return Problem{message.substr(0, message.find(": ")), message};
  }
  const std::string_view what = *field.kind == FieldKind::boxes  ? "boxes"
                                : *field.kind == FieldKind::mask ? "a mask"
                                                                 : "a second picture";
  return Problem{section + ".kind", section + ": transform.when = \"dequeue\" cuts a new view at every use, which " +
                                        std::string(what) +
                                        " in memory cannot follow; set transform.when = \"enqueue\""};
}

std::optional<Problem> fields_problem(const Options& options) {
  for (const FieldOptions& field : options.dataset.fields) {
    if (auto problem = field_problem(field, options.transform)) return problem;
  }
  return std::nullopt;
}

// Whether this machine has the device is checked when a run begins: a file may be checked elsewhere.
std::optional<Problem> device_problem(const std::string& device) {
  if (device::parse_device_name(device)) return std::nullopt;
  return Problem{"device", "device = \"" + device +
                               R"(": there is no such device; use "auto", "host", "cuda" or "cuda:N", )" +
                               "N = 0, 1, ..."};
}

// Sides of the place that a canvas has in a slot.
std::array<std::int64_t, 2> canvas_of(const TransformOptions& transform) noexcept {
  return {make::canvas_side(transform.canvas[0], transform.size[0]),
          make::canvas_side(transform.canvas[1], transform.size[1])};
}

std::optional<Problem> oversized_canvas(const TransformOptions& transform) {
  if (transform.when != When::dequeue) return std::nullopt;
  const auto canvas = canvas_of(transform);
  for (std::size_t i = 0; i < canvas.size(); ++i) {
    if (canvas[i] <= make::kMostShrink * transform.size[i]) continue;
    const std::string side = i == 0 ? "height" : "width";
    return Problem{"transform.canvas", "transform.canvas: a " + side + " of " + std::to_string(canvas[i]) +
                                           " is more than 8 times that of transform.size, " +
                                           std::to_string(transform.size[i]) + ": make it smaller, or 0"};
  }
  return std::nullopt;
}

std::optional<Problem> disordered(const std::string& key, const std::array<double, 2>& range) {
  if (range[0] <= range[1]) return std::nullopt;
  return Problem{key, key + " = [" + to_text(range[0]) + ", " + to_text(range[1]) +
                          "]: the smallest must come first, then the largest"};
}

std::optional<Problem> impossible_part(const DatasetOptions& dataset) {
  const auto parts = static_cast<std::int64_t>(dataset.split.size());
  if (dataset.part > 0 && dataset.part >= parts) {
    return Problem{"dataset.part", "dataset.part = " + std::to_string(dataset.part) + ": dataset.split has " +
                                       std::to_string(parts) + " parts, counted from 0"};
  }
  const double sum = std::accumulate(dataset.split.begin(), dataset.split.end(), 0.0);
  constexpr double kRounding = 1e-9;
  if (sum <= 1 + kRounding) return std::nullopt;
  return Problem{"dataset.split", "dataset.split: the shares add up to " + to_text(sum) + ", which is more than 1"};
}

std::optional<Problem> unfit_order(const DatasetOptions& dataset, bool eval) {
  const bool is_local = dataset.order == SampleOrder::local;
  if (dataset.exchange > 0 && !(is_local && dataset.shuffle)) {
    return Problem{"dataset.exchange", "dataset.exchange = " + to_text(dataset.exchange) +
                                           R"(: only dataset.order = "local" with dataset.shuffle has parts that )"
                                           "exchange samples; set that, or leave exchange out"};
  }
  if (dataset.nodes > 0 && !is_local) {
    return Problem{"dataset.nodes", "dataset.nodes = " + std::to_string(dataset.nodes) +
                                        R"(: only dataset.order = "local" has parts; set that, or leave nodes out)"};
  }
  if (!is_local || dataset.weights.empty() || eval) return std::nullopt;
  return Problem{"dataset.weights",
                 "dataset.weights = \"" + dataset.weights +
                     R"(" does not go with dataset.order = "local": with weights an epoch takes )"
                     R"(other samples than the last, and no part keeps its own; set order = "global")"};
}

std::optional<Problem> crossed_marks(const PolicyOptions& policy) {
  if (policy.low <= policy.high) return std::nullopt;
  return Problem{"policy.low", "policy.low = " + to_text(policy.low) + " is above policy.high = " +
                                   to_text(policy.high) + ": reuse must start below where it stops"};
}

std::optional<Problem> missing_recording(const PolicyOptions& policy) {
  if (policy.name != "replay" || !policy.recording.empty()) return std::nullopt;
  return Problem{"policy.name",
                 R"(policy.name = "replay" needs policy.recording: the telemetry.dir of the run to repeat)"};
}

std::optional<Problem> misplaced_metrics(const TelemetryOptions& telemetry) {
  if (telemetry.prometheus.empty()) return std::nullopt;
  try {
    static_cast<void>(measure::metrics_place(telemetry.prometheus, 0, 1));
    return std::nullopt;
  } catch (const ConfigError& error) {
    return Problem{"telemetry.prometheus", error.what()};
  }
}

// With files of a few lines a new one would have to be made for nearly every step, which no disk does at any rate. The
// bound is a choice.
std::optional<Problem> too_little_telemetry(const TelemetryOptions& telemetry) {
  if (telemetry.max_bytes == 0 || telemetry.max_bytes >= 16 << 10) return std::nullopt;
  return Problem{"telemetry.max_bytes", "telemetry.max_bytes = " + std::to_string(telemetry.max_bytes) +
                                            " is too few: set \"16KiB\" or more, or 0 for no limit"};
}

// Ranks in lockstep decide by what they knew `lag` steps ago.
std::optional<Problem> out_of_step(const Options& options) {
  if (options.mpi.mode != MpiMode::lockstep) return std::nullopt;
  if (!ring::is_automatic(options.queue) && options.queue.capacity <= options.mpi.lag) {
    return Problem{"queue.capacity", "queue.capacity = " + std::to_string(options.queue.capacity) +
                                         " is too small for mpi.mode = \"lockstep\": it must be above mpi.lag = " +
                                         std::to_string(options.mpi.lag)};
  }
  if (options.policy.max_wait_ms <= 0) return std::nullopt;
  return Problem{"policy.max_wait_ms",
                 "policy.max_wait_ms = " + to_text(options.policy.max_wait_ms) +
                     " does not go with mpi.mode = \"lockstep\": ranks that decide alike cannot wait for their own "
                     "batches; set it to 0"};
}

std::optional<Problem> channels_problem(const Options& options) {
  const std::int64_t channels = options.transform.channels;
  const std::string key = "transform.channels";
  if (channels == 3) return std::nullopt;
  if (channels != 1) return Problem{key, key + ": expected 1 or 3, found " + std::to_string(channels)};
  if (options.transform.when == When::dequeue) {
    return Problem{key, key + " = 1 does not go with transform.when = \"dequeue\": canvases have three channels; set " +
                            "transform.when = \"enqueue\""};
  }
  if (options.workers.jpeg != JpegLibrary::nvjpeg) return std::nullopt;
  return Problem{
      key,
      key + R"( = 1 does not go with workers.jpeg = "nvjpeg"; set workers.jpeg = "own" or workers.jpeg = "turbo")"};
}

std::optional<Problem> crop_problem(const TransformOptions& transform) {
  std::string message = make::crop_problem(transform);
  if (message.empty()) return std::nullopt;
  return Problem{message.substr(0, message.find(':')), std::move(message)};
}

// What a run makes of each sample: evaluation shows the central view, of which one is enough.
std::int64_t views_of(const Options& options) noexcept { return options.run.eval ? 1 : options.transform.views; }

std::optional<Problem> views_problem(const Options& options) {
  const TransformOptions& transform = options.transform;
  const bool is_drawn = transform.crop == Crop::random_resized || transform.crop == Crop::random;
  const bool is_mirrored = transform.mirror > 0 && transform.mirror < 1;
  if (views_of(options) == 1 || is_drawn || is_mirrored || !transform.operations.empty()) return std::nullopt;
  return Problem{"transform.views", "transform.views = " + std::to_string(transform.views) +
                                        ": all views of a sample would be the same, since nothing about them is "
                                        "random; set transform.crop, mirror or operations, or transform.views = 1"};
}

// A batch has one set of label_weights: it is mixed once, and by the thread that completes it.
std::optional<Problem> mixing_problem(const TransformOptions& transform) {
  const double mixup = transform.mixup.probability;
  const double cutmix = transform.cutmix.probability;
  constexpr double kRounding = 1e-9;
  if (mixup + cutmix > 1 + kRounding) {
    return Problem{"cutmix.probability", "cutmix.probability = " + to_text(cutmix) +
                                             " and mixup.probability = " + to_text(mixup) +
                                             " are more than 1 together, and no batch is mixed twice: make them less"};
  }
  if (mixup + cutmix <= 0 || transform.when == When::enqueue) return std::nullopt;
  const std::string key = mixup > 0 ? "mixup.probability" : "cutmix.probability";
  return Problem{key,
                 key +
                     R"(: a batch is mixed when it is made, and transform.when = "dequeue" draws its views later; )"
                     R"(set transform.when = "enqueue", or )" +
                     key + " = 0"};
}

// A key that does not go with clips, and what to do.
Problem no_clips_with(std::string key, const std::string& value, const std::string& advice) {
  std::string message = key + " = " + value + " does not go with clip.frames: " + advice;
  return {std::move(key), std::move(message)};
}

std::optional<Problem> clip_problem(const Options& options) {
  const ClipOptions& clip = options.dataset.clip;
  const TransformOptions& transform = options.transform;
  if (clip.frames == 0) {
    if (clip == ClipOptions{}) return std::nullopt;
    const auto is_set = [&, plain = Options()](const Key& key) {
      return key.section == "clip" && value_text(key, options) != value_text(key, plain);
    };
    return Problem{full_name(*std::ranges::find_if(keys(), is_set)),
                   "clip.frames = 0: the other keys of [clip] are for clips of videos; set clip.frames, "
                   "or leave them out"};
  }
  if (clip.segment.empty() && clip.unit != ClipUnit::frames) {
    return Problem{"clip.unit", "clip.unit = \"seconds\" is that of the columns of clip.segment, which is empty"};
  }
  if (transform.when == When::dequeue) {
    return no_clips_with("transform.when", "\"dequeue\"", "all frames of a clip have one view; set \"enqueue\"");
  }
  if (transform.views > 1) {
    return no_clips_with("transform.views", std::to_string(transform.views), "a clip has one view; set 1");
  }
  if (transform.decode == Decode::scaled) {
    return no_clips_with("transform.decode", R"("scaled")", R"(that is for JPEG files; set "region" or "full")");
  }
  if (options.workers.jpeg == JpegLibrary::nvjpeg) {
    return no_clips_with("workers.jpeg", "\"nvjpeg\"", "videos are no JPEG files; set \"own\"");
  }
  if (options.dataset.samples == SampleUnit::images) {
    return no_clips_with("dataset.samples", "\"images\"", "videos have no objects; set \"objects\", the default");
  }
  for (const FieldOptions& field : options.dataset.fields) {
    if (!field.kind || data::is_image_or_label(field.name) || !follows_view(*field.kind)) continue;
    return no_clips_with("fields." + field.name + ".kind", "\"" + std::string(to_string(*field.kind)) + "\"",
                         "a video has no such field beside its frames; leave it out");
  }
  return std::nullopt;
}

std::optional<Problem> remote_output(const Options& options) {
  const std::array<std::pair<const char*, const std::string&>, 4> outputs{
      {{"telemetry.dir", options.telemetry.dir},
       {"telemetry.prometheus", options.telemetry.prometheus},
       {"cache.dir", options.cache.dir},
       {"dataset.index", options.dataset.index}}};
  for (const auto& [key, value] : outputs) {
    if (value.empty()) continue;
    if (const auto problem = problem_of_output(value); !problem.empty()) {
      return Problem{key, std::string(key) + ": " + std::string(problem)};
    }
  }
  return std::nullopt;
}

// Guards the sizes computed later against overflow; whether the memory exists shows when it is allocated.
// In double, which does not overflow; 2^45 bytes are 32 TiB, more than any machine has for a ring.
std::optional<Problem> oversized(const Options& options) {
  constexpr double kMostBytes = 0x1p45;
  const TransformOptions& transform = options.transform;
  const auto area = [](const std::array<std::int64_t, 2>& size) {
    return static_cast<double>(size[0]) * static_cast<double>(size[1]);
  };
  const auto samples = static_cast<double>(options.dataset.batch_size);
  const std::int64_t frames = std::max<std::int64_t>(options.dataset.clip.frames, 1);
  const double tensor = samples * static_cast<double>(views_of(options) * frames * transform.channels) *
                        area(transform.size) * static_cast<double>(size_of(transform.dtype));
  const bool canvases = transform.when == When::dequeue;
  const double slots = static_cast<double>(ring::slots_of(options.queue)) *
                       (canvases ? 3 * samples * area(canvas_of(transform)) : tensor);
  const double bytes = slots + (canvases ? static_cast<double>(options.queue.max_leases) * tensor : 0);
  if (bytes <= kMostBytes) return std::nullopt;
  return Problem{"queue.capacity", std::string("dataset.batch_size, transform.size, ") +
                                       (canvases ? "transform.canvas, " : "") +
                                       (frames > 1 ? "clip.frames" : "transform.views") +
                                       " and queue (capacity + pool + max_leases) together need " +
                                       to_text(bytes / 0x1p40) + " TiB of memory: reduce one of them"};
}

}  // namespace

std::optional<Problem> find_problem(const Options& options) {
  if (auto problem = value_problem(options)) return problem;
  if (auto problem = fields_problem(options)) return problem;
  if (auto problem = oversized_canvas(options.transform)) return problem;
  if (auto problem = channels_problem(options)) return problem;
  if (auto problem = crop_problem(options.transform)) return problem;
  if (auto problem = views_problem(options)) return problem;
  if (auto problem = mixing_problem(options.transform)) return problem;
  if (auto problem = clip_problem(options)) return problem;
  if (auto problem = device_problem(options.device)) return problem;
  if (auto problem = disordered("transform.scale", options.transform.scale)) return problem;
  if (auto problem = disordered("transform.ratio", options.transform.ratio)) return problem;
  if (auto problem = disordered("blur.sigma", options.transform.blur.sigma)) return problem;
  if (auto problem = disordered("erase.area", options.transform.erase.area)) return problem;
  if (auto problem = impossible_part(options.dataset)) return problem;
  if (auto problem = unfit_order(options.dataset, options.run.eval)) return problem;
  if (auto problem = crossed_marks(options.policy)) return problem;
  if (auto problem = missing_recording(options.policy)) return problem;
  if (auto problem = misplaced_metrics(options.telemetry)) return problem;
  if (auto problem = too_little_telemetry(options.telemetry)) return problem;
  if (auto problem = out_of_step(options)) return problem;
  if (auto problem = remote_output(options)) return problem;
  return oversized(options);
}

}  // namespace forebay::config

namespace forebay {

void validate(const Options& options) {
  if (const auto problem = config::find_problem(options)) throw ConfigError(problem->message);
}

}  // namespace forebay
