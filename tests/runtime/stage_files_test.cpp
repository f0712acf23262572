// Tests LIGERDSL_DUMP and LIGERDSL_OVERRIDE_DIR on the fakes. Each case runs in its own process,
// because a process reads the variables once.
#include "runtime/environment/stage_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <set>
#include <thread>

#include "runtime/cuda/driver.h"
#include "support.h"

namespace ligerdsl::runtime {
namespace {

using test::count;
using test::fake_cuda;
using test::passes_with;
using test::read_file;
using test::write_file;
namespace fs = std::filesystem;

const std::string kCompiler = "LIGERDSL_COMPILER=" FAKE_COMPILER,
                  kDriver = "LIGERDSL_LIBCUDA=" FAKE_CUDA;

std::string text_of(const char* variable) {
  const char* text = std::getenv(variable);
  return text ? text : "";
}

std::shared_ptr<LoadedKernel> load_on_gpu() {
  fake_cuda().reset();
  auto device = Device::create({.kind = DeviceKind::cuda});
  return device->load("program", device->base_options());
}

TEST(StageFilesChild, DISABLED_LoadOnCpu) {
  auto kernel = Device::create({})->load("program", {});
  if (const std::string code = text_of("TEST_CODE"); !code.empty()) {
    EXPECT_EQ(kernel->artifact().code, code);
  }
}

// An earlier process with the same process id has left a half-written temporary file.
TEST(StageFilesChild, DISABLED_LoadNextToAnUnfinishedFile) {
  auto device = Device::create({});
  const std::string folder = text_of("LIGERDSL_DUMP_DIR") + "/" +
                             variant_folder("ligerdsl_fake", "program", device->base_options());
  fs::create_directories(folder);
  write_file(folder + "/02-tile.mlir.new-" + std::to_string(getpid()) + "-1", "half");
  device->load("program", {});
  EXPECT_EQ(read_file(folder + "/02-tile.mlir"), "stage tile of program");
}

TEST(StageFilesChild, DISABLED_LoadTwoVariantsOnCpu) {
  auto device = Device::create({});
  program::CompileOptions options = device->base_options();
  device->load("program", options);
  options.num_stages = 5;
  device->load("program", options);
}

TEST(StageFilesChild, DISABLED_LoadInThreads) {
  auto device = Device::create({});
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, i] { device->load("program " + std::to_string(i), {}); });
  for (std::thread& thread : threads) thread.join();
}

// Tests identify the machine code in the driver by its number of bytes.
TEST(StageFilesChild, DISABLED_LoadOnGpu) {
  auto kernel = load_on_gpu();
  EXPECT_EQ(kernel->resources().code_bytes, std::stoll(text_of("TEST_CODE_BYTES")));
  EXPECT_EQ(kernel->artifact().launch_overlap, text_of("TEST_OVERLAP") == "1");
}

TEST(StageFilesChild, DISABLED_FailOnGpu) {
  const std::string text =
      test::expect_error(static_cast<Status>(std::stoi(text_of("TEST_STATUS"))), load_on_gpu);
  for (const char* variable : {"TEST_SAYS", "TEST_SAYS_TOO"})
    EXPECT_NE(text.find(text_of(variable)), std::string::npos) << text;
}

class StageFiles : public ::testing::Test {
 protected:
  // Returns the variables that every child needs, followed by `more`.
  std::vector<std::string> with(std::vector<std::string> more) const {
    more.insert(more.end(), {kCompiler, kDriver, "LIGERDSL_CACHE_DIR=" + path + "/cache",
                             "LIGERDSL_LOG=info", "LIGERDSL_LOG_FILE=" + path + "/log"});
    return more;
  }
  std::vector<std::string> overridden(std::vector<std::string> more = {}) const {
    more.push_back("LIGERDSL_OVERRIDE_DIR=" + path + "/edited");
    return with(more);
  }
  std::string log() const { return read_file(path + "/log"); }
  std::string dumps() const { return path + "/dumps"; }

