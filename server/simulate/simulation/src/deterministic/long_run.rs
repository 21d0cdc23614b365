//! Long runs without faults, on virtual time: what disruption does to a load that stays the same, that follows the
//! day, or whose NodePools change.
//!
//! Each load has bounds ([`LongRunReport::exceeded`]), by the ledgers of cloud and cluster. The invariants of every step hold
//! as well.

mod costs;
mod load_bound;
mod scrapes;

use std::collections::{BTreeMap, BTreeSet};

use clap::ValueEnum;
use cloud::simulated::FaultProfile;
use cluster::PoolRecord;
use cost::CostParts;
use futures::future::FutureExt;
use model::{ClaimName, MicroUsd, Millis, PoolName, Resources, Timestamp};

use self::costs::Costs;
pub use self::costs::{Savings, StoredCosts};
pub use self::scrapes::Scrape;
use self::scrapes::Scrapes;
use super::disruption_runs::Permission;
use super::fault::{Fault, TimedFault};
use super::guard::Guard;
use super::setup::{GIB, MINUTE, Setup, catalogue, pool, workload};
use super::{CHECK_INTERVAL, Simulation};
use crate::kube::cluster::Workload;
use store::Store;
use store::log::Retention;

const HOUR: i64 = 60 * MINUTE;
/// A pod that is moved later than this moves although nothing has changed.
const FIRST_HOUR: Timestamp = Timestamp::from_millis(HOUR);
/// Machines are counted from here: a daily load has had its first peak.
const FIRST_DAY: Timestamp = Timestamp::from_millis(24 * HOUR);
/// The daily load changes so often.
const LOAD_STEP_MS: i64 = 30 * MINUTE;
/// Templates change so often.
const TEMPLATE_STEP_MS: i64 = 48 * HOUR;
/// The store drops old rows so often.
const PRUNE_INTERVAL: Millis = Millis::from_hours(1);
/// Machines and drifted nodes are counted so often.
const SAMPLE: Millis = Millis::from_mins(1);
/// A drifted node whose NodePool may be disrupted at any time is replaced within this: seven nodes one after another,
/// of which each takes some three minutes.
const DRIFT_BOUND: Millis = Millis::from_hours(1);
/// The same for a NodePool with a window of an hour each day: the next window, and the hour.
const WINDOW_BOUND: Millis = Millis::from_hours(25);
/// What is charged and what is billed differ by at most this part: a thousandth.
const BILL_TOLERANCE: u64 = 1_000;
/// At night there are at most so many machines, in percent of those by day. The load falls to 30 %.
const NIGHT_PERCENT: usize = 60;

/// A load of a long run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Load {
    /// Pods are created once and stay
    Steady,
    /// The number of pods follows a curve of 24 hours between 30 % and 100 %
    Daily,
    /// Pods stay, and the templates of two NodePools change every 48 hours; one has a window from 03:00 to 04:00
    Drift,
}

/// A long run.
#[derive(Debug, Clone, Copy)]
pub struct LongRun {
    pub load: Load,
    pub hours: u32,
    pub seed: u64,
    /// Guard that is switched off.
    pub off: Option<Guard>,
}

/// What happened in a long run.
#[derive(Debug, Clone, Default)]
pub struct LongRunReport {
    pub hours: i64,
    /// Replicas of all workloads: least and most after the first hour.
    pub pods: (usize, usize),
    /// Machines that exist: least and most after the first day.
    pub machines: (usize, usize),
    pub launched: usize,
    /// Evictions by drains.
    pub moves: usize,
    pub moves_after_first_hour: usize,
    /// Moves for each pod and day, on average after the first hour.
    pub moves_per_pod_and_day: f64,
    /// Moves of one pod, with those that it succeeds, within 24 hours: the most after the first hour.
    pub most_moves_in_a_day: usize,
    /// What the machines cost, in dollars a day.
    pub cost_per_day: MicroUsd,
    /// The lower bound on the cost of a day if the machines were launched anew with each change; of the daily load.
    pub bound_per_day: Option<MicroUsd>,
    /// What the machines cost by the observations of the server, and what it was spent on.
    pub charged: CostParts,
    /// What they cost by the ledger of the cloud.
    pub billed: MicroUsd,
    /// What the server has stored about their costs.
    pub stored: StoredCosts,
    /// What they cost by the ledger of the cloud until the stored costs end.
    pub billed_until_stored: MicroUsd,
    /// Drifted nodes that are gone.
    pub replaced: usize,
    /// Longest time from a change of the template to the end of a node, by NodePool.
    pub drifted_for: BTreeMap<PoolName, Millis>,
    pub violations: Vec<String>,
}

