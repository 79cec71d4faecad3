from typing import TypeVar

import inweave
import numpy as np
from inweave import Matrix, Scalar, Vector

n = TypeVar("n")
d = TypeVar("d")


@inweave.program
def ridge(
    X: Matrix[n, d], y: Vector[n], u: Vector[d], lam: Scalar, eta: Scalar, *, steps: int
) -> Scalar:
    def step(w: Vector[d]) -> Vector[d]:
        return w - eta * (X.T @ (X @ w - y) + lam * w)

    return u @ inweave.iterate(step, inweave.zeros(X.shape[1]), steps)


if __name__ == "__main__":
    net = inweave.compile(ridge, n=40, d=10, steps=100)  # the network, verified
    print(net, end="\n\n")

    rng = np.random.default_rng(0)
    data = {"X": rng.normal(size=(40, 10)), "y": rng.normal(size=40), "u": rng.normal(size=10)}
    print(f"by attention:   {net(**data, lam=1.0, eta=0.01):.12f}")
    print(f"by the program: {ridge(**data, lam=1.0, eta=0.01, steps=100):.12f}")

    deep = inweave.compile(ridge, n=40, d=10, steps=100, optimize="depth")
    print(f"least depth:    {deep.depth} layers; {deep.depth_lower_bound} are needed", end="\n\n")
    print(inweave.frontier(ridge, n=40, d=10, steps=100, target="elsa"))
