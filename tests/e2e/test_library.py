"""libmoert from an install tree and from Debian packages: its symbols, and the examples in C, C++ and Python."""
import os
import re
import shutil
import subprocess
import sys

from support import BUILD, DONE, ROOT, E2eTest, pocket, run

PROMPT = "The old man"

CMAKE = """cmake_minimum_required(VERSION 3.25)
project(example LANGUAGES C CXX)
find_package(moert 0.1 REQUIRED)
add_executable(generate generate.c)
add_executable(header header.cpp)
target_link_libraries(generate moert::moert)
target_link_libraries(header moert::moert)
target_compile_features(header PRIVATE cxx_std_20)
"""

HEADER = """#include <moert/moert.hpp>
#include <cstdio>
int main(int, char **arguments) {
  moert::Model model(arguments[1]);
  moert::Engine engine(model, {});
  moert::Session session(engine);
  session.generate(model.encode(arguments[2]), {}, [](int32_t, std::string_view text) {
    return std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  });
}
"""


def finished(command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command}: exit {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return done.stdout


class LibraryTest(E2eTest):
    def setUp(self):
        super().setUp()
        self.model = pocket("4")
        self.expected = self.expect(DONE, "moert", "run", self.model, "-p", PROMPT, "--temp", "0").out
        self.tree = self.scratch / "tree"

    def install(self):
        finished(["cmake", "--install", BUILD, "--prefix", self.scratch / "first", "--component", "dev"])
        finished(["cmake", "--install", BUILD, "--prefix", self.scratch / "first", "--component", "runtime"])
        shutil.move(self.scratch / "first", self.tree)  # A tree can be moved.

    def library_folder(self, root):
        return next(root.rglob("libmoert.so.0")).parent

    def examples_run(self, root):
        """Builds and runs the examples with what is under a folder."""
        library = self.library_folder(root)
        bare = {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": str(library), "PKG_CONFIG_PATH": str(library / "pkgconfig")}
        source = self.scratch / "example"
        source.mkdir()
        shutil.copy(next(root.rglob("generate.c")), source)
        (source / "header.cpp").write_text(HEADER)
        (source / "CMakeLists.txt").write_text(CMAKE)
        finished(["cmake", "-S", source, "-B", source / "build", f"-DCMAKE_PREFIX_PATH={library.parent}"], env=bare)
        finished(["cmake", "--build", source / "build"], env=bare)
        flags = finished(["pkg-config", "--cflags", "--libs", "moert"], env=bare).split()
        finished(["cc", "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", source / "generate.c", "-o", source / "c", *flags],
                 env=bare)
        python = [sys.executable, next(root.rglob("generate.py"))]
        for program in ([source / "build/generate"], [source / "build/header"], [source / "c"], python):
            self.assertEqual(finished([*program, self.model, PROMPT], env=bare), self.expected, program)
        refused = subprocess.run([source / "c", "none.moe", PROMPT], env=bare, capture_output=True, text=True)
        self.assertEqual((refused.returncode, refused.stderr), (2, "none.moe: cannot be opened: No such file or directory\n"))

    def test_the_examples_build_and_run_from_a_moved_install_tree(self):
        self.install()
        self.examples_run(self.tree)

    def test_exactly_the_functions_of_the_header_are_exported_with_their_version(self):
        self.install()
        header = next(self.tree.rglob("moert.h")).read_text()
        declared = set(re.findall(r"^MOERT_API [^;(]*?(\w+)\(", header, re.MULTILINE))
        self.assertGreater(len(declared), 15)
        library = self.library_folder(self.tree) / "libmoert.so.0"
        symbols = finished(["readelf", "-W", "--dyn-syms", library])
        exported = {words[7] for words in map(str.split, symbols.splitlines())
                    if len(words) == 8 and words[6] != "UND" and words[4] == "GLOBAL" and words[3] == "FUNC"}
        self.assertEqual(exported, {f"{name}@@MOERT_0.1" for name in declared})
        dynamic = finished(["readelf", "-d", library])
        self.assertIn("[libmoert.so.0]", dynamic)
        self.assertNotRegex(dynamic, "LLVM|MLIR|yaml|RPATH|RUNPATH")

    def test_the_public_headers_include_none_of_the_runtimes_own(self):
        self.install()
        for header in self.tree.rglob("include/moert/*"):
            included = re.findall(r'#include ["<]([^">]+)', header.read_text())
            self.assertEqual([name for name in included if "/" in name and name != "moert/moert.h"], [], header)

    def test_examples_are_about_thirty_lines(self):
        for name in ("generate.c", "generate.py"):
            self.assertLessEqual(len((ROOT / "tools/examples" / name).read_text().splitlines()), 36)

    def test_debian_packages_have_the_program_and_what_other_programs_need(self):
        if not shutil.which("cpack") or not shutil.which("dpkg-deb"):
            self.skipTest("no cpack or no dpkg-deb")
        finished(["cpack", "--config", BUILD / "CPackConfig.cmake", "-B", self.scratch / "packages"])
        packages = sorted((self.scratch / "packages").glob("*.deb"))
        self.assertEqual([package.name.split("_")[0] for package in packages], ["libmoert-dev", "moert"])
        dev, runtime = packages
        fields = finished(["dpkg-deb", "--field", runtime])
        self.assertRegex(fields, r"Depends: .*libc6")
        self.assertRegex(finished(["dpkg-deb", "--field", dev]), r"Depends: .*moert \(= ")
        for package in packages:
            finished(["dpkg-deb", "--extract", package, self.tree])
        self.assertTrue((self.tree / "usr/bin/moert").is_file())
        self.assertFalse((self.tree / "usr/bin/moec").exists())
        self.assertIn("ldconfig", finished(["dpkg-deb", "--info", runtime, "postinst"]))
        self.examples_run(self.tree)
