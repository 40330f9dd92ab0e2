"""Family (worker/models/base.py) of the user's own models. It keeps only a weak reference to the model.

hook: a function that the user's code may define to be called here, such as train_step (docs/own-models.md).
"""

import functools
import inspect
import weakref
from collections.abc import Callable
from typing import Final, cast

import torch

from protocol.cell import ModelSpec
from protocol.own import OwnModel
from worker.errors import ModelCodeError, NotBuiltError
from worker.models import own_code, own_inputs
from worker.models.base import Batch, Feed
from worker.models.own_inputs import Inputs
from worker.outputs import tensors

_TRIES: Final = 3
"""Number of training steps within which a parameter must change. A user's gradient scaler may skip the first."""

_CANNOT: Final = {
    "get_example_inputs": "make its inputs",
    "train_step": "be trained",
    "samples": "count its samples",
}


class Own:
    """One model of the user's own, made by the code `own`. Has the functions of worker.models.base.Family."""

    def __init__(self, own: OwnModel) -> None:
        self._own = own
        self._built: Callable[[], torch.nn.Module | None] = lambda: None
        self._inputs: Inputs | None = None
        self._loss: Callable[..., object] | None = None
        self._vain_steps = 0

    @functools.cached_property
    def _code(self) -> own_code.Code:
        """The user's code. It is imported at first use, after the device is open: much code uses CUDA on import."""
        return own_code.Code(self._own)

    def build(self, spec: ModelSpec, device: torch.device, input_size: int | None) -> torch.nn.Module:
        """Build the model by the user's code and move it to `device`. `input_size` has no effect.

        Raises NotBuiltError if the code fails, or if neither `spec` nor the code (get_example_inputs) gives inputs.
        Raises ModelCodeError if the code fails after it has built a model in this process.
        """
        module = self._code.make(device)
        self._built = weakref.ref(module)
        if not spec.inputs and self._code.hook(module, "get_example_inputs") is None:
            raise NotBuiltError(
                f"the inputs of {self._code.label} are unknown. Give it a method get_example_inputs(batch_size), or "
                "describe the inputs with `input_shape` in a file for --models-file"
            )
        return module

    def structure(self) -> str:
        """Return a hash of the names, shapes and types of the model's weights. Builds another model on the CPU."""
        return own_code.structure(self._code.make(torch.device("cpu")))

    def batch(self, spec: ModelSpec, feed: Feed) -> Batch:
        """Make the inputs of one iteration: random ones if `spec` describes them, else those of get_example_inputs.

        Raises ModelCodeError if the inputs cannot be made, contain no tensor, or ignore the batch size.
        """
        module = self._module()
        example = own_inputs.drawn(spec, module, feed) if spec.inputs else self._example_inputs(module, feed)
        self._inputs = Inputs(example)
        batch = self._inputs.take()
        self._loss = self._loss_hook(module)
        return batch

    def _example_inputs(self, module: torch.nn.Module, feed: Feed) -> object:
        """Return inputs from the user's get_example_inputs, moved to the device.

        Raises ModelCodeError if they contain no tensor, or, unless the code has a function `samples`, if none of their
        lengths follows the batch size. To see this, calls get_example_inputs with another batch size first.
        """
        requested, other = feed.batch_size, feed.batch_size // 2 or 2  # a smaller batch fits as well
        counts_samples = self._code.hook(module, "samples") is not None
        before = {}
        if not counts_samples:
            before = own_inputs.lengths(own_inputs.by_name(self._ask(module, "get_example_inputs", other)))
        made = own_inputs.by_name(self._ask(module, "get_example_inputs", requested))
        if not own_inputs.hold_a_tensor(made):
            raise ModelCodeError(
                f"get_example_inputs of {self._code.label} returned {own_code.kind(made)} without a tensor in it "
                "(nested tuples, lists and dicts are searched, other objects are not). Return the arguments of "
                "forward: a tuple by position, a dict by name"
            )
        after = own_inputs.lengths(made)
        size = requested
        follows = any(after[place] == size and before.get(place) == other for place in after)
        if not counts_samples and not follows:
            raise ModelCodeError(
                f"get_example_inputs of {self._code.label} ignores the batch size: no tensor has length {size} for "
                f"batch size {size} and length {other} for {other}. Return that many samples, or define "
                "samples(batch) if a batch counts differently"
            )
        return own_inputs.moved(made, feed)

    def samples(self, batch: Batch) -> int | None:
        """Return the number of samples in a batch by the user's function `samples`; None if there is none.

        Raises ModelCodeError if the function fails or returns no whole number above 0.
        """
        module = self._module()
        if self._code.hook(module, "samples") is None:
            return None
        number = self._ask(module, "samples", self._example(batch))
        if not isinstance(number, int) or isinstance(number, bool) or number < 1:
            raise ModelCodeError(f"samples of {self._code.label} returned {number!r}, expected a whole number above 0")
        return number

    def forward(self, module: torch.nn.Module, batch: Batch) -> torch.Tensor:
        """Run one forward pass. Returns its outputs, perhaps nested. Raises ModelCodeError if the code fails."""
        example = self._example(batch)
        try:
            return cast(torch.Tensor, own_inputs.call(module, example))
        except (Exception, SystemExit) as error:
            raise self._code.blame("be run", error) from error

    def loss(self, module: torch.nn.Module, batch: Batch) -> torch.Tensor:
        """Run the forward pass and return the loss, a scalar: by the user's loss function, else made from the outputs.

        Raises ModelCodeError if the user's code fails, or if the loss is not one number that depends on the parameters.
        """
        outputs = self.forward(module, batch)
        if self._loss is None:
            return _natural_loss(outputs, self._code.label)
        try:
            loss = self._loss(outputs, batch)
        except (Exception, SystemExit) as error:
            raise self._code.blame("be trained", error) from error
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1 or not loss.requires_grad:
            raise ModelCodeError(
                f"loss of {self._code.label} returned {_described(loss)}. Return a tensor with one number that "
                "depends on the parameters"
            )
        return loss.reshape(())

    @property
    def train_step(self) -> Callable[[torch.nn.Module, Batch], torch.Tensor] | None:
        """Function that runs the user's train_step and returns its loss; None if the code has no train_step.

        It raises ModelCodeError if the code fails, returns no number, or changes no parameter in its first three steps.
        """
        return None if self._code.hook(self._built(), "train_step") is None else self._step

    def _step(self, module: torch.nn.Module, batch: Batch) -> torch.Tensor:
        before = self._changes(module) if self._vain_steps < _TRIES else None
        loss = self._ask(module, "train_step", self._example(batch))
        if before is not None:
            self._look_for_changes(before, module)
        if isinstance(loss, torch.Tensor) and loss.numel() == 1:
            return loss.detach().reshape(())
        if isinstance(loss, int | float):
            return torch.tensor(float(loss))
        raise ModelCodeError(f"train_step of {self._code.label} returned {_described(loss)}. Return the loss")

    def _look_for_changes(self, before: list[int], module: torch.nn.Module) -> None:
        self._vain_steps = _TRIES if self._changes(module) != before else self._vain_steps + 1
        if self._vain_steps == _TRIES and self._changes(module) == before:
            raise ModelCodeError(
                f"train_step of {self._code.label} changed no parameter in {_TRIES} steps. It must do the whole step: "
                "forward, backward and its own optimizer step. To give only a loss, define loss(outputs)"
            )

    def _changes(self, module: torch.nn.Module) -> list[int]:
        return [parameter._version for parameter in module.parameters()]  # rises with each change

    def _module(self) -> torch.nn.Module:
        module = self._built()
        assert module is not None, "batches are made while the model is alive"
        return module

    def _example(self, batch: Batch) -> object:
        assert self._inputs is not None, "a batch has been made"
        return self._inputs.restored(batch)

    def _loss_hook(self, module: torch.nn.Module) -> Callable[..., object] | None:
        """Return a function of (outputs, batch) that calls the user's loss; None if the user has none.

        The loss gets the outputs. It also gets the inputs of the batch if it has a second argument without a default.
        """
        hook = self._code.hook(module, "loss")
        if hook is None:
            return None
        places = [
            parameter
            for parameter in inspect.signature(hook).parameters.values()
            if parameter.kind in {parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD}
        ]
        if len(places) > 1 and places[1].default is inspect.Parameter.empty:
            return lambda outputs, batch: hook(outputs, self._example(batch))
        return lambda outputs, batch: hook(outputs)

    def _ask(self, module: torch.nn.Module, name: str, *arguments: object) -> object:
        hook = self._code.hook(module, name)
        assert hook is not None, f"whoever calls {name} has looked for it"
        try:
            return hook(*arguments)
        except (Exception, SystemExit) as error:
            raise self._code.blame(_CANNOT[name], error) from error


