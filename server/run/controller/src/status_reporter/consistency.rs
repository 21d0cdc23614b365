//! Whether the Nodes of initialized machines have the resources that their NodeClaims promised (Karpenter:
//! consistency). A condition and an Event say so, and nothing else follows from it.

use std::collections::BTreeMap;

use crate::status::{Condition, ConditionStatus};
use cluster::condition_digest::CONSISTENT;
use cluster::{ClaimRecord, NodeRecord};
use model::{ClaimName, Millis, Text, Timestamp};

/// Minimum time between two checks of a NodeClaim (Karpenter: consistency).
const PERIOD: Millis = Millis::from_mins(10);
/// A Node has so many percent of each resource that was promised at least (Karpenter: consistency, 0.90).
const LEAST_PERCENT: i128 = 90;

/// The last check of each NodeClaim.
#[derive(Debug, Default)]
pub(super) struct Consistency {
    checks: BTreeMap<ClaimName, Check>,
    /// NodeClaims that failed a check for which no Event is recorded yet, and why.
    failed: Vec<(ClaimName, Text)>,
    /// When a NodeClaim may be checked whose Node has changed since its last check.
    next_due: Option<Timestamp>,
}

#[derive(Debug)]
struct Check {
    at: Timestamp,
    /// What the Node lacks, as a sentence.
    lack: Option<Text>,
}

impl Consistency {
    /// Begins the checks of all initialized machines.
    pub fn begin(&mut self) {
        self.next_due = None;
    }

    /// Checks an initialized machine, unless its last check was less than ten minutes ago.
    pub fn check(&mut self, claim: &ClaimRecord, node: &NodeRecord, now: Timestamp) {
        let lack = lack_of(claim, node);
        if let Some(last) = self.checks.get(&claim.name)
            && last.at + PERIOD > now
        {
            if last.lack != lack {
                let due = last.at + PERIOD;
                self.next_due = Some(self.next_due.map_or(due, |next| next.min(due)));
            }
            return;
        }
        self.failed.extend(lack.clone().map(|why| (claim.name.clone(), why)));
        self.checks.insert(claim.name.clone(), Check { at: now, lack });
    }

    /// Forgets NodeClaims for which `stays` is false.
    pub fn retain(&mut self, stays: impl Fn(&ClaimName) -> bool) {
        self.checks.retain(|claim, _| stays(claim));
    }

    pub fn contains(&self, claim: &ClaimName) -> bool {
        self.checks.contains_key(claim)
    }

    /// The condition `ConsistentStateFound`; `None` before the first check.
    pub fn condition(&self, claim: &ClaimName) -> Option<Condition> {
        Some(match &self.checks.get(claim)?.lack {
            None => Condition::met(CONSISTENT, 0),
            Some(why) => Condition::unmet(CONSISTENT, ConditionStatus::False, "ConsistencyCheckFailed", why.clone(), 0),
        })
    }

    /// NodeClaims that have failed a check since the last call, and why.
    pub fn take_failed(&mut self) -> Vec<(ClaimName, Text)> {
        std::mem::take(&mut self.failed)
    }

    /// When the next check is due of a Node that has changed.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.next_due
    }
}

/// The first requested resource of which the Node has less than 90 % of what was promised.
fn lack_of(claim: &ClaimRecord, node: &NodeRecord) -> Option<Text> {
    let lacks = |(name, requested): (&Text, i64)| {
        let promised = i128::from(claim.capacity.get(name));
        let percent = i128::from(node.capacity.get(name)) * 100 / promised.max(1);
        (requested != 0 && promised > 0 && percent < LEAST_PERCENT).then(|| {
            Text::from(format!("Node {} has {percent} % of the {name} that its NodeClaim promised", node.name))
        })
    };
    claim.requests.iter().find_map(lacks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::testing::{claim, node};
    use model::Resources;

    /// A NodeClaim that requests CPU, of which 2,000 millicores were promised, and its Node with `cpu` of them.
    fn machine(cpu: i64) -> (ClaimRecord, NodeRecord) {
        let requests = Resources::from_iter([("cpu", 500)]);
        let capacity = Resources::from_iter([("cpu", cpu), ("pods", 1)]);
        (ClaimRecord { requests, ..claim("m0") }, NodeRecord { capacity, ..node("m0") })
    }

    /// The message of the condition; empty if it is True.
    fn message(checks: &Consistency) -> String {
        let condition = checks.condition(&"m0".into()).unwrap();
        assert_eq!(condition.status == ConditionStatus::True, condition.reason.as_ref() == CONSISTENT);
        condition.message.to_string()
    }

    fn at(minutes: i64) -> Timestamp {
        Timestamp::default() + Millis::from_mins(minutes)
    }

    #[test]
    fn a_node_with_less_than_nine_tenths_of_a_requested_resource_fails() {
        // 1,799 of 2,000 are 89.95 %. The Node has 1 of 20 promised pods, which nobody requests.
        for (cpu, says) in
            [(2_000, ""), (1_800, ""), (1_799, "Node n-m0 has 89 % of the cpu that its NodeClaim promised")]
        {
            let (mut checks, (claim, node)) = (Consistency::default(), machine(cpu));
            checks.check(&claim, &node, at(0));
            assert_eq!(message(&checks), says);
            assert_eq!(checks.take_failed().len(), usize::from(!says.is_empty()));
            assert_eq!(checks.take_failed(), []);
        }
    }

    #[test]
    fn a_claim_is_checked_again_after_ten_minutes_if_its_node_has_changed() {
        let mut checks = Consistency::default();
        let ((claim, small), (_, whole)) = (machine(1_000), machine(2_000));
        checks.check(&claim, &whole, at(0));
        checks.check(&claim, &small, at(9));
        assert_eq!((message(&checks), checks.next_due()), (String::new(), Some(at(10))));
        checks.begin();
        checks.check(&claim, &small, at(10));
        assert!(message(&checks).contains("50 %"));
        assert_eq!(checks.next_due(), None);
        checks.retain(|_| false);
        assert_eq!(checks.condition(&"m0".into()), None);
    }
}
