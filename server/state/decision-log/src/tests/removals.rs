//! Removals by a method survive their records with random values of every field; they replay bit for bit from the
//! log alone, and each changed value that matters is found.

mod values;

use std::collections::{BTreeMap, HashMap};

use controller::disruption::selection::{
    EmptyMachine, EmptyMachines, ExpiringMachine, ExpiringMachines, MachineNames, OutgoingMachine, OutgoingMachines,
    OutgoingPool, PoolFacts, PoolNodes, Protection, RankedMachine, RemovalAnswer, RemovalCheck, RemovalRecord,
    SelectionFacts, SelectionInput, SurplusMachines, SurplusPool, UnhealthyMachine, UnhealthyMachines, UnhealthyPool,
};
use model::disruption_policy::{Budget, BudgetLimit};
use model::removal::{
    DoNotDisrupt, NodeRemoval, RemovalInput, RemovalNode, RemovalPlan, RemovalPod, RemovalPool, RemovalReason,
    ReplicaCount,
};
use model::{DisruptionPolicy, Millis, NodeName, NodeStage, PodKey, PoolName, Text, Timestamp};
use store::{Archive, compression};

use super::fixture::{LoggedCluster, source};
use super::running::Numbers;
use crate::records::removal;
use crate::replay::{LogReader, RecordedDecision, RecordedPlan};
use crate::replay_all::{self, ReplaySummary};
use crate::what_if::WhatIf;

const NOW: Timestamp = Timestamp::from_millis(100_000);

fn names(number: usize) -> MachineNames {
    MachineNames {
        claim: format!("general-{number:05}").into(),
        node: format!("ip-10-0-{number}-7.ec2.internal").into(),
        pool: "general".into(),
    }
}

fn nodes(limit: u32) -> DisruptionPolicy {
    let budgets = vec![Budget { limit: BudgetLimit::Nodes(limit), reasons: None, window: None }];
    DisruptionPolicy { budgets, consolidate_after: Some(Millis::from_secs(30)), ..DisruptionPolicy::default() }
}

fn pool_facts(limit: u32, total: usize) -> PoolFacts {
    PoolFacts { policy: nodes(limit), replicas: None, nodes: PoolNodes { total, ..PoolNodes::default() } }
}

fn basis(reason: RemovalReason, facts: SelectionFacts) -> RemovalRecord {
    let input = SelectionInput { reason, now: NOW, later: None, facts };
    let selected = input.select().removals;
    let removals = selected.iter().map(|removal| NodeRemoval { claim: removal.claim.clone(), reason, deadline: None });
    let node = |removal: &controller::Removal| RemovalNode {
        claim: removal.claim.clone(),
        node: removal.node.clone(),
        ours: true,
        pool: "general".into(),
        stage: NodeStage::Initialized,
        created: Some(Timestamp::from_millis(0)),
        do_not_disrupt: None,
        pods: Vec::new(),
    };
    let pool = RemovalPool {
        name: "general".into(),
        budgets: nodes(20).budgets,
        windows: Vec::new(),
        total: 1_000,
        unavailable: 0,
        not_ready: 0,
    };
    let check = RemovalCheck {
        input: RemovalInput {
            now: NOW,
            pools: vec![pool],
            nodes: selected.iter().map(node).collect(),
            ..RemovalInput::default()
        },
        plan: RemovalPlan { removals: removals.collect(), placements: BTreeMap::new() },
    };
    let answer = RemovalAnswer::again(&input, &check);
    RemovalRecord { input, check, answer }
}

/// `count` empty nodes with the last pod event at 60 s; the budget allows `limit`.
fn empty(count: usize, limit: u32) -> RemovalRecord {
    let machine = |number| EmptyMachine {
        machine: names(number),
        protections: Default::default(),
        last_pod_event: Some(Timestamp::from_millis(60_000)),
    };
    let pools = BTreeMap::from([(PoolName::from("general"), pool_facts(limit, 1_000))]);
    let facts = EmptyMachines { machines: (0..count).map(machine).collect(), pools, cluster: None };
    basis(RemovalReason::Empty, SelectionFacts::Empty(facts))
}

