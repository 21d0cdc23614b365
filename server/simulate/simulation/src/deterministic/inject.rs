//! Fault injection.

use futures::future::FutureExt;
use model::{ClaimName, Millis, Text, Timestamp};

use super::environment::EnvironmentFault;
use super::event_queue::{ProcessMessage, SimEvent, Trigger};
use super::fault::Fault;
use super::{OPERATOR_INTERVAL_MS, Simulation};
use store::Store;
use store::guardrails::{FreezeOrder, FreezeScope};

/// Time until keepalive declares a silent peer dead, in milliseconds, at both ends.
const KEEPALIVE_MS: i64 = 15_000;
/// Delay from a store notification to its process, in milliseconds.
const NOTIFY_MS: i64 = 100;

impl Simulation {
    pub(super) fn inject(&mut self, fault: Fault) {
        self.events.trace(|| format!("FAULT {fault:?}"));
        if self.apply_fault(fault) {
            *self.events.faults.entry(fault.kind()).or_default() += 1;
        }
    }

    fn until(&self, for_ms: i64) -> Timestamp {
        self.events.now() + Millis::new(for_ms)
    }

    /// Applies a fault; returns whether it had a target.
    fn apply_fault(&mut self, fault: Fault) -> bool {
        if let Some((fault, for_ms, size)) = environment_fault(fault) {
            self.events.environment.start_fault(fault, self.until(for_ms), size);
            return true;
        }
        match fault {
            Fault::Kill { process, after_steps, away_ms } => {
                let is_running = self.processes[process].server.is_some();
                self.processes[process].kill_after = is_running.then_some((after_steps, away_ms));
                is_running
            }
            Fault::Pause { process, after_steps, for_ms } => {
                let is_running = self.processes[process].server.is_some();
                self.processes[process].pause_after = is_running.then_some((after_steps, for_ms));
                is_running
            }
            Fault::SetClock { process, by_ms } => {
                self.processes[process].set_clock(by_ms);
                let offset = Millis::new(self.processes[process].offset_ms.abs());
                self.events.clock_error = self.events.clock_error.max(offset);
                true
            }
            Fault::KillAtLaunch { process, away_ms } => {
                self.events.armed.kills.insert(process, away_ms);
                true
            }
            Fault::Freeze { for_ms } => self.freeze(for_ms),
            Fault::StoreWiped => {
                self.events.environment.wipe_store();
                true
            }
            other => self.apply_cluster_fault(other),
        }
    }

