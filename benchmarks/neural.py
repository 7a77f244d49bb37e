"""Compare GRU-P, GRU-503 and LSTM with a torch loop written the reference's way.

    python benchmarks/neural.py [--data DIR --user N] [--weights DIR] [--models GRU-P,LSTM]

Same learner, same five folds, same initial weights. Timed are, after one fold to
warm up, the training of five folds and the prediction of their test parts, from trials
that are ready. Each side runs in a process of its own, one after the other; its peak
memory is that of the whole process, libraries included. srs-eval uses one thread, the
loop three, as srs-benchmark sets it (--torch-threads). Log losses must agree.

The loop does what srs-benchmark does: every review's whole history is a sequence of its
own, padded to the longest of its batch; the network's output is computed at all positions;
GRU-P's loss over all batches is computed before each epoch and at the end. DIR has the
layout of anki-revlogs-10k; without it a learner is simulated.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from srs_eval.data.reviews import FloatArray, IntArray
from srs_eval.data.trials import Trials
from srs_eval.engine.session import LearnerSession
from srs_eval.metrics import log_loss
from srs_eval.models import Context
from srs_eval.models.configurations import resolve_configurations
from srs_eval.models.kinds import TrainedModel

TARGETS = {
    "GRU-P": 4.0,
    "GRU-P-short": 4.0,
    "GRU-503": 10.0,
    "LSTM": 50.0,
}  # required speed ratio to the loop
MOST_MEMORY_MB = 1500


def main() -> None:
    parser = argparse.ArgumentParser(description="networks: time and memory against a torch loop")
    parser.add_argument("--data", type=Path, help="folder in the layout of anki-revlogs-10k")
    parser.add_argument("--user", type=int, default=1)
    parser.add_argument("--weights", type=Path, help="folder of pretrained weights")
    parser.add_argument("--models", default="GRU-P,GRU-P-short,GRU-503,LSTM")
    parser.add_argument("--torch-threads", type=int, default=3)
    parser.add_argument("--side", choices=("srs-eval", "loop"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        print(json.dumps(measure_side(options)))
        return
    with tempfile.TemporaryDirectory() as folder:
        if options.data is None:
            from tools.simulated import simulate_learner, write_dataset

            write_dataset({options.user: simulate_learner(1, 12_000)}, Path(folder))
            options.data = Path(folder)
        missed = [compare(name, options) for name in options.models.split(",")]
    sys.exit(any(missed))


def compare(name: str, options: argparse.Namespace) -> bool:
    """Print one model's line and return whether it misses a target."""
    load = os.getloadavg()[0]
    loop, ours = (run_in_process(name, side, options) for side in ("loop", "srs-eval"))
    times = loop["seconds"] / ours["seconds"]
    print(
        f"{name}, user {options.user}, {ours['evaluated']} evaluated (load {load:.1f})\n"
        f"  loop      {loop['seconds']:8.2f} s  {loop['peak_mb']:6.0f} MB  "
        f"log loss {loop['log_loss']:.6f}  ({options.torch_threads} threads)\n"
        f"  srs-eval  {ours['seconds']:8.2f} s  {ours['peak_mb']:6.0f} MB  "
        f"log loss {ours['log_loss']:.6f}  (1 thread)\n"
        f"  {times:.1f} times as fast; target {TARGETS.get(name, 1.0):.0f}",
        flush=True,
    )
    differs = abs(loop["log_loss"] - ours["log_loss"]) > 1e-3
    return times < TARGETS.get(name, 1.0) or ours["peak_mb"] > MOST_MEMORY_MB or differs


