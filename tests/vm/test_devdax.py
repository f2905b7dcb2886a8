"""maru on /dev/dax: the daemon by way of libdaxctl, engines by the descriptors that it hands them."""

import re

import pytest
import report
from harness import KIB, MARUCTL, MIB, wait_until
from jobs import conforms, dax_pool, does_its_job, header_of, is_on_device, mapping_of, only_pool, refused
from machine import Device

DAX = "/dev/dax0.0"
KIND = "devdax (hmem)"


@pytest.fixture(name="guest", scope="module")
def fixture_guest(make_guest, make_memory):
    """A guest with soft-reserved memory, as most CXL memory comes: the whole file is the device."""
    return make_guest("dax", [Device("hmem", make_memory())], modules=["kmem"])


@pytest.fixture(autouse=True)
def blank_device(guest):
    """Each test begins with a device that nobody has written on."""
    guest.devices[0].memory.write(0, bytes(64 * MIB))
    guest.good("rm -f /dev/shm/maru-*")


def test_devdax_conforms(guest):
    conforms(guest, f"devdax:{DAX}", KIND)


def test_chunks_are_shared_on_the_device(guest, make_domain):
    domain = make_domain(guest, dax_pool())
    pool = only_pool(domain)
    is_on_device(domain, does_its_job(domain, KIND))
    report.said(f"{KIND}: {pool['description']}, {pool['size'] // MIB} MiB")


def test_the_bytes_are_the_device(guest, make_domain):
    """What an engine wrote is in the memory behind the device, at the place that region and page name."""
    domain = make_domain(guest, dax_pool())
    domain.engine(pool=8 * MIB, page=64 * KIB).good("close")
    marker = b"these very bytes are on the device" * 10
    assert domain.maructl("put", "marker", "-", given=marker).code == 0
    whole = guest.devices[0].memory.read(0, 256 * MIB)
    assert whole.count(marker) == 1


def test_an_engine_needs_no_right_on_the_device(guest, make_domain):
    """The device is root's alone; a client of the daemon's group gets what it needs over the socket."""
    assert guest.good(f"stat -c '%U %a' {DAX}") == "root 600\n"
    domain = make_domain(guest, dax_pool())
    engine = domain.engine(pool=8 * MIB, page=64 * KIB, connect=False,
                           wrapper=["setpriv", "--reuid=65534", "--regid=0", "--clear-groups"])
    engine.connect(pool=8 * MIB, page=64 * KIB)
    engine.good("put", key="k", id=1, size=60_000)
    assert engine.good("get", key="k").right
    mapping_of(guest, engine.pid, DAX)


# -- one device, one pool ------------------------------------------------------------------------------------------


def test_a_device_under_two_names_is_one_pool(guest, make_domain):
    """Within a config that is a mistake of its own; another daemon finds the device taken, whatever it calls it."""
    guest.good(f"ln -sf {DAX} /run/cxl0")
    two_names = make_domain(guest, dax_pool(name="kv"), dax_pool("/run/cxl0", name="more"), start=False)
    ended = two_names.maru()
    assert ended.code == 4 and f"pools 'kv' and 'more' are one device, {DAX}" in ended.err, ended
    assert "another daemon" not in ended.err
    domain = make_domain(guest, dax_pool())
    for path in (DAX, "/run/cxl0", f"uuid:{header_of(guest)['uuid']}"):
        said = refused(guest, "--pool", f"devdax:{path}", code=3)
        assert "another daemon owns pool 'devdax0'" in said and f"process {domain.process.pid}" in said, said
    [device] = domain.ask("device", "list")["devices"]
    assert device["in_use"] and device["header"]["domain"] == domain.status()["domain"]["uuid"]
    kept = guest.run([MARUCTL, "device", "clear", DAX, "-y"])
    assert kept.code == 1 and "a daemon serves it" in kept.err


def test_somebodys_data_is_not_taken(guest):
    """"any" says why each device is of no use; a start that fails leaves no file."""
    memory = guest.devices[0].memory
    memory.write(1024, b"\x53\xef")
    for pool in ("any", DAX):
        said = refused(guest, "--pool", f"devdax:{pool}")
        assert DAX in said and "not maru's" in said, said
    assert "no DAX device here has maru's header or is blank" in refused(guest, "--pool", "devdax:any")
    assert guest.good("ls /dev/shm") == ""
    assert memory.read(1024, 2) == b"\x53\xef" and memory.read(0, 1024) == bytes(1024)


