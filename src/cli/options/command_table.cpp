#include <array>

#include "cli/commands/command.hpp"
#include "core/records/resume_result.hpp"
#include "gate/gate.hpp"
#include "loaders/dataset/tools/dataset_convert.hpp"
#include "loaders/dataset/tools/dataset_make.hpp"
#include "option_kinds.hpp"
#include "option_table.hpp"

namespace dsanalyze::cli {
namespace {

struct Seed {
  static std::uint64_t parse(const std::string& text) { return parse_seed(text); }
  static std::string shown(std::uint64_t seed) { return std::to_string(seed); }
};

/// Of every command.
constexpr Option common(const Option& option) { return option.on({}, "common"); }

constexpr std::array command_rows{
    argument("CURRENT", "the results").offers("FILE|FOLDER").many_times().on("gate"),
    argument("RESULT", "the results").offers("FILE|FOLDER").many_times().on("gate", {}, {}, "accept"),
    option("--baseline-command", "CMD", "run by /bin/sh -c").sets<&GateCommands::baseline, Plain>().on("gate", "turns"),
    option("--current-command", "CMD", "").sets<&GateCommands::current, Plain>().on("gate", "turns"),
    option("--pairs", "N", "at most so many runs of each ({default})").sets<&GateCommands::most_pairs, Whole<2, 1000>>().on("gate", "turns"),
    option("--warm-ups", "N", "runs of each that do not count, at the beginning ({default})")
        .sets<&GateCommands::warm_ups, Whole<0, 10>>()
        .on("gate", "turns"),
    option("--time-budget", "TIME", "no pair is begun that would end later ({default})")
        .sets<&GateCommands::time_budget_seconds, Seconds>()
        .on("gate", "turns"),
    option("--run-timeout", "TIME", "a run that takes longer is ended ({default})").sets<&GateCommands::run_seconds, Seconds>().on("gate", "turns"),
    option("--baseline", "PLACE", "a result, or a folder of results (may be repeated)").offers("FILE|FOLDER").many_times().on("gate", "results"),
    option("--ignore", "FIELD", "lets results differ in host.kernel, settings.workers, ...; host, dataset, settings: all of them")
        .many_times()
        .on("gate", "results"),
    flag("--normalize",
         "between CPUs of different speed: divides P, and cached and full where prep is the bottleneck, by each result's calibration; a hint, as "
         "CPUs differ in "
         "more than that")
        .on("gate", "results"),
    flag("--replace", "accept: in place of what the store holds").on("gate", "results", {}, "accept"),
    option("--min-effect", "SHARE", "the least change that counts ({default}; stalls: 3 points)")
        .sets<&GateOptions::min_effect, Share>()
        .on("gate", "counts"),
    option("--metrics", "LIST",
           "of P, C, S, N, F, cached, full, prep-stall, fetch-stall; all (without it all but N, and C and F, which follow from the others)")
        .sets<&GateOptions::metrics, Plain>()
        .on("gate", "counts"),
    flag("--allow-untrusted",
         "judges, and accepts, what did not prove itself; right for interleaved runs, where a known cause meets both sides alike")
        .on("gate", "counts"),
    option("--junit", "FILE", "a test case a metric; cannot tell is skipped").offers("FILE").on("gate", "output"),
    option("--markdown", "FILE", "a table for a pull request").offers("FILE").on("gate", "output"),
    option("--annotations", "HOW",
           "github: workflow commands on stdout, at most 9 and \"more\";\n"
           "gitlab:FILE: a code quality report")
        .offers("github|gitlab:")
        .on("gate", "output"),

    argument("DATASET", "the dataset").offers("FOLDER|FILE").on("dataset", {}, {}, "make|index|info|verify|convert"),
    option("--preset", "NAME", "[imagenet-1k] (110-150 KB, mostly 500x375),\n[openimages] (300 KB, mostly 1024x768)")
        .sets<&MakeOptions::preset, Plain>()
        .one_of("imagenet-1k|openimages")
        .on("dataset", "make", {}, "make"),
    option("--samples", "N", "how many (2,000 when --bytes is not given either)")
        .sets<&MakeOptions::samples, Whole<1, 1'000'000'000>>()
        .on("dataset", "make", {}, "make"),
    option("--bytes", "SIZE", "stop at about so many bytes, for example 1GiB").sets<&MakeOptions::bytes, Size>().on("dataset", "make", {}, "make"),
    option("--index", "FILE", "index: write it there instead of the user's cache directory;\ninfo, verify: use that one")
        .offers("FILE")
        .on("dataset", "index", {}, "index|info|verify"),
    option(
        "--image-key", "LIST",
        "extensions of the samples' data, separated by ';', the preferred one first: \"jpg;png\" (one of jpg, jpeg, jpe, png, webp, npy, of which a "
        "sample has one)")
        .on("dataset", "keys", {}, "index|info|verify|convert"),
    option("--label-key", "LIST", "extensions of the labels, which are whole numbers (cls); none: labels are not read, and all samples have label 0")
        .on("dataset", "keys", {}, "index|info|verify|convert"),
    argument("DEST", "the destination").offers("FOLDER").on("dataset", {}, {}, "convert"),
    option("--to", "FORMAT",
           "folder: one file a sample, below its label's folder\n"
           "tar: shards in WebDataset's layout\n"
           "npy: one array, images resized and cropped to a square")
        .one_of("folder|tar|npy")
        .on("dataset", "convert", {}, "convert"),
    option("--shard-size", "SIZE", "tar: of one shard ({default})")
        .sets<&ConvertOptions::shard_bytes, Size>()
        .on("dataset", "convert", {}, "convert"),
    option("--order", "ORDER",
           "random (default for tar, by --seed): samples of all classes lie mixed, as reading shards one after another needs;\n"
           "index (default for npy): as in the source")
        .one_of("index|random")
        .on("dataset", "convert", {}, "convert"),
    option("--side", "N", "npy: pixels of a side ({default})").sets<&ConvertOptions::side, Whole<1, 4096>>().on("dataset", "convert", {}, "convert"),
    flag("--skip-bad", "leave samples out that cannot be read or have no valid label, and name them").on("dataset", "convert", {}, "convert"),

    argument("RESULT", "the results").offers("FILE").many_times().on("report"),
    option("--format", "FORMAT", "console, json, markdown or html; without it, what the name of -o FILE says (.html, .md, .txt, .json), else console")
        .one_of("console|json|markdown|html")
        .on("report", "format"),
    argument("WHAT", "what to list").one_of("workloads|servers|datasets|storage|prices|scenarios").on("list"),
    argument("SHELL", "the shell").one_of("bash|fish|zsh").on("completions"),

    option("--epochs", "N", "passes over the loader in each run ({default})")
        .sets<&ResumeSettings::epochs, Whole<1, 1000>>()
        .on("verify-resume", "resume"),
    option("--runs", "N", "each stopped elsewhere, drawn by --seed ({default})")
        .sets<&ResumeSettings::runs, Whole<1, 10'000>>()
        .on("verify-resume", "resume"),
    option("--stops", "N", "of each run ({default})").sets<&ResumeSettings::stops, Whole<1, 1000>>().on("verify-resume", "resume"),
    option("--workers", "LIST", "num_workers from one stop to the next, in turn (the script's own, 2, its own, 1)")
        .sets<&ResumeSettings::workers, Whole<0, 512>>()
        .on("verify-resume", "resume"),
    option("--time-budget", "TIME", "longer is an error (10min)").on("verify-resume", "resume"),
    option("--sandbox", "DIR", "where what the command writes lies until it is discarded").offers("FILE").on("verify-resume", "resume"),

    common(flag("--json", "the result as one JSON document on stdout")),
    common(option("-o, --output", "FILE", "the result as JSON in FILE (whole or not at all)").offers("FILE")),
    common(flag("-q, --quiet", "neither progress nor warnings on stderr")),
    common(flag("-v, --verbose", "more detail")),
    common(option("--color", "WHEN", "[auto], [always], [never]; NO_COLOR is honoured").sets<&CommonOptions::colour, Named<ColourChoice>>()),
    common(option("--seed", "N", "of everything random ({default})").sets<&CommonOptions::seed, Seed>().decides("seed")),
    common(flag("-h, --help", "this page")),
};

}  // namespace

std::span<const Option> command_table() { return command_rows; }

}  // namespace dsanalyze::cli