    /// Applies a fault of a cluster, its agent, its connection or its instances.
    fn apply_cluster_fault(&mut self, fault: Fault) -> bool {
        let now = self.events.now();
        // Every fault that lasts schedules its own end here.
        match fault {
            Fault::SetAgentClock { cluster, by_ms } => {
                self.sim_clusters[cluster].offset_ms += by_ms;
                true
            }
            Fault::Cut { cluster, for_ms } => self.cut_connection(cluster, for_ms),
            Fault::Stall { cluster, for_ms } => {
                let until = self.until(for_ms);
                let connection = self.sim_clusters[cluster].connection();
                connection.inspect(|connection| self.events.hold_connection(*connection, until)).is_some()
            }
            Fault::RestartAgent { cluster, away_ms } => {
                self.sim_clusters[cluster].stop(&mut self.events);
                self.events.schedule_after(away_ms, SimEvent::StartAgent { sim_cluster: cluster });
                true
            }
            Fault::NodesNeverJoin { cluster, for_ms } => {
                self.sim_clusters[cluster].cluster.set_kubelets_join(false);
                self.events.schedule_after(for_ms, SimEvent::EndJoinFailure { sim_cluster: cluster });
                true
            }
            Fault::EmptySnapshot { cluster, for_ms } => {
                self.sim_clusters[cluster].set_empty_view(true, &mut self.events);
                self.events.schedule_after(for_ms, SimEvent::EndEmptySnapshot { sim_cluster: cluster });
                true
            }
            Fault::SlowPlans { cluster, for_ms, by_ms } => {
                let (name, until) = (self.sim_clusters[cluster].name.clone(), self.until(for_ms));
                self.events.environment.ledger().slow_plans.insert(name, (until, by_ms));
                true
            }
            Fault::Relist { cluster, gap, for_ms } => {
                self.sim_clusters[cluster].relist(gap, true, &mut self.events);
                self.events.schedule_after(for_ms, SimEvent::EndRelist { sim_cluster: cluster, gap });
                true
            }
            Fault::Partition { cluster, for_ms } => {
                self.sim_clusters[cluster].set_partitioned(true, &mut self.events);
                self.events.schedule_after(for_ms, SimEvent::EndPartition { sim_cluster: cluster });
                true
            }
            Fault::ClaimRemoved { cluster } => {
                let claims = self.sim_clusters[cluster].cluster.claims().map(|claim| claim.name.clone()).collect();
                let claim = self.rotate_randomly(claims).into_iter().next();
                claim.is_some_and(|claim| self.remove_claim_by_force(cluster, claim))
            }
            Fault::Interrupt { cluster, kind } => {
                let machines = self.machines(cluster);
                machines.iter().any(|id| self.events.environment.cloud().interrupt(id, kind, now))
            }
            Fault::InstanceDies { cluster } => {
                let machines = self.machines(cluster);
                machines.first().is_some_and(|id| self.events.environment.cloud().terminate(id, now).is_ok())
            }
            Fault::TemplateChanged { cluster } => {
                self.sim_clusters[cluster].change_templates(&mut self.events);
                true
            }
            Fault::ExpiresDrifted { cluster } => self.expire_drifted(cluster),
            Fault::ReplacementDies { cluster } => self.events.armed.deaths.insert(cluster),
            Fault::CutAtLaunch { cluster, for_ms } => self.events.armed.cuts.insert(cluster, for_ms).is_none(),
            _ => false,
        }
    }

    /// Changes the templates and ends the lifetime of a NodeClaim with a Node at the same time.
    fn expire_drifted(&mut self, cluster: usize) -> bool {
        let now = self.events.now();
        let joined = self.sim_clusters[cluster].cluster.claims().map(|claim| claim.name.clone()).collect();
        let claim = self.rotate_randomly(joined).into_iter().next();
        self.sim_clusters[cluster].change_templates(&mut self.events);
        claim.is_some_and(|claim| self.sim_clusters[cluster].cluster.end_lifetime(&claim, now))
    }

    /// Applies the armed faults whose moment has come in this step.
    pub(super) fn apply_triggers(&mut self) {
        for trigger in std::mem::take(&mut self.events.triggers) {
            match trigger {
                Trigger::Drained { sim_cluster } => {
                    if self.events.armed.deaths.remove(&sim_cluster) {
                        self.kill_newest_instance(sim_cluster);
                    }
                }
                Trigger::Launches { process, cluster } => {
                    if let Some(away_ms) = self.events.armed.kills.remove(&process) {
                        self.events.environment.count_effect("processes killed at a launch");
                        self.kill(process, away_ms);
                    }
                    let sim_cluster = self.sim_clusters.iter().position(|sim_cluster| sim_cluster.name == cluster);
                    let cut = sim_cluster.and_then(|at| Some((at, self.events.armed.cuts.remove(&at)?)));
                    if cut.is_some_and(|(at, for_ms)| self.cut_connection(at, for_ms)) {
                        self.events.environment.count_effect("connections cut at a launch");
                    }
                }
            }
        }
    }

    fn kill_newest_instance(&mut self, sim_cluster: usize) {
        let now = self.events.now();
        let newest = {
            let (name, cloud) = (&self.sim_clusters[sim_cluster].name, self.events.environment.cloud());
            let mine = cloud.ledger().active().filter(|entry| entry.instance.cluster == *name);
            mine.max_by_key(|entry| entry.instance.launched).map(|entry| entry.instance.id.clone())
        };
        if newest.is_some_and(|id| self.events.environment.cloud().terminate(&id, now).is_ok()) {
            self.events.environment.count_effect("replacements died");
        }
    }

