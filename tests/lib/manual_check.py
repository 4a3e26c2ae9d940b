"""Compares the manual's sources with what the program says of itself. Called by tests/e2e/manuals.sh.

manual_check.py pages PROGRAM MAN_DIRECTORY        each command has a page, each page a command, and they say the same
manual_check.py completions PROGRAM FILE...        each command and each option is in every completion
manual_check.py functions HEADER PAGES_DIRECTORY   each public function has a page
It prints every difference and exits 1 if there is one.
"""

import os
import re
import subprocess
import sys

OPTION = re.compile(r"^  --([a-z-]+)(?: (\S+))?\s+(.*)$")
PAGE_OPTION = re.compile(r"^\*--([a-z-]+)\*(?: _([A-Z:=]+)_)?$", re.M)


def printed(program, *arguments):
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=True).stdout


def read_commands(program):
    text = printed(program, "help").split("Try it:")[0]
    return dict(re.findall(r"^  ([a-z]+) {2,}(.+)$", text, re.M))


def read_options(program, command):
    """Each option with its argument and its environment variable."""
    found = {}
    for line in printed(program, command, "--help").splitlines() if command != "help" else []:
        option = OPTION.match(line)
        if option:
            variable = re.search(r"\[(TENURE_\w+)\]$", option.group(3))
            found[option.group(1)] = (option.group(2), variable.group(1) if variable else None)
    return found


def plain(text):
    """scdoc's text without its marks."""
    return re.sub(r"\\(.)", r"\1", re.sub(r"(?<!\\)[*_]", "", text))


def read_page(directory, name):
    with open(os.path.join(directory, name), encoding="utf-8") as file:
        text = file.read()

    def fragment(found):
        return read_page(directory, found.group(1) + ".scd")

    return re.sub(r"^; include ((?:common|work)-options)$", fragment, text, flags=re.M)


def section(page, name):
    found = re.search(rf"^# {name}\n+(.*?)\n(?=# |\Z)", page, re.M | re.S)
    return found.group(1).strip() if found else ""


def page_options(page):
    """As read_options, from the definitions of a page."""
    parts = re.split(r"^(?=\*--)", page, flags=re.M)
    found = {}
    for part in parts:
        option = PAGE_OPTION.match(part)
        if option:
            variable = re.search(r"Environment:\s+\*(TENURE_\w+)\*", part.split("\n\n")[0])
            found[option.group(1)] = (option.group(2), variable.group(1) if variable else None)
    return found


def compare(what, page, program):
    for name in sorted(program.keys() - page.keys()):
        yield f"{what}: the page lacks --{name}"
    for name in sorted(page.keys() - program.keys()):
        yield f"{what}: the program has no --{name}"
    for name in sorted(page.keys() & program.keys()):
        if page[name] != program[name]:
            yield f"{what}: --{name} is {page[name]} in the page, and {program[name]} in the help"


def check_page(program, directory, command, summary):
    what = f"tenure-{command}"
    page = read_page(directory, f"{what}.scd")
    yield from compare(what, page_options(page), read_options(program, command))
    expected = f"{what} - {summary[0].lower()}{summary[1:]}"
    if section(page, "NAME") != expected:
        yield f"{what}: NAME is '{section(page, 'NAME')}' instead of '{expected}'"
    if command != "help":
        usage = printed(program, command, "--help").splitlines()[0][len("usage: ") :].strip()
        if plain(section(page, "SYNOPSIS")) != usage:
            yield f"{what}: SYNOPSIS is '{plain(section(page, 'SYNOPSIS'))}' instead of '{usage}'"


def check_mentions(directory, known, commands):
    """An option or a page that is mentioned anywhere exists."""
    for name in sorted(os.listdir(directory)):
        if not name.endswith(".scd"):
            continue
        page = re.sub(r"^```.*?^```", "", read_page(directory, name), flags=re.M | re.S)
        for option in re.findall(r"\*(?:tenure [a-z]+ )?--([a-z-]+)", page):
            if option not in known and option not in ("help", "version"):
                yield f"{name}: nothing has the option --{option}"
        for other in re.findall(r"\*tenure-([a-z]+)\*\((?:1|7)\)", page):
            if other not in commands and other != "stores":
                yield f"{name}: there is no page tenure-{other}"


def check_pages(program, directory):
    commands = read_commands(program)
    pages = {name[len("tenure-") : -len(".scd")] for name in os.listdir(directory) if re.fullmatch(r"tenure-\w+\.scd", name)}
    for name in sorted(commands.keys() - pages):
        yield f"the command {name} has no page man/tenure-{name}.scd"
    for name in sorted(pages - commands.keys() - {"stores"}):
        yield f"there is no command {name}, but a page"
    with open(os.path.join(directory, "meson.build"), encoding="utf-8") as file:
        listed = file.read()
    for name in sorted(pages):
        if f"'tenure-{name}.scd'" not in listed:
            yield f"man/meson.build does not name tenure-{name}.scd"
    main = read_page(directory, "tenure.scd")
    known = {}
    for name in sorted(commands.keys() & pages):
        yield from check_page(program, directory, name, commands[name])
        known.update(read_options(program, name))
        if f"*tenure-{name}*(1)" not in main:
            yield f"tenure(1) does not lead to tenure-{name}(1)"
    yield from compare("tenure(1)", page_options(main), read_options(program, "version"))
    yield from check_mentions(directory, known, commands)


def check_completions(program, *files):
    for path in files:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        for command in read_commands(program):
            if not re.search(rf"\b{command}\b", text):
                yield f"{path}: lacks the command {command}"
                continue
            # Each shell has the options of a command together, behind its name.
            if path.endswith(".fish"):
                part = "\n".join(line for line in text.splitlines() if f"__fish_seen_subcommand_from {command}'" in line)
            else:
                start = re.search(rf"^ +{command}\)", text, re.M).end()
                part = text[start : text.index(";;", start)]
            for option in read_options(program, command):
                if not re.search(rf"(?:--|-l ){option}(?![a-z-])", part):
                    yield f"{path}: {command} lacks --{option}"


def check_functions(header, directory):
    with open(header, encoding="utf-8") as file:
        functions = re.findall(r"^TENURE_API .*?[ *](tenure_\w+)\(", file.read(), re.M)
    for function in functions:
        path = os.path.join(directory, function + ".3")
        if not os.path.exists(path):
            yield f"{function} has no page"
            continue
        with open(path, encoding="utf-8") as file:
            target = file.read().strip()[len(".so man3/") :]
        with open(os.path.join(directory, target), encoding="utf-8") as file:
            if function not in file.read().replace("\\", ""):
                yield f"the page of {function} does not tell of it"
    if len(functions) < 70:
        yield f"only {len(functions)} functions were found in the header"


def main():
    checks = {"pages": check_pages, "completions": check_completions, "functions": check_functions}
    wrong = list(checks[sys.argv[1]](*sys.argv[2:]))
    print("\n".join(wrong))
    sys.exit(1 if wrong else 0)


main()
