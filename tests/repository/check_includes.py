"""The layers: which may include which, in the sources and in the Meson targets; and what a public header may include."""

import ast
import pathlib
import re
import unittest

import repository

FOLDERS = {
    "base": "src/base",
    "core": "src/core",
    "loaders": "loaders",
    "models": "models",
    "trainer": "src/trainer",
    "cuda": "src/cuda",
    "transport": "src/transport",
    "share": "src/share",
    "ranks": "src/ranks",
    "client": "src/client",
    "doctor": "src/doctor",
    "attach": "src/attach",
    "profile": "src/profile",
    "validate": "src/validate",
    "report": "src/report",
    "gate": "src/gate",
    "cli": "src/cli",
}

# What each layer stands on directly; what those stand on is allowed too.
STANDS_ON = {
    "base": [],
    "core": ["base"],
    "loaders": ["core"],
    "models": ["core"],
    "trainer": ["core"],
    "cuda": ["core"],
    "transport": ["core"],
    "report": ["core"],
    "gate": ["core"],
    "share": ["loaders"],
    "ranks": ["loaders", "transport"],
    "doctor": ["loaders"],
    "attach": ["core"],
    "client": ["share", "ranks"],
    "profile": ["trainer", "share", "ranks", "doctor", "attach"],
    "validate": ["profile", "models"],
    "cli": ["profile", "validate", "models", "report", "gate", "cuda"],
}

# C++20's own headers; a public header may include these, json_fwd.hpp and other public headers: nothing of the system's, nothing of CUDA's.
STANDARD = set(
    """algorithm any array atomic barrier bit bitset cassert cctype cerrno cfloat charconv chrono cinttypes climits cmath compare complex concepts
    condition_variable coroutine cstdarg cstddef cstdint cstdio cstdlib cstring ctime deque exception execution filesystem forward_list fstream functional
    future initializer_list iomanip ios iosfwd iostream istream iterator latch limits list locale map memory memory_resource mutex new numbers numeric
    optional ostream queue random ranges ratio regex semaphore set shared_mutex source_location span sstream stack stdexcept stop_token streambuf string
    string_view system_error thread tuple type_traits typeindex typeinfo unordered_map unordered_set utility valarray variant vector version""".split()
)
FORWARD_DECLARATIONS = {"nlohmann/json_fwd.hpp"}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
MESON_NAME = re.compile(r"\b([a-z]+)_(?:dep|lib)\b")
PUBLIC = re.compile(r"^public_headers \+= (\{.*?\})$", re.MULTILINE | re.DOTALL)


def allowed(layer):
    """The layer itself and all below it."""
    below = {layer}
    for other in STANDS_ON[layer]:
        below |= allowed(other)
    return below


def public_headers():
    """Layer -> its public headers, as they are included from other layers; as the layers' meson.build list them."""
    found = {}
    for layer, folder in FOLDERS.items():
        lists = PUBLIC.findall((repository.ROOT / folder / "meson.build").read_text())
        found[layer] = {f"{layer}/{name}" for listed in lists for name in ast.literal_eval(listed)[layer]}
    return found


PUBLIC_HEADERS = public_headers()


def include_problem(layer, included, public=None):
    """`included`: a path from a layer's folder on. Another layer's header must be public, and of a layer below."""
    other = included.split("/")[0]
    if other not in STANDS_ON:
        return f'includes "{included}": there is no layer {other}'
    if other not in allowed(layer):
        return f'includes "{included}": {layer} does not stand on {other}'
    if other != layer and included not in (public or PUBLIC_HEADERS)[other]:
        return f'includes "{included}", which is internal to {other}'
    return None


def as_path(path, layer, included):
    """An include of a file in `path`'s folder, as one from the layer's folder on."""
    home = repository.ROOT / FOLDERS[layer]
    return f"{layer}/{(path.parent / included).relative_to(home)}"


def source_problems(layer, path, text, generated):
    problems = []
    for bracket, included in INCLUDE.findall(text):
        if bracket == "<" or included.startswith("dsanalyze/"):  # what is installed is for all
            continue
        if "/" not in included:
            if not (path.parent / included).exists() and included not in generated:
                problems.append(f'includes "{included}", which is not in its folder')
        elif problem := include_problem(layer, included):
            problems.append(problem)
    return problems


def public_header_problems(text, internal=lambda included: False):
    problems = []
    if "#pragma once" not in text:
        problems.append("lacks #pragma once")
    for bracket, included in INCLUDE.findall(text):
        if bracket == "<" and included not in STANDARD | FORWARD_DECLARATIONS:
            problems.append(f"includes <{included}>, which is neither C++'s own nor a forward declaration")
        if bracket == '"' and internal(included):
            problems.append(f'includes "{included}", which is not public')
    return problems


