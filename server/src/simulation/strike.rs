//! Faults take place.

use engine::model::{Text, Timestamp};
use futures::future::FutureExt;

use super::Simulation;
use super::fault::Fault;
use super::outside::Trouble;
use super::stage::{ForProcess, Happening};
use crate::store::Store;
use crate::store::rails::{FreezeOrder, FreezeScope};

/// A peer that does not answer probes is given up after this, in milliseconds: the keepalive of both ends.
const PROBED_MS: i64 = 15_000;
/// Between two words of a person, in milliseconds.
pub(super) const WORD_MS: i64 = 120_000;
/// From a change of freezes, or a person's word, to a process's hearing of it, in milliseconds.
const NOTICE_MS: i64 = 100;

impl Simulation {
    pub(super) fn strike(&mut self, fault: Fault) {
        self.stage.tell(|| format!("FAULT {fault:?}"));
        if self.befall(fault) {
            *self.stage.faults.entry(fault.kind()).or_default() += 1;
        }
    }

    fn until(&self, for_ms: i64) -> Timestamp {
        Timestamp(self.stage.now().0.saturating_add(for_ms))
    }

    /// Says whether there was anything to befall.
    fn befall(&mut self, fault: Fault) -> bool {
        if let Some((trouble, for_ms, size)) = trouble_of(fault) {
            self.stage.outside.trouble(trouble, self.until(for_ms), size);
            return true;
        }
        match fault {
            Fault::Kill { process, after_steps, away_ms } => {
                let lives = self.processes[process].server.is_some();
                self.processes[process].dies = lives.then_some((after_steps, away_ms));
                lives
            }
            Fault::Pause { process, after_steps, for_ms } => {
                let lives = self.processes[process].server.is_some();
                self.processes[process].halts = lives.then_some((after_steps, for_ms));
                lives
            }
            Fault::SetClock { process, by_ms } => {
                self.processes[process].set_clock(by_ms);
                true
            }
            Fault::Freeze { for_ms } => self.freeze(for_ms),
            Fault::StoreForgets => {
                self.stage.outside.forget();
                true
            }
            other => self.befall_cluster(other),
        }
    }

    /// What befalls a cluster, its agent, the wire to it, or its machines.
    fn befall_cluster(&mut self, fault: Fault) -> bool {
        let now = self.stage.now();
        match fault {
            Fault::SetAgentClock { cluster, by_ms } => {
                self.sites[cluster].offset_ms += by_ms;
                true
            }
            Fault::Cut { cluster, for_ms } => self.cut(cluster, for_ms),
            Fault::Stall { cluster, for_ms } => {
                let until = self.until(for_ms);
                let wire = self.sites[cluster].wire();
                wire.inspect(|wire| self.stage.hold(*wire, until)).is_some()
            }
            Fault::RestartAgent { cluster, away_ms } => {
                self.sites[cluster].stop(&mut self.stage);
                self.stage.after(away_ms, Happening::Awake { site: cluster });
                true
            }
            Fault::NobodyJoins { cluster, for_ms } => {
                self.sites[cluster].cluster.let_join(false);
                self.stage.after(for_ms, Happening::Joins { site: cluster });
                true
            }
            Fault::EmptyPicture { cluster, for_ms } => {
                self.sites[cluster].turn_blind(true, &mut self.stage);
                self.stage.after(for_ms, Happening::Sees { site: cluster });
                true
            }
            Fault::PlansSlow { cluster, for_ms, by_ms } => {
                let (name, until) = (self.sites[cluster].name.clone(), self.until(for_ms));
                self.stage.outside.books().slow_plans.insert(name, (until, by_ms));
                true
            }
            Fault::Relist { cluster, lacks, for_ms } => {
                self.sites[cluster].relist(lacks, true, &mut self.stage);
                self.stage.after(for_ms, Happening::Relists { site: cluster, lacks });
                true
            }
            Fault::Partition { cluster, for_ms } => {
                self.sites[cluster].silence(true, &mut self.stage);
                self.stage.after(for_ms, Happening::Reports { site: cluster });
                true
            }
            Fault::ClaimRemoved { cluster } => {
                let claims = self.sites[cluster].cluster.claims().map(|claim| claim.name.clone()).collect();
                let claim = self.beginning_somewhere(claims).into_iter().next();
                claim.is_some_and(|claim| self.take_away(cluster, claim))
            }
            Fault::Interrupt { cluster } => {
                let machines = self.machines(cluster);
                machines.iter().any(|id| self.stage.outside.cloud().interrupt(id, now))
            }
            Fault::Dies { cluster } => {
                let machines = self.machines(cluster);
                machines.first().is_some_and(|id| self.stage.outside.cloud().terminate(id, now).is_ok())
            }
            _ => false,
        }
    }

