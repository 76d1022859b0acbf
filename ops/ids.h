// The check of class and token ids, with one wording for all ops that take them. Internal to the ops layer.
#pragma once

#include <capstan/autograd/shape.h>
#include <capstan/autograd/view.h>

#include <optional>
#include <string>
#include <string_view>

namespace capstan::ops {

/// "[0, 3]": where the element at a row-major position stands.
std::string place_of(const Shape& shape, Index position);

/// An Error for the first id outside [0, bound) that is not `ignore`:
/// `embedding: ids must be in [0, 64); got 71 at [0, 3]`. `ids` is i32.
void require_ids(std::string_view op, std::string_view argument, const ConstView& ids, Index bound,
                 std::optional<Index> ignore = std::nullopt);

}  // namespace capstan::ops
