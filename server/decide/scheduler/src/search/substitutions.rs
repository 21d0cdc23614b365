//! Substitutions: a pod takes the place of a larger one.

use super::covering::Covering;

/// Wherever `large` has a place, `small` fits; places in the linear program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Substitution {
    pub(super) small: usize,
    pub(super) large: usize,
}

/// The substitutions among the rows `open`, without those that follow from two others.
pub(super) fn all(covering: &Covering, open: &[usize]) -> Vec<Substitution> {
    let places = 0..open.len();
    let larger = |small: usize| -> Vec<usize> {
        places.clone().filter(|large| replaces(covering, open[small], open[*large])).collect()
    };
    let larger: Vec<Vec<usize>> = places.clone().map(larger).collect();
    let of = |small: usize| {
        let follows = |large: &usize| larger[small].iter().any(|between| larger[*between].contains(large));
        let direct = larger[small].iter().filter(|large| !follows(large)).copied();
        direct.map(|large| Substitution { small, large }).collect::<Vec<_>>()
    };
    places.clone().flat_map(of).collect()
}

/// Whether a pod of row `small` fits wherever one of row `large` has a place. Of two equal rows the
/// first replaces the other.
fn replaces(covering: &Covering, small: usize, large: usize) -> bool {
    let (own, other) = (&covering.rows[small], &covering.rows[large]);
    own.most == u32::MAX
        && own.exclusive.is_none()
        && own.request.iter().zip(&other.request).all(|(own, other)| own <= other)
        && other.machines.intersection(&own.machines) == other.machines
        && (small < large || own.request != other.request || own.machines != other.machines)
        && small != large
}

#[cfg(test)]
mod tests {
    use model::CapacityType::OnDemand;

    use super::*;
    use crate::bit_set::BitSet;
    use crate::search::covering::{Machine, Row};

    fn row(request: &[i64], machines: &[usize], most: u32) -> Row {
        let mut open = BitSet::empty(2);
        machines.iter().for_each(|machine| open.insert(*machine));
        let request = request.iter().copied().collect();
        Row { request, machines: open, most, exclusive: None, pin: None, classes: vec![(0, 1)] }
    }

    #[test]
    fn a_pod_takes_the_place_of_a_larger_one_on_the_machines_that_are_open_to_it() {
        let rows = vec![
            row(&[1, 1], &[0, 1], u32::MAX),
            row(&[2, 1], &[0, 1], u32::MAX),
            row(&[3, 2], &[0, 1], u32::MAX),
            // On the first machine only, so that it has no place on the second.
            row(&[1, 1], &[0], u32::MAX),
            // At most one on a machine, so that two would have no place.
            row(&[1, 0], &[0, 1], 1),
        ];
        let machine = |price| Machine::new((0, 0, OnDemand, None), price, [8, 8].into_iter().collect());
        let covering = Covering::new(rows, vec![machine(1.0), machine(2.0)]);
        let found = all(&covering, &[0, 1, 2, 3, 4]);
        // 0 in the place of 2 follows from 0 in that of 1 and 1 in that of 2.
        let substitution = |small, large| Substitution { small, large };
        assert_eq!(found, [substitution(0, 1), substitution(0, 3), substitution(1, 2)]);
    }
}