def test_a_user_without_a_right_on_the_device_is_told_how_to_get_it(guest, make_domain):
    domain = make_domain(guest, dax_pool())
    uuid = header_of(guest)["uuid"]
    assert domain.stop() == 0
    domain.expect_clean = False
    assert "/dev/shm/maru-device-" in guest.good("ls /dev/shm/maru-device-*"), "root's lock file is there, and not to open"
    for pool in (DAX, f"uuid:{uuid}", "any"):
        said = refused(guest, "--pool", f"devdax:{pool}", user=65534)
        assert f"{DAX}: this user may not open it" in said, said
        assert "conf/udev/60-maru.rules" in said and "group maru" in said, said
    guest.good(f"chmod 666 {DAX}")
    try:
        said = refused(guest, "--pool", f"devdax:{DAX}", user=65534)
        assert "lock file /dev/shm/maru-device-" in said and "belongs to user 0, this is user 65534" in said, said
    finally:
        guest.good(f"chmod 600 {DAX}")


# -- sizes, --check-config, --remove -------------------------------------------------------------------------------


def test_sizes_are_whole_units_of_the_device(guest, make_domain):
    for size, said in (("1MiB", "does not fit"), ("300MiB", "254.0 MiB behind its header")):
        ended = make_domain(guest, dax_pool(size=size), start=False).maru()
        assert ended.code == 4 and said in ended.err, ended
    assert guest.devices[0].memory.read(0, 4096) == bytes(4096)
    domain = make_domain(guest, dax_pool(size="33MiB"))
    assert only_pool(domain)["size"] == 32 * MIB and header_of(guest)["bytes"] == 32 * MIB
    assert domain.stop() == 0
    whole = make_domain(guest, dax_pool(), start=False).maru()
    assert whole.code == 4 and "254.0 MiB" in whole.err and "was formatted with 32.0 MiB" in whole.err, whole


def test_check_config_touches_nothing_and_remove_frees_the_device(guest, make_domain):
    memory = guest.devices[0].memory
    domain = make_domain(guest, dax_pool(), start=False)
    explained = domain.maru("--check-config")
    assert explained.code == 0 and DAX in explained.text and "254.0 MiB" in explained.text, explained
    assert memory.read(0, 64 * MIB) == bytes(64 * MIB) and guest.good("ls /dev/shm") == ""
    nothing = domain.maru("--remove")
    assert nothing.code in (0, 2), nothing

    domain.start()
    header = header_of(guest)
    domain.engine(pool=8 * MIB, page=64 * KIB).good("put", key="k", id=1, size=60_000)
    assert domain.maru("--check-config").code == 0 and header_of(guest) == header
    served = domain.maru("--remove", "-y")
    assert served.code == 3 and "another daemon owns" in served.err, served
    for engine in domain.engines:
        engine.dispose()
    wait_until(domain.nothing_held, "the engine is swept")
    assert domain.stop() == 0
    unasked = domain.maru("--remove")
    assert unasked.code == 2 and "1 objects" in unasked.err and "say -y" in unasked.err, unasked
    assert header_of(guest) == header
    removed = domain.maru("--remove", "-y")
    assert removed.code == 0 and DAX in removed.text, removed
    assert header_of(guest)["uuid"] == header["uuid"] and header_of(guest)["domain"] is None
    assert guest.good("ls /dev/shm") == "", "the lock file goes with the domain"
    domain.start()
    assert domain.status()["domain"]["uuid"] != header["domain"] and not domain.keys()


# -- a device that is another thing now ----------------------------------------------------------------------------


def test_a_device_in_use_as_system_ram(guest, make_domain):
    guest.good("daxctl reconfigure-device -m system-ram dax0.0")
    said = refused(guest, "--pool", f"devdax:{DAX}")
    assert f"{DAX}: it is system RAM (node 1)" in said and "kind numa" in said, said
    assert "it is system RAM (node 1)" in refused(guest, "--pool", "devdax:any")
    [command] = re.findall(r"daxctl reconfigure-device --mode=devdax --force dax0\.0", said)
    guest.good(command)
    make_domain(guest, dax_pool())


def test_a_device_that_vanishes_under_its_daemon(guest, make_domain):
    """The daemon ends with a sentence and status 1; when the device is back, so is what was on it."""
    domain = make_domain(guest, dax_pool())
    engine = domain.engine(pool=8 * MIB, page=64 * KIB)
    engine.good("put", key="k", id=1, size=60_000)
    engine.good("close")
    engine.quit()
    domain.engines.clear()
    guest.good("daxctl disable-device dax0.0")
    assert domain.process.wait(60) == 1, domain.log_tail()
    assert f"the control region in pool 'kv' ({DAX}) is not there any more" in domain.log_tail()
    assert "it is disabled: daxctl enable-device dax0.0" in refused(guest, "--pool", f"devdax:{DAX}")
    guest.good("daxctl enable-device dax0.0")
    domain.start()
    assert domain.engine("no_claim").good("get", key="k").right
    assert "/dev/dax9.9: No such file" in refused(guest, "--pool", "devdax:/dev/dax9.9")
