//! Records of a decision to remove machines by a disruption method: what the method selected from, and what the
//! verifier judged the rest by.
//!
//! Each machine and NodePool is a record, so that a decision adds what has changed since the one of the same method
//! before. Machines that are counted by NodePool follow that of their pool.

use std::collections::BTreeMap;

use controller::disruption::selection::{
    EmptyMachines, ExpiringMachines, OutgoingMachines, RankedMachine, RemovalCheck, SelectionFacts, SelectionInput,
    SurplusMachines, SurplusPool, UnhealthyMachine, UnhealthyMachines, UnhealthyPool,
};
use model::removal::{RemovalInput, RemovalNode, RemovalPlan, RemovalReason};
use model::{PoolName, Timestamp};

use super::RecordWriter;
use crate::codec::{Codec, DecodeError, FORM, Reader};
use crate::content;
use crate::delta::{Record, RecordHash};

/// Record types: the first byte of a record.
mod tag {
    pub(super) const HEAD: u8 = b'H';
    pub(super) const MACHINE: u8 = b'M';
    pub(super) const POOL: u8 = b'O';
    pub(super) const LIMITS: u8 = b'L';
    pub(super) const CHECK: u8 = b'C';
    pub(super) const CHECKED_NODE: u8 = b'N';
}

/// Digest of everything that a method selects from and that the verifier judges by.
pub(crate) fn digest(now: Timestamp, hashes: &[RecordHash]) -> [u8; 32] {
    let head = [b"fleetwright removals ", &[FORM][..], &now.as_millis().to_be_bytes()].concat();
    content::hash_all(std::iter::once(head.as_slice()).chain(hashes.iter().map(|hash| hash.as_slice())))
}

/// Encodes `input` and `check` without the time of the decision, which is in its row.
pub(crate) fn write(input: &SelectionInput, check: &RemovalCheck) -> Vec<Record> {
    let mut writer = RecordWriter::default();
    let SelectionInput { reason, now: _, later, facts } = input;
    writer.begin(tag::HEAD, |out| {
        reason.put(out);
        later.put(out);
        kind_of(facts).put(out);
    });
    writer.facts(facts);
    writer.check(check);
    writer.records
}

/// The number of a kind of facts.
fn kind_of(facts: &SelectionFacts) -> u8 {
    match facts {
        SelectionFacts::Announced(_) => 0,
        SelectionFacts::Expiring(_) => 1,
        SelectionFacts::Surplus(_) => 2,
        SelectionFacts::Unhealthy(_) => 3,
        SelectionFacts::Empty(_) => 4,
        SelectionFacts::Outgoing(_) => 5,
        SelectionFacts::Consolidated(_) => 6,
    }
}

fn none_of_kind(kind: u8) -> Result<SelectionFacts, DecodeError> {
    Ok(match kind {
        0 => SelectionFacts::Announced(Vec::new()),
        1 => SelectionFacts::Expiring(ExpiringMachines::default()),
        2 => SelectionFacts::Surplus(SurplusMachines::default()),
        3 => SelectionFacts::Unhealthy(UnhealthyMachines::default()),
        4 => SelectionFacts::Empty(EmptyMachines::default()),
        5 => SelectionFacts::Outgoing(OutgoingMachines::default()),
        6 => SelectionFacts::Consolidated(OutgoingMachines::default()),
        _ => return Err(DecodeError("a method that this program knows")),
    })
}

impl RecordWriter {
    // Destructured, so that a new field does not compile until it is encoded.
    fn facts(&mut self, facts: &SelectionFacts) {
        match facts {
            SelectionFacts::Announced(machines) => self.machines(machines),
            SelectionFacts::Expiring(ExpiringMachines { machines }) => self.machines(machines),
            SelectionFacts::Surplus(SurplusMachines { pools }) => {
                for (name, SurplusPool { replicas, machines }) in pools {
                    self.pool_facts(name, replicas);
                    self.machines(machines);
                }
            }
            SelectionFacts::Unhealthy(UnhealthyMachines { pools }) => {
                for (name, UnhealthyPool { nodes, machines }) in pools {
                    self.pool_facts(name, nodes);
                    self.machines(machines);
                }
            }
            SelectionFacts::Empty(EmptyMachines { machines, pools, cluster }) => {
                pools.iter().for_each(|(name, pool)| self.pool_facts(name, pool));
                self.machines(machines);
                self.begin(tag::LIMITS, |out| cluster.put(out));
            }
            SelectionFacts::Outgoing(facts) | SelectionFacts::Consolidated(facts) => {
                let OutgoingMachines { machines, pools, cluster, limits } = facts;
                pools.iter().for_each(|(name, pool)| self.pool_facts(name, pool));
                self.machines(machines);
                self.begin(tag::LIMITS, |out| {
                    cluster.put(out);
                    limits.put(out);
                });
            }
        }
    }

    fn machines<T: Codec>(&mut self, machines: &[T]) {
        machines.iter().for_each(|machine| self.begin(tag::MACHINE, |out| machine.put(out)));
    }

    fn pool_facts<T: Codec>(&mut self, name: &PoolName, pool: &T) {
        self.begin(tag::POOL, |out| {
            name.put(out);
            pool.put(out);
        });
    }

    fn check(&mut self, check: &RemovalCheck) {
        let RemovalCheck { input, plan } = check;
        let RemovalInput { now, pools, cluster_budget, nodes, pod_budgets, elsewhere, destinations, opt_in } = input;
        self.begin(tag::CHECK, |out| {
            // Without removals there is nothing to judge, and no time.
            (*now != Timestamp::default()).put(out);
            pools.put(out);
            cluster_budget.put(out);
            pod_budgets.put(out);
            elsewhere.put(out);
            destinations.put(out);
            plan.put(out);
            // Records of earlier releases end here.
            if !opt_in.is_empty() {
                opt_in.put(out);
            }
        });
        nodes.iter().for_each(|node| self.begin(tag::CHECKED_NODE, |out| node.put(out)));
    }
}

