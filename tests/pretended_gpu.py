"""A pretended GPU on a torch for CPUs: tensors that say ``gpu:0`` and hold real numbers.

Within ``PretendedGpu`` every operation on such tensors runs on the CPU, so that whole updates run
and give the CPU's numbers. What CUDA refuses is refused: tensors of two devices in one operation, a
generator of another device, ``numpy()``. What makes the host wait is written down, by the innermost
line of the library that asks. Nothing is said of missing kernels, pinned memory, CUDA's order of
summing, or Warp.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from typing import Any, cast

import torch
from pretended_rules import indexes_by_host, lower_products, may_meet, name_of, waits
from torch import Tensor
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

aten: Any = torch.ops.aten
CPU, GPU = torch.device("cpu"), torch.device("privateuseone", 0)
SOURCE = "/robo_rl/"
"""Lines of files in such a folder are charged."""

_Generator = torch.Generator
_PLACES: dict[int, torch.device] = {}
"""Where a generator says that it is, by its address: dispatch wraps it anew."""


class DeviceMismatchError(RuntimeError):
    """What CUDA refuses."""


class PretendedGenerator(_Generator):
    """A stream that says where it is; its numbers are those of a CPU's."""

    where: torch.device

    def __new__(cls, device: Any = "cpu") -> Any:
        made = cast(Any, super()).__new__(cls, "cpu")
        made.where = _PLACES[made._cdata] = torch.device(device)
        return made

    def __init__(self, device: Any = "cpu") -> None:
        del device

    @property
    def device(self) -> torch.device:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.where


class GpuTensor(Tensor):
    """Says ``gpu:0``; ``elem`` holds the numbers."""

    elem: Tensor

    @staticmethod
    def __new__(cls, elem: Tensor) -> GpuTensor:
        made = Tensor._make_wrapper_subclass(  # pyright: ignore[reportAttributeAccessIssue]
            cls,
            elem.size(),
            strides=elem.stride(),
            storage_offset=elem.storage_offset(),
            dtype=elem.dtype,
            layout=elem.layout,
            device=GPU,
            requires_grad=False,
        )
        made.elem = elem
        return made

    def __tensor_flatten__(self) -> Any:
        return ["elem"], None

    @staticmethod
    def __tensor_unflatten__(inner: Any, meta: Any, size: Any, stride: Any) -> GpuTensor:
        del meta, size, stride
        return GpuTensor(inner["elem"])

    def data_ptr(self) -> int:
        return self.elem.data_ptr()

    def __deepcopy__(self, memo: dict[int, Any]) -> GpuTensor:  # torch's copies the storage
        if id(self) not in memo:
            made = cast(GpuTensor, self.detach().clone().requires_grad_(self.requires_grad))
            cast(Any, made).__dict__.update({**vars(self), "elem": made.elem})
            memo[id(self)] = made
        return memo[id(self)]

    def tolist(self) -> Any:  # torch refuses it of subclasses
        return self.cpu().tolist()

    def numpy(self, *, force: bool = False) -> Any:
        del force
        raise TypeError("can't convert gpu:0 device type tensor to numpy. Use Tensor.cpu() first")

    def __repr__(self, **_: Any) -> str:
        return f"GpuTensor({self.elem!r})"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        if PretendedGpu.current is None:
            raise RuntimeError(f"{func}: a pretended tensor outside of PretendedGpu")
        return PretendedGpu.current.run(func, args, kwargs or {})

    __torch_function__ = torch._C._disabled_torch_function_impl  # pyright: ignore[reportAssignmentType]


class _Module(backend_registration._DummyBackendModule):
    """What torch asks of a device's module."""

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16, torch.float16]

    def _lazy_init(self) -> None: ...


backend_registration._setup_privateuseone_for_python_backend("gpu", _Module())
_KERNELS = lower_products("gpu")


