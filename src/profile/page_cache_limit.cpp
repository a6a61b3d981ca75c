#include "page_cache_limit.hpp"

#include <algorithm>
#include <cmath>

namespace dsanalyze {
namespace {

constexpr Nanoseconds period = nanoseconds_per_second / 10;

}  // namespace

PageCacheLimit::PageCacheLimit(RunContext& context) {
  if (!context.inputs.settings.memory_limit) return;
  m_asked = static_cast<Bytes>(std::llround(context.plan.cache_fraction * static_cast<double>(context.subset->bytes())));
  m_group.emplace();
  m_was_active = true;
  adjust(context.timing.clock->now());
}

void PageCacheLimit::adjust(Nanoseconds now) {
  if (!m_group || now < m_next_look) return;
  m_next_look = now + period;
  const MemoryGroup::Use use = m_group->use();
  const Bytes own = use.total - std::min(use.total, use.page_cache);
  m_group->limit(target() + own);
  m_held = use.page_cache;
}

void PageCacheLimit::end() {
  if (m_group) m_held = m_group->use().page_cache;
  m_group.reset();
}

}  // namespace dsanalyze