  // Returns the folder below `root` for the stages of "program" on the fake GPU or the CPU.
  static std::string folder_in(const std::string& root, bool gpu) {
    const test::TempFolder cache;
    auto device = gpu ? test::fake_gpu(cache.path()) : test::fake_cpu(cache.path());
    return root + "/ligerdsl_fake-" + variant_key("program", device->base_options());
  }
  // Writes a file into the override folder, and returns the file's path.
  std::string edit(bool gpu, const std::string& file, const std::string& content) const {
    const std::string to = folder_in(path + "/edited", gpu);
    fs::create_directories(to);
    write_file(to + "/" + file, content);
    return to + "/" + file;
  }
  static std::set<std::string> files_in(const std::string& folder) {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
    return names;
  }

  test::TempFolder scratch;
  const std::string path = scratch.path();
};

const std::string kPtx =
    ".version 8.0\n.entry ligerdsl_fake program";  // PTX that the fake compiler returns

TEST_F(StageFiles, DumpNumbersStagesInAFolderPerVariant) {
  const std::string dump =
      "LIGERDSL_DUMP=tile,loops,llvm,asm,object,resources,remarks,tgpu,ptx,cubin";
  for (const char* where : {"thread", "process"}) {
    const std::string to = dumps() + where, compile = std::string("LIGERDSL_COMPILE=") + where;
    const auto variables =
        with({dump, "LIGERDSL_DUMP_DIR=" + to, compile, "LIGERDSL_COMPILE_WORKER=" COMPILE_WORKER});
    EXPECT_TRUE(passes_with("StageFilesChild.DISABLED_LoadOnCpu", variables));
    const std::string cpu = folder_in(to, false), gpu = folder_in(to, true);
    EXPECT_EQ(files_in(cpu),
              (std::set<std::string>{"02-tile.mlir", "03-loops.mlir", "04-llvm.ll", "05-kernel.s",
                                     "06-kernel.o", "07-resources.txt", "08-remarks.txt"}));
    EXPECT_EQ(read_file(cpu + "/02-tile.mlir"), "stage tile of program");
    EXPECT_EQ(read_file(cpu + "/06-kernel.o"), kPtx);
    EXPECT_NE(read_file(cpu + "/07-resources.txt").find("arena 4096 bytes"), std::string::npos);
    auto on_gpu = variables;
    on_gpu.insert(on_gpu.end(),
                  {"TEST_CODE_BYTES=" + std::to_string(kPtx.size() + 6), "TEST_OVERLAP=1"});
    EXPECT_TRUE(passes_with("StageFilesChild.DISABLED_LoadOnGpu", on_gpu));
    EXPECT_EQ(files_in(gpu), (std::set<std::string>{"02-tile.mlir", "03-tgpu.mlir", "04-llvm.mlir",
                                                    "05-kernel.ptx", "06-kernel.cubin",
                                                    "07-resources.txt", "08-remarks.txt"}));
    EXPECT_EQ(read_file(gpu + "/05-kernel.ptx"), kPtx);
    EXPECT_EQ(read_file(gpu + "/06-kernel.cubin"), "CUBIN " + kPtx);
    EXPECT_NE(read_file(gpu + "/07-resources.txt").find("registers 32 per thread"),
              std::string::npos);
  }
}

TEST_F(StageFiles, VariantsThreadsAndProcessesDumpIndependently) {
  const auto variables = with({"LIGERDSL_DUMP=tile,llvm", "LIGERDSL_DUMP_DIR=" + dumps()});
  EXPECT_TRUE(passes_with("StageFilesChild.DISABLED_LoadTwoVariantsOnCpu", variables));
  EXPECT_EQ(files_in(dumps()).size(), 2u);
  bool passed[3] = {};
  std::vector<std::thread> processes;
  for (bool& it : passed)
    processes.emplace_back(
        [&] { it = passes_with("StageFilesChild.DISABLED_LoadInThreads", variables); });
  for (std::thread& process : processes) process.join();
  for (bool it : passed) EXPECT_TRUE(it);
  EXPECT_EQ(files_in(dumps()).size(), 6u);
  std::set<std::string> texts;
  for (const auto& folder : fs::directory_iterator(dumps())) {
    EXPECT_EQ(files_in(folder.path()), (std::set<std::string>{"02-tile.mlir", "04-llvm.ll"}))
        << "no temporary file";
    texts.insert(read_file(folder.path() / "02-tile.mlir"));
  }
  EXPECT_EQ(texts.size(), 5u) << "four programs, and one in two variants";
}

