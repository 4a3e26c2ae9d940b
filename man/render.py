"""Makes the manual: replaces the includes of man/*.scd, makes pages of the parts of tenure.h, and calls scdoc.

Called by meson with SCDOC, the header, the directory of the sources, the version, the output directory and a stamp file.
It writes one page for each .scd that is not a fragment, libtenure-PART.3 for each part of the header, and for each
function a page that leads to its part's, so that `man tenure_acquire` works. It knows C no further than tenure.h goes.
"""

import os
import re
import subprocess
import sys

FRAGMENTS = ("common-options", "work-options")
FUNCTION = re.compile(r"^TENURE_API .*?[ *](tenure_\w+)\(", re.M)

# The parts of the header by the first words of their headings, and what their pages are called.
PARTS = [
    ("", "errors", "versions and errors"),
    ("events", "event", "what happens, and its words in the log"),
    ("contexts", "context", "opening a store, events, and the driven form"),
    ("leases", "lease", "acquiring, checking, renewing and releasing a lease"),
    ("reading targets", "read", "who holds what, and which instances live"),
    ("the target registry", "targets", "the registry of targets"),
    ("changes", "watch", "following changes, and the history"),
    ("the fleet member", "member", "one instance of a fleet"),
    ("elections", "election", "one leader for a role, and who leads"),
    ("guards", "guard", "whether a token is current"),
    ("health", "health", "whether the store is fit"),
]


def split_header(text):
    """The text of each part, in the order of PARTS."""
    found = {title: [] for title, _, _ in PARTS}
    body = text.split("/*\n * Errors: X", 1)[1].split("#ifdef __cplusplus", 1)[0]
    current = ""
    for line in ("/*\n * Errors: X" + body).splitlines():
        if line.startswith("/* ---- "):
            heading = line[len("/* ---- ") :]
            matches = [title for title in found if title and heading.startswith(title)]
            if not matches:
                sys.exit(f"man/render.py: PARTS does not know the part '{heading}' of tenure.h")
            current = max(matches, key=len)
        else:
            found[current].append(line)
    return [(name, summary, "\n".join(found[title])) for title, name, summary in PARTS]


def escape(text):
    return re.sub(r"([\\*_#`<>\[\]|~+.])", r"\\\1", text)


def without_export(text):
    """Prototypes without TENURE_API; what continues one is aligned with its bracket, so it moves left, too."""
    lines, continues = [], False
    for line in text.splitlines():
        if line.startswith("TENURE_API "):
            line, continues = line[len("TENURE_API "):], True
        elif continues and line.startswith(" " * len("TENURE_API ")):
            line = line[len("TENURE_API "):]
        continues = continues and ";" not in line
        lines.append(line)
    return "\n".join(lines)


def page_of_part(name, summary, text):
    functions = FUNCTION.findall(text)
    lines = [f"libtenure-{name}(3)", "", "# NAME", "", f"libtenure-{name} - {escape(summary)}", "", "# SYNOPSIS", ""]
    lines += ["*\\#include <tenure.h>*", "", "Functions: " + ", ".join(f"*{escape(f)}*" for f in functions), ""]
    lines += ["# DESCRIPTION", "", "From the header, which is the reference of each function:", "", "```"]
    lines += re.sub(r"\n{3,}", "\n\n", without_export(text.strip("\n")).replace("```", "")).splitlines()
    return functions, "\n".join(lines + ["```", "", "# SEE ALSO", "", "*libtenure*(3)", ""])


def errors_of(header):
    rows = re.findall(r"X\((TENURE_E_\w+), (-\d+), (true|false), \"(.*?)\"\)", header)
    return "\n\n".join(
        f"*{name}* ({code})\n\t{message[0].upper()}{message[1:]}." + (" May succeed later." if retry == "true" else "")
        for name, code, retry, message in rows
    )


def main():
    scdoc, header_path, sources, version, output, stamp = sys.argv[1:]
    with open(header_path, encoding="utf-8") as file:
        header = file.read()
    os.makedirs(output, exist_ok=True)
    fragments = {}
    for name in FRAGMENTS:
        with open(os.path.join(sources, name + ".scd"), encoding="utf-8") as file:
            fragments[name] = file.read().rstrip("\n")
    parts = split_header(header)
    fragments["errors"] = errors_of(header)
    fragments["groups"] = "\n\n".join(f"*libtenure-{name}*(3)\n\t{s[0].upper()}{s[1:]}." for name, s, _ in parts)

    def render(text, name):
        text = re.sub(r"^; include (\S+)$", lambda found: fragments[found.group(1)], text, flags=re.M)
        title, rest = text.split("\n", 1)
        text = f'{title} "tenure {version}" "Tenure manual"\n{rest}'
        page = subprocess.run([scdoc], input=text, capture_output=True, text=True, check=False)
        if page.returncode != 0:
            sys.exit(f"man/render.py: {name}: {page.stderr}")
        section = re.match(r"\S+\((\d)\)", title).group(1)
        with open(os.path.join(output, f"{name}.{section}"), "w", encoding="utf-8") as file:
            file.write(page.stdout)

    for entry in sorted(os.listdir(sources)):
        name, extension = os.path.splitext(entry)
        if extension == ".scd" and name not in FRAGMENTS:
            with open(os.path.join(sources, entry), encoding="utf-8") as file:
                render(file.read(), name)
    for name, summary, text in parts:
        functions, page = page_of_part(name, summary, text)
        render(page, f"libtenure-{name}")
        for function in functions:
            with open(os.path.join(output, function + ".3"), "w", encoding="utf-8") as file:
                file.write(f".so man3/libtenure-{name}.3\n")
    with open(stamp, "w", encoding="utf-8"):
        pass


main()
