// Accesses without predicate and hints are LLVM loads and stores, which LLVM may reorder and merge.
// Other accesses are inline PTX. LLVM has no predicated access, and a branch around every vector
// would split the basic block of loads.
#include "compiler/target/nvptx/memory_access.h"

using namespace mlir;

namespace ligerdsl::compiler::nvptx {
namespace {

// The words of an access: 16 bytes are v4.b32, 8 bytes v2.b32, fewer bytes one word. Elements of 8
// bytes are b64 words.
struct AccessWords {
  int count;
  int bytes;
};

AccessWords wordsOf(int64_t bytes, int64_t elementBytes) {
  int word = elementBytes == 8 ? 8 : std::min<int64_t>(bytes, 4);
  return {static_cast<int>(bytes / word), word};
}

Type registerType(ThreadLowering& t, int wordBytes) {
  return wordBytes == 8   ? t.b.getI64Type()
         : wordBytes == 4 ? Type(t.b.getI32Type())
                          : t.b.getI16Type();
}

StringRef registerConstraint(int wordBytes) {
  return wordBytes == 8 ? "l" : wordBytes == 4 ? "r" : "h";
}

bool isShared(Value pointer) {
  return cast<LLVM::LLVMPointerType>(pointer.getType()).getAddressSpace() == kSharedSpace;
}

// Returns, for example, ".v4.b32" or ".b16".
std::string widthSuffix(AccessWords words) {
  std::string vector = words.count > 1 ? ".v" + std::to_string(words.count) : "";
  return vector + ".b" + std::to_string(8 * words.bytes);
}

std::string hintSuffix(AccessHints hints) {
  std::string text;
  switch (hints.cache) {
    case tile::CacheHint::normal:
      break;
    case tile::CacheHint::global:
      text += ".cg";
      break;
    case tile::CacheHint::streaming:
      text += ".cs";
      break;
  }
  return hints.policy ? text + ".L2::cache_hint" : text;
}

// Returns "{$0,$1,$2,$3}", for example, or "$0" for one register.
std::string registerList(int first, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += (i ? ",$" : "$") + std::to_string(first + i);
  return count > 1 ? "{" + text + "}" : text;
}

// Appends the elements of one register word, the lowest first.
void unpackWord(ThreadLowering& t, Value word, Type element, int64_t perWord,
                SmallVectorImpl<Value>& elements) {
  unsigned bits = element.getIntOrFloatBitWidth();
  if (bits < 8) {  // i1 in a byte
    for (int64_t i = 0; i < perWord; ++i) {
      Value shifted =
          i ? arith::ShRUIOp::create(t.b, t.loc, word,
                                     t.constant(8 * i, word.getType().getIntOrFloatBitWidth()))
            : word;
      Value byte = arith::TruncIOp::create(t.b, t.loc, t.b.getI8Type(), shifted);
      elements.push_back(
          arith::CmpIOp::create(t.b, t.loc, arith::CmpIPredicate::ne, byte, t.constant(0, 8)));
    }
    return;
  }
  unsigned wordBits = word.getType().getIntOrFloatBitWidth();
  if (perWord * bits < wordBits)
    word = arith::TruncIOp::create(t.b, t.loc, t.b.getIntegerType(perWord * bits), word);
  if (perWord == 1) {
    elements.push_back(t.bitcast(word, element));
    return;
  }
  Value vector = t.bitcast(word, VectorType::get(perWord, element));
  for (int64_t i = 0; i < perWord; ++i) elements.push_back(t.extract(vector, i));
}

Value packWord(ThreadLowering& t, ArrayRef<Value> elements, int wordBytes) {
  Type element = elements[0].getType();
  auto wordType = cast<IntegerType>(registerType(t, wordBytes));
  SmallVector<Value> bytes(elements);
  if (element.isInteger(1)) {
    for (Value& value : bytes) value = arith::ExtUIOp::create(t.b, t.loc, t.b.getI8Type(), value);
    element = t.b.getI8Type();
  }
  unsigned bits = element.getIntOrFloatBitWidth() * bytes.size();
  Value word = t.bitcast(t.pack(bytes), t.b.getIntegerType(bits));
  if (bits < wordType.getWidth()) word = arith::ExtUIOp::create(t.b, t.loc, wordType, word);
  return word;
}

SmallVector<Value> plainLoad(ThreadLowering& t, Value pointer, Type element, int64_t count) {
  Type stored = element.isInteger(1) ? t.b.getI8Type() : element;
  Type type = count == 1 ? stored : Type(VectorType::get(count, stored));
  Value loaded = LLVM::LoadOp::create(t.b, t.loc, type, pointer, memoryBytes(element) * count);
  SmallVector<Value> elements;
  for (int64_t i = 0; i < count; ++i) {
    Value value = t.extract(loaded, i);
    if (element.isInteger(1))
      value = arith::CmpIOp::create(t.b, t.loc, arith::CmpIPredicate::ne, value, t.constant(0, 8));
    elements.push_back(value);
  }
  return elements;
}

void plainStore(ThreadLowering& t, Value pointer, ArrayRef<Value> elements) {
  SmallVector<Value> stored(elements);
  Type element = elements[0].getType();
  if (element.isInteger(1))
    for (Value& value : stored) value = arith::ExtUIOp::create(t.b, t.loc, t.b.getI8Type(), value);
  LLVM::StoreOp::create(t.b, t.loc, t.pack(stored), pointer,
                        memoryBytes(element) * elements.size());
}

}  // namespace

Value cachePolicy(ThreadLowering& t, Value view, tile::EvictHint evict) {
  // Results of createpolicy.fractional with fraction 1; they are the same on sm_80 to sm_120. The
  // instruction itself would delay a kernel's first load.
  constexpr int64_t kFirst = 0x12f0000000000000, kNormal = 0x16f0000000000000,
                    kLast = 0x14f0000000000000;
  // EvictHint::large applies only to views that do not stay in L2 (GpuArch::large_bytes). A kernel
  // that reads less should leave room for its results in L2.
  if (evict == tile::EvictHint::normal) return {};
  if (evict != tile::EvictHint::large)
    return t.constant(evict == tile::EvictHint::first ? kFirst : kLast, 64);
  auto type = cast<tile::ViewType>(view.getType());
  int64_t known = type.getElementBytes();
  Value size = t.constant(1, 64);
  for (int64_t axis = 0; axis < static_cast<int64_t>(type.getRank()); ++axis) {
    if (type.isDynamicDim(axis))
      size = arith::MulIOp::create(t.b, t.loc, size, t.pieces(view)[1 + axis]);
    else
      known *= std::max<int64_t>(type.getShape()[axis], 1);
  }
  Value limit = t.constant(t.arch().large_bytes() / known, 64);
  Value large = arith::CmpIOp::create(t.b, t.loc, arith::CmpIPredicate::ugt, size, limit);
  return arith::SelectOp::create(t.b, t.loc, large, t.constant(kLast, 64), t.constant(kNormal, 64));
}

Value inlinePtx(ThreadLowering& t, Type result, ValueRange operands, const std::string& text,
                const std::string& constraints) {
  auto assembly = LLVM::InlineAsmOp::create(
      t.b, t.loc, result ? TypeRange(result) : TypeRange(), operands, text, constraints,
      /*has_side_effects=*/true,
      /*is_align_stack=*/false, LLVM::TailCallKind::None,
      LLVM::AsmDialectAttr::get(t.b.getContext(), LLVM::AsmDialect::AD_ATT), ArrayAttr());
  return result ? assembly->getResult(0) : Value();
}

Value sharedAddress(ThreadLowering& t, Value pointer) {
  return LLVM::PtrToIntOp::create(t.b, t.loc, t.b.getI32Type(), pointer);
}

Value globalPointer(ThreadLowering& t, Value address) {
  return LLVM::IntToPtrOp::create(
      t.b, t.loc, LLVM::LLVMPointerType::get(t.b.getContext(), kGlobalSpace), address);
}

SmallVector<Value> loadElements(ThreadLowering& t, Value pointer, Type element, int64_t count,
                                Value predicate, ArrayRef<Value> others, AccessHints hints) {
  if (!predicate && !hints.any()) return plainLoad(t, pointer, element, count);
  int64_t bytes = memoryBytes(element);
  AccessWords words = wordsOf(bytes * count, bytes);
  int64_t perWord = words.bytes / bytes;
  Type word = registerType(t, words.bytes);

  // Operands: early-clobber outputs from $0 on, the address, the policy, the predicate, and the
  // values used if the predicate is false.
  std::string text, constraints;
  bool shared = isShared(pointer);
  SmallVector<Value> operands{shared ? sharedAddress(t, pointer) : pointer};
  for (int i = 0; i < words.count; ++i)
    constraints += "=&" + registerConstraint(words.bytes).str() + ",";
  constraints += shared ? "r" : "l";
  std::string access = std::string(shared ? "ld.shared" : "ld.global") + hintSuffix(hints) +
                       widthSuffix(words) + " " + registerList(0, words.count) + ", [$" +
                       std::to_string(words.count) + "]";
  int next = words.count + 1;
  if (hints.policy) {
    operands.push_back(hints.policy);
    constraints += ",l";
    access += ", $" + std::to_string(next++);
  }
  access += ";";
  if (predicate) {
    operands.push_back(predicate);
    constraints += ",b";
    const std::string condition = "@$" + std::to_string(next++) + " ";
    for (int i = 0; i < words.count; ++i) {
      operands.push_back(packWord(t, others.slice(i * perWord, perWord), words.bytes));
      constraints += "," + registerConstraint(words.bytes).str();
      text += "mov.b" + std::to_string(8 * std::max(words.bytes, 2)) + " $" + std::to_string(i) +
              ", $" + std::to_string(next++) + "; ";
    }
    text += condition;
  }
  Type result = words.count == 1 ? word
                                 : LLVM::LLVMStructType::getLiteral(
                                       t.b.getContext(), SmallVector<Type>(words.count, word));
  Value loaded = inlinePtx(t, result, operands, text + access, constraints);

  SmallVector<Value> elements;
  for (int i = 0; i < words.count; ++i) {
    Value one = words.count == 1 ? loaded : LLVM::ExtractValueOp::create(t.b, t.loc, loaded, i);
    unpackWord(t, one, element, perWord, elements);
  }
  return elements;
}

void storeElements(ThreadLowering& t, Value pointer, ArrayRef<Value> elements, Value predicate,
                   AccessHints hints) {
  if (!predicate && !hints.any()) return plainStore(t, pointer, elements);
  int64_t bytes = memoryBytes(elements[0].getType());
  AccessWords words = wordsOf(bytes * elements.size(), bytes);
  int64_t perWord = words.bytes / bytes;

  const bool shared = isShared(pointer);
  SmallVector<Value> operands{shared ? sharedAddress(t, pointer) : pointer};
  std::string constraints = shared ? "r" : "l";
  for (int i = 0; i < words.count; ++i) {
    operands.push_back(packWord(t, elements.slice(i * perWord, perWord), words.bytes));
    constraints += "," + registerConstraint(words.bytes).str();
  }
  std::string text = std::string(shared ? "st.shared" : "st.global") + hintSuffix(hints) +
                     widthSuffix(words) + " [$0], " + registerList(1, words.count);
  int next = words.count + 1;
  if (hints.policy) {
    operands.push_back(hints.policy);
    constraints += ",l";
    text += ", $" + std::to_string(next++);
  }
  text += ";";
  if (predicate) {
    operands.push_back(predicate);
    constraints += ",b";
    text = "@$" + std::to_string(next) + " " + text;
  }
  inlinePtx(t, Type(), operands, text, constraints);
}

void addElements(ThreadLowering& t, Value pointer, ArrayRef<Value> elements, Value predicate,
                 Value policy) {
  const int count = static_cast<int>(elements.size());
  SmallVector<Value> operands{pointer};
  llvm::append_range(operands, elements);
  std::string constraints = "l", text = "red.relaxed.gpu.global.add";
  for (int i = 0; i < count; ++i) constraints += ",f";
  if (policy) text += ".L2::cache_hint";
  if (count > 1) text += ".v" + std::to_string(count);
  text += ".f32 [$0], " + registerList(1, count);
  int next = count + 1;
  if (policy) {
    operands.push_back(policy);
    constraints += ",l";
    text += ", $" + std::to_string(next++);
  }
  text += ";";
  if (predicate) {
    operands.push_back(predicate);
    constraints += ",b";
    text = "@$" + std::to_string(next) + " " + text;
  }
  inlinePtx(t, Type(), operands, text, constraints);
}

void prefetchLine(ThreadLowering& t, Value pointer, Value predicate) {
  if (predicate)
    inlinePtx(t, Type(), {pointer, predicate}, "@$1 prefetch.global.L2 [$0];", "l,b");
  else
    inlinePtx(t, Type(), {pointer}, "prefetch.global.L2 [$0];", "l");
}

}  // namespace ligerdsl::compiler::nvptx