TEST_F(StageFiles, FailedDumpIsReportedAndTheCallSucceeds) {
  write_file(path + "/file", "");
  EXPECT_TRUE(
      passes_with("StageFilesChild.DISABLED_LoadTwoVariantsOnCpu",
                  with({"LIGERDSL_DUMP=tile,llvm", "LIGERDSL_DUMP_DIR=" + path + "/file/dumps"})));
  EXPECT_EQ(count(log(), "LIGERDSL_DUMP_DIR"), 1) << log();
  EXPECT_NE(log().find('"' + path + "/file\": Not a directory"), std::string::npos) << log();
  fs::create_directories(folder_in(dumps(), false) +
                         "/02-tile.mlir");  // a folder has the name of the stage file
  EXPECT_TRUE(passes_with("StageFilesChild.DISABLED_LoadOnCpu",
                          with({"LIGERDSL_DUMP=tile,llvm", "LIGERDSL_DUMP_DIR=" + dumps()})));
  EXPECT_NE(
      log().find("LIGERDSL_DUMP: cannot write \"" + folder_in(dumps(), false) + "/02-tile.mlir\""),
      std::string::npos)
      << log();
  EXPECT_EQ(files_in(folder_in(dumps(), false)), (std::set<std::string>{"02-tile.mlir"}));
}

TEST_F(StageFiles, FilterSelectsByKernelName) {
  for (const auto& [filter, folders] : {std::pair("other", 0u), {"_fake", 1u}}) {
    const std::string to = dumps() + filter;
    fs::create_directories(to);
    EXPECT_TRUE(passes_with("StageFilesChild.DISABLED_LoadOnCpu",
                            with({"LIGERDSL_DUMP=all", "LIGERDSL_DUMP_DIR=" + to,
                                  std::string("LIGERDSL_DUMP_FILTER=") + filter})));
    EXPECT_EQ(files_in(to).size(), folders) << filter;
  }
}

TEST_F(StageFiles, DriverGetsTheEditedPtx) {
  const std::string edited = kPtx + " // edited";
  const auto is = [&](const std::string& ptx, const char* overlap) {
    return std::vector<std::string>{"TEST_CODE_BYTES=" + std::to_string(ptx.size() + 6),
                                    std::string("TEST_OVERLAP=") + overlap};
  };
  EXPECT_TRUE(passes_with("StageFilesChild.DISABLED_LoadOnGpu",
                          with(is(kPtx, "1"))));  // now both caches contain it
  const std::set<std::string> cached = files_in(path + "/cache");
  EXPECT_EQ(cached.size(), 2u);
  const std::string file = edit(true, "05-kernel.ptx", edited);
  EXPECT_TRUE(passes_with("StageFilesChild.DISABLED_LoadOnGpu", overridden(is(edited, "0"))))
      << "the edited PTX does not wait for the previous kernel";
  EXPECT_NE(log().find("LIGERDSL_OVERRIDE_DIR: ligerdsl_fake-"), std::string::npos) << log();
  EXPECT_NE(log().find(" is made from \"" + file + "\""), std::string::npos) << log();
  edit(true, "05-kernel.ptx", edited + " griddepcontrol.wait");
  EXPECT_TRUE(passes_with("StageFilesChild.DISABLED_LoadOnGpu",
                          overridden(is(edited + " griddepcontrol.wait", "1"))));
  EXPECT_EQ(files_in(path + "/cache"), cached);
  EXPECT_TRUE(passes_with("StageFilesChild.DISABLED_LoadOnGpu", with(is(kPtx, "1"))));
}

