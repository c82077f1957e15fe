"""One optimisation step; its inputs and its state lie on the device, so that it can be captured."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from edgenas_core.types.errors import UserError
from nas.fit.data.image_set import UNLABELLED, ImageSet
from nas.fit.learners.base import blamed, scalar_loss
from nas.fit.learners.data import LearnerData
from nas.fit.learners.of_images import ImageLearner
from nas.fit.training.device import has_overlapping_pools
from nas.fit.training.network import classifiers
from nas.fit.training.recipe import Recipe
from nas.fit.training.replicas import part_of_batch, sum_over_processes


@final
class Normalised(nn.Module):
    """A network behind the conversion of bytes to numbers of mean 0 and standard deviation 1.

    Outputs are converted to a `unit`, a mean and a standard deviation. Without a mean, inputs are as the network takes them. On a GPU it computes in bfloat16, where autocast does not keep float32.
    """

    def __init__(
        self,
        network: nn.Module,
        mean: tuple[float, ...] | None,
        sd: tuple[float, ...] | None,
        device: torch.device,
        unit: tuple[float, float] = (0.0, 1.0),
    ) -> None:
        """Moves the network to the device."""
        super().__init__()
        self.network = network.to(device)
        self._lay_out(layout_for(network, device))
        self._mean, self._sd = (
            None if each is None else torch.tensor(each, device=device) * 255 for each in (mean, sd)
        )
        self._device, self._unit = device, unit

    def forward(self, *inputs: Any) -> Any:
        """Outputs: of a tensor of bytes, channels last, or of what the network takes."""
        if self._mean is not None:
            images = ((inputs[0] - self._mean) / self._sd).permute(0, 3, 1, 2)  # channels last
            inputs = (images.contiguous(memory_format=self._layout),)
        try:
            return self._outputs(inputs)
        except RuntimeError as error:
            if self._layout is torch.contiguous_format or not needs_contiguous(error):
                raise
        self._lay_out(torch.contiguous_format)
        return self._outputs(
            [each.contiguous() if isinstance(each, Tensor) else each for each in inputs]
        )

    def choose_layout(self, *inputs: Any) -> None:
        """Compute these inputs once, which finds a memory format that the network runs in.

        An optimizer's state has the memory format of the weights, so this comes before it.
        """
        was_training = self.training
        self.eval()
        with torch.no_grad():
            self(*inputs)
        self.train(was_training)

    def _lay_out(self, layout: torch.memory_format) -> None:
        self._layout = layout
        self.network.to(memory_format=layout)  # type: ignore[call-overload]  # torch's stubs lack it

    def _outputs(self, inputs: Sequence[Any]) -> Any:
        if self._device.type != "cuda":
            return self._in_unit(self.network(*inputs))
        with torch.autocast(
            "cuda", torch.bfloat16, cache_enabled=False
        ):  # a capture keeps no casts
            outputs = self.network(*inputs)
        return self._in_unit(outputs.float()) if isinstance(outputs, Tensor) else outputs

    def _in_unit(self, outputs: Any) -> Any:
        mean, sd = self._unit
        # in double: float32 has no digits left for 1,000,000 +- 1
        return outputs if (mean, sd) == (0, 1) else mean + sd * outputs.double()


def normalised_for(images: ImageSet, network: nn.Module, device: torch.device) -> Normalised:
    """A network that takes bytes of images and answers in their unit."""
    return Normalised(network, images.mean, images.sd, device, images.unit)


def needs_contiguous(error: RuntimeError) -> bool:
    """Whether the error is that of `view` on feature maps in channels last."""
    return "view size is not compatible" in str(error)


def runnable_layout(network: nn.Module, example: Float[Tensor, "n c h w"]) -> torch.memory_format:
    """Give a network the memory format of channels last, or the contiguous one if it does not run in that."""
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's stubs lack it
    try:
        with torch.no_grad():
            network(example.contiguous(memory_format=torch.channels_last))
    except RuntimeError as error:
        if not needs_contiguous(error):
            raise
        network.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]  # torch's stub lacks it
        return torch.contiguous_format
    return torch.channels_last


def layout_for(network: nn.Module, device: torch.device) -> torch.memory_format:
    """Memory format that a network is trained in: channels last, unless a backward kernel fails with it."""
    if device.type == "cuda":
        fails = has_overlapping_pools(network)
    else:
        fails = any(map(_overflows, network.modules()))
    return torch.contiguous_format if fails else torch.channels_last


def _overflows(module: nn.Module) -> bool:
    """Whether oneDNN (3.10 to 3.12 at least) may write past a buffer of a convolution's gradient.

    It does with channels last, where threads have unequal parts of the batch and channels are padded.
    """
    return (
        isinstance(module, nn.Conv2d)
        and module.kernel_size == (1, 1) != module.stride
        and module.in_channels % 16 != 0
    )


class Step(ABC):
    """Takes the next batch of a segment, and updates the network, its average and the counters."""

    def __init__(
        self,
        model: Normalised,
        recipe: Recipe,
        *,
        batch_size: int,
        steps: int,
        device: torch.device,
    ) -> None:
        """Allocates all memory but that of the activations.

        Args:
          model: lies on the device.
          recipe: for optimizer and loss.
          batch_size: images in a batch.
          steps: of the whole training.
          device: that everything lies on.
        """
        self.model = model
        self.is_captured = False
        """Whether a GPU replays it as a CUDA graph."""
        self.loaded = 0
        """Batches of the segment."""
        self.micro_batches = 1
        """Parts of a batch that go through the network one after another; divides the batch."""
        self.batch_size = batch_size
        self.subnetworks: Sequence[Callable[[], object]] = (lambda: None,)
        """Each makes the network compute one of its parts; the first part's outputs teach the others."""
        self._recipe = recipe
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
        self._optimizer = self._make_optimizer(device)
        self._momenta = self._allocate_momenta(device)
        self._averaged = {
            name: tensor
            for name, tensor in model.network.state_dict().items()
            if recipe.ema and tensor.is_floating_point()
        }
        self._average = {name: tensor.clone() for name, tensor in self._averaged.items()}
        self._forgetting = 1 - np.exp(-1 / (recipe.ema * steps)).item() if recipe.ema else 0.0

    def _make_optimizer(self, device: torch.device) -> torch.optim.Optimizer:
        """Optimizer of the recipe, with a learning rate of its own for all weights but the classifier's."""
        recipe = self._recipe
        groups: list[dict[str, Any]] = [{"params": list(self._weights.values())}]
        if recipe.body_lr != 1:
            new = tuple(f"{name}." for name in classifiers(self.model.network))
            head, body = (
                [each for name, each in self._weights.items() if name.startswith(new) is is_new]
                for is_new in (True, False)
            )
            groups = [{"params": head}, {"params": body, "lr": self._body_lr}]
        groups = [group for group in groups if group["params"]]
        settings: dict[str, Any] = {"lr": self._lr, "weight_decay": recipe.weight_decay}
        if recipe.adamw:
            is_gpu = device.type == "cuda"
            return torch.optim.AdamW(groups, fused=True, capturable=is_gpu, **settings)
        momentum = recipe.momentum
        return torch.optim.SGD(groups, momentum=momentum, nesterov=True, fused=True, **settings)

    def _allocate_momenta(self, device: torch.device) -> dict[str, Tensor]:
        """State of the optimizer by name, allocated before the first step so that a capture finds it."""
        momenta: dict[str, Tensor] = {}
        for name, weight in self._weights.items():
            state = self._optimizer.state[weight]
            if self._recipe.adamw:
                state |= {"step": torch.zeros((), device=device)}
                state |= {each: torch.zeros_like(weight) for each in ("exp_avg", "exp_avg_sq")}
            else:
                state["momentum_buffer"] = torch.zeros_like(weight)
            momenta |= {f"{name}.{each}": tensor for each, tensor in state.items()}
        return momenta

    @abstractmethod
    def load(self, *segment: Any) -> None:
        """Begin a segment, as batches yield it."""

    @abstractmethod
    def _parts(self) -> Sequence[tuple[Any, float]]:
        """Parts of the next batch, each with its share of the batch."""

    @abstractmethod
    def _backward(self, batch: Any, share: float) -> Float[Tensor, ""]:
        """Add the gradients of each subnetwork's loss; returns the first one's mean loss."""

    def go_to(self, step: int) -> None:
        """Set the number of the next step, which determines the learning rate."""
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
            parts = self._parts()
            self._lr.copy_(self._rates.index_select(0, self._step)[0])
            torch.mul(self._lr, self._recipe.body_lr, out=self._body_lr)
            self._optimizer.zero_grad(set_to_none=True)
            loss = torch.zeros_like(self._lr)
            for part, share in parts:
                loss += self._backward(part, share) * share
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

    def state(self) -> dict[str, Tensor]:
        """All that a step changes, by name; the tensors themselves, not copies."""
        return {
            **_add_prefix("network", self.model.network.state_dict()),
            **_add_prefix("momentum", self._momenta),
            **_add_prefix("average", self._average),
            "losses": self.losses,
            "counter.batch": self._batch,
            "counter.step": self._step,
        }

    @contextmanager
    def with_average(self) -> Iterator[None]:
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


