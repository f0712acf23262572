// Tests meta-parameters, the registry, and the C table between binaries.
#include <gtest/gtest.h>

#include <algorithm>

#include "ligerdsl/dsl.h"
#include "program/print.h"
#include "program/serialize.h"

namespace ligerdsl {
namespace {

enum class Mode { sum, product };

struct TestMeta {
  DType type = bf16;
  Mode mode = Mode::sum;
  int64_t block = 1024;
  int warps = 4;
  bool flip = false;
  double scale = 0.5;

  template <class V>
  void visit(V&& v) {
    v("type", type);
    v("mode", mode, {"sum", "product"});
    v("block", block);
    v("warps", warps);
    v("flip", flip);
    v("scale", scale);
  }
};

void build(KernelBuilder& k, const TestMeta& m) {
  View out = k.view("out", m.type, {dyn});
  View in = k.view("in", m.type, {dyn});
  Scalar i = k.program_id(0);
  Tile x = in.partition({m.block}).load({i}).to(f32);
  x = m.mode == Mode::sum ? x + m.scale : x * m.scale;
  out.partition({m.block}).store({i}, x.to(m.type));
}

const Kernel<TestMeta> kKernel{.name = "test_kernel",
                               .description = "out = in + scale, or in * scale",
                               .build = build,
                               .launch = [](const TestMeta& m, const LaunchArguments& a) {
                                 return Launch{.grid = {ceil_div(a.dim("out", 0), m.block)},
                                               .num_warps = m.warps};
                               }};
LIGERDSL_REGISTER_KERNEL(kKernel);

// A kernel whose launch rule sets every field to a value other than its default.
const Kernel<TestMeta> kBusyKernel{.name = "busy_kernel",
                                   .description = "the same",
                                   .build = build,
                                   .launch = [](const TestMeta&, const LaunchArguments& a) {
                                     return Launch{.grid = {a.dim("out", 0), 3, 5},
                                                   .num_warps = 16,
                                                   .num_ctas = 8,
                                                   .num_stages = 4,
                                                   .min_ctas_per_sm = 2,
                                                   .max_registers = 96,
                                                   .no_alias = true};
                                   }};
LIGERDSL_REGISTER_KERNEL(kBusyKernel);

// A kernel whose launch rule reads the grid size from the scalar n.
const Kernel<TestMeta> kAskingKernel{.name = "asking_kernel",
                                     .description = "the same",
                                     .build = build,
                                     .launch = [](const TestMeta&, const LaunchArguments& a) {
                                       return Launch{.grid = {a.integer("n")}};
                                     }};
LIGERDSL_REGISTER_KERNEL(kAskingKernel);

enum class Order { rows, columns };

// A meta struct that declares its schedule fields, with choices.
struct ScheduleMeta {
  int64_t block = 64;
  int warps = 4;
  bool ahead = false;
  Order order = Order::rows;