    fn take_away(&mut self, cluster: usize, claim: Text) -> bool {
        let now = self.stage.now();
        let asked = self.sites[cluster].needs_a_word();
        let was_there = self.sites[cluster].lose_claim(claim, now);
        if !asked && self.sites[cluster].needs_a_word() {
            self.stage.after(WORD_MS, Happening::Vouch { site: cluster });
        }
        was_there
    }

    /// A person looks at the clusters in quarantine, and has those released whose agents show what is there.
    pub(super) fn look(&mut self) {
        let now = self.stage.now();
        for site in 0..self.sites.len() {
            let name = &self.sites[site].name;
            let servers = self.processes.iter().filter_map(|process| process.server.as_ref());
            let views = servers.filter_map(|server| server.replica.controller().view(name));
            let held = views.into_iter().any(|view| view.rails.quarantine.is_some());
            if held && self.sites[site].is_as_shown(now) {
                self.give_word(site);
            }
        }
        self.stage.after(WORD_MS, Happening::Look);
    }

    /// A person vouches for what the agent of a cluster shows, to every process.
    fn give_word(&mut self, site: usize) {
        let cluster = self.sites[site].name.clone();
        self.stage.tell(|| format!("somebody vouches for {cluster}"));
        for process in self.processes.iter().filter(|process| process.server.is_some()) {
            self.stage.send_process(NOTICE_MS, process.me(), ForProcess::Vouched { cluster: cluster.clone() });
        }
    }

    /// Whoever took the NodeClaims away says so to every process, and says it again: who starts later has not heard it.
    pub(super) fn vouch(&mut self, site: usize) {
        let now = self.stage.now();
        if self.sites[site].is_as_shown(now) {
            self.give_word(site);
        }
        self.stage.after(WORD_MS, Happening::Vouch { site });
    }

    fn freeze(&mut self, for_ms: i64) -> bool {
        let (by, reason) = ("simulation".to_owned(), "to see who heeds it".to_owned());
        let order = FreezeOrder { scope: FreezeScope::Fleet, by, reason, until_ms: None };
        let Some(Ok(freeze)) = self.stage.outside.store().freeze(&order).now_or_never() else { return false };
        self.stage.outside.freeze_changed(true);
        self.stage.after(for_ms, Happening::Thaw { freeze });
        self.tell_of_freezes();
        true
    }

    /// A freeze ends. A store that has forgotten it has nothing to end.
    pub(super) fn thaw(&mut self, freeze: i64) {
        self.stage.tell(|| format!("freeze {freeze} ends"));
        let _known = self.stage.outside.store().thaw(freeze, "simulation").now_or_never();
        self.stage.outside.freeze_changed(false);
        self.tell_of_freezes();
    }

    /// Every process hears that something has changed, as the store's watchers do.
    fn tell_of_freezes(&mut self) {
        for process in self.processes.iter().filter(|process| process.server.is_some()) {
            self.stage.send_process(NOTICE_MS, process.me(), ForProcess::Frozen);
        }
    }

