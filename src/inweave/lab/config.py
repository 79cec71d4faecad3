"""Settings of a training run: typed, read from TOML, refused when misspelt.

    [task]                      any field of `Task`, or preset = "linear-uniform" and changes to it
    preset = "linear-uniform"

    [form]                      name, eta, lam
    name = "examples"

    [model]                     depth, blocks, heads, bias, activation, merged, tied, ...
    depth = 2
    tied = true

    [train]                     steps, batch, lr, ..., or preset = "plateau" and changes to it
    preset = "plateau"
    steps = 5000

These losses sit on a plateau before they fall: the gradient at small weights is of third order. So
the presets warm up, clip, and cut the step size only after the loss has left the plateau.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from inweave.errors import InputError
from inweave.exact.schema import Mismatch, Must, fingerprint, read, write
from inweave.files import regular
from inweave.lab.checks import all_finite, at_least, is_file_name, positive, refuse_unless
from inweave.lab.forms import Form, FormName, form
from inweave.lab.tasks import TASKS, Batch, Target, Task, draw, stream
from inweave.lab.tensors import torch
from inweave.nn import INITS, Architecture, AttentionNetwork

MOST_LAYERS = 10_000  # of one model: each is an object, which no size of a file would bound
RUN_NAME = Must("the name of a folder, without slashes or a leading dot", is_file_name)


@dataclass(frozen=True)
class FormConfig:
    """Which prompt form, with the constants that the paper's forms hold."""

    name: FormName = "examples"
    eta: float = 0.0
    lam: float = 0.0

    def __post_init__(self) -> None:
        all_finite(self)
        at_least(0, eta=self.eta, lam=self.lam)


@dataclass(frozen=True)
class ModelConfig(Architecture):
    """The architecture that `inweave.nn.build` makes; here without biases unless told."""

    bias: bool = False
    scale: float = 0.1

    def __post_init__(self) -> None:
        all_finite(self)
        at_least(1, depth=self.depth, blocks=self.blocks, heads=self.heads)
        at_least(0, mlp_units=self.mlp_units, queries=self.queries)
        layers = self.depth * self.blocks
        at_most = f"at most {MOST_LAYERS:,} layers"
        refuse_unless(layers <= MOST_LAYERS, "depth x blocks", at_most, layers)
        refuse_unless(self.init in INITS, "init", f"one of {', '.join(INITS)}", self.init)


@dataclass(frozen=True)
class TrainConfig:
    """How long, how fast and from which seed.

    `schedule`: `constant`, `cosine` down to 1 % of lr, or `plateau`: lr is multiplied by `factor`
    after `patience` logged losses without a new best, counted only once the loss has fallen below
    `fallen` times that of the zero predictor. `clip` bounds the gradient's norm (0: no bound).
    """

    steps: int = 2000
    batch: int = 2048
    lr: float = 3e-3
    beta1: float = 0.9
    beta2: float = 0.999
    weight_decay: float = 0.0
    warmup: int = 0
    clip: float = 0.0
    schedule: Literal["constant", "cosine", "plateau"] = "constant"
    patience: int = 10
    factor: float = 0.5
    fallen: float = 0.9
    target: Target = "clean"
    seed: int = 0
    log_every: int = 50
    checkpoint_every: int = 500
    eval_size: int = 20_000
    dtype: Literal["float32", "float64"] = "float32"

    def __post_init__(self) -> None:
        all_finite(self)
        at_least(1, steps=self.steps, batch=self.batch, log_every=self.log_every)
        at_least(1, checkpoint_every=self.checkpoint_every, eval_size=self.eval_size)
        at_least(1, patience=self.patience)
        at_least(0, weight_decay=self.weight_decay, warmup=self.warmup, clip=self.clip)
        positive(lr=self.lr, fallen=self.fallen)
        refuse_unless(0 < self.factor < 1, "factor", "above 0 and below 1", self.factor)
        for name, beta in (("beta1", self.beta1), ("beta2", self.beta2)):
            refuse_unless(0 <= beta < 1, name, "at least 0 and below 1", beta)
        if self.checkpoint_every % self.log_every:
            raise InputError(
                f"checkpoint_every = {self.checkpoint_every} must be a multiple of log_every = "
                f"{self.log_every}, so that a resumed run logs the same losses"
            )

    @property
    def torch_dtype(self) -> torch.dtype:
        return torch.float64 if self.dtype == "float64" else torch.float32


