//! Selection of machines that are older than they may be.

use super::facts::MachineNames;
use super::result::Selection;
use crate::Removal;
use model::{Millis, Text, Timestamp};

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExpiringMachines {
    pub machines: Vec<ExpiringMachine>,
}

/// A launched machine that stays so far, and what it expires by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpiringMachine {
    pub machine: MachineNames,
    /// `metadata.uid` of its NodeClaim, by which its part of the jitter is found.
    pub uid: Text,
    /// When its NodeClaim was created.
    pub created: Timestamp,
    /// `spec.expireAfter` of its NodeClaim.
    pub expire_after: Millis,
    /// `fleetwright.dev/expire-jitter` of its NodePool.
    pub jitter: Option<Millis>,
}

impl ExpiringMachines {
    pub(super) fn select(&self, now: Timestamp) -> Selection {
        let (mut expired, later): (Vec<_>, Vec<_>) = self.machines.iter().partition(|one| one.expiry() <= now);
        // The oldest first: guardrails may hold the others.
        expired.sort_by_key(|one| (one.expiry(), &one.machine.claim));
        Selection {
            removals: expired.into_iter().map(ExpiringMachine::removal).collect(),
            next_check: later.into_iter().map(ExpiringMachine::expiry).min(),
            ..Selection::default()
        }
    }
}

impl ExpiringMachine {
    pub(crate) fn expiry(&self) -> Timestamp {
        self.created + (self.expire_after - self.advance())
    }

    /// How much earlier than by its `expireAfter` the machine expires: a part of the jitter of its NodePool,
    /// and less than half of its lifetime, so that no machine expires soon after its launch.
    fn advance(&self) -> Millis {
        let Some(jitter) = self.jitter else { return Millis::ZERO };
        let range = jitter.get().min(self.expire_after.get() / 2).max(0).unsigned_abs();
        let part = hash(&self.uid).checked_rem(range).unwrap_or(0);
        Millis::new(i64::try_from(part).unwrap_or(0))
    }

    fn removal(&self) -> Removal {
        let MachineNames { claim, pool, .. } = &self.machine;
        let (lifetime, earlier) = (self.expire_after.as_secs(), self.advance().as_secs());
        let jitter = match earlier {
            0 => String::new(),
            earlier => format!(" less {earlier} s of the expire-jitter of NodePool {pool}"),
        };
        self.machine.removal(format!("NodeClaim {claim} is older than {lifetime} s, its expireAfter{jitter}"))
    }
}

/// FNV-1a, 64 bits. It must be equal in every version of the program.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors of the algorithm's authors.
    #[test]
    fn the_hash_is_fnv_1a() {
        assert_eq!(
            ["", "a", "foobar"].map(hash),
            [0xcbf2_9ce4_8422_2325, 0xaf63_dc4c_8601_ec8c, 0x8594_4171_f739_67e8]
        );
    }
}
