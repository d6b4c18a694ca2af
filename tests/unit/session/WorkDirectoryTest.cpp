#include "compiler/session/WorkDirectory.h"
#include "tests/unit/emit/TinyPlan.h"

#include <doctest/doctest.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sys/inotify.h>
#include <unistd.h>

using namespace moec;
using namespace moert;
namespace fs = std::filesystem;

static WorkDirectory opened(const std::string &output, bool resume) {
  auto work = WorkDirectory::open(output, leftWorkOf(resume, false));
  REQUIRE_MESSAGE(work.isOk(), work.status().message());
  return std::move(work).value();
}

static void write(const std::string &path, const std::string &text = "kept") {
  std::ofstream(path) << text;
}

static void checkRefused(const Status &status, const std::string &mention) {
  CHECK(status.code() == StatusCode::kInvalidInput);
  CHECK_MESSAGE(status.message().find(mention) != std::string::npos, status.message());
}

TEST_CASE(
    "a work directory is created beside the output, and removed at the end with its contents") {
  TemporaryDirectory directory;
  const std::string output = directory.path("out.moe");
  {
    WorkDirectory work = opened(output, false);
    CHECK(work.path() == output + ".work");
    CHECK(!work.isResumed());
    write(work.path() + "/file");
    fs::create_directory(work.path() + "/pool");
    write(work.path() + "/pool/file");
  }
  CHECK(directory.fileNames().empty());
}

TEST_CASE("a work directory that is kept can be resumed") {
  TemporaryDirectory directory;
  const std::string output = directory.path("out.moe");
  {
    WorkDirectory work = opened(output, false);
    write(work.path() + "/file");
    work.keep();
  }
  WorkDirectory work = opened(output, true);
  CHECK(work.isResumed());
  CHECK(contentOf(work.path() + "/file") == "kept");
}

TEST_CASE("work that was left is refused and kept, unless it is resumed or removed") {
  TemporaryDirectory directory;
  const std::string output = directory.path("out.moe"), file = output + ".work/file";
  {
    WorkDirectory work = opened(output, false);
    write(work.path() + "/file");
    work.keep();
  }
  const Status refused = WorkDirectory::open(output, LeftWork::kRefuse).status();
  checkRefused(refused, "found the work of an interrupted command: " + output + ".work;");
  checkRefused(refused, "--resume with its options continues it, --restart removes it");
  CHECK(contentOf(file) == "kept");
  auto work = WorkDirectory::open(output, LeftWork::kRemove);
  REQUIRE(work.isOk());
  CHECK(!work->isResumed());
  CHECK(!fs::exists(file));
}

TEST_CASE("work that was left beside the directory is refused where all its files are there") {
  TemporaryDirectory directory;
  const std::string output = directory.path("out.moe");
  const std::array beside = {output + ".partial", output + ".partial.journal"};
  for (const std::string &file : beside)
    write(file);
  checkRefused(WorkDirectory::open(output, LeftWork::kRefuse, beside).status(), beside[0]);
  CHECK(directory.fileNames().size() == beside.size());
  CHECK(WorkDirectory::open(output, LeftWork::kRemove, beside).isOk());
  CHECK(directory.fileNames().empty());
  for (const std::string &alone : beside) {
    write(alone);
    CHECK(WorkDirectory::open(output, LeftWork::kRefuse, beside).isOk());
    CHECK(directory.fileNames().empty());
  }
}

TEST_CASE("resuming without a kept directory starts from the beginning") {
  TemporaryDirectory directory;
  CHECK(!opened(directory.path("out.moe"), true).isResumed());
}

TEST_CASE("a directory that moec did not make is refused and kept") {
  TemporaryDirectory directory;
  const std::string path = directory.path("out.moe.work");
  fs::create_directory(path);
  write(path + "/thesis.txt");
  for (bool resume : {false, true})
    checkRefused(WorkDirectory::open(directory.path("out.moe"), leftWorkOf(resume, false)).status(),
                 "was not made by moec");
  CHECK(contentOf(path + "/thesis.txt") == "kept");
}

TEST_CASE("a file in place of the work directory is refused and kept") {
  TemporaryDirectory directory;
  write(directory.path("out.moe.work"));
  checkRefused(WorkDirectory::open(directory.path("out.moe"), LeftWork::kRefuse).status(),
               "out.moe.work");
  CHECK(contentOf(directory.path("out.moe.work")) == "kept");
}

TEST_CASE("a missing folder is refused, and named") {
  TemporaryDirectory directory;
  checkRefused(WorkDirectory::open(directory.path("missing/out.moe"), LeftWork::kRefuse).status(),
               "missing");
}

