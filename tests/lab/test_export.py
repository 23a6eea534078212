"""One schedule's animation in a file: moments against a walk through every step, frames, files."""

from __future__ import annotations

import itertools
import json
import os
import re
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from PIL import Image
from sizes import examples
from strategies import attention_programs, bound_programs, dependent_schedules
from test_cli import iosim_, ok

import iosim
from iosim import Attention, Counts, algorithm, bind, build, count, peak, transfers
from iosim.base.errors import InputError, IosimError
from iosim.core.counting.show import listing
from iosim.core.problem import BlockSparse, PagedAttention
from iosim.core.program.walk import Instance
from iosim.lab import export, shots, steps
from iosim.lab.shots import Shot
from iosim.report import encode
from iosim.report.movie import Screen
from iosim.report.scene import THEMES, Frame

SMALL = ("flash2", "--N", "6", "--d", "2", "--tiles", "B_r=4,B_c=3")


def instance_of(name: str, problem: Any, masks: Any = None, **tiles: int) -> Instance:
    return bind(algorithm(name).program_for(problem), problem.sizes, tiles, masks)


FLASH2 = instance_of("flash2", Attention(6, 2), B_r=4, B_c=3)
MASK = {"blocks": np.array([[True, False, True], [False, True, True]])}
SPARSE = instance_of("block_sparse", BlockSparse(7, 11, 2, 1), MASK, B_r=4, B_c=4)
PAGED = PagedAttention(N_k=10, d=2, batch=2, heads=4, kv_heads=2, page=4)
ODD = {
    "a block mask": SPARSE,
    "pages": instance_of(
        "paged", PAGED, **{p.name: 3 for p in algorithm("paged").program_for(PAGED).params}
    ),
    "splits": instance_of(
        "split_kv",
        Attention(3, 2, 4, N_k=23, kv_heads=2),
        **{
            p.name: 5
            for p in algorithm("split_kv")
            .program_for(Attention(3, 2, 4, N_k=23, kv_heads=2))
            .params
        },
    ),
}


@st.composite
def instances(draw: st.DrawFn) -> Instance:
    """Any schedule that is bound, with its options, or a random one."""
    kind = draw(st.sampled_from(["plain", "options", "random"]))
    try:
        if kind == "random":
            program, sizes, tiles = draw(dependent_schedules())
            return bind(program, sizes, tiles)
        entry, problem, tiles = draw(bound_programs() if kind == "plain" else attention_programs())
        return bind(entry.program_for(problem), problem.sizes, tiles)
    except InputError:
        assume(False)
        raise


def check_steps(instance: Instance) -> list[steps.Moment]:
    """Every step against the stream of transfers, the counts and the peak."""
    moments = list(steps.every_step(instance))
    moved = [m.transfer for m in moments if m.transfer is not None]
    assert moved == list(transfers(instance))
    if moments:
        assert Counts.of(dict(moments[-1].counts)) == count(instance)
        assert moments[-1].buffers == ()
    held = (sum(b.words for b in m.buffers) for m in moments)
    assert max(held, default=0) == peak(instance)
    words = 0
    lines = [code for code, _ in listing(instance.program)]
    for k, m in enumerate(moments):
        words += m.transfer.words if m.transfer else 0
        assert m.words == words
        before = [t for t in (x.transfer for x in moments[: k + 1]) if t is not None]
        assert list(m.trail) == before[-steps.TRAIL :]
        assert m.transfers == len(before)
        if m.transfer is not None:
            assert lines[m.line].split()[0] == m.transfer.direction
            assert f" {m.transfer.tensor}[" in lines[m.line]
    size = steps.size(instance)
    assert (size.steps, size.transfers) == (len(moments), len(moved))
    return moments


def check_samples(instance: Instance, moments: list[steps.Moment], targets: list[int]) -> None:
    """Moments by words against those of the walk through every step."""
    total = count(instance).total_words
    found = list(steps.sampled(instance, targets))
    moving = [m for m in moments if m.transfer is not None]
    assert len(found) == (len(targets) if moving else 0)
    for target, here in zip(targets, found, strict=False):
        want = next(m for m in moving if m.words >= min(target, total))
        assert (here.line, here.transfer, here.buffers) == (want.line, want.transfer, want.buffers)
        assert (dict(here.counts), here.transfers) == (dict(want.counts), want.transfers)
        assert here.trail == want.trail[len(want.trail) - len(here.trail) :]
        assert here.trail[-1] == here.transfer


