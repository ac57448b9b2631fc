"""What every spec has: a canonical form, the same text for the same experiment, and its hash."""

import hashlib
import json
from collections.abc import Collection

from halfscale.study.model import Model


class Spec(Model):
    """The interface of an instrument: everything that decides what it computes, and nothing else."""

    def canonical(self, without: Collection[str] = ()) -> str:
        """Return the spec as JSON with sorted keys: the same text for the same experiment.

        A key with a default came after the others, and stands here only where it differs: what was computed before
        there was such a key is what is computed without it.

        Args:
            without: keys that are left out whatever they hold.
        """
        fields = type(self).model_fields.items()
        defaults = {name for name, field in fields if name != "spec" and getattr(self, name) == field.get_default()}
        kept = self.model_dump(exclude={*defaults, *without})
        return json.dumps(kept, sort_keys=True, separators=(",", ":"), allow_nan=False)

    @property
    def hash(self) -> str:
        """SHA-256 of the canonical form, in hex."""
        return hashlib.sha256(self.canonical().encode()).hexdigest()
