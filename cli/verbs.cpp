#include "cli/verb.hpp"

namespace foreplan::cli {

std::vector<std::unique_ptr<Verb>> make_verbs() {
  std::vector<std::unique_ptr<Verb>> verbs;
  verbs.push_back(make_recommend());
  verbs.push_back(make_simulate());
  verbs.push_back(make_export());
  verbs.push_back(make_sweep());
  verbs.push_back(make_show());
  verbs.push_back(make_report());
  verbs.push_back(make_merge());
  verbs.push_back(make_bench());
  verbs.push_back(make_import());
  verbs.push_back(make_calibrate());
  verbs.push_back(make_validate());
  verbs.push_back(make_models());
  verbs.push_back(make_devices());
  verbs.push_back(make_clusters());
  verbs.push_back(make_completion());
  return verbs;
}

}  // namespace foreplan::cli
