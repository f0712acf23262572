// The table of remarks (program/remarks.def) as C++, for the compiler, the runtime and the
// launcher.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "program/artifact.h"

namespace ligerdsl::program {

enum class RemarkId : uint16_t {
#define LIGERDSL_REMARK(name, ...) name,
#include "program/remarks.def"
};

/// Returns the id as it is printed, for example "load-not-ahead".
const std::string& id_of(RemarkId remark);
/// Returns the pass or other source that emits the remark.
const char* pass_of(RemarkId remark);
/// Returns the remark with this printed id.
std::optional<RemarkId> find_remark(std::string_view id);

/// Returns a remark without file, line and column.
Remark make_remark(RemarkId remark, std::string text);

/// Returns the remedy from remarks.def: the remark's column `change`, or that of the reason in its
/// text. Returns "" for a diagnostic of MLIR, and for a reason that is not in the table.
std::string remedy_of(const Remark& remark);
/// Returns to_string(remark). Appends "; remedy: ..." to a text without "; ", which names no
/// remedy.
std::string text_with_remedy(const Remark& remark);

}  // namespace ligerdsl::program
