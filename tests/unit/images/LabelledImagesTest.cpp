// Folders of images: their order, classes and pixels, and what is refused.
#include "runtime/images/LabelledImages.h"
#include "tests/unit/support/TemporaryDirectory.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

using namespace moert;

namespace {

constexpr uint32_t kSide = 2;

/// A folder of images, which ends with the test.
struct Folder {
  TemporaryDirectory directory;
  std::string path = directory.path() + "/shapes";

  /// An image of one color.
  void write(const std::string &name, char color) const {
    writeBytes(name, "P6\n2 2\n255\n" + std::string(3 * kSide * kSide, color));
  }
  void writeBytes(const std::string &name, const std::string &bytes) const {
    const std::filesystem::path file = std::filesystem::path(path) / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << bytes;
  }
  Result<LabelledFolder> add(LabelledImages &images) const { return images.add(path); }
};

LabelledImages images(std::vector<std::string> names = {"disc", "bar", "bar", "ring"}) {
  return LabelledImages(ImageModel{PatchesInstruction{0, 3, kSide, 1}, 4, std::move(names)});
}

void checkRefused(const Folder &folder, const char *message) {
  LabelledImages none = images();
  const Result<LabelledFolder> added = folder.add(none);
  REQUIRE_FALSE(added.isOk());
  CHECK_MESSAGE(added.status().message().find(message) != std::string::npos,
                added.status().message());
}

} // namespace

TEST_CASE("a folder's images have the classes that their folders name, in the order of the paths") {
  Folder folder;
  folder.write("ring/b.ppm", 9);
  folder.write("ring/a.ppm", 7);
  folder.write("2/c.ppm", 5);
  folder.write("disc/d.ppm", 3);
  folder.writeBytes("disc/.hidden", "no image");
  LabelledImages read = images();
  const Result<LabelledFolder> added = folder.add(read);
  REQUIRE_MESSAGE(added.isOk(), added.status().message());
  CHECK(added->count == 4);
  std::string order;
  for (const LabelledImage &image : read.all())
    order += strCat(image.path.substr(folder.path.size()), " ", image.label, " ");
  CHECK(order == "/2/c.ppm 2 /disc/d.ppm 0 /ring/a.ppm 3 /ring/b.ppm 3 ");
}

TEST_CASE("an image's pixels are normalized, each channel by itself") {
  Folder folder;
  folder.write("disc/a.ppm", char(255));
  LabelledImages read = images();
  REQUIRE(folder.add(read).isOk());
  std::vector<float> pixels(read.pixels());
  REQUIRE(read.read(0, pixels).isOk());
  CHECK(pixels[0] == doctest::Approx((1 - 0.485) / 0.229));
  CHECK(pixels[4] == doctest::Approx((1 - 0.456) / 0.224));
  CHECK(pixels[8] == doctest::Approx((1 - 0.406) / 0.225));
}

TEST_CASE("a file that changed after its folder was read is refused") {
  Folder folder;
  folder.write("disc/a.ppm", 1);
  LabelledImages read = images();
  REQUIRE(folder.add(read).isOk());
  folder.write("disc/a.ppm", 2);
  std::vector<float> pixels(read.pixels());
  CHECK(read.read(0, pixels).message().find("a.ppm': found other bytes") != std::string::npos);
}

TEST_CASE("the hash of a folder depends on contents and classes, not on names") {
  const auto hashOf = [](const char *path, char color) {
    Folder folder;
    folder.write(path, color);
    LabelledImages read = images();
    return folder.add(read)->hash;
  };
  const uint64_t hash = hashOf("ring/a.ppm", 1);
  CHECK(hash == hashOf("3/b.ppm", 1));
  CHECK(hash != hashOf("disc/a.ppm", 1));
  CHECK(hash != hashOf("ring/a.ppm", 2));
}

TEST_CASE("folders that name no class, files that are no image and empty folders are refused") {
  Folder folder;
  checkRefused(folder, "found no folder that can be read");
  std::filesystem::create_directories(folder.path + "/ring");
  checkRefused(folder, "found no image");
  folder.writeBytes("ring/a.txt", "text");
  checkRefused(folder, "ring/a.txt': found no header of an image");
  std::filesystem::remove_all(folder.path);
  folder.write("4/a.ppm", 1);
  checkRefused(folder, "found '4', expected a folder with the name of one class, such as 'disc', "
                       "or the number of a class, 0 to 3");
  std::filesystem::remove_all(folder.path);
  folder.write("bar/a.ppm", 1); // Two classes have this name.
  checkRefused(folder, "found 'bar'");
  std::filesystem::remove_all(folder.path);
  folder.write("a.ppm", 1);
  checkRefused(folder, "found 'a.ppm'");
}
