"""Overhead of each policy over the kernels alone: equations 2 to 8 of the source."""

from __future__ import annotations

from benchmarks.placement.model.parameters import Application, Hardware, Kernel
from benchmarks.placement.model.policy import MemoryPolicy


def overhead_ms(policy: MemoryPolicy, application: Application, hardware: Hardware) -> float:
    """Response time minus execution time, ms."""
    match policy:
        case MemoryPolicy.DEVICE:
            return device_ms(application, hardware)
        case MemoryPolicy.MANAGED:
            return managed_ms(application, hardware)
        case MemoryPolicy.PINNED:
            return pinned_ms(application, hardware)


def device_ms(application: Application, hardware: Hardware) -> float:
    """Equation 2: `O_D = N_m * Tr_ini + (l_dh + l_ini) * B_dh + l_hd * B_hd`."""
    touch = hardware.first_touch_ms_per_byte if application.first_touch else 0.0
    return (
        application.copies * hardware.copy_start_ms
        + (hardware.to_host_ms_per_byte + touch) * application.to_host_bytes
        + hardware.to_device_ms_per_byte * application.to_device_bytes
    )


def managed_ms(application: Application, hardware: Hardware) -> float:
    """Equations 3 to 5: `O_M = T_l + T_s`, launch and completion."""
    launch_ms = mapping_ms(application, hardware) + application.dirty_count * hardware.flush_cpu_ms
    completion_ms = (
        application.kernel_count * hardware.flush_gpu_ms
        + application.to_host_bytes * hardware.returning_ms_per_byte
    )
    return launch_ms + completion_ms


def pinned_ms(application: Application, hardware: Hardware) -> float:
    """Equation 8: `O_H = T_c + sum over N_k of S_i * l_mapping`; plus a start-up time per kernel, if any."""
    return (
        cache_loss_ms(application, hardware)
        + pinned_mapping_ms(application, hardware)
        + application.kernel_count * hardware.pinned_start_ms
    )


def mapping_ms(application: Application, hardware: Hardware) -> float:
    """I of equations 9 and 10: `S * l_mapping` over the kernels launched with a dirty cache.

    The GPU is idle meanwhile, and another's kernel can run.
    """
    mapped = sum(kernel.launched_dirty * kernel.nbytes for kernel in application.kernels)
    return mapped * hardware.mapping_ms_per_byte


def pinned_mapping_ms(application: Application, hardware: Hardware) -> float:
    """The same for pinned memory, which equation 8 sums over all kernels."""
    mapped = sum(kernel.count * kernel.nbytes for kernel in application.kernels)
    return mapped * hardware.pinned_mapping_ms_per_byte


def cache_loss_ms(application: Application, hardware: Hardware) -> float:
    """T_c of equation 6, `sum of tau * N_L2 * penalty`."""
    writes_ms = hardware.memory_ms if hardware.write_ms is None else hardware.write_ms
    return sum(
        kernel.count
        * kernel.hit_rate
        * (
            kernel.l2_accesses * penalty_ms(kernel, hardware.memory_ms, hardware)
            + kernel.l2_writes * penalty_ms(kernel, writes_ms, hardware)
        )
        for kernel in application.kernels
    )


def penalty_ms(kernel: Kernel, memory_ms: float, hardware: Hardware) -> float:
    """Equation 7: 0 if parallelism hides the latency, else `l_mem - l_L2`.

    The source prints `IPL * TPL < max` for the first case, but says in its text that parallelism at
    the peak is what hides a latency; whoever profiles the kernel decides it by `hidden`.
    """
    return 0.0 if kernel.hidden else max(0.0, memory_ms - hardware.l2_ms)
