//! `minValues`: the number of distinct label values among the launch options (Karpenter core §2.6).
//!
//! Values are numbered once per pool, so that counting them compares no strings.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use super::bit_set::BitSet;
use model::{NodePool, Requirement, Text};

/// The values of one label with `minValues` on the instance types of a pool.
#[derive(Debug)]
pub(super) struct MinValuesRule {
    least: usize,
    distinct: usize,
    /// For each type, its allowed values, by number.
    values: Vec<SmallVec<[u16; 1]>>,
}

impl MinValuesRule {
    /// One per requirement of `pool` that has `minValues`.
    pub(super) fn of(pool: &NodePool) -> Vec<Self> {
        let rule = |requirement: &Requirement| {
            Some(Self::of_requirement(pool, requirement, requirement.min_values()? as usize))
        };
        pool.requirements.iter().filter_map(rule).collect()
    }

    fn of_requirement(pool: &NodePool, requirement: &Requirement, least: usize) -> Self {
        let mut numbers: BTreeMap<&Text, u16> = BTreeMap::new();
        let mut values = Vec::with_capacity(pool.catalogue.types.len());
        for kind in &pool.catalogue.types {
            let known = kind.labels.get(requirement.key()).and_then(Requirement::finite_values);
            let allowed = known.into_iter().flatten().filter(|value| requirement.has(value));
            let number = |value| {
                let next = u16::try_from(numbers.len()).unwrap_or(u16::MAX);
                *numbers.entry(value).or_insert(next)
            };
            values.push(allowed.map(number).collect());
        }
        Self { least, distinct: numbers.len(), values }
    }

    /// Whether all types together have enough values.
    pub(super) fn is_possible(&self) -> bool {
        self.distinct >= self.least
    }

    /// The cheapest additions that reach the required number of values: the positions in `order` of
    /// types that add a value to those of `chosen`, until there are enough.
    pub(super) fn missing(&self, order: &[usize], chosen: impl Iterator<Item = usize>) -> Vec<usize> {
        let mut seen = self.no_values();
        let mut have: usize = chosen.map(|instance_type| self.add_values(instance_type, &mut seen)).sum();
        let mut added = Vec::new();
        for (place, instance_type) in order.iter().enumerate() {
            if have >= self.least {
                break;
            }
            let more = self.add_values(*instance_type, &mut seen);
            if more > 0 {
                have += more;
                added.push(place);
            }
        }
        added
    }

    /// Whether `types` (types by index) have enough values.
    pub(super) fn is_met_by(&self, types: &[usize]) -> bool {
        let mut seen = self.no_values();
        types.iter().map(|instance_type| self.add_values(*instance_type, &mut seen)).sum::<usize>() >= self.least
    }

    fn no_values(&self) -> BitSet {
        BitSet::empty(self.distinct)
    }

    /// Adds the values of type `instance_type` to `seen`; returns how many are new.
    fn add_values(&self, instance_type: usize, seen: &mut BitSet) -> usize {
        let new = |value: &&u16| !seen.contains(usize::from(**value));
        let count = self.values[instance_type].iter().filter(new).count();
        self.values[instance_type].iter().for_each(|value| seen.insert(usize::from(*value)));
        count
    }
}

/// Computes how many pods a machine may carry so that the types that hold as many still have enough
/// values.
pub(super) struct MinValuesCount<'v> {
    min_values_rules: &'v [MinValuesRule],
    most: u32,
    /// For each rule and value, the pods that some type with the value holds.
    held: Vec<Vec<u32>>,
    /// For each rule, the number of values of which some type holds `most`.
    full: Vec<usize>,
}

impl<'v> MinValuesCount<'v> {
    /// No type is added yet; `most` is the number of pods to place.
    pub(super) fn new(min_values_rules: &'v [MinValuesRule], most: u32) -> Self {
        let held = min_values_rules.iter().map(|rule| vec![0; rule.distinct]).collect();
        Self { min_values_rules, most, held, full: vec![0; min_values_rules.len()] }
    }

