#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "../base/temporary_folder.hpp"
#include "feed_rig.hpp"
#include "loaders/server/server_scope.hpp"
#include "share/dependent_host.hpp"

namespace dsanalyze::testing {

inline LoadInputs inputs_of_jobs() {
  LoadInputs inputs;
  inputs.index = group_index();
  inputs.settings.dataset = "emulated:shared";
  inputs.settings.storage = Seam::null;
  inputs.settings.dtype = DType::uint8;
  inputs.settings.layout = Layout::nhwc;
  inputs.settings.batch_size = 4;
  inputs.settings.workers = 1;
  inputs.settings.runs = {"full"};
  inputs.image_prep.crop_size = 2;
  return inputs;
}

enum class Listens { no, yes };

/// A dependent group, with threads in place of a loader.
class HostRig {
 public:
  explicit HostRig(std::uint32_t most_jobs = 8, std::uint64_t epochs = 3, DependentPositions positions = {},
                   std::optional<DependentGroup::State> resumed = {}, Listens listens = Listens::yes, std::function<void()> before_piece = {})
      : m_inputs(inputs_of_jobs()),
        m_terms(m_inputs, spec(m_inputs), {epochs, 2}),
        m_server(Pipeline::make_server(m_inputs, spec(m_inputs), 1, system_timing())),
        m_feed(6, StagingPolicy::refcnt, dataset_samples, 5'000'000, std::move(resumed)),
        m_host({&m_terms, &m_feed.feed(), m_inputs.index, m_server.get(), most_jobs,
                listens == Listens::yes ? m_folder.path() / "group" : std::filesystem::path(), system_timing(), m_log.sink(), std::move(positions),
                std::move(before_piece)}) {}

  DependentHost& host() { return m_host; }
  [[nodiscard]] const DependentHost& host() const { return m_host; }
  FeedRig& feed() { return m_feed; }
  [[nodiscard]] const GroupTerms& terms() const { return m_terms.defaults(); }
  EventLog& log() { return m_log; }
  /// A job in a process of its own: `body` is given its member, which is let in.
  template <typename Body>
  MemberProcess job(GroupDemands demands, const Body& body, const StagingObserver& observer = {}) {
    return MemberProcess([address = m_host.address(), demands, body, observer] {
      GroupMember member({connect_group(address, system_timing()), demands, system_timing(), observer});
      if (!member.enter(in_time()).ok()) return 2;
      return body(member);
    });
  }

 private:
  static Pipeline::Spec spec(const LoadInputs& inputs) {
    Pipeline::Spec spec;
    spec.index = inputs.index;
    return spec;
  }

  TemporaryFolder m_folder;
  EventLog m_log;
  LoadInputs m_inputs;
  DependentTerms m_terms;
  std::shared_ptr<ServerHolder> m_server;
  FeedRig m_feed;
  DependentHost m_host;
};

}  // namespace dsanalyze::testing
