#include "lib/instance/op_instance.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string_view>

#include "lib/instance/op_defaults.h"
#include "lib/src/structs.h"
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

// Returns the offset of a group. Sizes of groups repeat the pattern 0, 1, 2 and 3 parts of the
// rows.
int64_t offset_of(int64_t group, int64_t groups, int64_t rows) {
  const auto parts = [](int64_t n) { return n / 4 * 6 + n % 4 * (n % 4 - 1) / 2; };
  return group == groups ? rows : rows * parts(group) / std::max<int64_t>(parts(groups), 1);
}

// Returns the number of pairs of a query and a key that it attends to, without a window.
double seen_pairs(double queries, double keys, bool causal) {
  const double rows = std::min(queries, keys);
  return causal ? rows * (keys - rows) + rows * (rows + 1) / 2 : queries * keys;
}

int symbol_named(const lib::OpInfo& info, const std::string& name) {
  for (size_t i = 0; i < info.symbols.size(); ++i) {
    if (info.symbols[i] == name) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace

bool is_bounds(const std::string& tensor) {
  return tensor == "offsets" || tensor == "cu_seqlens_q" || tensor == "cu_seqlens_k";
}

const lib::OpInfo& find_op(const std::string& name, const std::vector<std::string>& also) {
  std::vector<std::string> names = also;
  for (const lib::OpInfo* op : lib::op_table()) {
    if (op->name == name) return *op;
    names.push_back(op->name);
  }
  throw Failure(kUsage, fmt::format("no operation '{}'{}; `ligerdsl list` prints them", tune::clipped(name),
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
    : info_(info), chosen_(info.symbols.size()), settings_(settings) {
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
  const OpDefaults& defaults = defaults_of(info_);
  for (const FieldInfo& field : info_.fields) {
    if (field.role == FieldRole::dtype) {
      const bool index = std::string(field.name).find("label") == 0 || std::string(field.name).find("index") == 0;
      const bool f32 = field.dtypes & lib::bit(DType::f32);
      const int32_t dtype = index ? LIGERDSL_I64 : f32 ? LIGERDSL_F32 : LIGERDSL_F8E4M3;
      if (!field.optional || defaults.is_usual(field.name)) put_number(desc_, field.offset, field.type, dtype);
    }
    if (field.role == FieldRole::present && defaults.is_usual(field.name))
      put_number(desc_, field.offset, field.type, 1);
  }
}

bool OpInstance::set_field(const Setting& setting) {
  for (const FieldInfo& field : info_.fields) {
    if (field.name != setting.name) continue;
    put_field(desc_, field, setting);
    if (field.role == FieldRole::queries) queries_chosen_ = true;
    if (setting.name.starts_with("max_seqlen_")) longest_chosen_.insert(setting.name);
    if (field.role == FieldRole::dim)
      choose_size(field.symbol, lib::read_integer(desc_, field.offset, field.type), setting.text());
    for (const Follower& follower : defaults_of(info_).followers) {
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

// Sets a size from a setting or an array, which `from` names. Fails if another one gave a different
// size.
void OpInstance::choose_size(int symbol, int64_t size, const std::string& from) {
  Chosen& chosen = chosen_[symbol];
  if (chosen.size >= 0 && chosen.size != size) {
    throw Failure(kUsage, fmt::format("{} is {} by {}, but {} by {}; leave one of them out", info_.symbols[symbol],
                                      chosen.size, chosen.from, size, from));
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

// Sets all sizes and the fields that hold them.
// - Reduced outputs have one element. Without a reduction, the row of the operation says which sizes
//   they have.
// - Statistics of a vocabulary's shards are those of one shard; they have more columns with label
//   smoothing.
void OpInstance::finish_sizes() {
  const int rows = symbol_named(info_, "N");
  const bool per_row = integer("reduction", -1) == LIGERDSL_REDUCTION_NONE || integer("per_row", -1) == 1;
  const OpDefaults& defaults = defaults_of(info_);
  const auto reduced = [&](size_t i) { return std::string_view("LZRG").find(info_.symbols[i]) != std::string::npos; };
  sizes_.assign(chosen_.size(), 0);
  for (size_t i = 0; i < sizes_.size(); ++i) {
    sizes_[i] = chosen_[i].size >= 0 ? chosen_[i].size : defaults.sizes[i];
  }
  int64_t losses = 1;
  if (per_row)
    for (const std::string_view letter : defaults.unreduced) losses *= size(std::string(letter));
  for (size_t i = 0; i < sizes_.size(); ++i) {
    if (chosen_[i].size < 0 && reduced(i)) sizes_[i] = losses;
  }
  if (const int offsets = symbol_named(info_, "O"); offsets >= 0 && chosen_[offsets].size < 0)
    sizes_[offsets] = sizes_[symbol_named(info_, "E")] + 1;
  const int shards = symbol_named(info_, "M"), statistics = symbol_named(info_, "C");
  if (shards >= 0 && rows >= 0 && chosen_[shards].size < 0) sizes_[shards] = sizes_[rows];
  const bool of_shards = std::string_view(info_.name).starts_with("vocab_parallel_");
  if (of_shards && chosen_[statistics].size < 0)
    sizes_[statistics] = number("label_smoothing", number("with_smoothing", 0)) != 0 ? 5 : 3;
  for (const FieldInfo& field : info_.fields) {
    if (field.role == FieldRole::dim)
      put_number(desc_, field.offset, field.type, static_cast<double>(sizes_[field.symbol]));
    if (field.role == FieldRole::queries && integer("causal", -1) == 1 && !queries_chosen_)
      put_number(desc_, field.offset, field.type, static_cast<double>(sizes_[rows]));
    // One sequence may hold all tokens.
    const std::string_view name = field.name;
    if (name.starts_with("max_seqlen_") && !longest_chosen_.contains(field.name))
      put_number(desc_, field.offset, field.type,
                 static_cast<double>(std::max<int64_t>(size(name.ends_with("q") ? "S" : "T"), 1)));
  }
}

std::vector<int64_t> OpInstance::shape_of(const lib::TensorInfo& tensor) const {
  if (tensor.shape == lib::ShapeKind::free) {  // rope's tables; a multimodal one has three planes
    const int64_t positions = sizes_[symbol_named(info_, "S")], columns = sizes_[symbol_named(info_, "D")];
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
    shape.push_back((tensor.dims[i].symbol < 0 ? 1 : sizes_[tensor.dims[i].symbol]) * tensor.dims[i].factor);
  }
  return shape;
}

void OpInstance::make_slots() {
  slots_.clear();
  const lib::BindRules rules = lib::make_bind_rules(info_, desc_, {LIGERDSL_CPU, 0});
  for (size_t i = 0; i < info_.tensors.size(); ++i) {
    if (!rules.given[i]) continue;
    slots_.push_back({info_.tensors[i].name, &info_.tensors[i], rules.dtypes[i], shape_of(info_.tensors[i])});
  }
  if (rules.in_place) {
    for (const lib::AliasInfo& alias : info_.aliases) {
      Slot* output = find(info_.tensors[alias.output].name);
      const Slot* input = find(info_.tensors[alias.input].name);
      if (output && input && output->same_as < 0) output->same_as = static_cast<int>(input - slots_.data());
    }
  }
  if (info_.list_offset < 0) return;
  DType dtype = DType::f32;
  lib::dtype_from_code(lib::read_integer(desc_, info_.fields[0].offset, info_.fields[0].type), &dtype);
  const int64_t n = list_elements_ >= 0 ? list_elements_ : int64_t{1} << 24;
  for (int64_t i = 0; i < list_length_; ++i) slots_.push_back({fmt::format("tensors[{}]", i), nullptr, dtype, {n}});
}

OpInstance::Slot* OpInstance::find(const std::string& name) {
  for (Slot& slot : slots_) {
    if (slot.name == name) return &slot;
  }
  return nullptr;
}

void OpInstance::take_shape(const std::string& name, const Array& array) {
  const std::vector<int64_t>& shape = array.shape;
  const std::string from = fmt::format("--in {}={} of shape [{}]", name, array.source, fmt::join(shape, ", "));
  const Slot* slot = find(name);
  if (!slot || !slot->info) {
    std::vector<std::string> names;
    for (const Slot& other : slots_) names.push_back(other.name);
    throw Failure(kUsage, fmt::format("{} has no tensor '{}' in this configuration{}; it has {}", info_.name, name,
                                      did_you_mean(name, names), fmt::join(names, ", ")));
  }
  const lib::TensorInfo& info = *slot->info;
  if (info.shape == lib::ShapeKind::free) return;
  const size_t rank = info.rank, trailing = info.shape == lib::ShapeKind::leading ? rank - 1 : rank;
  if (shape.size() < trailing || (info.shape == lib::ShapeKind::fixed && shape.size() != trailing))
    throw Failure(kUsage, fmt::format("{}: expected {} dimensions", from, rank));
  // Leading dimensions are joined into one.
  std::vector<int64_t> sizes(shape.end() - static_cast<ptrdiff_t>(trailing), shape.end());
  if (rank > trailing)
    sizes.insert(sizes.begin(), elements({shape.begin(), shape.end() - static_cast<ptrdiff_t>(trailing)}));
  for (size_t i = 0; i < rank; ++i) {
    const lib::DimSpec& dim = info.dims[i];
    if (dim.symbol < 0 ? sizes[i] != dim.factor : sizes[i] % dim.factor != 0)
      throw Failure(kUsage, fmt::format("{}: expected {}{} in place of {}", from,
                                        dim.symbol < 0 ? "" : "a multiple of ", dim.factor, sizes[i]));
    if (dim.symbol >= 0) choose_size(dim.symbol, sizes[i] / dim.factor, from);
  }
  finish_sizes();
  make_slots();
}

namespace {
constexpr int64_t kPeriod = 65536;  // floats repeat after this number of elements, which saves time
}

const char* OpInstance::rows_of_bounds(const std::string& name) const {
  if (name != "offsets") return name.ends_with("q") ? "S" : "T";
  return std::string_view(info_.name).ends_with("tn") ? "K" : "M";
}

std::string OpInstance::random_bytes(const Slot& slot) const {
  if (is_bounds(slot.name)) {
    const int64_t groups = slot.shape[0] - 1, rows = size(rows_of_bounds(slot.name));
    std::string bytes;
    for (int64_t group = 0; group <= groups; ++group)
      append(&bytes, slot.dtype, static_cast<double>(offset_of(group, groups, rows)));
    return bytes;
  }
  std::mt19937_64 random(std::hash<std::string>{}(slot.name));
  std::normal_distribution<float> normal;
  const bool positive =
      slot.name == "v" || slot.name == "rstd" || slot.name == "class_weight" || slot.name == "partials";
  const int classes = symbol_named(info_, "V");
  // These values give logits and attention scores a standard deviation of about 1, and an lse near
  // their real one.
  const std::string_view name = info_.name;
  const bool from_lse = name == "fused_linear_cross_entropy_backward", of_head = name.starts_with("fused_linear_");
  const bool of_scores = name.starts_with("attention_") && name.ends_with("_backward");
  const float centre = (from_lse || of_scores) && slot.name == "lse"
                           ? std::log(static_cast<float>(size(of_scores ? "T" : "V"))) + 0.5f
                           : 0.0f;
  const bool weight = slot.name == "weight" || slot.name == "target_weight";
  const float spread = of_head && weight ? 1 / std::sqrt(static_cast<float>(size("H"))) : centre != 0 ? 0.1f : 1.0f;
  const int64_t all = elements(slot.shape), n = is_integer(slot.dtype) ? all : std::min(all, kPeriod);
  std::string bytes;
  bytes.reserve(static_cast<size_t>(n * size_of(slot.dtype)));
  for (int64_t i = 0; i < n; ++i) {
    if (is_integer(slot.dtype)) {
      append(&bytes, slot.dtype,
             classes < 0
                 ? 1.0
                 : static_cast<double>(random() % static_cast<uint64_t>(std::max<int64_t>(sizes_[classes], 1))));
    } else {
      const float value = normal(random);
      append(&bytes, slot.dtype, positive ? std::fabs(value) + 0.01f : centre + spread * value);
    }
  }
  return bytes;
}

// Copies the first bytes to the device and doubles them there.
void OpInstance::fill_random(const Slot& slot, size_t bytes) const {
  const std::string first = random_bytes(slot);
  runtime::Device& device = context_->device();
  device.copy(slot.data, first.data(), first.size(), nullptr);
  for (size_t done = first.size(); done < bytes;) {
    const size_t more = std::min(done, bytes - done);
    device.copy(static_cast<std::byte*>(slot.data) + done, slot.data, more, nullptr);
    done += more;
  }
  device.synchronize(nullptr);  // before the host bytes are freed
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
      bytes += static_cast<double>(elements(slot.shape) * size_of(slot.dtype) + 2 * static_cast<int64_t>(guard));
  place_tensors(plan);
  return bytes + workspaces * static_cast<double>(bound(plan).workspace_bytes + 2 * guard);
}

size_t OpInstance::schedule(const lib::Plan& plan) {
  place_tensors(plan);
  return plan.op().schedule(bound(plan));
}

// Fills the tensors of the arguments from the slots.
void OpInstance::describe_tensors(const lib::ContextRef& context) {
  list_.clear();
  for (Slot& slot : slots_) {
    slot.tensor = ligerdsl_tensor_make(slot.data, context->api_device(), 0, static_cast<int32_t>(slot.shape.size()),
                                       slot.shape.data());
    slot.tensor.dtype = {dtype_info(slot.dtype).dlpack, static_cast<uint8_t>(8 * size_of(slot.dtype)), 1};
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
      if (bytes.find_first_not_of(static_cast<char>(kGuardByte)) != std::string::npos) return slot.name;
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

// A gradient is an input only if it is accumulated.
bool OpInstance::reads(const Slot& slot) const {
  if (!slot.info || slot.info->direction == lib::Direction::in) return true;
  return slot.info->direction == lib::Direction::inout &&
         integer(slot.name == "d_position_weight" ? "accumulate_positions" : "accumulate", 1) == 1;
}

bool OpInstance::writes(const Slot& slot) const {
  return slot.info && slot.info->direction != lib::Direction::in;
}

double OpInstance::bytes_moved() const {
  double bytes = 0;
  for (const Slot& slot : slots_) {
    if (slot.name == "weight" && std::string(info_.name) == "embedding_forward") continue;        // only indexed rows
    if (slot.name == "logits" && integer("with_d_logits", 1) == 0 && find("partials")) continue;  // not read
    bytes += (int{reads(slot)} + int{writes(slot)}) * static_cast<double>(elements(slot.shape) * size_of(slot.dtype));
  }
  if (const Slot* out = find("out"); out && std::string(info_.name) == "embedding_forward") {
    bytes += static_cast<double>(elements(out->shape) * size_of(out->dtype));
  }
  return bytes;
}

double OpInstance::bytes_beyond_inputs() const {
  double bytes = static_cast<double>(call_.workspace_bytes);
  for (const Slot& slot : slots_) {
    if (!reads(slot) && slot.same_as < 0) bytes += static_cast<double>(elements(slot.shape) * size_of(slot.dtype));
  }
  return bytes;
}

double OpInstance::flops() const {
  const std::string name = info_.name;
  const auto size = [&](const char* letter) { return static_cast<double>(sizes_[symbol_named(info_, letter)]); };
  if (name.starts_with("attention_varlen_")) {
    const int64_t sequences = static_cast<int64_t>(size("U")) - 1;
    double seen = 0;
    for (int64_t i = 0; i < sequences; ++i) {
      const auto length = [&](const char* letter) {
        const auto all = static_cast<int64_t>(size(letter));
        return static_cast<double>(offset_of(i + 1, sequences, all) - offset_of(i, sequences, all));
      };
      seen += seen_pairs(length("S"), length("T"), integer("causal", 0) != 0);
    }
    return (name.ends_with("_forward") ? 4 : 10) * size("A") * size("D") * seen;
  }
  if (name.starts_with("attention_")) {
    // Counts only pairs that are attended to: two matmuls forward and five backward, without
    // recomputed scores.
    const double seen = seen_pairs(size("S"), size("T"), integer("causal", 0) != 0);
    return (name == "attention_forward" ? 4 : 10) * size("B") * size("A") * size("D") * seen;
  }
  if (name.starts_with("gated_matmul_nt")) return 4 * size("M") * size("F") * size("K");
  if (!name.starts_with("fused_linear_")) return 0;
  const double products =
      size("H") * static_cast<double>(1 + integer("with_d_x", 0) + (integer("d_weight_dtype", 0) != 0));
  return 2 * size("N") * size("V") * (products + (name == "fused_linear_jsd" ? size("T") : 0));
}

std::string OpInstance::title() const {
  std::string text;
  for (const std::string& setting : settings_) {
    if (symbol_named(info_, setting.substr(0, setting.find('='))) < 0) text += setting + " ";
  }
  for (size_t i = 0; i < sizes_.size(); ++i) text += fmt::format("{}={} ", info_.symbols[i], sizes_[i]);
  if (!text.empty()) text.pop_back();
  return text;
}

}  // namespace ligerdsl::cli
