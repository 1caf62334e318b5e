// Trainers on two ranks that learn from targets which must follow their images' crops and mirrors.
// First a detector, which learns classes and boxes.
#include <forebay/feeder.hpp>

#include "mpi_world.hpp"
#include "test.hpp"
#include "trainer.hpp"

namespace forebay {
namespace {

using namespace testing;

namespace detection {

constexpr std::size_t kClasses = 4;  // none, circle, square, triangle
constexpr int kCell = 4;             // pixels
constexpr int kRows = 12;
constexpr int kColumns = 16;
constexpr int kReach = 6;  // distance in cells within which an object's sides are searched
constexpr std::size_t kProfile = 2 * kReach + 1;

// An object, in units of cells.
struct Found {
  std::array<double, 4> sides{};  // left, top, right, bottom
  std::size_t what = 0;
  double score = 0;
};

double area(const std::array<double, 4>& box) {
  return std::max(box[2] - box[0], 0.0) * std::max(box[3] - box[1], 0.0);
}

double iou(const std::array<double, 4>& a, const std::array<double, 4>& b) {
  const double both = area({std::max(a[0], b[0]), std::max(a[1], b[1]), std::min(a[2], b[2]), std::min(a[3], b[3])});
  return both / std::max(area(a) + area(b) - both, 1e-9);
}

std::vector<Found> truth_of(const Lease& batch, std::size_t boxes, std::size_t sample) {
  const TensorView sides = batch.field(boxes);
  const auto most = static_cast<std::size_t>(sides.shape[1]);
  const float* const side = sides.as<float>() + sample * most * 4;
  const auto* const what = batch.field(boxes + 1).as<std::int64_t>() + sample * most;
  std::vector<Found> truth(static_cast<std::size_t>(batch.counts(boxes).as<std::int32_t>()[sample]));
  for (std::size_t i = 0; i < truth.size(); ++i) {
    for (std::size_t s = 0; s < 4; ++s) truth[i].sides[s] = side[i * 4 + s] / kCell;
    truth[i].what = static_cast<std::size_t>(what[i]) + 1;
  }
  return truth;
}

// The target of a cell: the object in whose middle third it is; nothing (an object of no class)
// outside all boxes; elsewhere anything is accepted.
std::optional<Found> wanted_at(const std::vector<Found>& truth, double x, double y) {
  for (const Found& object : truth) {
    const auto& [left, top, right, bottom] = object.sides;
    if (x < left || x > right || y < top || y > bottom) continue;
    const bool is_middle =
        std::abs(2 * x - left - right) * 3 < right - left && std::abs(2 * y - top - bottom) * 3 < bottom - top;
    return is_middle ? std::optional(object) : std::nullopt;
  }
  return Found{};
}

class Detector {
 public:
  void learn(const Lease& batch, std::size_t boxes) {
    for (std::size_t sample = 0; sample < batch.size(); ++sample) learn(batch, sample, truth_of(batch, boxes, sample));
    what_.step(0.03);
    where_.step(0.01);
  }

  // Finds objects; of overlapping candidates, the one with the best score.
  [[nodiscard]] std::vector<Found> find(const Lease& batch, std::size_t sample) {
    look(batch, sample, [](int, int, std::span<const double>) {});
    std::vector<Found> proposals;
    for (int row = 0; row < kRows; ++row) {
      for (int column = 0; column < kColumns; ++column) {
        const auto here = shares(row, column);
        const auto what = static_cast<std::size_t>(std::ranges::max_element(here) - here.begin());
        if (what > 0) proposals.push_back(proposal(row, column, what));
      }
    }
    std::ranges::stable_sort(proposals, std::greater<>(), &Found::score);
    std::vector<Found> kept;
    for (const Found& each : proposals) {
      if (std::ranges::none_of(kept, [&](const Found& other) { return iou(each.sides, other.sides) > 0.1; })) {
        kept.push_back(each);
      }
    }
    return kept;
  }

  [[nodiscard]] bool is_equal_on_all_ranks() const {
    const bool is_equal = what_.is_equal_on_all_ranks();
    return where_.is_equal_on_all_ranks() && is_equal;
  }

