// Whether the tests run under a sanitizer: CAPSTAN_SANITIZED, and CAPSTAN_ADDRESS_SANITIZED for AddressSanitizer, come from
// tests/CMakeLists.txt, since compilers tell it in different ways.
#pragma once

namespace capstan::test {

#ifdef CAPSTAN_SANITIZED
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif

}  // namespace capstan::test
