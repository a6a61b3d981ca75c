"""Follows backward passes and optimizers' steps by functions around torch's own; no class is replaced."""
import functools
import weakref
from time import monotonic_ns as now

import torch
from torch.optim import optimizer as optimizers

collectives = ('all_reduce', 'barrier', 'broadcast', 'all_gather', 'reduce', 'reduce_scatter', 'all_gather_into_tensor', 'reduce_scatter_tensor',
               'all_gather_object', 'broadcast_object_list', 'gather', 'scatter', 'monitored_barrier')
watched_parameters = 4


def _compiled_as_it_is(follow):
    """follow(original) returns a function around the original. torch.compile traces into such functions, and would meet clocks: it gets the original."""
    compiler = getattr(torch, 'compiler', None)
    if not hasattr(compiler, 'is_compiling'):
        return follow

    def around(original):
        followed = follow(original)

        @functools.wraps(original)
        def chosen(*arguments, **named):
            if torch.compiler.is_compiling():
                return original(*arguments, **named)
            return followed(*arguments, **named)

        return chosen

    return around


class Gradients:
    """What the engine hears: optimizer_made() and optimizer_stepped(); its clock's skipped_at() and waited_for_ranks().

    engine() returns the engine in work, or nothing.
    """

    def __init__(self, engine, phases):
        """`phases`: backward passes are counted until it is known who trains, and what a GradScaler leaves out is told."""
        self._engine = engine
        self._backward = None  # What stands before torch's own, and that one.
        self._ranks = False
        self._depth = 0
        self._last_gradient = 0
        self._watched = set()
        self._known = {}  # Optimizers that have stepped, by their ids, which others may have after them.
        self.devices = set()  # Of the parameters that optimizers have stepped on, but for the CPU.
        self.made = False  # The script has made an optimizer.
        self._follow_making()
        self._follow_steps()
        if phases:
            self._follow_backward()
            self._follow_scaler()

    def follow_ranks(self):
        """From now on the waits for other ranks are clocked."""
        if not self._ranks:
            self._ranks = True
            if self._backward is None:
                self._follow_backward()
            self._follow_collectives()

    def forget_backward(self):
        """Backward passes are followed no further, unless ranks wait in them."""
        if not self._ranks and self._backward is not None:
            followed, original = self._backward
            if torch.autograd.backward is followed:  # Else another library stands before it, and calls it.
                torch.autograd.backward, self._backward = original, None

    # Steps.

    def _follow_making(self):
        original = optimizers.Optimizer.__init__
        gradients = self

        @functools.wraps(original)
        def made(optimizer, *arguments, **named):
            if not gradients.made:
                gradients.made = True
                engine = gradients._engine()
                if engine is not None:
                    engine.optimizer_made()
            original(optimizer, *arguments, **named)

        optimizers.Optimizer.__init__ = made

    def _follow_steps(self):
        register = getattr(optimizers, 'register_optimizer_step_post_hook', None)
        if register is not None:
            register(self._stepped)
            return
        original = optimizers.Optimizer._hook_for_profile
        gradients = self

        @functools.wraps(original)
        def hook_for_profile(self):
            original(self)
            kind = type(self)
            if not getattr(kind.step, 'followed', False):
                kind.step = gradients._around_step(kind.step)

        optimizers.Optimizer._hook_for_profile = hook_for_profile

    def _around_step(self, step):
        @functools.wraps(step)
        def followed(optimizer, *arguments, **named):
            self._depth += 1
            try:
                result = step(optimizer, *arguments, **named)
            finally:
                self._depth -= 1
            if not self._depth:
                self._stepped(optimizer)
            return result

        followed.followed = True
        return followed

    def _stepped(self, optimizer, *_):
        engine = self._engine()
        if engine is not None:
            try:
                known = self._known.get(id(optimizer))
                if known is None or known() is not optimizer:
                    self._known[id(optimizer)] = weakref.ref(optimizer)
                    self._watched.discard(id(optimizer))
                    self.devices.update(parameter.device for group in optimizer.param_groups for parameter in group['params'] if parameter.is_cuda)
                engine.optimizer_stepped()
                if self._ranks and id(optimizer) not in self._watched:
                    self._watched.add(id(optimizer))
                    self._watch(optimizer)
            except Exception as error:
                engine.fault(error)

    # The first parameters' gradients come last; what follows until the end of backward() is waiting for other ranks.

    def _watch(self, optimizer):
        parameters = [parameter for group in optimizer.param_groups for parameter in group['params'] if parameter.requires_grad and parameter.is_leaf]
        for parameter in parameters[:watched_parameters]:
            parameter.register_hook(self._gradient_ready)

    def _gradient_ready(self, _):
        self._last_gradient = now()

    def _follow_backward(self):
        original = torch.autograd.backward
        torch.autograd.backward = _compiled_as_it_is(self._around_backward)(original)
        self._backward = torch.autograd.backward, original

    def _around_backward(self, original):
        gradients = self

        @functools.wraps(original)
        def backward(tensors, *arguments, **named):
            gradients._last_gradient = 0
            result = original(tensors, *arguments, **named)
            ended = now()
            engine = gradients._engine()
            if engine is not None:
                try:
                    gradients._passed(engine, ended)
                except Exception as error:
                    engine.fault(error)
            return result

        return backward

    def _passed(self, engine, ended):
        engine.backward_passed()
        if self._last_gradient:
            engine.clock.waited_for_ranks(ended - self._last_gradient)
            self._last_gradient = 0

    def _follow_collectives(self):
        distributed = torch.distributed
        around = _compiled_as_it_is(self._around_collective)
        for name in collectives:
            original = getattr(distributed, name, None)
            if original is not None:
                setattr(distributed, name, around(original))

    def _around_collective(self, original):
        @functools.wraps(original)
        def collective(*arguments, **named):
            began = now()
            result = original(*arguments, **named)
            engine = self._engine()
            if engine is not None:
                engine.clock.waited_for_ranks(now() - began)
            return result

        return collective

    # A GradScaler leaves out steps whose gradients are not finite.

    def _follow_scaler(self):
        from torch.cuda.amp import grad_scaler
        kinds = [grad_scaler.GradScaler]
        kinds += [kind for kind in kinds[0].__mro__[1:] if kind is not object and 'step' in kind.__dict__]
        kind = kinds[-1]
        original = kind.step
        gradients = self

        @functools.wraps(original)
        def step(scaler, optimizer, *arguments, **named):
            engine = gradients._engine()
            steps = engine.optimizer_steps if engine is not None else 0
            result = original(scaler, optimizer, *arguments, **named)
            if engine is not None and engine.optimizer_steps == steps:
                engine.step_skipped()
            return result

        kind.step = step
