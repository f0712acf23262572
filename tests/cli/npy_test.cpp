// Tests of .npy files: which files are read, which are refused with which message, and mutated
// files.
#include "lib/instance/npy.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <random>
#include <sstream>

#include "lib/instance/npy_header.h"
#include "lib/text/output.h"

namespace ligerdsl::cli {
namespace {

std::string little_endian(uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text.push_back(static_cast<char>(value >> (8 * i)));
  return text;
}

std::string file_of(const std::string& header, const std::string& data, int version = 1) {
  return "\x93NUMPY" + std::string{static_cast<char>(version), '\0'} +
         little_endian(header.size(), version == 1 ? 2 : 4) + header + data;
}

std::string header_of(const std::string& shape, const std::string& descr = "'<f4'",
                      const std::string& order = "False") {
  return "{'descr': " + descr + ", 'fortran_order': " + order + ", 'shape': " + shape + ", }  \n";
}

Array parse(const std::string& bytes) {
  std::istringstream in(bytes);
  return parse_npy(in);
}

const std::string kFloats(24, '\x01');  // six floats

struct Good {
  const char* what;
  std::string bytes;
  std::vector<int64_t> shape;
};

TEST(Npy, ReadsEveryVersionAndEverySpelling) {
  const std::vector<Good> table = {
      {"version 1", file_of(header_of("(2, 3)"), kFloats), {2, 3}},
      {"version 2", file_of(header_of("(2, 3)"), kFloats, 2), {2, 3}},
      {"version 3", file_of(header_of("(2, 3)"), kFloats, 3), {2, 3}},
      {"one dimension", file_of(header_of("(6,)"), kFloats), {6}},
      {"a scalar", file_of(header_of("()"), kFloats.substr(0, 4)), {}},
      {"trailing comma in the shape", file_of(header_of("(2, 3,)"), kFloats), {2, 3}},
      {"no spaces",
       file_of("{'descr':'<f4','fortran_order':False,'shape':(2,3)}", kFloats),
       {2, 3}},
      {"many spaces",
       file_of("  { 'descr'  :\t'<f4' ,\n'fortran_order': False , 'shape' : ( 2 , 3 ) } \n",
               kFloats),
       {2, 3}},
      {"another order of keys",
       file_of("{'shape': (2, 3), 'fortran_order': False, 'descr': '<f4'}", kFloats),
       {2, 3}},
      {"double quotes",
       file_of("{\"descr\": \"<f4\", \"fortran_order\": False, \"shape\": (2, 3)}", kFloats),
       {2, 3}},
      {"no elements", file_of(header_of("(0, 3)"), ""), {0, 3}},
      {"Fortran order of one dimension is C order",
       file_of(header_of("(6,)", "'<f4'", "True"), kFloats),
       {6}},
      {"60 KB of header",
       file_of(header_of("(2, 3)") + std::string(60000, ' ') + "\n", kFloats),
       {2, 3}},
      {"bytes", file_of(header_of("(24,)", "'|i1'"), kFloats), {24}},
      {"bytes with an order", file_of(header_of("(24,)", "'<i1'"), kFloats), {24}}};
  for (const Good& row : table) {
    SCOPED_TRACE(row.what);
    const Array array = parse(row.bytes);
    EXPECT_EQ(array.shape, row.shape);
    EXPECT_EQ(array.bytes, row.bytes.substr(row.bytes.size() - array.bytes.size()));
    EXPECT_EQ(array.bytes.size(),
              static_cast<size_t>(elements(array.shape)) * (array.descr[2] == '1' ? 1 : 4));
  }
}

struct Bad {
  const char* what;
  std::string bytes, words;
};

TEST(Npy, RefusesInvalidFilesWithAMessage) {
  const std::string long_shape = [] {
    std::string text = "(";
    for (int i = 0; i < 65; ++i) text += "1, ";
    return text + ")";
  }();
  const std::vector<Bad> table = {
      {"nothing", "", "not a .npy file"},
      {"another file", "PK\x03\x04 and more", "not a .npy file"},
      {"only the magic", "\x93NUMPY", "not a .npy file"},
      {"version 0", file_of(header_of("(6,)"), kFloats, 0), "version 0.0"},
      {"version 4", file_of(header_of("(6,)"), kFloats, 4), "version 4.0"},
      {"no length", std::string("\x93NUMPY\x01\x00\x10", 9), "the header is cut off"},
      {"half a header", file_of(header_of("(6,)"), "").substr(0, 40), "the header is cut off"},
      {"4 GB of header", std::string("\x93NUMPY\x02\x00", 8) + "\xff\xff\xff\xff{",
       "a header of 4294967295 bytes"},
      {"60 KB of nothing", file_of(std::string(60000, '('), ""), "expected '{'"},
      {"60 KB of one string", file_of("{'descr': '" + std::string(60000, 'a'), ""),
       "expected a closing quote"},
      {"an empty header", file_of("", ""), "expected '{'"},
      {"no type", file_of("{'fortran_order': False, 'shape': (6,)}", kFloats),
       "the key 'descr' is missing"},
      {"no order", file_of("{'descr': '<f4', 'shape': (6,)}", kFloats),
       "the key 'fortran_order' is missing"},
      {"no shape", file_of("{'descr': '<f4', 'fortran_order': False}", kFloats),
       "the key 'shape' is missing"},
      {"a key twice",
       file_of("{'descr': '<f4', 'descr': '<f8', 'fortran_order': False, 'shape': (6,)}", kFloats),
       "'descr' appears twice"},
      {"one key more",
       file_of("{'descr': '<f4', 'fortran_order': False, 'shape': (6,), 'x': 1}", kFloats),
       "unknown key 'x'"},
      {"two commas", file_of("{'descr': '<f4',, 'fortran_order': False, 'shape': (6,)}", kFloats),
       "expected a string"},
      {"no commas", file_of("{'descr': '<f4' 'fortran_order': False, 'shape': (6,)}", kFloats),
       "expected ','"},
      {"text after", file_of(header_of("(6,)") + "import os", kFloats),
       "text after the dictionary"},
      {"another value for the order", file_of(header_of("(6,)", "'<f4'", "false"), kFloats),
       "expected True or False"},
      {"Fortran order", file_of(header_of("(2, 3)", "'<f4'", "True"), kFloats),
       "ascontiguousarray"},
      {"big-endian", file_of(header_of("(6,)", "'>f4'"), kFloats), "big-endian"},
      {"half precision of 16 bytes", file_of(header_of("(6,)", "'<f16'"), kFloats),
       "unsupported type '<f16'"},
      {"strings", file_of(header_of("(6,)", "'<U4'"), kFloats), "unsupported type '<U4'"},
      {"an empty type", file_of(header_of("(6,)", "''"), kFloats), "unsupported type ''"},
      {"a structure", file_of(header_of("(6,)", "[('a', '<f4')]"), kFloats), "a structure"},
      {"a number for the shape", file_of(header_of("6"), kFloats), "expected '('"},
      {"parentheses are no tuple", file_of(header_of("(6)"), kFloats), "expected ','"},
      {"a list for the shape", file_of(header_of("[6]"), kFloats), "expected '('"},
      {"a negative size", file_of(header_of("(-8,)"), kFloats), "0 or more, got -8"},
      {"a fraction", file_of(header_of("(6.0,)"), kFloats), "expected ','"},
      {"a word for a size", file_of(header_of("(n,)"), kFloats), "expected an integer size"},
      {"more than 64 bits", file_of(header_of("(99999999999999999999,)"), kFloats),
       "fits in 64 bits"},
      {"a product of 2^64", file_of(header_of("(4294967296, 4294967296)"), kFloats),
       "larger than any memory"},
      {"a zero hides no overflow", file_of(header_of("(4294967296, 4294967296, 0)"), ""),
       "larger than any memory"},
      {"2^62 bytes", file_of(header_of("(1152921504606846976,)"), kFloats),
       "larger than any memory"},
      {"2^50 elements that are not there", file_of(header_of("(1125899906842624,)"), kFloats),
       "got 24"},
      {"65 dimensions", file_of(header_of(long_shape), kFloats.substr(0, 4)),
       "at most 64 dimensions, got more"},
      {"data too short", file_of(header_of("(7,)"), kFloats),
       "expected 28 bytes of data for the shape, got 24"},
      {"data too long", file_of(header_of("(5,)"), kFloats),
       "expected 20 bytes of data for the shape, got more"}};
  for (const Bad& row : table) {
    SCOPED_TRACE(row.what);
    try {
      parse(row.bytes);
      ADD_FAILURE() << "was read";
    } catch (const NpyError& error) {
      EXPECT_NE(std::string(error.what()).find(row.words), std::string::npos) << error.what();
    }
  }
}

// A mutated file is either read according to its header, or refused with an NpyError.
TEST(Npy, MutatedFilesAreReadOrRefused) {
  const std::vector<std::string> seeds = {
      file_of(header_of("(2, 3)"), kFloats), file_of(header_of("(24,)", "'|i1'"), kFloats, 2),
      file_of(header_of("(4294967296, 4294967296)"), kFloats), file_of(header_of("(0, 3)"), "", 3)};
  const std::string letters = "{}()[]',:\"-0123456789<>|fiubTrueFalse \n\t\xff";
  std::mt19937 random(13);
  const auto below = [&](size_t n) { return static_cast<size_t>(random()) % n; };
  int read = 0, refused = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = seeds[below(seeds.size())];
    for (size_t n = 1 + below(3); n > 0 && !bytes.empty(); --n) {
      const size_t at = below(bytes.size());
      const size_t how = below(4);
      if (how == 0) bytes[at] = static_cast<char>(random());
      if (how == 1) bytes[at] = letters[below(letters.size())];
      if (how == 2) bytes.insert(at, 1, letters[below(letters.size())]);
      if (how == 3) bytes.erase(at, 1 + below(8));
    }
    try {
      const Array array = parse(bytes);
      ASSERT_EQ(
          array.bytes.size() % std::max<size_t>(static_cast<size_t>(elements(array.shape)), 1), 0u);
      ++read;
    } catch (const NpyError&) {
      ++refused;
    }
  }
  EXPECT_GT(read, 100);
  EXPECT_GT(refused, 1000);
}

TEST(Npy, ConversionKeepsValuesOrIsRefused) {
  const auto words_of = [](const Array& array, DType to) {
    try {
      convert(array, to);
      return std::string("converted");
    } catch (const Failure& failure) {
      return std::string(failure.what());
    }
  };
  const Array large{
      .descr = "<i8", .shape = {1}, .bytes = little_endian(3000000000, 8), .source = "x.npy"};
  EXPECT_EQ(words_of(large, DType::i64), "converted");
  EXPECT_NE(
      words_of(large, DType::i32).find("x.npy: element 0 is 3000000000, outside the range of i32"),
      std::string::npos);
  const Array half{
      .descr = "<f4", .shape = {1}, .bytes = little_endian(std::bit_cast<uint32_t>(0.5f), 4)};
  EXPECT_NE(words_of(half, DType::i32).find("expected integers for i32, got <f4"),
            std::string::npos);
  EXPECT_EQ(convert(half, DType::bf16), little_endian(0x3f00, 2));
  EXPECT_EQ(convert(half, DType::f16), little_endian(0x3800, 2));
  const Array brain{.descr = "<u2", .shape = {1}, .bytes = little_endian(0x3f00, 2)};
  EXPECT_EQ(convert(brain, DType::bf16), brain.bytes);
  EXPECT_NE(
      words_of(brain, DType::f32).find("expected f32, got <u2 (uint16), which is read as bf16"),
      std::string::npos);
  const Array small{.descr = "|i1", .shape = {1}, .bytes = "\xff"};
  EXPECT_EQ(convert(small, DType::i64), std::string(8, '\xff'));
  EXPECT_EQ(convert(small, DType::i16), std::string(2, '\xff'));
  const Array medium{
      .descr = "<i2", .shape = {1}, .bytes = little_endian(0x8000, 2), .source = "m.npy"};
  EXPECT_EQ(convert(medium, DType::i16), medium.bytes);
  EXPECT_EQ(convert(medium, DType::i32), little_endian(0xffff8000, 4));
  EXPECT_NE(words_of(medium, DType::i8)
                .find("m.npy: element 0 is -32768, outside the range of i8 (-128 to 127)"),
            std::string::npos);
  EXPECT_EQ(from_memory(medium.bytes, DType::i16, {1}).descr, "<i2");
  EXPECT_EQ(convert(half, DType::f8e4m3), "\x30");
  EXPECT_EQ(convert(half, DType::f8e5m2), "\x38");
  const Array beyond{
      .descr = "<f4", .shape = {1}, .bytes = little_endian(std::bit_cast<uint32_t>(-1e6f), 4)};
  EXPECT_EQ(convert(beyond, DType::f8e5m2), "\xfb");
  const Array codes{.descr = "|u1", .shape = {2}, .bytes = "\x30\x7c", .source = "c.npy"};
  EXPECT_EQ(convert(codes, DType::f8e5m2), codes.bytes);
  EXPECT_NE(words_of(codes, DType::f32)
                .find("c.npy: expected f32, got |u1 (uint8), which is read as fp8 codes; save the "
                      "array with another dtype, such as float32"),
            std::string::npos);
  EXPECT_EQ(from_memory(codes.bytes, DType::f8e4m3, {2}).descr, "|u1");
  EXPECT_EQ(to_doubles(codes.bytes, DType::f8e4m3), (std::vector<double>{0.5, 384}));
}

}  // namespace
}  // namespace ligerdsl::cli
