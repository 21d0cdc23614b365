use controller::LaunchedInstance;
use controller::guardrails::{Mode, WaitingRemoval};
use controller::view::{CpuAndMemory, InstanceAnomalies};
use model::disruption_policy::DisruptionReason;
use model::{CapacityType, MicroUsd, Timestamp};

use super::*;

fn view() -> ClusterView {
    ClusterView {
        cluster: "blue".into(),
        connected: true,
        synced: true,
        synced_since: None,
        unsynced_since: None,
        version: 1,
        pods: 7,
        pending: 2,
        pending_pods: Vec::new(),
        node_count: 3,
        nodes: Vec::new(),
        pools: Vec::new(),
        cost: MicroUsd(0),
        unavailable_offerings: 0,
        decisions: Vec::new(),
        last_error: None,
        planning: None,
        guardrails: GuardrailsView { mode: Mode::Act, ..GuardrailsView::default() },
        anomalies: InstanceAnomalies::default(),
        autoscalers: Vec::new(),
        problems: Vec::new(),
        unmanaged_pools: Vec::new(),
        unusable_nodes: Vec::new(),
        measured: Default::default(),
        holds: Default::default(),
        eligible_nodes: [DisruptionReason::Empty, DisruptionReason::Drifted, DisruptionReason::Underutilized]
            .map(|reason| (reason, 0)),
    }
}

fn machine(claim: &str, stage: StageKind) -> MachineView {
    MachineView {
        claim: claim.into(),
        node: Some(format!("node-of-{claim}").into()),
        pool: "default".into(),
        stage,
        since: Timestamp::default(),
        instance: Some(LaunchedInstance {
            instance_type: "m5.large".into(),
            zone: "z".into(),
            capacity_type: CapacityType::OnDemand,
            price: MicroUsd(96_000),
        }),
        termination_reason: stage.is_terminating().then(|| "not needed".into()),
        blocked: None,
        cost: Default::default(),
    }
}

fn node(machine: MachineView) -> NodeView {
    NodeView {
        name: machine.node.clone().unwrap_or_default(),
        uid: Default::default(),
        machine: Some(machine),
        provider_id: Default::default(),
        instance_type: Default::default(),
        zone: Default::default(),
        capacity_type: Default::default(),
        ready: true,
        created: None,
        pods: 0,
        requested: CpuAndMemory::default(),
        allocatable: CpuAndMemory::default(),
    }
}

#[test]
fn an_unchanged_cluster_logs_nothing() {
    assert_eq!(changes(Some(&view()), &view()), []);
}

#[test]
fn a_connection_that_is_won_or_lost_is_logged() {
    let lost = ClusterView { connected: false, ..view() };
    let accepted = StateChange::SnapshotAccepted { nodes: 3, pods: 7, pending: 2 };
    assert_eq!(changes(Some(&lost), &view()), [StateChange::AgentConnected, accepted]);
    assert_eq!(changes(Some(&view()), &lost), [StateChange::AgentDisconnected]);
    assert_eq!(changes(None, &lost), []);
}

#[test]
fn a_guardrail_is_logged_when_it_takes_effect_and_when_it_ends() {
    let mut held = view();
    held.guardrails.quarantine = Some(("39 of 42 pods are gone".into(), Timestamp::default()));
    held.guardrails.held_launches = Some("40 launches in a minute".into());
    let began = [
        StateChange::QuarantineBegan { reason: "39 of 42 pods are gone".to_owned() },
        StateChange::LaunchesHeld { reason: "40 launches in a minute".to_owned() },
    ];
    assert_eq!(changes(Some(&view()), &held), began);
    let mut other = held.clone();
    other.guardrails.quarantine = Some(("40 of 42 pods are gone".into(), Timestamp::default()));
    assert_eq!(changes(Some(&held), &other), [], "the same quarantine with another sentence");
    assert_eq!(changes(Some(&held), &view()), [StateChange::QuarantineEnded, StateChange::LaunchesReleased]);
    // The next owner reports it too.
    assert_eq!(changes(None, &held)[2..], began);
}

#[test]
fn removals_that_wait_are_logged_once_with_their_command() {
    let mut waiting = view();
    let (reason, release) = ("3 of 4 Nodes were deleted by hand".into(), "until it is confirmed".into());
    waiting.guardrails.waiting_removals =
        vec![WaitingRemoval { claim: "default-1".into(), since: Timestamp::default(), reason, release }];
    let expected = StateChange::RemovalsWaiting {
        count: 1,
        node_claim: "default-1".to_owned(),
        reason: "3 of 4 Nodes were deleted by hand until it is confirmed".to_owned(),
    };
    assert_eq!(changes(Some(&view()), &waiting), [expected]);
    let mut more = waiting.clone();
    more.guardrails.waiting_removals.extend(waiting.guardrails.waiting_removals.clone());
    assert_eq!(changes(Some(&waiting), &more), []);
    assert_eq!(changes(Some(&waiting), &view()), [StateChange::RemovalsNotWaiting]);
}

#[test]
fn nodes_are_logged_when_they_are_ready_drain_and_are_gone() {
    let with = |machines: Vec<MachineView>| ClusterView { nodes: machines.into_iter().map(node).collect(), ..view() };
    let launched = with(vec![machine("a", StageKind::Launched), machine("b", StageKind::Initialized)]);
    let later = with(vec![machine("a", StageKind::Initialized), machine("b", StageKind::Terminating)]);
    let text = str::to_owned;
    let expected = [
        StateChange::NodeReady { node_claim: text("a"), node: text("node-of-a") },
        StateChange::NodeDraining { node_claim: text("b"), node: text("node-of-b"), reason: text("not needed") },
    ];
    assert_eq!(changes(Some(&launched), &later), expected);
    let gone = with(vec![machine("a", StageKind::Initialized)]);
    assert_eq!(changes(Some(&later), &gone), [StateChange::NodeRemoved { node_claim: text("b") }]);
    // The last owner reported the nodes of a cluster that was just acquired.
    let acquired = changes(None, &later);
    assert!(!acquired.iter().any(|change| matches!(change, StateChange::NodeReady { .. })), "{acquired:?}");
}

#[test]
fn other_autoscalers_and_rejected_plans_are_logged() {
    let other = ClusterView { autoscalers: vec!["Karpenter".into()], last_error: Some("no".to_owned()), ..view() };
    let rejected = StateChange::PlanRejected { reason: "no".to_owned() };
    let active = StateChange::AutoscalerActive { autoscaler: "Karpenter".to_owned() };
    assert_eq!(changes(Some(&view()), &other), [rejected, active]);
    let inactive = StateChange::AutoscalerInactive { autoscaler: "Karpenter".to_owned() };
    assert_eq!(changes(Some(&other), &view()), [inactive]);
}