/// `count` drifted nodes whose pods have their places; the budget allows `limit`.
fn drifted(count: usize, limit: u32) -> RemovalRecord {
    let machine = |number| OutgoingMachine {
        machine: names(number),
        since: Timestamp::from_millis(1_000),
        why: Text::from(format!(
            "node ip-10-0-{number}-7.ec2.internal has drifted (NodePoolDrifted): the labels differ"
        )),
        begun: Some(Timestamp::from_millis(2_000)),
        failures: 0,
        has_pods: true,
        protections: Default::default(),
        ends_drains: false,
        is_drain_blocked: false,
        unassigned: 0,
        unmoved: 0,
        has_moved_pod: false,
        evictions: Default::default(),
    };
    let facts = pool_facts(limit, 1_000);
    let of_pool = OutgoingPool { facts, is_ready: true, ..OutgoingPool::default() };
    let facts = OutgoingMachines {
        machines: (0..count).map(machine).collect(),
        pools: BTreeMap::from([(PoolName::from("general"), of_pool)]),
        ..OutgoingMachines::default()
    };
    basis(RemovalReason::Drifted, SelectionFacts::Outgoing(facts))
}

/// Two of three machines are 60 s old at 100 s, and older than 50 s.
fn expired() -> RemovalRecord {
    let machine = |number, created| ExpiringMachine {
        machine: names(number),
        uid: Text::from("a"),
        created: Timestamp::from_millis(created),
        expire_after: Millis::from_secs(50),
        jitter: None,
    };
    let machines = vec![machine(1, 40_000), machine(2, 60_000), machine(3, 30_000)];
    basis(RemovalReason::Expired, SelectionFacts::Expiring(ExpiringMachines { machines }))
}

/// One of three nodes is unhealthy and due.
fn unhealthy() -> RemovalRecord {
    let machine = UnhealthyMachine {
        machine: names(1),
        why: Text::from("condition Ready of node n has been False for 30 minutes"),
        due: Timestamp::from_millis(90_000),
        is_repairable: true,
    };
    let of_pool = UnhealthyPool { nodes: 6, machines: vec![machine] };
    let pools = BTreeMap::from([(PoolName::from("general"), of_pool)]);
    basis(RemovalReason::Unhealthy, SelectionFacts::Unhealthy(UnhealthyMachines { pools }))
}

/// Two machines for one replica; the second one has pods.
fn surplus() -> RemovalRecord {
    let machine = |number, has_pods| RankedMachine {
        machine: names(number),
        is_launched: true,
        created: None,
        expire_after: None,
        protections: Default::default(),
        has_pods,
        cost: i128::from(has_pods),
    };
    let of_pool = SurplusPool { replicas: 1, machines: vec![machine(1, false), machine(2, true)] };
    let pools = BTreeMap::from([(PoolName::from("general"), of_pool)]);
    basis(RemovalReason::Surplus, SelectionFacts::Surplus(SurplusMachines { pools }))
}

async fn load(cluster: &LoggedCluster, number: u64) -> RecordedDecision {
    let stored = cluster.store.decision(number).await.unwrap().remove(0);
    LogReader::new(&cluster.store).load(stored).await.unwrap()
}

fn decided(basis: &RemovalRecord) -> Vec<&str> {
    basis.answer.removals.iter().map(AsRef::as_ref).collect()
}

#[test]
fn what_removals_are_made_from_is_read_back_as_it_was_written() {
    let mut kinds = HashMap::new();
    for seed in 0..3_000 {
        let mut numbers = Numbers(seed);
        let input = values::input(&mut numbers);
        let check = values::check(&mut numbers, input.now);
        *kinds.entry(std::mem::discriminant(&input.facts)).or_insert(0) += 1;
        let written = removal::write(&input, &check);
        assert_eq!(removal::read(&written, input.now), Ok((input, check)), "seed {seed}");
    }
    assert!(kinds.len() == 7 && kinds.values().all(|count| *count > 300), "{kinds:?}");
}

