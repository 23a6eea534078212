"""The public surface: what loads when, what is exported, and that the documents run."""

from __future__ import annotations

import ast
import doctest
import importlib
import importlib.util
import io
import pkgutil
import re
import shlex
import subprocess
import sys
import tokenize
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
from fenced import FencedDocTests, unfenced
from test_cli import iosim_
from test_gpu_records import REPLAYED, lines, sessions

import iosim
from iosim.base.errors import InputError, closest
from iosim.core import units
from iosim.core.counts import Counts

ROOT = Path(__file__).parents[2]
HEAVY = (
    "sympy",
    "matplotlib",
    "numba",
    "torch",
    "triton",
    "click",
    "rich",
    "scipy",
    "z3",
    "networkx",
)


@pytest.mark.parametrize("statement", ["import iosim", "import iosim.gpu", "import iosim.cache"])
def test_importing_is_light(statement: str) -> None:
    code = f"import sys; {statement}; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def loads(words: str, *modules: str) -> list[str]:
    """Which of some modules a command has imported when it is done."""
    code = (
        f"import sys; sys.argv = {words!r}.split();"
        "from iosim import cli\n"
        "try: cli.main()\n"
        f"except SystemExit: print(*(m for m in {modules!r} if m in sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stderr.split()


def test_counting_by_formula_is_light() -> None:
    heavy = [m for m in HEAVY if m not in ("click", "rich")]
    assert not loads("iosim count flash2 --N 99 --d 8 --M 999 --json", *heavy)


@pytest.mark.parametrize("words", ["iosim --help", "iosim", "iosim gpu --help", "iosim --version"])
def test_help_imports_no_command(words: str) -> None:
    assert not loads(words, *HEAVY[:5], "rich", "numpy", "iosim.core.problem", "iosim.cli.options")


def test_exports() -> None:
    assert sorted(iosim.__all__) == iosim.__all__
    assert set(iosim.__all__) <= set(dir(iosim))
    for name in iosim.__all__:
        assert getattr(iosim, name).__doc__, name
    with pytest.raises(AttributeError, match="'iosim' has no attribute 'nothing'"):
        iosim.nothing  # noqa: B018


def test_the_lazy_names_are_those_that_checkers_see() -> None:
    """The imports under TYPE_CHECKING, the table of places and ``__all__`` say the same."""
    tree = ast.parse((ROOT / "iosim/__init__.py").read_text())
    (block,) = (
        x for x in tree.body if isinstance(x, ast.If) and ast.unparse(x.test) == "TYPE_CHECKING"
    )
    seen = {
        name.name: line.module
        for line in block.body
        if isinstance(line, ast.ImportFrom) and str(line.module).startswith("iosim.")
        for name in line.names
    }
    assert seen == iosim._HOME
    assert sorted(seen.keys() - {"__version__"}) == iosim.__all__
    for name, module in seen.items():
        assert getattr(iosim, name) is getattr(importlib.import_module(str(module)), name)


def shadows(package: ModuleType) -> list[str]:
    """Submodules that cannot be reached by name: something else of the package has it."""
    below = {m.name for m in pkgutil.iter_modules(package.__path__)}
    return [
        x
        for x in sorted(below & vars(package).keys())
        if not isinstance(vars(package)[x], ModuleType)
    ]


def test_nothing_has_the_name_of_a_module_beside_it() -> None:
    names = [n for n in modules(kernels=True) if "experiments" not in n]
    found = [importlib.import_module(n) for n in names]
    packages = [iosim, *(m for m in found if hasattr(m, "__path__"))]
    assert {"iosim.gpu", "iosim.core.algorithms", "iosim.sweep"} < {p.__name__ for p in packages}
    for package in packages:
        lazy = {x: getattr(package, x) for x in getattr(package, "__all__", ())}
        vars(package).update(lazy)
        assert not shadows(package), package.__name__
    vars(iosim)["lab"], lab = iosim.count, vars(iosim)["lab"]
    try:
        assert shadows(iosim) == ["lab"]
    finally:
        vars(iosim)["lab"] = lab


def test_version_is_said_once() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == iosim.__version__
    assert f"## {iosim.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_old_places_of_the_changelog_are_imported_from_the_new_ones() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.*`) \| `([\w.]+)`(.*) \|$", text, re.M)
    assert len(rows) > 5
    for before, now, others in rows:
        wing = now.rpartition(".")[0]
        for old in re.findall(r"`([\w.]+)`", before):
            new = f"{wing}.{old.rpartition('.')[2]}" if others else now
            done = subprocess.run(
                [
                    sys.executable,
                    "-W",
                    "always",
                    "-c",
                    f"import {old} as a, {new} as b; assert a is b",
                ],
                capture_output=True,
                text=True,
                check=True,
            )
            assert f"{old} is now called {new}" in done.stderr


