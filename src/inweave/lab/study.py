"""Studies: comparisons of arms that a referee can follow, one method for all of them.

An **arm** is one way to train: a task, a prompt form, a model, so many steps. The method:

- Every arm's step size, scale of the start, ε and optimizer are searched, over the same grid with
  the same seeds and steps for every arm, on problems and seeds that nothing is reported on. The try
  with the best `score` is taken, declared here: the mean over seeds of log₁₀ of the capped loss.
- The arm is then trained once for every one of 20 seeds, side by side as one ensemble. Seeds are
  paired across arms: the same problems at every step, the same starts where shapes allow (`start`).
- Everything is in float64. A problem on which a network overflows is left out of its gradient, and
  counted (`inweave.lab.trainer`).
- A seed's loss is the mean over evaluation problems of the squared error, none counted for more
  than `CAP` times the loss of the zero predictor, in units of that loss; log₁₀ of it is what
  intervals are over (`inweave.lab.inference`). Beside it stand the median over problems and the
  share of failures, problems that are missed by the cap or more. Where problems have noise and the
  posterior mean is known, predictions are held `against` that: it is what the squared error
  exceeds Bayes' by, on average, without the noise that no network can predict.

One file per arm holds its config, every try, every seed and the training curve. An arm whose file
is there is not trained again, so a study that was stopped goes on, and several processes can share
one (`part`).
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from inweave.errors import InputError, InweaveError
from inweave.lab.baselines import Predictor
from inweave.lab.checkpoint import checksum, write_json
from inweave.lab.checks import is_file_name
from inweave.lab.ensemble import Ensemble, Try, assemble, tries
from inweave.lab.forms import Form
from inweave.lab.progress import LOGGER
from inweave.lab.results import stored
from inweave.lab.tasks import Batch, Target, Task, draw, stream
from inweave.lab.tensors import Tensor, nn, torch
from inweave.lab.trainer import Settings, Stage, train_ensemble
from inweave.nn import Architecture, AttentionNetwork

CAP = 10.0  # no squared error counts for more, in units of the zero predictor's loss
SEEDS = 20
POINTS = 32  # of a training curve
SEARCHING = 100_000  # seeds of a search begin here, apart from those that are reported

GRID = tuple(
    one
    for how in ({"epsilon": 1e-16}, {"epsilon": 1e-8}, {"optimizer": "muon"})
    for one in tries(1.5e-3, 5e-3, 1.5e-2, scales=(0.15, 0.4), **how)
)
RATES = (3e-3, 1e-2, 3e-2)
# for studies of many arms: sums over sixteen examples ask for smaller starts
SMALL_GRID = (
    *tries(*RATES, scales=(0.03, 0.1, 0.3), epsilon=1e-16),
    *tries(*RATES, scales=(0.03, 0.1, 0.3), optimizer="muon"),
)
QUICK_GRID = tries(1e-2, 3e-2, scales=(0.1,), epsilon=1e-16)


@dataclass(frozen=True)
class Arm:
    """One way to train, and what is asked of it.

    `factors` say what the arm differs by, for the analysis; `model` describes what `make(seed)`
    makes. `stages(model)` are there if the parameters are not simply trained as that model's to
    give `target`. Losses are of predictions held `against` those of a predictor, or else against
    the target; a search may be `scored` against another. Arms with the same `search` share one. A
    `grid` of its own has as many tries as the study's.
    """

    name: str
    factors: Mapping[str, Any]
    task: Task
    form: Form
    model: Mapping[str, Any]
    make: Callable[[int], nn.Module]
    steps: int
    target: Target = "clean"
    against: Predictor | None = None
    scored: Predictor | None = None
    stages: Callable[[nn.Module], Sequence[Stage]] | None = None
    search: str = ""
    grid: tuple[Try, ...] = ()

    def __post_init__(self) -> None:
        if not is_file_name(self.name):
            raise InputError(f"an arm's name is a file's, got {self.name!r}")

    @property
    def searched_as(self) -> str:
        return self.search or self.name

    def config(self) -> dict[str, Any]:
        """All that decides what is trained, but for the study's own settings."""
        f = self.form
        prompt = {"name": f.name, "eta": f.eta, "lam": f.lam, "constants": f.constants}
        return {
            "factors": dict(self.factors), "task": asdict(self.task), "form": prompt,
            "model": dict(self.model), "steps": self.steps, "target": self.target,
            "against": "Bayes" if self.against else self.target,
        }  # fmt: skip


