"""The lab: train networks of the compiled shape, and compare the learned with the constructed.

One convention holds everywhere: a loss is the mean squared error (MSE) of the prediction for the
query, against the clean target `f(u)` or the noisy one, chosen by name. Half-MSE, which part of
the literature prints, is a display option and nothing else.

    tasks      what is drawn: seeded, batched, on the device
    forms      how a drawn task becomes a prompt
    baselines  what a prediction is compared with; on a GPU by networks
    posteriors  the best that any predictor can do
    polynomials  what linear attention can do
    measures   how it is compared
    inference  what numbers per seed say: intervals, paired differences, contrasts
    algorithm  which program a trained network is, and how far from it
    by_predictions  the same, where weights do not say
    config     typed settings of a run, read from TOML
    train      one run: checkpoints, resuming, several processes
    progress   how far it is
    evaluate   a run beside its baselines
    ensemble   many seeds at once, for experiments, trained by trainer with optimizers
    study      arms compared by one method: searched alike, 20 seeds, paired
    sweep      many runs over any executor
    experiments, answers, report   the questions, and the pages that answer them

Of the files here, those that compute import torch (from `tensors`, which says what to install where
it is missing); `import inweave` loads none of them.
"""
