"""Programs read back from weights: proved, readable, and refused where they cannot be had."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import inweave
from inweave import Matrix, Scalar, Vector, decompiler, gallery, paper
from inweave.circuits.disguise import Disguise, disguise
from inweave.circuits.hidden import baited
from inweave.compiler.options import MODES, TARGETS
from inweave.decompiler.constants import number_text
from inweave.decompiler.reading import read
from inweave.errors import DecompileError, InputError, VerificationError
from inweave.gallery.entry import difference
from inweave.language.functions import THRESHOLD, Pointwise
from inweave.model.layers import PointwiseLayer
from inweave.model.projection import DenseProjection, Projection
from tests import programs
from tests.cases import CASES, Case
from tests.cases import ridge_gd as ridge
from tests.disguises import attempt, cases, program_of

pytestmark = pytest.mark.usefixtures("unchecked_passes")
NAMES = {case.name: case for case in CASES}


def network_of(case: Case, target: str = "elsa", mode: str = "faithful") -> inweave.Network:
    return inweave.compile(case.program, target=target, optimize=mode, verify=False, **case.sizes)


RIDGE = """\
import inweave
from inweave import Matrix, Scalar, Vector


@inweave.program
def algorithm(X: Matrix[5, 3], y: Vector[5], u: Vector[3], lam: Scalar, eta: Scalar) -> Scalar:

    def step(w):
        return w - eta * (X.T @ (X @ w - y) + lam * w)

    w = inweave.iterate(step, inweave.zeros(3), 7)
    return u.T @ w
