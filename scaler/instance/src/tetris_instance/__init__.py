"""Reference instance server: one model over the Open Inference Protocol v2, batched, weights from the tensor store."""

from __future__ import annotations

#: Of the package, and of the server's metadata.
__version__ = "0.1.0"
