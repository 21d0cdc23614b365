//! Small plans, looked at once more: two or three machines whose pods one cheaper machine would carry become one.
//!
//! Class after class, machines are opened for what comes first, and what comes last may get one to itself. In a large
//! plan that is noise; in a small one it is the bill. Only plans of few machines are looked at, so the cost is bounded.

use super::axis::{self, Amounts};
use super::classes::{Owned, Rule};
use super::fits::FitId;
use super::machines::{Event, Place, ports_free};
use super::packing::Packing;
use super::topology::{GroupId, Topology};
use crate::model::MicroUsd;

/// Plans with more machines are left as they are: trying all pairs would cost more than they could save.
const MOST_MACHINES: usize = 48;
/// Plans with more machines are not searched for threes.
const MOST_FOR_THREES: usize = 20;

/// Machines (by cohort) that one machine would replace, and what that saves.
struct Merger {
    parts: Vec<usize>,
    fit: FitId,
    target: u32,
    saving: i64,
}

impl Packing<'_, '_> {
    /// Merges machines for as long as that saves money; whether it did.
    pub(super) fn merge(&mut self) -> bool {
        if self.home.len() > MOST_MACHINES {
            return false;
        }
        self.separate();
        let divisive = self.divisive_groups();
        let mut any = false;
        while let Some(merger) = self.best_merger(&divisive) {
            self.carry_out(&merger);
            any = true;
        }
        any
    }

    /// Hostname groups by which some class keeps its distance. Their members may not come closer than they stand.
    fn divisive_groups(&self) -> Vec<GroupId> {
        let keeps_distance = |owned: &&Owned| {
            owned.key == Topology::HOST && owned.soft.is_none() && !matches!(owned.rule, Rule::With { .. })
        };
        let owned = self.problem.classes.iter().flat_map(|class| &class.owned);
        let mut groups: Vec<GroupId> = owned.filter(keeps_distance).map(|owned| owned.group).collect();
        groups.sort_unstable();
        groups.dedup();
        groups
    }

    /// One cohort per machine, so that each can be judged by itself.
    fn separate(&mut self) {
        for at in 0..self.cohorts.len() {
            while self.cohorts[at].ids.len() > 1 {
                self.split(at, 1);
            }
        }
    }

    fn best_merger(&mut self, divisive: &[GroupId]) -> Option<Merger> {
        let alive: Vec<usize> = (0..self.cohorts.len()).filter(|at| self.is_mergeable(*at)).collect();
        let threes = alive.len() <= MOST_FOR_THREES;
        let mut best: Option<Merger> = None;
        for (first, a) in alive.iter().enumerate() {
            for (second, b) in alive.iter().enumerate().skip(first + 1) {
                self.consider(vec![*a, *b], divisive, &mut best);
                for c in alive.iter().skip(second + 1).filter(|_| threes) {
                    self.consider(vec![*a, *b, *c], divisive, &mut best);
                }
            }
        }
        best
    }

    fn is_mergeable(&self, at: usize) -> bool {
        let cohort = &self.cohorts[at];
        !cohort.ids.is_empty() && !self.ledger.is_stateful(cohort.pool) && !self.ledger.wants_many(cohort.pool)
    }

    fn consider(&mut self, parts: Vec<usize>, divisive: &[GroupId], best: &mut Option<Merger>) {
        if let Some(merger) = self.merger_of(parts, divisive)
            && best.as_ref().is_none_or(|known| merger.saving > known.saving)
        {
            *best = Some(merger);
        }
    }

    /// The cheapest machine for everything on `parts`, when it costs less than they do.
    fn merger_of(&mut self, parts: Vec<usize>, divisive: &[GroupId]) -> Option<Merger> {
        let pool = self.cohorts[parts[0]].pool;
        if parts.iter().any(|at| self.cohorts[*at].pool != pool) || !self.get_along(&parts, divisive) {
            return None;
        }
        let market = self.problem.markets[pool as usize].as_ref()?;
        let mut fit = self.cohorts[parts[0]].fit;
        let mut used: Amounts = self.problem.axis.zero();
        let mut price = 0;
        for at in &parts {
            fit = self.fits.intersect(fit, self.cohorts[*at].fit, market)?;
            axis::add(&mut used, &self.cohorts[*at].used.clone(), 1);
            price += self.cheapest(self.cohorts[*at].fit, pool, &self.cohorts[*at].used.clone(), &[*at])?.1.0;
        }
        let (target, merged) = self.cheapest(fit, pool, &used, &parts)?;
        let nothing = self.problem.axis.zero();
        let mut charged = vec![0; self.limits[pool as usize].len()];
        for part in &parts {
            charged.iter_mut().zip(&self.cohorts[*part].charged).for_each(|(sum, own)| *sum += own);
        }
        let flexible = self.flexible_count(pool, (fit, target), (&used, &charged), &nothing, 1) > 0;
        let saving = price - merged.0;
        (saving > 0 && flexible).then_some(Merger { parts, fit, target, saving })
    }

