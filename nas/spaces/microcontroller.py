"""RAM and flash that a network takes on a microcontroller as an int8 .tflite file, without writing the file.

TFLite Micro runs the operations of the file in order, in one arena: activations, each from the operation that
writes it to the last one that reads it, and for good the data of its kernels.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import final

IMAGE = -1
"""Number of the activation that is the network's input."""

PRODUCTS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")
_WITH_RELU = (*PRODUCTS, "ADD", "SUB", "MUL", "AVERAGE_POOL_2D", "MAX_POOL_2D")
"""Operations that can compute a ReLU of their output, too."""

SHARING = {"PAD", "MEAN", "RESHAPE"}
"""Operations with a constant tensor, which is the same for all of them."""

_MERGED = {"RELU", "HARD_SWISH", "AVERAGE_POOL_2D", "QUANTIZE"}
"""Operations that the converter computes once where two of them read the same activation."""

_ALIGNED = 16
"""Bytes to which activations are aligned."""

_FILE = 604
"""Bytes of a file without operations, and some more, so that a file is not larger than what is computed of it."""

_INTERPRETER = 856
"""Bytes of the arena that belong to no operation."""

_KERNEL_BYTES = {
    "ADD": 136,
    "AVERAGE_POOL_2D": 136,
    "CONCATENATION": 266,
    "CONV_2D": 172,
    "DEPTHWISE_CONV_2D": 173,
    "FULLY_CONNECTED": 100,
    "HARD_SWISH": 96,
    "LOGISTIC": 84,
    "MAX_POOL_2D": 136,
    "MEAN": 149,
    "MUL": 114,
    "PAD": 128,
    "QUANTIZE": 97,
    "RELU": 96,
    "RESHAPE": 99,
    "SLICE": 100,
    "SOFTMAX": 100,
    "SUB": 182,
    "TANH": 77,
    "TRANSPOSE": 66,
}
_OTHER_KERNEL = 266
"""Bytes of the arena for each operation, without channels: fitted to what the interpreter reports, never less."""

_WIDE = 49
"""Pixels of the smallest window that a neural processor of the tables left to its processor: 7 by 7."""

WORK = {
    "products": "multiply-accumulates",
    "dense": "of convolutions larger than 1x1",
    "pointwise": "of 1x1 convolutions",
    "depthwise": "of depthwise convolutions",
    "linear": "of matrix products and convolutions of one pixel",
    "parameters": "weights",
    "activations": "elements that convolutions and matrix products read and write",
    "silu": "elements of sigmoids, as of SiLU",
    "gates": "elements that squeeze-and-excitation scales",
    "shuffled": "elements that change their order",
    "wide": "multiply-accumulates of convolutions of 7x7 and larger",
    "spilled": "bytes of activations beyond the fast memory",
}
"""Names of what a network's time is predicted by, each in millions."""


@final
@dataclass(frozen=True)
class Operation:
    """One operation, with the activations that it reads and the sizes of its output and constants."""

    kind: str  # TFLite's name, or that of torch's operation
    inputs: tuple[int, ...]
    elements: int  # of the output
    weights: int = 0  # elements of a kernel or matrix, or of constant operands
    channels: int = 0  # of a convolution or matrix product, each with a bias and scales
    relu: bool = False
    kernel: int = 1  # pixels of a convolution's window
    zeros: int = 0  # elements of a constant of zeros that it reads


