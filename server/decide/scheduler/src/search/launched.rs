//! What a packing launches machines for, by class.

use std::collections::BTreeMap;

use crate::packing::Packing;
use crate::topology::Pin;
use model::labels::ZONE;
use model::plan::Plan;

/// Pods of one class to launch machines for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ClassDemand {
    pub(super) class: u32,
    /// The domain that they run in, if rules between pods decide it.
    pub(super) pin: Option<Pin>,
    pub(super) pods: u32,
}

/// The pods that a plan launches machines for, and those machines. Where rules between pods decide
/// the zone of a class, its pods stay in the zones that the plan gives them.
#[derive(Debug)]
pub(crate) struct LaunchedPods {
    /// In the order of the queue.
    pub(super) demand: Vec<ClassDemand>,
    /// Machines that are filled alike, and their number.
    pub(super) machines: BTreeMap<Vec<ClassDemand>, u32>,
}

impl LaunchedPods {
    /// The pods of `plan`, which was made from the same input as `packing`; `queue` has the classes
    /// in the order in which they are placed.
    pub(crate) fn of(packing: &mut Packing<'_, '_>, queue: &[(u32, u32)], plan: &Plan) -> Self {
        let zone = packing.topology.key_id(ZONE);
        let mut class_of = vec![None; packing.problem.input.pods.len()];
        let mut is_pinned = vec![false; packing.problem.classes.len()];
        for (class, _) in queue {
            is_pinned[*class as usize] = packing.is_placed_by_domain(*class, zone);
            packing.problem.classes[*class as usize].pods.iter().for_each(|pod| class_of[*pod as usize] = Some(*class));
        }
        let mut pods: BTreeMap<(u32, Option<Pin>), u32> = BTreeMap::new();
        let mut machines = BTreeMap::new();
        for node in &plan.nodes {
            let only = node.zones.first().filter(|_| node.zones.len() == 1);
            let pin = only.map(|name| Pin { key: zone, domain: packing.topology.domain_id(zone, name.as_text()) });
            let mut filling: BTreeMap<(u32, Option<Pin>), u32> = BTreeMap::new();
            for class in node.pods.iter().filter_map(|pod| class_of[*pod as usize]) {
                let pin = pin.filter(|_| is_pinned[class as usize]);
                *filling.entry((class, pin)).or_default() += 1;
                *pods.entry((class, pin)).or_default() += 1;
            }
            *machines.entry(filling.into_iter().map(demand).collect()).or_default() += 1;
        }
        let own = |class: u32| pods.range((class, None)..).take_while(move |((of, _), _)| *of == class);
        let in_order = queue.iter().flat_map(|(class, _)| own(*class));
        Self { demand: in_order.map(|(key, pods)| demand((*key, *pods))).collect(), machines }
    }

    /// Classes on each kind of machine.
    pub(crate) fn classes_by_machine(&self) -> impl Iterator<Item = impl Iterator<Item = u32>> {
        self.machines.keys().map(|filling| filling.iter().map(|demand| demand.class))
    }
}

fn demand(((class, pin), pods): ((u32, Option<Pin>), u32)) -> ClassDemand {
    ClassDemand { class, pin, pods }
}
