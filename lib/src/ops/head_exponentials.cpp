#include "lib/src/ops/head_exponentials.h"

#include <algorithm>

namespace ligerdsl::lib::head {

HeadExponentials::HeadExponentials(Context& context, const Desc& d, const kernels::LinearCrossEntropyOptions& options)
    : classes_(options.classes),
      cols_(options.cols),
      type_(options.type),
      in_blocks_(options.in_blocks && options.with_gradient) {
  const kernels::LinearCrossEntropy made = kernels::linear_cross_entropy(context.machine(), options);
  tiles_ = made.config;
  numbers_ = {{kSums, kTileSums}, {kTops, kTileTops}};
  if (options.with_accuracy || options.with_predictions) numbers_.push_back({kBests, kTileBests});
  if (options.smoothing) numbers_.push_back({kDeviations, kTileDeviations});
  if (options.entropies()) numbers_.push_back({kMoments, kTileMoments});
  const auto step = [&](const kernels::Step& recorded, const StepNames& names) {
    return head_step(context, d, recorded, names);
  };
  row_tiles_ = step(made.row_tiles,
                    {.views = {{"places", kPlaces}, {"tile_at", kTileAt}, {"counted", kCounted}, {"labels", kLabels}}});
  label_logits_ = step(made.label_logits, {.views = {{"label_logit", kLabelLogit},
                                                     {"base", kBase},
                                                     {"x", kX},
                                                     {"weight", kWeightGiven},
                                                     {"labels", kLabels},
                                                     {"bias", kBias}}});
  StepNames of_tiles{.views = {{"e", kLogits},
                               {"sums", kTileSums},
                               {"tops", kTileTops},
                               {"bests", kTileBests},
                               {"deviations", kTileDeviations},
                               {"moments", kTileMoments},
                               {"label_logit", kLabelLogit},
                               {"column_weight", kColumnWeight},
                               {"x", kX},
                               {"weight", kWeight},
                               {"base", kBase},
                               {"tile_at", kTileAt},
                               {"counted", kCounted},
                               {"labels", kLabels},
                               {"bias", kColumnBias}}};
  exponentials_ = step(made.exponentials, of_tiles);
  of_tiles.views.emplace_back("again", kAgain);
  again_ = step(made.again, of_tiles);
  overflows_ =
      step(made.overflows, {.views = {{"base", kBase}, {"again", kAgain}, {"tops", kTops}, {"places", kPlaces}}});
  rows_ = step(made.rows, row_names());
  if (made.scaled_x)
    scaled_x_ =
        step(*made.scaled_x, {.views = {{"scaled", kScaledX}, {"x", kX}, {"factor", kFactor}, {"places", kPlaces}}});
}

void HeadExponentials::run(const Call& call, const LinearLayout& layout, const HeadWeight& weight, int64_t first,
                           Views* views) const {
  Views& v = *views;
  const int64_t count = v[kX].dims[0];
  std::byte* const memory = call.workspace;
  v[kBase] = make_vector(memory + layout.base, DType::f32, count);
  v[kAgain] = make_vector(memory + layout.again, DType::i32, count);
  const int64_t row_tiles = kernels::ceil_div(count, int64_t{tiles_.tile_m});
  v[kPlaces] = make_vector(memory + layout.places, DType::i32, row_tiles);
  v[kTileAt] = make_vector(memory + layout.tile_at, DType::i32, row_tiles);
  v[kCounted] = make_vector(memory + layout.counted, DType::i32, 4);
  v[kAllDepth] = rows_of(v[kCounted], 2, 2);
  v[kFactor] = make_vector(memory + layout.factor, DType::f32, count);
  v[kSmooth] = make_vector(memory + layout.smooth, DType::f32, count);
  for (size_t i = 0; i < numbers_.size(); ++i) {
    const DType type = numbers_[i].all == kBests ? DType::i32 : DType::f32;
    v[numbers_[i].all] = make_view(memory + layout.of_tiles[i], type, count, layout.tiles, layout.tiles);
  }
  v[kWeightGiven] = call.tensors[fused_linear_cross_entropy::k_weight];
  row_tiles_->run(v.data(), nullptr, row_tiles, call.stream);
  label_logits_->run(v.data(), nullptr, count, call.stream);
  multiply(call, layout, weight, *exponentials_, &v);
  overflows_->run(v.data(), nullptr, count, call.stream);
  multiply(call, layout, weight, *again_, &v);  // of rows that could not be held
  const Numbers numbers{first, 0, layout.block_shift};
  rows_->run(v.data(), numbers.data(), count, call.stream);
}

void HeadExponentials::scale_x(const Call& call, const LinearLayout& layout, Views* views) const {
  Views& v = *views;
  const int64_t count = v[kX].dims[0];
  v[kScaledX] = make_view(call.workspace + layout.scaled_x, type_, count, cols_, cols_);
  scaled_x_->run(v.data(), nullptr, count, call.stream);
}

void HeadExponentials::multiply(const Call& call, const LinearLayout& layout, const HeadWeight& weight,
                                const KernelStep& product, Views* views) const {
  if (in_blocks_) return multiply_blocks(call, layout, weight, product, views);
  Views& v = *views;
  const BoundTensor logits = v[kLogits];
  int64_t tile = 0;
  weight.for_pieces(call, layout, 0, classes_, views, [&](const Part& piece) {
    // Whole vectors, as stores like them: what is between a row of logits and the next may be written.
    v[kLogits] = columns_of(logits, piece.first, kernels::round_up(piece.size, vector_width(type_)));
    multiply_classes(call, piece, tile, layout, product, views);
    tile += kernels::ceil_div(piece.size, int64_t{tiles_.tile_n});
  });
  v[kLogits] = logits;
}

void HeadExponentials::multiply_blocks(const Call& call, const LinearLayout& layout, const HeadWeight& weight,
                                       const KernelStep& product, Views* views) const {
  Views& v = *views;
  const BoundTensor logits = v[kLogits], first = v[kFirstBlock];
  const int64_t of_first = std::min(int64_t{1} << layout.block_shift, classes_);
  // Whole vectors, as stores like them: what is between a row of the only block and the next may be written.
  v[kLogits] = {.data = first.data,
                .dims = {1, first.dims[0], kernels::round_up(first.dims[1], vector_width(type_))},
                .strides = {0, first.strides[0], 1},
                .rank = 3,
                .dtype = first.dtype,
                .present = first.present};
  for (const Part& part : {Part{0, of_first}, Part{of_first, classes_ - of_first}}) {
    weight.for_pieces(call, layout, part.first, part.size, views, [&](const Part& piece) {
      multiply_classes(call, piece, piece.first / tiles_.tile_n, layout, product, views);
    });
    v[kLogits] = v[kOtherBlocks];
  }
  v[kLogits] = logits;
}

// v[kLogits] and v[kWeight] are theirs, first_tile that of a row's tiles which they begin at.
void HeadExponentials::multiply_classes(const Call& call, const Part& classes, int64_t first_tile,
                                        const LinearLayout& layout, const KernelStep& product, Views* views) const {
  Views& v = *views;
  const int64_t tiles = kernels::ceil_div(classes.size, int64_t{tiles_.tile_n}),
                row_tiles = kernels::ceil_div(v[kX].dims[0], int64_t{tiles_.tile_m});
  for (const TileNumbers& numbers : numbers_) v[numbers.tiles] = columns_of(v[numbers.all], first_tile, tiles);
  v[kColumnBias] = rows_of(v[kBias], classes.first, classes.size);
  v[kColumnWeight] = rows_of(v[kClassWeight], classes.first, classes.size);
  const Numbers numbers{0, classes.first, layout.block_shift};
  product.run(v.data(), numbers.data(), row_tiles * tiles, call.stream);
}

void HeadExponentials::add_launchers(std::vector<const Launcher*>* all) const {
  for (const auto* step : {&row_tiles_, &label_logits_, &exponentials_, &overflows_, &again_, &rows_, &scaled_x_})
    if (*step) all->push_back((*step)->launcher());
}

}  // namespace ligerdsl::lib::head