@dataclass(frozen=True)
class Study:
    """Arms that are compared, and what they have in common.

    `search_steps` and `search_seeds` are the budget of every search. `measure` adds numbers per
    seed to an arm's result. `keep_weights` stores those of the seed whose loss is the median. With
    `apart` every seed is evaluated on problems of its own.
    """

    name: str
    arms: tuple[Arm, ...]
    batch: int
    search_steps: int
    seeds: tuple[int, ...] = tuple(range(SEEDS))
    search_seeds: int = 3
    grid: tuple[Try, ...] = GRID
    problems: int = 1 << 14
    measure: Callable[[Arm, Ensemble, Batch], Mapping[str, Any]] | None = None
    keep_weights: bool = False
    warmup: float = 0.05  # of the steps
    apart: bool = False

    def __post_init__(self) -> None:
        names = [arm.name for arm in self.arms]
        if len(set(names)) < len(names):
            raise InputError(f"study {self.name}: two arms have one name")
        if any(len(self.tries(arm)) != len(self.grid) for arm in self.arms):
            raise InputError(f"study {self.name}: an arm has another number of tries")

    def scaled(self, share: float) -> Study:
        """The same with that share of all steps: what does not fit is cut evenly."""
        arms = tuple(replace(arm, steps=_share(arm.steps, share)) for arm in self.arms)
        return replace(self, arms=arms, search_steps=_share(self.search_steps, share))

    def config(self, arm: Arm) -> dict[str, Any]:
        """All that decides an arm's result."""
        return arm.config() | {
            "batch": self.batch, "seeds": list(self.seeds), "problems": self.problems,
            "search": {"as": arm.searched_as, "steps": self.search_steps,
                       "seeds": self.search_seeds,
                       "grid": [asdict(one) for one in self.tries(arm)]},
            "warmup": self.warmup, "cap": CAP, **({"apart": True} if self.apart else {}),
        }  # fmt: skip

    def tries(self, arm: Arm) -> tuple[Try, ...]:
        """Those of an arm's search."""
        return arm.grid or self.grid

    def settings(self, arm: Arm, steps: int, grid: Sequence[Try], unit: float) -> Settings:
        return Settings(
            steps, self.batch, tuple(grid), warmup=max(1, int(self.warmup * steps)),
            target=arm.target, log_every=max(1, steps // POINTS), cap=CAP * unit,
        )  # fmt: skip


def _share(steps: int, share: float) -> int:
    return max(1, round(steps * share))


def seeds(first: int, quick: bool = False) -> tuple[int, ...]:
    """Those that an arm is trained for: 20, or 5 in a quick form."""
    return tuple(range(first, first + (5 if quick else SEEDS)))


# -- starts ---------------------------------------------------------------------------------------
def start(form: Form, reader: bool = False, **given: Any) -> Callable[[int], AttentionNetwork]:
    """`make(seed)` for a network of random weights and biases, normal of variance 1/features.

    With `reader` one more layer follows, in a module of its own.

    A parameter depends on the seed and on its name alone, so that networks which differ in one
    thing (biases, say) start from the same weights everywhere else.
    """

    def make(seed: int) -> AttentionNetwork:
        architecture = Architecture(**given)
        model = form.build(architecture, stream(seed, "unused"), torch.float64)
        if reader:
            last = replace(architecture, depth=1, blocks=1)
            model.stack.extend(form.build(last, stream(seed, "unused"), torch.float64).stack)
        with torch.no_grad():
            for name, p in model.named_parameters():
                drawn = torch.randn(p.shape, generator=stream(seed, "start", name), dtype=p.dtype)
                p.copy_(drawn / p.shape[-1] ** 0.5)
        return model

    return make


# -- running --------------------------------------------------------------------------------------
def run(
    study: Study,
    folder: Path,
    device: str = "cpu",
    within: float = math.inf,
    part: tuple[int, int] = (1, 1),
) -> list[str]:
    """Train the arms that have no result yet; the names of those that still have none.

    No arm is begun that would, by the pace of its search, not end within so many seconds. Process
    k of n (`part`) does every n-th search and the arms that share it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    mine = [arm for arm in _part(study.arms, part) if result(study, arm, folder) is None]
    missing = []
    for arm in mine:
        left = within - (time.monotonic() - began)
        try:
            done = left > 0 and _run_arm(study, arm, folder, device, left)
        except RuntimeError:  # a device that others use has no memory left: another time
            LOGGER.exception("%s failed", arm.name)
            done = False
        if not done:
            missing.append(arm.name)
        if device.startswith("cuda"):
            torch.cuda.empty_cache()
    return missing


def _part(arms: Sequence[Arm], part: tuple[int, int]) -> list[Arm]:
    k, n = part
    if not 1 <= k <= n:
        raise InputError(f"a part is k/n with k from 1 to n, got {k}/{n}")
    keys = list(dict.fromkeys(arm.searched_as for arm in arms))
    return [arm for arm in arms if keys.index(arm.searched_as) % n == k - 1]


def _run_arm(study: Study, arm: Arm, folder: Path, device: str, left: float) -> bool:
    began = time.monotonic()
    searched = search(study, arm, folder, device)
    spent = time.monotonic() - began
    members = len(study.seeds) / (study.search_seeds * len(study.grid))  # of those of the search
    if spent + searched["seconds_per_step"] * min(1.0, members) * arm.steps > left:
        LOGGER.info("%s: does not fit into the %.0f s left", arm.name, left - spent)
        return False
    chosen = Try(**searched["chosen"])
    batch = problems(study, arm, "eval", device)
    unit = zero_loss(batch)
    untrained = assemble(arm.make, study.seeds, (chosen,))
    untrained.rows = untrained.rows.to(device)
    before = summary(_errors(study, arm, untrained, batch), unit)
    ensemble, pace = _trained(study, arm, arm.steps, study.seeds, (chosen,), unit, device)
    found: dict[str, Any] = {
        "arm": arm.name,
        "study": study.name,
        "digest": _digest(study.config(arm)),
        "config": study.config(arm),
        "search": searched,
        "chosen": searched["chosen"],
        "unit": unit,
        **summary(_errors(study, arm, ensemble, batch), unit),
        "before": before,
        "dropped": ensemble.dropped,
        "skipped": ensemble.skipped,
        "parameters": ensemble.rows.shape[1],
        "curve": _curve(ensemble, unit),
        "seconds_per_step": pace,
        "seconds": time.monotonic() - began,
        "device": torch.cuda.get_device_name() if device.startswith("cuda") else "CPU",
        "torch": torch.__version__,
    }  # fmt: skip
    if study.measure is not None:
        found["measures"] = dict(study.measure(arm, ensemble, batch))
    if study.keep_weights:
        _keep_weights(folder / f"{arm.name}.npz", ensemble, found["log_loss"])
    write_json(folder / f"{arm.name}.json", found)
    middle = statistics.median(found["log_loss"])
    LOGGER.info("%s: %.3g of the zero predictor's loss, %s", arm.name, 10**middle, chosen)
    return True


def search(study: Study, arm: Arm, folder: Path, device: str) -> dict[str, Any]:
    """What the search of an arm found, from its file where arms share it."""
    path = folder / f"search.{arm.searched_as}.json"
    wanted = _digest(study.config(arm)["search"] | {"batch": study.batch})
    known = _stored(path)
    if known is not None and known["digest"] == wanted:
        return known
    scored = arm if arm.scored is None else replace(arm, against=arm.scored)
    tuning = problems(study, scored, "tune", device)
    unit, seeds = zero_loss(tuning), range(SEARCHING, SEARCHING + study.search_seeds)
    one = study.search_steps
    grid = study.tries(arm)
    ensemble, pace = _trained(study, arm, one, tuple(seeds), grid, unit, device)
    found = summary(ensemble.errors(arm.form, tuning), unit)["log_loss"]
    by_try = np.array(found).reshape(len(seeds), len(grid)).T
    tried = [asdict(it) | {"log_loss": x.tolist(), "score": float(x.mean())}
             for it, x in zip(grid, by_try, strict=True)]  # fmt: skip
    best = min(range(len(tried)), key=lambda i: tried[i]["score"])
    done = {"digest": wanted, "steps": one, "seeds": list(seeds), "tries": tried,
            "chosen": asdict(grid[best]), "seconds_per_step": pace}  # fmt: skip
    write_json(path, done)
    return done


def _trained(
    study: Study, arm: Arm, steps: int, seeds: Sequence[int], grid: Sequence[Try], unit: float,
    device: str,
) -> tuple[Ensemble, float]:  # fmt: skip
    """The trained ensemble, and the seconds that a step took, once it was recorded."""
    ensemble = assemble(arm.make, seeds, grid)
    stages = () if arm.stages is None else arm.stages(ensemble.template)
    settings = study.settings(arm, steps, grid, unit)
    train_ensemble(
        ensemble, arm.task, arm.form, settings, device,
        watch=lambda _: time.monotonic(), stages=stages,
    )  # fmt: skip
    (first, since), (last, until) = ensemble.snapshots[0], ensemble.snapshots[-1]
    return ensemble, (until - since) / max(1, last - first)


def _errors(study: Study, arm: Arm, ensemble: Ensemble, batch: Batch) -> Tensor:
    """Squared errors (seeds, problems), on all problems or on those of each seed's own."""
    found = ensemble.errors(arm.form, batch)
    if not study.apart:
        return found
    blocks = found.reshape(len(found), len(found), -1)
    return blocks[range(len(found)), range(len(found))]


def problems(study: Study, arm: Arm, name: str, device: str) -> Batch:
    """Those of a stream, with what predictions are held against in place of the clean target."""
    generator = stream(study.seeds[0], name, device=device)
    size = study.problems * (len(study.seeds) if study.apart and name == "eval" else 1)
    batch = draw(arm.task, size, generator, torch.float64)
    held = batch.target(arm.target) if arm.against is None else arm.against(batch)
    return replace(batch, clean=held)


def zero_loss(batch: Batch) -> float:
    """The loss of the zero predictor, the unit of all others."""
    return float(batch.clean.square().mean())


def summary(errors: Tensor, unit: float) -> dict[str, list[float]]:
    """Each member's loss three ways, from its squared errors, in units of the zero predictor's."""
    relative = torch.nan_to_num(errors, nan=math.inf) / unit
    loss = relative.clamp(max=CAP).mean(1).clamp(min=1e-300)
    return {
        "log_loss": loss.log10().tolist(),
        "median": relative.median(1).values.tolist(),
        "failed": (relative >= CAP).to(torch.float64).mean(1).tolist(),
    }


def _keep_weights(path: Path, ensemble: Ensemble, log_loss: Sequence[float]) -> None:
    """The weights of the seed in the middle, for what is asked of them later."""
    middle = int(np.argsort(log_loss)[len(log_loss) // 2])
    kept: dict[str, Any] = {name: w[middle].cpu().numpy() for name, w in ensemble.weights.items()}
    np.savez_compressed(path, seed=ensemble.seeds[middle], **kept)


# -- stored results -------------------------------------------------------------------------------
def result(study: Study, arm: Arm, folder: Path) -> dict[str, Any] | None:
    """The stored result of an arm, if it was trained with these very settings."""
    found = _stored(folder / f"{arm.name}.json")
    return found if found and found["digest"] == _digest(study.config(arm)) else None


@dataclass
class Results:
    """What is stored of a study, by arm."""

    study: Study
    by_arm: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def read(cls, study: Study, folder: Path) -> Results:
        every = {arm.name: result(study, arm, folder) for arm in study.arms}
        return cls(study, {name: found for name, found in every.items() if found})

    @property
    def missing(self) -> list[str]:
        return [arm.name for arm in self.study.arms if arm.name not in self.by_arm]

    def where(self, **factors: Any) -> Iterator[tuple[Arm, dict[str, Any]]]:
        """The arms that have these factors, with their results."""
        for arm in self.study.arms:
            same = all(arm.factors.get(name) == level for name, level in factors.items())
            if same and arm.name in self.by_arm:
                yield arm, self.by_arm[arm.name]

    def one(self, **factors: Any) -> dict[str, Any] | None:
        """The result of the one arm that has these factors."""
        found = [each for _, each in self.where(**factors)]
        if len(found) > 1:
            raise InputError(f"study {self.study.name}: several arms have {factors}")
        return found[0] if found else None


def _stored(path: Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    try:
        found = stored(path)
    except InweaveError:  # written by a process that was killed, or something else: done again
        return None
    return found if isinstance(found, dict) and "digest" in found else None


def _curve(ensemble: Ensemble, unit: float) -> dict[str, Any]:
    """The steps, and the losses of all seeds at each, in four digits."""
    losses = [[float(f"{loss / unit:.4g}") for loss in each] for _, each in ensemble.curve]
    return {"step": [step for step, _ in ensemble.curve], "loss": losses}


def _digest(config: Any) -> str:
    """Of numbers in twelve digits: in the last ones machines differ."""
    return checksum(_rounded(config))[:16]


def _rounded(config: Any) -> Any:
    if isinstance(config, Mapping):
        return {name: _rounded(value) for name, value in config.items()}
    if isinstance(config, (list, tuple)):
        return [_rounded(value) for value in config]
    return float(f"{config:.12g}") if isinstance(config, float) else config
