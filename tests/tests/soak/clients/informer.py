"""Informers of the Python package kubernetes: ConfigMaps and gadgets of all namespaces.

Each line on standard output is a JSON document: what the watch delivered (`event`), what a list answered (`list`), 410 (`expired`),
other failures (`error`). A line `dump` on standard input is answered by the caches (`dump`): the informer's own, and what its
handlers would have kept.
"""

import json
import logging
import sys
import threading
import time

from kubernetes import client, config
from kubernetes.informer import SharedInformer

# The informer logs every lost connection with its stack.
logging.disable(logging.CRITICAL)
out = threading.Lock()


def say(**line):
    with out:
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


def metadata(thing):
    """Namespace/name and resourceVersion of a typed object or of a dictionary."""
    if isinstance(thing, dict):
        meta = thing["metadata"]
        return f"{meta['namespace']}/{meta['name']}", meta["resourceVersion"]
    return f"{thing.metadata.namespace}/{thing.metadata.name}", thing.metadata.resource_version


def item(thing):
    values = thing.get("spec") if isinstance(thing, dict) else thing.data
    return [*metadata(thing), int((values or {}).get("number", -1))]


class Listed:
    """A list of custom objects as the informer reads lists."""

    def __init__(self, answer):
        self.items = answer["items"]
        self.metadata = client.V1ListMeta(resource_version=answer["metadata"]["resourceVersion"])


def custom_objects(**kwargs):
    """Custom objects as the informer lists and watches them.

    :rtype: object
    """
    api = client.CustomObjectsApi()
    answer = api.list_custom_object_for_all_namespaces("soak.example.com", "v1", "gadgets", **kwargs)
    return answer if kwargs.get("watch") else Listed(answer)


class Told:
    """An informer that tells what it sees."""

    def __init__(self, resource, source):
        self.resource = resource
        self.handled = {}
        # Handlers also hear what a list changed: no events of the watch.
        self.listing = True

        def told(**kwargs):
            self.listing = not kwargs.get("watch")
            answer = source(**kwargs)
            if self.listing:
                items = [item(thing) for thing in answer.items]
                say(resource=resource, what="list", version=answer.metadata.resource_version, items=items)
            return answer

        # By these the package finds the type of the objects, and that the function can watch.
        told.__doc__ = source.__doc__
        if "return" in getattr(source, "__annotations__", {}):
            told.__annotations__ = {"return": source.__annotations__["return"]}
        self.informer = SharedInformer(told)
        for kind in ("ADDED", "MODIFIED", "DELETED"):
            self.informer.add_event_handler(kind, lambda thing, kind=kind: self.handle(kind, thing))
        self.informer.add_event_handler("ERROR", self.failed)
        self.informer.start()

    def handle(self, kind, thing):
        key, version = metadata(thing)
        if not self.listing:
            say(resource=self.resource, what="event", type=kind, at=int(time.time() * 1e6), item=item(thing))
        if kind == "DELETED":
            self.handled.pop(key, None)
        else:
            self.handled[key] = version

    def failed(self, error):
        expired = getattr(error, "status", None) == 410
        say(resource=self.resource, what="expired" if expired else "error", text=str(error)[:300])
        # The informer comes back at once.
        time.sleep(0.3)

    def dump(self):
        cache = dict(metadata(thing) for thing in self.informer.cache.list())
        say(resource=self.resource, what="dump", cache=cache, handled=dict(self.handled))


config.load_kube_config()
informers = [
    Told("configmaps", client.CoreV1Api().list_config_map_for_all_namespaces),
    Told("gadgets", custom_objects),
]
for _ in sys.stdin:
    for informer in informers:
        informer.dump()
