//! Encodings of what a disruption method selects removals from, what the verifier judges them by, and the
//! answer, in encoding order.

use controller::Removal;
use controller::disruption::selection::{
    AnnouncedMachine, BlockedRepair, EmptyMachine, EvictionLimits, ExpiringMachine, MachineEvictions, MachineNames,
    OutgoingMachine, OutgoingPool, PlannedReplacement, PoolFacts, PoolNodes, Protection, Protections, RankedMachine,
    ReadyPods, RemovalAnswer, Selection, StaticCounts, UnhealthyMachine,
};
use model::removal::{
    ClusterBudget, NodeRemoval, OptInNode, OptInPool, RemovalNode, RemovalPlan, RemovalPool, ReplicaCount,
};

use super::model::fields;
use super::{Codec, DecodeError, Reader};

fields! {
    MachineNames { claim, node, pool }
    AnnouncedMachine { machine, why }
    Protections { node, pods }
    Protection { of, lasts, from }
    PoolNodes { total, unavailable, not_ready }
    PoolFacts { policy, replicas, nodes }
    ExpiringMachine { machine, uid, created, expire_after, jitter }
    RankedMachine { machine, is_launched, created, expire_after, protections, has_pods, cost }
    UnhealthyMachine { machine, why, due, is_repairable }
    EmptyMachine { machine, protections, last_pod_event }
    OutgoingMachine {
        machine, since, why, begun, failures, has_pods, protections, ends_drains, is_drain_blocked, unassigned, unmoved,
        has_moved_pod, evictions,
    }
    OutgoingPool { facts, is_ready, backoff_until, begun_for_others, counts }
    StaticCounts { limit, claims, staying, serving }
    MachineEvictions { by_budget, has_several_budgets, ready }
    ReadyPods { pods, is_unprotected }
    EvictionLimits { pod_budgets, workloads }
    ClusterBudget { limit, total, unavailable, not_ready }
    ReplicaCount { pods, ready }
    NodeRemoval { claim, reason, deadline }
    RemovalPlan { removals, placements }
    RemovalPool { name, budgets, windows, total, unavailable, not_ready }
    RemovalNode { claim, node, ours, pool, stage, created, do_not_disrupt, pods }
    OptInPool { name, on_demand_min_nodes, spot_max_percent, min_nodes, zone_balance, staying, launched, removed }
    OptInNode { capacity_type, zone, millicores, pods_apart, is_bound_to_zones }
    RemovalAnswer { selection, removals }
    Selection { removals, replacements, next_check, held_by_budget, blocked_repairs }
    Removal { claim, node, reason }
    PlannedReplacement { removal, moves_pods }
    BlockedRepair { unhealthy, nodes }
}