class PretendedGpu(TorchDispatchMode):
    """Counts waits of the host, ``(line, why) → how often``; a blocking upload is one too."""

    current: PretendedGpu | None = None

    def __init__(self) -> None:
        super().__init__()
        self.waits: Counter[tuple[str, str]] = Counter()
        self.watch: Callable[[Any, Any, Any], Any] | None = None
        """Runs operations in place of ``execute``, for a capture."""

    def __enter__(self) -> PretendedGpu:
        torch.Generator = PretendedGenerator
        self._lifts = torch._C._only_lift_cpu_tensors()
        torch._C._set_only_lift_cpu_tensors(True)  # for torch.tensor(…, device=GPU)
        PretendedGpu.current = self
        return cast(PretendedGpu, super().__enter__())

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        PretendedGpu.current = None
        torch._C._set_only_lift_cpu_tensors(self._lifts)
        torch.Generator = _Generator
        _PLACES.clear()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        return self.run(func, args, kwargs or {})

    def run(self, func: Any, args: Any, kwargs: Any) -> Any:
        """One operation, by whoever watches."""
        return (self.watch or self.execute)(func, args, kwargs)

    def execute(self, func: Any, args: Any, kwargs: Any) -> Any:
        """One operation."""
        flat, form = tree_flatten((args, kwargs))
        tensors = [x for x in flat if isinstance(x, Tensor)]
        ours = any(isinstance(x, GpuTensor) for x in tensors)
        target = torch.device(kwargs["device"]) if kwargs.get("device") is not None else None
        here = ours if target is None else target.type == GPU.type
        if not ours and not here:
            _demand_generator(func, flat, CPU)
            return func(*args, **kwargs)
        if func is torch.ops.prim.device.default:
            return GPU
        if func in (aten._to_copy.default, aten.copy_.default):
            return self._copied(func, args, kwargs, here)
        self._demand_one_place(func, tensors)
        if here:
            _demand_generator(func, flat, GPU)
        self.waits.update((_line(), why) for why in waits(func, args))
        on_cpu, named = tree_unflatten([_elem(x) for x in flat], form)
        out = func(*on_cpu, **_on_cpu(named))
        if not here or func is aten._local_scalar_dense.default:
            return out
        return _aliased(func, args, kwargs, tree_map(_wrapped, out))

    def _copied(self, func: Any, args: Any, kwargs: Any, here: bool) -> Any:
        """Copies are what may go from one device to the other."""
        into, source = (args[0], args[1]) if func is aten.copy_.default else (None, args[0])
        here = here if into is None else isinstance(into, GpuTensor)
        was = isinstance(source, GpuTensor)
        if was and not here:
            self.waits[_line(), "to the host"] += 1
        elif here and not was and not (kwargs.get("non_blocking") or True in args[2:]):
            self.waits[_line(), "to the device"] += 1
        out = func(*(_elem(x) for x in args), **_on_cpu(kwargs))
        if into is not None:
            return into
        return GpuTensor(out) if here else out

    def _demand_one_place(self, func: Any, tensors: list[Tensor]) -> None:
        foreign = [x for x in tensors if not isinstance(x, GpuTensor)]
        if not foreign or len(foreign) == len(tensors):
            return
        if not may_meet(func, tensors, foreign):
            shapes = [(str(x.device), tuple(x.shape)) for x in tensors]
            raise DeviceMismatchError(f"{_line()}: {name_of(func)} of {shapes}")
        if indexes_by_host(func, tensors, foreign):
            self.waits[_line(), "index of the host"] += 1


def on_cpu(tensor: Tensor) -> Tensor:
    """The numbers of a tensor, which no host waits for."""
    return tensor.elem if isinstance(tensor, GpuTensor) else tensor


def _elem(x: Any) -> Any:
    return x.elem if isinstance(x, GpuTensor) else x


def _wrapped(x: Any) -> Any:
    return GpuTensor(x) if isinstance(x, Tensor) else x


def _on_cpu(kwargs: dict[str, Any]) -> dict[str, Any]:
    named = {name: x for name, x in kwargs.items() if name != "pin_memory"}
    return named if named.get("device") is None else {**named, "device": CPU}


def _demand_generator(func: Any, flat: list[Any], place: torch.device) -> None:
    for each in flat:
        if not isinstance(each, _Generator):
            continue
        found = _PLACES.get(cast(Any, each)._cdata, CPU)
        if found.type != place.type:
            raise DeviceMismatchError(
                f"{_line()}: {name_of(func)} on {place}, generator on {found}"
            )


def _aliased(func: Any, args: Any, kwargs: Any, out: Any) -> Any:
    try:
        return return_and_correct_aliasing(func, args, kwargs, out)
    except (AssertionError, RuntimeError, NotImplementedError):  # of operations without a schema
        return out


def _line() -> str:
    """The innermost line of the library, or of whoever else asks where there is none."""
    frame, other = sys._getframe(2), "?"
    while frame is not None:
        name = frame.f_code.co_filename
        if SOURCE in name:
            return f"{name[name.rindex(SOURCE) + 1 :]}:{frame.f_lineno}"
        if other == "?" and "site-packages" not in name and "pretended_" not in name:
            other = f"{name.rsplit('/', 1)[-1]}:{frame.f_lineno}"
        frame = frame.f_back
    return other
