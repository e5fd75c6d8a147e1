#include "core/quantity.hpp"

#ifdef FOREPLAN_MUST_COMPILE
foreplan::Bytes sum() { return foreplan::Bytes{1} + foreplan::Bytes{2}; }
#else
auto sum() { return foreplan::Bytes{1} + foreplan::Seconds{2}; }
#endif
