#include "lib/abi/fused_linear/exponentials.h"

#include <algorithm>

namespace ligerdsl::lib::head {

HeadExponentials::HeadExponentials(Context& context, const Desc& d,
                                   const kernels::LinearCrossEntropyOptions& options)
    : classes_(options.classes),
      cols_(options.cols),
      type_(options.type),
      in_blocks_(options.in_blocks && options.with_gradient) {
  const kernels::LinearCrossEntropy made =
      kernels::linear_cross_entropy(context.machine(), options);
  tiles_ = made.config;
  using Tiles = Views::TileStatistics;
  numbers_ = {&Tiles::sums, &Tiles::tops};
  if (options.with_accuracy || options.with_predictions) numbers_.push_back(&Tiles::bests);
  if (options.smoothing) numbers_.push_back(&Tiles::deviations);
  if (options.entropies()) numbers_.push_back(&Tiles::moments);
  const auto step = [&](const kernels::Step& recorded, const StepNames& names) {
    return head_step(context, d, recorded, names);
  };
  row_tiles_ = step(made.row_tiles, {.views = {{"places", LIGERDSL_VIEW(exponentials.places)},
                                               {"tile_at", LIGERDSL_VIEW(exponentials.tile_at)},
                                               {"counted", LIGERDSL_VIEW(exponentials.counted)},
                                               {"labels", LIGERDSL_VIEW(chunk.labels)}}});
  label_logits_ =
      step(made.label_logits, {.views = {{"label_logit", LIGERDSL_VIEW(rows.label_logit)},
                                         {"base", LIGERDSL_VIEW(exponentials.base)},
                                         {"x", LIGERDSL_VIEW(chunk.x)},
                                         {"weight", LIGERDSL_VIEW(block.weight_given)},
                                         {"labels", LIGERDSL_VIEW(chunk.labels)},
                                         {"bias", LIGERDSL_VIEW(batch.bias)}}});
  StepNames of_tiles{.views = {{"e", LIGERDSL_VIEW(chunk.logits)},
                               {"sums", LIGERDSL_VIEW(block_tiles.sums)},
                               {"tops", LIGERDSL_VIEW(block_tiles.tops)},
                               {"bests", LIGERDSL_VIEW(block_tiles.bests)},
                               {"deviations", LIGERDSL_VIEW(block_tiles.deviations)},
                               {"moments", LIGERDSL_VIEW(block_tiles.moments)},
                               {"label_logit", LIGERDSL_VIEW(rows.label_logit)},
                               {"column_weight", LIGERDSL_VIEW(block.class_weight)},
                               {"x", LIGERDSL_VIEW(chunk.x)},
                               {"weight", LIGERDSL_VIEW(block.weight)},
                               {"base", LIGERDSL_VIEW(exponentials.base)},
                               {"tile_at", LIGERDSL_VIEW(exponentials.tile_at)},
                               {"counted", LIGERDSL_VIEW(exponentials.counted)},
                               {"labels", LIGERDSL_VIEW(chunk.labels)},
                               {"bias", LIGERDSL_VIEW(block.bias)}}};
  exponentials_ = step(made.exponentials, of_tiles);
  of_tiles.views.emplace_back("again", LIGERDSL_VIEW(exponentials.again));
  again_ = step(made.again, of_tiles);
  overflows_ = step(made.overflows, {.views = {{"base", LIGERDSL_VIEW(exponentials.base)},
                                               {"again", LIGERDSL_VIEW(exponentials.again)},
                                               {"tops", LIGERDSL_VIEW(tiles.tops)},
                                               {"places", LIGERDSL_VIEW(exponentials.places)}}});
  rows_ = step(made.rows, row_names());
  if (made.scaled_x)
    scaled_x_ = step(*made.scaled_x, {.views = {{"scaled", LIGERDSL_VIEW(exponentials.scaled_x)},
                                                {"x", LIGERDSL_VIEW(chunk.x)},
                                                {"factor", LIGERDSL_VIEW(exponentials.factor)},
                                                {"places", LIGERDSL_VIEW(exponentials.places)}}});
}

void HeadExponentials::run(const Call& call, const LinearLayout& layout, const HeadWeight& weight,
                           int64_t first, Views* views) const {
  Views& v = *views;
  const int64_t count = v.chunk.x.dims[0];
  std::byte* const memory = call.workspace;
  v.exponentials.base = make_vector(memory + layout.base, DType::f32, count);
  v.exponentials.again = make_vector(memory + layout.again, DType::i32, count);
  const int64_t row_tiles = kernels::ceil_div(count, int64_t{tiles_.tile_m});
  v.exponentials.places = make_vector(memory + layout.places, DType::i32, row_tiles);
  v.exponentials.tile_at = make_vector(memory + layout.tile_at, DType::i32, row_tiles);
  v.exponentials.counted = make_vector(memory + layout.counted, DType::i32, 4);
  v.exponentials.all_depth = rows_of(v.exponentials.counted, 2, 2);
  v.exponentials.factor = make_vector(memory + layout.factor, DType::f32, count);
  v.smoothing.of_rows = make_vector(memory + layout.smooth, DType::f32, count);
  for (size_t i = 0; i < numbers_.size(); ++i) {
    const DType type = numbers_[i] == &Views::TileStatistics::bests ? DType::i32 : DType::f32;
    v.tiles.*numbers_[i] =
        make_view(memory + layout.of_tiles[i], type, count, layout.tiles, layout.tiles);
  }
  v.block.weight_given = call.tensors[fused_linear_cross_entropy::k_weight];
  row_tiles_->run(view_table(v), nullptr, row_tiles, call.stream);
  label_logits_->run(view_table(v), nullptr, count, call.stream);
  multiply(call, layout, weight, *exponentials_, v);
  overflows_->run(view_table(v), nullptr, count, call.stream);
  // Recomputes rows whose exponentials overflowed with their first base.
  multiply(call, layout, weight, *again_, v);
  const Numbers numbers{first, 0, layout.block_shift};
  rows_->run(view_table(v), numbers.data(), count, call.stream);
}

void HeadExponentials::scale_x(const Call& call, const LinearLayout& layout, Views* views) const {
  Views& v = *views;
  const int64_t count = v.chunk.x.dims[0];
  v.exponentials.scaled_x =
      make_view(call.workspace + layout.scaled_x, type_, count, cols_, layout.copy_stride);
  scaled_x_->run(view_table(v), nullptr, count, call.stream);
}

void HeadExponentials::multiply(const Call& call, const LinearLayout& layout,
                                const HeadWeight& weight, const KernelStep& product,
                                const Views& views) const {
  if (in_blocks_) return multiply_blocks(call, layout, weight, product, views);
  int64_t tile = 0;
  weight.for_pieces(call, layout, 0, classes_, views, [&](const Part& piece, Views& v) {
    // Rounds up to whole vectors, because a store may write the padding between rows of logits.
    const int64_t columns = kernels::round_up(piece.size, vector_width(type_));
    v.chunk.logits = columns_of(views.chunk.logits, piece.first, columns);
    multiply_classes(call, piece, tile, layout, product, v);
    tile += kernels::ceil_div(piece.size, int64_t{tiles_.tile_n});
  });
}

void HeadExponentials::multiply_blocks(const Call& call, const LinearLayout& layout,
                                       const HeadWeight& weight, const KernelStep& product,
                                       const Views& views) const {
  const BoundTensor& first = views.exponentials.first_block;
  // Rounds up to whole vectors, because a store may write the padding between a single block's
  // rows.
  const BoundTensor first_block{
      .data = first.data,
      .dims = {1, first.dims[0], kernels::round_up(first.dims[1], vector_width(type_))},
      .strides = {0, first.strides[0], 1},
      .rank = 3,
      .dtype = first.dtype,
      .present = first.present};
  const auto multiply_part = [&](const Part& part, const BoundTensor& logits) {
    weight.for_pieces(call, layout, part.first, part.size, views, [&](const Part& piece, Views& v) {
      v.chunk.logits = logits;
      multiply_classes(call, piece, piece.first / tiles_.tile_n, layout, product, v);
    });
  };
  const int64_t of_first = std::min(int64_t{1} << layout.block_shift, classes_);
  multiply_part({0, of_first}, first_block);
  multiply_part({of_first, classes_ - of_first}, views.exponentials.other_blocks);
}

// Computes the exponentials of `classes`, which are the columns of chunk.logits and the rows of
// block.weight. They begin at column tile `first_tile`.
void HeadExponentials::multiply_classes(const Call& call, const Part& classes, int64_t first_tile,
                                        const LinearLayout& layout, const KernelStep& product,
                                        const Views& views) const {
  Views v = views;
  const int64_t tiles = kernels::ceil_div(classes.size, int64_t{tiles_.tile_n}),
                row_tiles = kernels::ceil_div(v.chunk.x.dims[0], int64_t{tiles_.tile_m});
  for (const auto numbers : numbers_)
    v.block_tiles.*numbers = columns_of(v.tiles.*numbers, first_tile, tiles);
  v.block.bias = rows_of(v.batch.bias, classes.first, classes.size);
  v.block.class_weight = rows_of(v.batch.class_weight, classes.first, classes.size);
  const Numbers numbers{0, classes.first, layout.block_shift};
  product.run(view_table(v), numbers.data(), row_tiles * tiles, call.stream);
}

void HeadExponentials::add_launchers(std::vector<const Launcher*>* all) const {
  for (const auto* step :
       {&row_tiles_, &label_logits_, &exponentials_, &overflows_, &again_, &rows_, &scaled_x_})
    if (*step) all->push_back((*step)->launcher());
}

}  // namespace ligerdsl::lib::head
