// Image files with their classes: folders that have a folder of images for each class, as
// torchvision's ImageFolder reads them.
//
//   DIR/CLASS/FILE   CLASS: the name of a class, or its number from 0; FILE: PNG, JPEG or PNM
//
// Names that begin with a dot are skipped. The order is that of the paths' bytes.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/images/ClassNames.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace moert {

/// The images and classes of a model.
struct ImageModel {
  PatchesInstruction images;
  uint32_t classes;
  std::vector<std::string> classNames; // Empty: classes have numbers alone.

  uint64_t pixels() const { return uint64_t(images.channels) * images.side * images.side; }
};

struct LabelledImage {
  std::string path;
  uint32_t label;
  uint64_t hash; // XXH3-64 of the file's bytes.
  uint64_t bytes;
};

/// The images of one folder.
struct LabelledFolder {
  uint64_t first, count; // In the list.
  uint64_t hash;         // XXH3-64 of the files' hashes and classes.
  uint64_t bytes;        // All files together.
};

/// Images of one or more folders. Reading is thread-safe.
class LabelledImages {
public:
  explicit LabelledImages(ImageModel ofModel) : model(std::move(ofModel)) {}

  /// Appends the images of a folder, of which it reads all bytes. Refuses, by path, a folder
  /// without images, folders that name no class, and files that are not images.
  Result<LabelledFolder> add(const std::string &folder);

  const std::vector<LabelledImage> &all() const { return list; }
  uint64_t pixels() const { return model.pixels(); }
  /// The pixels of an image as the model takes them: pixels() floats.
  Status read(uint64_t image, std::span<float> out) const;

  /// Bytes that it holds, and that one call of read() takes at most.
  uint64_t heldBytes() const;
  uint64_t readingBytes() const { return mostReadingBytes; }

private:
  Result<uint32_t> classOf(const std::string &folder, const std::string &name) const;
  Status addImage(const std::string &path, uint32_t label);

  ImageModel model;
  std::vector<LabelledImage> list;
  uint64_t mostReadingBytes = 0;
};

/// The images and classes of an artifact; `images`: imagesOf() it.
inline ImageModel imageModelOf(const Artifact &artifact, const PatchesInstruction &images) {
  return {images, artifact.model.vocabularySize, classNamesOf(artifact)};
}

/// What reading the image of a file's content takes at most; `name` is for messages.
Result<uint64_t> readingBytesOf(std::string_view content, const std::string &name, uint32_t side);

} // namespace moert
