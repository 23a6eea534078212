"""iosim cache: what scripts rely on, against lists that play the cache; one line for bad input."""

from __future__ import annotations

import json
from typing import Any

import pytest
from test_cache_curves import lru_by_hand, opt_by_hand
from test_cli import iosim_, ok

import iosim
from iosim.base.errors import InputError
from iosim.cache import (
    Cache,
    CacheFamily,
    choose_method,
    count_words,
    of_arrays,
    replay_many,
    touches,
)
from iosim.cache.files import write_trace
from iosim.report.table import read_csv

SIZES = ("flash2", "--N", "9", "--d", "3", "--tiles", "B_r=4,B_c=2")


def run_json(*words: str) -> Any:
    return json.loads(ok("cache", *words, "--json"))


@pytest.fixture(scope="module")
def references() -> tuple[list[int], list[bool]]:
    program = iosim.algorithm("flash2").program
    stream = touches(iosim.bind(program, {"N": 9, "d": 3, "heads": 1}, {"B_r": 4, "B_c": 2}))
    (all_,) = stream.chunks()
    return all_.address.tolist(), all_.write.tolist()


def test_chosen_capacities_are_what_a_list_gives(references: Any) -> None:
    found = run_json(*SIZES, "--capacity", "4,16,40,1Ki")
    assert set(found) >= {
        "algorithm",
        "problem",
        "policy",
        "line_words",
        "capacities",
        "loads",
        "write_backs",
        "flush",
    }
    assert found["capacities"] == [4, 16, 40, 1024]
    assert found["accesses"] == len(references[0])
    columns = zip(
        found["misses"], found["loads"], found["write_backs"], found["flush"], strict=True
    )
    for capacity, moved in zip(found["capacities"], columns, strict=True):
        assert moved == lru_by_hand(*references, capacity, True)


@pytest.mark.parametrize("bypass", [False, True])
def test_every_capacity_of_opt(references: Any, bypass: bool) -> None:
    found = run_json(*SIZES, "--policy", "opt", "--capacity", "all", *["--bypass"][:bypass])
    assert found["write_backs"] is None
    assert len(found["capacities"]) > 10
    for capacity, words in list(zip(found["capacities"], found["loads"], strict=True))[::7]:
        assert words == opt_by_hand(*references, capacity, True, bypass)


