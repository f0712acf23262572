// Imports loops and conditionals as scf ops that carry the DSL's values.
#include "compiler/import/importer.h"

using namespace mlir;

namespace ligerdsl::compiler {

using program::AttrKey;
using program::ControlOp;
using program::OpCode;

// Fills `block`, which already has its arguments, with the region's ops. The region's yield becomes
// the terminator that the block's parent op requires.
void Importer::importBlock(const program::Region& region, Block* block) {
  for (auto [id, argument] : llvm::zip_equal(region.arguments, block->getArguments()))
    values[id] = argument;
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToEnd(block);
  for (const program::Op& op : region.ops) {
    if (op.code != OpCode::yield) {
      importOp(op);
      continue;
    }
    Location loc = location(op.loc);
    SmallVector<Value> results = lookup(op.operands);
    Operation* parent = block->getParentOp();
    if (isa<tile::ReduceOp, tile::ScanOp>(parent))
      tile::YieldOp::create(builder, loc, results);
    else if (isa<scf::WhileOp>(parent) && block->getParent() == &parent->getRegion(0))
      scf::ConditionOp::create(builder, loc, results[0], ValueRange(results).drop_front());
    else
      scf::YieldOp::create(builder, loc, results);
  }
}

void Importer::controlFlow(const program::Op& op, Location loc) {
  SmallVector<Value> operands = lookup(op.operands);
  SmallVector<Type> types =
      llvm::map_to_vector(op.results, [&](program::ValueId id) { return typeOf(id); });
  auto addBlock = [&](Region& region, const program::Region& source) {
    OpBuilder::InsertionGuard guard(builder);
    Block* block = builder.createBlock(&region);
    for (program::ValueId id : source.arguments) block->addArgument(typeOf(id), loc);
    importBlock(source, block);
    return block;
  };
  switch (static_cast<ControlOp>(op.code)) {
    case ControlOp::for_range: {
      auto loop = scf::ForOp::create(builder, loc, operands[0], operands[1], operands[2],
                                     ValueRange(operands).drop_front(3));
      for (auto [key, name] : {std::pair(AttrKey::num_stages, tile::kNumStagesAttr),
                               std::pair(AttrKey::unroll, tile::kUnrollAttr)})
        if (op.find(key)) loop->setAttr(name, builder.getI64IntegerAttr(op.integer(key)));
      if (op.find(AttrKey::tensor_copies))
        loop->setAttr(tile::kTensorCopiesAttr, builder.getUnitAttr());
      // The builder adds a yield to a loop without carried values, and importBlock adds another.
      if (types.empty()) loop.getBody()->getTerminator()->erase();
      importBlock(op.regions[0], loop.getBody());
      return bind(op, loop.getResults());
    }
    case ControlOp::if_else: {
      bool hasElse = !op.regions[1].ops.empty();
      auto branch = scf::IfOp::create(builder, loc, types, operands[0], /*addThenBlock=*/false,
                                      /*addElseBlock=*/false);
      addBlock(branch.getThenRegion(), op.regions[0]);
      if (hasElse) addBlock(branch.getElseRegion(), op.regions[1]);
      return bind(op, branch.getResults());
    }
    case ControlOp::while_loop: {
      auto loop = scf::WhileOp::create(builder, loc, types, operands);
      if (op.find(AttrKey::independent))
        loop->setAttr(tile::kIndependentAttr, builder.getUnitAttr());
      addBlock(loop.getBefore(), op.regions[0]);
      addBlock(loop.getAfter(), op.regions[1]);
      return bind(op, loop.getResults());
    }
    case ControlOp::yield:
      break;  // importBlock makes the terminator
  }
  unknown(op);
}

}  // namespace ligerdsl::compiler
