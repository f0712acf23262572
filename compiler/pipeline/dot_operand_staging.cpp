#include "compiler/pipeline/dot_operand_staging.h"

#include "compiler/analysis/exchange_bytes.h"
#include "compiler/analysis/layout_classes.h"
#include "compiler/analysis/layout_preference.h"
#include "compiler/analysis/shared_buffer.h"
#include "compiler/dialect/layout_attr.h"

using namespace mlir;

namespace ligerdsl::compiler {
namespace {

Operation* onlyUser(Value value) {
  return value.hasOneUse() ? *value.user_begin() : nullptr;
}

int64_t linearPart(RankedTensorType type) {
  int64_t product = 1;
  for (int64_t size : type.getShape()) product *= size & -size;
  return product;
}

}  // namespace

std::optional<DotOperandStaging::DotOperand> DotOperandStaging::operandOf(tile::LoadTileOp load) {
  Operation* user = onlyUser(load.getResult());
  auto permute = dyn_cast_or_null<tile::PermuteOp>(user);
  if (permute) user = onlyUser(permute.getResult());
  auto conversion = dyn_cast_or_null<tgpu::ConvertLayoutOp>(user);
  if (!conversion || !isa_and_nonnull<tile::DotOp>(onlyUser(conversion.getResult())))
    return std::nullopt;
  return DotOperand{permute, conversion, cast<RankedTensorType>(load.getType()),
                    permute ? cast<RankedTensorType>(permute.getType()) : RankedTensorType()};
}

// Returns the layout conversions of `load`, or of its transpose, whose only users are dots.
SmallVector<tgpu::ConvertLayoutOp> DotOperandStaging::conversionsOf(tile::LoadTileOp load) {
  SmallVector<tgpu::ConvertLayoutOp> found;
  auto add = [&](Operation* user) {
    auto conversion = dyn_cast<tgpu::ConvertLayoutOp>(user);
    if (conversion && conversion->getBlock() == at.loop.getBody() &&
        llvm::all_of(conversion->getUsers(), llvm::IsaPred<tile::DotOp>))
      found.push_back(conversion);
  };
  for (Operation* user : load->getUsers()) {
    add(user);
    if (isa<tile::PermuteOp>(user)) llvm::for_each(user->getUsers(), add);
  }
  return found;
}

// Gives each dot a load of its own of a tile that has other users too. The copies fetch the tile
// once; each dot reads it in its own layout.
void DotOperandStaging::separateLoads() {
  for (tile::LoadTileOp load : SmallVector<tile::LoadTileOp>(loads)) {
    if (ctas > 1 || !canBeStaged(load) || operandOf(load)) continue;
    for (tgpu::ConvertLayoutOp conversion : conversionsOf(load)) {
      OpBuilder builder(conversion);
      IRMapping mapping;
      auto copy = cast<tile::LoadTileOp>(builder.clone(*load, mapping));
      mapping.map(load.getResult(), copy.getResult());
      auto permute = conversion.getSource().getDefiningOp<tile::PermuteOp>();
      conversion.getSourceMutable().assign(permute ? builder.clone(*permute, mapping)->getResult(0)
                                                   : copy.getResult());
      if (permute && permute.use_empty()) permute.erase();
      copies[copy] = load;
      loads.push_back(copy);
    }
    if (load.use_empty()) llvm::erase(loads, load);
  }
}

void DotOperandStaging::uniteLoads() {
  for (auto& [copy, load] : copies) {
    copy->getResult(0).replaceAllUsesWith(load.getResult());
    llvm::erase(loads, cast<tile::LoadTileOp>(copy));
    copy->erase();
    if (!llvm::is_contained(loads, load)) loads.push_back(load);
  }
  copies.clear();
}

void DotOperandStaging::dropOriginals() {
  SetVector<Operation*> originals;
  for (auto& [copy, load] : copies) originals.insert(load);
  copies.clear();
  for (Operation* load : originals)
    if (load->use_empty()) load->erase();
}

void DotOperandStaging::take(tile::LoadTileOp load, DotOperand operand) {
  auto wanted = cast<RankedTensorType>(operand.conversion.getType());
  Value source = operand.conversion.getSource();
  operand.conversion.getResult().replaceAllUsesWith(source);
  source.setType(wanted);
  if (operand.permute)
    load.getResult().setType(
        withLayout(operand.loaded, *sourceLayout(operand.permute, layoutOf(wanted))));
  operands[load] = operand;
}

void DotOperandStaging::takeOnce(ArrayRef<tile::LoadTileOp> once) {
  for (tile::LoadTileOp load : once) {
    std::optional<DotOperand> operand = operandOf(load);
    // Threads copy the tiles that are copied once.
    if (!operand || operand->permute || ctas > 1 || !reasonNotStaged(load, Copies::threads).empty())
      continue;
    auto dot = cast<tile::DotOp>(onlyUser(operand->conversion.getResult()));
    // These copies do not round to tf32, which wgmma would need.
    if (dot.getA() == operand->conversion.getResult() && !dot.getTf32()) take(load, *operand);
  }
}

// Only TMA copies bring an operand to all CTAs of a cluster.
bool DotOperandStaging::comesToAll() const {
  return ctas == 1 || at.loop->hasAttr(tile::kTensorCopiesAttr);
}

void DotOperandStaging::take() {
  separateLoads();
  for (tile::LoadTileOp load : loads) {
    std::optional<DotOperand> operand = operandOf(load);
    if (operand && comesToAll() && canBeStaged(load)) take(load, *operand);
  }
}

bool DotOperandStaging::needTensorCopies() const {
  return llvm::any_of(all(), [&](tile::LoadTileOp load) {
    return !reasonNotStaged(load, Copies::threads).empty();
  });
}

void DotOperandStaging::remarkOthers() {
  for (tile::DotOp dot : at.loop.getBody()->getOps<tile::DotOp>())
    for (Value operand : {dot.getA(), dot.getB()})
      remark(operand.getDefiningOp<tgpu::ConvertLayoutOp>());
}

void DotOperandStaging::remark(tgpu::ConvertLayoutOp conversion) {
  if (!conversion || conversion->getBlock() != at.loop.getBody() || !passesMemory(conversion))
    return;
  Value source = conversion.getSource();
  if (auto permute = source.getDefiningOp<tile::PermuteOp>()) source = permute.getSource();
  auto load = source.getDefiningOp<tile::LoadTileOp>();
  std::string why = "it is computed in the loop";
  if (load) why = ctas > 1 ? "every CTA of the cluster needs all of it" : reasonNotStaged(load);
  if (load && why.empty()) why = "it is not loaded ahead";
  at.remark(conversion, RemarkId::dot_operand_in_registers)
      << "a dot operand passes through registers: " << why;
}

void DotOperandStaging::giveBack() {
  if (operands.empty()) return;
  at.remark(at.loop, RemarkId::no_room_for_dot_operands)
      << "dot operands pass through registers: shared memory does not hold the tiles of two "
         "iterations; use smaller "
         "tiles";
  giveAllBack();
}

void DotOperandStaging::giveAllBack() {
  while (!operands.empty()) giveBack(cast<tile::LoadTileOp>(operands.back().first));
  uniteLoads();
}

void DotOperandStaging::giveBack(tile::LoadTileOp load) {
  DotOperand& operand = operands[load];
  Value source = operand.conversion.getSource();
  source.replaceAllUsesExcept(operand.conversion.getResult(), operand.conversion);
  source.setType(operand.permute ? operand.permuted : operand.loaded);
  load.getResult().setType(operand.loaded);
  operands.erase(load);
}

SmallVector<tile::LoadTileOp> DotOperandStaging::all() const {
  return llvm::map_to_vector(
      operands, [](const auto& operand) { return cast<tile::LoadTileOp>(operand.first); });
}

RankedTensorType DotOperandStaging::loadedType(tile::LoadTileOp load) const {
  auto found = operands.find(load);
  return found == operands.end() ? cast<RankedTensorType>(load->getResult(0).getType())
                                 : found->second.loaded;
}

// Returns true if all bits of the pad are 0. The pad of an fp8 tile is an integer: the fp8 code.
static bool isZero(TypedAttr pad) {
  if (auto number = dyn_cast<FloatAttr>(pad)) return number.getValue().isPosZero();
  auto number = dyn_cast<IntegerAttr>(pad);
  return number && number.getValue().isZero();
}

// Copies by all threads give each element to one thread. One thread issues a TMA copy for the whole
// tile.
std::string DotOperandStaging::reasonNotStaged(tile::LoadTileOp load, Copies by) const {
  if (!isa<RankedTensorType>(load.getType())) return "it is a scalar";
  const RankedTensorType type = loadedType(load);
  if (load.getAlignmentOffset()) return "it has an alignment offset";
  const AccessShape access = accessShape(load);
  int64_t bytes = sharedElementBytes(type.getElementType()), vector = access.vector;
  if (access.fastDim >= 0 && access.fastDim != type.getRank() - 1)
    return "it is not contiguous along its last dimension; permute the loaded tile instead";
  if (access.fastDim < 0 || type.getShape()[access.fastDim] % vector != 0 || vector * bytes != 16)
    return "copies are of 16 bytes, and facts prove accesses of " + std::to_string(vector * bytes);
  if (load.getPadAttr() && !isZero(load.getPadAttr())) return "copies pad with zeros only";
  if (by == Copies::tensor) return "";
  if (linearPart(type) < threads * ctas * vector)
    return "it has fewer vectors than there are threads";
  if (hasLayout(type) && layoutOf(type).contiguous(access.fastDim) < vector)
    return "the layouts of its uses split its 16-byte vectors";
  return "";
}

}  // namespace ligerdsl::compiler