def run_in_process(name: str, side: str, options: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, __file__, "--side", side, "--models", name]
    command += ["--data", str(options.data), "--user", str(options.user)]
    command += ["--torch-threads", str(options.torch_threads)]
    if options.weights is not None:
        command += ["--weights", str(options.weights)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def measure_side(options: argparse.Namespace) -> dict[str, Any]:
    from srs_eval.data.datasets import open_dataset

    configuration = resolve_configurations(options.models)[0]
    model = configuration.model
    trials = LearnerSession(open_dataset(options.data).load(options.user)).trials(
        configuration.protocol
    )
    context = Context(weights=options.weights, user=options.user)
    if options.side == "srs-eval":

        def run_fold(train: IntArray, test: IntArray) -> FloatArray:
            assert isinstance(model, TrainedModel)
            assert model.fit is not None
            assert model.predict is not None
            fitted = model.fit(trials, train, np.ones(len(train)), context)
            return model.predict(trials, fitted, test, context)
    else:
        import torch

        torch.set_num_threads(options.torch_threads)
        loop = {"GRU-P": run_gru_p_loop, "GRU-503": run_gru_503_loop}.get(model.name, run_lstm_loop)

        def run_fold(train: IntArray, test: IntArray) -> FloatArray:
            return loop(trials, train, test, context)

    first = trials.folds[0]
    run_fold(first.train, first.test)
    trials._derived.clear()  # time shared between folds counts, too
    start = time.perf_counter()
    p = np.concatenate([run_fold(split.train, split.test) for split in trials.folds])
    seconds = time.perf_counter() - start
    y = trials.y[trials.test_index]
    return {
        "seconds": seconds,
        "peak_mb": read_peak_mb(),
        "log_loss": log_loss(y, p),
        "evaluated": len(y),
    }


def read_peak_mb() -> float:
    """Return the peak memory of this process."""
    status = Path("/proc/self/status")
    if status.exists():
        (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    import resource

    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size / (1 << 20 if sys.platform == "darwin" else 1 << 10)


# The loop


def pad_sequences(
    trials: Trials, rows: IntArray, columns: list[FloatArray], shift: int
) -> tuple[Any, Any]:
    """Return sequences (longest, n, columns), padded with 0, and their lengths (n,)."""
    import torch

    lengths = torch.from_numpy(trials.sequence_length[rows])
    sequences = []
    for row in rows:
        start = int(trials.history_start[row])
        end = int(trials.history_end[row])
        features = [columns[0][start + shift : end + shift]]
        features += [column[start:end] for column in columns[1:]]
        sequences.append(torch.from_numpy(np.stack(features, axis=1).astype(np.float32)))
    return torch.nn.utils.rnn.pad_sequence(sequences), lengths


def make_batches(
    trials: Trials,
    rows: IntArray,
    size: int,
    columns: list[FloatArray],
    days: FloatArray,
    weights: FloatArray,
    shift: int = 0,
) -> list[Any]:
    import torch

    batches = []
    for first in range(0, len(rows), size):
        batch = rows[first : first + size]
        sequences, lengths = pad_sequences(trials, batch, columns, shift)
        batches.append(
            (
                sequences,
                lengths,
                torch.from_numpy(days[batch].astype(np.float32)),
                torch.from_numpy(trials.y[batch].astype(np.float32)),
                torch.from_numpy(weights[first : first + size].astype(np.float32)),
            )
        )
    return batches


def run_gru_p_loop(trials: Trials, train: IntArray, test: IntArray, context: Context) -> FloatArray:
    import torch
    from torch import nn

    from srs_eval.models import gru
    from srs_eval.training.networks import list_weight_names, load_network_weights
    from srs_eval.training.optimisers import sort_by_length

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn = nn.GRU(2, 8)
            self.fc = nn.Linear(8, 1)

        def forward(self, sequences: Any, lengths: Any, days: Any) -> Any:
            everywhere = torch.sigmoid(self.fc(self.rnn(sequences)[0]))
            return everywhere[lengths - 1, torch.arange(len(lengths)), 0]

    tensors = load_network_weights(
        list_weight_names("GRU-P", trials.protocol), gru._GRU_P.shapes, context
    )
    assert tensors is not None
    network = Network()
    network.load_state_dict({name: torch.from_numpy(t.copy()) for name, t in tensors.items()})
    columns = [trials.history_delta_t, trials.history_rating.astype(float)]
    rows = train[trials.sequence_length[train] <= trials.protocol.max_seq_len]
    rows = sort_by_length(trials, rows)
    weights = np.ones(len(rows))
    batches = make_batches(trials, rows, 512, columns, trials.delta_t, weights, shift=1)
    loss_of = nn.BCELoss(reduction="none")
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-2, weight_decay=1e-5)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=len(batches) * 16)
    generator = torch.Generator().manual_seed(2023)

    def evaluate() -> None:
        network.eval()
        with torch.no_grad():
            for sequences, lengths, days, y, weight in batches:
                (loss_of(network(sequences, lengths, days), y) * weight).sum().item()

    for _ in range(16):
        evaluate()
        for k in torch.randperm(len(batches), generator=generator).tolist():
            sequences, lengths, days, y, weight = batches[k]
            network.train()
            optimizer.zero_grad()
            (loss_of(network(sequences, lengths, days), y) * weight).sum().backward()
            optimizer.step()
            schedule.step()
    evaluate()
    return predict_batches(
        network,
        make_batches(trials, test, 8192, columns, trials.delta_t, np.ones(len(test)), shift=1),
    )