@dataclass(frozen=True)
class Config:
    """A whole run."""

    task: Task = field(default_factory=Task)
    form: FormConfig = field(default_factory=FormConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    name: Annotated[str, RUN_NAME] = "run"

    def __post_init__(self) -> None:
        refuse_unless(RUN_NAME.test(self.name), "name", RUN_NAME.be, self.name)

    def make_form(self) -> Form:
        return form(self.form.name, self.task.n, self.task.d, self.form.eta, self.form.lam)

    def make_model(self, device: torch.device | str = "cpu") -> AttentionNetwork:
        """The model at its start; the seed alone decides, on every device."""
        start = stream(self.train.seed, "init")
        return self.make_form().build(self.model, start, self.train.torch_dtype, device)

    def problems(self, name: str, size: int, device: torch.device | str = "cpu") -> Batch:
        """Problems of a stream of their own, in the precision of the run."""
        generator = stream(self.train.seed, name, device=device)
        return draw(self.task, size, generator, self.train.torch_dtype)

    def asdict(self) -> dict[str, Any]:
        table: dict[str, Any] = write(Config, self)
        return table

    @property
    def digest(self) -> str:
        """The same for equal settings, in every process."""
        return fingerprint(Config, self)[:16]


SECTIONS = ("task", "form", "model", "train")
PRESETS: dict[str, dict[str, dict[str, Any]]] = {
    "task": {name: write(Task, task) for name, task in TASKS.items()},
    "train": {
        "one-layer": {"lr": 3e-3, "warmup": 50, "schedule": "cosine"},
        "plateau": {"lr": 2e-3, "warmup": 200, "clip": 1.0, "schedule": "plateau", "patience": 20},
        "deep": {"lr": 1e-3, "warmup": 500, "clip": 0.1, "schedule": "plateau", "patience": 40},
    },
}


def from_dict(table: Mapping[str, Any]) -> Config:
    """A config from nested tables; every unknown or ill-typed entry is refused by name."""
    refuse_unless(isinstance(table, Mapping), "a config", "a table", table)
    filled = {
        key: _section(key, value) if key in SECTIONS else value for key, value in table.items()
    }
    try:
        return read(Config, filled)
    except Mismatch as error:
        raise InputError(_said(error)) from None


def _said(error: Mismatch) -> str:
    """`[train] lr must be a number, got 'x'`."""
    section, _, setting = error.where.partition(".")
    said = error.sentence("must be")
    if section in SECTIONS:
        section, said = f"[{section}]", said.replace("unknown entry", "unknown setting")
    return " ".join(filter(None, (section, setting, said)))


def from_toml(path: str | Path) -> Config:
    """The config in a TOML file; its name defaults to the file's."""
    path = Path(path)
    try:
        table = tomllib.loads(regular.read(path).decode())
    except FileNotFoundError:
        raise InputError(f"no config file {path}") from None
    except OSError as error:
        raise InputError(f"cannot read the config {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not a TOML file, which is UTF-8 text: {error}") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(f"{path}: {error}") from None
    try:
        return from_dict({"name": path.stem} | table)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _section(section: str, found: Any) -> dict[str, Any]:
    """One table of a config, with the preset that it names filled in; '' stands for None."""
    if not isinstance(found, Mapping):
        raise InputError(f"{section} must be one table, written [{section}], got {found!r}")
    settings = {name: None if value == "" else value for name, value in found.items()}
    if section not in PRESETS or "preset" not in settings:
        return settings
    name, presets = settings.pop("preset"), PRESETS[section]
    if not isinstance(name, str) or name not in presets:
        raise InputError(f"[{section}] preset {name!r} is not one of {', '.join(presets)}")
    return presets[name] | settings