 private:
  void learn(const Lease& batch, std::size_t sample, const std::vector<Found>& truth) {
    look(batch, sample, [&](int row, int column, std::span<const double> said) {
      const auto wanted = wanted_at(truth, column + 0.5, row + 0.5);
      if (!wanted) return;
      std::vector<double> off(said.begin(), said.end());
      off[wanted->what] -= 1;
      what_.backward(off);
    });
    for (int row = 0; row < kRows; ++row) {
      for (int column = 0; column < kColumns; ++column) {
        const auto wanted = wanted_at(truth, column + 0.5, row + 0.5);
        if (!wanted || wanted->what == 0) continue;
        const auto said = where_.forward(profile(row, column, wanted->what));
        std::array<double, 4> off{};
        for (std::size_t s = 0; s < 4; ++s) {
          off[s] = said[s] - (wanted->sides[s] - (s % 2 == 0 ? column : row) - 0.5) / kReach;
        }
        where_.backward(off);
      }
    }
  }

  // Fills shares_ with the class probabilities of each cell, from its mean colour. Calls visit(row,
  // column, shares) right after each.
  template <typename Visit>
  void look(const Lease& batch, std::size_t sample, Visit visit) {
    constexpr std::size_t kWidth = std::size_t{kColumns} * kCell;
    const float* const pixels = batch.images().as<float>() + sample * kRows * kCell * kWidth * 3;
    for (int row = 0; row < kRows; ++row) {
      for (int column = 0; column < kColumns; ++column) {
        std::array<double, 3> colour{};
        for (int i = 0; i < kCell * kCell; ++i) {
          const auto y = static_cast<std::size_t>(row * kCell + i / kCell);
          const auto x = static_cast<std::size_t>(column * kCell + i % kCell);
          for (std::size_t c = 0; c < 3; ++c) colour[c] += pixels[(y * kWidth + x) * 3 + c] / (kCell * kCell);
        }
        const std::vector<double> said = testing::softmax(what_.forward(colour));
        std::ranges::copy(said, shares(row, column).begin());
        visit(row, column, said);
      }
    }
  }

  [[nodiscard]] std::span<double, kClasses> shares(int row, int column) {
    return std::span<double, kClasses>(shares_.data() + static_cast<std::size_t>(row * kColumns + column) * kClasses,
                                       kClasses);
  }
  [[nodiscard]] double share(int row, int column, std::size_t what) {
    const bool is_inside = row >= 0 && row < kRows && column >= 0 && column < kColumns;
    return is_inside ? shares(row, column)[what] : 0;
  }

  // The amount of a class in each column and each row around a cell.
  [[nodiscard]] std::array<double, 2 * kProfile> profile(int row, int column, std::size_t what) {
    std::array<double, 2 * kProfile> sums{};
    for (int y = -kReach; y <= kReach; ++y) {
      for (int x = -kReach; x <= kReach; ++x) {
        const double found = share(row + y, column + x, what);
        sums[static_cast<std::size_t>(x + kReach)] += found;
        sums[kProfile + static_cast<std::size_t>(y + kReach)] += found;
      }
    }
    for (double& sum : sums) sum = std::min(sum / 2, 1.0);
    return sums;
  }

  [[nodiscard]] Found proposal(int row, int column, std::size_t what) {
    Found found{.what = what};
    const auto said = where_.forward(profile(row, column, what));
    for (std::size_t s = 0; s < 4; ++s) found.sides[s] = (s % 2 == 0 ? column : row) + 0.5 + said[s] * kReach;
    // Cells in the middle of an object determine its sides best.
    for (int i = 0; i < 25; ++i) found.score += share(row + i / 5 - 2, column + i % 5 - 2, what);
    return found;
  }

  Network what_{{.inputs = 3, .hidden = 12, .outputs = kClasses}, 1};
  Network where_{{.inputs = 2 * kProfile, .hidden = 16, .outputs = 4}, 2};
  std::array<double, std::size_t{kRows} * kColumns * kClasses> shares_{};
};

struct Judged {
  double objects = 0;
  double found = 0;
  double right = 0;      // found with the right class and an IoU of at least 0.5
  double by_chance = 0;  // objects that the previous sample's would match

