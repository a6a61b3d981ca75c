#include "attach/messages.hpp"

#include <doctest/doctest.h>

#include "../base/texts.hpp"
#include "attach/training.hpp"

using namespace dsanalyze;
using testing::message_of;
using testing::says;

namespace {

const std::string window = R"({"begin":1000000000,"end":1300000000,"wait":[100000000,0],"compute":[50000000,50000000],"outside":[0,100000000],)"
                           R"("samples":[32,32],"steps":[1,1]})";

template <typename Message>
Message parsed(const std::string& line) {
  return std::get<Message>(parse_hook_message(line));
}

std::string refused(const std::string& line) {
  return message_of([&] { parse_hook_message(line); });
}

}  // namespace

TEST_CASE("a checkpoint brings the steps since the last one, in seconds") {
  const auto at = parsed<CheckpointMessage>(R"({"t":"at","why":"window","step":7,"window":)" + window + "}");
  CHECK(at.why == CheckpointMessage::Why::window);
  CHECK(at.step == 7);
  REQUIRE(at.window.has_value());
  CHECK(at.window->wait == std::vector<double>{0.1, 0});
  CHECK(at.window->outside[1] == doctest::Approx(0.1));
  CHECK(at.window->ranks == std::vector<double>{0, 0});
  CHECK(at.window->optimizer_steps == 2);
}

TEST_CASE("one number in place of a list holds for every step") {
  const auto counted = parsed<CheckpointMessage>(R"({"t":"at","why":"window","window":{"begin":1,"end":9,"samples":[4,3],"cut":true}})");
  CHECK(counted.window->is_counted());
  CHECK(counted.window->cut);
  CHECK(counted.window->samples == std::vector<double>{4, 3});

  const auto passive = parsed<PassiveMessage>(R"({"t":"passive","window":)" + testing::replaced(window, "[32,32]", "16") + "}");
  REQUIRE(passive.window.has_value());
  CHECK(passive.window->samples == std::vector<double>{16, 16});
}

TEST_CASE("a checkpoint brings what the script did beside its steps, and the size of its pictures") {
  const auto at = parsed<CheckpointMessage>(
      R"({"t":"at","why":"window","picture":[224,320],"spent":[{"what":"validation","file":"/job/train.py","line":9,"count":2,"time":500000000,)"
      R"("waited":100000000,"workers":0},{"what":"save","file":null,"line":null,"count":1,"time":1,"waited":0,"workers":null}]})");
  CHECK(at.picture == std::array<int, 2>{224, 320});
  REQUIRE(at.spent.size() == 2);
  CHECK(at.spent[0].what == ScriptCostRecord::What::validation);
  CHECK(at.spent[0].file == "/job/train.py");
  CHECK(at.spent[0].seconds == doctest::Approx(0.5));
  CHECK(at.spent[0].waited_seconds == doctest::Approx(0.1));
  CHECK(at.spent[0].workers == 0);
  CHECK(at.spent[1].file.empty());
  CHECK_FALSE(at.spent[1].workers);
  CHECK(says(refused(R"({"t":"at","why":"window","picture":[224]})"), "/picture"));
  CHECK(says(refused(R"({"t":"at","why":"window","spent":[{"what":"sleep"}]})"), "/spent/0/what"));
}

TEST_CASE("a device comes with the CPUs that the process may use") {
  const auto device = parsed<DeviceMessage>(R"({"t":"device","cuda":false,"device":"x","cpus":[2,3],"gpus":"GPU-a"})");
  CHECK(device.gpus == "GPU-a");
  CHECK(device.cpus == std::vector<int>{2, 3});
  CHECK(parsed<DeviceMessage>(R"({"t":"device","cuda":false,"device":"x"})").cpus.empty());
}

TEST_CASE("what was seen of a training without recognised steps is counted, and told in words") {
  const auto seen = parsed<SeenMessage>(
      R"({"t":"seen","batches":80,"with_gradients":79,"backward":1,"optimizer_steps":0,"name":"x","dataset_class":"a.Photos","file":"train.py","line":41})");
  CHECK(text_of(seen) ==
        "80 batches of a DataLoader (train.py:41, a.Photos), 79 of them with gradients enabled, 1 backward pass, and no step of a torch.optim "
        "optimizer");
  CHECK(text_of(parsed<SeenMessage>(R"({"t":"seen","batches":0,"with_gradients":0,"backward":2,"optimizer_steps":1,"file":null})")) ==
        "no batch of a DataLoader, 2 backward passes, and 1 step of a torch.optim optimizer");
}

TEST_CASE("what is wrong in a hook's message is named") {
  CHECK(says(refused("{"), "training process"));
  CHECK(says(refused(R"({"t":"hallo"})"), "hello"));
  CHECK(says(refused(R"({"t":"at","why":"window","window":)" + testing::replaced(window, "[32,32]", "[32]") + "}"), "as many as the other lists"));
  CHECK(says(refused(R"({"t":"at","why":"window","window":)" + testing::replaced(window, "1300000000", "900000000") + "}"), "/end"));
  CHECK(says(refused(R"({"t":"at","why":"window","window":)" + testing::replaced(window, "[100000000,0]", "[-1,0]") + "}"), "/window/wait"));
  CHECK(says(refused(R"({"t":"hello","pid":5,"world":2,"rank":2})"), "/rank"));
  CHECK(says(refused(R"({"t":"drained","workers":1,"pass":"measure","start":1,"times":[3,2],"samples":[1,1]})"), "/times"));
}

TEST_CASE("an answer is one line that says what to do") {
  CHECK(answer_text(RunSteps{12}) == "{\"do\":\"run\",\"steps\":12}\n");
  CHECK(answer_text(PlainAnswer::end) == "{\"do\":\"end\"}\n");
  CHECK(says(answer_text(SwitchPhase{AttachPhase::synthetic, 16, 1024}), "\"keep\":16"));
  CHECK(says(answer_text(DrainLoader{4, 100, 2.5, true}), "\"pass\":\"measure\""));
}

TEST_CASE("a process says which of how many ranks it is, and how many are on its server where it knows") {
  const auto first = parsed<HelloMessage>(R"({"t":"hello","pid":7,"rank":1,"world":4,"local_world":2,"distributed":true})");
  CHECK(first.local_world == 2);
  CHECK(first.distributed);
  const auto later = parsed<HelloMessage>(R"({"t":"rank","pid":7,"rank":1,"world":4,"local_world":null})");
  CHECK_FALSE(later.local_world);
  CHECK_FALSE(later.distributed);
  CHECK(says(refused(R"({"t":"hello","pid":7,"rank":1,"world":4,"local_world":0})"), "local_world"));
}
