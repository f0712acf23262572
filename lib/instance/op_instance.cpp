#include "lib/instance/op_instance.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string_view>

#include "lib/abi/structs.h"
#include "lib/instance/op_defaults.h"
#include "lib/text/clipped.h"
#include "lib/text/nearest.h"
#include "lib/text/numbers.h"
#include "lib/text/output.h"

namespace ligerdsl::cli {

namespace {

using lib::FieldInfo;
using lib::FieldRole;
using lib::FieldType;

constexpr uintptr_t kNoAddress = 4096;  // first address of place_tensors(), never dereferenced

template <class T>
void store(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

constexpr uint8_t kGuardByte = 0xa5;

// Returns the offset of a group in the rows. Sizes of successive groups have the ratios 0 : 1 : 2 :
// 3, repeated.
int64_t offset_of(int64_t group, int64_t groups, int64_t rows) {
  const auto parts = [](int64_t n) { return n / 4 * 6 + n % 4 * (n % 4 - 1) / 2; };
  return group == groups ? rows : rows * parts(group) / std::max<int64_t>(parts(groups), 1);
}

int symbol_named(const lib::OpInfo& info, std::string_view name) {
  for (size_t i = 0; i < info.symbols.size(); ++i) {
    if (info.symbols[i] == name) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace

const lib::OpInfo& find_op(const std::string& name, const std::vector<std::string>& also) {
  std::vector<std::string> names = also;
  for (const lib::OpInfo* op : lib::op_table()) {
    if (op->name == name) return *op;
    names.push_back(op->name);
  }
  throw Failure(kUsage, fmt::format("no operation{} is named '{}'{}; `ligerdsl list` prints all "
                                    "operations",
                                    also.empty() ? "" : " or loaded kernel", tune::clipped(name),
                                    did_you_mean(name, names)));
}

std::vector<std::string> setting_names(const lib::OpInfo& info) {
  std::vector<std::string> names;
  for (const FieldInfo& field : info.fields) names.push_back(field.name);
  for (const lib::ValueInfo& value : info.values) names.push_back(value.name);
  for (const char* letter : info.symbols) names.push_back(letter);
  if (info.list_offset >= 0) names.insert(names.end(), {"N", "T"});
  return names;
}

OpInstance::OpInstance(const lib::OpInfo& info, const std::vector<std::string>& settings)
    : info_(info), defaults_(defaults_of(info)), chosen_(info.symbols.size()), settings_(settings) {
  std::memcpy(desc_, info.desc_defaults, info.desc_size);
  std::memcpy(args_, info.args_defaults, info.args_size);
  apply_defaults();
  for (const Setting& setting : parse_settings(settings)) apply(setting);
  finish_sizes();
  make_slots();
}

OpInstance::~OpInstance() {
  for (void* memory : memory_) context_->device().free(memory);
}

void OpInstance::apply_defaults() {
  for (const FieldInfo& field : info_.fields) {
    if (field.role == FieldRole::dtype) {
      const bool index =
          std::string(field.name).find("label") == 0 || std::string(field.name).find("index") == 0;
      const bool f32 = field.dtypes & lib::bit(DType::f32);
      const int32_t dtype = index ? LIGERDSL_I64 : f32 ? LIGERDSL_F32 : LIGERDSL_F8E4M3;
      if (!field.optional || defaults_.is_usual(field.name))
        put_number(desc_, field.offset, field.type, dtype);
    }
    if (field.role == FieldRole::present && defaults_.is_usual(field.name))
      put_number(desc_, field.offset, field.type, 1);
  }
}

bool OpInstance::set_field(const Setting& setting) {
  for (const FieldInfo& field : info_.fields) {
    if (field.name != setting.name) continue;
    put_field(desc_, field, setting);
    chosen_fields_.insert(setting.name);
    if (field.role == FieldRole::dim)
      choose_size(field.symbol, lib::read_integer(desc_, field.offset, field.type), setting.text());
    for (const Follower& follower : defaults_.followers) {
      if (setting.name == follower.leader) set_field({std::string(follower.name), setting.value});
    }
    return true;
  }
  return false;
}

bool OpInstance::set_value(const Setting& setting) {
  for (const lib::ValueInfo& info : info_.values) {
    if (info.name != setting.name) continue;
    put_value(args_, info, setting);
    return true;
  }
  return false;
}

void OpInstance::apply(const Setting& setting) {
  if (config_.take(setting)) return;
  const int symbol = symbol_named(info_, setting.name);
  if (symbol >= 0) return choose_size(symbol, parse_size(setting), setting.text());
  if (info_.list_offset >= 0 && setting.name == "N") {
    list_elements_ = parse_size(setting);
    return;
  }
  if (info_.list_offset >= 0 && setting.name == "T") {
    list_length_ = parse_integer("T", setting.value, 0, 100000);
    return;
  }
  if (set_field(setting) || set_value(setting)) return;
  const std::vector<std::string> names = setting_names(info_);
  throw Failure(kUsage, fmt::format("{} has no setting '{}'{}; it has {}", info_.name, setting.name,
                                    did_you_mean(setting.name, names), fmt::join(names, " ")));
}

// Sets a size from a setting or array named `from`. Fails if another setting or array gave a
// different size.
void OpInstance::choose_size(int symbol, int64_t size, const std::string& from) {
  Chosen& chosen = chosen_[symbol];
  if (chosen.size >= 0 && chosen.size != size) {
    throw Failure(kUsage, fmt::format("{} is {} by {}, but {} by {}; remove one of the two",
                                      info_.symbols[symbol], chosen.size, chosen.from, size, from));
  }
  chosen = {size, from};
}

int64_t OpInstance::integer(const std::string& name, int64_t missing) const {
  for (const FieldInfo& field : info_.fields) {
    if (field.name == name) return lib::read_integer(desc_, field.offset, field.type);
  }
  for (const lib::ValueInfo& value : info_.values) {
    if (value.name == name) return lib::read_integer(args_, value.offset, value.type);
  }
  return missing;
}

double OpInstance::number(const std::string& name, double missing) const {
  const auto read = [](const std::byte* base, size_t offset, FieldType type) {
    return type == FieldType::f32 ? double{lib::read_float(base, offset)}
                                  : static_cast<double>(lib::read_integer(base, offset, type));
  };
  for (const FieldInfo& field : info_.fields) {
    if (field.name == name) return read(desc_, field.offset, field.type);
  }
  for (const lib::ValueInfo& value : info_.values) {
    if (value.name == name) return read(args_, value.offset, value.type);
  }
  return missing;
}

int64_t OpInstance::size(const std::string& letter) const {
  return sizes_.at(static_cast<size_t>(symbol_named(info_, letter)));
}

double OpInstance::value(Formula formula, double missing) const {
  if (!formula) return missing;
  return formula([this](std::string_view name) {
    const int symbol = symbol_named(info_, name);
    return symbol < 0 ? number(std::string(name), 0) : static_cast<double>(sizes_[symbol]);
  });
}

// Sets all sizes, the fields that store them, and fields derived from sizes.
void OpInstance::finish_sizes() {
  sizes_ = defaults_.sizes;
  for (size_t i = 0; i < sizes_.size(); ++i) {
    if (chosen_[i].size >= 0) sizes_[i] = chosen_[i].size;
  }
  for (const DerivedDefault& derived : defaults_.derived) {
    const int symbol = symbol_named(info_, derived.name);
    if (symbol >= 0 && chosen_[symbol].size < 0)
      sizes_[symbol] = static_cast<int64_t>(value(derived.formula, 1));
  }
  for (const FieldInfo& field : info_.fields) {
    if (field.role == FieldRole::dim)
      put_number(desc_, field.offset, field.type, static_cast<double>(sizes_[field.symbol]));
    for (const DerivedDefault& derived : defaults_.derived) {
      if (derived.name == field.name && !chosen_fields_.contains(field.name))
        put_number(desc_, field.offset, field.type, value(derived.formula, 0));
    }
  }
}

std::vector<int64_t> OpInstance::shape_of(const lib::TensorInfo& tensor) const {
  if (tensor.shape == lib::ShapeKind::free) {  // rope's tables; multimodal tables have three planes
    const int64_t positions = sizes_[symbol_named(info_, "S")],
                  columns = sizes_[symbol_named(info_, "D")];
    for (const FieldInfo& field : info_.fields) {
      if (std::string(field.name) != "layout") continue;
      if (lib::read_integer(desc_, field.offset, field.type) == LIGERDSL_ROPE_MULTIMODAL) {
        return {3, 1, positions, columns};
      }
    }
    return {positions, columns};
  }
  std::vector<int64_t> shape;
  for (int i = 0; i < tensor.rank; ++i) {
    shape.push_back((tensor.dims[i].symbol < 0 ? 1 : sizes_[tensor.dims[i].symbol]) *
                    tensor.dims[i].factor);
  }
  return shape;
}

void OpInstance::make_slots() {
  slots_.clear();
  const lib::BindRules rules = lib::make_bind_rules(info_, desc_, {LIGERDSL_CPU, 0});
  for (size_t i = 0; i < info_.tensors.size(); ++i) {
    if (!rules.given[i]) continue;
    slots_.push_back(
        {info_.tensors[i].name, &info_.tensors[i], rules.dtypes[i], shape_of(info_.tensors[i])});
  }
  if (rules.in_place) {
    for (const lib::AliasInfo& alias : info_.aliases) {
      Slot* output = find(info_.tensors[alias.output].name);
      const Slot* input = find(info_.tensors[alias.input].name);
      if (output && input && output->same_as < 0)
        output->same_as = static_cast<int>(input - slots_.data());
    }
  }
  if (info_.list_offset < 0) return;
  DType dtype = DType::f32;
  lib::dtype_from_code(lib::read_integer(desc_, info_.fields[0].offset, info_.fields[0].type),
                       &dtype);
  const int64_t n = list_elements_ >= 0 ? list_elements_ : int64_t{1} << 24;
  for (int64_t i = 0; i < list_length_; ++i)
    slots_.push_back({fmt::format("tensors[{}]", i), nullptr, dtype, {n}});
}

OpInstance::Slot* OpInstance::find(const std::string& name) {
  for (Slot& slot : slots_) {
    if (slot.name == name) return &slot;
  }
  return nullptr;
}

void OpInstance::take_shape(const std::string& name, const Array& array) {
  const std::vector<int64_t>& shape = array.shape;
  const std::string from =
      fmt::format("--in {}={} of shape [{}]", name, array.source, fmt::join(shape, ", "));
  const Slot* slot = find(name);
  if (!slot || !slot->info) {
    std::vector<std::string> names;
    for (const Slot& other : slots_) names.push_back(other.name);
    throw Failure(
        kUsage, fmt::format("{} has no tensor '{}' in this configuration{}; it has {}", info_.name,
                            name, did_you_mean(name, names), fmt::join(names, ", ")));
  }
  const lib::TensorInfo& info = *slot->info;
  if (info.shape == lib::ShapeKind::free) return;
  const size_t rank = info.rank, trailing = info.shape == lib::ShapeKind::leading ? rank - 1 : rank;
  if (shape.size() < trailing || (info.shape == lib::ShapeKind::fixed && shape.size() != trailing))
    throw Failure(kUsage, fmt::format("{}: expected {}{} dimensions, got {}", from, trailing,
                                      rank > trailing ? " or more" : "", shape.size()));
  // Joins the leading dimensions into one.
  std::vector<int64_t> sizes(shape.end() - static_cast<ptrdiff_t>(trailing), shape.end());
  if (rank > trailing)
    sizes.insert(sizes.begin(),
                 elements({shape.begin(), shape.end() - static_cast<ptrdiff_t>(trailing)}));
  for (size_t i = 0; i < rank; ++i) {
    const lib::DimSpec& dim = info.dims[i];
    if (dim.symbol < 0 ? sizes[i] != dim.factor : sizes[i] % dim.factor != 0)
      throw Failure(kUsage,
                    fmt::format("{}: expected a size of {}{}, got {}", from,
                                dim.symbol < 0 ? "" : "a multiple of ", dim.factor, sizes[i]));
    if (dim.symbol >= 0) choose_size(dim.symbol, sizes[i] / dim.factor, from);
  }
  finish_sizes();
  make_slots();
}

namespace {
constexpr int64_t kPeriod = 65536;  // elements after which random floats repeat, to save time
}

std::string OpInstance::random_bytes(const Slot& slot) const {
  const TensorDefaults& defaults = defaults_.of(slot.name);
  if (!defaults.bounds.empty()) {
    const int64_t groups = slot.shape[0] - 1, rows = size(std::string(defaults.bounds));
    std::string bytes;
    for (int64_t group = 0; group <= groups; ++group)
      append(&bytes, slot.dtype, static_cast<double>(offset_of(group, groups, rows)));
    return bytes;
  }
  std::mt19937_64 random(std::hash<std::string>{}(slot.name));
  std::normal_distribution<float> normal;
  const int classes = symbol_named(info_, "V");
  const auto mean = static_cast<float>(value(defaults.mean, 0)),
             deviation = static_cast<float>(value(defaults.deviation, 1));
  const int64_t all = elements(slot.shape),
                n = is_integer(slot.dtype) ? all : std::min(all, kPeriod);
  std::string bytes;
  bytes.reserve(static_cast<size_t>(n * size_of(slot.dtype)));
  for (int64_t i = 0; i < n; ++i) {
    if (is_integer(slot.dtype)) {
      append(&bytes, slot.dtype,
             classes < 0 ? 1.0
                         : static_cast<double>(random() % static_cast<uint64_t>(std::max<int64_t>(
                                                              sizes_[classes], 1))));
    } else {
      const float drawn = normal(random);
      append(&bytes, slot.dtype,
             defaults.positive ? std::fabs(drawn) + 0.01f : mean + deviation * drawn);
    }
  }
  return bytes;
}

// Copies the first period to the device and repeats it there, doubling the filled bytes with each
// copy.
void OpInstance::fill_random(const Slot& slot, size_t bytes) const {
  const std::string first = random_bytes(slot);
  runtime::Device& device = context_->device();
  device.copy(slot.data, first.data(), first.size(), nullptr);
  for (size_t done = first.size(); done < bytes;) {
    const size_t more = std::min(done, bytes - done);
    device.copy(static_cast<std::byte*>(slot.data) + done, slot.data, more, nullptr);
    done += more;
  }
  device.synchronize(nullptr);  // copies must end before the host bytes are freed
}

std::unique_ptr<lib::Plan> OpInstance::plan(const lib::ContextRef& context) {
  struct Configured {
    lib::Context& context;
    lib::KernelConfigs* base;
    ~Configured() { context.set_kernel_configs(base); }
  } const configured{*context, context->kernel_configs()};
  config_.forget_kernels();
  config_.set_base(configured.base);
  context->set_kernel_configs(&config_);
  auto plan = std::make_unique<lib::Plan>(info_, context, desc_);
  config_.require_taken(info_.name);
  return plan;
}

void OpInstance::allocate(const lib::ContextRef& context, size_t guard) {
  context_ = context;
  guard_ = guard;
  for (Slot& slot : slots_) {
    const size_t bytes = static_cast<size_t>(elements(slot.shape) * size_of(slot.dtype));
    if (slot.same_as >= 0) {
      slot.data = slots_[slot.same_as].data;
    } else {
      auto* base = static_cast<std::byte*>(context->device().alloc(bytes + 2 * guard));
      memory_.push_back(base);
      if (guard > 0) context->device().fill(base, kGuardByte, bytes + 2 * guard, nullptr);
      slot.data = base + guard;
      const bool output = slot.info && slot.info->direction == lib::Direction::out;
      if (output)
        context->device().fill(slot.data, 0xee, bytes, nullptr);
      else
        fill_random(slot, bytes);
    }
  }
  describe_tensors(context);
  context->device().synchronize_all();
}

void OpInstance::place_tensors(const lib::Plan& plan) {
  uintptr_t next = kNoAddress;
  for (Slot& slot : slots_) {
    slot.data = slot.same_as >= 0 ? slots_[slot.same_as].data : reinterpret_cast<void*>(next);
    const auto own = static_cast<size_t>(elements(slot.shape) * size_of(slot.dtype));
    if (slot.same_as < 0) next += (own / 256 + 1) * 256;
  }
  describe_tensors(lib::ContextRef(&plan.context(), [](lib::Context*) {}));
}

double OpInstance::bytes_to_allocate(const lib::Plan& plan, int workspaces, size_t guard) {
  double bytes = 0;
  for (const Slot& slot : slots_)
    if (slot.same_as < 0)
      bytes += static_cast<double>(elements(slot.shape) * size_of(slot.dtype) +
                                   2 * static_cast<int64_t>(guard));
  place_tensors(plan);
  return bytes + workspaces * static_cast<double>(bound(plan).workspace_bytes + 2 * guard);
}

size_t OpInstance::schedule(const lib::Plan& plan) {
  place_tensors(plan);
  return plan.op().schedule(bound(plan));
}

// Sets the tensors of the args struct from the slots.
void OpInstance::describe_tensors(const lib::ContextRef& context) {
  list_.clear();
  for (Slot& slot : slots_) {
    slot.tensor = ligerdsl_tensor_make(slot.data, context->api_device(), 0,
                                       static_cast<int32_t>(slot.shape.size()), slot.shape.data());
    slot.tensor.dtype = {dtype_info(slot.dtype).dlpack,
                         static_cast<uint8_t>(8 * size_of(slot.dtype)), 1};
    if (slot.info)
      store<const ligerdsl_tensor_t*>(args_ + slot.info->offset, &slot.tensor);
    else
      list_.push_back(slot.tensor);
  }
  if (info_.list_offset < 0) return;
  store<const ligerdsl_tensor_t*>(args_ + info_.list_offset, list_.data());
  store<int64_t>(args_ + info_.list_offset + sizeof(void*), static_cast<int64_t>(list_.size()));
}

std::string OpInstance::broken_guard() const {
  std::string bytes(guard_, '\0');
  for (const Slot& slot : slots_) {
    if (slot.same_as >= 0) continue;
    const auto* data = static_cast<const std::byte*>(slot.data);
    for (const std::byte* at : {data - guard_, data + elements(slot.shape) * size_of(slot.dtype)}) {
      context_->device().copy(bytes.data(), at, bytes.size(), nullptr);
      context_->device().synchronize(nullptr);
      if (bytes.find_first_not_of(static_cast<char>(kGuardByte)) != std::string::npos)
        return slot.name;
    }
  }
  return "";
}

void OpInstance::write(Slot& slot, const std::string& bytes) {
  context_->device().copy(slot.data, bytes.data(), bytes.size(), nullptr);
  context_->device().synchronize(nullptr);
}

std::string OpInstance::read(const Slot& slot) const {
  return read(slot, static_cast<size_t>(elements(slot.shape) * size_of(slot.dtype)));
}

std::string OpInstance::read(const Slot& slot, size_t first) const {
  std::string bytes(first, '\0');
  context_->device().copy(bytes.data(), slot.data, bytes.size(), nullptr);
  context_->device().synchronize(nullptr);
  return bytes;
}

lib::Call OpInstance::bound(const lib::Plan& plan) {
  lib::Call call{};
  call.args = args_;
  plan.bind(&call);
  call.workspace_bytes = plan.count(&call);
  return call;
}

void OpInstance::prepare(const lib::Plan& plan) {
  call_ = bound(plan);
  call_.workspace = static_cast<std::byte*>(context_->device().alloc(call_.workspace_bytes));
  memory_.push_back(call_.workspace);
}

// Returns true if a call reads the slot's initial contents. An inout gradient is read only if it is
// accumulated.
bool OpInstance::reads(const Slot& slot) const {
  if (!slot.info || slot.info->direction == lib::Direction::in) return true;
  const std::string_view flag = defaults_.of(slot.name).accumulate;
  return slot.info->direction == lib::Direction::inout &&
         (flag.empty() || integer(std::string(flag), 1) == 1);
}

bool OpInstance::writes(const Slot& slot) const {
  return slot.info && slot.info->direction != lib::Direction::in;
}

double OpInstance::bytes_moved() const {
  double bytes = 0;
  for (const Slot& slot : slots_) {
    const double moved =
        value(defaults_.of(slot.name).moved, static_cast<double>(elements(slot.shape)));
    bytes +=
        (int{reads(slot)} + int{writes(slot)}) * moved * static_cast<double>(size_of(slot.dtype));
  }
  return bytes;
}

double OpInstance::bytes_beyond_inputs() const {
  double bytes = static_cast<double>(call_.workspace_bytes);
  for (const Slot& slot : slots_) {
    if (!reads(slot) && slot.same_as < 0)
      bytes += static_cast<double>(elements(slot.shape) * size_of(slot.dtype));
  }
  return bytes;
}

double OpInstance::flops() const {
  if (!defaults_.flops) return 0;
  int64_t parts = 1;
  std::set<std::string_view> divided;
  for (const TensorDefaults& tensor : defaults_.tensors) {
    const Slot* bounds = find(std::string(tensor.tensor));
    if (tensor.bounds.empty() || !bounds) continue;
    parts = bounds->shape[0] - 1;
    divided.insert(tensor.bounds);
  }
  double sum = 0;
  for (int64_t part = 0; part < parts; ++part) {
    sum += defaults_.flops([&](std::string_view name) {
      const int symbol = symbol_named(info_, name);
      if (symbol < 0) return number(std::string(name), 0);
      const int64_t all = sizes_[symbol];
      if (!divided.contains(name)) return static_cast<double>(all);
      return static_cast<double>(offset_of(part + 1, parts, all) - offset_of(part, parts, all));
    });
  }
  return sum;
}

std::string OpInstance::title() const {
  std::string text;
  for (const std::string& setting : settings_) {
    if (symbol_named(info_, setting.substr(0, setting.find('='))) < 0) text += setting + " ";
  }
  for (size_t i = 0; i < sizes_.size(); ++i)
    text += fmt::format("{}={} ", info_.symbols[i], sizes_[i]);
  if (!text.empty()) text.pop_back();
  return text;
}

}  // namespace ligerdsl::cli
