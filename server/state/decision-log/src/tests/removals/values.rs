//! Random values of every field that removals by a method are recorded from.

use std::collections::BTreeMap;

use controller::disruption::selection::{
    AnnouncedMachine, EmptyMachine, EmptyMachines, EvictionLimits, ExpiringMachine, ExpiringMachines, MachineEvictions,
    MachineNames, OutgoingMachine, OutgoingMachines, OutgoingPool, PoolFacts, PoolNodes, Protection, Protections,
    RankedMachine, ReadyPods, RemovalCheck, SelectionFacts, SelectionInput, StaticCounts, SurplusMachines, SurplusPool,
    UnhealthyMachine, UnhealthyMachines, UnhealthyPool,
};
use model::removal::{
    ClusterBudget, NodeRemoval, OptInNode, OptInPool, RemovalInput, RemovalNode, RemovalPlan, RemovalPool,
    RemovalReason, ReplicaCount,
};
use model::{BudgetLimit, NodeStage, PodKey, PoolName, Text, Timestamp};

use crate::tests::running::{Numbers, budget, do_not_disrupt, policy, running_pod, window};

fn small(numbers: &mut Numbers) -> usize {
    usize::try_from(numbers.below(9)).unwrap()
}

fn integer(numbers: &mut Numbers) -> i64 {
    i64::try_from(numbers.below(1 << 33)).unwrap() - (1 << 32)
}

/// One of a few NodePools, so that machines have the one that is recorded.
fn pool(numbers: &mut Numbers) -> PoolName {
    numbers.of(&["general", "spot", "static"]).into()
}

fn map<K: Ord, V>(
    numbers: &mut Numbers,
    key: impl Fn(&mut Numbers) -> K,
    value: impl Fn(&mut Numbers) -> V,
) -> BTreeMap<K, V> {
    numbers.list(|numbers| (key(numbers), value(numbers))).into_iter().collect()
}

fn pair(numbers: &mut Numbers) -> (Text, Text) {
    (numbers.text(), numbers.text())
}

fn names(numbers: &mut Numbers) -> MachineNames {
    MachineNames { claim: numbers.text().into(), node: numbers.text().into(), pool: pool(numbers) }
}

fn protections(numbers: &mut Numbers) -> Protections {
    let one = |numbers: &mut Numbers| Protection {
        of: numbers.text(),
        lasts: do_not_disrupt(numbers),
        from: numbers.maybe(Numbers::time),
    };
    Protections { node: numbers.maybe(one), pods: numbers.list(one) }
}

fn pool_facts(numbers: &mut Numbers) -> PoolFacts {
    let not_ready = small(numbers);
    let unavailable = not_ready + small(numbers);
    let nodes = PoolNodes { total: unavailable + small(numbers), unavailable, not_ready };
    PoolFacts { policy: policy(numbers), replicas: numbers.maybe(integer), nodes }
}

fn cluster(numbers: &mut Numbers) -> ClusterBudget {
    let limit = numbers.of(&[BudgetLimit::Nodes(3), BudgetLimit::Percent(10), BudgetLimit::Unreadable]);
    let not_ready = small(numbers);
    let unavailable = not_ready + small(numbers);
    ClusterBudget { limit, total: unavailable + small(numbers), unavailable, not_ready }
}

fn ranked(numbers: &mut Numbers) -> RankedMachine {
    RankedMachine {
        machine: names(numbers),
        is_launched: numbers.coin(),
        created: numbers.maybe(Numbers::time),
        expire_after: numbers.maybe(Numbers::duration),
        protections: protections(numbers),
        has_pods: numbers.coin(),
        cost: i128::from(integer(numbers)) << 40,
    }
}

fn unhealthy(numbers: &mut Numbers) -> UnhealthyMachine {
    let (machine, why, due) = (names(numbers), numbers.text(), numbers.time());
    UnhealthyMachine { machine, why, due, is_repairable: numbers.coin() }
}

fn evictions(numbers: &mut Numbers) -> MachineEvictions {
    MachineEvictions {
        by_budget: map(numbers, Numbers::text, small),
        has_several_budgets: numbers.coin(),
        ready: map(numbers, pair, |numbers| ReadyPods { pods: small(numbers), is_unprotected: numbers.coin() }),
    }
}

fn outgoing(numbers: &mut Numbers) -> OutgoingMachines {
    let machine = |numbers: &mut Numbers| OutgoingMachine {
        machine: names(numbers),
        since: numbers.time(),
        why: numbers.text(),
        begun: numbers.maybe(Numbers::time),
        failures: u32::try_from(numbers.below(9)).unwrap(),
        has_pods: numbers.coin(),
        protections: protections(numbers),
        ends_drains: numbers.coin(),
        is_drain_blocked: numbers.coin(),
        unassigned: small(numbers),
        unmoved: usize::from(numbers.coin()),
        has_moved_pod: numbers.coin(),
        evictions: evictions(numbers),
    };
    let pool_of = |numbers: &mut Numbers| {
        let facts = pool_facts(numbers);
        let counts = |numbers: &mut Numbers| StaticCounts {
            limit: numbers.maybe(integer),
            claims: small(numbers),
            staying: small(numbers),
            serving: small(numbers),
        };
        let (is_ready, backoff_until) = (numbers.coin(), numbers.maybe(Numbers::time));
        let begun_for_others = numbers.list(Numbers::time);
        OutgoingPool { facts, is_ready, backoff_until, begun_for_others, counts: numbers.maybe(counts) }
    };
    OutgoingMachines {
        machines: numbers.list(machine),
        pools: map(numbers, pool, pool_of),
        cluster: numbers.maybe(cluster),
        limits: EvictionLimits {
            pod_budgets: map(numbers, Numbers::text, small),
            workloads: map(numbers, pair, replicas),
        },
    }
}

