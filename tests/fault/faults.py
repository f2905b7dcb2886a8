"""What is done to clients and to the daemon: one function for each kind of event, chosen by weight from the seed."""

import time

import shared_region

# A state that a campaign of a thousand events does not meet has not been tested.
MUST_BE_MET = ["reserved", "publishing (tentative)", "publishing (final)", "retiring", "retired", "leases", "key pins",
               "slot CONNECTING", "slot ACTIVE", "slot QUARANTINED", "slot DEAD", "killed in a slot CONNECTING",
               "killed in a slot QUARANTINED", "region FORMATTING", "daemon killed in its sweep",
               "daemon killed while a region is FORMATTING", "client died while the daemon was down",
               "client died while the daemon was stopped", "client killed while stopped"]


def some(campaign, least=3):
    """Clients under load; none when there would be too few left for the fire to mean anything."""
    working = [client for client in campaign.clients if client.works()]
    return working if len(working) >= least else []


def one_of(campaign, least=3):
    working = some(campaign, least)
    return campaign.random.choice(working) if working else None


def note_daemon(campaign):
    if campaign.daemon.state in ("down", "stopped"):
        campaign.met[f"client died while the daemon was {campaign.daemon.state}"] += 1


def kill(campaign):
    client = one_of(campaign)
    if client:
        note_daemon(campaign)
        campaign.kill(client, "kill of a client")
    return client


