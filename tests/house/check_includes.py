"""The layers: which may include which, in the sources and in the Meson targets; and what a public header may include."""

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
    "transport": "src/transport",
    "share": "src/share",
    "client": "src/client",
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
    "transport": ["core"],
    "report": ["core"],
    "gate": ["core"],
    "share": ["loaders", "transport"],
    "client": ["share"],
    "profile": ["loaders", "trainer", "transport", "share"],
    "validate": ["profile", "models"],
    "cli": ["profile", "validate", "models", "report", "gate"],
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


def allowed(layer):
    """The layer itself and all below it."""
    below = {layer}
    for other in STANDS_ON[layer]:
        below |= allowed(other)
    return below


def public_header_problems(text):
    problems = []
    if "#pragma once" not in text:
        problems.append("lacks #pragma once")
    for bracket, included in INCLUDE.findall(text):
        if bracket == "<" and included not in STANDARD | FORWARD_DECLARATIONS:
            problems.append(f"includes <{included}>, which is neither C++'s own nor a forward declaration")
        if bracket == '"' and not included.startswith("dsanalyze/"):
            problems.append(f'includes "{included}", which is not public')
    return problems


def layer_problems(layer, text):
    """Public headers of layers that `layer` does not stand on."""
    problems = []
    for _, included in INCLUDE.findall(text):
        parts = included.split("/")
        if parts[0] == "dsanalyze" and len(parts) > 2:
            if parts[1] not in STANDS_ON:
                problems.append(f'includes "{included}": there is no layer {parts[1]}')
            elif parts[1] not in allowed(layer):
                problems.append(f'includes "{included}": {layer} does not stand on {parts[1]}')
    return problems


def internal_problems(layer, path, text, generated):
    """Internal headers must be of the layer itself (or made by its meson.build)."""
    home = repository.ROOT / FOLDERS[layer]
    problems = []
    for bracket, included in INCLUDE.findall(text):
        if bracket == "<" or included.startswith("dsanalyze/"):
            continue
        places = [path.parent / included, home / included, repository.ROOT / included]
        place = next((place.resolve() for place in places if place.exists()), None)
        if place is None:
            if pathlib.PurePath(included).name not in generated:
                problems.append(f'includes "{included}", which is not there')
        elif home not in place.parents and path.parent not in place.parents:
            problems.append(f'includes "{included}", which is internal to another layer')
    return problems


def meson_problems(layer, text):
    used = {used for used in MESON_NAME.findall(text) if used in STANDS_ON}
    return [f"uses {other}: {layer} does not stand on it" for other in sorted(used - allowed(layer))]


def generated_names(folder):
    text = "".join(path.read_text() for path in repository.files(".build", under=folder))
    return set(re.findall(r"'([\w.]+\.hpp)'", text))


def tests_folder(layer):
    return repository.ROOT / "tests" / layer


class Layers(unittest.TestCase):
    def report(self, problems):
        self.assertFalse(problems, "\n" + "\n".join(problems))

    def test_sources_include_only_their_layer_and_those_below(self):
        problems = []
        count = 0
        for layer, folder in FOLDERS.items():
            home = repository.ROOT / folder
            for path in repository.files(".cpp", ".hpp", under=home):
                count += 1
                text = path.read_text()
                found = layer_problems(layer, text) + internal_problems(layer, path, text, generated_names(home))
                problems += [f"{repository.name(path)} {problem}" for problem in found]
        self.assertGreater(count, 0)
        self.report(problems)

    def test_the_tests_of_a_layer_stand_where_it_stands(self):
        problems = []
        for layer in FOLDERS:
            for path in repository.files(".cpp", ".hpp", under=tests_folder(layer)):
                problems += [f"{repository.name(path)} {problem}" for problem in layer_problems(layer, path.read_text())]
        self.report(problems)

    def test_public_headers_include_the_standard_library_and_each_other_alone(self):
        problems = []
        headers = repository.files(".hpp", under=repository.ROOT / "include")
        self.assertGreater(len(headers), 0)
        for path in headers:
            text = path.read_text()
            layer = path.relative_to(repository.ROOT / "include/dsanalyze").parts[0]
            found = public_header_problems(text) + layer_problems(layer, text)
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
        self.assertTrue(layer_problems("core", '#include "dsanalyze/profile/profile.hpp"\n'))
        self.assertFalse(layer_problems("profile", '#include "dsanalyze/core/rates.hpp"\n'))

    def test_loaders_models_and_trainer_do_not_see_one_another(self):
        for layer in ("loaders", "models", "trainer"):
            for other in {"loaders", "models", "trainer"} - {layer}:
                self.assertTrue(layer_problems(layer, f'#include "dsanalyze/{other}/x.hpp"\n'))

    def test_system_and_cuda_headers_are_refused_in_public_headers(self):
        for header in ("unistd.h", "sys/mman.h", "cuda_runtime.h", "nlohmann/json.hpp", "jpeglib.h"):
            self.assertTrue(public_header_problems(f"#pragma once\n#include <{header}>\n"), header)
        self.assertFalse(public_header_problems('#pragma once\n#include <span>\n#include "dsanalyze/base/units.hpp"\n'))

    def test_a_target_that_links_a_layer_above_is_found(self):
        self.assertTrue(meson_problems("loaders", "dependencies: [core_dep, models_dep]"))
        self.assertFalse(meson_problems("loaders", "loaders_dep = declare_dependency(dependencies: [core_dep, jpeg_dep])"))


if __name__ == "__main__":
    unittest.main()
