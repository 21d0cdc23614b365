//! What pods are worth at least, so that the bound for other numbers of the same pods takes no time.

use super::cover::Cover;
use super::demand::Demand;
use super::supply::Supply;
use crate::CompileCache;
use model::MicroUsd;
use model::input::PlanningInput;

/// Values of pods, of which no machine carries more than it costs. They are those of the resource cover, so a bound from
/// them is at most that of [`lower_bound`](super::lower_bound).
#[derive(Debug, Clone)]
pub struct PodValues {
    /// By shape, in the unit of the cover; zero for shapes without pods.
    by_shape: Vec<i128>,
}

impl PodValues {
    /// Values of the pods of `input`, best for as many of each shape as it has. `None` if nodes or reservations are there,
    /// on which pods cost nothing.
    #[must_use]
    pub fn of(input: &PlanningInput, cache: &mut CompileCache) -> Option<Self> {
        let mut pods = vec![0; input.shapes.len()];
        input.pods.iter().for_each(|pod| pods[pod.shape as usize] += 1);
        let demand = Demand::of_shapes(input, pods);
        let supply = Supply::of(input, &demand, cache.offered_types());
        if !supply.free.is_empty() {
            return None;
        }
        let cover = Cover::of(&demand, &supply);
        let mut by_shape = vec![0; input.shapes.len()];
        for shape in &demand.shapes {
            by_shape[shape.shape as usize] = cover.value(shape.group, &shape.requests);
        }
        Some(Self { by_shape })
    }

    /// Lower bound on the price per hour of machines for `counts`: pairs of a shape and a number of pods.
    #[must_use]
    pub fn bound(&self, counts: impl IntoIterator<Item = (u32, u32)>) -> MicroUsd {
        let value = |(shape, count): (u32, u32)| {
            self.by_shape.get(shape as usize).map_or(0, |value| value.saturating_mul(i128::from(count)))
        };
        let sum = counts.into_iter().map(value).fold(0_i128, i128::saturating_add);
        MicroUsd(i64::try_from(sum >> super::cover::SCALE_BITS).unwrap_or(i64::MAX))
    }
}
