"""Reference instance server: one model over the Open Inference Protocol v2, batched, weights from the tensor store."""

from __future__ import annotations

#: Version of the package, and of the server in its metadata.
__version__ = "0.1.0"
