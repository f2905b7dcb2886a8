"""The Python side of `maru-bench python`: takes orders on standard input, a line each, answers nanoseconds for one
operation on standard output, and ends with its input.

python_worker.py MODULES SOCKET KEYS KEY_BYTES PAGE_BYTES POOL_BYTES: KEYS is a file with the keys of the benchmark in its
order, KEY_BYTES each; MODULES is the folder with the package, or empty for an installed one.
"""

import gc
import sys
import time

modules, socket, key_file, key_bytes, page_bytes, pool_bytes = sys.argv[1:]
if modules:
    sys.path.insert(0, modules)

import maru  # noqa: E402

BATCH = 256
clock = time.perf_counter_ns


def read_keys():
    with open(key_file, encoding="ascii") as file:
        text = file.read()
    step = int(key_bytes)
    return [text[at:at + step] for at in range(0, len(text), step)]


def retrieve(handler, keys, passes):
    retrieve_one = handler.retrieve
    begin = clock()
    for _ in range(passes):
        for key in keys:
            retrieve_one(key)
    return (clock() - begin) / (len(keys) * passes)


def batches(handler, keys, passes):
    slices = [keys[at:at + BATCH] for at in range(0, len(keys), BATCH)]
    retrieve_batch = handler.batch_retrieve
    begin = clock()
    for _ in range(passes):
        for piece in slices:
            retrieve_batch(piece)
    return (clock() - begin) / (len(keys) * passes)


def puts(handler, keys, passes):
    data = b"\x2a" * int(page_bytes)
    store, total = handler.store, 0
    for _ in range(passes):
        for key in keys:
            handler.delete(key)
        begin = clock()
        for key in keys:
            store(key, data=data)
        total += clock() - begin
    return total / (len(keys) * passes)


def main():
    gc.disable()  # what is measured makes no cycles; a million keys would be walked for nothing
    config = maru.MaruConfig(server_url=f"unix://{socket}", chunk_size_bytes=int(page_bytes), pool_size=int(pool_bytes))
    keys = read_keys()
    with maru.MaruHandler(config) as handler:
        print("ready", flush=True)
        for line in sys.stdin:
            what, first, count, passes = line.split()
            piece = keys[int(first):int(first) + int(count)]
            if what == "retrieve":
                if None in (handler.retrieve(key) for key in piece):
                    raise SystemExit("a key of the benchmark is not present")
                answer = retrieve(handler, piece, int(passes))
            elif what == "batch":
                answer = batches(handler, piece, int(passes))
            else:
                answer = puts(handler, piece, int(passes))
            print(answer, flush=True)


main()
