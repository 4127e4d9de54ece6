# Two models with a backbone in common.
python3 - <<'MODELS'
import json
import os

backbone = os.urandom(4 << 20)
for name in ("a", "b"):
    header = {"backbone": {"dtype": "U8", "shape": [4 << 20], "data_offsets": [0, 4 << 20]}}
    header["head"] = {"dtype": "U8", "shape": [1 << 20], "data_offsets": [4 << 20, 5 << 20]}
    text = json.dumps(header).encode()
    with open(f"{name}.safetensors", "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + backbone + os.urandom(1 << 20))
MODELS
