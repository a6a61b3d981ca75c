"""Prints every public header, a line each, as it is included."""

import repository

INCLUDE = repository.ROOT / "include"
print("\n".join(str(path.relative_to(INCLUDE)) for path in repository.files(".hpp", under=INCLUDE)))
