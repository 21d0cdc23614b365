//! Exact amounts of named resources.
//!
//! The name determines the unit: `cpu` in millicores; `memory`, `ephemeral-storage` and
//! `hugepages-*` in bytes; everything else (pods, devices, attachable volumes) in pieces.

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
/// `nodes`, the pseudo-resource of NodePool limits; in pieces.
pub const NODES: &str = "nodes";
/// Prefix of the attach limits per CSI driver (Kubernetes name); in volumes.
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

    /// The amount of `name`; zero if absent.
    #[must_use]
    pub fn get(&self, name: &str) -> i64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    /// Whether `name` is present, even with zero.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Sets the amount of `name`.
    pub fn set(&mut self, name: impl Into<ResourceName>, amount: i64) {
        self.0.insert(name.into(), amount);
    }

    /// Removes `name` and returns its amount.
    pub fn remove(&mut self, name: &str) -> Option<i64> {
        self.0.remove(name)
    }

    /// Adds `other` to `self`, name by name, saturating at the ends of `i64`.
    pub fn add(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            // Sums mostly have the name already, so it is looked up before it is cloned.
            match self.0.get_mut(name) {
                Some(slot) => *slot = slot.saturating_add(*amount),
                None => drop(self.0.insert(name.clone(), *amount)),
            }
        }
    }

    /// Subtracts `other` from `self`, name by name; amounts may become negative.
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

    /// Whether every requested amount is free. Resources that `self` does not request are ignored,
    /// even if negative in `free` (a deliberate difference from Karpenter, where one negative
    /// amount rejects every pod: L31).
    #[must_use]
    pub fn fits(&self, free: &Self) -> bool {
        self.0.iter().all(|(name, amount)| *amount <= 0 || *amount <= free.get(name))
    }

    /// Names and amounts, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&ResourceName, i64)> {
        self.0.iter().map(|(name, amount)| (name, *amount))
    }

    /// Whether no resource is present.
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
    fn a_negative_amount_excludes_only_pods_that_request_it() {
        let free = Resources::from_iter([(CPU, 1000), ("example.com/odd", -1)]);
        assert!(Resources::from_iter([(CPU, 1000)]).fits(&free));
        assert!(!Resources::from_iter([(CPU, 10), ("example.com/odd", 1)]).fits(&free));
        assert!(Resources::from_iter([(CPU, 10), ("example.com/odd", 0)]).fits(&free));
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