@pytest.mark.parametrize("line", [(), ("--line", "2")])
def test_many_capacities_are_what_few_are(
    line: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """From 8 on LRU's pass for every capacity tells them, and no cache is replayed."""
    from click.testing import CliRunner

    from iosim.cache import methods
    from iosim.cli import caching

    rooms = [2, 6, 8, 18, 30, 40, 64, 100, 1000, 6]
    few = [
        run_json(*SIZES, "--capacity", ",".join(map(str, some)), *line)
        for some in (rooms[:5], rooms[5:])
    ]
    monkeypatch.setattr(methods, "replay_many", None)
    many = CliRunner().invoke(
        caching.cache, [*SIZES, "--capacity", ",".join(map(str, rooms)), *line, "--json"]
    )
    found = json.loads(many.stdout)
    for name in ("capacities", "loads", "write_backs", "flush", "misses"):
        assert found[name] == few[0][name] + few[1][name], name
    for other in (
        ("--policy", "fifo"),
        ("--ways", "1"),
        ("--write", "through"),
        ("--policy", "opt"),
    ):
        at = ",".join(map(str, rooms))
        done = CliRunner().invoke(caching.cache, [*SIZES, "--capacity", at, *line, *other])
        assert isinstance(done.exception, TypeError), other


def test_a_trace_of_lines_is_replayed_at_many_capacities(tmp_path: Any) -> None:
    file = str(tmp_path / "x.csv")
    ok("cache", *SIZES, "--capacity", "7", "--save", file)
    rooms = [4 * k for k in range(1, 10)]
    all_, some = (
        run_json("--trace", file, "--line", "4", "--capacity", ",".join(map(str, at)))
        for at in (rooms, rooms[:5])
    )
    assert all_["loads"][:5] == some["loads"]


def test_the_formula_is_the_stream() -> None:
    rooms = "1,7,30,64,100,1000"
    one = run_json(*SIZES, "--capacity", rooms, "--method", "stream")
    other = run_json(*SIZES, "--capacity", rooms, "--method", "formula")
    for name in ("capacities", "loads", "write_backs", "flush", "misses", "accesses"):
        assert one[name] == other[name]


def test_whole_tiles_are_the_stream() -> None:
    for given in ((), ("--policy", "opt", "--bypass")):
        one = run_json(*SIZES, "--capacity", "1,7,30,64,100", "--method", "tiles", *given)
        other = run_json(*SIZES, "--capacity", "1,7,30,64,100", "--method", "stream", *given)
        assert one | {"engine": "stream"} == other


def test_a_long_stream_is_left_to_the_formula() -> None:
    found = run_json("flash2", "--N", "1Mi", "--d", "64", "--M", "32Ki")
    assert found["engine"] == "formula"
    counted = json.loads(ok("count", "flash2", "--N", "1Mi", "--d", "64", "--M", "32Ki", "--json"))
    # With its own M, LRU loads what the explicit schedule does: a row block and a row of K and V.
    assert found["loads"] == [counted["load_words"]]


def test_a_sample_says_its_error() -> None:
    found = run_json(
        "flash2", "--N", "512", "--d", "8", "--M", "512", "--sample", "0.2", "--capacity", "512,4Ki"
    )
    exact = run_json("flash2", "--N", "512", "--d", "8", "--M", "512", "--capacity", "512,4Ki")
    for guess, error, true in zip(
        found["loads"], found["loads_error"], exact["loads"], strict=True
    ):
        assert abs(guess - true) <= 5 * error + 1


def test_the_table_has_every_step_that_is_in_force_at_a_power_of_two() -> None:
    every = run_json("flash2", "--N", "64", "--d", "8", "--M", "256", "--capacity", "all")
    text = ok("cache", "flash2", "--N", "64", "--d", "8", "--M", "256", "--capacity", "all")
    rows = [line.split() for line in text.splitlines() if line.strip()[:1].isdigit()][1:-1]
    assert len(rows) > 5
    for capacity, words, *_ in rows:
        at = int(capacity.replace(",", ""))
        step = max(k for k, c in enumerate(every["capacities"]) if c <= at)
        assert int(words.replace(",", "")) == every["loads"][step]
    assert f"{len(every['capacities']):,} steps in all" in text


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--line", "16", "--capacity", "8"), "under one line of 16"),
        (("--ways", "3", "--capacity", "16"), "ways don't divide"),
        (("--policy", "lur", "--capacity", "8"), "unknown policy 'lur': did you mean 'lru'?"),
        (("--policy", "fifo", "--capacity", "all"), "every capacity in one pass is for lru"),
        (("--layout", "K"), "write it like K=column-major"),
        (("--layout", "Z=row-major"), "a layout for 'Z'"),
        (("--layout", "K=diagonal"), "unknown layout 'diagonal'"),
        (("--capacity", "0"), "capacity"),
        (("--capacity", "x"), "capacity"),
        (("--method", "formula", "--policy", "fifo"), "method formula is of LRU"),
        (("--method", "tiles", "--policy", "opt"), "method tiles is of LRU or OPT with bypass"),
        (("--method", "fast"), "unknown method 'fast'"),
        (
            ("--sample", "2", "--capacity", "8"),
            "a share of the lines, above 0 and up to 1, got '2'",
        ),
        (("--sample", "0.5"), "a sample needs capacities"),
        (("--sample", "0.5", "--policy", "opt", "--capacity", "8"), "a sample estimates"),
        (("--bypass", "--capacity", "8"), "can't bypass"),
        (("--bypass", "--capacity", "8", "--method", "formula"), "can't bypass"),
        (("--bypass", "--capacity", "8", "--sample", "0.9"), "can't bypass"),
        (("--write", "through", "--capacity", "8", "--sample", "0.9"), "a sample estimates"),
        (("--capacity", "8", "--layout", "K=column-major,K=row-major"), "layout of K twice"),
        *(
            ((*given, "--capacity", "8", "--method", engine), f"method {engine} is of LRU")
            for engine in ("formula", "tiles")
            for given in (
                ("--ways", "2"),
                ("--write", "through"),
                ("--line", "2"),
                ("--layout", "K=column-major"),
                ("--sample", "0.9"),
            )
        ),
    ],
)
def test_bad_input_is_one_line(words: tuple[str, ...], says: str) -> None:
    done = iosim_("cache", *SIZES, *words)
    assert done.returncode == 2
    assert done.stdout == ""
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_algorithm_without_a_closed_form_says_why() -> None:
    done = iosim_(
        "cache", "flash2", "--N", "64", "--d", "8", "--causal", "--M", "256", "--method", "formula"
    )
    assert done.returncode == 2
    assert "follows an outer tile" in done.stderr


