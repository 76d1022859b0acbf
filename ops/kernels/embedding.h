// Rows of a table by id, and the transpose: adding rows back. Not for: checking ids beyond finding the first bad one.
#pragma once

#include <capstan/autograd/view.h>

#include <optional>

namespace capstan::kernels {

/// Row-major position of the first id outside [0, bound) that does not equal `ignore`; −1 if there is none.
Index find_outside(ConstView ids, Index bound, std::optional<std::int64_t> ignore = std::nullopt);

/// out [ids..., C] = table [V, C] rows. ids i32, any strides, all in [0, V); table any strides; f32, f64.
void gather_rows(ConstView table, ConstView ids, View out);

/// dtable [V, C] = for each row, the sum of the dout rows [ids..., C] with its id, added in order of position in f64 and
/// rounded once; 0 where there is none. Positions whose id is `skip` (a padding id) add nothing. f32, f64.
/// With `accumulate` the sums start from what dtable holds, and rows without an id stay as they are, unread.
void scatter_rows(ConstView dout, ConstView ids, std::optional<std::int64_t> skip, bool accumulate, View dtable);

}  // namespace capstan::kernels
