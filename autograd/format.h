// fmt support: `fail` for errors, and formatters of the library's values. Include from .cpp files only: it pulls in fmt.
#pragma once

#include <capstan/autograd/dtype.h>
#include <capstan/autograd/error.h>
#include <capstan/autograd/layout.h>
#include <capstan/autograd/tensor.h>
#include <fmt/format.h>

#include <string>

template <>
struct fmt::formatter<capstan::Shape> : fmt::formatter<fmt::string_view> {
  auto format(const capstan::Shape& shape, fmt::format_context& context) const -> decltype(context.out()) {
    return fmt::formatter<fmt::string_view>::format(capstan::to_string(shape), context);
  }
};

template <>
struct fmt::formatter<capstan::DType> : fmt::formatter<fmt::string_view> {
  auto format(capstan::DType dtype, fmt::format_context& context) const -> decltype(context.out()) {
    const std::string_view name = capstan::name_of(dtype);
    return fmt::formatter<fmt::string_view>::format({name.data(), name.size()}, context);
  }
};

template <>
struct fmt::formatter<capstan::Tensor> : fmt::formatter<fmt::string_view> {
  auto format(const capstan::Tensor& x, fmt::format_context& context) const -> decltype(context.out()) {
    return fmt::formatter<fmt::string_view>::format(capstan::to_string(x), context);
  }
};

namespace capstan {

/// Throws Error with a formatted sentence.
template <class... Arguments>
[[noreturn]] void fail(fmt::format_string<Arguments...> sentence, Arguments&&... arguments) {
  throw Error(fmt::format(sentence, std::forward<Arguments>(arguments)...));
}

}  // namespace capstan
