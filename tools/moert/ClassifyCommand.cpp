// moert classify: the most probable classes of images, by a vision model.
#include "runtime/base/CheckedMath.h"
#include "runtime/base/Clock.h"
#include "runtime/base/DeterministicMath.h"
#include "runtime/base/InputText.h"
#include "runtime/base/Size.h"
#include "runtime/images/LabelledImages.h"
#include "runtime/images/PixelsFile.h"
#include "runtime/images/PrepareImage.h"
#include "tools/console/HelpFormatter.h"
#include "tools/console/Interrupt.h"
#include "tools/console/OutputStream.h"
#include "tools/console/ProgressLine.h"
#include "tools/moert/Command.h"
#include "tools/moert/EngineFlags.h"
#include "tools/moert/LoadedModel.h"
#include "tools/moert/LogitsFile.h"
#include "tools/moert/Numbers.h"
#include "tools/moert/RunContext.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <memory>
#include <numeric>

namespace moert::cli {

namespace {

/// Rows per product with the head, whose weights are read once for all of them.
constexpr uint32_t kLogitsRows = 16;
constexpr uint32_t kMostImages = 1 << 16;

struct ClassifyOptions {
  std::string artifact;
  std::vector<std::string> images;
  std::optional<std::string> pixels, logits;
  std::optional<uint32_t> batch;
  uint32_t top = 5;
  bool isJson = false;
  EngineFlags engine;
};

/// The images as the model takes them, [N][channels][side][side].
struct Input {
  std::vector<float> pixels;
  uint32_t count = 0;
};

/// All logits, and the routes of each MoE layer, [N][rows of the layer][topK].
class Results : public StepObserver {
public:
  Results(const Artifact &artifact, uint32_t images)
      : classes(artifact.model.vocabularySize), count(images), logits(uint64_t(images) * classes) {
    const Program &program = *findProgram(artifact.programs, programs::kClassify);
    for (const Instruction &instruction : program.instructions)
      if (const auto *route = std::get_if<RouteInstruction>(&instruction)) {
        const Buffer &buffer = program.buffers[static_cast<size_t>(route->experts)];
        const uint64_t size = uint64_t(images) * buffer.rows() * buffer.width;
        layers.push_back({buffer.rows(), buffer.width, std::vector<int32_t>(size, -1),
                          std::vector<float>(size)});
      }
  }
  uint64_t bytes() const {
    uint64_t bytes = logits.size() * sizeof(float);
    for (const Layer &layer : layers)
      bytes += layer.experts.size() * (sizeof(int32_t) + sizeof(float));
    return bytes;
  }
  std::span<const float> logitsOf(uint32_t image) const {
    return std::span(logits).subspan(uint64_t(image) * classes, classes);
  }
  /// The next images are those from this one on.
  void begin(uint32_t image) { first = image; }

