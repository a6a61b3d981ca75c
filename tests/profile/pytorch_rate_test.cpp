#include "profile/pytorch_rate.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>

#include <chrono>
#include <fstream>
#include <string>
#include <thread>

#include "../base/temporary_folder.hpp"
#include "../base/texts.hpp"
#include "base/error.hpp"

namespace dsanalyze {
namespace {

/// A script in place of the product's: `out` is the open file, `question` what was asked.
class Script {
 public:
  explicit Script(const std::string& body) {
    std::ofstream(m_folder.path() / "script.py")
        << "import json, os, sys, time\nquestion = json.loads(sys.argv[1])\nout = open(question['out'], 'w')\n"
           "def say(**what):\n    out.write(json.dumps(what) + '\\n')\n    out.flush()\n"
           "def begin(device='cpu', mixed=False):\n"
           "    say(torch='2', torchvision='0.9', device=device, name='a device', mixed_precision=mixed)\n"
        << body;
  }
  [[nodiscard]] PyTorchQuestion question() const {
    PyTorchQuestion question;
    question.script = m_folder.path() / "script.py";
    question.folder = m_folder.path();
    question.network = "resnet18";
    question.batch_size = 8;
    question.patience_seconds = 20;
    return question;
  }
  [[nodiscard]] MeasuredAccelerator ask() const { return measure_pytorch_rate(question(), {}, system_timing()); }
  [[nodiscard]] std::string complaint() const {
    return testing::message_of<Error>([this] { static_cast<void>(ask()); });
  }

 private:
  testing::TemporaryFolder m_folder;
};

bool has_children() { return ::waitpid(-1, nullptr, WNOHANG | __WALL) >= 0; }

}  // namespace

TEST_CASE("the rate is that of the steps, and the method names what trained") {
  const Script script("begin(device='cuda', mixed=True)\nfor i in range(1, 11): say(seconds=i * 0.5, samples=i * 8)\n");
  const MeasuredAccelerator measured = script.ask();
  CHECK(measured.rate.estimate.value == doctest::Approx(16));
  CHECK(measured.samples == 80);
  CHECK(measured.seconds == doctest::Approx(5));
  CHECK_FALSE(measured.on_cpu);
  CHECK(measured.method == "resnet18, batches of 8: PyTorch 2, torchvision 0.9, a device, mixed precision");
  CHECK_FALSE(has_children());
}

TEST_CASE("what PyTorch cannot do is told in its words") {
  CHECK(Script("say(error='RuntimeError: PyTorch 2 finds no CUDA device')\nraise SystemExit(1)").complaint().find("finds no CUDA device") !=
        std::string::npos);
  CHECK(Script("begin()\nsay(error='OutOfMemoryError: too much\\x1b[2J')\nraise SystemExit(1)").complaint().find("\x1b") == std::string::npos);
}

TEST_CASE("a process that dies, leaves too little or something else is an error") {
  CHECK(Script("os.kill(os.getpid(), 9)").complaint().find("signal 9") != std::string::npos);
  CHECK(Script("raise SystemExit(3)").complaint().find("exit code 3") != std::string::npos);
  CHECK(Script("begin()").complaint().find("too few") != std::string::npos);
  CHECK(Script("").complaint().find("too few") != std::string::npos);
  CHECK(Script("begin()\nfor i in range(9): say(seconds=0, samples=0)").complaint().find("not understood") != std::string::npos);
  CHECK(Script("begin()\nfor i in range(9): say(seconds='x', samples=[])").complaint().find("not understood") != std::string::npos);
  CHECK(Script("begin()\nfor i in range(9): say(seconds=-i, samples=i)").complaint().find("not understood") != std::string::npos);
  CHECK(Script("begin()\nfor i in range(9): say(seconds=1e300, samples=i)").complaint().find("not understood") != std::string::npos);
  CHECK(Script("out.write('[1]\\n')").complaint().find("not understood") != std::string::npos);
  CHECK(Script("begin()\nfor i in range(1, 9): say(seconds=i, samples=i)\nout.write('{\"seconds\": 9')").complaint() ==
        "accepted");  // a torn last line
  CHECK_FALSE(has_children());
}

TEST_CASE("one that does not end is ended, and what it started too") {
  const Script script("os.fork()\ntime.sleep(600)");
  PyTorchQuestion question = script.question();
  question.patience_seconds = 1;
  CHECK(testing::message_of<Error>([&] { static_cast<void>(measure_pytorch_rate(question, {}, system_timing())); }).find("has not trained") !=
        std::string::npos);
  CHECK_FALSE(has_children());
}

TEST_CASE("an interrupt ends it") {
  const Script script("time.sleep(600)");
  std::stop_source source;
  const std::jthread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    source.request_stop();
  });
  CHECK_THROWS_AS(measure_pytorch_rate(script.question(), source.get_token(), system_timing()), Interrupted);
  CHECK_FALSE(has_children());
}

}  // namespace dsanalyze
