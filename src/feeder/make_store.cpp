// Takes the memory of all batches at the start of a run, after the dataset and the device are known
// and before any thread of production starts. The order: the format of a slot, how large the queue
// may become, whether the process has room for that, and then the store. A GPU that "auto" chose
// and that refuses is left for the host, with a warning; one that was asked for by name is an
// error.

#include "startup.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "job/start_checks.hpp"
#include "make/batch_mixer.hpp"
#include "make/renderers.hpp"
#include "ring/queue_slots.hpp"
#include "run.hpp"

namespace forebay::feeder {

namespace {

// `fields` is where format.fields points to, if there are any.
// The layout of fields follows the images in a slot, so it is known only once their bytes are.
ring::SlotFormat format_of(const Run& run, make::FieldLayout& fields) {
  const TransformOptions& transform = run.options.transform;
  ring::SlotFormat format{.batch_size = static_cast<std::uint32_t>(run.options.dataset.batch_size),
                          // Evaluation shows the central view, of which one is enough.
                          .views = run.options.run.eval ? 1 : static_cast<std::uint32_t>(transform.views),
                          .frames = static_cast<std::uint32_t>(run.options.dataset.clip.frames),
                          .height = transform.size[0],
                          .width = transform.size[1],
                          .dtype = transform.dtype,
                          .layout = transform.layout,
                          .channels = transform.channels};
  if (transform.when == When::dequeue) format.canvas = make::canvas_format(transform, format.batch_size);
  const std::span<const Field> given = run.safe_dataset->fields();
  const bool is_mixed = make::is_mixed(run.options);
  if (given.empty() && !is_mixed) return format;
  job::refuse_moved_fields(given, run.operations);
  std::vector<Field> weights;
  if (is_mixed) weights = {make::label_weights(*run.safe_dataset)};
  fields = make::field_layout(is_mixed ? std::span<const Field>(weights) : given, transform,
                              static_cast<std::uint32_t>(format.rows()), format.image_bytes());
  format.fields = &fields;
  return format;
}

// A device's memory, and the memory from which it copies, is allocated at the start, so a queue
// there has its full size from the beginning. At most half of this rank's part of the free memory
// is used: the other half is left to the trainer.
ring::Capacity capacity_on(const Run& run, std::size_t slot_bytes) {
  const auto most = static_cast<std::uint32_t>(run.queue.capacity);
  if (!ring::is_automatic(run.options.queue) || !run.device->is_host()) return most;
  const std::uint32_t first = ring::first_capacity(run.options, slot_bytes);
  const std::uint64_t free_bytes = job::room_of_rank(run.room) / 2;
  const std::uint64_t beside = first + static_cast<std::uint64_t>(ring::slots_beside(run.queue));
  const std::uint64_t more = free_bytes / slot_bytes > beside ? free_bytes / slot_bytes - beside : 0;
  return {first, static_cast<std::uint32_t>(std::min<std::uint64_t>(most, first + more))};
}

void make_store_on_device(Run& run) {
  const Options& options = run.options;
  const TransformOptions& transform = options.transform;
  const bool on_host = run.device->is_host();
  make::FieldLayout fields;
  const ring::SlotFormat format = format_of(run, fields);
  run.capacity = capacity_on(run, SlotStore::slot_bytes(format, on_host));
  const ring::SlotCounts counts{
      .slots = run.capacity.most + static_cast<std::uint32_t>(ring::slots_beside(options.queue)),
      .capacity = run.capacity,
      .max_leases = static_cast<std::uint32_t>(options.queue.max_leases),
      .run_ahead = static_cast<std::uint32_t>(options.queue.run_ahead),
      .probes_seed = options.seed};
  const ring::SlotMemory memory = SlotStore::memory_of(format, counts, on_host);
  // The memory required when the run starts. On the host a queue that may grow needs only its
  // initial size; on a device the host's part is the staging memory.
  const job::RingNeed need{
      .slots = on_host ? counts.slots - (counts.capacity.most - counts.capacity.first) : counts.capacity.most,
      .bytes = on_host ? memory.at_first + memory.outputs : memory.staging,
      .on_host = on_host,
      .are_clips = options.dataset.clip.frames > 0,
      .are_views = format.views > 1};
  if (const std::string warning = job::require_memory(need, run.room); !warning.empty()) run.console->warn(warning);
  run.fields = format.all_fields();
  run.store = std::make_shared<SlotStore>(run.device, format, counts);
  if (!format.canvas) return;
  const make::RenderPlan plan = make::make_render_plan(transform, options.seed, options.run.eval, format.batch_size,
                                                       run.operations, format.views);
  run.store->set_renderer(
      on_host ? std::make_unique<make::HostRenderer>(transform, plan) : run.device->make_renderer(plan, counts.slots),
      plan.view, options.seed);
}

}  // namespace

std::size_t slot_bytes(const Run& run) {
  make::FieldLayout fields;
  return SlotStore::slot_bytes(format_of(run, fields), true);  // the device is not chosen yet; its labels are little
}

void make_store(Run& run) {
  std::string refusal;
  try {
    return make_store_on_device(run);
  } catch (const device::DeviceError& error) {
    if (!run.may_leave_device) throw;
    refusal = error.what();
  }
  run.store.reset();
  device::DeviceChoice choice = device::host_instead(refusal);
  run.console->warn(choice.doubt);
  run.device = std::move(choice.device);
  run.stream = run.device->make_stream();
  make_store_on_device(run);
}

}  // namespace forebay::feeder
