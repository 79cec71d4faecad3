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
