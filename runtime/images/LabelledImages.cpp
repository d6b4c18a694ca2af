#include "runtime/images/LabelledImages.h"

#include "runtime/base/Checksum.h"
#include "runtime/base/InputText.h"
#include "runtime/images/PrepareImage.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

namespace moert {

constexpr size_t kMostImages = 1 << 24;

Result<uint64_t> readingBytesOf(std::string_view content, const std::string &name, uint32_t side) {
  MOERT_ASSIGN_OR_RETURN(const ImageSize size, readImageSize(content, name));
  const ImageSize to = sizeBeforeCut(size, side);
  const uint64_t resizing = ImageSize{to.width, size.height}.pixels() + to.pixels();
  return content.size() + size.pixels() * kDecodingBytes + resizing * 3;
}

/// The names in a folder, ascending.
static Result<std::vector<std::string>> namesIn(const std::string &folder) {
  std::error_code error;
  std::vector<std::string> names;
  std::filesystem::directory_iterator entry(folder, error), end;
  for (; !error && entry != end; entry.increment(error))
    if (std::string name = entry->path().filename().string(); !name.starts_with('.'))
      names.push_back(std::move(name));
  if (error)
    return invalidInput(inputName(folder), ": found no folder that can be read (", error.message(),
                        "), expected one with a folder of images for each class");
  std::sort(names.begin(), names.end());
  return names;
}

Result<uint32_t> LabelledImages::classOf(const std::string &folder, const std::string &name) const {
  const auto first = std::find(model.classNames.begin(), model.classNames.end(), name);
  if (first != model.classNames.end() &&
      std::find(first + 1, model.classNames.end(), name) == model.classNames.end())
    return static_cast<uint32_t>(first - model.classNames.begin());
  uint32_t number = 0;
  const char *end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data(), end, number);
  if (error == std::errc() && stop == end && number < model.classes)
    return number;
  const std::string names = model.classNames.empty() ? std::string()
                                                     : strCat("the name of one class, such as '",
                                                              model.classNames.front(), "', or ");
  return invalidInput(inputName(folder), ": found '", name, "', expected a folder with ", names,
                      "the number of a class, 0 to ", model.classes - 1);
}

Status LabelledImages::addImage(const std::string &path, uint32_t label) {
  MOERT_ASSIGN_OR_RETURN(const std::string content, readInput(path, kMostImageBytes));
  MOERT_ASSIGN_OR_RETURN(const uint64_t reading,
                         readingBytesOf(content, inputName(path), model.images.side));
  mostReadingBytes = std::max(mostReadingBytes, reading);
  list.push_back({path, label, checksum64(std::as_bytes(std::span(content))), content.size()});
  if (list.size() > kMostImages)
    return invalidInput(inputName(path), ": found more than ", kMostImages,
                        " images, expected fewer");
  return {};
}

Result<LabelledFolder> LabelledImages::add(const std::string &folder) {
  if (model.images.channels != 3)
    return invalidInput("found a model of images of ", model.images.channels,
                        " channels, expected 3 for image files");
  const size_t before = list.size();
  MOERT_ASSIGN_OR_RETURN(const std::vector<std::string> classes, namesIn(folder));
  for (const std::string &name : classes) {
    MOERT_ASSIGN_OR_RETURN(const uint32_t label, classOf(folder, name));
    const std::string inside = strCat(folder, folder.ends_with('/') ? "" : "/", name);
    MOERT_ASSIGN_OR_RETURN(const std::vector<std::string> files, namesIn(inside));
    for (const std::string &file : files)
      MOERT_RETURN_IF_ERROR(addImage(strCat(inside, "/", file), label));
  }
  if (list.size() == before)
    return invalidInput(inputName(folder), ": found no image, expected some in folders of classes");
  LabelledFolder added = {before, list.size() - before, 0, 0};
  ChecksumStream hash;
  for (const LabelledImage &image : std::span(list).subspan(before)) {
    hash.update(std::as_bytes(std::span(&image.hash, 1)));
    hash.update(std::as_bytes(std::span(&image.label, 1)));
    added.bytes += image.bytes;
  }
  added.hash = hash.digest();
  return added;
}

Status LabelledImages::read(uint64_t image, std::span<float> out) const {
  const std::string &path = list[image].path;
  MOERT_ASSIGN_OR_RETURN(const std::string content, readInput(path, kMostImageBytes));
  if (checksum64(std::as_bytes(std::span(content))) != list[image].hash)
    return invalidInput(inputName(path),
                        ": found other bytes than when the folder was read, expected an "
                        "unchanged file");
  MOERT_ASSIGN_OR_RETURN(const Image decoded, decodeImage(content, inputName(path)));
  prepareImage(decoded, model.images.side, out);
  return {};
}

uint64_t LabelledImages::heldBytes() const {
  uint64_t bytes = list.capacity() * sizeof(LabelledImage);
  for (const LabelledImage &image : list)
    bytes += image.path.capacity();
  return bytes;
}

} // namespace moert
