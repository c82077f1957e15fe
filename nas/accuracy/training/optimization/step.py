"""One optimisation step; its inputs and its state lie on the device, so that it can be captured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Float, Int64, UInt8
from torch import Tensor, nn
from torch.nn import functional

from nas.accuracy.training.optimization.average_pool import exact_average_pools
from nas.accuracy.training.optimization.replicas import part_of_batch, sum_over_processes
from nas.accuracy.training.recipe import Recipe


@final
class Normalised(nn.Module):
    """A network behind the conversion of bytes to numbers of mean 0 and standard deviation 1.

    On a GPU it computes in bfloat16, where autocast does not keep float32.
    """

    def __init__(
        self,
        network: nn.Module,
        mean: tuple[float, ...],
        sd: tuple[float, ...],
        device: torch.device,
    ) -> None:
        """Moves the network to the device."""
        super().__init__()
        self.network = network.to(device)
        overflows = device.type == "cpu" and any(map(_overflows, network.modules()))
        self._layout = torch.contiguous_format if overflows else torch.channels_last
        network.to(memory_format=self._layout)  # type: ignore[call-overload]  # torch's stubs lack it
        self._mean = torch.tensor(mean, device=device) * 255
        self._sd = torch.tensor(sd, device=device) * 255
        self._device = device

    def forward(self, pixels: UInt8[Tensor, "n side side channels"]) -> Float[Tensor, "n classes"]:
        """Logits."""
        images = ((pixels - self._mean) / self._sd).permute(0, 3, 1, 2)  # channels last in memory
        images = images.contiguous(memory_format=self._layout)
        if self._device.type != "cuda":
            logits: Tensor = self.network(images)
            return logits
        with (
            exact_average_pools(self.network),
            torch.autocast("cuda", torch.bfloat16, cache_enabled=False),  # no casts of a capture
        ):
            logits = self.network(images)
        return logits.float()


def _overflows(module: nn.Module) -> bool:
    """Whether oneDNN (3.10 to 3.12 at least) may write past a buffer of a convolution's gradient.

    It does with channels last, where threads have unequal parts of the batch and channels are padded.
    """
    return (
        isinstance(module, nn.Conv2d)
        and module.kernel_size == (1, 1) != module.stride
        and module.in_channels % 16 != 0
    )


@final
class Step:
    """Takes the next batch of a segment, and updates the network, its average and the counters."""

    def __init__(
        self,
        model: Normalised,
        recipe: Recipe,
        *,
        segment: tuple[int, int, int],  # steps, side, channels
        batch_size: int,
        steps: int,
        device: torch.device,
        teacher: Normalised | None = None,
    ) -> None:
        """Allocates all memory but that of the activations.

        Args:
          model: lies on the device.
          recipe: for optimizer and loss.
          segment: batches in memory at once, and the size of their images.
          batch_size: images in a batch.
          steps: of the whole training.
          device: that everything lies on.
          teacher: network whose outputs are learnt as much as the labels (Hinton et al., 2015).
        """
        in_segment, side, channels = segment
        self.model, self._teacher = model, teacher
        self.micro_batches = 1
        """Parts of a batch that go through the network one after another; divides the batch."""
        self.batch_size = batch_size
        self.subnetworks: Sequence[Callable[[], object]] = (lambda: None,)
        """Each makes the network compute one of its parts; the first part's outputs teach the others."""
        self._recipe = recipe
        images = in_segment * batch_size
        self._pixels = torch.empty((images, side, side, channels), dtype=torch.uint8, device=device)
        self._labels = torch.empty(images, dtype=torch.int64, device=device)
        self._in_batch = torch.arange(batch_size, device=device)
        self._batch = torch.zeros(1, dtype=torch.int64, device=device)  # in the segment
        self._step = torch.zeros(1, dtype=torch.int64, device=device)  # in the training
        self._schedule = np.arange(steps)  # step of the recipe's schedule at each step
        rates = [recipe.lr_at(step, steps) for step in range(steps)]
        self._rates = torch.tensor(rates, dtype=torch.float32, device=device)
        self.losses = torch.zeros(steps, device=device)
        """Loss of each step."""
        self._weights = {
            name: weight
            for name, weight in model.network.named_parameters()
            if weight.requires_grad
        }
        self._lr = torch.tensor(recipe.lr, device=device)
        self._body_lr = torch.tensor(recipe.lr * recipe.body_lr, device=device)
        groups: list[dict[str, Any]] = [{"params": list(self._weights.values())}]
        if recipe.body_lr != 1:
            head = {*last_linear(model.network).parameters()}
            body = [weight for weight in self._weights.values() if weight not in head]
            groups = [{"params": list(head)}, {"params": body, "lr": self._body_lr}]
        self._optimizer = torch.optim.SGD(
            [group for group in groups if group["params"]],
            lr=self._lr,
            momentum=recipe.momentum,
            weight_decay=recipe.weight_decay,
            nesterov=True,
            fused=True,
        )
        self._momenta: dict[str, Tensor] = {}
        for name, weight in self._weights.items():
            momentum = torch.zeros_like(weight)
            self._optimizer.state[weight]["momentum_buffer"] = momentum
            self._momenta[name] = momentum
        self._averaged = {
            name: tensor
            for name, tensor in model.network.state_dict().items()
            if recipe.ema and tensor.is_floating_point()
        }
        self._average = {name: tensor.clone() for name, tensor in self._averaged.items()}
        self._forgetting = 1 - np.exp(-1 / (recipe.ema * steps)).item() if recipe.ema else 0.0

    def load(
        self, pixels: UInt8[Tensor, "m side side channels"], labels: Int64[Tensor, "m"]
    ) -> None:
        """Begin a segment, which may be shorter than the longest."""
        self._pixels[: len(pixels)] = pixels
        self._labels[: len(labels)] = labels
        self._batch.zero_()

    def go_to(self, step: int) -> None:
        """Set the number of the next step, which the learning rate depends on."""
        self._step.fill_(step)

    def reschedule(self, step: int, steps: int) -> None:
        """Go through the rest of the learning rates from this step on, to the end of `steps` in all."""
        total, last = len(self._schedule), self._schedule[:steps]
        now = int(self._schedule[step])
        positions = np.linspace(now, total, steps - step, endpoint=False).astype(int)
        if np.array_equal(positions, last[step:]):
            return
        self._schedule[step:steps] = positions
        rates = [self._recipe.lr_at(int(at), total) for at in positions]
        self._rates[step:steps] = torch.tensor(rates, dtype=torch.float32)

    def __call__(self) -> None:
        """Train on one batch."""
        with torch.enable_grad():
            which = self._in_batch + self._batch * self.batch_size
            pixels, labels = part_of_batch(self._pixels[which], self._labels[which])
            self._lr.copy_(self._rates.index_select(0, self._step)[0])
            torch.mul(self._lr, self._recipe.body_lr, out=self._body_lr)
            self._optimizer.zero_grad(set_to_none=True)
            loss = torch.zeros_like(self._lr)
            for part, truth in zip(
                pixels.chunk(self.micro_batches), labels.chunk(self.micro_batches), strict=True
            ):
                loss += self._backward(part, truth) * (len(part) / self.batch_size)
            gradients = [w.grad for w in self._weights.values() if w.grad is not None]
            with torch.no_grad():
                sum_over_processes([*gradients, loss])
        if self._recipe.clip is not None:
            nn.utils.clip_grad_norm_(self._weights.values(), self._recipe.clip, foreach=True)
        self._optimizer.step()
        with torch.no_grad():
            if self._average:
                torch._foreach_lerp_(
                    list(self._average.values()), list(self._averaged.values()), self._forgetting
                )
            self.losses.index_copy_(0, self._step, loss[None])
            self._batch += 1
            self._step += 1

    def _backward(
        self, pixels: UInt8[Tensor, "m side side channels"], truth: Int64[Tensor, "m"]
    ) -> Float[Tensor, ""]:
        """Add the gradients of each subnetwork's loss; returns the first one's mean loss."""
        share = len(pixels) / self.batch_size
        first, *others = self.subnetworks
        first()
        logits = self.model(pixels)
        smoothing = self._recipe.label_smoothing
        loss = functional.cross_entropy(logits, truth, label_smoothing=smoothing)
        if self._teacher is not None:
            with torch.no_grad():
                soft = self._teacher(pixels).softmax(-1)
            loss = (loss + functional.cross_entropy(logits, soft)) / 2
        (loss * share).backward()
        taught = logits.detach().softmax(-1)
        for choose in others:
            choose()
            (functional.cross_entropy(self.model(pixels), taught) * share).backward()
        return loss.detach()

    def state(self) -> dict[str, Tensor]:
        """All that a step changes, by name; the tensors themselves, not copies."""
        return {
            **_prefixed("network", self.model.network.state_dict()),
            **_prefixed("momentum", self._momenta),
            **_prefixed("average", self._average),
            "losses": self.losses,
            "counter.batch": self._batch,
            "counter.step": self._step,
        }

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Run a block with the network's weights replaced by their average, if the recipe has one."""
        kept = {name: tensor.clone() for name, tensor in self._averaged.items()}
        restore(self._averaged, self._average)
        try:
            yield
        finally:
            restore(self._averaged, kept)

    def finish(self) -> None:
        """Leave the average in the network, if the recipe has one, and free the gradients."""
        self._optimizer.zero_grad(set_to_none=True)
        restore(self._averaged, self._average)


def last_linear(network: nn.Module) -> nn.Linear:
    """The classifier."""
    return [module for module in network.modules() if isinstance(module, nn.Linear)][-1]


def _prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}


def copied(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copy all tensors."""
    return {name: tensor.detach().clone() for name, tensor in state.items()}


def restore(state: Mapping[str, Tensor], earlier: Mapping[str, Tensor]) -> None:
    """Write earlier values into tensors in place, so that a captured step sees them."""
    with torch.no_grad():
        for name, tensor in state.items():
            tensor.copy_(earlier[name])
