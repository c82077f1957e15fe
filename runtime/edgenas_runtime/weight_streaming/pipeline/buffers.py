"""Memory of a plan: ring buffers and resident layers, allocated once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import final

import torch
from torch import Tensor

from edgenas_runtime.network.engine import CPU
from edgenas_runtime.network.mapped_memory import on_gpu
from edgenas_runtime.weight_streaming.files.host_memory import HostMemory
from edgenas_runtime.weight_streaming.files.layers import LayeredNetwork, WeightLayer
from edgenas_runtime.weight_streaming.files.readers import HostReader, WeightReader
from edgenas_runtime.weight_streaming.pipeline.layout import layout_of
from edgenas_runtime.weight_streaming.planning.plan import StreamPlan
from edgenas_runtime.weight_streaming.planning.ring import RingPlace


@final
class DeviceMemory:
    """A block of GPU memory."""

    def __init__(self, nbytes: int, device: torch.device) -> None:
        """Allocate the block.

        Raises:
          torch.OutOfMemoryError: if there is too little memory.
        """
        self.nbytes = nbytes
        with torch.inference_mode(mode=False):
            self._bytes: Tensor | None = torch.empty(nbytes, dtype=torch.uint8, device=device)

    @property
    def bytes(self) -> Tensor:
        """The whole block, as bytes."""
        assert self._bytes is not None
        return self._bytes

    def close(self) -> None:
        """Return the memory to torch's cache at once, even if tensors still refer to it."""
        if self._bytes is not None:
            self._bytes.untyped_storage().resize_(0)
        self._bytes = None


