#include "page_cache_limit.hpp"

#include <algorithm>
#include <cmath>

namespace dsanalyze {

PageCacheLimit::PageCacheLimit(RunContext& context) {
  if (!context.inputs.settings.memory_limit) return;
  m_target = static_cast<Bytes>(std::llround(context.plan.cache_fraction * static_cast<double>(context.subset->bytes())));
  m_group.emplace();
  adjust();
}

void PageCacheLimit::adjust() {
  if (!m_group) return;
  const MemoryGroup::Use use = m_group->use();
  const Bytes own = use.total - std::min(use.total, use.page_cache);
  m_group->limit(m_target + own);
  m_held = use.page_cache;
}

}  // namespace dsanalyze