TEST_F(StageFiles, LatestEditedStageWins) {
  edit(true, "02-tile.mlir", "tile");
  const std::string size = "TEST_CODE_BYTES=" + std::to_string((kPtx + " with tile").size() + 6);
  EXPECT_TRUE(
      passes_with("StageFilesChild.DISABLED_LoadOnGpu", overridden({size, "TEST_OVERLAP=0"})));
  edit(true, "06-kernel.cubin", "CUBIN edited ligerdsl_fake");
  EXPECT_TRUE(passes_with("StageFilesChild.DISABLED_LoadOnGpu",
                          overridden({"TEST_CODE_BYTES=26", "TEST_OVERLAP=0"})));
  EXPECT_NE(log().find("; ignored files: 02-tile.mlir\n"), std::string::npos) << log();
  EXPECT_FALSE(fs::exists(path + "/cache") && !files_in(path + "/cache").empty());
}

// An edited PTX makes earlier stages irrelevant: the edited tile stage must not be read.
TEST_F(StageFiles, EarlierEditedStagesAreIgnored) {
  edit(true, "02-tile.mlir", "bad");
  edit(true, "05-kernel.ptx", kPtx + "2");
  const std::vector<std::string> size = {"TEST_CODE_BYTES=" + std::to_string(kPtx.size() + 7),
                                         "TEST_OVERLAP=0"};
  EXPECT_TRUE(passes_with("StageFilesChild.DISABLED_LoadOnGpu", overridden(size)));
  const std::string tile = folder_in(path + "/edited", true) + "/02-tile.mlir";
  fs::remove(tile);
  ASSERT_EQ(mkfifo(tile.c_str(), 0600), 0);
  EXPECT_TRUE(passes_with("StageFilesChild.DISABLED_LoadOnGpu", overridden(size)));
  EXPECT_EQ(count(log(), "; ignored files: 02-tile.mlir\n"), 2) << log();
}

TEST_F(StageFiles, CpuUsesEditedTileAndObject) {
  edit(false, "02-tile.mlir", "tile");
  EXPECT_TRUE(passes_with("StageFilesChild.DISABLED_LoadOnCpu",
                          overridden({"TEST_CODE=" + kPtx + " with tile"})));
  edit(false, "06-kernel.o", "object");
  EXPECT_TRUE(passes_with("StageFilesChild.DISABLED_LoadOnCpu", overridden({"TEST_CODE=object"})));
}

// The file is edited in the dump folder, so the next dump must not overwrite it.
TEST_F(StageFiles, DumpDoesNotOverwriteEditedFiles) {
  const std::string file = edit(false, "02-tile.mlir", "tile");
  EXPECT_TRUE(passes_with(
      "StageFilesChild.DISABLED_LoadOnCpu",
      overridden({"LIGERDSL_DUMP=tile,llvm", "LIGERDSL_DUMP_DIR=" + path + "/edited"})));
  EXPECT_EQ(read_file(file), "tile");
  EXPECT_EQ(files_in(fs::path(file).parent_path()), (std::set<std::string>{"02-tile.mlir"}));
  EXPECT_NE(log().find(" is also LIGERDSL_OVERRIDE_DIR"), std::string::npos) << log();
}

TEST_F(StageFiles, ErrorNamesTheInvalidFile) {
  const auto expect_fails = [&](const std::string& file, const char* content, Status status,
                                const std::string& says) {
    fs::remove_all(path + "/edited");
    const std::string edited = edit(true, file, content);
    EXPECT_TRUE(passes_with("StageFilesChild.DISABLED_FailOnGpu",
                            overridden({"TEST_STATUS=" + std::to_string(static_cast<int>(status)),
                                        "TEST_SAYS=" + edited, "TEST_SAYS_TOO=" + says})));
  };
  expect_fails("02-tile.mlir", "bad", Status::compile_failed,
               "02-tile.mlir:1:1: error: expected an operation");
  expect_fails("05-kernel.ptx", "syntax error", Status::compile_failed,
               "line 3; fatal : Parsing error");
  expect_fails("06-kernel.cubin", "nothing", Status::compile_failed, "(edited)");
  expect_fails("06-kernel.cubin",
               "\x7f"
               "ELF CUBIN ligerdsl_fake",
               Status::compile_failed, "is cut short");
  expect_fails("05-kernel.ptx", "", Status::invalid_argument, "is empty");
  EXPECT_FALSE(fs::exists(path + "/cache") && !files_in(path + "/cache").empty());
}

