// Element types and the dispatch from a run-time dtype to a C++ type.
#pragma once

#include <cstdint>
#include <string_view>
#include <type_traits>

namespace capstan {

/// f32 and f64 carry gradients; i32 holds ids and class indices; boolean holds masks, one byte an element, 0 or 1.
enum class DType : std::uint8_t { f32, f64, i32, boolean };

/// Bytes per element.
constexpr std::int64_t size_of(DType dtype) {
  switch (dtype) {
    case DType::f32: return 4;
    case DType::f64: return 8;
    case DType::i32: return 4;
    case DType::boolean: return 1;
  }
  return 0;
}

/// "f32", "f64", "i32" or "bool".
constexpr std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::f32: return "f32";
    case DType::f64: return "f64";
    case DType::i32: return "i32";
    case DType::boolean: return "bool";
  }
  return "?";
}

constexpr bool is_float(DType dtype) { return dtype == DType::f32 || dtype == DType::f64; }

/// The C++ types that tensors hold: float, double, std::int32_t, bool.
template <class T>
concept Element =
    std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, std::int32_t> || std::is_same_v<T, bool>;

template <Element T>
inline constexpr DType dtype_of = std::is_same_v<T, float>          ? DType::f32
                                  : std::is_same_v<T, double>       ? DType::f64
                                  : std::is_same_v<T, std::int32_t> ? DType::i32
                                                                    : DType::boolean;

/// Calls f with a value of the dtype's C++ type (use `decltype`): visit_dtype(d, [&](auto zero) { using T = decltype(zero); … }).
template <class F>
decltype(auto) visit_dtype(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32: return f(float{});
    case DType::f64: return f(double{});
    case DType::i32: return f(std::int32_t{});
    case DType::boolean: break;
  }
  return f(bool{});
}

/// The same for float dtypes only; the caller has checked `is_float(dtype)`.
template <class F>
decltype(auto) visit_float(DType dtype, F&& f) {
  return dtype == DType::f32 ? f(float{}) : f(double{});
}

}  // namespace capstan