def compute_recall(network: Any, h: Any, lengths: Any, days: Any) -> Any:
    """Return recall by the mixed power curves of a network's last layers, after the last review."""
    import torch

    everywhere = (
        torch.softmax(network.share(h), dim=-1),
        torch.exp(network.stability(h).clamp(-25, 25)),
        torch.exp(network.exponent(h).clamp(-25, 25)),
    )
    last_reviews = lengths - 1, torch.arange(len(lengths))
    w, s, d = (values[last_reviews] for values in everywhere)
    return (1 - 1e-7) * (w * (1 + days[:, None] / (1e-7 + s)) ** -d).sum(dim=-1)


def run_gru_503_loop(
    trials: Trials, train: IntArray, test: IntArray, context: Context
) -> FloatArray:
    import torch
    from torch import nn

    from srs_eval.models import gru_503
    from srs_eval.training.optimisers import compute_relative_recency_weights

    start = gru_503.load_pretrained(context)

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()

            def norm() -> nn.LayerNorm:
                return nn.LayerNorm(7, bias=False)

            self.first = nn.Sequential(nn.Linear(5, 7), nn.SiLU(), norm())
            self.gru = nn.GRU(7, 7)
            self.last = nn.Sequential(norm(), nn.Linear(7, 7), nn.SiLU(), norm())
            self.share, self.stability, self.exponent = (nn.Linear(7, 2) for _ in range(3))

        def forward(self, x: Any, lengths: Any, days: Any) -> Any:
            delay, grade = x.split(1, dim=-1)
            delay = ((1e-5 + delay).log() - start.mean) / start.deviation
            one_hot = nn.functional.one_hot(grade.clamp(min=1).squeeze(-1).long() - 1, 4)
            h = self.first(torch.cat([delay, one_hot.float()], dim=-1))
            h = self.last(self.gru(h)[0])
            return compute_recall(self, h, lengths, days)

    network = Network()
    # The network defines its parameters in the same order as ours.
    values = torch.from_numpy(start.values.astype(np.float32))
    nn.utils.vector_to_parameters(values, network.parameters())
    columns = [trials.history_delta_t, trials.history_rating.astype(float)]
    weights = compute_relative_recency_weights(len(train), *gru_503._RECENCY)
    shuffle = np.random.RandomState(2025).permutation(len(train))
    shuffle = shuffle[trials.sequence_length[train[shuffle]] <= trials.protocol.max_seq_len]
    days = trials.delta_t
    batches = make_batches(trials, train[shuffle], 8192, columns, days, weights[shuffle])
    optimizer = torch.optim.AdamW(
        network.parameters(),
        lr=1.0,
        betas=gru_503._BETAS,
        weight_decay=float(gru_503._DECAY.default),
    )
    if start.adam_mean is not None and start.adam_square is not None:
        offset = 0
        for parameter in network.parameters():
            span = slice(offset, offset + parameter.numel())
            offset = span.stop
            mean, square = (
                torch.from_numpy(moment[span].astype(np.float32)).reshape(parameter.shape)
                for moment in (start.adam_mean, start.adam_square)
            )
            step = torch.tensor(float(start.adam_steps))
            optimizer.state[parameter] = {"step": step, "exp_avg": mean, "exp_avg_sq": square}
    loss_of = nn.BCELoss(reduction="none")
    network.train()
    for rate in gru_503._make_schedule(context).rates.tolist():
        optimizer.param_groups[0]["lr"] = rate
        for sequences, lengths, delta_t, y, weight in batches:
            optimizer.zero_grad()
            loss = (loss_of(network(sequences, lengths, delta_t), y) * weight).mean()
            current = nn.utils.parameters_to_vector(network.parameters())
            pull = gru_503._PULL.default * ((current - values) ** 2).sum()
            (loss * len(y) ** gru_503._BATCH_EXPONENT + pull).backward()
            nn.utils.clip_grad_norm_(network.parameters(), gru_503._LONGEST_GRADIENT)
            optimizer.step()
    test_weights = np.ones(len(test))
    return predict_batches(network, make_batches(trials, test, 8192, columns, days, test_weights))


