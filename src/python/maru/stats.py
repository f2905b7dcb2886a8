"""The dictionary of MaruHandler.get_stats()."""

from typing import Any

_NO_TIMES = {"avg_latency_us": 0.0, "min_latency_us": 0.0, "max_latency_us": 0.0}


def _operation(count: int, hits: int) -> dict[str, Any]:
    """Of another client only the counts in shared memory are known."""
    return {"count": count, "hit_count": hits, "miss_count": max(count - hits, 0), "total_bytes": 0, **_NO_TIMES}


def _of_counters(client: dict[str, Any]) -> dict[str, Any]:
    stores = client["stores"] + client["duplicates"]
    return {"retrieve": _operation(client["lookups"], client["hits"]), "store": _operation(stores, client["stores"]),
            "delete": _operation(client["deletes"], client["deletes"])}


def _clients(handler: Any) -> dict[str, Any]:
    """_all sums what shared memory counts; this handler's entry also has its own operations, bytes and times."""
    totals = dict.fromkeys(("lookups", "hits", "stores", "duplicates", "deletes"), 0)
    clients: dict[str, Any] = {"_all": {}}
    for client in handler._clients():
        for counter in totals:
            totals[counter] += client[counter]
        operations = _of_counters(client)
        if client["self"]:
            operations |= handler._operations()
        name = client["instance_id"]
        while name in clients:  # two clients may have one name
            name += "+"
        clients[name] = {"operations": operations}
    clients["_all"] = {"operations": _of_counters(totals)}
    return clients


def _regions(handler: Any) -> dict[str, Any]:
    regions = []
    for number in handler._held_regions():
        region = handler._region(number)
        if region is not None:
            regions.append({"region_id": number, "page_count": region["page_count"], "page_size": region["page_size"],
                            "size": region["bytes"]})
    own = handler._statistics()
    allocated = own["pages"] - own["free_pages"]
    return {
        "num_regions": own["held_regions"],
        "total_pool_size": own["held_bytes"],
        "total_page_count": own["pages"],
        "total_free_pages": own["free_pages"],
        "total_allocated_pages": allocated,
        "utilization": allocated / own["pages"] if own["pages"] else 0.0,
        "regions": regions,
    }


def collect(handler: Any) -> dict[str, Any]:
    """Everything but the plug-ins' part. Reads shared memory, never waits for the daemon."""
    own, domain = handler._statistics(), handler._domain_statistics()
    return {
        "kv_manager": {"total_entries": domain["objects"], "total_size": domain["object_bytes"]},
        "allocation_manager": {"num_allocations": domain["reserved_pages"], "total_allocated": domain["reserved_bytes"],
                               "active_clients": domain["clients"]},
        "store_regions": _regions(handler),
        "cxl_pool": {"total_size": own["pool_bytes"], "free_size": own["unclaimed_bytes"]},
        "stats_manager": {"clients": _clients(handler)},
        "evictions": domain["evictions"],
        "pinned_pages": domain["pinned_pages"],
        "reserved_pages": domain["reserved_pages"],
        "retired_pages": domain["retired_pages"],
    }