impl LongRun {
    /// Runs it.
    #[must_use]
    pub fn run(self) -> LongRunReport {
        self.run_setup(self.setup(), |_, _| {})
    }

    /// Runs it, and scrapes the metrics of its cluster once a minute.
    #[must_use]
    pub fn run_with_scrapes(self) -> (LongRunReport, Vec<Scrape>) {
        let mut scrapes = Scrapes::default();
        let report = self.run_setup(self.setup(), |simulation, now| scrapes.observe(simulation, now));
        (report, scrapes.into_scrapes())
    }

    /// Runs a day and two hours of the daily load, whose server is killed every two hours.
    #[must_use]
    pub fn run_with_restarts(self) -> LongRunReport {
        self.run_setup(Self::daily_with_restarts(self.seed, self.off), |_, _| {})
    }

    /// Runs it with another setup, observed after each step.
    fn run_setup(self, setup: Setup, mut observe: impl FnMut(&Simulation, Timestamp)) -> LongRunReport {
        let mut simulation = Simulation::new(setup, false);
        let end = Timestamp::from_millis(self.end_ms());
        let (mut watch, mut pruned) = (Watch::default(), Timestamp::default());
        let mut costs = Costs::default();
        while let Some(next) = simulation.next_moment().filter(|next| *next <= end) {
            simulation.step_at(next);
            let now = simulation.events.now();
            let slow = now.duration_since(simulation.last_checked) >= CHECK_INTERVAL;
            simulation.check(slow);
            if slow {
                simulation.last_checked = now;
            }
            if !simulation.violations.is_empty() {
                break;
            }
            if now.duration_since(pruned) >= PRUNE_INTERVAL {
                pruned = now;
                // A server does the same.
                let _pruned = simulation.events.environment.store().prune(&Retention::default()).now_or_never();
            }
            costs.observe(&simulation, now);
            observe(&simulation, now);
            if watch.sampled.is_none_or(|at| now.duration_since(at) >= SAMPLE) {
                watch.sample(&simulation, now);
            }
        }
        let mut report = LongRunReport { bound_per_day: self.bound_per_day(), ..watch.figures(&simulation) };
        report.charged = costs.charged();
        report.stored = StoredCosts::read(&simulation, simulation.events.now());
        report.billed_until_stored = simulation.events.environment.cloud().ledger().spent(report.stored.until);
        report.violations.extend(costs.violation());
        report
    }

    fn bound_per_day(self) -> Option<MicroUsd> {
        let pool = daily_pool();
        let at = |at_ms: i64| {
            let replicas = workloads().map(|(workload, most)| (workload, by_day(at_ms, most)));
            Some(load_bound::per_hour(&pool, &replicas)?.0 * LOAD_STEP_MS / HOUR)
        };
        let steps = steps(0, LOAD_STEP_MS, 24 * HOUR - LOAD_STEP_MS).filter(|_| self.load == Load::Daily);
        let bound: i64 = steps.map(at).sum::<Option<i64>>()?;
        Some(MicroUsd(bound)).filter(|bound| bound.0 > 0)
    }

    /// A day and two hours of the daily load, whose server is killed every two hours.
    pub(super) fn daily_with_restarts(seed: u64, off: Option<Guard>) -> Setup {
        let run = Self { load: Load::Daily, hours: 26, seed, off };
        let kill = Fault::Kill { process: 0, after_steps: 0, away_ms: 1_000 };
        let faults = steps(2 * HOUR, 2 * HOUR, run.end_ms()).map(|at_ms| TimedFault { at_ms, fault: kill });
        Setup { faults: faults.collect(), faults_end_ms: run.end_ms(), moves_once: true, ..run.setup() }
    }

    fn end_ms(self) -> i64 {
        i64::from(self.hours) * HOUR
    }

