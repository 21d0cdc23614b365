//! What machines have cost.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use cost::{CostInterval, CostParts, SavingDecision};
use model::Timestamp;

use super::super::StoreResult;
use super::super::lease::{Lease, Scope};
use super::super::spend::{DAY_MS, HOUR_MS, HOURS_KEPT_DAYS, IntervalFilter, SpendGroup, SpendQuery, SpendRow};
use super::tables::Tables;

impl Tables {
    pub(super) fn put_costs(&mut self, lease: &Lease, intervals: &[CostInterval]) -> StoreResult<()> {
        self.check_lease(lease)?;
        let table = self.costs.entry(lease.scope.clone()).or_default();
        for interval in intervals {
            let stored = table.entry(key(interval)).or_insert_with(|| interval.clone());
            if stored.end <= interval.end {
                *stored = interval.clone();
            }
        }
        Ok(())
    }

    /// The last interval of each machine that ran when its costs were last written.
    pub(super) fn running_costs(&self, scope: &Scope) -> Vec<CostInterval> {
        let Some(table) = self.costs.get(scope) else { return Vec::new() };
        let Some(((latest, _), _)) = table.last_key_value() else { return Vec::new() };
        // Every write has an interval of each machine that runs, which begins at most an hour before it.
        let recent = table.range((latest - 2 * HOUR_MS, String::new())..).map(|(_, interval)| interval);
        let last: BTreeMap<&str, &CostInterval> =
            recent.map(|interval| (interval.machine.claim.as_ref(), interval)).collect();
        last.into_values().filter(|interval| interval.is_running).cloned().collect()
    }

    pub(super) fn spend(&self, query: &SpendQuery) -> Vec<SpendRow> {
        let mut sums = BTreeMap::<(i64, String, String), SpendRow>::new();
        for (scope, table) in &self.costs {
            let cluster = scope.cluster_name().unwrap_or_default();
            if query.clusters.as_ref().is_some_and(|asked| !asked.iter().any(|name| name == cluster)) {
                continue;
            }
            for (_, interval) in table.range((query.from_ms, String::new())..(query.to_ms, String::new())) {
                let start = interval.start.as_millis();
                let period = query.period.length_ms().map_or(query.from_ms, |length| start - start.rem_euclid(length));
                let (cluster, group) = group_of(query.group, cluster, interval);
                let sum = sums.entry((period, cluster.clone(), group.clone())).or_default();
                (sum.period_ms, sum.cluster, sum.group) = (period, cluster, group);
                sum.machine_ms += interval.end.duration_since(interval.start).get();
                sum.parts += interval.parts;
            }
        }
        sums.into_values().collect()
    }

    pub(super) fn saving_intervals(
        &self,
        clusters: Option<&[String]>,
        from: i64,
        to: i64,
    ) -> Vec<(String, CostInterval)> {
        let mut found = Vec::new();
        for (scope, table) in &self.costs {
            let cluster = scope.cluster_name().unwrap_or_default();
            if clusters.is_some_and(|asked| !asked.iter().any(|name| name == cluster)) {
                continue;
            }
            let around = table.range((from - DAY_MS, String::new())..(to + DAY_MS, String::new()));
            let around: Vec<&CostInterval> = around.map(|(_, interval)| interval).collect();
            let is_asked = |saving: &SavingDecision| (from..to).contains(&saving.at.as_millis());
            let saving = |one: &&CostInterval| one.machine.removed_by.filter(is_asked);
            let removed: BTreeSet<&str> =
                around.iter().filter(|one| saving(one).is_some()).map(|one| one.machine.claim.as_ref()).collect();
            let decisions: BTreeSet<u64> = around.iter().filter_map(saving).map(|saving| saving.number).collect();
            let concerns = |one: &&CostInterval| {
                removed.contains(one.machine.claim.as_ref())
                    || one.machine.launched_by.is_some_and(|number| decisions.contains(&number))
                    || one.machine.moved.iter().any(|share| decisions.contains(&share.decision))
            };
            let without_parts = |one: &CostInterval| CostInterval { parts: CostParts::default(), ..one.clone() };
            found.extend(around.into_iter().filter(concerns).map(|one| (cluster.to_owned(), without_parts(one))));
        }
        found
    }

    pub(super) fn cost_intervals(&self, filter: &IntervalFilter) -> Vec<CostInterval> {
        let Some(table) = self.costs.get(&Scope::Cluster(filter.cluster.clone())) else { return Vec::new() };
        let from = match &filter.after {
            Some(after) => Bound::Excluded(after.clone()),
            None => Bound::Included((filter.from_ms, String::new())),
        };
        let end = (filter.to_ms, String::new());
        let before = table.range((from, Bound::Unbounded)).take_while(|(key, _)| **key < end);
        before.map(|(_, interval)| interval.clone()).take(filter.limit as usize).collect()
    }

    /// Deletes intervals that began before `before`, and merges those of the days that are not kept by the hour at `now`.
    pub(super) fn prune_costs(&mut self, before: i64, now: i64) {
        let hours_from = (now - now.rem_euclid(DAY_MS)) - HOURS_KEPT_DAYS * DAY_MS;
        for table in self.costs.values_mut() {
            let later = table.split_off(&(hours_from, String::new()));
            let hours = std::mem::replace(table, later);
            let mut days = Vec::<CostInterval>::new();
            for (_, interval) in hours.into_iter().filter(|((start, _), _)| *start >= before) {
                match days.iter_mut().rev().find(|day| is_same_day(day, &interval)) {
                    Some(day) => merge(day, interval),
                    None => days.push(interval),
                }
            }
            table.extend(days.into_iter().map(|day| (key(&day), day)));
        }
        self.costs.retain(|_, table| !table.is_empty());
    }
}

fn key(interval: &CostInterval) -> (i64, String) {
    (interval.start.as_millis(), interval.machine.claim.to_string())
}

fn is_same_day(day: &CostInterval, interval: &CostInterval) -> bool {
    let date = |at: Timestamp| at.as_millis().div_euclid(DAY_MS);
    day.machine.claim == interval.machine.claim
        && day.machine.price == interval.machine.price
        && day.launched == interval.launched
        && date(day.start) == date(interval.start)
}

/// Adds an interval that follows. What it says of the machine is newer.
fn merge(day: &mut CostInterval, interval: CostInterval) {
    let mut parts = day.parts;
    parts += interval.parts;
    *day = CostInterval { start: day.start, parts, ..interval };
}

fn group_of(group: SpendGroup, cluster: &str, interval: &CostInterval) -> (String, String) {
    let machine = &interval.machine;
    match group {
        SpendGroup::None => Default::default(),
        SpendGroup::Cluster => (cluster.to_owned(), String::new()),
        SpendGroup::Pool => (cluster.to_owned(), machine.pool.to_string()),
        SpendGroup::CapacityType => (String::new(), machine.capacity_type.as_str().to_owned()),
        SpendGroup::InstanceType => (String::new(), machine.instance_type.to_string()),
        SpendGroup::Zone => (String::new(), machine.zone.to_string()),
    }
}
