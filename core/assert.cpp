#include "core/assert.hpp"

#include <cstdio>
#include <cstdlib>

namespace foreplan {

void assertion_failed(const char* condition, const char* why, const char* file, int line) {
  std::fprintf(stderr, "foreplan: a bug: %s (%s does not hold) at %s:%d\n", why, condition, file,
               line);
  std::abort();
}

}  // namespace foreplan