  template <class V>
  void visit(V&& v) {
    v("block", block, powers_of_two(32, 256), Bits::row);
    v("warps", warps, choices({1, 3, 4}), Bits::batch);
    v("ahead", ahead, Bits::same);
    v("order", order, {"rows", "columns"}, Bits::same);
  }
};

const Kernel<ScheduleMeta> kScheduledKernel{
    .name = "scheduled_kernel",
    .description = "the same",
    .build = [](KernelBuilder& k,
                const ScheduleMeta& m) { build(k, {.block = m.block, .flip = m.ahead}); },
    .launch =
        [](const ScheduleMeta& m, const LaunchArguments& a) {
          return Launch{.grid = {ceil_div(a.dim("out", 0), m.block)}, .num_warps = m.warps};
        }};
LIGERDSL_REGISTER_KERNEL(kScheduledKernel);

std::string message_of(const std::function<void()>& code) {
  try {
    code();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Meta, FieldsHaveTypesValuesAndChoices) {
  const auto fields = meta_fields(TestMeta{});
  ASSERT_EQ(fields.size(), 6u);
  EXPECT_EQ(fields[0].type, "dtype");
  EXPECT_EQ(fields[0].value, "bf16");
  EXPECT_EQ(fields[1].type, "enum");
  EXPECT_EQ(fields[1].choices, (std::vector<std::string>{"sum", "product"}));
  EXPECT_EQ(fields[2].value, "1024");
  EXPECT_EQ(fields[4].value, "false");
  EXPECT_EQ(fields[5].value, "0.5");
}

TEST(Meta, ParsesValuesFromText) {
  const auto meta = meta_from<TestMeta>("k", {{"type", "f32"},
                                              {"mode", "product"},
                                              {"block", "256"},
                                              {"flip", "true"},
                                              {"scale", "1e-3"}});
  EXPECT_EQ(meta.type, f32);
  EXPECT_EQ(meta.mode, Mode::product);
  EXPECT_EQ(meta.block, 256);
  EXPECT_EQ(meta.warps, 4);
  EXPECT_TRUE(meta.flip);
  EXPECT_EQ(meta.scale, 1e-3);
}

TEST(Meta, ErrorNamesInvalidText) {
  const auto bad = [](const MetaValues& values) {
    return message_of([&] { meta_from<TestMeta>("k", values); });
  };
  EXPECT_EQ(bad({{"type", "f64"}}),
            "error: meta-parameter 'type': expected one of i1, i8, i32, i64, f16, bf16, f32, i16, "
            "f8e4m3, f8e5m2, got 'f64'");
  EXPECT_EQ(bad({{"mode", "max"}}),
            "error: meta-parameter 'mode': expected one of sum, product, got 'max'");
  EXPECT_EQ(bad({{"warps", "5000000000"}}),
            "error: meta-parameter 'warps': expected an integer from -2147483648 to 2147483647, "
            "got '5000000000'");
  EXPECT_EQ(bad({{"flip", "1"}}),
            "error: meta-parameter 'flip': expected one of false, true, got '1'");
  EXPECT_EQ(bad({{"scale", "x"}}), "error: meta-parameter 'scale': expected a number, got 'x'");
  EXPECT_EQ(bad({{"blok", "1"}}),
            "error: kernel 'k' has no meta-parameter 'blok'; it has type, mode, block, warps, "
            "flip, scale");
}

TEST(Registry, FindsRecordsAndLaunchesKernels) {
  const AnyKernel* kernel = Registry::global().find("test_kernel");
  ASSERT_NE(kernel, nullptr);
  EXPECT_EQ(Registry::global().find("no_such"), nullptr);
  EXPECT_EQ(kernel->program_bytes({}), program_bytes(kKernel, TestMeta{}));
  EXPECT_EQ(kernel->program_bytes({{"block", "64"}}),
            program::serialize(record(kKernel, TestMeta{.block = 64})));
  const LaunchArguments arguments({{"out", {5000}, {1}, 0.0}, {"in", {5000}, {1}, 0.0}});
  const Launch launch = kernel->launch({{"block", "64"}, {"warps", "8"}}, arguments);
  EXPECT_EQ(launch.grid, std::vector<Size>{79});
  EXPECT_EQ(launch.num_warps, 8);
}

TEST(Registry, RejectsDuplicateKernelNames) {
  const std::string message = "error: another kernel is registered as 'test_kernel'; rename one";
  EXPECT_EQ(message_of([] {
              Registry::global().add(std::make_unique<detail::KernelAdapter<TestMeta>>(kKernel));
            }),
            message);
  // The constructor runs while a shared object loads and must not throw. The library's kernel table
  // reports the error later.
  detail::Registration again(kKernel);
  EXPECT_EQ(message_of([] { kernels_of(author_table()); }), message);
  Registry::global().problems().clear();
  Kernel<TestMeta> no_rule{.name = "no_rule", .build = build};
  detail::Registration incomplete(no_rule);
  EXPECT_EQ(message_of([] { kernels_of(author_table()); }),
            "error: kernel 'no_rule' has no launch rule; set Kernel::launch");
  Registry::global().problems().clear();
}

TEST(LaunchArguments, ErrorNamesUnknownArgumentOrAxis) {
  const LaunchArguments arguments({{"x", {4, 8}, {8, 1}, 0.0}, {"n", {}, {}, 7.0}});
  EXPECT_EQ(arguments.dim("x", -1), 8);
  EXPECT_EQ(arguments.stride("x", 0), 8);
  EXPECT_EQ(arguments.integer("n"), 7);
  EXPECT_EQ(message_of([&] { arguments.dim("y", 0); }),
            "error: launch rule: there is no argument 'y'; the arguments are x, n");
  EXPECT_EQ(message_of([&] { arguments.dim("x", 2); }),
            "error: launch rule: argument 'x': expected an axis from -2 to 1, got 2");
}

TEST(LaunchArguments, ReadsScalarsExactly) {
  const int64_t odd = (int64_t{1} << 53) + 1;  // no double
  const LaunchArguments arguments({{"x", {4, 8}, {8, 1}, 0.0},
                                   {.name = "n", .integer = odd},
                                   {"f", {}, {}, 1e300},
                                   {"half", {}, {}, 0.5},
                                   {"two", {}, {}, 2.0},
                                   {.name = "p", .pointer = true}});
  EXPECT_EQ(arguments.integer("n"), odd);
  EXPECT_EQ(arguments.integer("two"), 2);
  EXPECT_EQ(arguments.number("f"), 1e300);
  EXPECT_EQ(arguments.number("n"), 0x1p53);
  EXPECT_EQ(
      message_of([&] { arguments.integer("x"); }),
      "error: launch rule: argument 'x' is a view of rank 2, expected a scalar; read its sizes "
      "with dim(\"x\", axis)");
  EXPECT_NE(message_of([&] { arguments.number("x"); }).find("is a view of rank 2"),
            std::string::npos);
  EXPECT_EQ(message_of([&] { arguments.number("p"); }),
            "error: launch rule: argument 'p' is a pointer, expected a scalar");
  EXPECT_EQ(message_of([&] { arguments.integer("f"); }),
            "error: launch rule: argument 'f' is 1e+300, which is not a 64-bit integer; read it "
            "with number()");
  EXPECT_NE(message_of([&] { arguments.integer("half"); }).find("'half' is 0.5"),
            std::string::npos);
}

TEST(Author, TableDescribesTheRegisteredKernels) {
  auto kernels = kernels_of(author_table());
  ASSERT_EQ(kernels.size(), Registry::global().all().size());
  const AnyKernel& kernel = *kernels[0];
  EXPECT_EQ(kernel.name(), "test_kernel");
  EXPECT_EQ(kernel.description(), kKernel.description);
  const auto fields = kernel.fields();
  ASSERT_EQ(fields.size(), 6u);
  EXPECT_EQ(fields[1].name, "mode");
  EXPECT_EQ(fields[1].choices, (std::vector<std::string>{"sum", "product"}));
  EXPECT_EQ(fields[2].choices, std::vector<std::string>{});
  EXPECT_EQ(kernel.program_bytes({{"mode", "product"}}),
            program_bytes(kKernel, TestMeta{.mode = Mode::product}));
  const LaunchArguments arguments({{"out", {100}, {1}, 0.0}});
  EXPECT_EQ(kernel.launch({{"block", "32"}}, arguments).grid, (std::vector<Size>{4, 1, 1}));
}

// The registry and the kernel table must both give the choices of an author's fields, and their
// effect on the bits of results.
TEST(Author, TablePassesChoices) {
  const auto loaded = kernels_of(author_table());
  const auto is_scheduled = [](const auto& kernel) { return kernel->name() == "scheduled_kernel"; };
  const auto of_table = std::find_if(loaded.begin(), loaded.end(), is_scheduled);
  const auto& all = Registry::global().all();
  const auto own = std::find_if(all.begin(), all.end(), is_scheduled);
  ASSERT_NE(of_table, loaded.end());
  ASSERT_NE(own, all.end());
  for (const AnyKernel* kernel : {static_cast<const AnyKernel*>(of_table->get()),
                                  static_cast<const AnyKernel*>(own->get())}) {
    const std::vector<MetaField> fields = kernel->fields();
    ASSERT_EQ(fields.size(), 4u);
    EXPECT_EQ(fields[0].choices, (std::vector<std::string>{"32", "64", "128", "256"}));
    EXPECT_EQ(fields[0].bits, Bits::row);
    EXPECT_EQ(fields[1].choices, (std::vector<std::string>{"1", "3", "4"}));
    EXPECT_EQ(fields[1].bits, Bits::batch);
    EXPECT_EQ(fields[2].choices, (std::vector<std::string>{"false", "true"}));
    EXPECT_EQ(fields[2].bits, Bits::same);
    EXPECT_EQ(fields[3].choices, (std::vector<std::string>{"rows", "columns"}));
    EXPECT_EQ(fields[3].bits, Bits::same);
    const LaunchArguments arguments({{"out", {100}, {1}, 0.0}});
    EXPECT_EQ(kernel->launch({{"block", "32"}, {"warps", "1"}}, arguments).grid_at(0)[0], 4);
    EXPECT_NE(message_of([&] {
                kernel->program_bytes({{"warps", "2"}});
              }).find("'warps': expected one of 1, 3, 4, got '2'"),
              std::string::npos);
  }
  EXPECT_EQ(loaded[0]->fields()[2].bits, Bits::fixed) << "`block` of test_kernel has no choices";
}

TEST(Author, TablePassesErrorsAsText) {
  auto kernels = kernels_of(author_table());
  EXPECT_EQ(message_of([&] {
              kernels[0]->program_bytes({{"mode", "max"}});
            }),
            "error: kernel 'test_kernel': meta-parameter 'mode': expected one of sum, product, got "
            "'max'");
  EXPECT_NE(message_of([&] {
              kernels[0]->program_bytes({{"block", "33"}});
            }).find("kernel_test.cpp:"),
            std::string::npos);
  EXPECT_NE(message_of([&] {
              kernels[0]->program_bytes({{"block", "33"}});
            }).find(": error: kernel 'test_kernel': partition: "),
            std::string::npos);
  EXPECT_EQ(
      message_of([&] { kernels[0]->launch({}, LaunchArguments()); }),
      "error: kernel 'test_kernel': launch rule: there is no argument 'out'; the arguments are "
      "none");
}

TEST(Author, RejectsTableWithoutARequiredFunction) {
  for (const auto break_it : std::vector<void (*)(ligerdsl_author_table&)>{
           [](ligerdsl_author_table& t) { t.count = nullptr; },
           [](ligerdsl_author_table& t) { t.describe = nullptr; },
           [](ligerdsl_author_table& t) { t.record = nullptr; },
           [](ligerdsl_author_table& t) { t.launch = nullptr; },
           [](ligerdsl_author_table& t) { t.free_bytes = nullptr; },
           [](ligerdsl_author_table& t) {
             t.struct_size = offsetof(ligerdsl_author_table, free_bytes);
           }}) {
    ligerdsl_author_table table = *author_table();
    break_it(table);
    EXPECT_EQ(message_of([&] { kernels_of(&table); }),
              "error: the kernel table lacks functions; export the kernels with "
              "LIGERDSL_EXPORT_KERNELS()");
  }
}

TEST(Author, TableWithoutTargetFunctionsUsesTheOthers) {
  ligerdsl_author_table table = *author_table();
  table.record_for = nullptr;
  table.launch_for = nullptr;
  EXPECT_EQ(kernels_of(&table).size(), kernels_of(author_table()).size());
  EXPECT_EQ(kernels_of(&table)[0]->program_bytes({}, std::nullopt),
            kernels_of(author_table())[0]->program_bytes({}, std::nullopt));
}

TEST(Author, RejectsImpossibleKernelCount) {
  ligerdsl_author_table table = *author_table();
  table.count = [] { return SIZE_MAX; };
  EXPECT_EQ(message_of([&] { kernels_of(&table); }),
            "error: the kernel table has 18446744073709551615 kernels, expected at most 65536");
}

// Each name of a setting must belong to exactly one field or argument.
TEST(Names, SettingsMustBeDistinct) {
  const auto message = [](std::vector<MetaField> fields, std::vector<std::string> arguments) {
    return message_of([&] { detail::require_distinct_names("k", fields, arguments); });
  };
  const MetaField n{"n", "int", "1", {}}, warps{"num_warps", "int", "4", {}};
  EXPECT_EQ(message({n}, {"x", "y"}), "no error");
  EXPECT_EQ(
      message({n, n}, {}),
      "error: kernel 'k': a meta-parameter has the name 'n' of another meta-parameter; rename "
      "it");
  EXPECT_EQ(message({n}, {"x", "n"}),
            "error: kernel 'k': an argument has the name 'n' of a meta-parameter; rename it");
  EXPECT_EQ(
      message({warps}, {}),
      "error: kernel 'k': a meta-parameter has the name 'num_warps' of a launch setting; rename "
      "it");
  EXPECT_NE(message({}, {"no_alias"}).find("an argument has the name 'no_alias'"),
            std::string::npos);
}

struct TwiceMeta {
  int64_t block = 64;
  template <class V>
  void visit(V&& v) {
    v("block", block);
    v("block", block);
  }
};

TEST(Names, FieldsAreCheckedAtRegistration) {
  const Kernel<TwiceMeta> kernel{
      .name = "listed_twice",
      .description = "",
      .build = [](KernelBuilder&, const TwiceMeta&) {},
      .launch = [](const TwiceMeta&, const LaunchArguments&) { return Launch{}; },
  };
  detail::Registration registered(kernel);
  EXPECT_NE(message_of([] {
              kernels_of(author_table());
            }).find("kernel 'listed_twice': a meta-parameter has the name 'block'"),
            std::string::npos);
  Registry::global().problems().clear();
}

TEST(Meta, PowersOfTwoStartAtOneAndDoNotOverflow) {
  EXPECT_EQ(powers_of_two(-3, 4).values, (std::vector<int64_t>{1, 2, 4}));
  EXPECT_EQ(powers_of_two(int64_t{1} << 61, INT64_MAX).values,
            (std::vector<int64_t>{int64_t{1} << 61, int64_t{1} << 62}));
}

TEST(Author, ImpossibleLaunchIsAnErrorOfTheLaunchRule) {
  const auto problem = [](Launch launch) {
    return message_of([&] { detail::require_possible("k", launch); });
  };
  EXPECT_EQ(problem({}), "no error");
  EXPECT_EQ(
      problem({.grid = {ceil_div(Size::rows(), 4)}}),
      "error: kernel 'k': its launch rule gives a grid of ceil_div(rows, 4), expected a number; "
      "use the sizes in LaunchArguments instead of Size::rows()");
  EXPECT_EQ(problem({.num_warps = 3}),
            "error: kernel 'k': its launch rule gives num_warps = 3, expected a power of two from "
            "1 to 32");
  EXPECT_NE(problem({.num_warps = 64}).find("num_warps = 64"), std::string::npos);
  EXPECT_NE(problem({.num_ctas = 32}).find("num_ctas = 32, expected a power of two from 1 to 16"),
            std::string::npos);
  EXPECT_NE(problem({.num_stages = -5}).find("num_stages = -5, expected 1 to 16"),
            std::string::npos);
  EXPECT_NE(problem({.min_ctas_per_sm = 33}).find("min_ctas_per_sm = 33, expected 0 to 32"),
            std::string::npos);
  EXPECT_NE(problem({.max_registers = 256}).find("max_registers = 256, expected 24 to 255, or 0"),
            std::string::npos);
  EXPECT_NE(problem({.max_registers = 23}).find("max_registers = 23, expected 24 to 255, or 0"),
            std::string::npos);
  EXPECT_NE(problem({.grid = {1, -1}}).find("the size of a grid axis = -1"), std::string::npos);
  EXPECT_NE(problem({.grid = {int64_t{1} << 31}}).find("2147483648"), std::string::npos);
  EXPECT_NE(problem({.grid = {}}).find("a grid with 0 axes"), std::string::npos);
}

TEST(Author, TablePassesEveryLaunchField) {
  const LaunchArguments arguments({{"out", {100}, {1}, 0.0}, {"n", {}, {}, 7.0}});
  const Launch own = kBusyKernel.launch({}, arguments);
  EXPECT_EQ(kernels_of(author_table())[1]->launch({}, arguments), own);
  const Launch defaults;
  EXPECT_NE(own.num_warps, defaults.num_warps);
  EXPECT_NE(own.num_ctas, defaults.num_ctas);
  EXPECT_NE(own.num_stages, defaults.num_stages);
  EXPECT_NE(own.min_ctas_per_sm, defaults.min_ctas_per_sm);
  EXPECT_NE(own.max_registers, defaults.max_registers);
  EXPECT_NE(own.no_alias, defaults.no_alias);
}

// A caller built before the field `no_alias` existed passes a smaller struct. It gets the fields
// that it knows, or an error if the rule sets a newer field.
TEST(Author, SmallerLaunchStructGetsTheFieldsItHas) {
  const ligerdsl_author_table& table = *author_table();
  const size_t known = offsetof(ligerdsl_author_launch, no_alias);
  const int64_t dims[1] = {100}, strides[1] = {1};
  const ligerdsl_author_argument out{
      sizeof(ligerdsl_author_argument), "out", 1, dims, strides, 0, 0, 0, 0};
  const auto launch_of = [&](size_t index, ligerdsl_author_launch* launch) {
    launch->struct_size = known;
    launch->no_alias = 77;
    ligerdsl_author_bytes error{};
    table.launch(index, "", &out, 1, launch, &error);
    const std::string message(error.data ? error.data : "");
    table.free_bytes(error);
    return message;
  };
  ligerdsl_author_launch launch{};
  EXPECT_EQ(launch_of(0, &launch), "");
  EXPECT_EQ(launch.struct_size, known);
  EXPECT_EQ(launch.num_stages, 2);
  EXPECT_EQ(launch.no_alias, 77) << "bytes after the caller's struct must not change";
  EXPECT_NE(launch_of(1, &launch)
                .find("sets a field of Launch that the loading program does not support"),
            std::string::npos);
  EXPECT_EQ(launch.no_alias, 77);
}

TEST(Author, TablePassesScalarsAndPointers) {
  const auto kernels = kernels_of(author_table());
  const AnyKernel& kernel = *kernels[2];
  ASSERT_EQ(kernel.name(), "asking_kernel");
  const int64_t odd = (int64_t{1} << 53) + 1;  // no double
  EXPECT_NE(message_of([&] {
              kernel.launch({}, LaunchArguments({{.name = "n", .integer = odd}}));
            }).find("9007199254740993"),
            std::string::npos);
  EXPECT_EQ(kernel.launch({}, LaunchArguments({{"n", {}, {}, 3.0}})).grid[0], 3);
  EXPECT_NE(message_of([&] {
              kernel.launch({}, LaunchArguments({{"n", {7}, {1}, 0.0}}));
            }).find("is a view of rank 1"),
            std::string::npos);
  EXPECT_NE(message_of([&] {
              kernel.launch({}, LaunchArguments({{.name = "n", .pointer = true}}));
            }).find("is a pointer"),
            std::string::npos);
}

TEST(Author, ReadsArgumentsOfALaterVersion) {
  struct Later {
    ligerdsl_author_argument known;
    int64_t more;
  };
  const ligerdsl_author_table& table = *author_table();
  const int64_t dims[1] = {5000}, strides[1] = {1};
  const Later arguments[2] = {{{sizeof(Later), "in", 1, dims, strides, 0, 0, 0, 0}, -1},
                              {{sizeof(Later), "out", 1, dims, strides, 0, 0, 0, 0}, -1}};
  ligerdsl_author_launch launch{};
  launch.struct_size = sizeof launch;
  ligerdsl_author_bytes error{};
  ASSERT_EQ(table.launch(0, "block=64", &arguments[0].known, 2, &launch, &error), 0);
  EXPECT_EQ(launch.grid[0], 79);
}

TEST(Author, RejectsOtherTableVersions) {
  for (uint32_t version : {1u, 7u}) {
    ligerdsl_author_table table = *author_table();
    table.version = version;
    EXPECT_EQ(message_of([&] { kernels_of(&table); }),
              "error: the kernel table has version " + std::to_string(version) +
                  ", but this program expects version 2; rebuild the kernels against the installed "
                  "headers");
  }
}

}  // namespace
}  // namespace ligerdsl
