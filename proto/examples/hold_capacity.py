"""A client of CapacityService in Python: quotes pods that do not exist yet, holds room for them in the cluster with the
best quote, waits for it, prints by what the pods take it, and releases it.

    pip install grpcio grpcio-tools
    python3 -m grpc_tools.protoc --proto_path=proto --python_out=stubs --grpc_python_out=stubs \
        proto/fleetwright/v1/*.proto proto/google/api/*.proto
    PYTHONPATH=stubs python3 proto/examples/hold_capacity.py 127.0.0.1:7450 3 1 2Gi

The variable FLEETWRIGHT_TOKEN has the bearer token, if the server requires one; its scope is `operate`. A server with TLS
needs grpc.secure_channel with the certificates of its authority.
"""

import os
import sys
import uuid

import grpc
from google.protobuf import duration_pb2

from fleetwright.v1 import capacity_pb2, capacity_service_pb2, capacity_service_pb2_grpc
from fleetwright.v1 import fleet_service_pb2, fleet_service_pb2_grpc


def pod_set(count, cpu, memory):
    """Equal pods with one container that requests this; the template is a PodTemplateSpec, as in a manifest."""
    pods = capacity_pb2.PodSet(name="workers", namespace="default", count=count)
    requests = {"cpu": cpu, "memory": memory}
    pods.template.update({"spec": {"containers": [{"name": "main", "resources": {"requests": requests}}]}})
    return pods


def hold_capacity(capacity, fleet, pods, metadata):
    quotes = capacity.QuoteClusters(
        capacity_service_pb2.QuoteClustersRequest(pod_sets=[pods], max_clusters=3), metadata=metadata
    ).quotes
    for quote in quotes:
        print(f"{quote.cluster}: fits={str(quote.fits).lower()} price={quote.price_micro_usd_per_hour}")

    request = capacity_service_pb2.CreateHoldRequest(
        parent="clusters/-",  # The cluster with the best quote.
        hold=capacity_pb2.Hold(
            pod_sets=[pods], kind=capacity_pb2.HOLD_KIND_DEDICATED, ttl=duration_pb2.Duration(seconds=600)
        ),
        # The server holds once for all requests of this id, so that a call that failed can be repeated.
        request_id=str(uuid.uuid4()),
    )
    try:
        hold = capacity.CreateHold(request, metadata=metadata)
    except grpc.RpcError as error:
        if error.code() != grpc.StatusCode.UNAVAILABLE:
            raise
        hold = capacity.CreateHold(request, metadata=metadata)

    changes = fleet.WatchHold(fleet_service_pb2.WatchHoldRequest(name=hold.name), metadata=metadata)
    for hold in changes:
        if hold.state != capacity_pb2.HOLD_STATE_PENDING:
            break
    changes.cancel()
    print(f"{hold.name}: {capacity_pb2.HoldState.Name(hold.state)}")
    if hold.state != capacity_pb2.HOLD_STATE_ACTIVE:
        sys.exit(hold.message)
    for key, value in hold.node_selector.items():
        print(f"nodeSelector {key}={value}")
    for needed in hold.tolerations:
        print(f"toleration key={needed.key} operator={needed.operator} value={needed.value} effect={needed.effect}")

    # The etag refuses the release if the hold has changed since.
    release = capacity_service_pb2.ReleaseHoldRequest(name=hold.name, etag=hold.etag)
    released = capacity.ReleaseHold(release, metadata=metadata)
    print(capacity_pb2.HoldState.Name(released.state))


def main():
    if len(sys.argv) != 5:
        sys.exit("usage: hold_capacity.py HOST:PORT PODS CPU MEMORY")
    address, count, cpu, memory = sys.argv[1:]
    token = os.environ.get("FLEETWRIGHT_TOKEN")
    metadata = [("authorization", f"Bearer {token}")] if token else []
    with grpc.insecure_channel(address) as channel:
        capacity = capacity_service_pb2_grpc.CapacityServiceStub(channel)
        fleet = fleet_service_pb2_grpc.FleetServiceStub(channel)
        hold_capacity(capacity, fleet, pod_set(int(count), cpu, memory), metadata)


if __name__ == "__main__":
    main()
