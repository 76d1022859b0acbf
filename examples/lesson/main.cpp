// lesson --out DIR: writes the lesson on attention as DIR/lesson.html, which a browser opens from the disk, and the claims
// of its sections, each held against this run, as DIR/checks.json. Status 1 if a claim failed.
#include <capstan/autograd/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>

#include "lesson.h"

int main(int count, char** arguments) {
  using namespace capstan;
  CLI::App app("Writes a page on attention, every number of it computed by capstan.", "lesson");
  std::string out;
  app.add_option("--out", out, "folder for lesson.html and checks.json")->required()->type_name("DIR");
  CLI11_PARSE(app, count, arguments);
  try {
    const lesson::Lesson made = lesson::make_lesson();
    const std::filesystem::path folder(out);
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) fail("--out: must be a folder that can be made; got \"{}\": {}", out, error.message());
    drawing::write_file(folder / "lesson.html", made.page);
    drawing::write_file(folder / "checks.json", lesson::to_json(made.checks));
    std::size_t failed = 0;
    for (const lesson::Check& check : made.checks) {
      if (check.passed) continue;
      ++failed;
      fmt::print("failed: {}: got {}, expected {}\n", check.name, check.value.dump(), check.expected.dump());
    }
    fmt::print("{}  {} bytes\n{}  {} of {} checks passed\n", (folder / "lesson.html").string(), made.page.size(),
               (folder / "checks.json").string(), made.checks.size() - failed, made.checks.size());
    return failed == 0 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "lesson: %s\n", error.what());
    return 1;
  }
}
