#include "lib/src/ops/head_exponentials.h"

namespace ligerdsl::lib::head {

HeadExponentials::HeadExponentials(Context& context, const Desc& d, const kernels::LinearCrossEntropyOptions& options)
    : classes_(options.classes), cols_(options.cols), type_(options.type) {
  const kernels::LinearCrossEntropy made = kernels::linear_cross_entropy(context.machine(), options);
  tiles_ = made.config;
  numbers_ = {{kSums, kTileSums}, {kTops, kTileTops}};
  if (options.with_accuracy || options.with_predictions) numbers_.push_back({kBests, kTileBests});
  if (options.smoothing) numbers_.push_back({kDeviations, kTileDeviations});
  if (options.entropies()) numbers_.push_back({kMoments, kTileMoments});
  const auto step = [&](const kernels::Step& recorded, const StepNames& names) {
    return head_step(context, d, recorded, names);
  };
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
                               {"labels", kLabels},
                               {"bias", kColumnBias}}};
  exponentials_ = step(made.exponentials, of_tiles);
  of_tiles.views.emplace_back("again", kAgain);
  again_ = step(made.again, of_tiles);
  overflows_ = step(made.overflows, {.views = {{"base", kBase}, {"again", kAgain}, {"tops", kTops}}});
  rows_ = step(made.rows, row_names());
}

void HeadExponentials::run(const Call& call, const LinearLayout& layout, const HeadWeight& weight, int64_t first,
                           Views* views) const {
  Views& v = *views;
  const int64_t count = v[kX].dims[0];
  std::byte* const memory = call.workspace;
  v[kBase] = make_vector(memory + layout.base, DType::f32, count);
  v[kAgain] = make_vector(memory + layout.again, DType::i32, count);
  v[kFactor] = make_vector(memory + layout.factor, DType::f32, count);
  v[kSmooth] = make_vector(memory + layout.smooth, DType::f32, count);
  for (size_t i = 0; i < numbers_.size(); ++i) {
    const DType type = numbers_[i].all == kBests ? DType::i32 : DType::f32;
    v[numbers_[i].all] = make_view(memory + layout.of_tiles[i], type, count, layout.tiles, layout.tiles);
  }
  v[kScaledX] = make_view(memory + layout.scaled_x, type_, count, cols_, cols_);
  v[kWeightGiven] = call.tensors[fused_linear_cross_entropy::k_weight];
  label_logits_->run(v.data(), nullptr, count, call.stream);
  multiply(call, layout, weight, *exponentials_, &v);
  overflows_->run(v.data(), nullptr, count, call.stream);
  multiply(call, layout, weight, *again_, &v);  // of rows that could not be held
  rows_->run(v.data(), &first, count, call.stream);
}

void HeadExponentials::multiply(const Call& call, const LinearLayout& layout, const HeadWeight& weight,
                                const KernelStep& product, Views* views) const {
  Views& v = *views;
  const BoundTensor logits = v[kLogits];
  const int64_t row_tiles = kernels::ceil_div(logits.dims[0], int64_t{tiles_.tile_m});
  int64_t tile = 0;
  weight.for_pieces(call, layout, 0, classes_, views, [&](const Part& piece) {
    const int64_t tiles = kernels::ceil_div(piece.size, int64_t{tiles_.tile_n});
    for (const TileNumbers& numbers : numbers_) v[numbers.tiles] = columns_of(v[numbers.all], tile, tiles);
    v[kColumnBias] = rows_of(v[kBias], piece.first, piece.size);
    v[kColumnWeight] = rows_of(v[kClassWeight], piece.first, piece.size);
    // Whole vectors, as stores like them: what is between a row of logits and the next may be written.
    v[kLogits] = columns_of(logits, piece.first, kernels::round_up(piece.size, vector_width(type_)));
    const Numbers numbers{0, piece.first};
    product.run(v.data(), numbers.data(), row_tiles * tiles, call.stream);
    tile += tiles;
  });
  v[kLogits] = logits;
}

void HeadExponentials::add_launchers(std::vector<const Launcher*>* all) const {
  for (const auto* step : {&label_logits_, &exponentials_, &overflows_, &again_, &rows_})
    all->push_back((*step)->launcher());
}

}  // namespace ligerdsl::lib::head
