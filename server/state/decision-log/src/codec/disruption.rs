//! Encodings of what a plan of disruption is made from and answers, in encoding order.

use model::cron::CronParts;
use model::disruption_plan::{
    Block, BlockCode, Command, DisruptionCosts, DisruptionPlanSettings, HeldNode, MachineAllowance,
};
use model::disruption_policy::{
    Budget, BudgetLimit, BudgetWindow, ConsolidationPolicy, DisruptionPolicy, DisruptionReason,
};
use model::removal::{DoNotDisrupt, PodBudget, RemovalPod, RemovalReason};
use model::running::{Consolidatable, RecentMove, RunningClaim, RunningDrift, RunningNode, UnhealthyNode};
use model::{ClaimName, Cron, Millis, PodKey, Text, TimeZone, Timestamp};

use super::model::{converted, fieldless_enums, fields, names};
use super::{Codec, DecodeError, Reader};

names! { ClaimName }

fieldless_enums! {
    ConsolidationPolicy { WhenEmpty = 0, WhenEmptyOrUnderutilized = 1, Balanced = 2 }
    DisruptionReason { Empty = 0, Drifted = 1, Underutilized = 2, Unhealthy = 3 }
    BlockCode {
        Budget = 0, PodDisruptionBudget = 1, DoNotDisrupt = 2, ConsolidateAfter = 3, NotInitialized = 4, Nominated = 5,
        Deleting = 6, Policy = 7, NoCapacity = 8, NoSavings = 9, MinValues = 10, SpotFlexibility = 11, PendingPods = 12,
        Static = 13, NotSynced = 14, NotManaged = 15, Frozen = 16, Shadow = 17, Guardrail = 18, BackOff = 19, Replacing = 20,
        NotPlanned = 21, RecentlyMoved = 22, OtherScheduler = 23, LocalVolume = 24, SafeToEvict = 25,
        NoOwner = 26,
    }
}

fields! {
    PodKey { namespace, name }
    PodBudget { allowed, evicts_unhealthy_always }
    // The node is the record before, and the pods are records of their own.
    RunningNode { price, do_not_disrupt, claim, recent_move } - { node: 0, pods: Vec::new() }
    RunningClaim { name, ready, consolidatable, expires, drift, unhealthy, termination_grace_period }
    RunningDrift { reason, since }
    UnhealthyNode { condition, repair_from, do_not_repair }
    RecentMove { pod, until }
    RemovalPod {
        key, workload, node_bound, terminating, ready, tolerates_drain, do_not_disrupt, started, pod_budgets,
    }
    DisruptionPolicy {
        consolidate_after, policy, budgets, windows, expire_after, expire_jitter, expire_replace_first,
        termination_grace_period,
    }
    Budget { limit, reasons, window }
    BudgetWindow { schedule, zone, duration }
    CronParts { minutes, hours, days, months, weekdays, both_days }
    DisruptionPlanSettings { min_savings, churn_price, spot_to_spot, node_repair, removals, launches }
    MachineAllowance { machines, usd_per_hour }
    Command { reason, nodes, replacements, placements, savings }
    DisruptionCosts { before, after, lower_bound }
    HeldNode { node, reason, by }
    Block { code, object, message }
}

converted! {
    Cron as CronParts: |cron| (*cron).into(), Cron::from;
    DoNotDisrupt as Option<Millis>: |of| match of {
        DoNotDisrupt::Always => None,
        DoNotDisrupt::For(time) => Some(*time),
    }, |time| time.map_or(DoNotDisrupt::Always, DoNotDisrupt::For);
    Consolidatable as Option<Timestamp>: |of| match of {
        Consolidatable::Never => None,
        Consolidatable::From(from) => Some(*from),
    }, |from| from.map_or(Consolidatable::Never, Consolidatable::From);
}

impl Codec for RemovalReason {
    fn put(&self, out: &mut Vec<u8>) {
        self.number().put(out);
    }

    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Self::of_number(u8::get(from)?).ok_or(DecodeError("RemovalReason"))
    }
}

/// Encodes a time zone as its name; its rules are those of the program that reads it.
impl Codec for TimeZone {
    fn put(&self, out: &mut Vec<u8>) {
        Text::from(self.name()).put(out);
    }

    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let name = Text::get(from)?;
        if name.as_ref() == Self::UTC.name() {
            return Ok(Self::UTC);
        }
        Self::named(&name).ok_or(DecodeError("a time zone that this program knows"))
    }
}

impl Codec for BudgetLimit {
    fn put(&self, out: &mut Vec<u8>) {
        let (kind, number): (u8, u32) = match self {
            Self::Nodes(nodes) => (0, *nodes),
            Self::Percent(percent) => (1, *percent),
            Self::Unreadable => (2, 0),
        };
        kind.put(out);
        number.put(out);
    }

    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match (u8::get(from)?, u32::get(from)?) {
            (0, nodes) => Ok(Self::Nodes(nodes)),
            (1, percent) => Ok(Self::Percent(percent)),
            (2, 0) => Ok(Self::Unreadable),
            _ => Err(DecodeError("the limit of a budget")),
        }
    }
}