def kill_several(campaign):
    working = some(campaign, 5)
    for client in campaign.random.sample(working, campaign.random.randint(2, len(working) // 2)) if working else []:
        note_daemon(campaign)
        campaign.kill(client, "kill of several clients at once")
    return working


def watch(campaign, act, patience_s=1.5):
    """Tries `act` at every turn until it has done something, or for so long."""
    until = time.monotonic() + patience_s

    def look():
        if not act() and time.monotonic() < until:
            campaign.later(0.0, look)

    look()
    return True


def kill_connecting(campaign):
    """In its slot, before it has made it its own."""
    def act():
        for client in campaign.clients:
            if client.state == "connecting" and client.stopped_at is None and \
                    client.phase(campaign.region) == shared_region.CONNECTING:
                campaign.kill(client, "kill of a client that connects")
                return True
        return False

    return watch(campaign, act)


def stop(campaign, least_s=0.005, most_s=0.4, kind="stop of a client"):
    client = one_of(campaign)
    if client:
        client.stop()
        event = campaign.note(kind, f"{client.name} at {client.point}")
        campaign.later(campaign.random.uniform(least_s, most_s), lambda: go_on(campaign, client, event))
    return client


def stop_long(campaign):
    return stop(campaign, 1.0, 2.5, "long stop of a client")


def go_on(campaign, client, event):
    if client.stopped_at is None or client.is_over():
        return
    phase = client.phase(campaign.region)
    # However long it stood, what was its own is its own; only who was disconnected is fenced, and not swept.
    expected = {shared_region.ACTIVE, shared_region.QUARANTINED} if client.may_be_fenced else {shared_region.ACTIVE}
    assert phase in expected, f"{client.name} was stopped and its slot is {shared_region.PHASES[phase]}; {event}"
    if client.must_be_fenced:
        assert phase == shared_region.QUARANTINED, f"{client.name} was disconnected: {shared_region.PHASES[phase]}"
    client.go_on()


def kill_stopped(campaign):
    client = one_of(campaign)
    if client:
        client.stop()

        def die():
            if client.stopped_at is None or client.is_over():
                return
            client.stopped_at = None
            campaign.met["client killed while stopped"] += 1
            note_daemon(campaign)
            campaign.kill(client, "kill of a stopped client")

        campaign.later(campaign.random.uniform(0.0, 0.3), die)
    return client


def end(campaign):
    client = one_of(campaign)
    if client:
        campaign.note("orderly end", client.name)
        client.end()
    return client


def stop_daemon(campaign, least_s=0.005, most_s=0.15, kind="stop of the daemon"):
    if campaign.daemon.state != "serving":
        return False
    campaign.daemon.stop()
    event = campaign.note(kind)

    def resume():
        if campaign.daemon.state == "stopped":
            campaign.daemon.go_on()
            event.end_ns = 0

    campaign.later(campaign.random.uniform(least_s, most_s), resume)
    return True


def stop_daemon_long(campaign):
    return stop_daemon(campaign, 0.8, 1.6, "long stop of the daemon")


def down(campaign, kind):
    """Kills the daemon; it is started again after a while in which others may die too, and perhaps killed again."""
    campaign.daemon.kill(campaign.region)
    campaign.note(kind)

    def again():
        if campaign.daemon.state == "starting":
            down(campaign, "kill of a daemon that starts")

    def start():
        if campaign.daemon.state != "down":
            return
        campaign.daemon.start(kind)
        if campaign.random.random() < 0.3:
            campaign.later(campaign.random.uniform(0.0, 0.05), again)

    campaign.later(campaign.random.uniform(0.0, 0.08), start)
    return True


def kill_daemon(campaign):
    return campaign.daemon.state in ("serving", "stopped") and down(campaign, "kill of the daemon")


def kill_daemon_when(campaign, sees, kind, patience_s=1.5):
    return watch(campaign, lambda: campaign.daemon.state in ("serving", "starting") and sees() and down(campaign, kind),
                 patience_s)


def kill_daemon_in_sweep(campaign):
    if campaign.daemon.state != "serving" or not kill_several(campaign):
        return False
    return kill_daemon_when(campaign, campaign.region.dead_clients, "kill of a daemon in its sweep")


def kill_daemon_forming(campaign):
    return kill_daemon_when(campaign, campaign.region.is_forming, "kill of a daemon that forms a region", 4.0)


def disconnect(campaign, client=None, kill_it=False, kind="disconnect"):
    client = client or one_of(campaign)
    if not client or campaign.daemon.state != "serving":
        return False
    client.may_be_fenced, client.is_doomed = True, kill_it
    event = campaign.note(kind, f"{client.name} at {client.point}")
    client.doom = event if kill_it else client.doom

    def told(code, _, errors):
        assert code in (0, 1, 2), errors
        if code != 0:  # the daemon was stopped or killed, or the client ended meanwhile: it may have heard it or not
            client.is_doomed = False
            return
        client.must_be_fenced = not client.is_over() and client.state == "working"

    campaign.command("client", "disconnect", *(["--kill"] if kill_it else []), client.name, then=told)
    return event


def disconnect_kill(campaign):
    return disconnect(campaign, kill_it=True, kind="disconnect --kill")


def disconnect_stopped(campaign):
    """It is fenced while it stands, keeps what it has, and wakes up to a clear error."""
    client = one_of(campaign)
    if not client or campaign.daemon.state != "serving":
        return False
    client.stop()
    event = disconnect(campaign, client, kind="disconnect of a stopped client")
    if campaign.random.random() < 0.3:
        def die():
            if client.stopped_at is not None:
                client.stopped_at = None
                campaign.kill(client, "kill of a fenced client")
        campaign.later(campaign.random.uniform(0.2, 0.6), die)
    else:
        campaign.later(campaign.random.uniform(0.2, 0.6), lambda: go_on(campaign, client, event))
    return True


def fork(campaign):
    client = one_of(campaign)
    if client:
        client.tell(b"mix-fork")
        campaign.note("fork of a client", client.name)
    return client


def fork_and_kill(campaign):
    """The child outlives its parent, whose slot must come back all the same."""
    client = one_of(campaign)
    if client:
        client.tell(b"mix-fork")
        campaign.note("fork of a client", client.name)

        def die():
            if client.works():
                campaign.kill(client, "kill of a client that has forked")

        campaign.later(campaign.random.uniform(0.05, 0.4), die)
    return client


def exec_(campaign):
    """The process lives on as another program: the client is dead."""
    client = one_of(campaign)
    if client:
        client.tell(b"mix-exec")
        client.execed = True
        client.become("over")
        campaign.lost(client, campaign.note("exec in a client", f"{client.name} at {client.point}"))
    return client


def everything(campaign):
    """All clients and the daemon at once."""
    working = some(campaign, 4)
    if not working or campaign.daemon.state not in ("serving", "stopped"):
        return False
    for client in working:
        campaign.kill(client, "kill of everything")
    return down(campaign, "kill of everything, the daemon")


WEIGHTS = {kill: 24, kill_several: 4, kill_connecting: 6, stop: 22, stop_long: 3, kill_stopped: 5, end: 5,
           stop_daemon: 6, stop_daemon_long: 1, kill_daemon: 8, kill_daemon_in_sweep: 2, kill_daemon_forming: 5,
           disconnect: 5, disconnect_kill: 4, disconnect_stopped: 5, fork: 3, fork_and_kill: 3, exec_: 3, everything: 1}


def one(campaign):
    """One event, if the one that was chosen is possible now."""
    return campaign.random.choices(list(WEIGHTS), WEIGHTS.values())[0](campaign)