@final
class ImageStep(Step):
    """Training step on labelled images; a segment of batches is on the device."""

    def __init__(
        self,
        model: Normalised,
        recipe: Recipe,
        learner: ImageLearner,
        *,
        segment: tuple[int, int, int],  # steps, side, channels
        batch_size: int,
        steps: int,
        device: torch.device,
        taught_share: float | None = None,
    ) -> None:
        """Allocates a segment of batches, in addition to the memory of every step.

        With a `taught_share`, it learns the answers of teachers, of images with a label by this share, of others
        alone.
        """
        in_segment, side, channels = segment
        model.choose_layout(
            torch.zeros((2, side, side, channels), dtype=torch.uint8, device=device)
        )
        super().__init__(model, recipe, batch_size=batch_size, steps=steps, device=device)
        self.is_captured = True
        self._learner, self._smoothing = learner, recipe.label_smoothing
        images = in_segment * batch_size
        self._pixels = torch.empty((images, side, side, channels), dtype=torch.uint8, device=device)
        self._labels = torch.empty(images, dtype=torch.int64, device=device)
        outputs = 0 if taught_share is None else len(learner.images.outputs)
        self._share = taught_share or 0.0
        self._answers = torch.empty((images, outputs), device=device)
        self._in_batch = torch.arange(batch_size, device=device)

    def load(self, *segment: Any) -> None:
        """Copy pixels, labels and answers to the device; a segment may be shorter than the allocated one."""
        pixels, labels, answers = segment
        self._pixels[: len(pixels)] = pixels
        self._labels[: len(labels)] = labels
        self._answers[: len(answers)] = answers
        self._batch.zero_()
        self.loaded = len(pixels) // self.batch_size

    def _parts(self) -> Sequence[tuple[Any, float]]:
        which = self._in_batch + self._batch * self.batch_size
        tensors = (each[which] for each in (self._pixels, self._labels, self._answers))
        parts = (each.chunk(self.micro_batches) for each in part_of_batch(*tensors))
        every = zip(*parts, strict=True)
        return [(part, len(part[0]) / self.batch_size) for part in every]

    def _backward(self, batch: Any, share: float) -> Float[Tensor, ""]:
        pixels, truth, answers = batch
        first, *others = self.subnetworks
        first()
        logits = self.model(pixels)
        losses = self._learner.criterion(logits, truth.clamp(min=0), self._smoothing)
        if answers.shape[1]:
            taught = self._learner.distilled(logits, answers)
            weight = torch.where(truth == UNLABELLED, 1.0, self._share)
            losses = torch.lerp(losses, taught, weight)
        loss = losses.mean()
        (loss * share).backward()
        for choose in others:
            choose()
            taught = self._learner.distilled(self.model(pixels), logits.detach())
            (taught.mean() * share).backward()
        return loss.detach()


