//! Refused offerings of one process, and its probes of them.

use std::collections::BTreeMap;

use super::key::{Offering, OfferingKey, OfferingUpdate, ProbeAnswer, ProbeHolder, UnavailableOffering};
use super::window::{FORGOTTEN_AFTER, window};
use model::{CapacityType, ClaimName, ClusterName, InstanceTypeName, Millis, SizeClass, Text, Timestamp, Zone};

/// A probe that no launch has taken is given back after this time: a batch window lasts ten seconds at most, and its plan
/// may wait for its turn.
const UNUSED_AFTER: Millis = Millis::from_secs(30);
/// A process that gave a probe back unused asks again after this time, so that others get it.
const PAUSE_AFTER_UNUSED: Millis = Millis::from_secs(30);
/// A request without an answer is repeated after this time.
const ANSWER_WITHIN: Millis = Millis::from_secs(10);
/// A denied request is repeated after this time.
const PAUSE_AFTER_DENIAL: Millis = Millis::from_secs(5);
/// A probe is extended when less than this is left of its lease.
const RENEWED_BEFORE: Millis = Millis::from_secs(30);
/// No call begins with a probe of which less than this is left.
const CALL_TIME: Millis = Millis::from_secs(15);
/// Most probes in one request.
const PROBES_AT_ONCE: usize = 100;

/// Refused offerings by instance type.
#[derive(Debug, Default)]
pub(super) struct Entries {
    by_type: BTreeMap<InstanceTypeName, Vec<Entry>>,
    /// Ids of zones, by their names in this account, as far as offerings have said them.
    zone_ids: BTreeMap<Zone, Text>,
    /// In guard-off tests: everyone may launch an offering whose exclusion has ended.
    is_unguarded: bool,
    /// Changes that other replicas do not have yet.
    unpublished: BTreeMap<OfferingKey, OfferingUpdate>,
}

#[derive(Debug)]
struct Entry {
    facts: UnavailableOffering,
    /// The probe that this process holds.
    probe: Option<Probe>,
    /// Earliest next request for the probe.
    ask_at: Timestamp,
}

#[derive(Debug)]
struct Probe {
    until: Timestamp,
    granted_at: Timestamp,
    /// The launch that tries the offering.
    taken_by: Option<ProbeHolder>,
}

/// Whether an offering may be launched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Availability {
    /// It is not refused.
    Free,
    /// The exclusion has ended, and this process may have one launch try it.
    Probe,
    /// It is excluded, or another launch tries it.
    Excluded,
}

impl Entry {
    fn is_refused(&self) -> bool {
        self.facts.failures > 0
    }

    fn is_due(&self, now: Timestamp) -> bool {
        self.is_refused() && self.facts.until <= now
    }

    fn is_taken_by(&self, holder: &ProbeHolder) -> bool {
        self.probe.as_ref().is_some_and(|probe| probe.taken_by.as_ref() == Some(holder))
    }

    /// For the launch of `holder`; without one, for a launch to come.
    fn availability(&self, holder: Option<&ProbeHolder>, now: Timestamp) -> Availability {
        if !self.is_refused() {
            return Availability::Free;
        }
        let probe = self.probe.as_ref().filter(|probe| self.is_due(now) && probe.until > now + CALL_TIME);
        match probe {
            Some(Probe { taken_by: None, .. }) => Availability::Probe,
            Some(Probe { taken_by, .. }) if holder.is_some() && taken_by.as_ref() == holder => Availability::Probe,
            _ => Availability::Excluded,
        }
    }
}

impl Entries {
    /// Nothing is refused.
    pub fn new(has_one_probe: bool) -> Self {
        Self { is_unguarded: !has_one_probe, ..Self::default() }
    }

    pub fn is_empty(&self) -> bool {
        self.by_type.is_empty()
    }

