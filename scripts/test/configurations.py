"""The builds in which './dev test' and './dev coverage' run the tests: compiler, options of meson, and suites."""
import dataclasses
import re

EVERYTHING = "unit conformance fuzz elections servers e2e"
# Less optimization and fewer symbols: compiling is most of what a sanitized configuration takes.
SANITIZED = ["-Dtests=true", "-Dbench=false", "-Db_lundef=false", "-Doptimization=1",
             "-Dc_args=-g1 -Wno-format-truncation"]
# Beside the simulator, which has none, too.
WITHOUT_THREADS = r"unit-core-|sqlite-(io|memory)-faults$"


@dataclasses.dataclass
class Configuration:
    label: str
    suites: list  # empty: this is only built
    options: list
    compiler: str = "gcc"
    left_out: str = ""  # a pattern: programs of these suites that are not run in this build

    def runs(self, name, suite):
        return suite in self.suites and not (self.left_out and re.match(self.left_out, name))

    def directory(self, root):
        return f"{root}/build" if self.label == "gcc" else f"{root}/build-{self.label}"


def main_build(suites=()):
    return Configuration("gcc", list(suites), ["-Dtests=true"])


def all_builds(long):
    """Those of './dev test', or of './dev test --all' if long."""
    short = "unit conformance" if not long else EVERYTHING
    # The corpora of the fuzz targets are replayed without sanitizers, unless everything is asked for.
    fuzz = "-Dfuzz=replay" if long else "-Dfuzz=none"
    without_stores = ["-Dstores=memory", "-Dmqtt=disabled", "-Dserver=disabled"]
    return [
        main_build(f"{EVERYTHING} sim faults {'faults-long long model-deep' if long else 'model'}".split()),
        Configuration("asan", f"{short} sim".split(), [*SANITIZED, fuzz, "-Db_sanitize=address,undefined"]),
        # What has no threads is left out: the thread sanitizer would find nothing there.
        Configuration("tsan", short.split(), [*SANITIZED, "-Dfuzz=none", "-Db_sanitize=thread"],
                      left_out="" if long else WITHOUT_THREADS),
        # Without the libraries that can be left out. What needs none of them is the same code as in the first build.
        Configuration("bare", "unit conformance".split() if long else ["unit"],
                      ["-Dtests=true", "-Dbench=false", "-Dfuzz=none", "-Doptimization=0", "-Dc_args=-g0",
                       *without_stores], left_out="" if long else r"unit-(base|core|runtime)-"),
        # That everything compiles without a warning; the tests only if everything is asked for.
        Configuration("clang", f"{EVERYTHING} sim".split() if long else [],
                      ["-Dtests=true"] if long else ["-Dtests=false", "-Dbench=false", "-Doptimization=0", "-Dc_args=-g0"],
                      "clang"),
    ]


def coverage_build(suites):
    return Configuration("coverage", list(suites) or "unit conformance elections servers e2e sim".split(), [
        "--buildtype=debug", "-Dtests=true", "-Dbench=false", "-Db_coverage=true",
        "-Dc_args=-fprofile-update=atomic -Wno-format-truncation"])
