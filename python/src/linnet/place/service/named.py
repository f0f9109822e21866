# SPDX-License-Identifier: MIT OR Apache-2.0
"""Profiles that tenants may name."""

from __future__ import annotations

from collections.abc import Iterable

from linnet.place.catalogue import profiles as shipped
from linnet.place.service.rows import UNKNOWN
from linnet.place.service.state import State
from linnet.place.service.writer import Answer, Refused, Undo
from linnet.place.slo import Tenant
from linnet.place.words import Profile


def check_measured(profile: Profile) -> None:
    """Refuse a profile that says nothing: it would be taken as that of an idle tenant."""
    if not any(profile.features.values()):
        said = f"profile {profile.name}: every feature is zero; give one that was measured"
        raise Refused(409, "bad_profile", said)


def profile_name(tenant: Tenant) -> str | None:
    """The stored profile that a tenant asked with, by its name."""
    if tenant.asked is not None:
        return tenant.asked.profile_name
    # Older states do not say. A measured profile, or one of the tenant's own, has the name of its tenant.
    return tenant.profile.name if tenant.profile is not None and tenant.profile.name != tenant.id else None


def asked_so(there: Tenant, tenant: Tenant) -> bool:
    """Whether a tenant that is placed may have come by the request that this one is of.

    Its profile may be another by now: a measured one, or that of its name as it was then.
    """
    if (there.capacity_bytes, there.slos) != (tenant.capacity_bytes, tenant.slos):
        return False
    if there.asked is not None:
        return there.asked == tenant.asked
    if tenant.profile is None or tenant.profile == there.profile:
        return True
    return tenant.asked is not None and tenant.asked.profile_name == profile_name(there) is not None


class Named:
    """Profiles by their names, in memory and in the state."""

    def __init__(self, state: State) -> None:
        self._state = state
        self.profiles = state.profiles()

    def get(self, name: str) -> Profile:
        """One of them."""
        if name not in self.profiles:
            hint = "; a tenant without a profile is measured" if name == UNKNOWN else ""
            raise Refused(404, "no_profile", f"profile {name}: there is none of this name{hint}")
        return self.profiles[name]

    def keep(self, undo: list[Undo], profile: Profile) -> Answer:
        """Keep a profile, in the place of one of its name."""
        if profile.name == UNKNOWN:
            said = f"profile {UNKNOWN}: pods that are to be measured name this; give another name"
            raise Refused(409, "bad_profile", said)
        check_measured(profile)
        before = self.profiles.get(profile.name)
        self.profiles[profile.name] = profile
        undo.append(lambda: self._back(profile.name, before))
        self._state.put_profile(profile)
        return Answer(200, {"name": profile.name})

    def remove(self, undo: list[Undo], name: str, tenants: Iterable[Tenant | None]) -> Answer:
        """Forget a profile, unless a tenant was placed by its name: the same request would find none."""
        before = self.get(name)
        users = [one.id for one in tenants if one and profile_name(one) == name]
        if users:
            said = f"profile {name}: {len(users)} tenants were placed by it, {min(users)} is one of them"
            raise Refused(409, "profile_in_use", said)
        del self.profiles[name]
        undo.append(lambda: self._back(name, before))
        self._state.remove_profile(name)
        return Answer(200, {"name": name})

    def ship(self) -> list[str]:
        """Keep the shipped profiles whose names are free. Returns the names of those that differ from what is kept."""
        for profile in shipped():
            if profile.name not in self.profiles:
                self.keep([], profile)
        return [one.name for one in shipped() if dict(self.profiles[one.name].features) != dict(one.features)]

    def _back(self, name: str, before: Profile | None) -> None:
        if before is None:
            del self.profiles[name]
        else:
            self.profiles[name] = before