    /// The cheapest machine of `fit` that carries `used` and charges the pool no more than `parts` do and its limits leave.
    fn cheapest(&mut self, fit: FitId, pool: u32, used: &[i64], parts: &[usize]) -> Option<(u32, MicroUsd)> {
        let market = self.problem.markets[pool as usize].as_ref()?;
        let ranked = self.fits.ranked(fit, market);
        let charged = |place: usize| -> i64 {
            let charge = |at: &usize| self.cohorts[*at].charged[place];
            parts.iter().map(charge).sum()
        };
        let within = |kind: usize| {
            let charges = market.machines[kind].charge.iter().zip(&self.limits[pool as usize]).enumerate();
            charges.into_iter().all(|(place, (charge, left))| *charge <= charged(place) + (*left).max(0))
        };
        let ordinary =
            ranked.iter().any(|(_, kind)| !market.machines[*kind].exotic && axis::fits(used, &market.rooms[*kind]));
        let suits = |kind: usize| {
            let machine = &market.machines[kind];
            axis::fits(used, &market.rooms[kind]) && (!machine.exotic || !ordinary) && within(kind)
        };
        let (price, kind) = ranked.iter().find(|(_, kind)| suits(*kind))?;
        Some((u32::try_from(*kind).ok()?, *price))
    }

    /// Whether no rule about hostnames and no host port keeps the contents of `parts` apart. Divisive groups may have
    /// members on one of the machines only.
    fn get_along(&self, parts: &[usize], divisive: &[GroupId]) -> bool {
        let port_clash = parts.iter().enumerate().any(|(place, at)| {
            parts[..place].iter().any(|other| {
                let daemons =
                    self.problem.markets[self.cohorts[*at].pool as usize].as_ref().map_or(0, |m| m.daemon_ports.len());
                !ports_free(&self.cohorts[*at].ports[daemons..], &self.cohorts[*other].ports[daemons..])
            })
        });
        let touched = |at: usize, group: u32| {
            let tally = self.cohorts[at].host.get(group);
            tally.matched > 0 || tally.owners > 0
        };
        let divided = |group: u32| parts.iter().filter(|at| touched(**at, group)).count() > 1;
        !port_clash && !divisive.iter().any(|group| divided(*group))
    }

    fn carry_out(&mut self, merger: &Merger) {
        let [first, others @ ..] = merger.parts.as_slice() else { return };
        let home = self.cohorts[*first].ids[0];
        for at in others {
            let gone = self.cohorts[*at].clone();
            let host = &mut self.cohorts[*first].host;
            gone.host.iter().for_each(|(group, tally)| host.add(group, tally.matched, tally.owners));
            axis::add(&mut self.cohorts[*first].used, &gone.used, 1);
            self.cohorts[*first].growth = None;
            self.cohorts[*first].ports.extend(gone.ports.iter().cloned());
            self.close(*at, home);
        }
        self.cohorts[*first].fit = merger.fit;
        self.retarget(*first, merger.target);
    }

    /// Gives up the machine of cohort `at`; its pods are on machine `home`.
    fn close(&mut self, at: usize, home: u32) {
        let pool = self.cohorts[at].pool;
        for (left, charge) in self.limits[pool as usize].iter_mut().zip(&self.cohorts[at].charged) {
            *left += charge;
        }
        self.nodes_left[pool as usize] += 1;
        let ids = std::mem::take(&mut self.cohorts[at].ids);
        let moved = |event: &&mut Event| matches!(event.place, Place::New(id) if ids.contains(&id));
        self.events.iter_mut().filter(moved).for_each(|event| event.place = Place::New(home));
    }
}