  [[nodiscard]] double recall() const { return right / std::max(objects, 1.0); }
  [[nodiscard]] double precision() const { return right / std::max(found, 1.0); }
};

double hits(const std::vector<Found>& truth, const std::vector<Found>& found) {
  double sum = 0;
  for (const Found& object : truth) {
    const auto is_it = [&](const Found& each) {
      return each.what == object.what && iou(each.sides, object.sides) >= 0.5;
    };
    sum += std::ranges::any_of(found, is_it) ? 1 : 0;
  }
  return sum;
}

// Results over all ranks: [0] for mirrored views, [1] for all others.
std::array<Judged, 2> judge(Detector& detector, const Options& options) {
  std::array<Judged, 2> judged;
  Feeder feeder(options, world());
  const std::size_t boxes = feeder.field_number("boxes");
  std::vector<Found> previous;
  while (auto batch = feeder.next()) {
    const std::vector<SampleView> views = batch->views();
    for (std::size_t sample = 0; sample < batch->size(); ++sample) {
      Judged& sums = judged[views[sample].mirror ? 0 : 1];
      std::vector<Found> truth = truth_of(*batch, boxes, sample);
      const std::vector<Found> found = detector.find(*batch, sample);
      sums.objects += static_cast<double>(truth.size());
      sums.found += static_cast<double>(found.size());
      sums.right += hits(truth, found);
      sums.by_chance += hits(truth, previous);
      previous = std::move(truth);
    }
  }
  feeder.close();
  for (Judged& each : judged) {
    std::array<double, 4> sums{each.objects, each.found, each.right, each.by_chance};
    testing::sum_over_ranks(sums);
    each = {.objects = sums[0], .found = sums[1], .right = sums[2], .by_chance = sums[3]};
  }
  return judged;
}

std::string figures(const Judged& judged) {
  return "recall " + std::to_string(judged.recall()) + ", precision " + std::to_string(judged.precision()) + " of " +
         std::to_string(static_cast<int>(judged.objects)) + " objects (boxes of another image: recall " +
         std::to_string(judged.by_chance / judged.objects) + ")";
}

void check_learned(const Judged& judged) {
  CAPTURE(figures(judged));
  CHECK(judged.objects > 30);
  CHECK(judged.recall() > 0.75);
  CHECK(judged.precision() > 0.65);
  CHECK(judged.by_chance < 0.2 * judged.objects);
}

TEST_CASE("a detector of two ranks learns, and is right in views of every kind") {
  const GeneratedData data(
      {"--task", "detection", "--images", "240", "--classes", "3", "--objects", "3", "--size", "96x72", "--seed", "7"});
  Options options = data.options();
  options.run.epochs = 6;
  options.transform.size = {std::int64_t{kRows} * kCell, std::int64_t{kColumns} * kCell};
  options.transform.scale = {0.5, 1.0};
  options.dataset.fields.front().min_visible = 0.5;
  Detector detector;
  Feeder feeder(options, world());
  const std::size_t boxes = feeder.field_number("boxes");
  while (auto batch = feeder.next()) detector.learn(*batch, boxes);
  feeder.close();
  CHECK(detector.is_equal_on_all_ranks());
  const Judged central = judge(detector, testing::held_out(options))[1];
  check_learned(central);
  const auto random = judge(detector, testing::held_out_in_random_views(options));
  for (const Judged& each : random) check_learned(each);
  MESSAGE("held out: ", figures(central), "; mirrored: ", figures(random[0]), "; not: ", figures(random[1]));
}

}  // namespace detection

// A trainer on two ranks learns the class of each pixel from masks that follow their images' crops and mirrors.

namespace segmentation {

constexpr std::size_t kClasses = 4;  // background, circle, square, triangle

// How often a pixel of one class was taken for another.
class Confusion {
 public:
  void add(std::size_t truth, std::size_t guess) { counts_[truth * kClasses + guess] += 1; }
  void sum_over_ranks() { testing::sum_over_ranks(counts_); }

  [[nodiscard]] double accuracy() const {
    double right = 0;
    for (std::size_t i = 0; i < kClasses; ++i) right += counts_[i * kClasses + i];
    return right / all();
  }
  // Of the background, the largest class: what a model is right in that has learned nothing.
  [[nodiscard]] double share_of_background() const { return of_truth(0) / all(); }
  // The mean over the classes of what is right of all that is the class or was taken for it.
  [[nodiscard]] double mean_iou() const {
    double sum = 0;
    for (std::size_t i = 0; i < kClasses; ++i) {
      double guessed = 0;
      for (std::size_t truth = 0; truth < kClasses; ++truth) guessed += counts_[truth * kClasses + i];
      const double right = counts_[i * kClasses + i];
      sum += right / std::max(of_truth(i) + guessed - right, 1.0);
    }
    return sum / kClasses;
  }