def _natural_loss(outputs: object, label: str) -> torch.Tensor:
    """Return the output `loss` if there is one, or the only output if it is one number, else the sum of mean squares.

    Only outputs that depend on the parameters count; ModelCodeError if none does. label: name of the model in messages.
    """
    own = outputs.get("loss") if isinstance(outputs, dict) else getattr(outputs, "loss", None)
    trained = [tensor for tensor in tensors(outputs if own is None else own) if tensor.requires_grad]
    if not trained:
        raise ModelCodeError(
            f"no output of {label} depends on its parameters, so it cannot be trained. Measure it with "
            "--phases load,inference, or define loss(outputs) or train_step(batch)"
        )
    if len(trained) == 1 and trained[0].numel() == 1:
        return trained[0].reshape(())
    return torch.stack([_mean_square(tensor) for tensor in trained]).sum()


def _mean_square(tensor: torch.Tensor) -> torch.Tensor:
    # In fp32: the squares of fp16 numbers would overflow.
    squares: torch.Tensor = (tensor.abs() if tensor.is_complex() else tensor).float().square()
    return squares.mean()


def _described(thing: object) -> str:
    if isinstance(thing, torch.Tensor):
        return f"a tensor of shape {tuple(thing.shape)}" + ("" if thing.requires_grad else " without a gradient")
    return own_code.kind(thing)
