#include "options.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>

namespace train {
namespace {

TEST(Options, CommandsAreQuotedForAShell) {
  const std::vector<std::string> given = {"bin/train_llama", "--prompt", "it's a \"$HOME\"",
                                          "--resume=old",    "--lr",     "0.1",
                                          "--text",          "a b"};
  EXPECT_EQ(
      command_with(given, {{"--resume", "new file"}, {"--lr", "0.05"}, {"--stop-after", ""}}),
      "bin/train_llama --prompt 'it'\\''s a \"$HOME\"' --text 'a b' --resume 'new file' --lr 0.05");
  EXPECT_EQ(command_with({"t", "--stop-after", "20", "--check"}, {{"--stop-after", ""}}),
            "t --check");
}

// Tests the quoting with a real shell.
TEST(Options, ShellParsesTheSameWords) {
  const std::vector<std::string> words = {"printf", "%s\\n", "a b", "it's",  "$(false)",
                                          "*",      "",      "\\",  "--x=;y"};
  FILE* shell = popen(command_with(words, {}).c_str(), "r");
  std::string out;
  std::array<char, 256> buffer;
  while (size_t n = fread(buffer.data(), 1, buffer.size(), shell)) out.append(buffer.data(), n);
  EXPECT_EQ(pclose(shell), 0);
  EXPECT_EQ(out, "a b\nit's\n$(false)\n*\n\n\\\n--x=;y\n");
}

Settings parsed(std::vector<std::string> arguments) {
  Settings settings;
  CLI::App app;
  add_options(app, settings);
  std::reverse(arguments.begin(), arguments.end());  // CLI11 expects the last argument first
  app.parse(arguments);
  return settings;
}

TEST(Options, OptionsOverrideThePreset) {
  const Settings s =
      parsed({"--batch", "7", "--tokens", "40", "--preset", "llama-3.2-1b", "--no-update"});
  EXPECT_EQ(s.train.batch, 7);
  EXPECT_EQ(s.model.context, 40);
  EXPECT_EQ(s.model.width, 2048);
  EXPECT_TRUE(s.model.tied && s.memory.recompute);
  EXPECT_FALSE(s.update);
}

TEST(Options, AttentionIsFusedWherePossible) {
  EXPECT_EQ(parsed({}).chosen_attention(), AttentionKind::fused);
  EXPECT_EQ(parsed({"--width", "1028", "--heads", "4"}).chosen_attention(),
            AttentionKind::products);
  EXPECT_EQ(parsed({"--attention", "products", "--preset", "tiny"}).chosen_attention(),
            AttentionKind::products);
  EXPECT_THROW(parsed({"--attention", "flash"}), CLI::ValidationError);
}

TEST(Options, PresetExcludesFiles) {
  EXPECT_THROW(parsed({"--preset", "tiny", "--checkpoint", "file"}), CLI::ExcludesError);
  EXPECT_THROW(parsed({"--preset", "unknown"}), CLI::ValidationError);
}

}  // namespace
}  // namespace train