TEST_CASE("a second owner is refused and removes nothing") {
  TemporaryDirectory directory;
  const std::string output = directory.path("out.moe");
  WorkDirectory work = opened(output, false);
  write(work.path() + "/file");
  for (bool resume : {false, true})
    checkRefused(WorkDirectory::open(output, leftWorkOf(resume, false)).status(),
                 "another process is working");
  CHECK(contentOf(work.path() + "/file") == "kept");
}

TEST_CASE("a work directory that was moved is removed once") {
  TemporaryDirectory directory;
  const std::string output = directory.path("out.moe");
  auto first = std::make_unique<WorkDirectory>(opened(output, false));
  WorkDirectory second = std::move(*first);
  first.reset();
  CHECK(fs::exists(second.path()));
  checkRefused(WorkDirectory::open(output, LeftWork::kRefuse).status(),
               "another process is working");
}

// The names removed from a directory while `act` runs, in order. At most some hundred.
template <typename Act>
static std::vector<std::string> removalsFrom(const std::string &directory, Act act) {
  const int watch = ::inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  REQUIRE(::inotify_add_watch(watch, directory.c_str(), IN_DELETE) >= 0);
  act();
  alignas(inotify_event) std::array<char, 1 << 16> events;
  const ssize_t bytes = ::read(watch, events.data(), events.size());
  ::close(watch);
  std::vector<std::string> names;
  for (ssize_t i = 0; i < bytes;) {
    const auto *event = reinterpret_cast<const inotify_event *>(&events[size_t(i)]);
    if (event->len > 0) // Without a name the watch itself has ended.
      names.emplace_back(event->name);
    i += ssize_t(sizeof(inotify_event) + event->len);
  }
  return names;
}

TEST_CASE(
    "a work directory's lock file is removed last, so that a partly removed one is recognized") {
  constexpr int kFiles = 64;
  // File systems list files in creation order, in reverse, or in neither.
  for (bool isMarkNewest : {false, true}) {
    TemporaryDirectory directory;
    const std::string output = directory.path("out.moe"), lock = output + ".work/moec.lock";
    {
      WorkDirectory work = opened(output, false);
      for (int i = 0; i < kFiles; ++i)
        write(work.path() + "/" + std::to_string(i));
      if (isMarkNewest) {
        fs::remove(lock);
        write(lock);
      }
      work.keep();
    }
    auto work = std::make_unique<WorkDirectory>(opened(output, true));
    auto removed = removalsFrom(work->path(), [&] { work.reset(); });
    REQUIRE(removed.size() == kFiles + 1);
    CHECK(removed.back() == "moec.lock");
    CHECK(directory.fileNames().empty());
  }
}

TEST_CASE("a work directory is kept if --resume can continue from it") {
  struct End {
    Status status;
    bool hasSomething, isResumed, isKept;
    std::string message;
  };
  const std::string goesOn = "; --resume continues from ";
  for (const End &end : {End{Status(), true, true, false, ""},
                         End{invalidInput("no text"), true, false, false, "no text"},
                         End{invalidInput("no text"), true, true, true, "no text"},
                         End{failed("disk full"), false, false, false, "disk full"},
                         End{failed("disk full"), true, false, true, "disk full" + goesOn},
                         End{failed("disk full"), true, true, true, "disk full" + goesOn},
                         End{Status(StatusCode::kInterrupted, "interrupted; resume a step"), false,
                             false, true, "interrupted" + goesOn}}) {
    TemporaryDirectory directory;
    const std::string output = directory.path("out.moe");
    CAPTURE(end.status.message());
    if (end.isResumed)
      opened(output, false).keep();
    Status status;
    {
      WorkDirectory work = opened(output, end.isResumed);
      if (end.hasSomething)
        write(work.path() + "/file");
      write(output + ".partial");
      status =
          work.keepAfter(end.status, std::array{output + ".partial", output + ".partial.journal"});
    }
    CHECK(status.code() == end.status.code());
    const bool isTold = end.message.ends_with(goesOn);
    CHECK(status.message() ==
          end.message + (isTold ? output + ".work, " + output + ".partial" : ""));
    CHECK(fs::exists(output + ".work") == end.isKept);
  }
}

TEST_CASE("no text is added if the caller has kept the work directory") {
  TemporaryDirectory directory;
  WorkDirectory work = opened(directory.path("out.moe"), false);
  write(work.path() + "/file");
  work.keep();
  CHECK(work.keepAfter(failed("out of reach; --resume with another target"), {}).message() ==
        "out of reach; --resume with another target");
}