@final
class Buffers:
    """Memory addresses to which each layer is read and copied, and at which it is used."""

    def __init__(
        self, layered: LayeredNetwork, plan: StreamPlan, reader: WeightReader, device: torch.device
    ) -> None:
        """Allocate all memory and load the resident layers.

        Raises:
          ValueError: as `layout_of`, or if the plan has no host ring and the weights are not in memory.
          OSError: as `WeightReader.read`; RuntimeError if there is too little memory.
        """
        self.layout = layout_of(layered, plan)
        self._layers = layered.layers
        self._reader = reader
        self._device = device
        self._is_pinned = device.type == "cuda"
        if self.layout.streamed and self.layout.host is None and not isinstance(reader, HostReader):
            raise ValueError(
                "a plan without a ring in host memory needs all weights there: use tier=host, not "
                f"{reader.tier.value}"
            )
        with ExitStack() as opened:
            self._host = self._allocate(opened, plan.host_ring_bytes, on_host=True)
            self._ring = self._allocate(opened, plan.device_ring_bytes, on_host=False)
            begins = [0]
            for i in self.layout.resident:
                begins.append(begins[-1] + layered.layers[i].nbytes)
            self._residents = self._allocate(opened, begins[-1], on_host=False)
            self._resident_begin = dict(zip(self.layout.resident, begins, strict=False))
            self._mapped: Tensor | None = None
            if self._is_pinned and self.layout.device is None and self.layout.streamed:
                whole = self._host.bytes if self._host else self._kept.bytes
                self._mapped = on_gpu(whole, device)
            self._load_residents()
            self._opened = opened.pop_all()

    @property
    def pinned_bytes(self) -> int:
        """Bytes of the pinned host ring; 0 on a CPU."""
        return self._host.nbytes if self._host and self._is_pinned else 0

    @property
    def host_bytes(self) -> int:
        """Bytes of rings and resident layers in unpinned memory of the CPU."""
        return 0 if self._is_pinned else _bytes(self._host, self._ring, self._residents)

    @property
    def device_bytes(self) -> int:
        """Bytes of ring and resident layers on a GPU."""
        return _bytes(self._ring, self._residents) if self._is_pinned else 0

    def window(self, ordinal: int) -> memoryview:
        """Return the memory to which a streamed layer is read."""
        assert isinstance(self._host, HostMemory)
        return self._host.window(self._place(self.layout.host, ordinal).offset, self._size(ordinal))

    def copies(self, ordinal: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield targets and sources of a layer's copy: from the host ring, or the host reader."""
        assert self._ring is not None
        target = self._slice(self._ring.bytes, self.layout.device, ordinal)
        if self._host is not None:
            yield target, self._slice(self._host.bytes, self.layout.host, ordinal)
        else:
            yield from self._from_kept(target, self._layers[self.layout.streamed[ordinal]])

    def places(self) -> list[Tensor]:
        """Return the bytes that the kernels use, by layer of the network."""
        by_layer: dict[int, Tensor] = {}
        for layer, begin in self._resident_begin.items():
            assert self._residents is not None
            by_layer[layer] = self._residents.bytes[begin : begin + self._layers[layer].nbytes]
        for ordinal, layer in enumerate(self.layout.streamed):
            by_layer[layer] = self._used(ordinal)
        return [by_layer[i] for i in range(len(self._layers))]

    def versions(self) -> list[int]:
        """Return torch's write counters, which kernels that write to weights increase; reads do not."""
        blocks = [self._host, self._ring, self._residents]
        return [block.bytes._version for block in blocks if block]  # noqa: SLF001 - torch has no public write counter

    def close(self) -> None:
        """Release all memory."""
        self._mapped = None
        self._host = self._ring = self._residents = None
        self._opened.close()

    def _used(self, ordinal: int) -> Tensor:
        if self._ring is not None:
            return self._slice(self._ring.bytes, self.layout.device, ordinal)
        if self._host is not None:
            whole = self._host.bytes if self._mapped is None else self._mapped
            return self._slice(whole, self.layout.host, ordinal)
        whole = self._kept.bytes if self._mapped is None else self._mapped
        if len(extents := self._layers[self.layout.streamed[ordinal]].extents) > 1:
            raise ValueError("tiles need a ring: a plan without one must have tile_bytes=0")
        return whole[extents[0][0] : sum(extents[0])]

    def _allocate(
        self, opened: ExitStack, nbytes: int, *, on_host: bool
    ) -> HostMemory | DeviceMemory | None:
        if not nbytes:
            return None
        is_on_host = on_host or self._device == CPU
        memory = (
            HostMemory(nbytes, pinned=self._is_pinned)
            if is_on_host
            else DeviceMemory(nbytes, self._device)
        )
        opened.callback(memory.close)
        return memory

    def _load_residents(self) -> None:
        if isinstance(self._residents, HostMemory):
            for layer, begin in self._resident_begin.items():
                window = self._residents.window(begin, self._layers[layer].nbytes)
                self._reader.read(self._layers[layer], window)
        elif self._residents is not None and isinstance(self._reader, HostReader):
            for layer, begin in self._resident_begin.items():
                place = self._residents.bytes[begin : begin + self._layers[layer].nbytes]
                for target, source in self._from_kept(place, self._layers[layer]):
                    target.copy_(source)
        elif self._residents is not None:
            largest = max(self._layers[i].nbytes for i in self.layout.resident)
            staging = HostMemory(largest, pinned=False)
            try:
                for layer, begin in self._resident_begin.items():
                    nbytes = self._layers[layer].nbytes
                    self._reader.read(self._layers[layer], staging.window(0, nbytes))
                    self._residents.bytes[begin : begin + nbytes].copy_(staging.bytes[:nbytes])
            finally:
                staging.close()

    @property
    def _kept(self) -> HostReader:
        assert isinstance(self._reader, HostReader)
        return self._reader

    def _from_kept(self, place: Tensor, layer: WeightLayer) -> Iterator[tuple[Tensor, Tensor]]:
        at = 0
        for begin, nbytes in layer.extents:
            yield place[at : at + nbytes], self._kept.bytes[begin : begin + nbytes]
            at += nbytes

    def _size(self, ordinal: int) -> int:
        return self._layers[self.layout.streamed[ordinal]].nbytes

    def _slice(self, whole: Tensor, ring: tuple[RingPlace, ...] | None, ordinal: int) -> Tensor:
        begin = self._place(ring, ordinal).offset
        return whole[begin : begin + self._size(ordinal)]

    @staticmethod
    def _place(ring: tuple[RingPlace, ...] | None, ordinal: int) -> RingPlace:
        assert ring is not None
        return ring[ordinal]


def _bytes(*blocks: HostMemory | DeviceMemory | None) -> int:
    return sum(block.nbytes for block in blocks if block)
