"""Compiled networks as torch modules: to look into, to train, to trace and to share.

`TorchNetwork` is the layers of the stack as blocks (see `inweave.stack.blocks`), with the prompt
before them and the read-out behind, and the hub's way of saving and loading.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import torch
from torch import Tensor, nn

from inweave.errors import DTypeError, InputError, ShapeError, needs_extra
from inweave.files.network_file import load, save
from inweave.model.cost import check_layers, check_numbers, written
from inweave.model.inputs import NUMBERS, accept, signature
from inweave.model.network import Network
from inweave.model.prompt import Input, by_name
from inweave.model.written import fixed_prompt, is_fixed, standing
from inweave.run.ready import LARGEST, is_finite_tensor
from inweave.stack.blocks import Blocks
from inweave.stack.embedding import embedded
from inweave.stack.network import module_of


def needs_hub(method: str) -> None:
    """Refuse a method that huggingface_hub would have brought."""
    with needs_extra(method, "hub"):
        import huggingface_hub  # noqa: F401


if TYPE_CHECKING:
    from huggingface_hub import PyTorchModelHubMixin as Hub
else:
    try:
        from huggingface_hub import PyTorchModelHubMixin as Hub
    except ImportError:

        class Hub:
            """Stands in where huggingface_hub is not installed."""

            def save_pretrained(self, *_: Any, **__: Any) -> None:
                needs_hub("save_pretrained")

            def push_to_hub(self, *_: Any, **__: Any) -> None:
                needs_hub("push_to_hub")

            @classmethod
            def from_pretrained(cls, *_: Any, **__: Any) -> None:
                needs_hub("from_pretrained")


DTYPES = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16}


def to_torch(
    network: Network, trainable: bool = False, dtype: torch.dtype | None = None
) -> TorchNetwork:
    """The network as a torch module, in float64 unless told otherwise.

    Named inputs are brought to that dtype; a prompt has to be of it, because `module(H)` gives a
    state of the same kind back.
    """
    return TorchNetwork(network, trainable, dtype or torch.float64)


class _Fill(NamedTuple):
    """A fill in plain numbers, which torch.compile can follow (it cannot follow fractions)."""

    source: str | None  # None: the buffer `name` holds a constant
    name: str
    coefficient: float
    diagonal: int
    transpose: bool
    scale: tuple[tuple[str, bool], ...]  # a scalar input, and whether its root is taken
    around: tuple[int, int, int, int]  # zeros to the left, to the right, above and below


class Prompt(nn.Module):
    """From named inputs, (..., rows, cols) each, to the prompt that holds them."""

    fixed: Tensor

    def __init__(self, network: Network, dtype: torch.dtype) -> None:
        super().__init__()
        self.register_buffer("fixed", torch.tensor(fixed_prompt(network), dtype=dtype), False)
        self.embed = embedded(network.embedding, dtype)
        self.fills: list[_Fill] = []
        for i, fill in enumerate(network.fills):
            if is_fixed(fill):
                continue
            if fill.constant is not None:
                written = torch.tensor(standing(fill).copy(), dtype=dtype)
                self.register_buffer(f"fill_{i}", written, False)
            rows, cols = fill.place.region(network.layout)
            below, right = network.tokens - rows.stop, network.width - cols.stop
            self.fills.append(
                _Fill(
                    fill.source,
                    f"fill_{i}",
                    float(fill.coefficient),
                    fill.place.diagonal,
                    fill.place.transpose,
                    tuple((name, power != 1) for name, power in fill.scale),
                    (cols.start, right, rows.start, below),
                )
            )

    def forward(self, inputs: dict[str, Tensor]) -> Tensor:
        shapes = [x.shape[:-2] for x in inputs.values()]
        lead = torch.broadcast_shapes(*shapes)  # type: ignore[no-untyped-call]
        H = self.fixed.expand(*lead, -1, -1)
        for fill in self.fills:
            H = H + nn.functional.pad(self._standing(fill, inputs), fill.around)
        H = H if self.fills else H.clone()
        return H if self.embed is None else self.embed(H)

    def _standing(self, fill: _Fill, inputs: dict[str, Tensor]) -> Tensor:
        if fill.source is None:
            value: Tensor = getattr(self, fill.name)
        else:
            value = inputs[fill.source]
            if fill.coefficient != 1:
                value = value * fill.coefficient
            if fill.diagonal:
                value = value * torch.eye(fill.diagonal, dtype=value.dtype, device=value.device)
            value = value.mT if fill.transpose else value
        for name, root in fill.scale:
            value = value * (inputs[name].sqrt() if root else inputs[name])
        return value


KEPT = 64  # signatures: batches may come in any size


def _is_plain(value: Any) -> bool:
    """Whether a number or a tensor is finite for sure."""
    if isinstance(value, NUMBERS):
        return abs(value) <= LARGEST
    return isinstance(value, Tensor) and is_finite_tensor(value)


class TorchNetwork(Blocks, Hub):
    """A network in torch: `module(H)` is the final state, `module(X=X, ...)` the answer."""

    def __new__(cls, *_: Any, **__: Any) -> Self:
        return super().__new__(cls)  # the hub must not take the network for a configuration

    def __init__(
        self,
        network: Network,
        trainable: bool = False,
        dtype: torch.dtype = torch.float64,
        *,
        heads: int = 1,
    ) -> None:
        if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
            raise DTypeError(
                f"weights cannot be stored as {dtype}: they are real numbers; "
                f"use one of {', '.join(map(str, DTYPES.values()))}"
            )
        check_layers(network, "a torch module")
        check_numbers("a torch module", written(network))
        layout = network.layout
        modules = (
            module_of(module, layout, heads=heads, by_entry=False, dtype=dtype)
            for module in network.modules
        )
        super().__init__(layout, (step for module in modules for step in module.executed()))
        self.network, self.trainable = network, trainable
        self._answers = Network(network.layout, (), outputs=network.outputs)  # to read them with
        self.prompt = Prompt(network, dtype)
        embedding = network.embedding
        self.unembed = embedded(None if embedding is None else embedding.inverse, dtype)
        self._right: set[Any] = set()  # signatures of inputs that were accepted
        self.requires_grad_(trainable)

    @property
    def dtype(self) -> torch.dtype:
        return self.prompt.fixed.dtype

    # -- computing ---------------------------------------------------------------------------------
    @torch.no_grad()
    def in_numpy(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The answers to arrays, by name, as arrays of float64."""
        found = by_name(self.forward_inputs(**inputs))
        return {name: x.to("cpu", torch.float64).numpy() for name, x in found.items()}

    def forward(self, H: Tensor | None = None, /, **inputs: Any) -> Any:
        """The final state of a prompt, or the answers to named inputs."""
        if H is None:
            return self.forward_inputs(**inputs)
        if inputs:
            raise InputError("give a prompt or named inputs, not both")
        return self.forward_prompt(H)

    def forward_prompt(self, H: Tensor) -> Tensor:
        """The state after the last block, (..., tokens, width)."""
        self.network.layout.check(H)
        if H.dtype != self.dtype:
            raise DTypeError(
                f"got a prompt of {H.dtype}, the weights are {self.dtype}: "
                "convert one with .to(dtype), which prompts and modules have"
            )
        return super().forward(H)

    def forward_inputs(self, **inputs: Any) -> Any:
        """Named inputs in, the answer or a dict of answers out."""
        return self.readout(self.forward_prompt(self.prompt_of(**inputs)))

    def readout(self, H: Tensor) -> Any:
        """The answer or a dict of answers that stand in a state."""
        return self._answers.readout(H if self.unembed is None else self.unembed(H))

    def prompt_of(self, **inputs: Any) -> Tensor:
        """The prompt that holds these inputs."""
        if not torch.compiler.is_compiling():  # which cannot look at values
            self._look(inputs)
        lifted = {spec.name: self._lifted(spec, inputs[spec.name]) for spec in self.network.inputs}
        H: Tensor = self.prompt(lifted)
        return H

    def _look(self, inputs: dict[str, Any]) -> None:
        """Refuse wrong inputs, all but the values of those like others that were right."""
        specs = self.network.inputs
        values = [inputs.get(spec.name) for spec in specs]
        kind = signature(values) if len(inputs) == len(specs) else None
        if kind not in self._right or not all(map(_is_plain, values)):
            accept(specs, inputs)
            if kind is not None and all(spec.sign == "any" for spec in specs):
                self._right = {*self._right, kind} if len(self._right) < KEPT else {kind}

    def _lifted(self, spec: Input, value: Any) -> Tensor:
        fixed = self.prompt.fixed
        value = torch.as_tensor(value, dtype=fixed.dtype, device=fixed.device)
        if spec.kind == "scalar":
            value = value[..., None, None]
        elif spec.kind == "vector" and value.shape[-1] == spec.rows:
            value = value[..., None]
        if tuple(value.shape[-2:]) != (spec.rows, spec.cols):
            raise ShapeError(f"input {spec.name!r}: expected (..., {spec.rows}, {spec.cols})")
        return value  # type: ignore[no-any-return]

    # -- hub ---------------------------------------------------------------------------------------
    def _save_pretrained(self, save_directory: Path) -> None:
        save(save_directory / "network.inweave", self.network)
        dtype = str(self.dtype).removeprefix("torch.")
        self._hub_mixin_config = {"trainable": self.trainable, "dtype": dtype}
        super()._save_pretrained(save_directory)

    @classmethod
    def _from_pretrained(
        cls,
        *,
        model_id: str,
        trainable: bool = False,
        dtype: str = "float64",
        map_location: str = "cpu",
        **options: Any,
    ) -> TorchNetwork:
        from huggingface_hub import hf_hub_download
        from safetensors.torch import load_model

        def file(name: str) -> Path:
            if Path(model_id).is_dir():
                return Path(model_id) / name
            return Path(hf_hub_download(model_id, name, **options))

        if dtype not in DTYPES:
            raise InputError(f"dtype {dtype!r} is not one of {', '.join(DTYPES)}")
        model = cls(load(file("network.inweave"))[0], bool(trainable), DTYPES[dtype])
        load_model(model, file("model.safetensors"), device=map_location)
        return model.to(map_location).eval()