    /// Adds type `instance_type`, which holds `count` pods.
    pub(super) fn add_type(&mut self, instance_type: usize, count: u32) {
        for ((rule, held), full) in self.min_values_rules.iter().zip(&mut self.held).zip(&mut self.full) {
            for value in &rule.values[instance_type] {
                let known = &mut held[usize::from(*value)];
                *full += usize::from(*known < self.most && count >= self.most);
                *known = (*known).max(count);
            }
        }
    }

    /// Whether `most` pods are known to be allowed, so that no further type matters.
    pub(super) fn is_met(&self) -> bool {
        self.min_values_rules.iter().zip(&self.full).all(|(rule, full)| *full >= rule.least)
    }

    /// The number of pods that the machine may carry.
    pub(super) fn max_pods(mut self) -> u32 {
        let mut allowed = self.most;
        for (rule, held) in self.min_values_rules.iter().zip(&mut self.held) {
            let Some(place) = rule.least.checked_sub(1) else { continue };
            if place >= held.len() {
                return 0;
            }
            let (_, least, _) = held.select_nth_unstable_by(place, |a, b| b.cmp(a));
            allowed = allowed.min(*least);
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::pool;
    use model::offering::SharedCatalogue;
    use model::{Catalogue, InstanceType, InstanceTypeName, Operator, Requirements, Resources};

    const FAMILY: &str = "family";

    /// A pool with types of these families that requires `least` values and excludes `z`.
    fn of(families: &[&str], least: u32) -> MinValuesRule {
        let kind = |family: &&str| InstanceType {
            name: InstanceTypeName::from(*family),
            labels: Requirements::from_iter([Requirement::equals(FAMILY, Text::from(*family))]).into(),
            capacity: Resources::new(),
            allocatable: Resources::new(),
            exotic: false,
            burstable: None,
            offerings: Vec::new(),
        };
        let mut pool = pool();
        let types = families.iter().map(kind).collect();
        pool.catalogue = SharedCatalogue::new(Catalogue { types, offering_keys: Vec::new() });
        let wanted = Requirement::new(FAMILY, Operator::NotIn, [Text::from("z")]).with_min_values(Some(least));
        pool.requirements = Requirements::from_iter([wanted]);
        MinValuesRule::of(&pool).remove(0)
    }

    #[test]
    fn values_count_once_and_only_when_they_are_allowed() {
        let rule = of(&["a", "a", "b", "z"], 2);
        assert!(rule.is_met_by(&[0, 2]) && rule.is_met_by(&[0, 1, 2, 3]));
        assert!(!rule.is_met_by(&[0, 1, 3]), "a counts once, z is excluded");
    }

    #[test]
    fn the_first_types_with_a_new_value_are_added() {
        let rule = of(&["a", "a", "b", "c"], 3);
        // Type 1 is chosen: of the order 0, 3, 2 the first adds no value, the others complete three
        // values.
        assert_eq!(rule.missing(&[0, 3, 2], [1].into_iter()), [1, 2]);
        assert_eq!(rule.missing(&[0, 3, 2], [1, 2, 3].into_iter()), [0; 0]);
    }

    #[test]
    fn the_pod_count_leaves_enough_values() {
        let allowed = |least: u32, held: &[u32]| {
            let rule = of(&["a", "a", "b", "c"], least);
            let min_values_rules = [rule];
            let mut counter = MinValuesCount::new(&min_values_rules, 10);
            held.iter().enumerate().for_each(|(instance_type, count)| counter.add_type(instance_type, *count));
            (counter.is_met(), counter.max_pods())
        };
        // a holds 9 (its larger type), b 4, c 6: one value holds 9, two hold 6, three hold 4; there
        // are no four.
        assert_eq!(allowed(1, &[3, 9, 4, 6]), (false, 9));
        assert_eq!(allowed(2, &[3, 9, 4, 6]), (false, 6));
        assert_eq!(allowed(3, &[3, 9, 4, 6]), (false, 4));
        assert_eq!(allowed(4, &[3, 9, 4, 6]), (false, 0));
        assert_eq!(allowed(2, &[10, 10, 12, 1]), (true, 10), "two values hold all 10 pods");
    }
}
