"""What the checks of the repository have in common: where the repository is and which files are its own."""

import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
NOT_OURS = {".git", "build", "demo", "__pycache__", ".cache"}
TEXT_SUFFIXES = {".cpp", ".hpp", ".py", ".md", ".json", ".build", ".txt", ".html", ".css", ".js", ".in", ".sh", ""}


def files(*suffixes, under=ROOT):
    """Every file of the repository below `under`, by name; all when no suffix is given. Build folders are not ours, whatever their name."""
    found = []
    for path in sorted(under.iterdir()) if under.is_dir() else []:
        if path.name in NOT_OURS:  # in a work tree of its own, .git is a file
            continue
        if path.is_dir():
            if not (path / "meson-private").exists():
                found += files(*suffixes, under=path)
        elif not suffixes or path.suffix in suffixes:
            found.append(path)
    return found


def text_files():
    """(path, text) of every file that people write."""
    for path in files():
        if path.suffix in TEXT_SUFFIXES:
            try:
                yield path, path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                pass


def name(path):
    return str(path.relative_to(ROOT))
