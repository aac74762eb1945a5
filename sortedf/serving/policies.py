"""The policies by name: the one place where they are looked up."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

from sortedf.errors import OptionError
from sortedf.kernels.standing import FIXED, RANKED
from sortedf.serving.aged import svf_aged
from sortedf.serving.auto import auto
from sortedf.serving.boost_policies import (
    boost_volume,
    las,
    uniboost,
    uniboost_dist,
    uniboost_guard,
    uniboost_space,
)
from sortedf.serving.online_policy import OnlinePolicy
from sortedf.serving.option_ranges import check_ranges
from sortedf.serving.remaining_policies import ltr, srpt, srpt_repaired, trail
from sortedf.serving.side import EngineSide, Victim
from sortedf.serving.size_policies import (
    a_max,
    a_min,
    fcfs,
    mcsf,
    sjf,
    sorted_f,
    svf,
    svf_one_bit,
    svf_two_resources,
)

POLICIES: Mapping[str, Callable[..., OnlinePolicy]] = MappingProxyType(
    {
        "fcfs": fcfs,
        "sjf": sjf,
        "mcsf": mcsf,
        "svf": svf,
        "svf-1bit": svf_one_bit,
        "svf-2": svf_two_resources,
        "svf-aged": svf_aged,
        "srpt": srpt,
        "srpt-repaired": srpt_repaired,
        "ltr": ltr,
        "trail": trail,
        "las": las,
        "uniboost-dist": uniboost_dist,
        "uniboost-space": uniboost_space,
        "uniboost-guard": uniboost_guard,
        "uniboost": uniboost,
        "boost-volume": boost_volume,
        "sorted-f": sorted_f,
        "a-min": a_min,
        "a-max": a_max,
        "auto": auto,
    }
)

_SIDE = {field.name for field in fields(EngineSide)}


def policy(name: str, **options: Any) -> OnlinePolicy:
    """Make a policy by its name.

    Parameters
    ----------
    name
        One of :data:`POLICIES`.
    options
        The policy's own parameters; and of :class:`EngineSide`, to change the engine's side of it.

    Raises
    ------
    OptionError
        For a name, an option or a value that there is not.
    """
    if name not in POLICIES:
        close = get_close_matches(name, POLICIES, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise OptionError(f"no policy is called {name!r}; {hint}there are {', '.join(POLICIES)}")
    make = POLICIES[name]
    own = {
        key: value for key, value in options.items() if key in inspect.signature(make).parameters
    }
    changes = {key: value for key, value in options.items() if key not in own}
    if unknown := changes.keys() - _SIDE:
        raise OptionError(
            f"the policy {name} has no {', '.join(sorted(unknown))}; it takes "
            f"{', '.join([*inspect.signature(make).parameters, *sorted(_SIDE)])}"
        )
    check_ranges(options)
    made = make(**own)
    if changes and made.choose is not None:
        raise OptionError(f"the policy {name} chooses the engine's side itself")
    side = replace(made.side, **changes)
    # Who may evict by a score needs one that the kernel knows.
    needs_score = side.displaces or side.victim == Victim.LEAST
    if needs_score and made.scoring.kind == RANKED:
        made = replace(made, scoring=made.scoring._replace(kind=FIXED))
    return replace(made, side=side)
