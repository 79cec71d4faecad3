"""The papers that the gallery's entries come from."""

from __future__ import annotations

PAPERS = {
    "Ahn et al. 2023": "K. Ahn, X. Cheng, H. Daneshmand, S. Sra. Transformers learn to implement "
    "preconditioned gradient descent for in-context learning. NeurIPS 2023.",
    "Akyürek et al. 2023": "E. Akyürek, D. Schuurmans, J. Andreas, T. Ma, D. Zhou. What learning "
    "algorithm is in-context learning? Investigations with linear models. ICLR 2023.",
    "Bai et al. 2023": "Y. Bai, F. Chen, H. Wang, C. Xiong, S. Mei. Transformers as statisticians: "
    "provable in-context learning with in-context algorithm selection. NeurIPS 2023.",
    "Dai et al. 2023": "D. Dai, Y. Sun, L. Dong, Y. Hao, S. Ma, Z. Sui, F. Wei. Why can GPT learn "
    "in-context? Language models implicitly perform gradient descent as meta-optimizers. Findings "
    "of ACL 2023.",
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
    "Mahankali et al. 2023": "A. Mahankali, T. B. Hashimoto, T. Ma. One step of gradient descent "
    "is provably the optimal in-context learner with one layer of linear self-attention. "
    "ICLR 2024.",
    "von Oswald et al. 2023": "J. von Oswald, E. Niklasson, E. Randazzo, J. Sacramento, "
    "A. Mordvintsev, A. Zhmoginov, M. Vladymyrov. Transformers learn in-context by gradient "
    "descent. ICML 2023.",
    "Wang et al. 2025": "J. Wang, E. Blaser, H. Daneshmand, S. Zhang. Transformers can learn "
    "temporal difference methods for in-context reinforcement learning. ICLR 2025.",
}
