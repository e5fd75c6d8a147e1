#pragma once
// Rounding to the 8-bit floating-point formats (OCP 8-bit Floating Point Specification,
// revision 1.0).

#include "kernels/kernel.hpp"

namespace foreplan::kernels::reference {

struct Fp8Format {
  int mantissa_bits, least_exponent;  ///< of normal numbers
  double largest;
};
/// e4m3: 448, 2^-6; e5m2: 57344, 2^-14.
[[nodiscard]] Fp8Format fp8_format(Storage storage);

/// To nearest, ties to even, saturating at the largest finite number.
[[nodiscard]] double round_to_fp8(double x, Fp8Format format);

}  // namespace foreplan::kernels::reference