OF_TORCH = ("iosim.gpu.layers." + "modules",)


def modules(kernels: bool = False) -> list[str]:
    # iosim.gpu's kernels and __main__ need what a plain install has not, or run on import
    torch = importlib.util.find_spec("torch")
    return [
        m.name
        for m in pkgutil.walk_packages(iosim.__path__, "iosim.")
        if not m.name.endswith("__main__")
        and (kernels or ".gpu." not in m.name)
        and (torch or m.name not in OF_TORCH)
    ]


@pytest.mark.parametrize("name", modules(kernels=True))
def test_docstrings_run(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0


DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.numbers
@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_documents_run(path: Path) -> None:
    """Every ``>>>`` in a document gives what it says."""
    result = doctest.testfile(
        str(path), module_relative=False, encoding="utf-8", parser=FencedDocTests()
    )
    assert result.failed == 0


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_sessions_are_fenced(path: Path) -> None:
    """Outside a fence Markdown reads ``>>>`` as a quotation, and joins the lines."""
    assert not unfenced(path.read_text(encoding="utf-8"))


def test_a_session_without_a_fence_is_found() -> None:
    assert unfenced("Text:\n\n>>> 1 + 1\n2\n") == [">>> 1 + 1"]
    assert not unfenced("Text:\n\n```pycon\n>>> 1 + 1\n2\n```\n")
    parts = FencedDocTests().get_examples("```pycon\n>>> 1 + 1\n2\n```\n")
    assert [x.want for x in parts] == ["2\n"]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", path.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            assert (path.parent / target).exists(), f"{path.name} links to {target}"


def extract_prose(path: Path) -> str:
    """What a file says in words: all of a document; comments and strings of Python."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return text
    kinds = {k for k, name in tokenize.tok_name.items() if name in ("COMMENT", "STRING")}
    kinds |= {k for k, name in tokenize.tok_name.items() if name.startswith("FSTRING")}
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return "\n".join(t.string for t in tokens if t.type in kinds)


@cache
def exists(name: str) -> bool:
    """Whether a dotted name is a module, or something in one."""
    # From a wheel, both folders are inside the package.
    parts = re.sub(r"^iosim\.(?=(experiments|proofs)\b)", "", name).split(".")
    for k in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:k]))
        except ModuleNotFoundError:
            continue
        for part in parts[k:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


FOLDERS = ("iosim", "docs", "experiments", "proofs", "tests", "benchmarks")
FILES = [p.relative_to(ROOT) for folder in FOLDERS for p in (ROOT / folder).rglob("*")]
# What may name a file, from any folder on its way: `ir.py`, `program/ir.py`.
ENDS = {"/".join(p.parts[k:]) for p in FILES for k in range(len(p.parts))}


def dead_names(text: str) -> list[str]:
    """Dotted names, and names of files and folders of the repository, that lead nowhere."""
    dotted = set(re.findall(r"\b(?:iosim|experiments)(?:\.[A-Za-z_]\w*)+", text))
    dotted -= {x for x in dotted if x.endswith((".md", ".py"))}
    roots = set(re.findall(rf"(?<![\w/.-])(?:{'|'.join(FOLDERS)})/[\w./-]*\w", text))
    roots = {re.sub(r"^iosim/(?=experiments|proofs)", "", x) for x in roots}
    files = {x.rstrip("/") for x in re.findall(r"`([\w./-]+\.(?:py|md))`", text)}
    dead = {x for x in dotted if not exists(x)}
    dead |= {x for x in roots if not list((ROOT / x).parent.glob((ROOT / x).name + "*"))}
    dead |= {x for x in files - ENDS if not (ROOT / x).exists()}
    return sorted(dead)


@pytest.mark.numbers
def test_names_of_modules_and_files_lead_somewhere() -> None:
    """In documents, docstrings, comments and messages.  The changelog has names of old versions."""
    pages = [*DOCUMENTS, ROOT / "experiments/README.md", *sorted((ROOT / "proofs").glob("*.md"))]
    pages += [ROOT / p for p in FILES if p.suffix == ".py"]
    dead = {f"{p.relative_to(ROOT)}: {x}" for p in pages for x in dead_names(extract_prose(p))}
    assert not dead


def test_dead_names_are_found() -> None:
    # in pieces, so that the test above does not find them here
    text = "`iosim" + ".symbolic.count`, `iosim" + "/gpu/nothing.py`, `no_such_file" + ".py`"
    assert len(dead_names(text)) == 3
    assert not dead_names(
        "`iosim.core.counting.symbols.count`, `iosim/gpu/l2.py`, `l2.py`, `gpu/l2.py`"
    )


def test_the_map_of_the_design_is_complete() -> None:
    """Every module and package of iosim is on the map in docs/design.md, and nothing else."""
    page = (ROOT / "docs/design.md").read_text(encoding="utf-8")
    block = next(x for x in re.findall(r"```\n(.*?)```", page, re.S) if x.startswith("iosim/\n"))
    shown: set[str] = set()
    folders: list[str] = []
    for line in block.splitlines()[1:]:
        spaces, text = re.fullmatch(r"( *)(.*?)(?:  .*)?", line).groups()  # type: ignore[union-attr]
        if not spaces:
            break  # the folders beside the package
        names = text.split()
        del folders[len(spaces) // 2 - 1 :]
        shown |= {"".join([*folders, x]) for x in names}
        folders += [names[0]] if len(names) == 1 and names[0].endswith("/") else []
    package = ROOT / "iosim"
    assert all((package / x).exists() for x in shown)
    complete = ". base core core/program core/counting core/tiling models gpu"
    for folder in complete.split():
        inside = {
            str(p.relative_to(package)) + "/" * p.is_dir()
            for p in (package / folder).iterdir()
            if not p.name.startswith(("_", "."))
        }
        here = {x for x in shown if Path(x).parent == Path(folder)}
        assert inside - {"py.typed"} == here


def test_the_registries_of_the_page_on_adding_are_where_it_says() -> None:
    text = (ROOT / "docs/extending.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\|.*\| in `([A-Z]+)`, `([\w/.]+)` \|$", text, re.M)
    assert len(rows) >= 9
    for name, path in rows:
        module = importlib.import_module(re.sub(r"(/__init__)?\.py$", "", path).replace("/", "."))
        assert isinstance(getattr(module, name), dict | tuple), name


@pytest.mark.numbers
@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_shell_sessions_in_documents_are_true(path: Path, tmp_path: Path) -> None:
    """A ```console block shows a command after ``$`` and exactly what it prints.

    All of a page run in one folder of its own, where what is in the repository can be read.
    """
    for entry in ROOT.iterdir():
        if not entry.name.startswith((".", "iosim-out", "build")):
            (tmp_path / entry.name).symlink_to(entry)
    for command, want in sessions(path):
        words = shlex.split(command)
        assert words[0] == "iosim", command
        if words[1:3] == ["gpu", "replay"]:
            assert command in REPLAYED  # by test_gpu_records, which compares what is printed
            continue
        done = iosim_(*words[1:], cwd=tmp_path)
        assert lines(untimed(done.stdout or done.stderr)) == lines(untimed(want)), command


def untimed(text: str) -> str:
    """Without seconds and processes, which another run has others of."""
    return re.sub(r"\([\d.]+ s(, (this|\d+) process(es)?)?\)", "(… s)", text)


def test_only_seconds_and_processes_may_differ() -> None:
    assert untimed("8 rows (0.6 s, 2 processes)") == untimed("8 rows (1.25 s, 1 process)")
    assert untimed("8 rows (0.6 s)") != untimed("9 rows (0.6 s)")


def test_the_documented_example_of_adding_an_algorithm_is_short() -> None:
    lines = (ROOT / "iosim/core/algorithms/copy.py").read_text().splitlines()
    start = next(k for k, x in enumerate(lines) if x.startswith("def schedule"))
    entry = next(k for k, x in enumerate(lines) if x.startswith("ALGORITHM"))
    assert len([x for x in lines[start:entry] if x.strip()]) + len(lines[entry:]) < 20


@pytest.mark.parametrize(
    ("text", "dtype", "words"),
    [
        ("24576", None, 24576),
        ("24_576", None, 24576),
        ("4,096", None, 4096),
        ("1Mi", None, 2**20),
        ("2K", None, 2000),
        ("96KiB", "fp16", 49152),
        ("96KiB", "fp32", 24576),
        ("1MB", "fp8", 10**6),
        ("3Ki", None, 3072),
        (" 7 ", None, 7),
        ("7B", "fp32", 1),
        ("97B", "fp16", 48),
    ],
)
def test_sizes_as_typed(text: str, dtype: str | None, words: int) -> None:
    assert units.parse_words("M", text, dtype) == words


@pytest.mark.parametrize(
    "text", ["", "KiB", "1.5KiB", "-4", "4 words", "0", "0x10", "1e3", "9" * 20]
)
def test_sizes_that_are_none(text: str) -> None:
    with pytest.raises(InputError) as error:
        units.parse_words("M", text, "fp16")
    assert "\n" not in str(error.value)


def test_formulas_and_bounds_share_their_symbols() -> None:
    from iosim import bounds
    from iosim.core.counting import symbols

    for name in ("N", "d", "heads", "M"):
        assert symbols.sym(name) == bounds.sym(name)
    words = symbols.count(iosim.algorithm("flash2").program).total_words
    gap = words - bounds.bound("compulsory").expression
    at = {symbols.sym("N"): 8, symbols.sym("d"): 2, symbols.sym("heads"): 1, symbols.sym("B_r"): 4}
    assert gap.subs(at) == 2 * 16 * 3 - 4 * 16


def test_closest() -> None:
    assert closest("flash", ["flash1", "naive"]) == "did you mean 'flash1'?"
    assert closest("zzz", ["b", "a"]) == "known: a, b"


def test_counts_are_values() -> None:
    a = Counts.of({("load", "Q"): 3, ("store", "O"): 2})
    assert eval(repr(a)) == a
    assert hash(a) == hash(Counts.of({("store", "O"): 2, ("load", "Q"): 3}))
    assert a + Counts() == a
    assert a["load", "Z"] == 0
    with pytest.raises(AttributeError):
        a.items = ()  # type: ignore[misc]
    with pytest.raises(TypeError):
        a + 1  # type: ignore[operator]


def test_no_two_public_classes_have_one_name() -> None:
    where: dict[str, list[str]] = {}
    for path in sorted((ROOT / "iosim").rglob("*.py")):
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                where.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    assert len(where) > 100
    assert {name: paths for name, paths in where.items() if len(paths) > 1} == {}


def test_tests_that_need_pytorch_are_marked() -> None:
    """CI runs those that are marked, where PyTorch is installed."""
    found = 0
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text("utf-8")
        asks = len(re.findall(r'^ *(?:torch = )?pytest\.importorskip\("torch"\)', text, re.M))
        marks = len(re.findall(r"^(?:@|pytestmark = )pytest\.mark\.torch$", text, re.M))
        assert asks == marks, path.name
        found += asks
    assert found >= 9
