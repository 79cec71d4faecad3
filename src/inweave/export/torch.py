"""Networks as torch modules that interpretability tools can look into.

Every executed layer is a block: `blocks.{i}`, with `attn` (or `mlp` for a pointwise layer), and
every value of interest passes through a `HookPoint`, an identity with a name:
`blocks.{i}.hook_resid_pre`, `blocks.{i}.attn.hook_q`, `hook_k`, `hook_v`, `hook_kv` (Kᵀ V, the
fast weights of linear attention) and `hook_z`, as in TransformerLens. Ordinary forward hooks on
them read and replace activations. Blocks of a repeated module are separate, so that one step can
be changed alone, and share their parameters.

Activations have the shapes (..., tokens, width) for states, (..., tokens, heads, width) for
queries, keys, values and z, and (..., heads, width, width) for kv.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import torch
from torch import Tensor, nn

from inweave.errors import DTypeError, InputError, ShapeError, needs_extra
from inweave.export.weights import (
    Arrays,
    attention_weights,
    fixed_prompt,
    function_weights,
    is_fixed,
    pointwise_weights,
    standing,
    steps,
)
from inweave.files.network_file import load, save
from inweave.model.inputs import accept
from inweave.model.layers import AttentionLayer, BlockPointwiseLayer, Layer, PointwiseLayer
from inweave.model.layout import Layout
from inweave.model.network import Network
from inweave.model.prompt import Input

if TYPE_CHECKING:
    from huggingface_hub import PyTorchModelHubMixin as Hub
else:
    try:
        from huggingface_hub import PyTorchModelHubMixin as Hub
    except ImportError:

        class Hub:
            """Stands in where huggingface_hub is not installed."""

            def save_pretrained(self, *_: Any, **__: Any) -> None:
                with needs_extra("save_pretrained", "hub"):
                    import huggingface_hub  # noqa: F401

            from_pretrained = push_to_hub = save_pretrained


Filter = str | Sequence[str] | Callable[[str], bool] | None
DTYPES = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16}


def to_torch(
    network: Network, trainable: bool = False, dtype: torch.dtype | None = None
) -> TorchNetwork:
    """The network as a torch module, in float64 unless told otherwise.

    Named inputs are brought to that dtype; a prompt has to be of it, because `module(H)` gives a
    state of the same kind back.
    """
    return TorchNetwork(network, trainable, dtype or torch.float64)


class HookPoint(nn.Module):
    """The identity: a name for a value that passes through."""

    def forward(self, x: Tensor) -> Tensor:
        return x


class Attention(nn.Module):
    """A sum of heads `(H W_Q + B_Q)(H W_K + B_K)ᵀ(H W_V + B_V)`."""

    hook_q: HookPoint
    hook_k: HookPoint
    hook_v: HookPoint
    hook_kv: HookPoint
    hook_z: HookPoint

    def __init__(self, parameters: dict[str, nn.Parameter]) -> None:
        super().__init__()
        for letter in "QKV":
            for name in (f"W_{letter}", f"B_{letter}"):
                self.register_parameter(name, parameters.get(name))
        for name in ("q", "k", "v", "kv", "z"):
            self.add_module(f"hook_{name}", HookPoint())

    def project(self, letter: str, H: Tensor) -> Tensor:
        out = torch.einsum("...td,hde->...the", H, getattr(self, f"W_{letter}"))
        B = getattr(self, f"B_{letter}")
        return out if B is None else out + B.transpose(0, 1)

    def forward(self, H: Tensor) -> Tensor:
        q = self.hook_q(self.project("Q", H))
        k = self.hook_k(self.project("K", H))
        v = self.hook_v(self.project("V", H))
        kv = self.hook_kv(torch.einsum("...thd,...the->...hde", k, v))
        z: Tensor = self.hook_z(torch.einsum("...thd,...hde->...the", q, kv))
        return z.sum(-2)


class Pointwise(nn.Module):
    """`Σ_k V_k ⊙ σ(W_k ⊙ H + B_k) + C_k`."""

    V: nn.Parameter
    W: nn.Parameter
    B: nn.Parameter
    C: nn.Parameter

    def __init__(self, parameters: dict[str, nn.Parameter], activation: str) -> None:
        super().__init__()
        for name in "VWBC":
            self.register_parameter(name, parameters[name])
        self.activation = activation
        self.hook_pre, self.hook_post = HookPoint(), HookPoint()

    def forward(self, H: Tensor) -> Tensor:
        inner = self.hook_pre(H.unsqueeze(-3) * self.W + self.B)
        outer = self.hook_post(torch.relu(inner) if self.activation == "relu" else inner)
        return torch.sum(self.V * outer + self.C, -3)


class Units(nn.Module):
    """A function of single entries: `V @ relu(W x + B) + C`."""

    V: nn.Parameter
    W: nn.Parameter
    B: nn.Parameter
    C: nn.Parameter

    def __init__(self, parameters: dict[str, nn.Parameter]) -> None:
        super().__init__()
        for name in "VWBC":
            self.register_parameter(name, parameters[name])
        self.hook_pre, self.hook_post = HookPoint(), HookPoint()

    def forward(self, x: Tensor) -> Tensor:
        inner = self.hook_pre(x.unsqueeze(-1) * self.W + self.B)
        outer: Tensor = self.hook_post(torch.relu(inner))
        return torch.sum(outer * self.V, -1) + self.C


class Functions(nn.Module):
    """A function at each of some places, the identity elsewhere."""

    def __init__(
        self, parameters: Sequence[dict[str, nn.Parameter]], at: list[tuple[slice, slice]]
    ) -> None:
        super().__init__()
        self.functions, self.at = nn.ModuleList(map(Units, parameters)), at

    def forward(self, H: Tensor) -> Tensor:
        out = H.clone()
        for function, (rows, cols) in zip(self.functions, self.at, strict=True):
            out[..., rows, cols] = function(H[..., rows, cols])
        return out


class Block(nn.Module):
    """One executed layer, with its skip."""

    def __init__(self, layer: nn.Module, skip: bool) -> None:
        super().__init__()
        self.skip, self.kind = skip, "attn" if isinstance(layer, Attention) else "mlp"
        self.hook_resid_pre = HookPoint()
        self.add_module(self.kind, layer)
        self.add_module(f"hook_{self.kind}_out", HookPoint())
        self.hook_resid_post = HookPoint()

    def forward(self, H: Tensor) -> Tensor:
        H = self.hook_resid_pre(H)
        out = getattr(self, f"hook_{self.kind}_out")(getattr(self, self.kind)(H))
        after: Tensor = self.hook_resid_post(H + out if self.skip else out)
        return after


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
        H = self.fixed
        for fill in self.fills:
            H = H + nn.functional.pad(self._standing(fill, inputs), fill.around)
        return H

    def _standing(self, fill: _Fill, inputs: dict[str, Tensor]) -> Tensor:
        if fill.source is None:
            value: Tensor = getattr(self, fill.name)
        else:
            value = inputs[fill.source] * fill.coefficient
            if fill.diagonal:
                value = value * torch.eye(fill.diagonal, dtype=value.dtype, device=value.device)
            value = value.mT if fill.transpose else value
        for name, root in fill.scale:
            value = value * (inputs[name].sqrt() if root else inputs[name])
        return value


class TorchNetwork(nn.Module, Hub):
    """A network in torch: `module(H)` is the final state, `module(X=X, ...)` the answer."""

    def __new__(cls, *_: Any, **__: Any) -> Self:
        return super().__new__(cls)  # the hub must not take the network for a configuration

    def __init__(
        self, network: Network, trainable: bool = False, dtype: torch.dtype = torch.float64
    ) -> None:
        super().__init__()
        if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
            raise DTypeError(
                f"weights cannot be stored as {dtype}: they are real numbers; "
                f"use one of {', '.join(map(str, DTYPES.values()))}"
            )
        self.network, self.trainable = network, trainable
        self.prompt = Prompt(network, dtype)
        self.hook_embed, self.hook_final = HookPoint(), HookPoint()
        made = _Maker(network.layout, trainable, dtype)
        blocks: list[Block] = []
        self._steps: list[int | str] = []
        for step in steps(network):
            if isinstance(step, str):
                self._steps.append(step)
            else:
                self._steps.append(len(blocks))
                blocks.append(made.block(step))  # type: ignore[arg-type]
        self.blocks = nn.ModuleList(blocks)

    @property
    def dtype(self) -> torch.dtype:
        return self.prompt.fixed.dtype

    # -- computing ---------------------------------------------------------------------------------
    def forward(self, H: Tensor | None = None, /, **inputs: Any) -> Any:
        """The final state of a prompt, or the answers to named inputs."""
        if H is not None:
            if inputs:
                raise InputError("give a prompt or named inputs, not both")
            return self.forward_prompt(H)
        return self.forward_inputs(**inputs)

    def forward_prompt(self, H: Tensor) -> Tensor:
        """The state after the last block, (..., tokens, width)."""
        self.network.layout.check(H)
        if H.dtype != self.dtype:
            raise DTypeError(
                f"got a prompt of {H.dtype}, the weights are {self.dtype}: "
                "convert one with .to(dtype), which prompts and modules have"
            )
        H = self.hook_embed(H)
        opened: list[Tensor] = []
        for step in self._steps:
            if step == "open":
                opened.append(H)
            elif step == "close":
                H = opened.pop() + H
            else:
                H = self.blocks[int(step)](H)
        final: Tensor = self.hook_final(H)
        return final

    def forward_inputs(self, **inputs: Any) -> Any:
        """Named inputs in, the answer or a dict of answers out."""
        return self.network.readout(self.forward_prompt(self.prompt_of(**inputs)))

    def prompt_of(self, **inputs: Any) -> Tensor:
        """The prompt that holds these inputs."""
        if not torch.compiler.is_compiling():
            accept(self.network.inputs, inputs)  # looks at the values, which a compiler cannot
        lifted = {spec.name: self._lifted(spec, inputs[spec.name]) for spec in self.network.inputs}
        H: Tensor = self.prompt(lifted)
        return H

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

    # -- looking inside ----------------------------------------------------------------------------
    @property
    def hook_names(self) -> list[str]:
        """The names of all activations."""
        return [name for name, part in self.named_modules() if isinstance(part, HookPoint)]

    def run_with_cache(
        self, *args: Any, names_filter: Filter = None, **inputs: Any
    ) -> tuple[Any, dict[str, Tensor]]:
        """The result, and the activations by name; all of them, or those that the filter keeps."""
        cache: dict[str, Tensor] = {}
        known = self.hook_names
        if isinstance(names_filter, str):
            names_filter = [names_filter]
        if names_filter is None:
            kept = known
        elif callable(names_filter):
            kept = [name for name in known if names_filter(name)]
        else:
            unknown = [name for name in names_filter if name not in known]
            if unknown:
                raise InputError(f"no activation {unknown[0]!r}; see hook_names")
            kept = list(names_filter)

        def keeper(name: str) -> Callable[..., None]:
            def keep(_: nn.Module, __: Any, value: Tensor) -> None:
                cache[name] = value

            return keep

        handles = [self.get_submodule(n).register_forward_hook(keeper(n)) for n in kept]
        try:
            return self(*args, **inputs), cache
        finally:
            for handle in handles:
                handle.remove()

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


class _Maker:
    """Makes blocks; those of one stored layer share their parameters."""

    def __init__(self, layout: Layout, trainable: bool, dtype: torch.dtype) -> None:
        self.layout, self.trainable, self.dtype = layout, trainable, dtype
        self._shared: dict[int, Any] = {}

    def block(self, layer: Layer) -> Block:
        key = id(layer)
        if isinstance(layer, AttentionLayer):
            if key not in self._shared:
                self._shared[key] = self.parameters(attention_weights(layer, self.layout))
            return Block(Attention(self._shared[key]), layer.skip)
        if isinstance(layer, PointwiseLayer):
            if key not in self._shared:
                self._shared[key] = self.parameters(pointwise_weights(layer))
            return Block(Pointwise(self._shared[key], layer.activation), layer.skip)
        return self._functions(layer)

    def _functions(self, layer: BlockPointwiseLayer) -> Block:
        if id(layer) not in self._shared:
            written = [self.parameters(function_weights(f)) for _, f in layer.applied]
            self._shared[id(layer)] = written
        at = [place.region(self.layout) for place, _ in layer.applied]
        return Block(Functions(self._shared[id(layer)], at), layer.skip)

    def parameters(self, arrays: Arrays) -> dict[str, nn.Parameter]:
        return {
            name: nn.Parameter(torch.tensor(array, dtype=self.dtype), self.trainable)
            for name, array in arrays.items()
        }