    /// Number of offerings that launches of one instance may not use freely, and how many of them are probed.
    pub fn counts(&self) -> (usize, usize) {
        let refused = self.all().filter(|entry| entry.is_refused() && entry.facts.key.size == SizeClass::ONE);
        let is_probed = |entry: &&Entry| entry.probe.as_ref().is_some_and(|probe| probe.taken_by.is_some());
        refused.fold((0, 0), |(all, probed), entry| (all + 1, probed + usize::from(is_probed(&entry))))
    }

    #[cfg(test)]
    pub fn refused_sizes(&self) -> Vec<SizeClass> {
        let mut sizes: Vec<SizeClass> =
            self.all().filter(|entry| entry.is_refused()).map(|entry| entry.facts.key.size).collect();
        sizes.sort();
        sizes
    }

    fn all(&self) -> impl Iterator<Item = &Entry> {
        self.by_type.values().flatten()
    }

    fn get_mut(&mut self, key: &OfferingKey) -> Option<&mut Entry> {
        self.by_type.get_mut(&key.instance_type)?.iter_mut().find(|entry| entry.facts.key == *key)
    }

    /// Whether launches of one instance may use the offering. `zone_id` is what the catalogue says, if it is at hand.
    pub fn availability(
        &self,
        instance_type: &InstanceTypeName,
        (zone, zone_id): (&Zone, Option<&Text>),
        capacity_type: CapacityType,
        holder: Option<&ProbeHolder>,
        now: Timestamp,
    ) -> Availability {
        let Some(entries) = self.by_type.get(instance_type) else { return Availability::Free };
        let zone_id = zone_id.or_else(|| self.zone_ids.get(zone));
        let concern = |entry: &&Entry| {
            let key = &entry.facts.key;
            let is_freed = self.is_unguarded && entry.is_due(now);
            !is_freed && key.size <= SizeClass::ONE && key.is_in(zone, zone_id, capacity_type)
        };
        let found = entries.iter().filter(concern).map(|entry| entry.availability(holder, now));
        found.max().unwrap_or(Availability::Free)
    }

    pub fn learn_zone(&mut self, zone: &Zone, id: &Text) {
        if !self.zone_ids.contains_key(zone) {
            self.zone_ids.insert(zone.clone(), id.clone());
        }
    }

    /// The cloud refused the offering. Returns whether that changes anything: a refusal during an exclusion comes from a
    /// launch that began before it, and says nothing new.
    pub fn refuse(&mut self, key: OfferingKey, reason: Text, base: Millis, now: Timestamp) -> bool {
        let is_excluded = |entry: &Entry| entry.is_refused() && entry.facts.until > now;
        let known = self.get_mut(&key).map(|entry| (is_excluded(entry), entry.facts.clone()));
        let (before, version) = match known {
            Some((true, _)) => return false,
            Some((_, facts)) if now < facts.refused_at + FORGOTTEN_AFTER => (facts.failures, facts.version),
            Some((_, facts)) => (0, facts.version),
            None => (0, 0),
        };
        let failures = before.saturating_add(1);
        let until = now + window(base, failures);
        let facts = UnavailableOffering { key, failures, refused_at: now, until, reason, version };
        self.unpublished.insert(facts.key.clone(), OfferingUpdate::Refused(facts.clone()));
        self.replace(facts);
        true
    }

    /// A launch of `size` instances succeeded: refusals of that many and fewer are over. So is what they implied for
    /// larger launches. Returns whether anything was refused.
    pub fn clear(&mut self, offering: &Offering, size: SizeClass, now: Timestamp) -> bool {
        let Offering { instance_type, zone, zone_id, capacity_type } = offering;
        let zone_id = zone_id.as_ref().or_else(|| self.zone_ids.get(zone)).cloned();
        let Some(entries) = self.by_type.get_mut(instance_type) else { return false };
        let mut cleared = false;
        for entry in entries.iter_mut().filter(|entry| entry.is_refused()) {
            let key = &entry.facts.key;
            if key.size <= size && key.is_in(zone, zone_id.as_ref(), *capacity_type) {
                self.unpublished.insert(key.clone(), OfferingUpdate::Cleared(key.clone()));
                (entry.facts.failures, entry.facts.until, entry.probe) = (0, now, None);
                cleared = true;
            }
        }
        cleared
    }