fn replicas(numbers: &mut Numbers) -> ReplicaCount {
    ReplicaCount { pods: small(numbers), ready: small(numbers) }
}

fn facts(numbers: &mut Numbers) -> SelectionFacts {
    match numbers.below(7) {
        0 => SelectionFacts::Announced(
            numbers.list(|numbers| AnnouncedMachine { machine: names(numbers), why: numbers.text() }),
        ),
        1 => {
            let machine = |numbers: &mut Numbers| ExpiringMachine {
                machine: names(numbers),
                uid: numbers.text(),
                created: numbers.time(),
                expire_after: numbers.duration(),
                jitter: numbers.maybe(Numbers::duration),
            };
            SelectionFacts::Expiring(ExpiringMachines { machines: numbers.list(machine) })
        }
        2 => {
            let of_pool =
                |numbers: &mut Numbers| SurplusPool { replicas: integer(numbers) % 4, machines: numbers.list(ranked) };
            SelectionFacts::Surplus(SurplusMachines { pools: map(numbers, pool, of_pool) })
        }
        3 => {
            let of_pool =
                |numbers: &mut Numbers| UnhealthyPool { nodes: small(numbers), machines: numbers.list(unhealthy) };
            SelectionFacts::Unhealthy(UnhealthyMachines { pools: map(numbers, pool, of_pool) })
        }
        4 => {
            let machine = |numbers: &mut Numbers| EmptyMachine {
                machine: names(numbers),
                protections: protections(numbers),
                last_pod_event: numbers.maybe(Numbers::time),
            };
            SelectionFacts::Empty(EmptyMachines {
                machines: numbers.list(machine),
                pools: map(numbers, pool, pool_facts),
                cluster: numbers.maybe(cluster),
            })
        }
        5 => SelectionFacts::Outgoing(outgoing(numbers)),
        _ => SelectionFacts::Consolidated(outgoing(numbers)),
    }
}

pub(super) fn input(numbers: &mut Numbers) -> SelectionInput {
    let (reason, now, later) = (numbers.of(RemovalReason::ALL), numbers.time(), numbers.maybe(Numbers::time));
    SelectionInput { reason, now, later, facts: facts(numbers) }
}

fn opt_in_pool(numbers: &mut Numbers) -> OptInPool {
    let node = |numbers: &mut Numbers| OptInNode {
        capacity_type: numbers.text(),
        zone: numbers.text(),
        millicores: i64::try_from(small(numbers)).unwrap_or(0),
        pods_apart: small(numbers),
        is_bound_to_zones: numbers.coin(),
    };
    let count = |numbers: &mut Numbers| numbers.maybe(|numbers| i64::try_from(small(numbers)).unwrap_or(0));
    OptInPool {
        name: pool(numbers),
        on_demand_min_nodes: count(numbers),
        spot_max_percent: count(numbers),
        min_nodes: count(numbers),
        zone_balance: numbers.coin(),
        staying: numbers.list(node),
        launched: numbers.list(node),
        removed: map(numbers, |numbers| numbers.text().into(), node),
    }
}

/// What the verifier judged at `now`.
pub(super) fn check(numbers: &mut Numbers, now: Timestamp) -> RemovalCheck {
    let removed = |numbers: &mut Numbers| NodeRemoval {
        claim: numbers.text().into(),
        reason: numbers.of(RemovalReason::ALL),
        deadline: numbers.maybe(Numbers::time),
    };
    let key = |numbers: &mut Numbers| PodKey { namespace: numbers.text(), name: numbers.text() };
    let of_pool = |numbers: &mut Numbers| RemovalPool {
        name: pool(numbers),
        budgets: numbers.list(budget),
        windows: numbers.list(window),
        total: small(numbers),
        unavailable: small(numbers),
        not_ready: 0,
    };
    let node = |numbers: &mut Numbers| RemovalNode {
        claim: numbers.text().into(),
        node: numbers.text().into(),
        ours: numbers.coin(),
        pool: pool(numbers),
        stage: numbers.of(&[NodeStage::InFlight, NodeStage::Registered, NodeStage::Initialized, NodeStage::Deleting]),
        created: numbers.maybe(Numbers::time),
        do_not_disrupt: numbers.maybe(do_not_disrupt),
        pods: numbers.list(|numbers| running_pod(numbers).facts),
    };
    let input = RemovalInput {
        now,
        pools: numbers.list(of_pool),
        cluster_budget: numbers.maybe(cluster),
        nodes: numbers.list(node),
        pod_budgets: map(numbers, Numbers::text, |numbers| model::removal::PodBudget {
            allowed: small(numbers),
            evicts_unhealthy_always: numbers.coin(),
        }),
        elsewhere: map(numbers, pair, replicas),
        destinations: numbers.list(|numbers| numbers.text().into()).into_iter().collect(),
        opt_in: numbers.list(opt_in_pool),
    };
    let placements = map(numbers, key, |numbers| numbers.text().into());
    RemovalCheck { input, plan: RemovalPlan { removals: numbers.list(removed), placements } }
}