@pytest.mark.parametrize("end", ["iosim", "csv", "oracleGeneral"])
def test_what_is_saved_is_replayed_alike(end: str, tmp_path: Any) -> None:
    file = str(tmp_path / f"trace.{end}")
    one = run_json(*SIZES, "--capacity", "7,40", "--save", file)
    other = run_json("--trace", file, "--capacity", "7,40")
    # oracleGeneral has no marks of writes.
    for name in ("accesses", "misses") if end == "oracleGeneral" else ("loads", "flush", "misses"):
        assert one[name] == other[name]
    assert other["algorithm"] is None


@pytest.mark.parametrize("end", ["iosim", "csv"])
def test_a_saved_trace_is_replayed_with_lines(end: str, tmp_path: Any) -> None:
    """As the schedule itself: regions begin with whole lines."""
    file = str(tmp_path / f"trace.{end}")
    for more in ((), ("--policy", "opt"), ("--ways", "2")):
        one = run_json(*SIZES, "--capacity", "16,40", "--line", "4", *more, "--save", file)
        other = run_json("--trace", file, "--capacity", "16,40", "--line", "4", *more)
        for name in ("loads", "write_backs", "flush", "misses", "line_words"):
            assert one[name] == other[name], more


@pytest.mark.parametrize("words", [("--capacity", "all"), ("--sample", "0.5", "--capacity", "8")])
def test_a_trace_of_lines_has_no_curve_of_words(words: tuple[str, ...], tmp_path: Any) -> None:
    file = tmp_path / "lines.iosim"
    program = iosim.algorithm("flash2").program
    instance = iosim.bind(program, {"N": 9, "d": 3, "heads": 1}, {"B_r": 4, "B_c": 2})
    write_trace(touches(instance, unit="lines", line_words=4), file)
    done = iosim_("cache", "--trace", str(file), *words)
    assert done.returncode == 2
    assert "a trace whose addresses are lines is replayed at chosen capacities" in done.stderr
    chosen = run_json("--trace", str(file), "--line", "4", "--capacity", "16")
    assert chosen["loads"] == run_json(*SIZES, "--line", "4", "--capacity", "16")["loads"]


def test_traces_that_cannot_be_used(tmp_path: Any) -> None:
    broken = tmp_path / "a.csv"
    broken.write_text("12,r\nx,w\n")
    for words, says in (
        (("--trace", str(broken), "--capacity", "4"), str(broken)),
        (("--trace", str(tmp_path / "no.csv"), "--capacity", "4"), "there is no such file"),
        ((*SIZES, "--trace", str(broken)), "one of the two"),
        ((), "one of the two"),
        (("--trace", str(broken), "--N", "4"), "leave out what chooses them"),
    ):
        done = iosim_("cache", *words)
        assert done.returncode == 2, words
        assert says in done.stderr
        assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("name", ["e.csv", "head.csv", "e.oracleGeneral", "e.iosim", "none.iosim"])