#[tokio::test]
async fn random_removals_are_recorded_and_replay_bit_for_bit() {
    let (cluster, mut removing) = (LoggedCluster::new().await, 0);
    for seed in 1..=500 {
        let mut numbers = Numbers(seed);
        let input = values::input(&mut numbers);
        let check = values::check(&mut numbers, input.now);
        let answer = RemovalAnswer::again(&input, &check);
        removing += usize::from(!answer.selection.removals.is_empty());
        let basis = RemovalRecord { input, check, answer };
        cluster.remove_by(seed, basis.clone()).await;
        let recorded = load(&cluster, seed).await;
        let RecordedPlan::Removals(read) = &recorded.planned else { panic!("{:?}", recorded.planned) };
        assert_eq!(**read, basis, "seed {seed}");
        assert!(recorded.replay().is_identical(), "seed {seed}: {:?}", recorded.replay());
    }
    assert!(removing > 100, "{removing} remove machines");
}

#[tokio::test]
async fn a_decision_of_each_method_replays_and_decides_what_is_worked_out_by_hand() {
    let cluster = LoggedCluster::new().await;
    // Of three empty nodes the budget allows two, and of three drifted ones all; machine 3 is the oldest.
    let expected: [(RemovalRecord, &[&str]); 5] = [
        (empty(3, 2), &["general-00000", "general-00001"]),
        (drifted(3, 3), &["general-00000", "general-00001", "general-00002"]),
        (expired(), &["general-00003", "general-00001"]),
        (unhealthy(), &["general-00001"]),
        (surplus(), &["general-00001"]),
    ];
    for (number, (basis, removed)) in (1..).zip(expected) {
        cluster.remove_by(number, basis.clone()).await;
        let recorded = load(&cluster, number).await;
        let RecordedPlan::Removals(read) = &recorded.planned else { panic!("{number}: {:?}", recorded.planned) };
        assert_eq!(decided(read), removed, "{number}");
        assert!(recorded.replay().is_identical(), "{number}: {:?}", recorded.replay());
    }
    let decisions = replay_all::read(&cluster.store, None, 100, |_| true).await.unwrap();
    let summary = replay_all::replay(&cluster.store, decisions, |_, _| {}).await.unwrap();
    assert_eq!(summary, ReplaySummary { identical: 5, ..ReplaySummary::default() });
}

/// The difference that the replay of `basis` finds after `change` of what the log holds.
async fn difference(basis: RemovalRecord, change: impl FnOnce(&mut RemovalRecord)) -> Option<String> {
    let cluster = LoggedCluster::new().await;
    cluster.remove_by(1, basis).await;
    let mut recorded = load(&cluster, 1).await;
    assert!(recorded.replay().is_identical());
    let RecordedPlan::Removals(read) = &mut recorded.planned else { panic!("{:?}", recorded.planned) };
    change(read);
    recorded.replay().plan
}

fn empty_of(basis: &mut RemovalRecord) -> &mut EmptyMachines {
    let SelectionFacts::Empty(facts) = &mut basis.input.facts else { panic!("another method") };
    facts
}

fn outgoing_of(basis: &mut RemovalRecord) -> &mut OutgoingMachines {
    let SelectionFacts::Outgoing(facts) = &mut basis.input.facts else { panic!("another method") };
    facts
}

