// What the steps of a fused linear cross-entropy see: views of the caller's tensors and of the workspace, by one number each,
// and the numbers of a call.
#pragma once

#include <array>
#include <optional>

#include "lib/src/kernel_step.h"
#include "lib/src/ops/support.h"

namespace ligerdsl::lib::head {

using Desc = ligerdsl_fused_linear_cross_entropy_desc_t;

// Views that kernels see. A view of a chunk is set anew for every chunk.
enum View : int {
  kLogits,  // of the chunk or block, then their gradient
  kX,       // of the chunk, as products take it
  kXGiven,  // of the chunk, as the caller has it
  kDX,
  kDXWanted,
  kAllWeight,    // as products take it, or as it is given where its copy is one of blocks
  kWeight,       // rows of it that are multiplied now
  kWeightGiven,  // the same rows as the caller has them
  kDWeight,      // as it is summed: all of it, or a block of the vocabulary; likewise the next
  kDWeightWanted,
  kDBias,        // as it is summed
  kDBiasSums,    // the same, as a row
  kDBiasWanted,  // as a row
  kBias,
  kLabels,  // of the chunk
  kAllLabels,
  kClassWeight,
  kColumnBias,  // of a block of the vocabulary
  kColumnWeight,
  // Where logits are not stored (kernels/fused_linear/linear_cross_entropy.h), of the chunk:
  kFirstBlock,   // of exponentials in blocks; likewise the next
  kOtherBlocks,  // behind one another
  kBase,         // what each row's exponents are relative to
  kAgain,        // rows whose exponentials are made again
  kPlaces,       // of tiles of rows (kernels/matmul/row_tiles.h)
  kTileAt,       // which tile stands at each
  kCounted,      // which of them count
  kAllDepth,     // as if all did
  kSums,         // of every tile's rows; likewise the next
  kTops,
  kBests,
  kDeviations,
  kMoments,
  kTileSums,  // of the tiles that are multiplied now; likewise the next
  kTileTops,
  kTileBests,
  kTileDeviations,
  kTileMoments,
  kFactor,       // of each row, between its exponentials and its gradient
  kScaledX,      // x times that
  kSmooth,       // what smoothing adds for each class, of the rows of the chunk
  kClassFactor,  // times this of each class
  kWeightSums,   // of such rows of the weight; likewise the next of x of the chunk
  kXSums,
  kPartSums,  // before they are added up
  kLse,       // of the chunk
  kLabelLogit,
  kAllLse,
  kAllLabelLogit,
  kDLoss,
  kEntropy,
  kAllEntropy,
  kDEntropy,
  kCounts,
  kRowLoss,  // of the chunk
  kRowZLoss,
  kRowAccuracy,
  kPredictions,
  kAllRowLoss,
  kAllRowZLoss,
  kAllRowAccuracy,
  kLoss,
  kZLoss,
  kAccuracy,
  kError,
  kViews
};
using Views = std::array<BoundTensor, kViews>;

// Numbers of a step.
enum Number : int { kFirstRow, kFirstColumn, kBlockShift, kNumbers };
using Numbers = std::array<int64_t, kNumbers>;

// Names of the views and numbers of kernels that go from logits, or their exponentials, to results.
inline StepNames row_names() {
  return {.views = {{"loss", kRowLoss},
                    {"z_loss", kRowZLoss},
                    {"accuracy", kRowAccuracy},
                    {"row_loss", kRowLoss},
                    {"row_z_loss", kRowZLoss},
                    {"row_accuracy", kRowAccuracy},
                    {"lse", kLse},
                    {"entropy", kEntropy},
                    {"predictions", kPredictions},
                    {"d_logits", kLogits},
                    {"logits", kLogits},
                    {"labels", kLabels},
                    {"bias", kBias},
                    {"weight", kClassWeight},
                    {"d_loss", kDLoss},
                    {"d_entropy", kDEntropy},
                    {"counts", kCounts},
                    {"error", kError},
                    {"sums", kSums},
                    {"tops", kTops},
                    {"bests", kBests},
                    {"deviations", kDeviations},
                    {"moments", kMoments},
                    {"smooth", kSmooth},
                    {"base", kBase},
                    {"places", kPlaces},
                    {"label_logit", kLabelLogit},
                    {"factor", kFactor},
                    {"e_first", kFirstBlock},
                    {"e_others", kOtherBlocks}}};
}

// A step whose views `names` names; scalars are the description's, or the call's numbers.
inline std::optional<KernelStep> head_step(Context& context, const Desc& d, const kernels::Step& recorded,
                                           StepNames names) {
  names.constants = {{"label_smoothing", d.label_smoothing},
                     {"lse_square_scale", d.lse_square_scale},
                     {"softcap", d.softcap},
                     {"temperature", d.temperature}};
  names.integers = {{"ignore_index", d.ignore_index}};
  names.numbers = {{"first_row", kFirstRow}, {"first_column", kFirstColumn}, {"block_shift", kBlockShift}};
  return std::make_optional<KernelStep>(context, recorded, names);
}

}  // namespace ligerdsl::lib::head
