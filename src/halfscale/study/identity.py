"""What every spec has: a canonical form, the same text for the same experiment, and its hash."""

import hashlib
import json

from halfscale.study.model import Model


class Spec(Model):
    """The interface of an instrument: everything that decides what it computes, and nothing else."""

    def canonical(self) -> str:
        """Return the spec as JSON with sorted keys: the same text for the same experiment."""
        return json.dumps(self.model_dump(), sort_keys=True, separators=(",", ":"), allow_nan=False)

    @property
    def hash(self) -> str:
        """SHA-256 of the canonical form, in hex."""
        return hashlib.sha256(self.canonical().encode()).hexdigest()