    fn setup(self) -> Setup {
        let Self { load, seed, off, .. } = self;
        let mut setup = match load {
            Load::Steady | Load::Daily => Setup::with_pools(seed, (1, 1), off, Vec::new(), vec![daily_pool()]),
            Load::Drift => {
                let changed = |at_ms| TimedFault { at_ms, fault: Fault::TemplateChanged { cluster: 0 } };
                let changes =
                    steps(2 * HOUR, TEMPLATE_STEP_MS, self.end_ms() - WINDOW_BOUND.get()).map(changed).collect();
                Setup::disrupted(seed, 1, off, changes, [Permission::OneNode, Permission::AtNight], None)
            }
        };
        *setup.cloud.faults_mut() = FaultProfile { seed, ..FaultProfile::default() };
        if load != Load::Drift {
            setup.scale_events =
                workloads().into_iter().flat_map(|(workload, most)| self.scale(&workload, most)).collect();
        }
        setup
    }

    /// The scale events of a workload with `most` pods at the peak.
    fn scale(self, workload: &Workload, most: usize) -> Vec<(i64, usize, Workload, usize)> {
        let at = |at_ms: i64| {
            let replicas = if self.load == Load::Daily { by_day(at_ms, most) } else { most };
            (at_ms, 0, workload.clone(), replicas)
        };
        let last = if self.load == Load::Daily { self.end_ms() } else { 0 };
        steps(0, LOAD_STEP_MS, last).map(at).collect()
    }
}

/// The NodePool of loads without drift.
fn daily_pool() -> PoolRecord {
    let mut record = pool(&catalogue(), Resources::new());
    record.disruption.expire_after = None;
    record
}

/// `first`, and every further `step` until `last`.
fn steps(first: i64, step: i64, last: i64) -> impl Iterator<Item = i64> {
    std::iter::successors(Some(first), move |at| Some(at + step)).take_while(move |at| *at <= last)
}

/// Pods at a time of day: `most` at 16:00, 30 % of them at 04:00, and a sine in between.
fn by_day(at_ms: i64, most: usize) -> usize {
    let hour = (at_ms % (24 * HOUR)) as f64 / HOUR as f64;
    let share = 0.65 - 0.35 * ((hour - 4.0) / 24.0 * std::f64::consts::TAU).cos();
    // The share is between 0.3 and 1.
    (most as f64 * share).round() as usize
}

/// 30 vCPU of pods in three sizes, at the peak; a share of them requires on-demand capacity.
fn workloads() -> [(Workload, usize); 3] {
    [
        (workload("web", 250, GIB / 2, None), 40),
        (workload("api", 500, GIB, Some("on-demand")), 20),
        (workload("worker", 1_000, 2 * GIB, None), 10),
    ]
}

/// What is counted on the way.
#[derive(Debug, Default)]
struct Watch {
    sampled: Option<Timestamp>,
    pods: Option<(usize, usize)>,
    machines: Option<(usize, usize)>,
    pod_samples: usize,
    samples: usize,
    /// Drifted NodeClaims that exist, and those that are gone.
    drifted: BTreeSet<ClaimName>,
    replaced: usize,
    drifted_for: BTreeMap<PoolName, Millis>,
}

impl Watch {
    fn sample(&mut self, simulation: &Simulation, now: Timestamp) {
        self.sampled = Some(now);
        let Some(sim_cluster) = simulation.sim_clusters.first() else { return };
        let pods = sim_cluster.cluster.pods().filter(|pod| pod.daemon.is_none() && !pod.terminating).count();
        let machines = simulation.events.environment.cloud().ledger().active().count();
        let widen = |range: Option<(usize, usize)>, value: usize| {
            range.map_or((value, value), |(least, most)| (least.min(value), most.max(value)))
        };
        if now >= FIRST_HOUR {
            self.pods = Some(widen(self.pods, pods));
            (self.samples, self.pod_samples) = (self.samples + 1, self.pod_samples + pods);
        }
        if now >= FIRST_DAY {
            self.machines = Some(widen(self.machines, machines));
        }
        let drifted = || sim_cluster.cluster.claims().filter(|claim| sim_cluster.has_drifted(&claim.name));
        let names: BTreeSet<ClaimName> = drifted().map(|claim| claim.name.clone()).collect();
        self.replaced += self.drifted.difference(&names).count();
        self.drifted = names;
        let since = sim_cluster.ledger.templates_changed.unwrap_or(now);
        for claim in drifted() {
            let longest = self.drifted_for.entry(claim.pool.clone()).or_default();
            *longest = (*longest).max(now.duration_since(since));
        }
    }

