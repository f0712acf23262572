// `ligerdsl layout` prints the layouts of a kernel's tiles, for a GPU that need not be present.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <set>

#include "lib/cli/kernels/authors.h"
#include "lib/cli/kernels/layout_table.h"
#include "lib/cli/kernels/recording_context.h"
#include "lib/cli/support/commands.h"
#include "lib/cli/support/environment.h"
#include "program/gpu_arch.h"
#include "program/serialize.h"

namespace ligerdsl::cli {

namespace {

using compiler::LinearLayout;

constexpr LayoutWindow kCorner = {.rows = 16,
                                  .columns = 8};  // part that is printed without --whole

LinearLayout layout_of(const Json& item) {
  return {item["shape"], item["register"], item["lane"], item["warp"], item["cta"]};
}

bool wanted(const Json& item, const LayoutRequest& request) {
  if (!request.tile.empty() && shape_text(item["shape"]) != request.tile) return false;
  const Json& tiles = item["tiles"];
  return request.line == 0 || std::any_of(tiles.begin(), tiles.end(), [&](const Json& tile) {
           return tile["line"] == request.line;
         });
}

std::string bases_text(const Json& item) {
  std::string text;
  for (const char* axis : {"register", "lane", "warp", "cta"}) {
    if (item[axis].empty()) continue;
    text += fmt::format("{}{}", text.empty() ? "" : "; ", axis);
    for (const std::vector<int64_t> basis : item[axis])
      text += fmt::format(" ({})", fmt::join(basis, ","));
  }
  return text;
}

// Adds properties of a layout that follow from its basis vectors.
void add_properties(Json* item) {
  const LinearLayout layout = layout_of(*item);
  const compiler::BitMasks bits = layout.redundant();
  const int copies = __builtin_popcountll(bits.lane) + __builtin_popcountll(bits.warp) +
                     __builtin_popcountll(bits.cta);
  (*item)["registers_per_thread"] = layout.registers();
  (*item)["vector"] = layout.contiguous();
  (*item)["threads_with_each_element"] = int64_t{1} << copies;
}

// Returns one line per source line: "kernels/softmax/softmax.cpp:33: exp f32, sub f32".
std::string makers_text(const Json& tiles) {
  std::vector<std::pair<std::string, std::vector<std::string>>> places;
  for (const Json& tile : tiles) {
    const std::string file = tile["file"];
    const std::string place =
        file.empty() ? "unknown source line" : fmt::format("{}:{}", file, tile["line"].get<int>());
    auto at = std::find_if(places.begin(), places.end(),
                           [&](const auto& known) { return known.first == place; });
    if (at == places.end()) at = places.insert(places.end(), {place, {}});
    at->second.push_back(
        fmt::format("{} {}", tile["op"].get<std::string>(), tile["type"].get<std::string>()));
  }
  std::string text;
  for (const auto& [place, ops] : places)
    text += fmt::format("  {}: {}\n", place, fmt::join(ops, ", "));
  return text;
}

void print_item(const Globals& globals, const LayoutRequest& request, const Json& item) {
  const LinearLayout layout = layout_of(item);
  const int64_t copies = item["threads_with_each_element"];
  print_text(fmt::format("\ntile {}: {} per thread, vectors of {}{}\n{}  {}\n",
                         shape_text(layout.shape()),
                         counted(layout.registers(), "register", "registers"), layout.contiguous(),
                         copies > 1 ? fmt::format(", each element in {} threads", copies) : "",
                         makers_text(item["tiles"]), bases_text(item)));
  constexpr int64_t kAll = std::numeric_limits<int64_t>::max();
  const LayoutWindow window = request.whole ? LayoutWindow{kAll, kAll} : kCorner;
  const LayoutTable table =
      request.by == "thread" ? table_of_threads(layout, window) : table_of_elements(layout, window);
  print_table(globals, table.header, table.rows);
  if (!table.left_out.empty()) print_text(fmt::format("({}; --whole shows all)\n", table.left_out));
}

std::vector<RecordedKernel> record(const Globals& globals, const LayoutRequest& request,
                                   const std::string& target) {
  const auto context =
      std::make_shared<RecordingContext>(options_for_target(target), unused_cpu(globals));
  load_kernels(AuthorKernels(globals.load), request.kernel, request.settings, context);
  return choose_variant(context->recorded, request.variant, true);
}

// Shapes of all tiles of a kernel, and the lines that create them.
struct AllTiles {
  std::set<std::string> shapes;
  std::set<int> lines;