#[tokio::test]
async fn sabotage_a_value_that_is_changed_in_the_log_is_found() {
    let always = || Protection { of: Text::from("shop/web-0"), lasts: DoNotDisrupt::Always, from: None };
    let found = difference(empty(3, 2), |basis| empty_of(basis).machines[0].protections.pods.push(always())).await;
    assert!(
        found.as_ref().is_some_and(|found| found.starts_with(
            "selected removals: then ip-10-0-0-7.ec2.internal (general-00000: node ip-10-0-0-7.ec2.internal holds"
        )),
        "{found:?}"
    );
    let budget = |basis: &mut RemovalRecord| empty_of(basis).pools.values_mut().for_each(|pool| pool.policy = nodes(1));
    assert_eq!(difference(empty(3, 2), budget).await.as_deref(), Some("selected removals: then 2; now 1"));
    let event = |basis: &mut RemovalRecord| empty_of(basis).machines[1].last_pod_event = Some(NOW);
    assert!(difference(empty(3, 3), event).await.is_some());
    let unmoved = |basis: &mut RemovalRecord| outgoing_of(basis).machines[2].unmoved = 1;
    assert_eq!(difference(drifted(3, 3), unmoved).await.as_deref(), Some("selected removals: then 3; now 2"));
    let closed =
        |basis: &mut RemovalRecord| outgoing_of(basis).pools.values_mut().for_each(|pool| pool.is_ready = false);
    assert_eq!(difference(drifted(3, 3), closed).await.as_deref(), Some("selected removals: then 3; now 0"));
    let lifetime = |basis: &mut RemovalRecord| {
        let SelectionFacts::Expiring(facts) = &mut basis.input.facts else { panic!("another method") };
        facts.machines[0].expire_after = Millis::from_secs(70);
    };
    assert_eq!(difference(expired(), lifetime).await.as_deref(), Some("selected removals: then 2; now 1"));
    let blocked = |basis: &mut RemovalRecord| {
        let SelectionFacts::Unhealthy(facts) = &mut basis.input.facts else { panic!("another method") };
        facts.pools.values_mut().for_each(|pool| pool.nodes = 1);
    };
    // Of one node 20 % are 0.2, rounded up 1: one unhealthy node does not block; of none it does.
    let none = |basis: &mut RemovalRecord| {
        let SelectionFacts::Unhealthy(facts) = &mut basis.input.facts else { panic!("another method") };
        facts.pools.values_mut().for_each(|pool| pool.nodes = 0);
    };
    assert_eq!(difference(unhealthy(), blocked).await, None);
    assert_eq!(difference(unhealthy(), none).await.as_deref(), Some("selected removals: then 1; now 0"));
    let replicas = |basis: &mut RemovalRecord| {
        let SelectionFacts::Surplus(facts) = &mut basis.input.facts else { panic!("another method") };
        facts.pools.values_mut().for_each(|pool| pool.replicas = 2);
    };
    assert_eq!(difference(surplus(), replicas).await.as_deref(), Some("selected removals: then 1; now 0"));
}

#[tokio::test]
async fn sabotage_what_the_verifier_judges_or_guardrails_left_is_changed_in_the_log() {
    let theirs = |basis: &mut RemovalRecord| basis.check.input.nodes[0].ours = false;
    assert_eq!(
        difference(empty(3, 2), theirs).await.as_deref(),
        Some("decided removals: then general-00000; now general-00001")
    );
    // A removal that guardrails left is not among those that the method selects.
    let other = |basis: &mut RemovalRecord| {
        let RemovalCheck { input, plan } = &mut basis.check;
        (plan.removals[1].claim, input.nodes[1].claim) = ("general-00002".into(), "general-00002".into());
    };
    assert_eq!(difference(empty(3, 2), other).await.as_deref(), Some("decided removals: then 2; now 1"));
}

#[tokio::test]
async fn sabotage_a_byte_that_is_changed_in_the_log_is_found() {
    let cluster = LoggedCluster::new().await;
    cluster.remove_by(1, empty(3, 2)).await;
    let whole = cluster.store.decision(1).await.unwrap().remove(0);
    let size = whole.decision.replay.as_ref().unwrap().plan.len();
    for at in 0..size {
        let mut stored = whole.clone();
        let replay = stored.decision.replay.as_mut().unwrap();
        replay.plan[at] ^= 1;
        replay.plan_digest[at % 32] ^= 1;
        match LogReader::new(&cluster.store).load(stored).await {
            Ok(recorded) => assert!(!recorded.replay().is_identical(), "byte {at}"),
            Err(error) => assert!(error.to_string().contains("cannot be replayed"), "byte {at}: {error}"),
        }
    }
    let mut late = whole.clone();
    let replay = late.decision.replay.as_mut().unwrap();
    replay.stance[1] ^= 2;
    let outcome = LogReader::new(&cluster.store).load(late).await.unwrap().replay();
    assert!(outcome.input.is_some(), "{outcome:?}");
}