TEST_F(StageFiles, ErrorNamesFilesThatAreNotRegular) {
  const std::string folder = folder_in(path + "/edited", true), ptx = folder + "/05-kernel.ptx";
  const auto expect_fails = [&](const std::string& says, const std::function<void()>& make) {
    fs::remove_all(path + "/edited");
    fs::create_directories(folder);
    make();
    EXPECT_TRUE(passes_with(
        "StageFilesChild.DISABLED_FailOnGpu",
        overridden({"TEST_STATUS=" + std::to_string(static_cast<int>(Status::invalid_argument)),
                    "TEST_SAYS=" + ptx, "TEST_SAYS_TOO=" + says})))
        << says;
  };
  expect_fails("it is not a regular file", [&] { ASSERT_EQ(mkfifo(ptx.c_str(), 0600), 0); });
  expect_fails("Is a directory", [&] { fs::create_directories(ptx); });
  expect_fails("No such file or directory", [&] { fs::create_symlink("nowhere", ptx); });
  expect_fails("expected at most 67108864", [&] {
    write_file(ptx, "");
    fs::resize_file(ptx, int64_t{1} << 40);  // sparse
  });
}

TEST_F(StageFiles, TwoFoldersOfOneVariantAreAnError) {
  const std::string folder = folder_in(path + "/edited", true);
  const std::string key = folder.substr(folder.rfind('-')), copy = path + "/edited/a-copy" + key;
  const auto expect_fails = [&](const std::string& names, const std::string& names_too) {
    EXPECT_TRUE(passes_with(
        "StageFilesChild.DISABLED_FailOnGpu",
        overridden({"TEST_STATUS=" + std::to_string(static_cast<int>(Status::invalid_argument)),
                    "TEST_SAYS=" + names, "TEST_SAYS_TOO=" + names_too})));
  };
  edit(true, "05-kernel.ptx", kPtx);
  fs::create_directories(copy);
  expect_fails('"' + copy + '"', '"' + folder + '"');
  fs::remove_all(path + "/edited");
  fs::create_directories(path + "/edited");
  write_file(folder, "a file");
  expect_fails('"' + folder + '"', "Not a directory");
}

TEST_F(StageFiles, FolderWithoutUsableStagesIsReported) {
  edit(false, "03-loops.mlir", "loops");
  edit(false, "06-kernel.cubin", "of the other target");
  EXPECT_TRUE(passes_with("StageFilesChild.DISABLED_LoadOnCpu", overridden({"TEST_CODE=" + kPtx})));
  EXPECT_EQ(
      count(log(), "holds none of 02-tile.mlir, 06-kernel.o, so this kernel is not overridden"), 1)
      << log();
}

TEST_F(StageFiles, EditedStageIsAnErrorUnderNoJit) {
  const std::string file = edit(true, "05-kernel.ptx", kPtx);
  EXPECT_TRUE(passes_with(
      "StageFilesChild.DISABLED_FailOnGpu",
      overridden({"LIGERDSL_NO_JIT=1",
                  "TEST_STATUS=" + std::to_string(static_cast<int>(Status::not_supported)),
                  "TEST_SAYS=" + fs::path(file).parent_path().string(),
                  "TEST_SAYS_TOO=unset LIGERDSL_OVERRIDE_DIR"})));
}

TEST_F(StageFiles, UnfinishedFileDoesNotBlockADump) {
  EXPECT_TRUE(passes_with("StageFilesChild.DISABLED_LoadNextToAnUnfinishedFile",
                          with({"LIGERDSL_DUMP=tile", "LIGERDSL_DUMP_DIR=" + dumps()})));
}

TEST_F(StageFiles, LongKernelNamesAreShortened) {
  const std::string name = variant_folder(std::string(1000, 'x'), "program", {});
  EXPECT_LE(name.size(), 255u);
  EXPECT_TRUE(name.ends_with("x-" + variant_key("program", {})));
}

TEST_F(StageFiles, MissingOverrideFolderIsReported) {
  EXPECT_TRUE(passes_with("StageFilesChild.DISABLED_LoadTwoVariantsOnCpu", overridden()));
  EXPECT_EQ(count(log(), "LIGERDSL_OVERRIDE_DIR cannot be read"), 1) << log();
}

}  // namespace
}  // namespace ligerdsl::runtime