  Status onLogits(Session &, uint32_t image, std::span<const float> values) override {
    std::copy(values.begin(), values.end(),
              logits.begin() + static_cast<ptrdiff_t>(uint64_t(first + image) * classes));
    return {};
  }
  void onRoute(Session &, uint32_t number, uint32_t row, std::span<const int32_t> experts,
               std::span<const float> weights) override {
    Layer &layer = layers[number];
    const auto at = static_cast<ptrdiff_t>((uint64_t(first) * layer.rows + row) * layer.topK);
    std::copy(experts.begin(), experts.end(), layer.experts.begin() + at);
    std::copy(weights.begin(), weights.end(), layer.weights.begin() + at);
  }
  Status write(const std::string &path) const;

private:
  struct Layer {
    uint64_t rows, topK;
    std::vector<int32_t> experts;
    std::vector<float> weights;
  };
  uint64_t classes, count;
  uint32_t first = 0;
  std::vector<float> logits;
  std::vector<Layer> layers;
};

Status Results::write(const std::string &path) const {
  std::vector<TensorEntry> entries = {{"logits", "F32", {count, classes}}};
  for (const bool isExperts : {false, true})
    for (size_t i = 0; i < layers.size(); ++i)
      entries.push_back({strCat(isExperts ? "experts." : "weights.", i),
                         isExperts ? "I32" : "F32",
                         {count, layers[i].rows, layers[i].topK}});
  MOERT_ASSIGN_OR_RETURN(OutputFile file, OutputFile::create(path));
  MOERT_RETURN_IF_ERROR(file.append(tensorsHeader(entries)));
  MOERT_RETURN_IF_ERROR(file.append(std::as_bytes(std::span(logits))));
  for (const Layer &layer : layers)
    MOERT_RETURN_IF_ERROR(file.append(std::as_bytes(std::span(layer.weights))));
  for (const Layer &layer : layers)
    MOERT_RETURN_IF_ERROR(file.append(std::as_bytes(std::span(layer.experts))));
  return file.commit();
}

/// What reading the images takes at most at a time.
Result<uint64_t> readingBytes(const ClassifyOptions &options, uint32_t side) {
  uint64_t most = 0;
  for (const std::string &path : options.images) {
    MOERT_ASSIGN_OR_RETURN(const std::string content, readInput(path, kMostImageBytes));
    MOERT_ASSIGN_OR_RETURN(const uint64_t bytes, readingBytesOf(content, inputName(path), side));
    most = std::max(most, bytes);
  }
  return most;
}

Result<Input> readInputImages(const ClassifyOptions &options, const PatchesInstruction &images) {
  Input input;
  if (options.pixels) {
    MOERT_ASSIGN_OR_RETURN(input.pixels, readPixels(*options.pixels, images));
    input.count = static_cast<uint32_t>(input.pixels.size() /
                                        (uint64_t(images.channels) * images.side * images.side));
    return input;
  }
  const uint64_t each = uint64_t(images.channels) * images.side * images.side;
  input.count = static_cast<uint32_t>(options.images.size());
  input.pixels.resize(each * input.count);
  for (uint32_t i = 0; i < input.count; ++i) {
    MOERT_ASSIGN_OR_RETURN(const std::string content,
                           readInput(options.images[i], kMostImageBytes));
    MOERT_ASSIGN_OR_RETURN(const Image image, decodeImage(content, inputName(options.images[i])));
    prepareImage(image, images.side, std::span(input.pixels).subspan(i * each, each));
  }
  return input;
}

/// Decoding comes before the model is loaded, and must not exceed the budget either.
Status checkReading(const Model &model, const EngineOptions &engine, uint64_t reading) {
  MOERT_ASSIGN_OR_RETURN(const MemoryAccount account, accountMemory(model, engine));
  const uint64_t needed = reading + account.heldBytes() + engine.extraBytes;
  if (needed > account.budgetBytes)
    return invalidInput("decoding the largest image takes ", formatBytes(needed),
                        ", expected at most the budget of ", formatBytes(account.budgetBytes),
                        "; make the image smaller");
  return {};
}

Result<uint64_t> computeAll(LoadedModel &loaded, const Input &input, Results &results) {
  const std::atomic<bool> &stop = catchInterrupts();
  MOERT_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, loaded.engine->createSession());
  ProgressLine progress("computing", [](uint64_t done, uint64_t total) {
    return strCat(done, " of ", total, " images");
  });
  const uint64_t begun = monotonicNs(), each = input.pixels.size() / input.count;
  for (uint32_t first = 0; first < input.count;) {
    if (stop.load(std::memory_order_relaxed))
      return Status(StatusCode::kInterrupted,
                    strCat("interrupted after ", first, " of ", input.count, " images"));
    progress.update(first, input.count);
    const uint32_t now = std::min(loaded.engine->prefillChunk(), input.count - first);
    results.begin(first);
    MOERT_RETURN_IF_ERROR(loaded.engine->classify(
        *session, std::span(input.pixels).subspan(first * each, now * each), now, results));
    first += now;
  }
  return monotonicNs() - begun;
}

struct ClassScore {
  uint32_t number;
  float logit;
  double probability;
};

std::vector<ClassScore> bestClasses(std::span<const float> logits, uint32_t top) {
  std::vector<uint32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto count = static_cast<ptrdiff_t>(std::min<size_t>(top, order.size()));
  std::partial_sort(order.begin(), order.begin() + count, order.end(), [&](uint32_t a, uint32_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  });
  const double largest = double(*std::max_element(logits.begin(), logits.end()));
  double sum = 0;
  for (const float logit : logits)
    sum += deterministicWeight(double(logit) - largest);
  std::vector<ClassScore> best;
  for (ptrdiff_t i = 0; i < count; ++i) {
    const float logit = logits[order[static_cast<size_t>(i)]];
    best.push_back(
        {order[static_cast<size_t>(i)], logit, deterministicWeight(double(logit) - largest) / sum});
  }
  return best;
}

std::string nameOf(const ClassifyOptions &options, uint32_t image) {
  return options.pixels ? strCat("image ", image) : options.images[image];
}

/// "class 7", or its name.
std::string classText(const std::vector<std::string> &names, uint32_t number) {
  return names.empty() ? strCat("class ", number) : names[number];
}

std::string reportText(const ClassifyOptions &options, const Results &results, uint32_t count,
                       const std::vector<std::string> &names) {
  std::string text;
  for (uint32_t image = 0; image < count; ++image) {
    text += strCat(nameOf(options, image), "\n");
    for (const ClassScore &score : bestClasses(results.logitsOf(image), options.top))
      text += strCat("  ", formatPercent(score.probability), "  ", classText(names, score.number),
                     "\n");
  }
  return text;
}

std::string reportJson(const ClassifyOptions &options, const Results &results, uint32_t count,
                       double perSecond, const LoadedModel &loaded) {
  std::string text;
  JsonWriter json(text);
  const std::vector<std::string> names = classNamesOf(loaded.model->artifact());
  json.beginObject();
  json.key("images").beginArray();
  for (uint32_t image = 0; image < count; ++image) {
    json.beginObject();
    json.key("image").string(nameOf(options, image));
    json.key("classes").beginArray();
    for (const ClassScore &score : bestClasses(results.logitsOf(image), options.top)) {
      json.beginObject();
      json.key("class").number(uint64_t(score.number));
      if (!names.empty())
        json.key("name").string(names[score.number]);
      json.key("probability").number(score.probability);
      json.key("logit").number(double(score.logit));
      json.endObject();
    }
    json.endArray();
    json.endObject();
  }
  json.endArray();
  json.key("images_per_second").number(perSecond);
  writeMachine(json, loaded);
  json.endObject();
  return text + "\n";
}

Status checkOptions(const ClassifyOptions &options) {
  if (options.images.empty() == !options.pixels)
    return invalidInput("found ", options.pixels ? "images and --pixels" : "no image",
                        ", expected image files, or --pixels FILE");
  if (options.engine.prefillChunk)
    return invalidInput("--prefill-chunk with images, expected --batch");
  if (options.images.size() > kMostImages)
    return invalidInput("found ", options.images.size(), " images, expected at most ", kMostImages);
  return {};
}

Result<const PatchesInstruction *> imagesOfModel(const ClassifyOptions &options,
                                                 const Model &model) {
  const PatchesInstruction *images = imagesOf(model.artifact());
  if (!images)
    return invalidInput(model.path(), ": found a model of text (", model.artifact().model.modelType,
                        "), expected a vision model, such as swin_moe; moert run ", model.path(),
                        " runs it");
  if (images->channels != 3 && !options.pixels)
    return invalidInput(model.path(), ": found images of ", images->channels,
                        " channels, expected 3 for image files; use --pixels");
  return images;
}

Status classify(const ClassifyOptions &options) {
  MOERT_RETURN_IF_ERROR(checkOptions(options));
  MOERT_ASSIGN_OR_RETURN(std::unique_ptr<Model> model, Model::open(options.artifact));
  MOERT_ASSIGN_OR_RETURN(const PatchesInstruction *images, imagesOfModel(options, *model));
  if (options.logits)
    MOERT_RETURN_IF_ERROR(checkWritable(*options.logits, {options.artifact}));
  MOERT_ASSIGN_OR_RETURN(const uint64_t reading, readingBytes(options, images->side));
  MOERT_ASSIGN_OR_RETURN(Input input, options.pixels ? readInputImages(options, *images)
                                                     : Result<Input>(Input{}));
  const uint32_t count =
      options.pixels ? input.count : static_cast<uint32_t>(options.images.size());
  Results results(model->artifact(), count);
  EngineOptions engine = engineOptionsOf(options.engine);
  engine.contextTokens =
      engine.prefillChunk.emplace(std::min(options.batch.value_or(count), count));
  engine.logitsRows = std::min(kLogitsRows, count);
  engine.extraBytes = results.bytes() + uint64_t(count) * images->channels * images->side *
                                            images->side * sizeof(float);
  if (!options.pixels) {
    MOERT_RETURN_IF_ERROR(checkReading(*model, engine, reading));
    MOERT_ASSIGN_OR_RETURN(input, readInputImages(options, *images));
  }
  MOERT_ASSIGN_OR_RETURN(LoadedModel loaded,
                         loadModel(std::move(model), engine, options.engine.notices,
                                   {.title = "memory", .levers = "--batch"}));
  MOERT_ASSIGN_OR_RETURN(const uint64_t ns, computeAll(loaded, input, results));
  if (options.logits)
    MOERT_RETURN_IF_ERROR(results.write(*options.logits));
  const double perSecond = double(count) * 1e9 / double(std::max<uint64_t>(ns, 1));
  if (options.isJson)
    return writeOutput(reportJson(options, results, count, perSecond, loaded));
  if (!options.engine.notices.isQuiet)
    printError(strCat(formatNumber(perSecond), " images/s"));
  return writeOutput(reportText(options, results, count, classNamesOf(loaded.model->artifact())));
}

} // namespace