/// The removals that are decided under a NodePool with this `spec.disruption` and annotations, one selection in each.
fn otherwise(mut basis: RemovalRecord, annotations: &str, disruption: &str) -> Vec<String> {
    let manifest = format!(
        "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {{name: general, annotations: {{{annotations}}}}}\nspec: \
         {{disruption: {{{disruption}}}, template: {{spec: {{nodeClassRef: {{group: karpenter.k8s.aws, \
         kind: EC2NodeClass, name: default}}, requirements: []}}}}}}\n"
    );
    let alternative = WhatIf { manifests: vec![source("pool", manifest)], ..WhatIf::default() };
    alternative.apply_to_removals(&mut basis.input, &mut basis.check).unwrap();
    let again = RemovalAnswer::again(&basis.input, &basis.check);
    again.selection.removals.iter().map(|removal| removal.claim.to_string()).collect()
}

#[test]
fn with_other_budgets_a_method_selects_other_machines() {
    let four = "consolidateAfter: 30s, budgets: [{nodes: '4'}]";
    assert_eq!(otherwise(empty(6, 2), "", four).len(), 4);
    assert_eq!(otherwise(drifted(6, 6), "", four).len(), 4);
    // The last pod event was 40 s ago.
    assert_eq!(otherwise(empty(6, 2), "", "consolidateAfter: 41s, budgets: [{nodes: '4'}]"), Vec::<String>::new());
    // Machine 2 expires at 110 s; FNV-1a of its uid, af63dc4c8601ec8c, is 16,996 modulo 25,000, so that it expires 17.0 s
    // earlier.
    let jitter = "fleetwright.dev/expire-jitter: 25s";
    assert_eq!(otherwise(expired(), jitter, four), ["general-00003", "general-00001", "general-00002"]);
    assert_eq!(otherwise(unhealthy(), "", "budgets: [{nodes: '0'}]"), ["general-00001"], "no budget holds a repair");
}

