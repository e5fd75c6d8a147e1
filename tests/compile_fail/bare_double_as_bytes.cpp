// A number without unit does not pass for a quantity.
#include "core/quantity.hpp"

foreplan::Bytes twice(foreplan::Bytes size) { return 2 * size; }

#ifdef FOREPLAN_MUST_COMPILE
foreplan::Bytes call() { return twice(foreplan::Bytes{64}); }
#else
foreplan::Bytes call() { return twice(64.0); }
#endif