    /// Takes over what the store has, unless it is known or older than what is known.
    pub fn merge(&mut self, rows: Vec<UnavailableOffering>, now: Timestamp) {
        for row in rows.into_iter().filter(|row| now < row.refused_at + FORGOTTEN_AFTER) {
            let known = self.get_mut(&row.key);
            if known.is_none_or(|entry| entry.facts.version < row.version) {
                self.replace(row);
            }
        }
    }

    /// Replaces what is known of an offering. A probe ends unless it is of the same refusal.
    fn replace(&mut self, facts: UnavailableOffering) {
        match self.get_mut(&facts.key) {
            Some(entry) => {
                let is_same = (entry.facts.failures, entry.facts.until) == (facts.failures, facts.until);
                entry.facts = facts;
                if !is_same {
                    (entry.probe, entry.ask_at) = (None, Timestamp::default());
                }
            }
            None => {
                let entries = self.by_type.entry(facts.key.instance_type.clone()).or_default();
                entries.push(Entry { facts, probe: None, ask_at: Timestamp::default() });
            }
        }
    }

    /// Applies what time changes; returns whether it changes which offerings may be launched.
    pub fn expire(&mut self, now: Timestamp) -> bool {
        let mut changed = false;
        let unpublished = &mut self.unpublished;
        self.by_type.retain(|_, entries| {
            entries.retain_mut(|entry| {
                changed |= entry.expire_probe(unpublished, now);
                let is_kept = now < entry.facts.refused_at + FORGOTTEN_AFTER;
                changed |= !is_kept;
                is_kept
            });
            !entries.is_empty()
        });
        changed
    }

    /// Changes since the last call.
    pub fn take_unpublished(&mut self) -> Vec<OfferingUpdate> {
        std::mem::take(&mut self.unpublished).into_values().collect()
    }
}

impl Entry {
    /// Ends a probe whose lease has ended, and gives back one that no launch took. Returns whether there was one.
    fn expire_probe(&mut self, unpublished: &mut BTreeMap<OfferingKey, OfferingUpdate>, now: Timestamp) -> bool {
        let Some(probe) = &self.probe else { return false };
        let is_unused = probe.taken_by.is_none() && probe.granted_at + UNUSED_AFTER <= now;
        if probe.until > now && !is_unused {
            return false;
        }
        if probe.until > now {
            let key = self.facts.key.clone();
            unpublished.insert(key.clone(), OfferingUpdate::ProbeReleased(key));
            self.ask_at = now + PAUSE_AFTER_UNUSED;
        }
        self.probe = None;
        true
    }
}

impl Entries {
    /// Offerings that `is_wanted` and whose probe is due, from now on requested; and those whose lease has to be extended,
    /// because a launch of `cluster` that has taken them is under way.
    pub fn probes_to_claim(
        &mut self,
        cluster: &ClusterName,
        mut is_wanted: impl FnMut(&OfferingKey) -> bool,
        is_under_way: impl Fn(&ClaimName) -> bool,
        now: Timestamp,
    ) -> Vec<OfferingKey> {
        let mut keys = Vec::new();
        for entry in self.by_type.values_mut().flatten() {
            if keys.len() == PROBES_AT_ONCE {
                break;
            }
            if entry.ask_at > now || !entry.is_due(now) {
                continue;
            }
            let is_claimed = match &entry.probe {
                None => is_wanted(&entry.facts.key),
                Some(Probe { until, taken_by: Some(holder), .. }) if holder.cluster == *cluster => {
                    let is_renewed = is_under_way(&holder.claim);
                    if !is_renewed {
                        entry.ask_at = *until;
                    }
                    is_renewed && *until - RENEWED_BEFORE <= now
                }
                Some(_) => false,
            };
            if is_claimed {
                entry.ask_at = now + ANSWER_WITHIN;
                keys.push(entry.facts.key.clone());
            }
        }
        keys
    }