    /// Machines of a cluster by id, beginning somewhere.
    fn machines(&mut self, cluster: usize) -> Vec<Text> {
        let ids = {
            let (name, cloud) = (&self.sites[cluster].name, self.stage.outside.cloud());
            let mine = cloud.book().alive().filter(|entry| entry.instance.cluster == *name);
            mine.map(|entry| entry.instance.id.clone()).collect()
        };
        self.beginning_somewhere(ids)
    }

    fn beginning_somewhere(&mut self, mut names: Vec<Text>) -> Vec<Text> {
        let first = self.stage.die().value() % (names.len().max(1) as u64);
        names.rotate_left(usize::try_from(first).unwrap_or(0));
        names
    }

    /// The process ends at once. Its machine's system closes its connections, unless that is gone as well.
    pub(super) fn kill(&mut self, at: usize, away_ms: i64) {
        self.stage.tell(|| format!("server {at} dies"));
        let me = self.processes[at].me();
        self.processes[at].server = None;
        self.processes[at].paused_until = self.stage.now();
        let machine_too = self.stage.die().percent(30);
        for wire in self.stage.open_wires(|wire| wire.server == me) {
            self.stage.cut(wire, Some(if machine_too { PROBED_MS } else { 2 }), None);
        }
        self.stage.after(away_ms, Happening::Start { process: at });
    }

    /// The process stands still; those who probe it give it up.
    pub(super) fn pause(&mut self, at: usize, for_ms: i64) {
        self.stage.tell(|| format!("server {at} stands still for {for_ms} ms"));
        let until = self.until(for_ms);
        let me = self.processes[at].me();
        self.processes[at].paused_until = self.processes[at].paused_until.max(until);
        if let Some(server) = &mut self.processes[at].server {
            server.paused_until = until;
        }
        if for_ms > PROBED_MS {
            for wire in self.stage.open_wires(|wire| wire.server == me) {
                self.stage.cut(wire, Some(PROBED_MS), Some(PROBED_MS));
            }
        }
    }

    /// The connection is lost. The agent learns of it at once or by probing; the server may have to wait for silence.
    fn cut(&mut self, cluster: usize, for_ms: i64) -> bool {
        let until = self.until(for_ms);
        let site = &mut self.sites[cluster];
        site.cut_off_until = site.cut_off_until.max(until);
        let Some(wire) = site.wire() else { return false };
        let die = self.stage.die();
        let agent = if die.child("agent").percent(50) { 1 } else { PROBED_MS };
        let server = [Some(1), Some(PROBED_MS), None][usize::try_from(die.child("server").value() % 3).unwrap_or(0)];
        self.stage.cut(wire, Some(agent), server);
        true
    }
}

/// What of the outside is in trouble, for how long in milliseconds, and how much; `None` when it is something else.
fn trouble_of(fault: Fault) -> Option<(Trouble, i64, i64)> {
    Some(match fault {
        Fault::StoreDown { for_ms } => (Trouble::StoreDown, for_ms, 0),
        Fault::StoreAmbiguous { for_ms, percent } => (Trouble::StoreAmbiguous, for_ms, i64::from(percent)),
        Fault::StoreSlow { for_ms, by_ms } => (Trouble::StoreSlow, for_ms, by_ms),
        Fault::CloudLost { for_ms, percent } => (Trouble::CloudLost, for_ms, i64::from(percent)),
        Fault::CloudThrottles { for_ms } => (Trouble::CloudThrottles, for_ms, 0),
        Fault::StaleLists { for_ms, by_ms } => (Trouble::StaleLists, for_ms, by_ms),
        Fault::PartialLists { for_ms } => (Trouble::PartialLists, for_ms, 0),
        Fault::LackingLists { for_ms, percent } => (Trouble::LackingLists, for_ms, i64::from(percent)),
        Fault::LaunchesRefused { for_ms } => (Trouble::LaunchesRefused, for_ms, 0),
        Fault::NoCapacity { for_ms } => (Trouble::NoCapacity, for_ms, 0),
        Fault::ZoneEmpty { zone, for_ms } => (Trouble::ZoneEmpty, for_ms, i64::try_from(zone).unwrap_or(0)),
        _ => return None,
    })
}
