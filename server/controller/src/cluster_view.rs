//! Builds the view of one cluster.

use std::sync::Arc;

use super::cluster_controller::ClusterController;
use super::guardrails::GuardrailsView;
use super::nodeclaim::{ManagedClaim, StageKind};
use super::status_reporter::drain_blocked_message;
use super::view::{ClusterView, InstanceAnomalies, MAX_ASSUMED_SHOWN, MachineView};
use crate::cluster::Target;
use model::{MicroUsd, PodKey, Text, Timestamp};

impl ClusterController {
    /// The view of the cluster at `now`.
    #[must_use]
    pub fn view(&self, now: Timestamp) -> ClusterView {
        let region = Arc::clone(&self.region);
        let guardrails = region.lock_guardrails(now);
        let shown = self.guardrails_view(&guardrails, region.settings());
        let pools = self.pools_view(&guardrails);
        drop(guardrails);
        ClusterView { pools, ..self.view_of(region.offerings().counts().0, shown, now) }
    }

    /// Fingerprint of the view; changes whenever the view does.
    pub(crate) fn view_fingerprint(&mut self) -> impl PartialEq + use<> {
        let stages = self.claims.stage_fingerprint();
        let plan = self.provisioner.plan_in_progress();
        let version = (self.state.version(), self.connected, stages, self.decisions.last_id(), plan);
        (version, self.guardrails.view_fingerprint(), self.gc.view_version())
    }

    fn view_of(&self, unavailable_offerings: usize, guardrails: GuardrailsView, now: Timestamp) -> ClusterView {
        let machines: Vec<MachineView> = self.claims.iter().map(|machine| self.machine_view(machine, now)).collect();
        let prices = machines.iter().filter_map(|machine| machine.instance.as_ref());
        ClusterView {
            cluster: self.cluster.clone(),
            connected: self.connected,
            synced: self.state.is_synced(),
            synced_since: self.state.synced_since(),
            version: self.state.version(),
            pods: self.state.live_pods(),
            pending: self.state.unplaced_pods().filter(|pod| pod.is_provisionable()).count(),
            assumed: self.assumed(),
            nodes: self.state.nodes().count(),
            cost: MicroUsd(prices.map(|instance| instance.price.0).sum()),
            pools: Vec::new(),
            machines,
            unavailable_offerings,
            decisions: self.decisions.recent().cloned().collect(),
            last_error: self.provisioner.last_error().map(str::to_owned),
            planning: self.provisioner.view(),
            guardrails,
            anomalies: self.anomalies(),
            autoscalers: self.state.active_autoscalers().cloned().collect(),
            problems: self.state.problems().collect(),
            unmanaged_pools: self.unmanaged_pools(),
        }
    }

    fn anomalies(&self) -> InstanceAnomalies {
        let (orphaned, foreign) = self.gc.counts();
        InstanceAnomalies {
            orphaned,
            foreign,
            termination_refused: self.claims.iter().filter(|machine| machine.is_termination_refused()).count(),
        }
    }

    /// What blocks the drain of a machine.
    fn drain_blocker(&self, machine: &ManagedClaim, now: Timestamp) -> Option<Text> {
        let node = self.state.node_of_claim(machine.name()).filter(|_| machine.stage() == StageKind::Draining)?;
        drain_blocked_message(&self.state.drain_blockers(&node.name, now)).map(Text::from)
    }

    fn assumed(&self) -> Vec<(PodKey, Target)> {
        let assignments = self.state.assignments().iter().take(MAX_ASSUMED_SHOWN);
        assignments.map(|(pod, assignment)| (pod.clone(), assignment.target.clone())).collect()
    }

    fn machine_view(&self, machine: &ManagedClaim, now: Timestamp) -> MachineView {
        let node = self.state.node_of_claim(machine.name()).map(|node| node.name.clone());
        let pods = node.as_ref().map_or(0, |node| self.state.non_daemon_pods_on(node));
        MachineView {
            claim: machine.name().clone(),
            pool: machine.pool().clone(),
            stage: machine.stage(),
            since: machine.since(),
            instance: machine.instance().cloned(),
            pods,
            blocked: self.drain_blocker(machine, now),
            node,
            termination_reason: machine.termination_reason().map(|reason| Text::from(reason.to_string())),
        }
    }
}