    fn figures(self, simulation: &Simulation) -> LongRunReport {
        let moves: Vec<(Timestamp, usize)> =
            simulation.sim_clusters.iter().flat_map(|sim_cluster| sim_cluster.cluster.ledger().moves.clone()).collect();
        let late = || moves.iter().filter(|(at, _)| *at >= FIRST_HOUR);
        let ran = simulation.events.now();
        let days = ran.duration_since(FIRST_HOUR).get().max(1) as f64 / (24 * HOUR) as f64;
        // The ledger is locked by each of its readers until the end of their statement.
        let spent = simulation.events.environment.cloud().ledger().spent(ran);
        let mean_pods = self.pod_samples as f64 / self.samples.max(1) as f64;
        LongRunReport {
            hours: ran.as_millis() / HOUR,
            pods: self.pods.unwrap_or_default(),
            machines: self.machines.unwrap_or_default(),
            launched: simulation.events.environment.cloud().ledger().launched_count(),
            moves: moves.len(),
            moves_after_first_hour: late().count(),
            moves_per_pod_and_day: late().count() as f64 / (days * mean_pods).max(1.0),
            most_moves_in_a_day: late().map(|(_, of_day)| *of_day).max().unwrap_or(0),
            bound_per_day: None,
            cost_per_day: per_day(spent, ran),
            charged: CostParts::default(),
            billed: spent,
            stored: StoredCosts::default(),
            billed_until_stored: MicroUsd(0),
            replaced: self.replaced,
            drifted_for: self.drifted_for,
            violations: simulation.violations.iter().map(ToString::to_string).collect(),
        }
    }
}

/// The mean over the days until `ran`.
fn per_day(spent: MicroUsd, ran: Timestamp) -> MicroUsd {
    MicroUsd((spent.0 as f64 * (24 * HOUR) as f64 / ran.as_millis().max(1) as f64) as i64)
}

impl LongRunReport {
    /// What the machines cost by the observations of the server.
    #[must_use]
    pub fn charged_in_all(&self) -> MicroUsd {
        MicroUsd(self.charged.total())
    }

    /// The bounds of `load` that are exceeded, and the violated invariants, one sentence each.
    #[must_use]
    pub fn exceeded(&self, load: Load) -> Vec<String> {
        let mut exceeded = self.violations.clone();
        let stored = self.stored.total();
        let bills = [("charged", self.charged_in_all(), self.billed), ("stored", stored, self.billed_until_stored)];
        for (what, charged, billed) in bills {
            if charged.0.abs_diff(billed.0) > billed.0.unsigned_abs() / BILL_TOLERANCE {
                exceeded.push(format!("${charged} are {what} and ${billed} billed: they differ by more than 0.1 %"));
            }
        }
        if self.stored.overlaps > 0 {
            exceeded.push(format!("{} stored costs begin before the ones before end", self.stored.overlaps));
        }
        for saved in [self.stored.realised, self.stored.overtaken] {
            if saved.realised.max(saved.predicted) > saved.removed {
                let (saved, removed) = (saved.realised.max(saved.predicted), saved.removed);
                exceeded.push(format!("${saved} are saved by the removal of machines that would have cost ${removed}"));
            }
        }
        match load {
            Load::Steady if self.moves_after_first_hour > 0 => {
                exceeded.push(format!("{} moves after the first hour of a steady load", self.moves_after_first_hour));
            }
            Load::Steady => {}
            Load::Daily => {
                if self.moves_per_pod_and_day > 1.0 {
                    exceeded.push(format!("{:.2} moves a pod and day, more than one", self.moves_per_pod_and_day));
                }
                if self.most_moves_in_a_day > 1 {
                    exceeded.push(format!("{} moves of one pod within 24 h, more than one", self.most_moves_in_a_day));
                }
                let (least, most) = self.machines;
                if least * 100 > most * NIGHT_PERCENT {
                    exceeded.push(format!("{least} machines at least, more than {NIGHT_PERCENT} % of {most}"));
                }
            }
            Load::Drift => {
                if self.replaced == 0 {
                    exceeded.push("no drifted node was replaced".to_owned());
                }
                for (pool, longest) in &self.drifted_for {
                    let bound = if pool.as_ref() == "default" { DRIFT_BOUND } else { WINDOW_BOUND };
                    if *longest > bound {
                        let (longest, bound) = (longest.as_mins(), bound.as_mins());
                        exceeded.push(format!("a node of {pool} was drifted for {longest} min, more than {bound}"));
                    }
                }
            }
        }
        exceeded
    }
}