    /// When a probe that a launch of `cluster` has taken is to be extended.
    pub fn next_renewal(&self, cluster: &ClusterName) -> Option<Timestamp> {
        let taken = self.all().filter_map(|entry| Some((entry.probe.as_ref()?, entry.ask_at)));
        let taken = taken.filter(|(probe, _)| probe.is_taken_in(cluster));
        taken.map(|(probe, ask_at)| (probe.until - RENEWED_BEFORE).max(ask_at)).min()
    }

    /// Handles the store's answers; a granted probe lasts until `until`. Returns whether there is one that no launch has
    /// taken.
    pub fn record_answers(
        &mut self,
        answers: Vec<(OfferingKey, ProbeAnswer)>,
        until: Timestamp,
        now: Timestamp,
    ) -> bool {
        let mut granted = false;
        for (key, answer) in answers {
            let Some(entry) = self.get_mut(&key) else { continue };
            match answer {
                ProbeAnswer::Granted if entry.is_due(now) => {
                    let new = Probe { until, granted_at: now, taken_by: None };
                    let probe = entry.probe.get_or_insert(new);
                    probe.until = probe.until.max(until);
                    granted |= probe.taken_by.is_none();
                    entry.ask_at = Timestamp::default();
                }
                // An outcome of another launch, which the store gets later, ends it.
                ProbeAnswer::Granted => {}
                ProbeAnswer::Denied => entry.ask_at = now + PAUSE_AFTER_DENIAL,
                ProbeAnswer::Absent if entry.facts.version == 0 && entry.is_refused() => {
                    let facts = entry.facts.clone();
                    entry.ask_at = now + PAUSE_AFTER_DENIAL;
                    self.unpublished.entry(key).or_insert(OfferingUpdate::Refused(facts));
                }
                ProbeAnswer::Absent => {
                    (entry.facts.failures, entry.facts.until, entry.probe) = (0, now, None);
                }
            }
        }
        granted
    }

    /// Has the launch of `holder` take the probes of an offering.
    pub fn take_probes(
        &mut self,
        instance_type: &InstanceTypeName,
        zone: &Zone,
        capacity_type: CapacityType,
        holder: &ProbeHolder,
    ) {
        let zone_id = self.zone_ids.get(zone).cloned();
        for entry in self.by_type.get_mut(instance_type).into_iter().flatten() {
            if entry.facts.key.is_in(zone, zone_id.as_ref(), capacity_type)
                && let Some(probe) = &mut entry.probe
            {
                probe.taken_by.get_or_insert_with(|| holder.clone());
            }
        }
    }

    /// The launch of `holder` has ended: gives back the probes that it took and that have no outcome. Returns whether
    /// there was one.
    pub fn release_probes(&mut self, holder: &ProbeHolder) -> bool {
        let mut released = false;
        for entry in self.by_type.values_mut().flatten().filter(|entry| entry.is_taken_by(holder)) {
            let key = entry.facts.key.clone();
            self.unpublished.insert(key.clone(), OfferingUpdate::ProbeReleased(key));
            (entry.probe, entry.ask_at) = (None, Timestamp::default());
            released = true;
        }
        released
    }

    /// Another process owns the cluster: its launches may be under way, so that their probes end by their leases.
    pub fn forget_cluster(&mut self, cluster: &ClusterName) {
        for entry in self.by_type.values_mut().flatten() {
            if let Some(probe) = entry.probe.take_if(|probe| probe.is_taken_in(cluster)) {
                entry.ask_at = probe.until;
            }
        }
    }
}

impl Probe {
    fn is_taken_in(&self, cluster: &ClusterName) -> bool {
        self.taken_by.as_ref().is_some_and(|holder| holder.cluster == *cluster)
    }
}