def run_lstm_loop(trials: Trials, train: IntArray, test: IntArray, context: Context) -> FloatArray:
    import torch
    from torch import nn

    from srs_eval.models import lstm

    class Layer(nn.Module):
        def __init__(self, bias: bool) -> None:
            super().__init__()
            self.norm = nn.LayerNorm(20, bias=bias)
            self.module = nn.LSTM(20, 20)

        def forward(self, h: Any) -> Any:
            return h + self.module(self.norm(h))[0]

    class Network(nn.Module):
        mean: torch.Tensor
        deviation: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            linear = nn.Linear
            silu = nn.SiLU()
            self.first = nn.Sequential(
                linear(6, 20), silu, nn.LayerNorm(20, bias=False), linear(20, 20), silu
            )
            self.recurrent_1 = Layer(False)
            self.recurrent_2 = Layer(True)
            self.mix = nn.Sequential(
                nn.LayerNorm(20, bias=False), linear(20, 20), silu,
                nn.LayerNorm(20, bias=False), linear(20, 20), silu,
            )  # fmt: skip
            self.last = nn.Sequential(nn.LayerNorm(20, bias=False), linear(20, 20), silu)
            self.share, self.stability, self.exponent = (linear(20, 3) for _ in range(3))

        def forward(self, x: Any, lengths: Any, days: Any) -> Any:
            delay, duration, grade = x.split(1, dim=-1)
            both = torch.cat([(1e-5 + delay).log(), duration.clamp(100, 60_000).log()], dim=-1)
            both = (both - self.mean) / self.deviation
            one_hot = nn.functional.one_hot(grade.clamp(min=1).squeeze(-1).long() - 1, 4)
            h = self.first(torch.cat([both, one_hot.float()], dim=-1))
            h = self.recurrent_2(self.recurrent_1(h))
            h = self.last(h + self.mix(h))
            return compute_recall(self, h, lengths, days)

    start = lstm._load_start(False, context)
    network = Network()
    # Both networks define their parameters in the same order.
    for parameter, tensor in zip(network.parameters(), start.tensors.values(), strict=True):
        parameter.data = torch.from_numpy(tensor.copy())
    network.mean = torch.from_numpy(start.mean.copy())
    network.deviation = torch.from_numpy(start.deviation.copy())
    columns = [
        trials.history_delta_t,
        trials.history_duration_ms.astype(float),
        trials.history_rating.astype(float),
    ]
    days = trials.elapsed_days.astype(float)
    train = train[days[train] > 0]
    x = np.linspace(0, 1, len(train))
    weights = 1 + 6.49 * x**2.4758
    weights *= len(train) / weights.sum()
    shuffle = np.random.RandomState(2025).permutation(len(train))
    shuffle = shuffle[trials.sequence_length[train[shuffle]] <= trials.protocol.max_seq_len]
    batches = make_batches(trials, train[shuffle], 16_384, columns, days, weights[shuffle])
    pretrained = torch.cat([parameter.detach().flatten() for parameter in network.parameters()])
    optimizer = torch.optim.AdamW(
        network.parameters(), lr=1.0, betas=(0.0, 0.999), weight_decay=0.04855
    )
    loss_of = nn.BCELoss(reduction="none")
    network.train()
    for number in range(20):
        for settings in optimizer.param_groups:
            settings["lr"] = lstm.rate_of_pass(number)
        for sequences, lengths, delta_t, y, weight in batches:
            optimizer.zero_grad()
            loss = (loss_of(network(sequences, lengths, delta_t), y) * weight).mean()
            current = torch.cat([parameter.flatten() for parameter in network.parameters()])
            pull = ((current - pretrained) ** 2).sum()
            (loss * len(y) ** 1.2103 + 0.000244 * pull).backward()
            nn.utils.clip_grad_norm_(network.parameters(), 7050.0)
            optimizer.step()
    test_weights = np.ones(len(test))
    return predict_batches(network, make_batches(trials, test, 8192, columns, days, test_weights))


def predict_batches(network: Any, batches: list[Any]) -> FloatArray:
    import torch

    network.eval()
    with torch.no_grad():
        predictions = [
            network(sequences, lengths, days).double().numpy()
            for sequences, lengths, days, _, _ in batches
        ]
    return np.concatenate(predictions)


if __name__ == "__main__":
    main()
