"""What the gallery's networks must compute, by other means: eigenvalues, LAPACK, scipy, sklearn.

Nothing here steps the way the programs do, wherever a formula for all steps together is known: a
descent w ← w − η(Sw − b) is read off the eigenvalues of S, momentum off powers of a companion
matrix, Chebyshev's method off Chebyshev's polynomials.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
import scipy.sparse.linalg
import scipy.special


def descent(S, b, eta, steps, start=0.0):
    """w after `steps` of w ← w − η(Sw − b), S symmetric: each eigenvalue on its own."""
    values, V = np.linalg.eigh(S)
    left = (1 - eta * values) ** steps
    safe = np.where(np.abs(values) > 1e-12, values, 1.0)
    gained = np.where(np.abs(values) > 1e-12, (1 - left) / safe, eta * steps)
    start = np.zeros_like(b) + start
    turned = V.T @ b
    shape = (-1,) + (1,) * (np.ndim(b) - 1)
    return V @ (left.reshape(shape) * (V.T @ start) + gained.reshape(shape) * turned)


def ridge_matrix(X, lam):
    return X.T @ X + lam * np.eye(X.shape[1])


def ridge_gd(X, y, u, w0, lam, eta, steps):
    return u @ descent(ridge_matrix(X, lam), X.T @ y, eta, steps, w0)


def ridge_multi_output(X, Y, lam, eta, steps):
    return descent(ridge_matrix(X, lam), X.T @ Y, eta, steps)


def weighted_least_squares(X, y, D, lam, eta, steps):
    return descent(X.T @ D @ X + lam * np.eye(X.shape[1]), X.T @ D @ y, eta, steps)


def _two_step(A, B, c, steps):
    """w after `steps` of (w, v) ← (A w + B v + c, w) from zero: powers of one matrix."""
    d = len(c)
    zero = np.zeros((d, d))
    companion = np.block(
        [
            [A, B, c[:, None]],
            [np.eye(d), zero, np.zeros((d, 1))],
            [np.zeros((1, 2 * d)), np.ones((1, 1))],
        ]
    )
    return np.linalg.matrix_power(companion, steps)[:d, -1]


def heavy_ball(X, y, lam, eta, beta, steps):
    S, one = ridge_matrix(X, lam), np.eye(X.shape[1])
    return _two_step((1 + beta) * one - eta * S, -beta * one, eta * X.T @ y, steps)


def nesterov(X, y, lam, eta, beta, steps):
    S, one = ridge_matrix(X, lam), np.eye(X.shape[1])
    down = one - eta * S
    return _two_step((1 + beta) * down, -beta * down, eta * X.T @ y, steps)


def chebyshev(X, y, lam, steps, low, high):
    """The error is multiplied by T(θ − s)/T(θ) at every eigenvalue s, T scaled to [low, high]."""
    values, V = np.linalg.eigh(ridge_matrix(X, lam))
    middle, half = (high + low) / 2, (high - low) / 2
    left = scipy.special.eval_chebyt(steps, (middle - values) / half)
    left = left / scipy.special.eval_chebyt(steps, middle / half)
    return V @ ((1 - left) / values * (V.T @ (X.T @ y)))


def dual_gd(X, y, u, eta, steps):
    return u @ descent(X.T @ X, X.T @ y, eta, steps)


def gd_plus_plus(X, y, u, eta, gamma, steps):
    """Every singular direction on its own: numbers instead of matrices."""
    L, values, R = np.linalg.svd(X, full_matrices=False)
    total = 0.0
    for s, residual, query in zip(values, L.T @ y, R @ u, strict=True):
        for _ in range(steps):
            total += query * eta * s * residual
            residual *= 1 - eta * s * s
            s, query = s * (1 - gamma * s * s), query * (1 - gamma * s * s)
    return total


def preconditioned_gd(X, y, u, steps, spectrum=None, noise=0.0):
    n, d = X.shape
    variances = np.ones(d) if spectrum is None else np.array(spectrum)
    root = np.sqrt(1 / ((n + 1) * variances + variances.sum() + noise**2))
    return u @ (root * descent((X * root).T @ (X * root), root * (X.T @ y), 1.0, steps))


def _power_inverse(A, alpha, power):
    """M with I − MA = (I − αAᵀA)^power."""
    U, values, Vt = np.linalg.svd(A)
    return Vt.T @ np.diag((1 - (1 - alpha * values**2) ** power) / values) @ U.T


def newton_schulz(A, alpha, steps):
    return _power_inverse(A, alpha, 2**steps)


def hyperpower(A, alpha, steps):
    return _power_inverse(A, alpha, 3**steps)


def newton_ridge(X, y, u, lam, alpha, steps):
    return u @ _power_inverse(ridge_matrix(X, lam), alpha, 2**steps) @ (X.T @ y)


def gauss_jordan(F, B):
    return scipy.linalg.solve(F, B)


gaussian_elimination = gauss_jordan


def ridge_closed_form(X, y, u, lam):
    return _sklearn_ridge(X, y, lam).predict(u[None])[0]


def recursive_least_squares(X, y, lam):
    return _sklearn_ridge(X, y, lam).coef_


def _sklearn_ridge(X, y, lam):
    from sklearn.linear_model import Ridge

    return Ridge(alpha=lam, fit_intercept=False, solver="svd").fit(X, y)


def conjugate_gradient(A, b, steps):
    return scipy.sparse.linalg.cg(A, b, rtol=0.0, maxiter=steps)[0]


def lasso_ista(X, y, lam, eta, steps):
    w = np.zeros(X.shape[1])
    for _ in range(steps):
        z = w + eta * (y - X @ w) @ X
        w = np.where(z > eta * lam, z - eta * lam, np.where(z < -eta * lam, z + eta * lam, 0))
    return w


def lasso_fista(X, y, lam, eta, steps):
    w, z, t = np.zeros(X.shape[1]), np.zeros(X.shape[1]), 1.0
    for _ in range(steps):
        g = z + eta * (y - X @ z) @ X
        before, w = w, g - np.clip(g, -eta * lam, eta * lam)
        before_t, t = t, 0.5 + np.sqrt(0.25 + t * t)
        z = w + (before_t - 1) / t * (w - before)
    return w


def logistic_gd(X, y, lam, eta, steps):
    w = np.zeros(X.shape[1])
    for _ in range(steps):
        w = (1 - eta * lam) * w - eta * (scipy.special.expit(X @ w) - y) @ X
    return w


def huber_gd(X, y, eta, steps, delta=1.0):
    w = np.zeros(X.shape[1])
    for _ in range(steps):
        far = X @ w - y
        w = w - eta * np.where(np.abs(far) <= delta, far, delta * np.sign(far)) @ X
    return w


def ridge_selection(X, y, V, z, u, eta, steps, lams):
    fits = [descent(ridge_matrix(X, lam), X.T @ y, eta, steps) for lam in lams]
    errors = [np.mean((V @ w - z) ** 2) for w in fits]
    best = min(range(len(lams)), key=errors.__getitem__)
    return {"prediction": u @ fits[best], "choice": [float(i == best) for i in range(len(lams))]}


def power_iteration(A, v0):
    values, vectors = scipy.linalg.eigh(A)
    v = vectors[:, -1]
    return {"value": values[-1], "vector": v if v @ v0 > 0 else -v}


def pca(X, v0):
    from sklearn.decomposition import PCA

    fit = PCA(2).fit(X)
    vectors = fit.components_.T
    return {
        "values": fit.explained_variance_ * (len(X) - 1) / len(X),
        "vectors": vectors * np.sign(v0 @ vectors),
    }


def td0(Phi, After, r, u, gamma, eta, steps):
    """w ← (I + ηM)w + ηb: a power of one matrix that holds both."""
    d = Phi.shape[1]
    affine = np.eye(d + 1)
    affine[:d, :d] += eta * Phi.T @ (gamma * After - Phi)
    affine[:d, d] = eta * Phi.T @ r
    return u @ np.linalg.matrix_power(affine, steps)[:d, d]


def covariate_shift(X, y, Z, lam, mu, eta, rho, steps):
    F, G = (np.column_stack([np.ones(len(M)), M]) for M in (X, Z))
    one = np.eye(F.shape[1])
    alpha = descent(F.T @ F / len(F) + mu * one, G.mean(axis=0), rho, steps)
    weights = np.maximum(F @ alpha, 0)
    return descent(F.T * weights @ F + lam * one, F.T * weights @ y, eta, steps)


def kernel_regression(X, y, u, lam, eta, steps):
    return descent(X @ X.T + lam * np.eye(len(X)), y, eta, steps) @ X @ u


def matrix_polynomial(A, coefficients):
    values, V = np.linalg.eigh(A)
    return V * np.polynomial.polynomial.polyval(values, coefficients) @ V.T


def neumann_series(A, b, steps):
    terms = [b]
    for _ in range(steps):
        terms.append(A @ terms[-1])
    return np.sum(terms, axis=0)


def soft_extraction(X, Y, u, tau):
    scores = X @ u
    return np.einsum("i,ik->k", np.where(scores > tau, scores - tau, 0), Y)


def kernel_smoother(X, y, u):
    weights = 1 + np.einsum("ij,j->i", X, u)
    return np.dot(weights / weights.sum(), y)


def diagonal_transformer(X, y, u, weights):
    """Token by token: the sums over the examples written out."""
    tokens = [*zip(X, y, strict=True), (u, 0.0)]
    for p, q, r, s in weights:
        seen = tokens[:-1]
        tokens = [
            (
                x + sum((p * (k @ x) + q * label * z) * k for k, label in seen),
                z + sum((r * (k @ x) + s * label * z) * label for k, label in seen),
            )
            for x, z in tokens
        ]
    return -tokens[-1][1]


def chain_of_thought_gd(X, y, eta):
    """The chain from its end: w = Σ Π (I − ηS) η Xᵀy, every token from scratch."""
    S, b = X.T @ X, X.T @ y
    chain = []
    for t in range(1, len(eta) + 1):
        left, w = np.eye(len(b)), np.zeros(len(b))
        for rate in eta[:t][::-1]:
            w = w + rate * left @ b
            left = left @ (np.eye(len(b)) - rate * S)
        chain.append(w)
    return np.array(chain)


def causal_linear_attention(Q, K, V):
    return np.array([np.average(V[: t + 1], axis=0, weights=K[: t + 1] @ q)
                     for t, q in enumerate(Q)])  # fmt: skip


def retention(Q, K, V, gamma):
    return gated_linear_attention(Q, K, V, np.full_like(Q, gamma))


def gated_linear_attention(Q, K, V, A):
    """Every pair of tokens on its own, with the gates between them."""
    out = np.zeros((len(Q), V.shape[1]))
    for t in range(len(Q)):
        for s in range(t + 1):
            out[t] += (Q[t] * np.prod(A[s + 1 : t + 1], axis=0)) @ K[s] * V[s]
    return out


def delta_net(Q, K, V, beta):
    return gated_delta_net(Q, K, V, np.ones(len(Q)), beta)


def gated_delta_net(Q, K, V, alpha, beta):
    """What each token writes solves a triangular system: nobody carries a memory."""
    n = len(Q)
    kept = np.array([[np.prod(alpha[s + 1 : t + 1]) for s in range(n)] for t in range(n)])
    system = np.eye(n) + beta[:, None] * np.tril(kept * (K @ K.T), -1)
    written = scipy.linalg.solve_triangular(system, beta[:, None] * V, lower=True)
    return np.tril(kept * (Q @ K.T)) @ written


def ttt_linear(Q, K, V, eta, batch):
    W, out = np.zeros((K.shape[1], V.shape[1])), []
    for start in range(0, len(Q), batch):
        rows = slice(start, min(start + batch, len(Q)))
        slopes = np.einsum("td,tk->tdk", K[rows], K[rows] @ W - V[rows])
        through = W - eta * np.cumsum(slopes, axis=0)
        out.append(np.einsum("td,tdk->tk", Q[rows], through))
        W = through[-1]
    return np.vstack(out)


def mesa_layer(Q, K, V, lam):
    pairs = ((K[: t + 1], V[: t + 1]) for t in range(len(Q)))
    fits = (_sklearn_ridge(k, v, lam).coef_.reshape(V.shape[1], -1) for k, v in pairs)
    return np.array([coefficients @ q for q, coefficients in zip(Q, fits, strict=True)])


def kalman_filter(y, A, c, noise, r):
    """Every estimate from scratch: the mean of the state given all observations, jointly normal."""
    n, d = len(y), len(c)
    covariances = [A @ A.T + noise]
    for _ in range(n - 1):
        covariances.append(A @ covariances[-1] @ A.T + noise)
    power = [np.linalg.matrix_power(A, i) for i in range(n)]
    seen = np.zeros((n, n))
    cross = np.zeros((n, n, d))  # of the state at t with the observation at s ≤ t
    for t in range(n):
        for s in range(t + 1):
            cross[t, s] = power[t - s] @ covariances[s] @ c
            seen[t, s] = seen[s, t] = c @ cross[t, s]
    seen += r * np.eye(n)
    rows = (slice(t + 1) for t in range(n))
    return np.array([np.linalg.solve(seen[i, i], y[i]) @ cross[i.stop - 1, i] for i in rows])


def softmax_regression(X, y, u):
    return scipy.special.softmax(X @ u) @ y


def functional_gd(X, y, u, eta, steps):
    """The sum of all steps is a coefficient per example, as for descent on the kernel."""
    return np.exp(X @ u) @ descent(np.exp(X @ X.T), y, eta, steps)


def gaussian_mixture(X, M, steps):
    for _ in range(steps):
        density = np.array([[-((x - m) @ (x - m)) / 2 for m in M] for x in X])
        R = scipy.special.softmax(density, axis=1)
        M = np.array([np.average(X, axis=0, weights=share) for share in R.T])
    return M


def regression_mixture(X, y, w0, eta, steps, noise=1.0):
    w = w0
    for _ in range(steps):
        likely = scipy.special.expit(2 * y * (X @ w) / noise**2)
        w = w + eta * ((2 * likely - 1) * y - X @ w) @ X
    return w


def sinkhorn(C, a, b, steps, epsilon=0.5):
    """In logarithms, as dual potentials."""
    f, g = np.zeros(len(a)), np.zeros(len(b))
    for _ in range(steps):
        f = np.log(a) - scipy.special.logsumexp(g - C / epsilon, axis=1)
        g = np.log(b) - scipy.special.logsumexp(f[:, None] - C / epsilon, axis=0)
    return np.exp(f[:, None] + g - C / epsilon)


def two_layer_gd(X, y, W, a, u, eta, steps):
    """Example by example and unit by unit, by the chain rule."""
    W, a = W.copy(), a.copy()
    for _ in range(steps):
        slope_W, slope_a = np.zeros_like(W), np.zeros_like(a)
        for x, label in zip(X, y, strict=True):
            on = [j for j in range(len(a)) if W[:, j] @ x > 0]
            missed = sum(a[j] * (W[:, j] @ x) for j in on) - label
            for j in on:
                slope_a[j] += missed * (W[:, j] @ x)
                slope_W[:, j] += missed * a[j] * x
        W, a = W - eta * slope_W, a - eta * slope_a
    return sum(a[j] * max(W[:, j] @ u, 0.0) for j in range(len(a)))