@given(instances(), st.data())
@examples(3 / 5)
def test_moments_are_those_of_every_step(instance: Instance, data: st.DataObject) -> None:
    assume(steps.size(instance).steps < 4000)
    moments = check_steps(instance)
    total = count(instance).total_words
    targets = sorted(data.draw(st.lists(st.integers(0, total + 3), max_size=8)))
    check_samples(instance, moments, targets)


@pytest.mark.parametrize("name", ODD)
def test_moments_of_masks_and_tables(name: str) -> None:
    moments = check_steps(ODD[name])
    total = count(ODD[name]).total_words
    check_samples(ODD[name], moments, [0, 1, total // 3, total // 2, total - 1, total, total + 9])


def held_only(b: Any) -> None:
    """Copies the first W words, W times for no reason."""
    W = b.stationary("n", "W")
    for _ in b.tiles("n", b.tile_sizes("n", "B")[0]):
        x = b.load("X", b.span("n", 0, W))
        b.store(x, "Y", b.span("n", 0, W))
        b.free(x)


@pytest.mark.parametrize("W", [0, 2])
def test_transfers_of_no_words_are_moments_too(W: int) -> None:
    instance = bind(build("held_only", iosim.Copy, held_only), {"n": 5}, {"B": 2, "W": W})
    moments = check_steps(instance)
    assert moments[-1].words == 6 * W
    for targets in ([0, 0, 3, 6 * W + 3], [6 * W + 3]):
        check_samples(instance, moments, targets)


def large_then_small(b: Any) -> None:
    """Three large loads, then a word at a time."""
    (B,) = b.tile_sizes("n", "B")
    for i in b.tiles("n", B):
        for _ in range(3):
            b.free(b.load("X", "n"))
        for j in b.points("n"):
            b.free(b.load("X", j))
        x = b.load("X", i)
        b.store(x, "Y", i)
        b.free(x)


def test_a_trail_has_nothing_of_before_what_was_passed_over() -> None:
    instance = bind(build("large_then_small", iosim.Copy, large_then_small), {"n": 400}, {"B": 100})
    moments = check_steps(instance)
    one = 4 * 400 + 2 * 100
    check_samples(instance, moments, [1, one - 100, one + 1200, 3 * one + 1200])


def test_a_wrong_sum_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps._Run, "_alike", lambda self, loop, env: iter(()))
    instance = instance_of("flash2", Attention(40, 2), B_r=1, B_c=1)
    moments = list(steps.every_step(instance))
    with pytest.raises(AssertionError):
        check_samples(instance, moments, [count(instance).total_words])


@pytest.mark.numbers
def test_long_runs_are_passed_over() -> None:
    """Half a milliard of transfers in the time of a few hundred moments."""
    problem = Attention(262_144, 128)
    instance = instance_of("flash2", problem, B_r=253, B_c=1)
    total = count(instance).total_words
    began = time.process_time()
    found = list(steps.sampled(instance, [total * k // 100 for k in range(101)]))
    assert time.process_time() - began < 20
    assert found[-1].transfers > 5 * 10**8
    assert Counts.of(dict(found[-1].counts)) == count(instance)
    for k, moment in enumerate(found):
        assert 0 <= moment.words - total * k // 100 <= 253 * 128
        assert len(moment.trail) == steps.TRAIL or k < 2


@given(st.integers(1, 10**9), st.integers(1, 10**6), st.integers(1, 400), st.floats(0.1, 30))
def test_targets_rise_to_the_total(total: int, moved: int, frames: int, slow: float) -> None:
    found = list(shots.targets(total, moved, frames, slow))
    assert len(found) == frames
    assert found[-1] == total
    assert found == sorted(found)
    assert found[0] >= 1
    # At first a transfer takes so many frames.
    assert found[0] <= max(2, 1.3 * total / (moved * slow) + 1, total / frames + 1)


def covered(tensor: str, instance: Instance, ranges: Any) -> set[int]:
    """Positions of a box in the tensor laid out row by row, one at a time."""
    axes = next(t.axes for t in instance.program.tensors if t.name == tensor)
    shape = tuple(instance.env[axis] for axis in axes)
    places = itertools.product(*(range(*x) for x in ranges))
    return {int(np.ravel_multi_index(place, shape)) for place in places}


@given(attention_programs())
@examples(1 / 4)
def test_boxes_are_what_is_moved(drawn: Any) -> None:
    entry, problem, tiles = drawn
    try:
        instance = bind(entry.program_for(problem), problem.sizes, tiles)
    except InputError:
        assume(False)
    matrices = shots._matrices(instance)
    for transfer in itertools.islice(transfers(instance), 40):
        panel = matrices[transfer.tensor].panel
        cells: set[int] = set()
        for top, bottom, left, right in matrices[transfer.tensor].boxes(transfer):
            assert 0 <= top <= bottom <= panel.rows
            assert 0 <= left <= right <= panel.columns
            for row in range(top, bottom):
                cells |= {row * panel.columns + c for c in range(left, right)}
        assert cells == covered(transfer.tensor, instance, transfer.ranges)


def test_what_a_table_says_may_be_anywhere() -> None:
    instance = ODD["pages"]
    matrices = shots._matrices(instance)
    unknown = next(t for t in transfers(instance) if (-1, 0) in t.ranges)
    rows = matrices[unknown.tensor].panel.rows
    boxes = matrices[unknown.tensor].boxes(unknown)
    assert all(0 <= top < bottom <= rows for top, bottom, _, _ in boxes)
    assert max(bottom for _, bottom, _, _ in boxes) > rows // 2


def test_a_short_run_is_shown_step_by_step() -> None:
    found = list(shots.shots(FLASH2, fps=10))
    size = steps.size(FLASH2)
    assert len(found) == size.steps + 1
    assert sum(shot.frames for shot in found) == shots.length(FLASH2, 10).frames
    assert all(shot.frames >= 1 for shot in found)
    lines = [m.line for m in steps.every_step(FLASH2)]
    assert [shot.frame.line for shot in found[:-1]] == lines


@pytest.mark.parametrize("seconds", [0.1, 1.0, 3.3])
def test_a_movie_is_as_long_as_asked(seconds: float) -> None:
    instance = instance_of("flash2", Attention(64, 4), B_r=4, B_c=3)
    found = list(shots.shots(instance, 12, seconds))
    assert sum(shot.frames for shot in found) == max(2, round(12 * seconds))
    assert found[-1].frame.last
    assert not any(shot.frame.last for shot in found[:-1])


@pytest.mark.numbers
@pytest.mark.parametrize(
    ("name", "theme"),
    [*((a.name, "light") for a in iosim.all_algorithms()), *(("flash2", x) for x in THEMES)],
)
def test_the_last_frame_has_the_totals_of_count(name: str, theme: str) -> None:
    entry = algorithm(name)
    if name in ("block_sparse", "paged"):
        instance = ODD["a block mask" if name == "block_sparse" else "pages"]
    else:
        given = {a.name: 6 for a in entry.problem.axes()} | dict.fromkeys(entry.needs, 3)
        problem = entry.problem(**given)
        program = entry.program_for(problem)
        tiles = {p.name: 4 for p in program.params}
        instance = bind(program, problem.sizes, tiles)
    stage = Screen(shots.scene(instance, title=entry.title), theme)
    frames = list(shots.shots(instance, 4, 2))
    picture = np.array(stage.draw(frames[-1].frame))
    assert picture.shape == (720, 1280, 4)
    text = stage.counters.get_text()
    want = count(instance)
    assert f"{want.total_words:,} of {want.total_words:,}" in text
    rows = [line.split() for line in text.splitlines()]
    for tensor in {x for (_, x), _ in want}:
        row = next(r for r in rows if r[0] == tensor)
        assert row[1:] == [f"{want['load', tensor]:,}", f"{want['store', tensor]:,}"]
    assert ["all", f"{want.load_words:,}", f"{want.store_words:,}"] in rows
    assert f"{want.total_words:,} words moved" in stage.step.get_text()


def test_a_frame_shows_what_its_moment_is() -> None:
    stage = Screen(shots.scene(FLASH2, M=100))
    seen: set[bytes] = set()
    both = zip(shots.shots(FLASH2, 5), steps.every_step(FLASH2), strict=False)
    for shot, moment in itertools.islice(both, 0, 40, 3):
        picture = np.array(stage.draw(shot.frame))
        seen.add(picture.tobytes())
        held = sum(b.words for b in moment.buffers)
        assert stage.full.get_text() == f"{held:,} of M = 100 words"
        for buffer in moment.buffers:
            assert f"{buffer.name} {buffer.words:,}" in stage.resident.get_text()
        widths = [slot.get_width() for slot in stage.slots if slot.get_visible()]
        assert widths == [b.words for b in moment.buffers]
        line = listing(FLASH2.program)
        code = [code for code, _ in line][moment.line]
        at = int(stage.here.get_y())
        assert stage.lines[at].get_text() == code
        assert stage.lines[at].get_fontsize() == 10
        if moment.transfer:
            name = moment.transfer.tensor
            assert f"{moment.transfer.direction} {name} " in stage.step.get_text()
            lit = {x: len(m.lit.get_paths()) for x, m in stage.panels.items()}
            assert lit == {x: int(x == name) for x in lit}
    assert len(seen) > 8


def test_a_long_line_loses_its_remark_only() -> None:
    problem = Attention(64, 4, causal=True)
    instance = instance_of("flash2", problem, B_r=8, B_c=8)
    stage = Screen(shots.scene(instance))
    for shot in itertools.islice(shots.shots(instance, 4), 20):
        stage.draw(shot.frame)
    shown = [text.get_text() for text in stage.lines]
    for code, line in zip((code for code, _ in listing(instance.program)), shown, strict=True):
        assert line == code or (len(code) > 54 and line == code.split("  ▷ ")[0])
    assert any("mask_after" in line and "▷" not in line for line in shown)


def test_no_text_leaves_the_picture() -> None:
    """Of the schedules with the most tensors and the longest listings, at sizes as they are."""
    for name in ("naive", "small_cache"):
        problem = Attention(4096, 128, 16)
        program = algorithm(name).program_for(problem)
        best = iosim.optimal_tiles(program, problem, 50_000)
        instance = bind(program, problem.sizes, best.tiles)
        stage = Screen(shots.scene(instance, 50_000, algorithm(name).title))
        total = count(instance).total_words
        (moment,) = steps.sampled(instance, [total // 2])
        frame = shots._frame(moment, shots._matrices(instance))
        final = Frame(
            line=1, moved=None, trail=(), resident=(), last=True, counts=dict(count(instance))
        )
        for one in (frame, final):
            stage.draw(one)
            texts = [t for axes in [stage.figure, *stage.figure.axes] for t in axes.texts]
            for text in texts:
                if text.get_text() and text.get_visible():
                    box = text.get_window_extent()
                    assert -1 <= box.x0 <= box.x1 <= 1281, text.get_text()
                    assert -1 <= box.y0 <= box.y1 <= 721, text.get_text()


def test_a_gif(tmp_path: Path) -> None:
    path = tmp_path / "a.gif"
    assert "wrote" in ok("export", *SMALL, "--fps", "3", "--duration", "3", "--save", str(path))
    total = 0
    with Image.open(path) as image:
        assert image.size == (1280, 720)
        assert image.info["loop"] == 0
        assert image.n_frames > 5
        for k in range(image.n_frames):
            image.seek(k)
            total += image.info["duration"]
        last = np.array(image.convert("RGB")).astype(int)
    assert total == pytest.approx(3000, abs=20)
    stage = Screen(shots.scene(FLASH2, title=algorithm("flash2").title))
    *_, final = shots.shots(FLASH2, 3, 3)
    drawn = np.array(stage.draw(final.frame))[..., :3].astype(int)
    assert np.abs(last - drawn).mean() < 3  # but for the palette
    assert [p.name for p in tmp_path.iterdir()] == ["a.gif"]


def fake_ffmpeg(folder: Path, body: str) -> None:
    """A program called ffmpeg that reads what it is given, in a folder of its own."""
    (folder / "bin").mkdir()
    tool = folder / "bin" / "ffmpeg"
    tool.write_text(f"#!{sys.executable}\nimport sys\ndata = sys.stdin.buffer.read()\n{body}\n")
    tool.chmod(tool.stat().st_mode | stat.S_IEXEC)


def test_an_mp4_gets_every_frame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_ffmpeg(tmp_path, "open(sys.argv[-1], 'w').write(repr((sys.argv, len(data))))")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    ok("export", *SMALL, "--fps", "4", "--duration", "2", "--save", "a.mp4", cwd=tmp_path)
    words, size = eval((tmp_path / "a.mp4").read_text())
    assert size == 8 * 1280 * 720 * 3
    assert words[words.index("-r") + 1] == "4"
    assert words[words.index("-s") + 1] == "1280x720"


def test_an_encoder_that_fails_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_ffmpeg(tmp_path, "print('bad\\nno codec', file=sys.stderr); sys.exit(3)")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    (tmp_path / "a.mp4").write_text("old")
    done = iosim_("export", *SMALL, "--duration", "1", "--save", "a.mp4", cwd=tmp_path)
    assert done.returncode == 2
    assert re.search(r"ffmpeg fails: no codec\n$", done.stderr)
    assert (tmp_path / "a.mp4").read_text() == "old"
    assert {p.name for p in tmp_path.iterdir()} == {"a.mp4", "bin"}


def test_an_encoder_that_ends_early_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    tool = tmp_path / "bin" / "ffmpeg"
    tool.write_text("#!/bin/sh\necho 'cannot start' >&2\nexit 1\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    done = iosim_("export", *SMALL, "--duration", "2", "--save", "a.mp4", cwd=tmp_path)
    assert done.returncode == 2
    assert "ffmpeg fails: cannot start" in done.stderr
    assert {p.name for p in tmp_path.iterdir()} == {"bin"}


def test_without_an_encoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(IosimError, match=r"write a .gif, install ffmpeg, or run .*iosim\[movie\]"):
        encode.find_ffmpeg()
    done = iosim_("export", *SMALL, "--save", "a.mp4", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_real_mp4(tmp_path: Path) -> None:
    try:
        encode.find_ffmpeg()
    except IosimError:
        pytest.skip("no encoder: install ffmpeg, or iosim[movie] as CI does")
    ok(
        "export",
        *SMALL,
        "--fps",
        "5",
        "--duration",
        "2",
        "--theme",
        "dark",
        "--save",
        "a.mp4",
        cwd=tmp_path,
    )
    data = (tmp_path / "a.mp4").read_bytes()
    assert data[4:8] == b"ftyp"
    assert b"avc1" in data
    assert data.index(b"moov") < data.index(b"mdat")  # it plays while it loads


@pytest.mark.parametrize("suffix", [".gif", ".mp4"])
def test_an_interrupted_movie_leaves_the_old_one(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_ffmpeg(tmp_path, "open(sys.argv[-1], 'wb').write(data)")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    path = tmp_path / f"a{suffix}"
    path.write_text("old")
    real = shots.shots

    def stopping(*given: Any) -> Iterator[Shot]:
        yield from itertools.islice(real(*given), 3)
        raise KeyboardInterrupt

    monkeypatch.setattr(export, "shots", stopping)
    done = iosim_("export", *SMALL, "--save", str(path))
    assert done.returncode == 130
    assert done.stderr == "iosim: interrupted\n"
    assert path.read_text() == "old"
    assert {p.name for p in tmp_path.iterdir()} == {path.name, "bin"}


BAD = {
    ("--save", "a.png"): "no known suffix: name a file in .html, .gif, .mp4",
    (): "--save is missing",
    ("--save", "a.gif", "--fps", "0"): "fps = 0 is out of range: give 1 to 60",
    ("--save", "a.gif", "--fps", "61"): "fps = 61 is out of range: give 1 to 60",
    ("--save", "a.gif", "--fps", "x"): "fps must be a whole number",
    ("--save", "a.gif", "--duration", "0"): "--duration must be above 0 and up to 600, got",
    ("--save", "a.gif", "--duration", "nan"): "--duration must be above 0 and up to 600",
    ("--save", "a.gif", "--duration", "601"): "above 0 and up to 600",
    ("--save", "a.gif", "--theme", "drak"): "unknown theme 'drak': did you mean 'dark'?",
    ("--save", "a.html", "--theme", "dark"): "--theme is for movies, and 'a.html' is a page",
    ("--save", "no/a.gif"): "cannot write",
    ("--save", "a.gif", "--M", "3"): "needs at least",
    ("--save", "a.gif", "--causal", "--window", "1"): "window",
}


@pytest.mark.parametrize("words", BAD)
def test_bad_input_is_one_line(words: tuple[str, ...], tmp_path: Path) -> None:
    given = SMALL if "--M" not in words else SMALL[:-2]
    done = iosim_("export", *given, *words, cwd=tmp_path)
    assert done.returncode == 2
    assert BAD[words] in done.stderr
    assert done.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_tiles_or_memory_are_needed(tmp_path: Path) -> None:
    for tiles in ((), ("--tiles", "auto")):
        done = iosim_("export", *SMALL[:-2], *tiles, "--save", str(tmp_path / "a.gif"))
        assert done.returncode == 2
        assert "give --M (24576), or all tiles: write --tiles" in done.stderr


def test_a_page_has_one_view_and_its_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the bundle, which npm builds: what the page is given."""
    from iosim.lab import page

    monkeypatch.setattr(page, "static", lambda name: f"/* {name} */")
    ok("export", *SMALL, "--M", "99", "--save", "a.html", cwd=tmp_path)
    text = (tmp_path / "a.html").read_text(encoding="utf-8")
    found = re.search(r'id="iosim-lab-data">(.*?)</script>', text, re.S)
    assert found
    told = json.loads(found[1])
    assert (told["format"], list(told["views"])) == ("iosim-lab", ["watch"])
    start = told["views"]["watch"]["start"]
    assert start["algorithm"] == "flash2"
    assert start["tiles"] == {"B_r": 4, "B_c": 3}
    assert start["sizes"] | {"N": 6, "d": 2, "M": 99} == start["sizes"]
    assert not re.search("https?:", text)