 private:
  [[nodiscard]] double of_truth(std::size_t truth) const {
    double sum = 0;
    for (std::size_t i = 0; i < kClasses; ++i) sum += counts_[truth * kClasses + i];
    return sum;
  }
  [[nodiscard]] double all() const {
    double sum = 0;
    for (const double count : counts_) sum += count;
    return sum;
  }

  std::array<double, kClasses * kClasses> counts_{};
};

// Calls visit(sample, colour, class) for each pixel of a batch.
template <typename Visit>
void for_pixels(const Lease& batch, std::size_t mask, Visit visit) {
  const TensorView classes = batch.field(mask);
  const auto pixels = static_cast<std::size_t>(classes.shape[1] * classes.shape[2]);
  const auto* colour = batch.images().as<float>();
  const auto* truth = classes.as<std::uint8_t>();
  for (std::size_t i = 0; i < batch.size() * pixels; ++i, colour += 3, ++truth) {
    visit(i / pixels, std::array<double, 3>{colour[0], colour[1], colour[2]}, std::size_t{*truth});
  }
}

Network train(const Options& options) {
  Network network({.inputs = 3, .hidden = 12, .outputs = kClasses}, 1);
  Feeder feeder(options, world());
  const std::size_t mask = feeder.field_number("mask");
  while (auto batch = feeder.next()) {
    for_pixels(*batch, mask, [&](std::size_t, const auto& colour, std::size_t truth) {
      std::vector<double> off = testing::softmax(network.forward(colour));
      off[truth] -= 1;
      network.backward(off);
    });
    network.step(0.03);
  }
  feeder.close();
  return network;
}

// Results over all ranks: [0] for mirrored views, [1] for all others.
std::array<Confusion, 2> judge(Network& network, const Options& options) {
  std::array<Confusion, 2> found;
  Feeder feeder(options, world());
  const std::size_t mask = feeder.field_number("mask");
  while (auto batch = feeder.next()) {
    const std::vector<SampleView> views = batch->views();
    for_pixels(*batch, mask, [&](std::size_t sample, const auto& colour, std::size_t truth) {
      const auto scores = network.forward(colour);
      const auto guess = static_cast<std::size_t>(std::ranges::max_element(scores) - scores.begin());
      found[views[sample].mirror ? 0 : 1].add(truth, guess);
    });
  }
  feeder.close();
  for (Confusion& each : found) each.sum_over_ranks();
  return found;
}

std::string figures(const Confusion& found) {
  return "pixel accuracy " + std::to_string(found.accuracy()) + " (background is " +
         std::to_string(found.share_of_background()) + "), mean IoU " + std::to_string(found.mean_iou());
}

void check_learned(const Confusion& found) {
  CAPTURE(figures(found));
  // All background would be right in about 0.74 of the pixels, with a mean IoU of 0.19.
  CHECK(found.accuracy() > 0.92);
  CHECK(found.accuracy() > found.share_of_background() + 0.1);
  CHECK(found.mean_iou() > 0.77);
}

Options training() {
  static const GeneratedData data({"--task", "segmentation", "--images", "200", "--classes", "3", "--objects", "3",
                                   "--size", "72x54", "--seed", "5"});
  Options options = data.options();
  options.transform.size = {27, 36};
  return options;
}

TEST_CASE("a segmenter of two ranks learns, and is right in views of every kind") {
  Options options = training();
  options.run.epochs = 5;
  Network network = train(options);
  CHECK(network.is_equal_on_all_ranks());
  const Confusion central = judge(network, testing::held_out(options))[1];
  check_learned(central);
  const auto random = judge(network, testing::held_out_in_random_views(options));
  for (const Confusion& each : random) check_learned(each);
  MESSAGE("held out: ", figures(central), "; mirrored: ", figures(random[0]), "; not: ", figures(random[1]));
}

TEST_CASE("a trainer ends with the same weights whatever the number of threads") {
  Options options = training();
  options.workers.io = options.workers.decode = 1;
  const Network alone = train(options);
  options.workers.io = options.workers.decode = 3;
  CHECK(train(options).weights() == alone.weights());
}

}  // namespace segmentation

// A trainer on two ranks learns which classes an image shows, from the labels of a table.

namespace multilabel {

constexpr std::size_t kLabels = 4;
constexpr std::size_t kSteps = 4;  // of each channel of a histogram

// How much of a sample has which colour: the square roots of the shares of kSteps^3 colours. Pixels are 0 to 1.
std::vector<double> histogram(const Lease& batch, std::size_t sample) {
  const TensorView images = batch.images();
  const auto pixels = static_cast<std::size_t>(images.shape[1] * images.shape[2]);
  const float* colour = images.as<float>() + sample * pixels * 3;
  std::vector<double> shares(kSteps * kSteps * kSteps);
  for (std::size_t i = 0; i < pixels; ++i) {
    std::size_t bin = 0;
    for (std::size_t c = 0; c < 3; ++c, ++colour) {
      const auto step = static_cast<std::size_t>(std::max(*colour, 0.0F) * static_cast<float>(kSteps));
      bin = bin * kSteps + std::min(step, kSteps - 1);
    }
    shares[bin] += 1 / static_cast<double>(pixels);
  }
  for (double& share : shares) share = std::sqrt(share);
  return shares;
}

Network train(const Options& options) {
  Network network({.inputs = kSteps * kSteps * kSteps, .hidden = 12, .outputs = kLabels}, 1);
  Feeder feeder(options, world());
  const std::size_t labels = feeder.field_number("labels");
  while (auto batch = feeder.next()) {
    const auto* truth = batch->field(labels).as<float>();
    for (std::size_t i = 0; i < batch->size(); ++i, truth += kLabels) {
      const auto scores = network.forward(histogram(*batch, i));
      std::array<double, kLabels> off{};
      for (std::size_t k = 0; k < kLabels; ++k) off[k] = 1 / (1 + std::exp(-scores[k])) - truth[k];
      network.backward(off);
    }
    network.step(0.03);
  }
  feeder.close();
  return network;
}

// Of one label.
struct Judged {
  double right = 0;  // found where it applies
  double found = 0;
  double applies = 0;
  double samples = 0;

