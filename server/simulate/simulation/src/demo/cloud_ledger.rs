//! What the cloud's own records say at the end of a demo.

use cloud::simulated::Ledger;
use model::{ClaimName, ClusterName, MicroUsd, Timestamp};
use simulated_ec2::{Call, Outcome};

/// Code with which EC2 throttles.
const THROTTLED: &str = "RequestLimitExceeded";

/// The ledger of the cloud, and its counts of failed calls.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CloudLedger {
    pub(super) launched: usize,
    pub(super) running: usize,
    pub(super) interrupted: usize,
    pub(super) spent: MicroUsd,
    /// Launches without capacity.
    pub(super) refused: u64,
    pub(super) throttled: u64,
    pub(super) answers_lost: u64,
    /// NodeClaims with more than one launched instance.
    pub(super) launched_twice: Vec<(ClusterName, ClaimName)>,
}

impl CloudLedger {
    /// The ledger at `now`, of a cloud that was called by its own interface.
    pub(super) fn of(ledger: &Ledger, now: Timestamp) -> Self {
        Self {
            launched: ledger.launched_count(),
            running: ledger.active().count(),
            interrupted: ledger.interrupted(),
            spent: ledger.spent(now),
            refused: ledger.refused,
            throttled: ledger.throttled,
            answers_lost: ledger.answers_lost,
            launched_twice: ledger.duplicate_launches(),
        }
    }

    /// The ledger at `now` of a cloud that was called as EC2, by `calls`.
    pub(super) fn of_ec2(ledger: &Ledger, calls: &[Call], now: Timestamp) -> Self {
        let count = |is: fn(&Call) -> bool| calls.iter().filter(|call| is(call)).count() as u64;
        Self {
            refused: count(is_refused),
            throttled: count(is_throttled),
            answers_lost: count(|call| matches!(call.outcome, Outcome::Cut { .. })),
            ..Self::of(ledger, now)
        }
    }
}

/// Whether a fleet has no instance. An instant fleet without capacity is answered as a success that names its errors.
fn is_refused(call: &Call) -> bool {
    let is_success = matches!(call.outcome, Outcome::Answered { code: None, .. });
    is_success && call.fleet.as_ref().is_some_and(|fleet| fleet.instances.is_empty())
}

fn is_throttled(call: &Call) -> bool {
    matches!(&call.outcome, Outcome::Answered { code: Some(code), .. } if code == THROTTLED)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use simulated_ec2::FleetCall;

    use super::*;

    fn fleet(instances: &[&str], outcome: Outcome) -> Call {
        Call {
            number: 1,
            at_ms: 0,
            service: "ec2",
            action: "CreateFleet".to_owned(),
            caller: String::new(),
            role: None,
            session_tags: BTreeMap::new(),
            parameters: BTreeMap::new(),
            fleet: Some(FleetCall {
                client_token: None,
                total: Some(1),
                capacity_type: None,
                overrides: Vec::new(),
                tags: BTreeMap::new(),
                instances: instances.iter().map(|id| (*id).to_owned()).collect(),
            }),
            outcome,
        }
    }

    #[test]
    fn fleets_without_instances_throttled_calls_and_cut_connections_are_counted() {
        let success = || Outcome::Answered { status: 200, code: None };
        let error = |code: &str| Outcome::Answered { status: 503, code: Some(code.to_owned()) };
        let calls = [
            fleet(&["i-1"], success()),
            fleet(&[], success()),
            fleet(&[], success()),
            fleet(&[], error("RequestLimitExceeded")),
            fleet(&[], error("InternalError")),
            fleet(&[], Outcome::Cut { executed: false }),
            fleet(&["i-2"], Outcome::Cut { executed: true }),
            Call { fleet: None, action: "DescribeInstances".to_owned(), ..fleet(&[], error("RequestLimitExceeded")) },
        ];
        let ledger = CloudLedger::of_ec2(&Ledger::default(), &calls, Timestamp::default());
        assert_eq!((ledger.refused, ledger.throttled, ledger.answers_lost), (2, 2, 2));
    }
}
