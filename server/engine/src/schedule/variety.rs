//! How many different values of a label launch options offer: what `minValues` ask for (Karpenter core §2.6).
//!
//! Values are numbered once for each pool, so that counting them compares no strings.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use super::bits::BitSet;
use crate::model::{NodePool, Requirement, Text};

/// The values that the machines of a pool have of one label with `minValues`.
#[derive(Debug)]
pub(super) struct Variety {
    least: usize,
    distinct: usize,
    /// For each machine, the allowed values that it has, by number.
    values: Vec<SmallVec<[u16; 1]>>,
}

impl Variety {
    /// One for each requirement of `pool` that has `minValues`.
    pub(super) fn of(pool: &NodePool) -> Vec<Self> {
        let asked = |requirement: &Requirement| Some(Self::over(pool, requirement, requirement.min_values()? as usize));
        pool.requirements.iter().filter_map(asked).collect()
    }

    fn over(pool: &NodePool, requirement: &Requirement, least: usize) -> Self {
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

    /// Whether all machines together have enough values.
    pub(super) fn is_possible(&self) -> bool {
        self.distinct >= self.least
    }

    /// The cheapest way to have enough values: the machines of `order`, by place, that add one to those that `chosen`
    /// have, until there are enough.
    pub(super) fn missing(&self, order: &[usize], chosen: impl Iterator<Item = usize>) -> Vec<usize> {
        let mut seen = self.nothing();
        let mut have: usize = chosen.map(|machine| self.see(machine, &mut seen)).sum();
        let mut added = Vec::new();
        for (place, machine) in order.iter().enumerate() {
            if have >= self.least {
                break;
            }
            let more = self.see(*machine, &mut seen);
            if more > 0 {
                have += more;
                added.push(place);
            }
        }
        added
    }

    /// Whether `machines` have enough values.
    pub(super) fn holds(&self, machines: &[usize]) -> bool {
        let mut seen = self.nothing();
        machines.iter().map(|machine| self.see(*machine, &mut seen)).sum::<usize>() >= self.least
    }

    fn nothing(&self) -> BitSet {
        BitSet::empty(self.distinct)
    }

    /// Adds the values of `machine` to `seen`; returns how many are new.
    fn see(&self, machine: usize, seen: &mut BitSet) -> usize {
        let new = |value: &&u16| !seen.contains(usize::from(**value));
        let count = self.values[machine].iter().filter(new).count();
        self.values[machine].iter().for_each(|value| seen.insert(usize::from(*value)));
        count
    }
}

/// How many pods may stand on a machine so that enough values are left among the machines that hold as many.
pub(super) struct Flexibility<'v> {
    varieties: &'v [Variety],
    most: u32,
    /// For each variety, the pods that some machine with the value holds, by value.
    held: Vec<Vec<u32>>,
    /// For each variety, values of which some machine holds `most`.
    full: Vec<usize>,
}

impl<'v> Flexibility<'v> {
    /// Nothing is known to hold any pod yet; `most` pods are asked about.
    pub(super) fn new(varieties: &'v [Variety], most: u32) -> Self {
        let held = varieties.iter().map(|variety| vec![0; variety.distinct]).collect();
        Self { varieties, most, held, full: vec![0; varieties.len()] }
    }

    /// Notes that `machine` holds `count` pods.
    pub(super) fn note(&mut self, machine: usize, count: u32) {
        for ((variety, held), full) in self.varieties.iter().zip(&mut self.held).zip(&mut self.full) {
            for value in &variety.values[machine] {
                let known = &mut held[usize::from(*value)];
                *full += usize::from(*known < self.most && count >= self.most);
                *known = (*known).max(count);
            }
        }
    }

    /// Whether `most` pods are known to be allowed, so that no further machine matters.
    pub(super) fn is_full(&self) -> bool {
        self.varieties.iter().zip(&self.full).all(|(variety, full)| *full >= variety.least)
    }

    /// The pods that may stand on a machine.
    pub(super) fn allowed(mut self) -> u32 {
        let mut allowed = self.most;
        for (variety, held) in self.varieties.iter().zip(&mut self.held) {
            let Some(place) = variety.least.checked_sub(1) else { continue };
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
    use crate::cluster::testing::pool;
    use crate::model::offering::SharedCatalogue;
    use crate::model::{Catalogue, InstanceType, Operator, Requirements, Resources};

    const FAMILY: &str = "family";

    /// A pool whose machines are of these families, of which it wants `least`; `z` it refuses.
    fn of(families: &[&str], least: u32) -> Variety {
        let kind = |family: &&str| InstanceType {
            name: Text::from(*family),
            labels: Requirements::from_iter([Requirement::equals(FAMILY, Text::from(*family))]),
            capacity: Resources::new(),
            allocatable: Resources::new(),
            exotic: false,
            offerings: Vec::new(),
        };
        let mut pool = pool().pool;
        let types = families.iter().map(kind).collect();
        pool.catalogue = SharedCatalogue::new(Catalogue { types, offering_keys: Vec::new() });
        let wanted = Requirement::new(FAMILY, Operator::NotIn, [Text::from("z")]).with_min_values(Some(least));
        pool.requirements = Requirements::from_iter([wanted]);
        Variety::of(&pool).remove(0)
    }

    #[test]
    fn values_count_once_and_only_when_they_are_allowed() {
        let variety = of(&["a", "a", "b", "z"], 2);
        assert!(variety.holds(&[0, 2]) && variety.holds(&[0, 1, 2, 3]));
        assert!(!variety.holds(&[0, 1, 3]), "a counts once, z is refused");
    }

    #[test]
    fn the_first_machines_with_a_new_value_are_added() {
        let variety = of(&["a", "a", "b", "c"], 3);
        // Machine 1 is chosen: of the order 0, 3, 2 the first has nothing new, the others complete three values.
        assert_eq!(variety.missing(&[0, 3, 2], [1].into_iter()), [1, 2]);
        assert_eq!(variety.missing(&[0, 3, 2], [1, 2, 3].into_iter()), [0; 0]);
    }

    #[test]
    fn as_many_pods_are_allowed_as_enough_values_hold() {
        let allowed = |least: u32, held: &[u32]| {
            let variety = of(&["a", "a", "b", "c"], least);
            let varieties = [variety];
            let mut flexibility = Flexibility::new(&varieties, 10);
            held.iter().enumerate().for_each(|(machine, count)| flexibility.note(machine, *count));
            (flexibility.is_full(), flexibility.allowed())
        };
        // a holds 9 (its larger machine), b 4, c 6: one value holds 9, two hold 6, three hold 4, four there are not.
        assert_eq!(allowed(1, &[3, 9, 4, 6]), (false, 9));
        assert_eq!(allowed(2, &[3, 9, 4, 6]), (false, 6));
        assert_eq!(allowed(3, &[3, 9, 4, 6]), (false, 4));
        assert_eq!(allowed(4, &[3, 9, 4, 6]), (false, 0));
        assert_eq!(allowed(2, &[10, 10, 12, 1]), (true, 10), "two values hold all that is asked about");
    }
}
