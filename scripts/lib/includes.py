"""Which C files include which: for the checks of the layers. Paths are relative to the checkout."""
import functools
import os
import re

INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')


def files(directory):
    """The C files below a directory, sorted."""
    return sorted(os.path.join(where, name) for where, _, names in os.walk(directory)
                  for name in names if name.endswith((".c", ".h")))


@functools.lru_cache(maxsize=None)
def of(path):
    """(line, name, whether it is quoted) of each include of a file."""
    found = []
    if not os.path.isfile(path):
        return found
    with open(path, encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, 1):
            match = INCLUDE.match(line)
            if match:
                found.append((number, match.group(1) or match.group(2), bool(match.group(1))))
    return found


@functools.lru_cache(maxsize=None)
def resolve(path, name, quoted):
    """The file that an include in path means, or None for a header of the system. A header with a directory that is not
    there is one that the build generates: it is taken for a file below src."""
    for directory in ([os.path.dirname(path)] if quoted else []) + ["src", "include"]:
        candidate = os.path.normpath(os.path.join(directory, name))
        if os.path.isfile(candidate):
            return candidate
    return f"src/{name}" if quoted and "/" in name else None
