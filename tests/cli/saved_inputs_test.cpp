#include "cli/commands/saved_profiles.hpp"

#include <doctest/doctest.h>

#include <string>

#include "../base/texts.hpp"
#include "../loaders/dataset/opened_dataset.hpp"
#include "cli/options/typed_options.hpp"

namespace dsanalyze::cli {
namespace {

constexpr std::uint64_t profiled_seed = 7;

/// A folder of samples and the saved profile of it.
class ProfiledFolder {
 public:
  ProfiledFolder() {
    for (int number = 0; number < 100; ++number) m_folder.add(name_of(number), "picture " + std::to_string(1000 + number));
    const auto index = testing::open_index(m_folder);
    profile.settings.dataset = m_folder.root();
    profile.settings.seed = profiled_seed;
    profile.dataset.digest = index->facts().digest;
    profile.dataset.content_sample_digest = sample_contents(*index, profiled_seed, {})->digest;
  }
  void overwrite_in_place() const {
    for (int number = 0; number < 100; ++number) m_folder.add(name_of(number), "Picture " + std::to_string(1000 + number));
  }
  /// Why the profile's dataset is refused; "accepted" when it is not.
  [[nodiscard]] std::string refusal() const {
    const CommonOptions options;  // another seed than the profile's
    const TypedOptions typed(commands().front(), {});
    const CommandContext context{options, typed, null_events(), {}, {}, {}};
    return testing::message_of([&] { static_cast<void>(inputs_of(profile, context)); });
  }

  ProfileResult profile;

 private:
  static std::string name_of(int number) { return std::to_string(number) + ".jpg"; }

  testing::DatasetFolder m_folder;
};

TEST_CASE("a profile's dataset that is as it was is accepted, whatever seed the command has") { CHECK(ProfiledFolder().refusal() == "accepted"); }

TEST_CASE("a profile's dataset whose files were overwritten in place is refused, with the digest of its contents now and then") {
  const ProfiledFolder folder;
  folder.overwrite_in_place();
  const std::string text = folder.refusal();
  CHECK(testing::says(text, "is not the one that was profiled any more (digest of a sample of the contents "));
  CHECK(testing::says(text, ", in the profile " + *folder.profile.dataset.content_sample_digest + "): profile again"));
}

TEST_CASE("the dataset of an older profile, which has no digest of contents, is compared by names, sizes and labels alone") {
  ProfiledFolder folder;
  folder.profile.dataset.content_sample_digest.reset();
  folder.overwrite_in_place();
  CHECK(folder.refusal() == "accepted");
  folder.profile.dataset.digest = "another";
  CHECK(testing::says(folder.refusal(), "any more (digest "));
}

}  // namespace
}  // namespace dsanalyze::cli