/// The decision `number` of a cluster from which ten machines leave each time, with names that do not compress, five
/// DaemonSet pods on each machine, and twenty other pods on a drifted one.
fn next_ten(number: usize, waiting: usize, decide: impl Fn(usize, u32) -> RemovalRecord) -> RemovalRecord {
    let mut basis = decide(10 + waiting, 10);
    let first = 10 * (number - 1);
    let rename = |names: &mut MachineNames| {
        let at = names.node.split('-').nth(3).and_then(|at| at.parse::<u64>().ok()).unwrap() + first as u64;
        let mixed = (at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        names.claim = format!("general-{:05x}", mixed & 0xf_ffff).into();
        names.node = format!("ip-10-{}-{}-{}.ec2.internal", mixed % 256, mixed / 256 % 256, mixed / 65_536).into();
    };
    match &mut basis.input.facts {
        SelectionFacts::Empty(facts) => facts.machines.iter_mut().for_each(|one| rename(&mut one.machine)),
        SelectionFacts::Outgoing(facts) => facts.machines.iter_mut().for_each(|one| {
            rename(&mut one.machine);
            one.why = format!("node {} has drifted (NodePoolDrifted): the labels differ", one.machine.node).into();
        }),
        _ => panic!("another method"),
    }
    let selected = basis.input.select().removals;
    let RemovalCheck { input, plan } = &mut basis.check;
    for (at, ((node, removal), selected)) in input.nodes.iter_mut().zip(&mut plan.removals).zip(selected).enumerate() {
        (node.claim, node.node, removal.claim) = (selected.claim.clone(), selected.node, selected.claim);
        node.pods = ["aws-node", "kube-proxy", "ebs-csi-node", "node-exporter", "fluent-bit"]
            .map(|name| daemon(name, first + at))
            .to_vec();
    }
    if basis.input.reason == RemovalReason::Drifted {
        add_pods(&mut basis.check, first);
    }
    basis.answer = RemovalAnswer::again(&basis.input, &basis.check);
    assert_eq!(basis.answer.removals.len(), 10);
    basis
}

/// Twenty pods of a ReplicaSet on each removed node, which have a place on another one.
fn add_pods(check: &mut RemovalCheck, first: usize) {
    let RemovalCheck { input, plan } = check;
    let (namespace, workload) = (Text::from("shop"), Text::from("ReplicaSet/web-7d9f8b6c5d"));
    let place = NodeName::from("ip-10-9-9-9.ec2.internal");
    for (at, node) in input.nodes.iter_mut().enumerate() {
        for pod in 0..20 {
            let named = daemon("web-7d9f8b6c5d", (first + at) * 20 + pod);
            let key = PodKey { namespace: namespace.clone(), name: named.key.name.clone() };
            plan.placements.insert(key.clone(), place.clone());
            let workload = workload.clone();
            node.pods.push(RemovalPod { key, workload, node_bound: false, tolerates_drain: false, ..named });
        }
    }
    input.destinations.insert(place);
    input.elsewhere.insert((namespace, workload), ReplicaCount { pods: 100, ready: 100 });
}

fn daemon(name: &str, number: usize) -> RemovalPod {
    let mixed = (number as u64 + 77).wrapping_mul(0x9e37_79b9_7f4a_7c15 ^ name.len() as u64) >> 44;
    RemovalPod {
        key: PodKey { namespace: Text::from("kube-system"), name: Text::from(format!("{name}-{mixed:05x}")) },
        workload: Text::from(format!("DaemonSet/{name}")),
        node_bound: true,
        terminating: false,
        ready: true,
        tolerates_drain: true,
        do_not_disrupt: None,
        started: Some(Timestamp::from_millis(1_000 + number as i64)),
        pod_budgets: Vec::new(),
    }
}

/// Bytes of the first event of a segment, of the later ones, and of a later row as the store compresses it.
async fn sizes(decide: impl Fn(usize) -> RemovalRecord) -> [usize; 3] {
    let cluster = LoggedCluster::new().await;
    for number in 1..=3_usize {
        cluster.remove_by(number as u64, decide(number)).await;
        assert!(load(&cluster, number as u64).await.replay().is_identical());
    }
    let chunks = cluster.segment(1).await.chunks;
    assert_eq!(chunks.len(), 3, "one segment for the decisions of a method");
    let mut rows = Vec::new();
    for (number, chunk) in (1..).zip(&chunks) {
        let replay = cluster.store.decision(number).await.unwrap().remove(0).decision.replay.unwrap();
        rows.push([&replay.plan, &chunk.bytes, &replay.input_digest].map(Vec::as_slice).concat());
    }
    [chunks[0].bytes.len(), chunks[2].bytes.len(), compression::compress(&rows[1], &rows[2]).len()]
}

#[tokio::test]
async fn a_decision_adds_a_few_kilobytes_at_most() {
    let figures = [
        ("empty, 10 of 10", sizes(|number| next_ten(number, 0, empty)).await),
        ("empty, 10 of 200", sizes(|number| next_ten(number, 190, empty)).await),
        ("drift, 10 of 10", sizes(|number| next_ten(number, 0, drifted)).await),
        ("drift, 10 of 200", sizes(|number| next_ten(number, 190, drifted)).await),
    ];
    for (what, [first, later, packed]) in figures {
        println!("{what}: first event {first} bytes, later ones {later}; {packed} with the answer when packed");
        // A machine has at most 25 pods, of each of which name, place and time are written: at most 20 bytes.
        assert!(first < 12_000 && packed < 10 * 25 * 20, "{what}: {first}, {packed}");
    }
}