void addClassifyCommand(CLI::App &app, Action &chosen) {
  auto options = std::make_shared<ClassifyOptions>(); // Shared by the parser and the chosen action.
  CLI::App *command =
      app.add_subcommand("classify", "Print the most probable classes of images (vision models)");
  command->add_option("artifact", options->artifact, "The compiled model")
      ->type_name("OUT.moe")
      ->required();
  command->add_option("images", options->images, "PNG, JPEG or PNM files")->type_name("IMAGE...");
  command
      ->add_option("--pixels", options->pixels,
                   "Instead of images, the tensor pixels f32 [N, channels, side, side] of a file, "
                   "normalized")
      ->type_name("FILE.safetensors")
      ->group("Input and output");
  command
      ->add_option("--logits", options->logits,
                   "Write logits f32 [N, classes] and, of the MoE layer i, experts.i i32 and "
                   "weights.i f32 [N, rows, k]; expert -1: dropped")
      ->type_name("OUT.safetensors")
      ->group("Input and output");
  addCount(
      *command, "--top", 1, kMostTokens, [options](uint32_t n) { options->top = n; },
      "Classes per image (default 5)")
      ->group("Input and output");
  addCount(
      *command, "--batch", 1, kMostImages, [options](uint32_t n) { options->batch = n; },
      "Images that are computed together (default: all). Where experts have a capacity, it is "
      "shared by these images, and so the classes of an image depend on the others")
      ->group("Input and output");
  command->add_flag("--json", options->isJson, "Print the result as JSON")
      ->group("Input and output");
  addEngineFlags(*command, options->engine);
  command->footer(exampleFooter("moert classify swin.moe cat.jpg dog.png --memory 25%"));
  command->callback([options, &chosen] { chosen = [options] { return classify(*options); }; });
}

} // namespace moert::cli
