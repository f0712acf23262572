// Draws the loss curve. gnuplot reads its commands from a file in memory and writes the picture to
// another one. So the picture on disk is replaced as a whole, or not at all if gnuplot fails.
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <iterator>

#include "files.h"
#include "report.h"

namespace train {
namespace {

class MemoryFile {
 public:
  explicit MemoryFile(const char* name) : fd_(memfd_create(name, 0)) {}
  ~MemoryFile() {
    if (fd_ >= 0) close(fd_);
  }
  MemoryFile(const MemoryFile&) = delete;

  std::string path() const { return "/dev/fd/" + std::to_string(fd_); }  // valid in a child process
  bool write(const std::string& text) {
    return ::write(fd_, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  }
  std::string read() const {
    std::string text;
    char buffer[1 << 16];
    for (ssize_t n; (n = pread(fd_, buffer, sizeof(buffer), static_cast<off_t>(text.size()))) > 0;)
      text.append(buffer, n);
    return text;
  }

 private:
  const int fd_;
};

std::string commands(const std::string& output, const std::vector<Point>& training,
                     const std::vector<Point>& held_out, double byte_frequency_bits) {
  std::string text = fmt::format(
      "set terminal svg size 800,480 font 'sans,14' background 'white'\nset output '{}'\n"
      "set xlabel 'step'\nset ylabel 'bits per byte'\nset grid\nset yrange [0:*]\n"
      "plot '-' with lines lc rgb '#9ecae1' title 'training batch', "
      "'-' with linespoints lw 2 pt 7 ps 0.5 lc rgb '#08519c' title 'held-out text', "
      "{} with lines dt 2 lc rgb '#969696' title 'byte frequencies alone'\n",
      output, byte_frequency_bits);
  for (const auto* points : {&training, &held_out}) {
    for (const Point& p : *points)
      fmt::format_to(std::back_inserter(text), "{} {}\n", p.step, p.bits);
    text += "e\n";
  }
  return text;
}

// Runs gnuplot and waits for it. Returns 0, or ENOENT if gnuplot is missing, or another errno if it
// fails.
int run_gnuplot(const std::string& script) {
  std::string name = "gnuplot", path = script;
  char* const arguments[] = {name.data(), path.data(), nullptr};
  pid_t child = 0;
  if (const int error = posix_spawnp(&child, name.c_str(), nullptr, nullptr, arguments, environ))
    return error;
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return errno;
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : EIO;
}

}  // namespace

Plot plot_losses(const std::filesystem::path& svg, const std::vector<Point>& training,
                 const std::vector<Point>& held_out, double byte_frequency_bits) {
  MemoryFile script("commands"), picture("picture");
  const bool written =
      script.write(commands(picture.path(), training, held_out, byte_frequency_bits));
  const int error = written ? run_gnuplot(script.path()) : EIO;
  if (error == ENOENT) {
    fmt::print(stderr,
               "no loss curve: gnuplot was not found (Debian: apt-get install gnuplot-nox)\n");
    return Plot::no_gnuplot;
  }
  if (error != 0) {
    fmt::print(stderr, "no loss curve: gnuplot failed\n");
    return Plot::failed;
  }
  try {
    write_whole(svg, picture.read());
  } catch (const std::exception& e) {
    fmt::print(stderr, "no loss curve: {}\n", e.what());
    return Plot::failed;
  }
  return Plot::drawn;
}

}  // namespace train
