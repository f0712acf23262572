#include "compiler/rewrites/product_factors.h"

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

std::optional<ProductFactors::Factor> ProductFactors::factorOf(tile::LoadTileOp load) {
  Operation* user = onlyUser(load.getResult());
  auto permute = dyn_cast_or_null<tile::PermuteOp>(user);
  if (permute) user = onlyUser(permute.getResult());
  auto conversion = dyn_cast_or_null<tgpu::ConvertLayoutOp>(user);
  if (!conversion || !isa_and_nonnull<tile::DotOp>(onlyUser(conversion.getResult()))) return std::nullopt;
  return Factor{permute, conversion, cast<RankedTensorType>(load.getType()),
                permute ? cast<RankedTensorType>(permute.getType()) : RankedTensorType()};
}

// Of the load, maybe permuted, for products alone.
SmallVector<tgpu::ConvertLayoutOp> ProductFactors::conversionsOf(tile::LoadTileOp load) {
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

// Each product has a load of its own of a tile that others use as well. Copied once, read by each as it wants.
void ProductFactors::separateLoads() {
  for (tile::LoadTileOp load : SmallVector<tile::LoadTileOp>(loads)) {
    if (ctas > 1 || !canBeStaged(load) || factorOf(load)) continue;
    for (tgpu::ConvertLayoutOp conversion : conversionsOf(load)) {
      OpBuilder builder(conversion);
      IRMapping mapping;
      auto copy = cast<tile::LoadTileOp>(builder.clone(*load, mapping));
      mapping.map(load.getResult(), copy.getResult());
      auto permute = conversion.getSource().getDefiningOp<tile::PermuteOp>();
      conversion.getSourceMutable().assign(permute ? builder.clone(*permute, mapping)->getResult(0) : copy.getResult());
      if (permute && permute.use_empty()) permute.erase();
      copies[copy] = load;
      loads.push_back(copy);
    }
    if (load.use_empty()) llvm::erase(loads, load);
  }
}

void ProductFactors::uniteLoads() {
  for (auto& [copy, load] : copies) {
    copy->getResult(0).replaceAllUsesWith(load.getResult());
    llvm::erase(loads, cast<tile::LoadTileOp>(copy));
    copy->erase();
    if (!llvm::is_contained(loads, load)) loads.push_back(load);
  }
  copies.clear();
}

void ProductFactors::dropOriginals() {
  SetVector<Operation*> originals;
  for (auto& [copy, load] : copies) originals.insert(load);
  copies.clear();
  for (Operation* load : originals)
    if (load->use_empty()) load->erase();
}

void ProductFactors::take(tile::LoadTileOp load, Factor factor) {
  auto wanted = cast<RankedTensorType>(factor.conversion.getType());
  Value source = factor.conversion.getSource();
  factor.conversion.getResult().replaceAllUsesWith(source);
  source.setType(wanted);
  if (factor.permute)
    load.getResult().setType(withLayout(factor.loaded, *sourceLayout(factor.permute, layoutOf(wanted))));
  factors[load] = factor;
}

void ProductFactors::takeOnce(ArrayRef<tile::LoadTileOp> once) {
  for (tile::LoadTileOp load : once) {
    std::optional<Factor> factor = factorOf(load);
    // Tiles that are copied once are copied by all threads.
    if (!factor || factor->permute || ctas > 1 || !whyNotStaged(load, Copies::threads).empty()) continue;
    auto dot = cast<tile::DotOp>(onlyUser(factor->conversion.getResult()));
    // What is copied once is not rounded to tf32, and wgmma would read it there.
    if (dot.getA() == factor->conversion.getResult() && !dot.getTf32()) take(load, *factor);
  }
}

// Tensor copies alone bring a factor to all CTAs of a cluster.
bool ProductFactors::comesToAll() const {
  return ctas == 1 || at.loop->hasAttr(tile::kTensorCopiesAttr);
}

void ProductFactors::take() {
  separateLoads();
  for (tile::LoadTileOp load : loads) {
    std::optional<Factor> factor = factorOf(load);
    if (factor && comesToAll() && canBeStaged(load)) take(load, *factor);
  }
}

bool ProductFactors::needTensorCopies() const {
  return llvm::any_of(all(), [&](tile::LoadTileOp load) { return !whyNotStaged(load, Copies::threads).empty(); });
}

void ProductFactors::remarkOthers() {
  for (tile::DotOp dot : at.loop.getBody()->getOps<tile::DotOp>())
    for (Value operand : {dot.getA(), dot.getB()}) remark(operand.getDefiningOp<tgpu::ConvertLayoutOp>());
}

void ProductFactors::remark(tgpu::ConvertLayoutOp conversion) {
  if (!conversion || conversion->getBlock() != at.loop.getBody() || !passesMemory(conversion)) return;
  Value source = conversion.getSource();
  if (auto permute = source.getDefiningOp<tile::PermuteOp>()) source = permute.getSource();
  auto load = source.getDefiningOp<tile::LoadTileOp>();
  std::string why = "it is computed in the loop";
  if (load) why = ctas > 1 ? "every CTA of the cluster needs all of it" : whyNotStaged(load);
  if (load && why.empty()) why = "it is not loaded ahead";
  at.remark(conversion) << "the factor of a product passes through registers: " << why;
}

void ProductFactors::giveBack() {
  if (factors.empty()) return;
  at.remark(at.loop) << "factors of products pass through registers: shared memory does not hold the tiles of two "
                        "iterations; use smaller "
                        "tiles";
  giveAllBack();
}

void ProductFactors::giveAllBack() {
  while (!factors.empty()) giveBack(cast<tile::LoadTileOp>(factors.back().first));
  uniteLoads();
}

void ProductFactors::giveBack(tile::LoadTileOp load) {
  Factor& factor = factors[load];
  Value source = factor.conversion.getSource();
  source.replaceAllUsesExcept(factor.conversion.getResult(), factor.conversion);
  source.setType(factor.permute ? factor.permuted : factor.loaded);
  load.getResult().setType(factor.loaded);
  factors.erase(load);
}

SmallVector<tile::LoadTileOp> ProductFactors::all() const {
  return llvm::map_to_vector(factors, [](const auto& factor) { return cast<tile::LoadTileOp>(factor.first); });
}

RankedTensorType ProductFactors::loadedType(tile::LoadTileOp load) const {
  auto found = factors.find(load);
  return found == factors.end() ? cast<RankedTensorType>(load->getResult(0).getType()) : found->second.loaded;
}

// All bits of it are 0: of fp8 the code is one of whole numbers.
static bool isZero(TypedAttr pad) {
  if (auto number = dyn_cast<FloatAttr>(pad)) return number.getValue().isPosZero();
  auto number = dyn_cast<IntegerAttr>(pad);
  return number && number.getValue().isZero();
}

// Copies by all threads give each element to one thread. One thread issues a TMA copy for the whole tile.
std::string ProductFactors::whyNotStaged(tile::LoadTileOp load, Copies by) const {
  if (!isa<RankedTensorType>(load.getType())) return "it is a scalar";
  const RankedTensorType type = loadedType(load);
  if (load.getAlignmentOffset()) return "it has an alignment offset";
  const AccessShape access = accessShape(load);
  int64_t bytes = sharedElementBytes(type.getElementType()), vector = access.vector;
  if (access.fastDim >= 0 && access.fastDim != type.getRank() - 1)
    return "its neighbours in memory are not along its last dimension; permute what is loaded instead";
  if (access.fastDim < 0 || type.getShape()[access.fastDim] % vector != 0 || vector * bytes != 16)
    return "copies are of 16 bytes, and facts prove accesses of " + std::to_string(vector * bytes);
  if (load.getPadAttr() && !isZero(load.getPadAttr())) return "copies pad with zeros only";
  if (by == Copies::tensor) return "";
  if (linearPart(type) < threads * ctas * vector) return "it has fewer vectors than there are threads";
  if (hasLayout(type) && layoutOf(type).contiguous(access.fastDim) < vector)
    return "the layouts of what it is used with tear its 16-byte vectors apart";
  return "";
}

}  // namespace ligerdsl::compiler