  void add(const Json& layout) {
    shapes.insert(shape_text(layout["shape"]));
    for (const Json& tile : layout["tiles"]) lines.insert(tile["line"].get<int>());
  }
};

// Adds all the kernel's tiles to `all`. Returns the kernel's name and the requested layouts.
Json listed(runtime::CompilerLibrary& compiler, const RecordedKernel& recorded,
            const LayoutRequest& request, AllTiles* all) {
  const std::string name = program::parseProgram(recorded.program).name;
  program::CompileOptions options = recorded.options;
  options.emit = "layouts";
  Json layouts = Json::array();
  try {
    const std::string text =
        program::parseArtifact(compiler.compile(recorded.program, program::serialize(options)))
            .code;
    for (Json item : Json::parse(text)) {
      all->add(item);
      if (!wanted(item, request)) continue;
      add_properties(&item);
      layouts.push_back(std::move(item));
    }
  } catch (const runtime::Error& error) {
    throw Failure(kNothingFound, fmt::format("{}: {}", name, error.what()));
  }
  return {{"kernel", name},
          {"target", options.arch},
          {"lanes", program::kWarpThreads},
          {"warps", options.num_warps},
          {"ctas", options.num_ctas},
          {"layouts", layouts}};
}

}  // namespace

int layout(const Globals& globals, const LayoutRequest& request) {
  std::string target = request.target;
  if (target.empty())
    target =
        globals.device == "cpu" ? "sm_90a" : open_context(globals)->device().description().arch;
  if (target == "cpu")
    throw Failure(
        kUsage, "--target cpu: tiles on a CPU have no layout; name a GPU, such as --target sm_90a");
  const auto compiler = open_compiler();
  Json result = Json::array();
  AllTiles all;
  bool found = false;
  for (const RecordedKernel& one : record(globals, request, target)) {
    result.push_back(listed(*compiler, one, request, &all));
    found = found || !result.back()["layouts"].empty();
  }
  if (!found && all.shapes.empty())
    throw Failure(kNothingFound, request.kernel + " has no tiles, only scalars");
  if (!found)
    throw Failure(
        kNothingFound,
        fmt::format("no tile of {}{}{}; its tiles have the shapes {}{}", request.kernel,
                    request.tile.empty() ? "" : fmt::format(" of shape {}", request.tile),
                    request.line == 0 ? "" : fmt::format(" is created on line {}", request.line),
                    fmt::join(all.shapes, ", "),
                    request.line == 0
                        ? ""
                        : fmt::format(" and are created on lines {}", fmt::join(all.lines, ", "))));
  if (globals.json != "-") {
    for (const Json& kernel : result) {
      if (kernel["layouts"].empty()) continue;
      print_text(fmt::format(
          "{}kernel {} for {}: {} of {} lanes{}\n", &kernel == &result.front() ? "" : "\n",
          kernel["kernel"].get<std::string>(), target, counted(kernel["warps"], "warp", "warps"),
          kernel["lanes"].get<int>(),
          kernel["ctas"] == 1 ? ""
                              : fmt::format(", cluster of {} CTAs", kernel["ctas"].get<int>())));
      for (const Json& item : kernel["layouts"]) print_item(globals, request, item);
    }
  }
  write_json(globals, result);
  return kOk;
}

}  // namespace ligerdsl::cli
