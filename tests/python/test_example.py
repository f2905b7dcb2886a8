"""The example of the contract, and the one of README.md."""

import pathlib
import re
import sys

import harness

ROOT = pathlib.Path(__file__).parents[2]


def test_the_contracts_example(domain):
    from maru import MaruConfig, MaruHandler

    config = MaruConfig(server_url=f"unix://{domain.socket}", pool_size=8 << 20)
    with MaruHandler(config) as handler:
        handle = handler.alloc(size=1024 * 1024)
        handle.buf[:] = b"A" * (1024 * 1024)
        assert handler.store(key=42, handle=handle)
        result = handler.retrieve(key=42)
        assert result is not None and len(result.view) == 1024 * 1024 and bytes(result.view[:5]) == b"AAAAA"


def test_the_readmes_example(domain):
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 1
    ended = harness.run(sys.executable, "-X", "dev", "-W", "error", "-c", blocks[0],
                        environment={"MARU_SOCKET": str(domain.socket)})
    assert ended.code == 0 and ended.text.strip() == "1048576 bytes, the first is 65", ended