/// Decodes `records` of a decision of `now`.
///
/// # Errors
/// When a record is invalid.
pub(crate) fn read(records: &[Record], now: Timestamp) -> Result<(SelectionInput, RemovalCheck), DecodeError> {
    let (head, rest) = records.split_first().ok_or(DecodeError("a record"))?;
    let mut from = body(head, tag::HEAD)?;
    let (reason, later) = (RemovalReason::get(&mut from)?, Codec::get(&mut from)?);
    let mut reader = RemovalReader { facts: none_of_kind(u8::get(&mut from)?)?, check: RemovalCheck::default(), now };
    from.end()?;
    for record in rest {
        let (tag, bytes) = record.split_first().ok_or(DecodeError("a record"))?;
        let mut from = Reader::new(bytes);
        reader.take(*tag, &mut from)?;
        from.end()?;
    }
    let RemovalReader { facts, check, .. } = reader;
    Ok((SelectionInput { reason, now, later, facts }, check))
}

fn body(record: &[u8], expected: u8) -> Result<Reader<'_>, DecodeError> {
    match record.split_first() {
        Some((tag, bytes)) if *tag == expected => Ok(Reader::new(bytes)),
        _ => Err(DecodeError("the first record of a removal")),
    }
}

struct RemovalReader {
    facts: SelectionFacts,
    check: RemovalCheck,
    now: Timestamp,
}

impl RemovalReader {
    fn take(&mut self, tag: u8, from: &mut Reader<'_>) -> Result<(), DecodeError> {
        match tag {
            tag::MACHINE => self.machine(from),
            tag::POOL => self.pool(from),
            tag::LIMITS => self.limits(from),
            tag::CHECK => self.check(from),
            tag::CHECKED_NODE => {
                self.check.input.nodes.push(RemovalNode::get(from)?);
                Ok(())
            }
            _ => Err(DecodeError("a record of a kind that this program knows")),
        }
    }

    fn machine(&mut self, from: &mut Reader<'_>) -> Result<(), DecodeError> {
        const WITHOUT_POOL: DecodeError = DecodeError("a machine after its NodePool");
        match &mut self.facts {
            SelectionFacts::Announced(machines) => machines.push(Codec::get(from)?),
            SelectionFacts::Expiring(facts) => facts.machines.push(Codec::get(from)?),
            SelectionFacts::Surplus(facts) => {
                let machine = RankedMachine::get(from)?;
                last_of(&mut facts.pools).ok_or(WITHOUT_POOL)?.machines.push(machine);
            }
            SelectionFacts::Unhealthy(facts) => {
                let machine = UnhealthyMachine::get(from)?;
                last_of(&mut facts.pools).ok_or(WITHOUT_POOL)?.machines.push(machine);
            }
            SelectionFacts::Empty(facts) => facts.machines.push(Codec::get(from)?),
            SelectionFacts::Outgoing(facts) | SelectionFacts::Consolidated(facts) => {
                facts.machines.push(Codec::get(from)?);
            }
        }
        Ok(())
    }

    fn pool(&mut self, from: &mut Reader<'_>) -> Result<(), DecodeError> {
        let name = PoolName::get(from)?;
        match &mut self.facts {
            SelectionFacts::Surplus(facts) => {
                facts.pools.insert(name, SurplusPool { replicas: Codec::get(from)?, machines: Vec::new() });
            }
            SelectionFacts::Unhealthy(facts) => {
                facts.pools.insert(name, UnhealthyPool { nodes: Codec::get(from)?, machines: Vec::new() });
            }
            SelectionFacts::Empty(facts) => {
                facts.pools.insert(name, Codec::get(from)?);
            }
            SelectionFacts::Outgoing(facts) | SelectionFacts::Consolidated(facts) => {
                facts.pools.insert(name, Codec::get(from)?);
            }
            SelectionFacts::Announced(_) | SelectionFacts::Expiring(_) => {
                return Err(DecodeError("a method that reads NodePools"));
            }
        }
        Ok(())
    }

    fn limits(&mut self, from: &mut Reader<'_>) -> Result<(), DecodeError> {
        match &mut self.facts {
            SelectionFacts::Empty(facts) => facts.cluster = Codec::get(from)?,
            SelectionFacts::Outgoing(facts) | SelectionFacts::Consolidated(facts) => {
                (facts.cluster, facts.limits) = (Codec::get(from)?, Codec::get(from)?);
            }
            _ => return Err(DecodeError("a method that limits hold")),
        }
        Ok(())
    }

    fn check(&mut self, from: &mut Reader<'_>) -> Result<(), DecodeError> {
        let is_judged = bool::get(from)?;
        let now = if is_judged { self.now } else { Timestamp::default() };
        self.check.input = RemovalInput {
            now,
            pools: Codec::get(from)?,
            cluster_budget: Codec::get(from)?,
            nodes: Vec::new(),
            pod_budgets: Codec::get(from)?,
            elsewhere: Codec::get(from)?,
            destinations: Codec::get(from)?,
            opt_in: Vec::new(),
        };
        self.check.plan = RemovalPlan::get(from)?;
        if !from.is_empty() {
            self.check.input.opt_in = Codec::get(from)?;
        }
        Ok(())
    }
}

/// The pool that was read last: pools are written in the order of their names.
fn last_of<T>(pools: &mut BTreeMap<PoolName, T>) -> Option<&mut T> {
    pools.last_entry().map(std::collections::btree_map::OccupiedEntry::into_mut)
}