TEST_CASE("a step is marked with its key and no other") {
  TemporaryDirectory directory;
  const std::string output = directory.path("out.moe");
  {
    WorkDirectory work = opened(output, false);
    CHECK(!work.isMarked("step", "key"));
    REQUIRE(work.mark("step", "key").isOk());
    CHECK(!work.isMarked("other", "key"));
    work.keep();
  }
  WorkDirectory work = opened(output, true);
  CHECK(work.isMarked("step", "key"));
  CHECK(!work.isMarked("step", "another key"));
  REQUIRE(work.mark("step", "another key").isOk());
  CHECK(!work.isMarked("step", "key"));
  CHECK(work.isMarked("step", "another key"));
}

TEST_CASE("a step that was unmarked is not marked, and may be unmarked again") {
  TemporaryDirectory directory;
  WorkDirectory work = opened(directory.path("out.moe"), false);
  REQUIRE(work.mark("step", "key").isOk());
  REQUIRE(work.mark("other", "key").isOk());
  for (int i = 0; i < 2; ++i) {
    CHECK(work.unmark("step").isOk());
    CHECK(!work.isMarked("step", "key"));
  }
  CHECK(work.isMarked("other", "key"));
}

TEST_CASE("what a step left under another key is removed before it is marked") {
  TemporaryDirectory directory;
  WorkDirectory work = opened(directory.path("out.moe"), false);
  const std::array files = {directory.path("partial"), work.path() + "/whole"};
  auto takeUp = [&](const std::string &key) {
    auto isTakenUp = work.takeUp("step", key, files);
    REQUIRE_MESSAGE(isTakenUp.isOk(), isTakenUp.status().message());
    return *isTakenUp;
  };
  CHECK(!takeUp("key")); // No file is there.
  for (const std::string &file : files)
    write(file);
  CHECK(takeUp("key"));
  CHECK(fs::exists(files[0]));
  CHECK(!takeUp("another key"));
  CHECK(work.isMarked("step", "another key"));
  for (const std::string &file : files)
    CHECK(!fs::exists(file));
}

TEST_CASE("a step is not marked while what it left under another key is there") {
  TemporaryDirectory directory;
  WorkDirectory work = opened(directory.path("out.moe"), false);
  const std::string file = directory.path("partial");
  fs::create_directories(file + "/cannot be removed");
  REQUIRE(work.mark("step", "key").isOk());
  CHECK(!work.takeUp("step", "another key", {&file, 1}).isOk());
  CHECK(!work.isMarked("step", "another key"));
  CHECK(!work.isMarked("step", "key"));
}

TEST_CASE("an output with an invalid name contains no inputs, and is refused itself") {
  TemporaryDirectory directory;
  fs::create_symlink("loop", directory.path("loop"));
  for (const std::string &output :
       {directory.path("loop/out.moe"), directory.path(std::string(300, 'a'))}) {
    const std::vector<std::string> inputs = {directory.path("text")};
    CHECK(WorkDirectory::checkHoldsNone(output, inputs).isOk());
    Status status = WorkDirectory::open(output, LeftWork::kRefuse).status();
    CHECK_FALSE(status.isOk());
    CHECK_MESSAGE(status.message().find(output + ".work") != std::string::npos, status.message());
  }
}

TEST_CASE("inputs in the work directory are refused, inputs beside it are not") {
  TemporaryDirectory directory;
  const std::string output = directory.path("out.moe");
  fs::create_directory(output + ".work");
  fs::create_directory_symlink(output + ".work", directory.path("link"));
  const std::vector<std::string> beside = {directory.path("profile"), output + ".work.txt", ""};
  CHECK(WorkDirectory::checkHoldsNone(output, beside).isOk());
  for (const char *name : {"/profile", "/pool/../profile", ""})
    checkRefused(WorkDirectory::checkHoldsNone(output, std::vector{output + ".work" + name}),
                 "removed at the end");
  checkRefused(
      WorkDirectory::checkHoldsNone(output, std::vector{directory.path("link") + "/profile"}),
      "removed at the end");
}

TEST_CASE("a left work directory is found and kept") {
  TemporaryDirectory directory;
  const std::string output = directory.path("out.moe");
  CHECK_FALSE(WorkDirectory::findLeft(output, {})->has_value());
  {
    WorkDirectory work = opened(output, false);
    write(work.path() + "/file");
    work.keep();
    checkRefused(WorkDirectory::findLeft(output, {}).status(), "another process is working in");
  }
  const std::string input = output + ".work/file";
  checkRefused(WorkDirectory::findLeft(output, std::array{input}).status(), "removed at the end");
  CHECK(WorkDirectory::findLeft(output, {})->has_value());
  CHECK(contentOf(input) == "kept");
}

TEST_CASE("a directory without moec's lock file is not found") {
  TemporaryDirectory directory;
  const std::string path = directory.path("out.moe.work");
  fs::create_directory(path);
  write(path + "/file");
  CHECK_FALSE(WorkDirectory::findLeft(directory.path("out.moe"), {})->has_value());
  CHECK(contentOf(path + "/file") == "kept");
}