@final
@dataclass
class MicroGraph:
    """Operations in the order in which they run; number n writes activation n."""

    image: int  # elements
    operations: list[Operation] = field(default_factory=list)

    def add(
        self,
        kind: str,
        *inputs: int,
        elements: int,
        weights: int = 0,
        channels: int = 0,
        kernel: int = 1,
        zeros: int = 0,
    ) -> int:
        """Append an operation; the number of its output."""
        made = Operation(kind, inputs, elements, weights, channels, kernel=kernel, zeros=zeros)
        self.operations.append(made)
        return len(self.operations) - 1

    def pool_zeros(self, elements: int) -> int:
        """Append an average pool of zeros, which the converter does not fold."""
        pooled = self.add("AVERAGE_POOL_2D", elements=elements, zeros=elements)
        return self.add("QUANTIZE", pooled, elements=elements)

    def converted(self) -> MicroGraph:
        """Operations of the .tflite file that the converter makes of torch's operations.

        What is computed twice is computed once, and what is never read not at all. A normalisation
        becomes part of the convolution before it, and a ReLU of the operation before it, unless what
        that writes is read elsewhere, too.
        """
        raw = self._distinct()
        uses = Counter(number for operation in raw.operations for number in operation.inputs)
        made, place = MicroGraph(self.image), {IMAGE: IMAGE}
        for number, operation in enumerate(raw.operations):
            reads = tuple(place[read] for read in operation.inputs)
            last = made.operations[reads[0]] if reads and reads[0] != IMAGE else None
            is_alone = last is not None and not last.relu and uses[operation.inputs[0]] == 1
            place[number] = made._add_converted(operation, reads, last if is_alone else None)
        return made._distinct()

    def _add_converted(
        self, operation: Operation, reads: tuple[int, ...], last: Operation | None
    ) -> int:
        """Append what an operation becomes; `last` is what computes its input for it alone."""
        kind, size, before = operation.kind, operation.elements, reads[0] if reads else IMAGE
        is_product = last is not None and last.kind in PRODUCTS
        if kind == "BATCH_NORM":
            for part in () if is_product else ("SUB", "MUL"):
                before = self.add(part, before, elements=size, weights=operation.weights)
        elif kind == "RELU" and last is not None and last.kind in _WITH_RELU:
            self.operations.append(replace(last, relu=True))  # it runs here, not where it stood
            before = len(self.operations) - 1
        elif kind == "HARD_SIGMOID":
            for part in ("MUL",) if is_product else ("ADD", "MUL"):
                before = self.add(part, before, elements=size, weights=1)
        elif kind == "SILU":
            gate = self.add("LOGISTIC", before, elements=size)
            before = self.add("MUL", before, gate, elements=size)
        elif kind in {"LEAKY_RELU", "PRELU"}:  # as relu(x) - a relu(-x)
            positive = self.add("RELU", before, elements=size)
            negative = self.add("MUL", before, elements=size, weights=1)
            if kind == "PRELU":
                negative = self.add("MUL", negative, elements=size, weights=operation.weights)
            before = self.add("SUB", positive, negative, elements=size)
        elif kind not in _KERNEL_BYTES:  # in fp32, as the quantiser has none in int8
            before = self._add_in_fp32(kind, reads, size)
        else:
            reads = self._add_each("QUANTIZE", reads) if kind == "CONCATENATION" else reads
            self.operations.append(replace(operation, inputs=reads))
            before = len(self.operations) - 1
        return before

    def _add_in_fp32(self, kind: str, reads: tuple[int, ...], size: int) -> int:
        """Append an operation that has 4 bytes for each element."""
        reads = self._add_each("DEQUANTIZE", reads, 4)
        return self.add("QUANTIZE", self.add(kind, *reads, elements=4 * size), elements=size)

    def _add_each(self, kind: str, reads: tuple[int, ...], each: int = 1) -> tuple[int, ...]:
        """Append an operation on each of the activations, by itself."""
        sizes = [self.image if read == IMAGE else self.operations[read].elements for read in reads]
        return tuple(
            self.add(kind, read, elements=each * size)
            for read, size in zip(reads, sizes, strict=True)
        )

    def _distinct(self) -> MicroGraph:
        """Graph without duplicate operations and operations whose output is not read."""
        first: dict[tuple[str, bool, int, tuple[int, ...]], int] = {}
        same = {IMAGE: IMAGE}
        for number, operation in enumerate(self.operations):
            inputs = tuple(same[read] for read in operation.inputs)
            key = (operation.kind, operation.relu, operation.elements, inputs)
            same[number] = first.setdefault(key, number) if key[0] in _MERGED else number
        needed = {same[len(self.operations) - 1]}
        for number in reversed(range(len(self.operations))):
            if number in needed:
                needed |= {same[read] for read in self.operations[number].inputs}
        kept, place = MicroGraph(self.image), {IMAGE: IMAGE}
        for number in sorted(needed - {IMAGE}):
            operation = self.operations[number]
            place[number] = len(kept.operations)
            inputs = tuple(place[same[read]] for read in operation.inputs)
            kept.operations.append(replace(operation, inputs=inputs))
        return kept

    def memory(self) -> tuple[int, int]:
        """RAM (the arena) and flash (the file) of these operations in a .tflite file, bytes."""
        return memory_of([self.activations()], [self.held()])

    def held(self) -> tuple[int, int]:
        """Bytes that these operations add to the arena for good, and to the file."""
        kinds = Counter(operation.kind for operation in self.operations)
        channels = [operation.channels for operation in self.operations]
        # Zeros are stored once for all operations of a kind that read as many: other kinds have another scale.
        zeros = {(each.kind, each.zeros) for each in self.operations if each.zeros}
        weights = sum(operation.weights for operation in self.operations)
        weights += sum(elements for _, elements in zeros)
        constants = sum(
            2 if operation.channels else operation.weights > 0 for operation in self.operations
        )
        constants += len(zeros) + len(SHARING & kinds.keys())
        kernels = sum(_KERNEL_BYTES.get(kind, _OTHER_KERNEL) * n for kind, n in kinds.items())
        kernels += 24 * (len(self.operations) + constants)
        kernels += 8 * sum(-(-each // 4) * 4 for each in channels)  # two arrays, each aligned
        file = 128 * len(self.operations) + 93 * constants + weights
        return kernels, file + 28 * sum(channels)  # int32 biases, two scales each

    def activations(self, spilled: Iterable[int] = ()) -> int:
        """Bytes of the arena that hold activations.

        Those that are `spilled`, by their numbers, lie elsewhere.
        """
        away = {*spilled}
        return _placed([buffer for buffer in self._buffers() if buffer[1] not in away])

    def activations_in_cube_ai(self) -> int:
        """Bytes of activations in ST's tool, which lays the output of a 1x1 convolution over an input that is read no more.

        A rule that was read off published figures of MobileNets; ST does not document it.
        """
        buffers, most = self._buffers(), 0
        for number, each in enumerate(self.operations):
            taken = sum(size for size, first, until in buffers if first <= number <= until)
            read = each.inputs[0] if each.inputs else IMAGE
            under, over = buffers[read - IMAGE], buffers[number - IMAGE]
            if each.kind == "CONV_2D" and each.kernel == 1 and under[2] == number and read != IMAGE:
                taken -= min(under[0], over[0])
            most = max(most, taken)
        return most

    def _buffers(self) -> list[tuple[int, int, int]]:
        """Of each activation its bytes, and the operations that write it and read it last."""
        last_read = {
            read: n for n, operation in enumerate(self.operations) for read in operation.inputs
        }
        last = len(self.operations)
        sizes = [self.image, *(operation.elements for operation in self.operations)]
        buffers = [
            (-(-size // _ALIGNED) * _ALIGNED, number, last_read.get(number, number))
            for number, size in enumerate(sizes, IMAGE)
        ]
        buffers[-1] = (buffers[-1][0], last - 1, last)
        return buffers

    def spilled(self, fast: float) -> dict[int, int]:
        """Activations that lie in a slower memory beside so many bytes of fast one: number and bytes.

        As long as the others take more than that, the largest of those alive at the busiest operation goes;
        of equal ones the first.
        """
        buffers, away = self._buffers(), dict[int, int]()
        while self.activations(away) > fast:
            here = [buffer for buffer in buffers if buffer[1] not in away]
            alive = [
                [each for each in here if each[1] <= at <= each[2]]
                for at in range(IMAGE, len(self.operations) + 1)
            ]
            busiest = max(alive, key=lambda each: sum(size for size, _, _ in each))
            size, number, _ = max(busiest, key=lambda each: (each[0], -each[1]))
            away[number] = size
        return away

    def work(self) -> dict[str, float]:
        """What the operations amount to, in millions: `WORK`, and `kind <name>` of each operation."""
        total: defaultdict[str, float] = defaultdict(float)
        sizes = [*(each.elements for each in self.operations), self.image]  # the image is number -1
        for each in self.operations:
            read = [self._before_padding(number) for number in each.inputs]
            total[f"kind {each.kind}"] += 1
            if each.channels:
                products = each.elements * each.weights / each.channels / 1e6
                total["products"] += products
                total[_kind_of_product(each)] += products
                total["parameters"] += each.weights / 1e6
                total["activations"] += (sum(sizes[at] for at in read) + each.elements) / 1e6
                total["wide"] += products * (each.kernel >= _WIDE)
            elif each.kind == "LOGISTIC":
                total["silu"] += each.elements / 1e6
            elif each.kind == "MUL" and len({sizes[at] for at in read}) > 1:
                total["gates"] += each.elements / 1e6
            elif each.kind == "TRANSPOSE":
                total["shuffled"] += each.elements / 1e6
        return total

    def _before_padding(self, number: int) -> int:
        """The activation that was padded, or the same one."""
        if number != IMAGE and self.operations[number].kind == "PAD":
            return self.operations[number].inputs[0]
        return number


def _kind_of_product(operation: Operation) -> str:
    if operation.kind == "DEPTHWISE_CONV_2D":
        return "depthwise"
    if operation.elements == operation.channels:  # one pixel, or a matrix product
        return "linear"
    return "pointwise" if operation.kernel == 1 else "dense"


def _placed(buffers: Iterable[tuple[int, int, int]]) -> int:
    """Bytes that buffers take together, the largest placed first, at the lowest free address."""
    placed: list[tuple[int, int, int, int]] = [(0, 0, 0, 0)]  # address, end, first and last
    for size, first, until in sorted(buffers, key=lambda buffer: (-buffer[0], -buffer[1])):
        address = 0
        for start, end, born, dead in placed:
            if born <= until and first <= dead:
                if start - address >= size:
                    break
                address = max(address, end)
        insort(placed, (address, address + size, first, until))
    return max(end for _, end, _, _ in placed)


def memory_of(activations: Iterable[int], held: Iterable[tuple[int, int]]) -> tuple[int, int]:
    """RAM and flash of parts that follow one another: the largest activations, and what each part holds."""
    kernels, file = zip(*held, strict=True)
    return max(activations) + sum(kernels) + _INTERPRETER, sum(file) + _FILE


def split_ram(graphs: Sequence[MicroGraph], fast: float) -> tuple[int, int]:
    """Bytes in a fast memory of this size and in a slower one beside it, of parts that follow one another.

    What kernels keep is in the fast one; activations are where `MicroGraph.spilled` puts them.
    """
    kept, room = _kept_and_room(graphs, fast)
    here = slow = 0
    for graph in graphs:
        away = graph.spilled(room)
        here = max(here, graph.activations(away))
        others = {*range(IMAGE, len(graph.operations))} - {*away}
        slow = max(slow, graph.activations(others))
    return kept + here, slow


def work_of(graphs: Sequence[MicroGraph], fast: float) -> dict[str, float]:
    """The work of parts that follow one another, and the bytes that spill, as `WORK` and `split_ram` have them."""
    _, room = _kept_and_room(graphs, fast)
    total: defaultdict[str, float] = defaultdict(float)
    for graph in graphs:
        for name, amount in graph.work().items():
            total[name] += amount
        total["spilled"] += sum(graph.spilled(room).values()) / 1e6
    return total


def _kept_and_room(graphs: Sequence[MicroGraph], fast: float) -> tuple[int, float]:
    """Bytes that kernels keep of a fast memory, and those that are left for activations."""
    kept = sum(graph.held()[0] for graph in graphs) + _INTERPRETER
    return kept, max(0.0, fast - kept)
