#include "text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>

#include "text_kind.h"

namespace train {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class TextFiles : public ::testing::Test {
 protected:
  TextFiles() {
    std::string pattern = (fs::temp_directory_path() / "train-llama-text-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~TextFiles() override { fs::remove_all(folder_); }

  fs::path write(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return folder_ / name;
  }
  // Returns load_text's error for this file, or "".
  std::string refusal(const std::string& name, const std::string& bytes) const {
    try {
      load_text({write(name, bytes)}, 16);
      return "";
    } catch (const std::runtime_error& error) {
      return error.what();
    }
  }
  void expect_refused(const std::string& name, const std::string& bytes, const std::string& what,
                      const std::string& advice) const {
    EXPECT_THAT(refusal(name, bytes), AllOf(HasSubstr((folder_ / name).string()), HasSubstr(what),
                                            HasSubstr(advice), HasSubstr("--text")));
  }

 private:
  fs::path folder_;
};

std::string number(uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> 8 * i & 0xff);
  return text;
}

// Token IDs with a distribution like a tokenizer's: small IDs are frequent.
std::string tokens(int count, int bytes, uint32_t vocabulary) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> share(0, 1);
  std::string text;
  for (int i = 0; i < count; ++i) {
    const double u = share(random);
    text += number(static_cast<uint64_t>(u * u * u * vocabulary), bytes);
  }
  return text;
}

std::string prose(size_t bytes) {
  std::string text;
  while (text.size() < bytes)
    text += "Die Größe der Datei ist größer als 4 KiB.\n\tif (x < 1) return y;\n";
  return text;
}

std::string header_of_llm_c(uint32_t magic) {
  std::string header = number(magic, 4) + number(1, 4) + number(5000, 4);
  header.resize(1024, '\0');
  return header;
}

TEST_F(TextFiles, TokenFilesOfLlmCAreRefused) {
  expect_refused("gpt2.bin", header_of_llm_c(20240520) + tokens(5000, 2, 50257),
                 "a file of tokens of llm.c (magic 20240520)",
                 "the text that the tokens were made from");
  expect_refused("llama3.bin", header_of_llm_c(20240801) + tokens(5000, 4, 128256),
                 "magic 20240801", "tokens");
  expect_refused("model.bin", header_of_llm_c(20240326) + tokens(5000, 4, 1u << 31),
                 "magic 20240326", "tokens");
}

TEST_F(TextFiles, TokensWithoutAHeaderAreRefused) {
  expect_refused("train.bin", tokens(5000, 2, 50257), "binary data",
                 "the text that the tokens were made from");
  expect_refused("train32.bin", tokens(5000, 4, 128256), "binary data", "tokens");
}

TEST_F(TextFiles, WeightsAreRefused) {
  const std::string header = R"({"x":{"dtype":"F32","shape":[1024],"data_offsets":[0,4096]}})";
  expect_refused("model.safetensors", number(header.size(), 8) + header + std::string(4096, 'w'),
                 "model weights (safetensors)", "--resume");
  expect_refused("model.gguf", "GGUF" + number(3, 4) + std::string(4096, 'w'),
                 "model weights (GGUF)", "--resume");
}

TEST_F(TextFiles, ArraysTablesAndArchivesAreRefused) {
  const std::string rest(4096, 'x');
  const struct {
    const char *name, *begin, *what, *advice;
  } files[] = {
      {"tokens.npy", "\x93NUMPY\x01", "a NumPy array", "tokens"},
      {"a.gz", "\x1f\x8b\x08", "a gzip archive", "gzip -dc"},
      {"a.zip", "PK\x03\x04", "a zip archive", "unzip"},
      {"a.zst", "\x28\xb5\x2f\xfd", "a zstd archive", "zstd -dc"},
      {"a.bz2", "BZh9", "a bzip2 archive", "bzip2 -dc"},
      {"a.lz4", "\x04\x22\x4d\x18", "an lz4 archive", "lz4 -dc"},
      {"a.parquet", "PAR1", "a Parquet table", "column of text"},
      {"a.h5", "\x89HDF\r\n", "an HDF5 file", "column of text"},
      {"a.pdf", "%PDF-1.4\n", "a PDF document", "pdftotext"},
      {"a.so",
       "\x7f"
       "ELF",
       "a program or library", "plain text"},
      {"a.txt", "\xff\xfe", "text in UTF-16", "iconv"},
  };
  for (const auto& file : files)
    expect_refused(file.name, file.begin + rest, file.what, file.advice);
  expect_refused("a.xz",
                 std::string("\xfd"
                             "7zXZ\0",
                             6) +
                     rest,
                 "an xz archive", "xz -dc");
}

TEST_F(TextFiles, OtherBinaryDataIsRefused) {
  std::mt19937 random(2);
  std::string noise;
  for (int i = 0; i < 8000; ++i) noise += static_cast<char>(1 + random() % 255);
  expect_refused("noise", noise, "not UTF-8", "iconv");
}

TEST_F(TextFiles, TextIsTaken) {
  EXPECT_EQ(refusal("text.txt", prose(8000)), "");
  EXPECT_EQ(refusal("marked.txt", "\xef\xbb\xbf" + prose(8000)), "");
  std::string cyrillic;
  for (int i = 0; i < 1000; ++i) cyrillic += "Привет, мир ";
  EXPECT_EQ(refusal("cyrillic.txt", cyrillic), "");
  // Old sources may have a few bytes in another encoding, such as Latin-1.
  std::string latin = prose(8000);
  for (size_t i = 0; i < latin.size(); i += 40) latin[i] = '\xe4';
  EXPECT_EQ(refusal("latin.txt", latin), "");
}

// Tests that text which begins with digits and braces is not taken for a binary header.
TEST_F(TextFiles, DigitsAndBracesAreText) {
  std::string digits;
  for (int i = 0; i < 4000; ++i) digits += std::to_string(i) + " {\n";
  EXPECT_EQ(refusal("digits.txt", digits), "");
  EXPECT_FALSE(not_text({}));
}

}  // namespace
}  // namespace train