  [[nodiscard]] double f1() const { return 2 * right / std::max(found + applies, 1.0); }
  // Of a model that finds it everywhere, which is the best without looking.
  [[nodiscard]] double trivial_f1() const { return 2 * applies / (samples + applies); }
};

std::array<Judged, kLabels> judge(Network& network, const Options& options) {
  std::array<Judged, kLabels> judged;
  Feeder feeder(options, world());
  const std::size_t labels = feeder.field_number("labels");
  while (auto batch = feeder.next()) {
    const auto* truth = batch->field(labels).as<float>();
    for (std::size_t i = 0; i < batch->size(); ++i, truth += kLabels) {
      const auto scores = network.forward(histogram(*batch, i));
      for (std::size_t k = 0; k < kLabels; ++k) {
        const bool is_found = scores[k] > 0;
        judged[k].found += is_found ? 1 : 0;
        judged[k].applies += truth[k];
        judged[k].right += is_found ? truth[k] : 0;
        judged[k].samples += 1;
      }
    }
  }
  feeder.close();
  for (Judged& label : judged) {
    std::array<double, 4> sums{label.right, label.found, label.applies, label.samples};
    testing::sum_over_ranks(sums);
    label = {.right = sums[0], .found = sums[1], .applies = sums[2], .samples = sums[3]};
  }
  return judged;
}

TEST_CASE("a tagger of two ranks learns each label") {
  const GeneratedData data({"--task", "multilabel", "--images", "320", "--classes", "4", "--objects", "3", "--size",
                            "72x54", "--seed", "6"});
  Options options = data.options();
  options.run.epochs = 8;
  options.transform.size = {27, 36};
  options.transform.scale = {0.8, 1.0};  // what is cut off must not be what the label is about
  options.transform.mean = {0, 0, 0};
  options.transform.std = {255, 255, 255};
  Network network = train(options);
  CHECK(network.is_equal_on_all_ranks());
  std::string figures;
  for (const Judged& label : judge(network, testing::held_out(options))) {
    figures += " " + std::to_string(label.f1()) + " (" + std::to_string(label.trivial_f1()) + ")";
    CHECK(label.samples > 40);
    CHECK(label.f1() > 0.85);
    CHECK(label.f1() > label.trivial_f1() + 0.15);
  }
  MESSAGE("F1 of each label, and of saying yes always:", figures);
}

}  // namespace multilabel

}  // namespace
}  // namespace forebay
