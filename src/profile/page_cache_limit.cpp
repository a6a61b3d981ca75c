#include "page_cache_limit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace dsanalyze {
namespace {

constexpr Nanoseconds period = nanoseconds_per_second / 10;

}  // namespace

PageCacheLimit::PageCacheLimit(RunContext& context, Bytes to_come) : m_to_come(to_come) {
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
  m_group->limit(target() + std::max(own, m_to_come));
  m_held = use.page_cache;
}

void PageCacheLimit::report(RunContext& context) const {
  if (!m_was_active) return;
  const bool as_asked = m_asked >= least;
  context.find(
      as_asked ? Finding::Severity::info : Finding::Severity::warning, "page-cache-limited",
      fmt::format("the kernel's page cache was held to {} by a control group and had {} at the end.{}", format_bytes(target()), format_bytes(m_held),
                  as_asked ? ""
                           : fmt::format(" Less ({} was asked for) cannot be held beside a process that works; the hits are those of the "
                                         "larger cache. Take a larger dataset.",
                                         format_bytes(m_asked))));
}

void PageCacheLimit::end() {
  if (m_group) m_held = m_group->use().page_cache;
  m_group.reset();
}

}  // namespace dsanalyze