"""


class TestCompiledNetworks:
    @pytest.mark.parametrize("target", TARGETS)
    @pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
    def test_what_is_read_back_computes_the_same(self, case, target):
        """In every mode; compared by running both, beside the proof that `decompile` asks for."""
        inputs = case.inputs()
        for mode in MODES:
            network = network_of(case, target, mode)
            program = program_of(inweave.decompile(network))
            assert difference(program(**inputs), network(**inputs)) < 1e-9

    @pytest.mark.parametrize("case", CASES[::3], ids=lambda case: case.name)
    def test_the_source_compiles_to_a_network_of_the_same_program(self, case):
        again = inweave.compile(program_of(inweave.decompile(network_of(case))))
        inweave.verify(case.program, again, **case.sizes)

    def test_a_program_comes_back_as_one_would_write_it(self):
        for target in TARGETS:
            network = inweave.compile(ridge, target=target, n=5, d=3, steps=7, optimize="faithful")
            assert inweave.decompile(network) == RIDGE

    def test_a_value_that_stands_both_ways_round_is_computed_once(self):
        @inweave.program
        def cube(A: Matrix[2, 2], B: Matrix[2, 2]):
            P = inweave.relu(A @ B @ A)
            return P @ P @ P

        network = inweave.compile(cube, verify=False)
        assert sum(len(layer.applied) for layer in network.layers[1:2]) == 2
        source = inweave.decompile(network)
        assert "relu = inweave.relu(A @ B @ A)\n    return relu @ relu @ relu" in source

    def test_a_file_is_enough(self, tmp_path):
        network = inweave.compile(ridge, n=5, d=3, steps=7, optimize="faithful")
        network.save(tmp_path / "ridge.inweave")
        assert inweave.decompile(inweave.load(tmp_path / "ridge.inweave")) == RIDGE

    @pytest.mark.filterwarnings("ignore:program")
    @settings(max_examples=15)
    @given(recipe=programs.recipes())
    def test_random_programs_come_back(self, recipe):
        for number, target in enumerate(TARGETS):
            mode = MODES[(len(recipe.statements) + number) % len(MODES)]
            try:
                network = inweave.compile(
                    recipe.program(), target=target, optimize=mode, verify=False
                )
            except inweave.InweaveError:
                continue
            inweave.decompile(network)

    @pytest.mark.filterwarnings("ignore:program")
    @pytest.mark.parametrize("number", range(len(gallery.entries())))
    def test_the_gallery_comes_back(self, number):
        entry = gallery.entries()[number]
        target = entry.targets[number % len(entry.targets)]
        network = entry.compile(target=target, optimize=MODES[number % 3], verify=False)
        source = inweave.decompile(network)
        loops = [module for module in network.modules if module.repeat > 1]
        assert len(loops) <= source.count("inweave.iterate(") + source.count("inweave.scan(")

    def test_a_step_of_newtons_has_as_many_heads_as_it_had(self):
        @inweave.program
        def inverse(x: Scalar):
            return inweave.reciprocal(1 + x, domain=(1.0, 100.0), error=1e-9)

        network = inweave.compile(inverse, verify=False)
        source = inweave.decompile(network)
        assert "inweave.hold(2 * reciprocal - (x + 1) * reciprocal * reciprocal)" in source
        assert inweave.compile(program_of(source), verify=False).heads == network.heads

    def test_numpy_does_not_round_thirds(self):
        @inweave.program
        def thirds(X: Matrix[2, 2]):
            mixed = inweave.constant(np.array([[1, Fraction(1, 3)], [0, 1]], dtype=object))
            return np.eye(3, 2, -1) @ X / 3 + np.eye(3, 2, -1) @ X @ X @ X, mixed @ X

        source = inweave.decompile(inweave.compile(thirds, optimize="faithful", verify=False))
        assert "Fraction(1, 3) * (np.eye(3, 2, -1) @ X)" in source
        assert "[[1, Fraction(1, 3)], [0, 1]]" in source

    def test_numbers_side_by_side_are_not_rounded(self):
        network = gallery.get("chebyshev").compile(
            optimize="depth", n=4, d=2, steps=4, verify=False
        )
        assert "0.8596614332076131 * (0.019801980198019802 * " in inweave.decompile(network)

    def test_the_paper_comes_back(self):
        """Its prompts hold √η X; no program does."""
        for module in TARGETS:
            assert "w0" in inweave.decompile(paper.ridge_lsa(4, 3, 5, module))
        network = paper.ridge_elsa(4, 3, 5)
        for source in map(inweave.decompile, (network, disguise(network, 1.0, 1))):
            assert source.count("inweave.iterate(") == 1
            assert "sqrt" not in source


class TestDisguisedNetworks:
    @pytest.mark.parametrize("dial", [0.5, 1.0])
    @pytest.mark.parametrize("name", ["slices", "ridge_gd", "heavy_ball", "newton_schulz"])
    def test_a_disguise_hides_nothing_from_its_embedding(self, name, dial):
        case = NAMES[name]
        network, _ = baited(network_of(case), Fraction(1), 3)
        hidden = disguise(network, dial, 1)
        inputs = case.inputs()
        program = program_of(inweave.decompile(hidden))
        assert difference(program(**inputs), hidden(**inputs)) < 1e-9

    def test_a_long_loop_with_functions_is_proved_one_step_at_a_time(self):
        """Decoys change from step to step, and what the loop is said to carry stays that."""
        entry = gallery.get("lasso_fista")
        hidden = disguise(entry.compile(n=4, d=2, steps=40, verify=False), 1.0, 1)
        source = inweave.decompile(hidden)
        assert "def step(wt, zt, momentum):" in source
        assert "np.eye(40, 40, -39) + np.eye(40, 40, 1)" in source
        assert "Fraction" not in source

    @pytest.mark.parametrize("case", [*cases()][4::211], ids=str)
    def test_some_of_the_gallery(self, case):
        """The others are for `python -m tests.disguises`."""
        attempt(case)

    def test_heads_are_named_as_they_are_stored(self):
        network = inweave.compile(ridge, n=5, d=3, steps=7, optimize="faithful")
        hidden = Disguise.make(network, 1.0, 2)
        named = {at for line in decompiler.lines(hidden.network) for at in line.heads}
        parts = [{*map(tuple, parts)} for parts in hidden.heads.values()]
        assert all(some & named for some in parts)
        assert {*map(tuple, hidden.unused)}.isdisjoint(named)

    def test_what_cancels_is_not_in_the_source(self):
        network = inweave.compile(ridge, n=5, d=3, steps=7, optimize="faithful")
        source = inweave.decompile(disguise(network, 1.0, 2))
        assert len(source.splitlines()) == len(RIDGE.splitlines())
        assert "0.5" not in source


class TestLines:
    """Which heads compute which line."""

    def heads(self, network):
        return {
            line.text.strip(): [tuple(at) for at in line.heads]
            for line in decompiler.lines(network)
            if line.heads
        }

    def test_the_heads_of_a_loop_and_of_an_answer(self):
        network = inweave.compile(ridge, n=5, d=3, steps=7, optimize="faithful")
        assert self.heads(network) == {
            "return w - eta * (X.T @ (X @ w - y) + lam * w)": [(0, 0), (0, 1), (0, 2), (1, 0)],
            "w = inweave.iterate(step, inweave.zeros(3), 7)": [(1, 1)],  # clears X·w
            "return u.T @ w": [(2, 0)],
        }

    def test_a_soft_threshold_is_a_line_of_its_own(self):
        entry = gallery.get("lasso_fista")
        found = self.heads(entry.compile(optimize="speed", n=4, d=2, steps=4, verify=False))
        soft = found["soft = inweave.soft_threshold(z + ηXty - XtXη.T @ z, threshold)"]
        back = found["return soft, momentum[0] * (soft - w) + soft, momentum2"]
        assert (4, None) in soft
        assert not {*soft} & {*back}

    def test_a_threshold_that_is_read_otherwise_is_no_soft_one(self):
        @inweave.program
        def mixed(x: Vector[2], t: Scalar):
            return inweave.soft_threshold(x, t) + Pointwise(THRESHOLD)(t) * x

        @inweave.program
        def of_either_sign(x: Vector[2], t: Scalar):
            return inweave.relu(x - t) - inweave.relu(-x - t)

        for program in (mixed, of_either_sign):
            source = inweave.decompile(inweave.compile(program, verify=False))
            assert "soft_threshold" not in source

    def test_collapsed_powers_have_a_line_and_heads_each(self):
        network = inweave.compile(ridge, n=5, d=3, steps=14, optimize="depth")
        found = self.heads(network)
        assert found["A2 = A @ A"] == [(1, 0)]
        assert found["A3 = A @ A.T @ A"] == [(1, 1), (1, 2)]
        assert {layer for heads in found.values() for layer, _ in heads} == {0, 1, 2, 3}

    def test_a_function_belongs_to_its_layer_and_a_shift_to_the_scan(self):
        @inweave.program
        def recurrent(X: Matrix["n", "d"]):
            step = lambda h, x: (inweave.relu(h + x), None)  # noqa: E731
            return inweave.scan(step, inweave.zeros(X.shape[1]), X)[0]

        network = inweave.compile(recurrent, n=4, d=2, verify=False)
        found = self.heads(network)
        scan = next(text for text in found if "inweave.scan(" in text)
        assert [at for at in found[scan] if at[1] is not None]
        assert any(head is None for text, at in found.items() if text != scan for _, head in at)

    @pytest.mark.parametrize("case", CASES[1::3], ids=lambda case: case.name)
    def test_a_head_in_no_line_is_a_head_that_nothing_needs(self, case):
        network, inputs = network_of(case, "lsa", "depth"), case.inputs()
        named = {at for line in decompiler.lines(network) for at in line.heads}
        numbers = iter(range(len(network.layers)))

        def needed(layer, _):
            at = next(numbers)
            if not isinstance(layer, inweave.AttentionLayer):
                assert (at, None) in named
                return layer
            return replace(layer, heads=tuple(
                head for k, head in enumerate(layer.heads) if (at, k) in named
            ))  # fmt: skip

        modules = tuple(module.map(needed) for module in network.modules)
        rest = replace(network, modules=modules)
        assert difference(rest(**inputs), network(**inputs)) < 1e-9

    def test_decoys_are_in_no_line(self):
        network = network_of(NAMES["ridge_gd"])
        more, _ = baited(network, Fraction(1), 3)
        assert more.heads > network.heads
        named = {at for line in decompiler.lines(more) for at in line.heads}
        assert len(named) == network.heads


def _changed(network, layer, head, projection, change, number):
    """A network in which one piece of a projection is another one."""
    numbers = iter(range(len(network.layers)))

    def changed(old, _):
        if next(numbers) != layer:
            return old
        heads = list(old.heads)
        parts = list(heads[head].projections)
        pieces = list(parts[projection].pieces)
        k = number % len(pieces)
        piece = pieces.pop(k)
        room = network.width - piece.stop
        if change == "scaled":
            pieces.insert(k, replace(piece, coefficient=piece.coefficient * Fraction(number, 3)))
        elif change == "elsewhere" and room:
            pieces.insert(k, replace(piece, at=piece.at + 1 + number % room))
        parts[projection] = Projection(tuple(pieces))
        heads[head] = inweave.Head(*parts)
        return replace(old, heads=tuple(heads))

    return replace(network, modules=tuple(module.map(changed) for module in network.modules))


class TestLoops:
    def test_a_module_that_does_not_say_what_it_carries(self):
        network = inweave.compile(ridge, n=5, d=3, steps=4, optimize="faithful")
        modules = tuple(replace(module, carries=()) for module in network.modules)
        source = inweave.decompile(replace(network, modules=modules))
        assert "inweave.iterate(step, inweave.zeros(3), 4)" in source

    def test_what_a_loop_changes_besides_is_carried_if_it_is_read(self):
        @inweave.program
        def twice(x: Vector[2]):
            return inweave.iterate(lambda x, z: (x + 1, z + x), (x, x), 3)

        network = inweave.compile(twice, optimize="faithful", verify=False)
        (module,) = network.modules
        silent = replace(network, modules=(replace(module, carries=module.carries[:1]),))
        assert inweave.decompile(silent).count("z") == inweave.decompile(network).count("z") > 0

    def test_values_that_nothing_stores_are_not_carried(self):
        @inweave.program
        def idle(x: Vector[2]):
            return inweave.iterate(lambda x, z: (x + 1, z + x), (x, x), 3)[0]

        network = inweave.compile(idle, optimize="faithful", verify=False)
        assert "def step(x2):" in inweave.decompile(network)

    @pytest.mark.parametrize("target", TARGETS)
    def test_a_carried_selector_is_a_scan(self, target):
        @inweave.program
        def least_mean_squares(X: Matrix["n", "d"], y: Vector["n"], eta: Scalar):
            def step(w, x, y):
                error = y - x.T @ w
                return w + eta * error * x, error

            return inweave.scan(step, inweave.zeros(X.shape[1]), X, y, reverse=True)

        source = inweave.decompile(inweave.compile(least_mean_squares, target=target, n=5, d=2))
        assert "def step(w, x, y_row):" in source
        assert "inweave.scan(step, inweave.zeros(2), X, y, reverse=True)" in source

    def test_a_scan_carries_and_says_several_values(self):
        @inweave.program
        def several(X: Matrix["n", 2]):
            def step(carried, x, s):
                a, b = carried
                return (a + s * b, b + x), (a, x + b)

            carried, said = inweave.scan(step, (inweave.zeros(2),) * 2, X, [1.0, 2.0, 4.0])
            return *carried, *said

        network = inweave.compile(several, n=3, optimize="faithful")
        source = inweave.decompile(network)
        assert source.count("inweave.scan(") == 1
        assert "iterate" not in source

    def test_a_selector_that_is_used_otherwise_stays_a_loop(self):
        @inweave.program
        def counting(x: Vector[3]):
            unit, shift = np.eye(3)[:, 0], np.eye(3, 3, -1)
            moved = inweave.iterate(lambda w, e: (w + e, shift @ e), (x, inweave.constant(unit)), 3)
            return moved[0]

        source = inweave.decompile(inweave.compile(counting, optimize="faithful"))
        assert "inweave.iterate(" in source
        assert "scan" not in source


class TestRefusals:
    def test_what_is_not_proved_is_not_handed_out(self, monkeypatch):
        network = inweave.compile(ridge, n=5, d=3, steps=7, optimize="faithful")
        wrong = RIDGE.replace("lam * w", "w").splitlines()
        lines = tuple(map(decompiler.Line, wrong))
        monkeypatch.setattr(decompiler, "source", lambda *_, **__: lines)
        with pytest.raises(DecompileError, match="not proved"):
            inweave.decompile(network)

    @settings(max_examples=25)
    @given(data=st.data())
    def test_changed_weights_are_refused_or_read_as_they_are(self, data):
        """Whatever becomes of a network, no source is that of another one."""
        case = NAMES[data.draw(st.sampled_from(["ridge_gd", "heavy_ball", "slices", "nested"]))]
        network = network_of(case, data.draw(st.sampled_from(TARGETS)))
        at = data.draw(st.sampled_from([
            (i, h, w) for i, layer in enumerate(network.layers)
            for h, head in enumerate(layer.heads)
            for w in range(3) if head.projections[w].pieces
        ]))  # fmt: skip
        change = data.draw(st.sampled_from(["scaled", "gone", "elsewhere"]))
        wrong = _changed(network, *at, change, data.draw(st.integers(0, 9)))
        inputs = case.inputs()
        found = read(network.plain)
        for reader in (read, lambda *_: found):  # the second guesses that nothing was changed
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(decompiler, "read", reader)
                try:
                    program = program_of(inweave.decompile(wrong))
                except DecompileError:
                    continue
            assert difference(program(**inputs), wrong(check=False, **inputs)) < 1e-9

    def test_trained_weights_lack_an_embedding(self):
        network, copy = self.trained()
        with pytest.raises(
            DecompileError, match=r"module 0, layer 0 .*inweave\.lab\.algorithm"
        ) as e:
            inweave.decompile(replace(network, modules=(copy(),)))
        assert "alike" not in str(e.value)

    def test_copies_that_cannot_be_read_are_told_apart(self):
        network, copy = self.trained()
        first, other = copy(), copy()
        second = replace(first.layers[0].heads[0], key=other.layers[0].heads[0].key)
        second = inweave.Module((inweave.AttentionLayer((second,)),))
        with pytest.raises(
            DecompileError,
            match=r"lacks the embedding.*; module 0 and the 3 after it are built alike.*: unlike "
            "in module 0 are the key of head 0 in layer 0 of module 1, the query and key and value "
            "of head 0 in layer 0 of module 3$",
        ):
            inweave.decompile(replace(network, modules=(first, second, first, other)))

    def trained(self):
        """A network, and what makes modules of dense weights for it."""
        network = network_of(NAMES["ridge_gd"])
        rng, shape = np.random.default_rng(0), (network.width, network.width)

        def copy():
            head = inweave.Head(*(DenseProjection(rng.normal(size=shape)) for _ in range(3)))
            return inweave.Module((inweave.AttentionLayer((head,)),))

        return network, copy

    def test_copies_of_a_step_that_differ_are_no_loop(self):
        network = inweave.compile(ridge, n=5, d=3, steps=2, optimize="faithful")
        loop, last = network.modules
        step = replace(loop, repeat=1, carries=())
        head = step.body[1].heads[0]
        (piece,) = head.query.pieces
        head = replace(head, query=replace(head.query, pieces=(replace(piece, coefficient=2),)))
        other = replace(step.body[1], heads=(head, *step.body[1].heads[1:]))
        other = replace(step, body=(step.body[0], other))
        source = inweave.decompile(replace(network, modules=(step, other, last)))
        assert "iterate" not in source
        assert "2 * eta" in source

    @pytest.mark.parametrize("name", ["ridge_gd", "heavy_ball", "newton_schulz"])
    def test_dense_weights_that_only_move_blocks_are_read(self, name):
        """As they come back from torch."""
        pytest.importorskip("torch")
        from inweave import nn

        network = network_of(NAMES[name])
        dense = nn.from_network(network).to_network()
        assert "inweave.iterate(" in inweave.decompile(dense)

    def test_dense_weights_need_their_embedding(self):
        network = inweave.compile(ridge, n=5, d=3, steps=7, optimize="faithful")
        bare = replace(disguise(network, 1.0, 2), embedding=None)
        with pytest.raises(DecompileError, match=r"module 0, layer 0 .* lacks the embedding"):
            inweave.decompile(bare)

    def test_a_dense_pointwise_layer_is_no_function_of_a_block(self):
        network = network_of(CASES[0])
        layout = network.layout
        ones = np.ones((1, layout.tokens, layout.width))
        layer = PointwiseLayer(ones, ones, 0 * ones, 0 * ones)
        modules = (*network.modules, inweave.Module((layer,)))
        with pytest.raises(DecompileError, match="BlockPointwiseLayer"):
            inweave.decompile(replace(network, modules=modules))

    @pytest.mark.parametrize(
        "name",
        ["a b", "x=print('run')", "lambda", "A: print('run')", "inweave", "\ufb01", "X\u1d40"],
    )
    def test_names_of_inputs_are_no_code(self, name, capsys):
        """A file may hold any name, and a source is run to be proved."""
        network = network_of(NAMES["transpose"])
        inputs = (replace(network.inputs[0], name=name),)
        fills = tuple(f if f.source is None else replace(f, source=name) for f in network.fills)
        with pytest.raises(DecompileError, match=r"no name that an argument|no argument of a"):
            inweave.decompile(replace(network, inputs=inputs, fills=fills))
        assert not capsys.readouterr().out

    def test_a_path_is_no_network(self):
        with pytest.raises(InputError, match="got str; inweave"):
            inweave.decompile("ridge.inweave")

    def test_an_input_may_hide_what_the_source_imports(self):
        network = network_of(NAMES["stacks"])
        inputs = tuple(
            replace(spec, name="np") if spec.name == "A" else spec for spec in network.inputs
        )
        fills = tuple(replace(f, source="np") if f.source == "A" else f for f in network.fills)
        with pytest.raises(DecompileError, match="no program"):
            inweave.decompile(replace(network, inputs=inputs, fills=fills))

    def test_a_lone_root_is_refused(self):
        network = paper.ridge_lsa(4, 3, 5)
        block = next(fill.place for fill in network.fills if fill.scale and fill.source == "X")
        answer = inweave.Output("", block)
        with pytest.raises(DecompileError, match="square root of eta"):
            inweave.decompile(replace(network, outputs=(answer,)))


def test_numbers_are_read_back_exactly():
    for number in (Fraction(1, 3), Fraction(1, 10), Fraction(0.1), Fraction(10**30), Fraction(-7)):
        assert Fraction(eval(number_text(number), {"Fraction": Fraction})) == number


def test_reading_ends_when_its_time_is_over_and_says_where():
    net = gallery.get("ridge_gd").compile(n=3, d=2, steps=2, verify=False)
    with pytest.raises(DecompileError, match=r"reading is over at module 0.*`seconds` allows more"):
        inweave.decompile(net, seconds=-1.0)


def test_what_is_not_proved_in_time_says_how_decompile_gets_more(monkeypatch):
    net = gallery.get("ridge_gd").compile(n=3, d=2, steps=2, verify=False)
    with pytest.raises(VerificationError, match=r"call net\.verify\(seconds=") as short:
        net.verify(seed=0, seconds=0.0)

    def in_no_time(*_: object, **__: object) -> None:
        raise short.value

    monkeypatch.setattr(decompiler, "verify", in_no_time)
    with pytest.raises(DecompileError, match=r"call inweave\.decompile\(net, seconds=\d") as error:
        inweave.decompile(net)
    assert "net.verify" not in str(error.value)
