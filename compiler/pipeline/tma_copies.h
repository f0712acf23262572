// Conditions for TMA copies to the ring of a pipelined loop.
#pragma once

#include "compiler/pipeline/loop_tiles.h"
#include "compiler/pipeline/outer_loop_pipeline.h"
#include "compiler/pipeline/pipelined_loop.h"

namespace ligerdsl::compiler {

/// Returns why TMA copies cannot bring the tiles to a ring of `slots` slots, or "" if they can. The
/// architecture must have wgmma. The ring is allocated before the outermost loop, or before the
/// outer loop of `pipeline`.
std::string reasonNoTmaCopies(const PipelinedLoop& at, const LoopTiles& tiles, int64_t ctas,
                              int64_t slots, const OuterLoopPipeline* pipeline);

}  // namespace ligerdsl::compiler