def meson_problems(layer, text):
    used = {used for used in MESON_NAME.findall(text) if used in STANDS_ON}
    return [f"uses {other}: {layer} does not stand on it" for other in sorted(used - allowed(layer))]


def generated_names(folder):
    text = "".join(path.read_text() for path in repository.files(".build", under=folder))
    return set(re.findall(r"output: '([\w.]+\.hpp)'", text))


class Layers(unittest.TestCase):
    def report(self, problems):
        self.assertFalse(problems, "\n" + "\n".join(problems))

    def test_sources_include_only_their_layer_and_public_headers_of_those_below(self):
        problems = []
        count = 0
        for layer, folder in FOLDERS.items():
            home = repository.ROOT / folder
            generated = generated_names(home)
            for path in repository.files(".cpp", ".hpp", under=home):
                count += 1
                problems += [f"{repository.name(path)} {problem}" for problem in source_problems(layer, path, path.read_text(), generated)]
        self.assertGreater(count, 0)
        self.report(problems)

    def test_the_tests_of_a_layer_stand_where_it_stands(self):
        problems = []
        for layer in FOLDERS:
            for path in repository.files(".cpp", ".hpp", under=repository.ROOT / "tests" / layer):
                for bracket, included in INCLUDE.findall(path.read_text()):
                    is_of_a_layer = bracket == '"' and included.split("/")[0] in STANDS_ON
                    problem = include_problem(layer, included) if is_of_a_layer else None
                    problems += [f"{repository.name(path)} {problem}"] if problem else []
        self.report(problems)

    def test_public_headers_include_the_standard_library_and_each_other_alone(self):
        problems = []
        everyones = set().union(*PUBLIC_HEADERS.values())
        self.assertGreater(len(everyones), 0)
        for layer, headers in PUBLIC_HEADERS.items():
            for header in headers:
                path = repository.ROOT / FOLDERS[layer] / header.removeprefix(f"{layer}/")

                def internal(included, layer=layer, path=path):
                    return (included if "/" in included else as_path(path, layer, included)) not in everyones

                problems += [f"{repository.name(path)} {problem}" for problem in public_header_problems(path.read_text(), internal)]
        self.report(problems)

    def test_what_is_installed_includes_the_standard_library_and_itself_alone(self):
        problems = []
        for path in repository.files(".hpp", under=repository.ROOT / "include"):
            found = public_header_problems(path.read_text(), lambda included: not included.startswith("dsanalyze/"))
            problems += [f"{repository.name(path)} {problem}" for problem in found]
        self.report(problems)

    def test_meson_targets_depend_as_the_layers_stand(self):
        problems = []
        for layer, folder in FOLDERS.items():
            for path in repository.files(".build", under=repository.ROOT / folder):
                problems += [f"{repository.name(path)} {problem}" for problem in meson_problems(layer, path.read_text())]
        self.report(problems)


class TheCheckItself(unittest.TestCase):
    def test_an_include_of_a_layer_above_is_found(self):
        public = {"profile": {"profile/profiler.hpp"}, "core": {"core/rates.hpp"}}
        self.assertTrue(include_problem("core", "profile/profiler.hpp", public))
        self.assertIsNone(include_problem("profile", "core/rates.hpp", public))

    def test_an_internal_header_of_another_layer_is_refused(self):
        public = {"core": {"core/rates.hpp"}}
        self.assertTrue(include_problem("profile", "core/rate_bounds.hpp", public))
        self.assertIsNone(include_problem("core", "core/rate_bounds.hpp", public))
        self.assertTrue(include_problem("core", "nowhere/x.hpp", public))

    def test_loaders_models_and_trainer_do_not_see_one_another(self):
        for layer in ("loaders", "models", "trainer"):
            for other in {"loaders", "models", "trainer"} - {layer}:
                self.assertTrue(include_problem(layer, f"{other}/x.hpp", {other: {f"{other}/x.hpp"}}))

    def test_system_and_cuda_headers_are_refused_in_public_headers(self):
        for header in ("unistd.h", "sys/mman.h", "cuda_runtime.h", "nlohmann/json.hpp", "jpeglib.h"):
            self.assertTrue(public_header_problems(f"#pragma once\n#include <{header}>\n"), header)
        self.assertTrue(public_header_problems('#pragma once\n#include "x.hpp"\n', lambda included: True))
        self.assertFalse(public_header_problems('#pragma once\n#include <span>\n#include "base/text/units.hpp"\n'))

    def test_a_target_that_links_a_layer_above_is_found(self):
        self.assertTrue(meson_problems("loaders", "dependencies: [core_dep, models_dep]"))
        self.assertFalse(meson_problems("loaders", "loaders_dep = declare_dependency(dependencies: [core_dep, jpeg_dep])"))


if __name__ == "__main__":
    unittest.main()