def test_a_trace_of_no_accesses_is_refused(name: str, tmp_path: Any) -> None:
    """Empty files, and files that say themselves that they have none."""
    trace, saved = tmp_path / name, tmp_path / "saved.csv"
    trace.write_text("address,write\n" if name == "head.csv" else "")
    if name == "none.iosim":
        write_trace(of_arrays([]), trace)
    done = iosim_("cache", "--trace", str(trace), "--capacity", "64", "--save", str(saved))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    says = "record 0 does not begin a trace" if name == "e.iosim" else "has 0 accesses, and at le"
    assert done.stderr.startswith(f"iosim: {trace}")
    assert says in done.stderr
    assert not saved.exists()


KEYS = {
    "algorithm",
    "problem",
    "policy",
    "line_words",
    "capacities",
    "loads",
    "write_backs",
    "flush",
}


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--method", "formula"),
        ("--method", "tiles"),
        ("--policy", "opt", "--bypass", "--method", "tiles"),
        ("--policy", "opt"),
        ("--sample", "0.9", "--seed", "99999999999999999999"),
    ],
)
def test_every_engine_says_what_scripts_rely_on(words: tuple[str, ...]) -> None:
    found = run_json(*SIZES, "--capacity", "8,64", *words)
    assert set(found) >= KEYS
    assert found["capacities"] == [8, 64]
    assert len(found["loads"]) == 2


def test_what_is_asked_for_reaches_the_cache() -> None:
    """Sets, lines, layouts and seeds, against the same stream replayed here."""
    at = "--capacity", "16,64"
    instance = iosim.bind(
        iosim.algorithm("flash2").program, {"N": 9, "d": 3, "heads": 1}, {"B_r": 4, "B_c": 2}
    )
    for words, asked, options in (
        (("--ways", "2"), {}, {"ways": 2}),
        (
            ("--line", "4", "--layout", "K=column-major"),
            {"line_words": 4, "layouts": {"K": "column-major"}},
            {"line_words": 4},
        ),
        (("--policy", "random", "--seed", "5"), {}, {"policy": "random", "seed": 5}),
        (("--policy", "opt", "--bypass"), {}, {"policy": "opt", "bypass": True}),
        (("--write", "through"), {}, {"write": "through"}),
    ):
        caches = [Cache(capacity=c, **options) for c in (16, 64)]
        moved = replay_many(touches(instance, **asked), caches)
        found = run_json(*SIZES, *at, *words)
        assert found["loads"] == [x.loads for x in moved], words
        assert found["write_backs"] == [x.write_backs for x in moved], words


def test_every_method_counts_what_a_list_does(references: tuple[list[int], list[bool]]) -> None:
    """LRU as a list of words, the last used one at its end; reads that miss are loads."""
    program = iosim.algorithm("flash2").program
    instance = iosim.bind(program, {"N": 9, "d": 3, "heads": 1}, {"B_r": 4, "B_c": 2})
    rooms = [1, 5, 17, 40, 10_000]
    loads = []
    for room in rooms:
        held: list[int] = []
        missed = 0
        for word, write in zip(*references, strict=True):
            missed += word not in held and not write
            held = [*(x for x in held if x != word), word][-room:]
        loads.append(missed)
    family = CacheFamily(capacities=rooms)
    for method in ("stream", "tiles", "formula"):
        found = count_words(instance, family, method)
        assert (found.method, found.loads) == (method, loads)
    stream = touches(instance)
    assert count_words(stream, family).loads == loads
    with pytest.raises(InputError, match="a stream has no tiles and no formula: leave formula"):
        count_words(stream, family, "formula")
    with pytest.raises(InputError, match="unknown method 'fast'"):
        count_words(stream, family, "fast")
    assert choose_method(instance, family) == ("stream", "")


