//! A beam search for the pods that are worth most on one machine.
//!
//! Items are decided one after another, the one with the largest value per share of the machine
//! first. Of all fillings that are decided so far, those that could become most valuable are kept; the
//! largest bound of the others is remembered, so that what is found is bounded too.

use smallvec::SmallVec;

use super::item::Item;
use super::weights::{Relaxation, Weights};
use crate::resource_vector::{self, Amounts};
use crate::topology::GroupId;

/// Relative gain below which two values are equal.
const EPSILON: f64 = 1e-9;
/// Numbers of pods of one item that are tried on one filling besides none, the largest first, for each
/// filling that is kept.
const COUNTS_PER_WIDTH: usize = 2;

/// Fillings that one is compared with, of those that are worth a little more.
const MAX_COMPARED: usize = 64;

/// An item in the order of the search.
struct Choice {
    item: usize,
    /// Value per share.
    density: f64,
    share: f64,
    /// The largest value of a pod among those that exclude the item.
    largest: f64,
}

/// Pods of the items that are decided.
#[derive(Clone)]
struct Filling {
    /// No filling that begins with these pods is worth more.
    bound: f64,
    value: f64,
    /// The weighted part of the machine that is left.
    room: f64,
    free: Amounts,
    groups: SmallVec<[GroupId; 2]>,
    /// Its last pods, as an index of [`Beam::taken`].
    last: Option<usize>,
}

/// Pods of one item, and those that were taken before them.
struct Taken {
    before: Option<usize>,
    item: usize,
    pods: u32,
}

/// The search over the items of one machine.
pub(super) struct Beam<'a> {
    items: &'a [Item<'a>],
    order: Vec<Choice>,
    taken: Vec<Taken>,
    /// Fillings that are worth more than the threshold, by their last pods.
    found: Vec<(f64, usize)>,
    threshold: f64,
    best_value: f64,
    /// The largest bound of a filling that was not kept.
    dropped: f64,
    bounds: usize,
    max_counts: u32,
}