    fn remove_claim_by_force(&mut self, cluster: usize, claim: ClaimName) -> bool {
        let now = self.events.now();
        let asked = self.sim_clusters[cluster].needs_release();
        let was_there = self.sim_clusters[cluster].remove_claim_by_force(claim, now);
        if !asked && self.sim_clusters[cluster].needs_release() {
            self.events.schedule_after(OPERATOR_INTERVAL_MS, SimEvent::RepeatRelease { sim_cluster: cluster });
        }
        was_there
    }

    /// The operator reviews quarantined clusters and releases those whose agents show the true
    /// state.
    pub(super) fn review_quarantines(&mut self) {
        let now = self.events.now();
        for sim_cluster in 0..self.sim_clusters.len() {
            let name = &self.sim_clusters[sim_cluster].name;
            let servers = self.processes.iter().filter_map(|process| process.server.as_ref());
            let views = servers
                .filter_map(|server| server.replica.cluster(name))
                .map(|cluster| cluster.step_view(now).cluster_view());
            let held = views.into_iter().any(|view| view.guardrails.quarantine.is_some());
            if held && self.sim_clusters[sim_cluster].agent_view_is_true(now) {
                self.release_quarantine(sim_cluster);
            }
        }
        self.events.schedule_after(OPERATOR_INTERVAL_MS, SimEvent::ReviewQuarantines);
    }

    /// The operator releases a cluster's quarantine on every process.
    fn release_quarantine(&mut self, sim_cluster: usize) {
        let cluster = self.sim_clusters[sim_cluster].name.clone();
        self.events.trace(|| format!("operator releases quarantine of {cluster}"));
        for process in self.processes.iter().filter(|process| process.server.is_some()) {
            self.events.send_process(
                NOTIFY_MS,
                process.id(),
                ProcessMessage::QuarantineReleased { cluster: cluster.clone() },
            );
        }
    }

    /// The operator who removed NodeClaims releases the cluster on every process, repeatedly,
    /// because a process that starts later has not received the release.
    pub(super) fn repeat_release(&mut self, sim_cluster: usize) {
        let now = self.events.now();
        if self.sim_clusters[sim_cluster].agent_view_is_true(now) {
            self.release_quarantine(sim_cluster);
        }
        self.events.schedule_after(OPERATOR_INTERVAL_MS, SimEvent::RepeatRelease { sim_cluster });
    }

    fn freeze(&mut self, for_ms: i64) -> bool {
        let (by, reason) = ("simulation".to_owned(), "fault injection".to_owned());
        let order = FreezeOrder { scope: FreezeScope::Fleet, only_disruption: false, by, reason, until_ms: None };
        let Some(Ok(freeze)) = self.events.environment.store().freeze(&order).now_or_never() else { return false };
        self.events.environment.freeze_changed(true);
        self.events.schedule_after(for_ms, SimEvent::Thaw { freeze });
        self.notify_freezes_changed();
        true
    }

    /// Ends a freeze. A wiped store has none.
    pub(super) fn thaw(&mut self, freeze: i64) {
        self.events.trace(|| format!("freeze {freeze} ends"));
        let _known = self.events.environment.store().thaw(freeze, "simulation").now_or_never();
        self.events.environment.freeze_changed(false);
        self.notify_freezes_changed();
    }

    /// Notifies every process of changed freezes, as the store's watch does.
    fn notify_freezes_changed(&mut self) {
        for process in self.processes.iter().filter(|process| process.server.is_some()) {
            self.events.send_process(NOTIFY_MS, process.id(), ProcessMessage::FreezesChanged);
        }
    }

    /// Instance ids of a cluster, rotated at random.
    fn machines(&mut self, cluster: usize) -> Vec<Text> {
        let ids = {
            let (name, cloud) = (&self.sim_clusters[cluster].name, self.events.environment.cloud());
            let mine = cloud.ledger().active().filter(|entry| entry.instance.cluster == *name);
            mine.map(|entry| entry.instance.id.clone()).collect()
        };
        self.rotate_randomly(ids)
    }