def test_a_long_replay_is_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where nobody sees the progress bar."""
    from click.testing import CliRunner

    from iosim.cache import methods
    from iosim.cli import caching

    monkeypatch.setattr(methods, "LONG", 1000)
    words = [*SIZES, "--capacity", "8", "--line", "2"]
    with pytest.warns(UserWarning, match="1,314 accesses are taken one by one, which takes long"):
        done = CliRunner().invoke(caching.cache, words)
    assert done.exit_code == 0


NEITHER = "there is no closed form, and no replay of whole tiles, for"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--causal",), "13 days, one by one at 100,000,000 a second (flash2 has no closed form"),
        (("--causal",), "; 35,348,381,056 passes over whole tiles are more than 50,000,000): "),
        (("--policy", "opt"), " accesses take about 26 days, one by one "),
        (("--policy", "opt"), f"a second ({NEITHER} opt without --bypass): choose"),
        (("--policy", "opt", "--bypass"), "(OPT has no closed form; 61,832,463,264 passes over "),
        (("--line", "32", "--capacity", "32Ki,64Ki"), " accesses in 2 caches take about "),
        (("--line", "32"), f"({NEITHER} lines of 32 words): choose"),
        (
            ("--policy", "fifo", "--ways", "4", "--write", "through", "--layout", "K=column-major"),
            f"({NEITHER} fifo, sets of 4 lines, write-through, a layout): choose",
        ),
        (("--policy", "fifo", "--save", "x.iosim"), " accesses take about 26 days, one by one "),
        (("--save", "x.iosim"), " accesses take about 26 days, one by one "),
        (("--save", "x.iosim"), "a second (--save writes each of them): choose"),
        (("--policy", "opt", "--method", "stream"), "opt needs the next use of each of 2215"),
    ],
)
def test_what_would_take_days_is_refused_at_once_in_one_line(tmp_path, words, why) -> None:
    """Unless it is asked for by name; then only memory may stand against it."""
    long = "cache", "flash2", "--N", "1Mi", "--d", "64", "--M", "32Ki"
    done = iosim_(*long, *words, cwd=tmp_path)
    assert done.returncode == 2
    assert why in done.stderr
    assert done.stderr.count("\n") == 1
    if "--method" not in words:
        # OPT needs all of the stream in memory: to wait is not a way out.
        way = "or LRU" if "opt" in words else "or take --method stream to wait that long"
        assert way in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--N", "1Mi", "--d", "64", "--M", "32Ki"), "the closed form counts loads"),
        (
            (*SIZES[1:], "--M", "64", "--capacity", "all", "--policy", "opt"),
            "OPT at every capacity",
        ),
        ((*SIZES[1:], "--M", "64", "--sample", "0.9"), "a sample estimates loads"),
        ((*SIZES[1:], "--M", "64"), None),
    ],
)
def test_columns_that_are_left_out_are_named(words: tuple[str, ...], says: str | None) -> None:
    text = ok("cache", "flash2", *words)
    if says is None:
        assert "write_backs" in text.split("\n")[3]
        assert "left out" not in text
    else:
        assert f"left out: write_backs, flush; {says}" in text
        assert "null" not in text


def test_tiles_that_have_no_closed_form_say_why() -> None:
    """The best tiles of naive cut the scores in two ways."""
    done = iosim_("cache", "naive", "--N", "1Mi", "--d", "64", "--M", "32Ki")
    assert done.returncode == 2
    assert "S is used in tiles of 1 and of 504 along one axis; 13,932" in done.stderr
    assert done.stderr.count("\n") == 1


def test_patience_is_a_number_of_seconds(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """1,314 accesses at 10⁸ a second."""
    from click.testing import CliRunner

    from iosim.cache import methods
    from iosim.cli import caching

    trace = str(tmp_path / "x.iosim")
    ok("cache", *SIZES, "--capacity", "8", "--save", trace)
    for seconds, times, code in ((1.4e-5, 1, 0), (1.3e-5, 1, 2), (1.4e-5, 2, 2), (2.7e-5, 2, 0)):
        monkeypatch.setattr(methods, "PATIENCE", seconds)
        at = "--capacity", ",".join(["8", "9"][:times])
        for words in ((*SIZES, "--policy", "fifo"), ("--trace", trace)):
            done = CliRunner().invoke(caching.cache, [*words, *at])
            assert (done.exit_code == 0) == (code == 0), (seconds, words)
            if code and "--trace" in words:  # a file has no tiles to choose
                assert "give fewer capacities, or take --method stream" in str(done.exception)
            named = CliRunner().invoke(caching.cache, [*words, *at, "--method", "stream"])
            assert named.exit_code == 0


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (700, "12 minutes"),
        (7199, "120 minutes"),
        (7200, "2 hours"),
        (172_799, "48 hours"),
        (172_800, "2 days"),
        (2 * 365 * 86_400, "2 years"),
    ],
)
def test_long_times_as_people_say_them(seconds: int, said: str) -> None:
    from iosim.base.errors import InputError
    from iosim.cache import methods

    with pytest.raises(InputError, match=f"take about {said}, one by one"):
        methods.check_time(seconds * methods.COMPILED, 1)


def test_more_addresses_than_memory_are_refused_before_they_are_followed() -> None:
    done = iosim_(
        "cache",
        "naive",
        "--N",
        "1Mi",
        "--d",
        "64",
        "--M",
        "32Ki",
        "--capacity",
        "all",
        "--method",
        "stream",
    )
    assert done.returncode == 2
    assert "LRU at every capacity keeps what it knows of each of" in done.stderr


def test_sizes_beyond_64_bits_are_one_line() -> None:
    done = iosim_("cache", "flash2", "--N", str(2**40), "--d", str(2**20), "--M", "32Mi")
    assert done.returncode == 2
    assert "more than numbers of 64 bits can say" in done.stderr


def test_the_slope_and_its_figure(tmp_path):
    """Each series against what its own command says; the figure from the table again."""
    sizes = ("--N", "32", "--d", "4")
    done = iosim_("cache", "flash2", *sizes, "--M", "64", "--out", "there", cwd=tmp_path)
    assert done.returncode == 0
    assert sorted(x.name for x in (tmp_path / "there").iterdir()) == [
        "slope.csv",
        "slope.png",
        "slope.svg",
    ]
    rows = read_csv(tmp_path / "there/slope.csv")
    found = {(r["series"], r["capacity"]): (r["loads"], r["words"]) for r in rows}
    counted = json.loads(iosim_("count", "flash2", *sizes, "--M", "64", "--json").stdout)
    assert found["explicit", 64][1] == counted["total_words"]
    for policy, extra in (("lru", ()), ("opt", ("--bypass",))):
        said = json.loads(
            iosim_(
                "cache",
                "flash2",
                *sizes,
                "--M",
                "64",
                "--capacity",
                "64",
                "--policy",
                policy,
                *extra,
                "--json",
            ).stdout
        )
        words = said["loads"][0] + said["write_backs"][0] + said["flush"][0]
        assert found[policy, 64] == (said["loads"][0], words)
        assert all(
            found["bound", c][1] <= w
            for (name, c), (_, w) in found.items()
            if name in (policy, "explicit")
        )
    svg = (tmp_path / "there/slope.svg").read_text()
    again = iosim_("plot", "there/slope.csv", "--save", "again", cwd=tmp_path)
    assert again.returncode == 0
    assert (tmp_path / "again.svg").read_text() == svg


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("flash2", "--N", "32", "--d", "4", "--M", "64", "--line", "2"), "of LRU and OPT with"),
        (("--trace", "x.csv"), "the figure is of a schedule: give one in place"),
        (("flash2", "--N", "8192", "--d", "64", "--M", "4Ki"), "more than 200,000,000: choose"),
    ],
)
def test_a_figure_of_something_else_is_refused(tmp_path, words, said):
    done = iosim_("cache", *words, "--out", "there", cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert not (tmp_path / "there").exists()


@pytest.mark.parametrize("path", ["nowhere/x.iosim", "x.txt", "."])
def test_a_trace_that_cannot_be_written_is_refused_before_the_run(tmp_path, path):
    """These sizes would take minutes."""
    sizes = ("--N", "16384", "--d", "64", "--M", "4Ki", "--policy", "fifo")
    done = iosim_("cache", "flash2", *sizes, "--save", path, cwd=tmp_path)
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_capacities_in_bytes_are_asked_for_in_words():
    done = iosim_("cache", *SIZES, "--capacity", "96KiB")
    assert done.returncode == 2
    assert "capacity = '96KiB' is in bytes, 49,152 words of fp16: add" in done.stderr
