"""Processes that can only read the store, as those of pods: the node's daemon publishes what they make in memory."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import onnx_models
import pytest
import torch
from process import objects
from restricted import Restricted

#: No user of the machine.
USER = 47_110
PREAMBLE = """
import json, sys
import torch
import tetris, tetris.torch

def weight(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))

def mapped(*tensors):
    found = []
    with open("/proc/self/maps") as maps:
        for line in maps:
            fields = line.split(maxsplit=5)
            if len(fields) == 6 and "/objects-v1/" in fields[5]:
                found.append([int(number, 16) for number in fields[0].split("-")])
    def of_store(tensor):
        begin, end = tensor.data_ptr(), tensor.data_ptr() + tensor.nbytes
        return any(low <= begin and end <= high for low, high in found)
    return [of_store(tensor) for tensor in tensors]
"""


@pytest.fixture
def restricted(empty_dir: Path) -> Iterator[Restricted]:
    """A store with a daemon."""
    made = Restricted(empty_dir, PREAMBLE)
    yield made
    made.end()


def test_modules_and_state_dicts_are_published_by_the_daemon(restricted: Restricted) -> None:
    program = """
        assert not __import__("os").access(tetris.agent().store, 2)
        module = torch.nn.Linear(512, 512)
        module.weight.data = weight(1, 512, 512)
        report = tetris.torch.share_module_(module, min_bytes=4096)
        assert mapped(module.weight) == [True], report
        assert torch.equal(module.weight, weight(1, 512, 512))
        state, more = tetris.torch.share_state_dict({"a": weight(2, 700, 300)})
        assert mapped(state["a"]) == [True], more
        print(json.dumps([report.bytes_published, report.bytes_found, more.bytes_published, more.bytes_found]))
    """
    first, second = 512 * 512 * 4, 700 * 300 * 4
    assert restricted.python(program) == [first, 0, second, 0]
    assert restricted.python(program) == [0, first, 0, second]
    assert sum(path.stat().st_size for path in objects(restricted.store)) == first + second


#: Prints whether it ran the function, and whether the result is right.
DERIVE = """
    ran = []
    def cast(tensor):
        ran.append(True)
        return tensor.to(torch.bfloat16) + float(sys.argv[1])
    result = tetris.derived(weight(3, 512, 512), "cast", cast)
    assert mapped(result) == [True]
    print(json.dumps([len(ran), torch.equal(result, weight(3, 512, 512).to(torch.bfloat16))]))
"""


def test_one_process_of_a_user_derives_and_the_others_find_the_result(restricted: Restricted) -> None:
    assert restricted.python(DERIVE, 0) == [1, True]
    assert restricted.python(DERIVE, 0) == [0, True]


def test_no_user_takes_the_word_of_another(restricted: Restricted) -> None:
    as_other = ["setpriv", "--reuid", str(USER), "--clear-groups", "--regid", str(USER)]
    reach = [*as_other, sys.executable, "-c", "import torch"]
    try:
        reached = subprocess.run(reach, capture_output=True, check=False).returncode == 0
    except OSError:
        reached = False
    if not reached:
        pytest.skip("other users cannot use this interpreter")
    liar, other = USER + 1, USER + 2
    assert restricted.python(DERIVE, 1, user=liar) == [1, False]
    assert restricted.python(DERIVE, 0, user=liar) == [0, False], "its own word"
    assert restricted.python(DERIVE, 0, user=other) == [1, True]


#: Builds a layout, or finds it; prints whether it was built, and whether the result is right.
LAYOUT = """
    ran = []
    def fused():
        ran.append(True)
        both = torch.cat([source, source]).to(torch.bfloat16)
        return {"both": both, "second": both[512:], "scale": torch.tensor(2.0)}
    source = weight(4, 512, 512)
    made = tetris.torch.layout("fuse", fused, sources={"weight": source})
    assert made.private_reason is None, made.private_reason
    tensors = made.tensors
    assert mapped(*tensors.values()) == [True, True, True]
    tensors["second"][0, 0] = 5
    right = tensors["both"][512, 0] == 5 and torch.equal(tensors["both"][:512], source.to(torch.bfloat16))
    print(json.dumps([len(ran), bool(right)]))
"""


def test_one_process_of_a_user_builds_a_layout_and_the_others_map_it(restricted: Restricted) -> None:
    assert restricted.python(LAYOUT) == [1, True]
    assert restricted.python(LAYOUT) == [0, True]


def test_casts_of_transformers_have_one_copy(restricted: Restricted) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        vocab_size=1000,
    )
    model = transformers.LlamaForCausalLM(config).to(torch.float32)
    folder = restricted.file("model")
    model.save_pretrained(folder)
    program = """
        from transformers import AutoModelForCausalLM
        model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.bfloat16)
        large = [one for one in model.parameters() if one.nbytes >= 65536]
        assert large and all(one.dtype is torch.bfloat16 for one in large)
        inputs = torch.arange(12).reshape(1, 12)
        with torch.no_grad():
            total = model(inputs).logits.double().sum().item()
        print(json.dumps([all(mapped(*large)), total]))
    """
    plain = restricted.python(program, folder)
    assert plain[0] is False
    first = restricted.python(program, folder, patch=True)
    before = len(objects(restricted.store))
    assert first == [True, plain[1]]
    assert restricted.python(program, folder, patch=True) == first
    assert len(objects(restricted.store)) == before


def test_prepacked_weights_of_onnxruntime_have_one_copy(restricted: Restricted) -> None:
    pytest.importorskip("onnxruntime")
    case = onnx_models.matmul_stack()
    path = restricted.file("model.onnx")
    path.write_bytes(case.model.SerializeToString())
    program = """
        import tetris.onnxruntime
        session = tetris.onnxruntime.InferenceSession(sys.argv[1], weights="prepacked")
        sharing = session.sharing
        assert sharing.weights == "prepacked", sharing.reason
        print(json.dumps([sharing.tensor_bytes > 0, sharing.packed_bytes > 0]))
    """
    assert restricted.python(program, path) == [True, True]
    before = len(objects(restricted.store))
    assert restricted.python(program, path) == [True, True]
    assert len(objects(restricted.store)) == before


def test_without_a_daemon_the_bytes_stay_private_and_the_reason_is_said(restricted: Restricted) -> None:
    restricted.process.kill()
    restricted.process.wait()
    program = """
        module = torch.nn.Linear(512, 512)
        report = tetris.torch.share_module_(module, min_bytes=4096)
        result = tetris.derived(weight(3, 512, 512), "cast", lambda tensor: tensor * 2)
        print(json.dumps([report.bytes_shared, report.private_reason, torch.equal(result, weight(3, 512, 512) * 2)]))
    """
    shared, reason, right = restricted.python(program)
    assert shared == 0 and right
    assert "no daemon" in reason
    assert not objects(restricted.store)
