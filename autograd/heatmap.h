// A matrix in the terminal, each number on a ground as strong as the number is large. Not for: exact values (to_string).
#pragma once

#include <capstan/autograd/tensor.h>

#include <cstdio>
#include <string>
#include <vector>

namespace capstan {

/// A matrix [M, N] of any dtype, a line a row, labels (UTF-8) before the rows and above the columns.
/// Columns without labels take those of the rows if there are as many; rows without labels have none.
///
/// Numbers have two decimals; if the largest magnitude is 1e5 or more, or less than 0.005, three significant digits.
/// With `colour` each finite cell stands on one of 256-colour terminals' shades: the larger its magnitude, as a part of the largest
/// finite one, the stronger; white at zero, blue above, orange below, on dark terminals as on light ones. Without it there are no escape sequences.
/// heatmap({{1, 0}, {0.25, 0.75}}, {"a", "b"}) is "      a    b\na  1.00 0.00\nb  0.25 0.75\n".
/// Errors: x is not a matrix; labels that are not one for each row or column.
std::string heatmap(const Tensor& x, const std::vector<std::string>& rows = {},
                    const std::vector<std::string>& columns = {}, bool colour = false);

/// Writes it to `out`: in colour on a terminal (unless the environment says NO_COLOR, or TERM is dumb), plain elsewhere.
void print_heatmap(const Tensor& x, const std::vector<std::string>& rows = {},
                   const std::vector<std::string>& columns = {}, std::FILE* out = stdout);

}  // namespace capstan
