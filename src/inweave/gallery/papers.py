"""The papers that the gallery's entries come from."""

from __future__ import annotations

PAPERS = {
    "Ahn et al. 2023": "K. Ahn, X. Cheng, H. Daneshmand, S. Sra. Transformers learn to implement "
    "preconditioned gradient descent for in-context learning. NeurIPS 2023.",
    "Akyürek et al. 2023": "E. Akyürek, D. Schuurmans, J. Andreas, T. Ma, D. Zhou. What learning "
    "algorithm is in-context learning? Investigations with linear models. ICLR 2023.",
    "Bai et al. 2023": "Y. Bai, F. Chen, H. Wang, C. Xiong, S. Mei. Transformers as statisticians: "
    "provable in-context learning with in-context algorithm selection. NeurIPS 2023.",
    "Cheng et al. 2024": "X. Cheng, Y. Chen, S. Sra. Transformers implement functional gradient "
    "descent to learn non-linear functions in context. ICML 2024.",
    "Cuturi 2013": "M. Cuturi. Sinkhorn distances: lightspeed computation of optimal transport. "
    "NIPS 2013.",
    "Dai et al. 2023": "D. Dai, Y. Sun, L. Dong, Y. Hao, S. Ma, Z. Sui, F. Wei. Why can GPT learn "
    "in-context? Language models implicitly perform gradient descent as meta-optimizers. Findings "
    "of ACL 2023.",
    "Dempster et al. 1977": "A. P. Dempster, N. M. Laird, D. B. Rubin. Maximum likelihood from "
    "incomplete data via the EM algorithm. Journal of the Royal Statistical Society B 39, 1977.",
    "Dutta and Sra 2024": "S. Dutta, S. Sra. Memory-augmented transformers can implement linear "
    "first-order optimization methods. arXiv:2410.07263.",
    "Fu et al. 2024": "D. Fu, T.-Q. Chen, R. Jia, V. Sharan. Transformers learn to achieve "
    "second-order convergence rates for in-context linear regression. NeurIPS 2024.",
    "Giannou et al. 2023": "A. Giannou, S. Rajput, J. Sohn, K. Lee, J. D. Lee, D. Papailiopoulos. "
    "Looped transformers as programmable computers. ICML 2023.",
    "Hagiwara 2025": "K. Hagiwara. An extension of linear self-attention for in-context learning. "
    "2025.",
    "Hataya et al. 2024": "R. Hataya, K. Matsui, M. Imaizumi. Automatic domain adaptation by "
    "transformers in in-context learning. arXiv:2405.16819.",
    "He et al. 2025": "Y. He, Y. Cao, H.-Y. Chen, D. Wu, J. Fan, H. Liu. Learning spectral methods "
    "by transformers. arXiv:2501.01312.",
    "Huang et al. 2025": "J. Huang, Z. Wang, J. D. Lee. Transformers learn to implement "
    "multi-step gradient descent with chain of thought. ICLR 2025.",
    "Jin et al. 2024": "Y. Jin, K. Balasubramanian, L. Lai. Provable in-context learning for "
    "mixture of linear regressions using transformers. arXiv:2410.14183.",
    "Kalman 1960": "R. E. Kalman. A new approach to linear filtering and prediction problems. "
    "Journal of Basic Engineering 82, 1960.",
    "Katharopoulos et al. 2020": "A. Katharopoulos, A. Vyas, N. Pappas, F. Fleuret. Transformers "
    "are RNNs: fast autoregressive transformers with linear attention. ICML 2020.",
    "Mahankali et al. 2023": "A. Mahankali, T. B. Hashimoto, T. Ma. One step of gradient descent "
    "is provably the optimal in-context learner with one layer of linear self-attention. "
    "ICLR 2024.",
    "Nadaraya 1964": "E. A. Nadaraya. On estimating regression. Theory of Probability and its "
    "Applications 9, 1964.",
    "von Oswald et al. 2023": "J. von Oswald, E. Niklasson, E. Randazzo, J. Sacramento, "
    "A. Mordvintsev, A. Zhmoginov, M. Vladymyrov. Transformers learn in-context by gradient "
    "descent. ICML 2023.",
    "von Oswald et al. 2023b": "J. von Oswald, M. Schlegel, A. Meulemans, et al. Uncovering "
    "mesa-optimization algorithms in transformers. arXiv:2309.05858.",
    "Schlag et al. 2021": "I. Schlag, K. Irie, J. Schmidhuber. Linear transformers are secretly "
    "fast weight programmers. ICML 2021.",
    "Sun et al. 2023": "Y. Sun, L. Dong, S. Huang, S. Ma, Y. Xia, J. Xue, J. Wang, F. Wei. "
    "Retentive network: a successor to transformer for large language models. arXiv:2307.08621.",
    "Sun et al. 2024": "Y. Sun, X. Li, K. Dalal, et al. Learning to (learn at test time): RNNs "
    "with expressive hidden states. arXiv:2407.04620.",
    "Vladymyrov et al. 2024": "M. Vladymyrov, J. von Oswald, M. Sandler, R. Ge. Linear "
    "transformers are versatile in-context learners. NeurIPS 2024.",
    "Wang et al. 2025": "J. Wang, E. Blaser, H. Daneshmand, S. Zhang. Transformers can learn "
    "temporal difference methods for in-context reinforcement learning. ICLR 2025.",
    "Watson 1964": "G. S. Watson. Smooth regression analysis. Sankhyā A 26, 1964.",
    "Yang et al. 2024a": "S. Yang, B. Wang, Y. Shen, R. Panda, Y. Kim. Gated linear attention "
    "transformers with hardware-efficient training. ICML 2024.",
    "Yang et al. 2024b": "S. Yang, B. Wang, Y. Zhang, Y. Shen, Y. Kim. Parallelizing linear "
    "transformers with the delta rule over sequence length. NeurIPS 2024.",
    "Yang et al. 2025": "S. Yang, J. Kautz, A. Hatamizadeh. Gated delta networks: improving "
    "Mamba2 with delta rule. ICLR 2025.",
}
