//! Exact amounts of named resources.
//!
//! Units are fixed by the name: `cpu` counts millicores, `memory`, `ephemeral-storage` and `hugepages-*` count bytes,
//! everything else (pods, devices, attachable volumes) counts pieces.

use std::collections::BTreeMap;

use super::Text;

/// The name of a resource, as Kubernetes spells it.
pub type ResourceName = Text;

/// `cpu`, in millicores.
pub const CPU: &str = "cpu";
/// `memory`, in bytes.
pub const MEMORY: &str = "memory";
/// `pods`, in pieces. Every pod consumes one.
pub const PODS: &str = "pods";
/// `ephemeral-storage`, in bytes.
pub const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
/// `nodes`, the pseudo-resource that a NodePool's limits may name; in pieces.
pub const NODES: &str = "nodes";
/// Prefix of the per-driver attach limits, as Kubernetes has named them; in volumes.
pub const ATTACHABLE_VOLUMES_PREFIX: &str = "attachable-volumes-";
/// Prefix of huge pages, in bytes.
pub const HUGEPAGES_PREFIX: &str = "hugepages-";

/// Whether amounts of `name` are written with byte suffixes.
#[must_use]
pub fn counts_bytes(name: &str) -> bool {
    name == MEMORY || name == EPHEMERAL_STORAGE || name.starts_with(HUGEPAGES_PREFIX)
}

/// Amounts by resource name. A missing name means zero. Iteration is by name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct Resources(BTreeMap<ResourceName, i64>);

impl Resources {
    /// No resources at all.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The amount of `name`, zero when it is not named.
    #[must_use]
    pub fn get(&self, name: &str) -> i64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    /// Whether `name` is named, if only with zero.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Sets the amount of `name`.
    pub fn set(&mut self, name: impl Into<ResourceName>, amount: i64) {
        self.0.insert(name.into(), amount);
    }

    /// Forgets `name` and returns its amount.
    pub fn remove(&mut self, name: &str) -> Option<i64> {
        self.0.remove(name)
    }

    /// Adds `other` to `self`, name by name, saturating at the ends of `i64`.
    pub fn add(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            let slot = self.0.entry(name.clone()).or_insert(0);
            *slot = slot.saturating_add(*amount);
        }
    }

    /// Takes `other` from `self`, name by name; amounts may become negative.
    pub fn subtract(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            let slot = self.0.entry(name.clone()).or_insert(0);
            *slot = slot.saturating_sub(*amount);
        }
    }

    /// Raises every amount of `self` to at least that of `other`.
    pub fn raise_to(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            let slot = self.0.entry(name.clone()).or_insert(*amount);
            *slot = (*slot).max(*amount);
        }
    }

    /// Whether every amount asked for is there. Resources that `self` does not ask for play no part, even when `room`
    /// is negative in them (a deliberate difference from Karpenter, where one negative amount bars everything: L31).
    #[must_use]
    pub fn fits(&self, room: &Self) -> bool {
        self.0.iter().all(|(name, amount)| *amount <= 0 || *amount <= room.get(name))
    }

    /// Names and amounts, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&ResourceName, i64)> {
        self.0.iter().map(|(name, amount)| (name, *amount))
    }

    /// Whether nothing is named.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<N: Into<ResourceName>> FromIterator<(N, i64)> for Resources {
    fn from_iter<I: IntoIterator<Item = (N, i64)>>(amounts: I) -> Self {
        Self(amounts.into_iter().map(|(name, amount)| (name.into(), amount)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_negative_amount_bars_only_those_who_ask_for_it() {
        let room = Resources::from_iter([(CPU, 1000), ("example.com/odd", -1)]);
        assert!(Resources::from_iter([(CPU, 1000)]).fits(&room));
        assert!(!Resources::from_iter([(CPU, 10), ("example.com/odd", 1)]).fits(&room));
        assert!(Resources::from_iter([(CPU, 10), ("example.com/odd", 0)]).fits(&room));
    }

    #[test]
    fn amounts_add_and_subtract_by_name() {
        let mut sum = Resources::from_iter([(CPU, 100)]);
        sum.add(&Resources::from_iter([(CPU, 50), (MEMORY, 7)]));
        assert_eq!(sum, Resources::from_iter([(CPU, 150), (MEMORY, 7)]));
        sum.subtract(&Resources::from_iter([(CPU, 200)]));
        assert_eq!(sum.get(CPU), -50);
        assert_eq!(sum.get("absent"), 0);
    }
}
