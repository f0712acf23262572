"""Gives a module the library's forward by changing the instance's class to a subclass.

The subclass has the same name and module, so tools still find modules by class or by name. It has
advantages over an instance attribute `forward`:

* The instance's own `forward` stays free for tools that wrap it: accelerate's hooks, TRL's head,
  autocast.
* A copy of a module calls its own forward. A pickle names the original class and the role;
  unpickling makes the subclass again.

`ROLES` maps a role's name to a function from the original class to the subclass's attributes.
"""

import functools
from types import MethodType

ROLES = {}
MARK = "_ligerdsl_role"         # attribute of a patched instance that stores its role
PREFIX = "_ligerdsl_"           # prefix of every attribute that patching adds to an instance
_OLD_FORWARD = "_old_forward"   # attribute in which accelerate stores the forward below its hook
FORWARDS = set()                # functions that patching installs as a forward


@functools.cache
def subclass_of(kind, role):
    """Returns the subclass of `kind` for `role`."""
    attributes = {"__module__": kind.__module__, "__qualname__": kind.__qualname__,
                  "__doc__": kind.__doc__, "__reduce_ex__": _reduce}
    own = ROLES[role](kind)
    made = type(kind)(kind.__name__, (kind,), {**attributes, **own, "_ligerdsl_made": (kind, role)})
    if "forward" in own:
        FORWARDS.add(own["forward"])
    return made


def _made(kind):
    """Returns the class's ancestor made by subclass_of, or None. FSDP derives its own class from
    that ancestor."""
    return next((each for each in kind.__mro__ if "_ligerdsl_made" in vars(each)), None)


def new_instance(kind, role):
    """Creates the empty instance from which unpickling or a deep copy builds a module."""
    made = subclass_of(kind, role)
    return made.__new__(made)


def _reduce(self, protocol):
    made = type(self)
    reduced = super(_made(made), self).__reduce_ex__(max(protocol, 2))
    # another library derived this class from ours and handles copies itself
    if "_ligerdsl_made" not in vars(made):
        return reduced
    return (new_instance, made._ligerdsl_made, *reduced[2:])


def role_of(module):
    return vars(module).get(MARK)


def patched_class(module):
    """Returns the original class of a patched module."""
    return _made(type(module))._ligerdsl_made[0]


def original_class(module):
    """Returns the module's class without our subclass."""
    made = _made(type(module))
    return made._ligerdsl_made[0] if type(module) is made else type(module)


def _is_class_forward(bound, module):
    """Returns true if `bound` is a method that the module would inherit from its class."""
    if not isinstance(bound, MethodType) or bound.__self__ is not module:
        return False
    return bound.__func__ in FORWARDS or any(vars(each).get("forward") is bound.__func__
                                             for each in type(module).__mro__)


def _slot(module):
    """Returns the name of the attribute that has the instance's innermost forward.

    With accelerate's hook, that is the forward below the hook."""
    own = vars(module)
    return _OLD_FORWARD if "_hf_hook" in own and _OLD_FORWARD in own else "forward"


def wrapper_of(module):
    """Returns the forward that somebody put on this instance, or None.

    A patch of the class cannot replace it. Accelerate's hooks do not count as wrappers, because
    they name the forward below them."""
    inner = vars(module).get(_slot(module))
    return None if inner is None or _is_class_forward(inner, module) else inner


def is_bare(module):
    """Returns true if nothing on this instance wraps the class's forward."""
    return "_hf_hook" not in vars(module) and wrapper_of(module) is None


def _bind(module, forward):
    """Makes `forward` the instance's innermost forward, unless somebody wrapped that."""
    if wrapper_of(module) is None:
        vars(module)[_slot(module)] = MethodType(forward, module)


def _unbind(module):
    """Resets the instance's innermost forward to its class's forward.

    _old_forward cannot be removed, so it is set to the class's method."""
    if _slot(module) == _OLD_FORWARD:
        _bind(module, type(module).forward)
    elif wrapper_of(module) is None:
        vars(module).pop("forward", None)


def give(module, role):
    """Gives the module its role. A role with its own forward requires wrapper_of(module) to be
    None."""
    made = _made(type(module))
    if made is None or made._ligerdsl_made[1] != role:
        module.__class__ = subclass_of(type(module), role)
    vars(module)[MARK] = role
    _unbind(module)


def take_back(module):
    """Undoes `give`."""
    own = vars(module)
    if MARK not in own:
        return
    for name in [name for name in own if name.startswith(PREFIX)]:
        del own[name]
    made = _made(type(module))
    if type(module) is made:
        module.__class__ = original_class(module)
        _unbind(module)
    elif vars(made).get("forward") in FORWARDS:  # keeps a class that another library derived from
                                                 # ours
        _bind(module, made._ligerdsl_made[0].forward)
    else:
        _unbind(module)