impl<'a> Beam<'a> {
    /// A search for fillings that are worth more than `threshold`, without the items that none of
    /// them has.
    pub(super) fn new(
        items: &'a [Item<'a>],
        capacity: &[i64],
        (weights, relaxation): (&Weights, &Relaxation),
        threshold: f64,
    ) -> Self {
        let choice = |(at, item): (usize, &Item<'_>)| {
            let share = weights.share(item.request, capacity);
            let most = relaxation.value + item.value - share * relaxation.marginal;
            let largest = item.largest_of_group(items);
            (most > threshold).then_some(Choice { item: at, density: item.value / share, share, largest })
        };
        let mut order: Vec<Choice> = items.iter().enumerate().filter_map(choice).collect();
        order.sort_unstable_by(|one, other| other.density.total_cmp(&one.density).then(one.item.cmp(&other.item)));
        Self {
            items,
            order,
            taken: Vec::new(),
            found: Vec::new(),
            threshold,
            best_value: threshold,
            dropped: 0.0,
            bounds: 0,
            max_counts: 0,
        }
    }

    /// Searches with up to `width` fillings at a time.
    pub(super) fn run(&mut self, capacity: &[i64], width: usize) {
        let free = capacity.iter().copied().collect();
        let empty = Filling { bound: 0.0, value: 0.0, room: 1.0, free, groups: SmallVec::new(), last: None };
        let empty = Filling { bound: self.bound(0, &empty), ..empty };
        if width == 0 {
            self.dropped = empty.bound;
            return;
        }
        self.max_counts = u32::try_from(COUNTS_PER_WIDTH * width).unwrap_or(u32::MAX).max(8);
        let mut kept = vec![empty];
        for place in 0..self.order.len() {
            let mut next: Vec<Filling> = Vec::with_capacity(2 * kept.len());
            for filling in kept {
                self.decide(place, filling, &mut next);
            }
            let last_bound = self.best_value * (1.0 + EPSILON);
            next.retain(|filling| filling.bound > last_bound);
            if next.len() > 1 {
                next = self.narrow(next, width);
            }
            if next.is_empty() {
                return;
            }
            kept = next;
        }
    }

    /// The most valuable fillings that are worth more than the threshold, up to `most` of them and the
    /// best first, as (item, pods).
    pub(super) fn best(&mut self, most: usize) -> Vec<(f64, Vec<(usize, u32)>)> {
        self.found.sort_by(|one, other| other.0.total_cmp(&one.0));
        self.found.iter().take(most).map(|(value, last)| (*value, self.pods_until(*last))).collect()
    }

    fn pods_until(&self, last: usize) -> Vec<(usize, u32)> {
        let before = |at: &usize| self.taken[*at].before;
        let pods = std::iter::successors(Some(last), before).map(|at| &self.taken[at]);
        pods.map(|taken| (taken.item, taken.pods)).collect()
    }

    /// No filling is worth more than this, unless none is worth more than the threshold.
    pub(super) fn upper_bound(&self) -> f64 {
        self.best_value.max(self.dropped)
    }

    pub(super) fn bounds(&self) -> usize {
        self.bounds
    }

    /// The `width` fillings with the largest bounds, without those that are worth no more than another
    /// one that leaves as much room.
    fn narrow(&mut self, fillings: Vec<Filling>, width: usize) -> Vec<Filling> {
        let mut order: Vec<usize> = (0..fillings.len()).collect();
        order.sort_by(|one, other| fillings[*other].value.total_cmp(&fillings[*one].value));
        let mut kept: Vec<usize> = Vec::with_capacity(order.len());
        for at in order {
            let dominates = |other: &&usize| {
                let (own, other) = (&fillings[at], &fillings[**other]);
                other.free.iter().zip(&own.free).all(|(theirs, own)| theirs >= own)
                    && other.groups.iter().all(|group| own.groups.contains(group))
            };
            if !kept.iter().rev().take(MAX_COMPARED).any(|other| dominates(&other)) {
                kept.push(at);
            }
        }
        if kept.len() > width {
            kept.sort_by(|one, other| fillings[*other].bound.total_cmp(&fillings[*one].bound));
            self.dropped = self.dropped.max(fillings[kept[width]].bound);
            kept.truncate(width);
        }
        kept.sort_unstable();
        let mut kept = kept.into_iter().peekable();
        let is_kept = |(at, filling): (usize, Filling)| {
            let found = kept.next_if_eq(&at).is_some();
            found.then_some(filling)
        };
        fillings.into_iter().enumerate().filter_map(is_kept).collect()
    }

    fn is_promising(&self, bound: f64) -> bool {
        bound > self.best_value * (1.0 + EPSILON)
    }

    /// The fillings that follow from `filling` by numbers of pods of the item in `place`.
    fn decide(&mut self, place: usize, filling: Filling, next: &mut Vec<Filling>) {
        if !self.is_promising(filling.bound) {
            return;
        }
        let (item, share) = (&self.items[self.order[place].item], self.order[place].share);
        let excluded = item.exclusive.is_some_and(|group| filling.groups.contains(&group));
        let fitting = if excluded { 0 } else { resource_vector::copies(item.request, &filling.free, item.most) };
        if fitting == 0 {
            next.push(filling);
            return;
        }
        let density = self.order.get(place + 1).map_or(0.0, |choice| choice.density);
        for count in (1..=fitting).rev() {
            let (value, room) =
                (filling.value + f64::from(count) * item.value, filling.room - f64::from(count) * share);
            // With fewer pods of the densest item this only falls.
            let most = value + room.max(0.0) * density;
            if !self.is_promising(most) && value <= self.best_value {
                break;
            }
            if count + self.max_counts <= fitting {
                self.dropped = self.dropped.max(most);
                break;
            }
            let mut more = Filling { value, room: room.max(0.0), ..filling.clone() };
            resource_vector::subtract(&mut more.free, item.request, count);
            more.groups.extend(item.exclusive);
            self.taken.push(Taken { before: filling.last, item: self.order[place].item, pods: count });
            more.last = Some(self.taken.len() - 1);
            if value > self.threshold * (1.0 + EPSILON) {
                self.found.push((value, self.taken.len() - 1));
                self.best_value = self.best_value.max(value);
            }
            more.bound = self.bound(place + 1, &more);
            if self.is_promising(more.bound) {
                next.push(more);
            }
        }
        let bound = self.bound(place + 1, &filling);
        if self.is_promising(bound) {
            next.push(Filling { bound, ..filling });
        }
    }

    /// The value of `filling` with the items from `place` on, of which fractions are taken.
    fn bound(&mut self, place: usize, filling: &Filling) -> f64 {
        self.bounds += 1;
        let (mut value, mut room) = (filling.value, filling.room);
        let mut groups: SmallVec<[GroupId; 4]> = SmallVec::new();
        for choice in &self.order[place..] {
            let item = &self.items[choice.item];
            let fitting = resource_vector::copies(item.request, &filling.free, item.most);
            if fitting == 0 {
                continue;
            }
            let most = match item.exclusive {
                None => choice.share * f64::from(fitting),
                Some(group) if groups.contains(&group) || filling.groups.contains(&group) => continue,
                Some(group) => {
                    groups.push(group);
                    choice.largest / choice.density
                }
            };
            if most >= room {
                return value + room * choice.density;
            }
            value += most * choice.density;
            room -= most;
        }
        value
    }
}