@final
class LearnerStep(Step):
    """A step on one batch of a learner; its loss is that of each subnetwork."""

    def __init__(
        self,
        model: Normalised,
        recipe: Recipe,
        data: LearnerData,
        *,
        steps: int,
        device: torch.device,
        is_captured: bool = False,
    ) -> None:
        """Trains by the loss of a learner. A captured step needs batches that are tuples of tensors of fixed shapes."""
        model.choose_layout(data.example.to(device).repeat_interleave(2, 0))
        super().__init__(model, recipe, batch_size=1, steps=steps, device=device)
        self.is_captured, self._data = is_captured, data
        self._segment: tuple[Any, ...] = ()

    def load(self, *segment: Any) -> None:
        """Take one batch, whose size the learner decides.

        Raises:
          UserError: if a step is captured, and the batch has other shapes than the first.
        """
        self.loaded = 1
        if not self.is_captured:
            self._segment = segment
            return
        (batch,) = segment
        if not self._segment:  # a copy, as the learner may keep its batches
            self._segment = (tuple(tensor.clone() for tensor in batch),)
            return
        shapes, before = (
            [tuple(each.shape) for each in every] for every in (batch, self._segment[0])
        )
        if shapes != before:
            raise UserError(
                f"learner={self._data.name} has equal steps, but batches of {before} and of {shapes}; "
                "leave has_equal_steps out, or drop the last batch"
            )
        for held, tensor in zip(self._segment[0], batch, strict=True):
            held.copy_(tensor)  # where the captured step reads it

    def _parts(self) -> Sequence[tuple[Any, float]]:
        return [(batch, 1.0) for batch in self._segment]

    def _backward(self, batch: Any, share: float) -> Float[Tensor, ""]:
        losses = []
        for choose in self.subnetworks:
            choose()
            with blamed(f"the loss of learner={self._data.name}"):
                loss = self._data.learner.loss(self.model, batch)
            loss = scalar_loss(loss, self._data.name)
            (loss * share).backward()
            losses.append(loss.detach().float())
        return losses[0]


def _add_prefix(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}


def copy_state(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copy all tensors."""
    return {name: tensor.detach().clone() for name, tensor in state.items()}


def restore(state: Mapping[str, Tensor], earlier: Mapping[str, Tensor]) -> None:
    """Write earlier values into tensors in place, so that a captured step sees them."""
    with torch.no_grad():
        for name, tensor in state.items():
            tensor.copy_(earlier[name])