    fn rotate_randomly<T>(&mut self, mut names: Vec<T>) -> Vec<T> {
        let first = self.events.next_rng().value() % (names.len().max(1) as u64);
        names.rotate_left(usize::try_from(first).unwrap_or(0));
        names
    }

    /// Kills a process. Its host closes the connections unless the host fails as well.
    pub(super) fn kill(&mut self, at: usize, away_ms: i64) {
        self.events.trace(|| format!("server {at} dies"));
        let process_id = self.processes[at].id();
        self.processes[at].server = None;
        self.processes[at].paused_until = self.events.now();
        let host_too = self.events.next_rng().percent(30);
        for connection in self.events.open_connections(|connection| connection.server == process_id) {
            self.events.close_connection(connection, Some(if host_too { KEEPALIVE_MS } else { 2 }), None);
        }
        self.events.schedule_after(away_ms, SimEvent::StartProcess { process: at });
    }

    /// Pauses a process; its peers close the connections when keepalive expires.
    pub(super) fn pause(&mut self, at: usize, for_ms: i64) {
        self.events.trace(|| format!("server {at} is paused for {for_ms} ms"));
        let until = self.until(for_ms);
        let process_id = self.processes[at].id();
        self.processes[at].paused_until = self.processes[at].paused_until.max(until);
        if let Some(server) = &mut self.processes[at].server {
            server.paused_until = until;
        }
        if for_ms > KEEPALIVE_MS {
            for connection in self.events.open_connections(|connection| connection.server == process_id) {
                self.events.close_connection(connection, Some(KEEPALIVE_MS), Some(KEEPALIVE_MS));
            }
        }
    }

    /// Cuts a connection. The agent notices at once or by keepalive; the server may notice only by
    /// silence.
    fn cut_connection(&mut self, cluster: usize, for_ms: i64) -> bool {
        let until = self.until(for_ms);
        let sim_cluster = &mut self.sim_clusters[cluster];
        sim_cluster.cut_off_until = sim_cluster.cut_off_until.max(until);
        let Some(connection) = sim_cluster.connection() else { return false };
        let rng = self.events.next_rng();
        let agent = if rng.child("agent").percent(50) { 1 } else { KEEPALIVE_MS };
        let server = [Some(1), Some(KEEPALIVE_MS), None][usize::try_from(rng.child("server").value() % 3).unwrap_or(0)];
        self.events.close_connection(connection, Some(agent), server);
        true
    }
}

/// The store or cloud fault, its duration in milliseconds and its size; `None` for other faults.
fn environment_fault(fault: Fault) -> Option<(EnvironmentFault, i64, i64)> {
    Some(match fault {
        Fault::StoreDown { for_ms } => (EnvironmentFault::StoreDown, for_ms, 0),
        Fault::StoreAmbiguous { for_ms, percent } => (EnvironmentFault::StoreAmbiguous, for_ms, i64::from(percent)),
        Fault::StoreSlow { for_ms, by_ms } => (EnvironmentFault::StoreSlow, for_ms, by_ms),
        Fault::CloudLost { for_ms, percent } => (EnvironmentFault::CloudLost, for_ms, i64::from(percent)),
        Fault::CloudThrottles { for_ms } => (EnvironmentFault::CloudThrottles, for_ms, 0),
        Fault::StaleLists { for_ms, by_ms } => (EnvironmentFault::StaleLists, for_ms, by_ms),
        Fault::PartialLists { for_ms } => (EnvironmentFault::PartialLists, for_ms, 0),
        Fault::IncompleteLists { for_ms, percent } => (EnvironmentFault::IncompleteLists, for_ms, i64::from(percent)),
        Fault::LaunchesRefused { for_ms } => (EnvironmentFault::LaunchesRefused, for_ms, 0),
        Fault::NoCapacity { for_ms } => (EnvironmentFault::NoCapacity, for_ms, 0),
        Fault::ZoneEmpty { zone, for_ms } => (EnvironmentFault::ZoneEmpty, for_ms, i64::try_from(zone).unwrap_or(0)),
        _ => return None,
    })
}
