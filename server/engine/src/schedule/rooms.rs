//! Nodes that exist or are on their way: filled before anything is bought.

use super::axis::{self, Axis};
use super::bits::BitSet;
use super::classes::node_alternatives;
use super::fits::FitTable;
use super::machines::{Event, Place, Room, ports_free};
use super::packing::{Packing, Pin, Softs};
use super::problem::{host_tallies, node_satisfies};
use super::subjects::Subjects;
use super::topology::Topology;
use crate::input::PlanningInput;
use crate::model::taints::{discouraged, first_barring};
use crate::model::{Effect, Node, NodeStage, Taint, Text, Toleration};

/// The taint that `spec.unschedulable` stands for, before its controller has put it there (L50).
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// The nodes that may take pods: those in service first, then by name.
pub(super) fn of(
    input: &PlanningInput,
    axis: &Axis,
    subjects: &Subjects<'_>,
    topology: &mut Topology,
    fits: &FitTable,
) -> Vec<Room> {
    let mut order: Vec<u32> =
        (0_u32..).zip(&input.nodes).filter(|(_, node)| node.stage != NodeStage::Deleting).map(|(at, _)| at).collect();
    order.sort_by_key(|at| {
        let node = &input.nodes[*at as usize];
        (node.stage != NodeStage::Initialized, node.name.clone())
    });
    let mut daemons = fits_of_daemons(input);
    order.into_iter().map(|at| room_of(input, at, axis, subjects, topology, fits, &mut daemons)).collect()
}

type DaemonNeeds = (FitTable, Vec<smallvec::SmallVec<[u32; 1]>>);

fn fits_of_daemons(input: &PlanningInput) -> DaemonNeeds {
    let mut table = FitTable::default();
    let needs = input
        .daemons
        .iter()
        .map(|daemon| node_alternatives(&input.shapes[daemon.shape as usize], None, &mut table))
        .collect();
    (table, needs)
}

fn room_of(
    input: &PlanningInput,
    at: u32,
    axis: &Axis,
    subjects: &Subjects<'_>,
    topology: &mut Topology,
    _fits: &FitTable,
    daemons: &mut DaemonNeeds,
) -> Room {
    let node = &input.nodes[at as usize];
    let mut free = axis.room(&node.allocatable);
    for (driver, limit) in &node.attach_limits {
        if let Some(place) = axis.position(&axis::attach_resource(driver)) {
            free[place] = *limit;
        }
    }
    let mut ports = Vec::new();
    for pod in node.pods.iter().filter(|pod| !pod.leaving) {
        let shape = &input.shapes[pod.shape as usize];
        let mut demand = axis.demand(&shape.requests);
        if let Some(volumes) = pod.volumes {
            axis.add_attachments(&mut demand, &input.volume_sets[volumes as usize].attachments);
        }
        axis::take(&mut free, &demand, 1);
        ports.extend(shape.host_ports.iter().cloned());
    }
    reserve_for_daemons(input, node, axis, daemons, &mut free, &mut ports);
    let host = host_tallies(input, node, subjects, topology);
    let domains = topology.wide_keys().map(|key| {
        let value = node.labels.get(topology.key_name(key)).cloned();
        (key, value)
    });
    let domains: Vec<_> = domains.collect();
    let domains = domains.into_iter().map(|(key, value)| value.map(|value| topology.domain(key, &value))).collect();
    Room { node: at, free, ports, host, domains }
}

/// Keeps room for DaemonSet pods that suit the node and are not there yet.
fn reserve_for_daemons(
    input: &PlanningInput,
    node: &Node,
    axis: &Axis,
    (table, needs): &mut DaemonNeeds,
    free: &mut axis::Amounts,
    ports: &mut Vec<crate::model::HostPort>,
) {
    for (daemon, alternatives) in input.daemons.iter().zip(needs) {
        let shape = &input.shapes[daemon.shape as usize];
        let suits = first_barring(&node.taints, &shape.tolerations).is_none()
            && alternatives.iter().any(|id| node_satisfies(node, *id, table));
        let runs = |name: &str| name.split_once('/') == Some((daemon.namespace.as_ref(), daemon.name.as_ref()));
        if suits && !node.pods.iter().any(|pod| pod.daemon.as_deref().is_some_and(runs)) {
            axis::take(free, &axis.demand(&shape.requests), 1);
            ports.extend(shape.host_ports.iter().cloned());
        }
    }
}

/// Whether `tolerations` cover the taint of a cordoned node.
pub(super) fn tolerates_cordon(tolerations: &[Toleration]) -> bool {
    let cordon = Taint { key: Text::from(UNSCHEDULABLE), value: Text::from(""), effect: Effect::NoSchedule };
    tolerations.iter().any(|toleration| toleration.tolerates(&cordon))
}

impl Packing<'_, '_> {
    /// The rooms that labels and taints open to `class`, computed once per distinct need.
    pub(super) fn open_rooms(&mut self, class: u32) -> std::rc::Rc<BitSet> {
        let problem = self.problem;
        let input = problem.input;
        let needs = &problem.classes[class as usize];
        let shape = &input.shapes[needs.shape as usize];
        let key = (needs.alternatives.clone(), shape.tolerations.as_slice());
        if let Some(known) = self.open_rooms.get(&key) {
            return known.clone();
        }
        let mut open = BitSet::empty(self.rooms.len());
        for (at, room) in self.rooms.iter().enumerate() {
            let node = &input.nodes[room.node as usize];
            let welcome = (!node.unschedulable || tolerates_cordon(&shape.tolerations))
                && first_barring(&node.taints, &shape.tolerations).is_none()
                && needs.alternatives.iter().any(|id| node_satisfies(node, *id, &self.fits));
            if welcome {
                open.insert(at);
            }
        }
        let open = std::rc::Rc::new(open);
        self.open_rooms.insert(key, open.clone());
        open
    }

    /// Puts up to `most` pods of `class` into rooms that agree with `pins`; returns how many found one.
    pub(super) fn fill_rooms(&mut self, class: u32, most: u32, pins: &[Pin], softs: Softs) -> u32 {
        if self.rooms.is_empty() {
            return 0;
        }
        let open = self.open_rooms(class);
        let mut left = most;
        for at in open.iter() {
            if left == 0 {
                break;
            }
            let count = self.room_for(class, at, left, pins, softs);
            if count > 0 {
                self.put_in_room(class, at, count);
                left -= count;
            }
        }
        most - left
    }

    /// How many pods of `class` room `at` takes.
    fn room_for(&self, class: u32, at: usize, most: u32, pins: &[Pin], softs: Softs) -> u32 {
        let problem = self.problem;
        let needs = &problem.classes[class as usize];
        let room = &self.rooms[at];
        let count = axis::times(&needs.request, &room.free, most);
        let there = |pin: &Pin| room.domains[usize::from(pin.key) - 1] == Some(pin.domain);
        if count == 0 || !pins.iter().all(there) {
            return 0;
        }
        let shape = &problem.input.shapes[needs.shape as usize];
        let node = &problem.input.nodes[room.node as usize];
        if !ports_free(&shape.host_ports, &room.ports) || !self.soft_labels_hold(needs, softs, node) {
            return 0;
        }
        if self.avoid_discouraged && discouraged(&node.taints, &shape.tolerations) {
            return 0;
        }
        let count =
            count.min(self.host_cap(class, &room.host, softs)).min(if shape.host_ports.is_empty() { most } else { 1 });
        if self.whole_only && count < most { 0 } else { count }
    }

    /// Whether `node` keeps the node preferences that are in force.
    fn soft_labels_hold(&self, needs: &super::classes::Class, softs: Softs, node: &Node) -> bool {
        needs.softs.iter().enumerate().filter(|(at, _)| softs.has(*at)).all(|(_, soft)| {
            soft.requirements.as_ref().is_none_or(|wanted| {
                wanted.iter().all(|requirement| crate::model::requirements::label_satisfies(&node.labels, requirement))
            })
        })
    }

    fn put_in_room(&mut self, class: u32, at: usize, count: u32) {
        let problem = self.problem;
        let needs = &problem.classes[class as usize];
        let room = &mut self.rooms[at];
        axis::take(&mut room.free, &needs.request, count);
        room.ports.extend(problem.input.shapes[needs.shape as usize].host_ports.iter().cloned());
        let (node, domains) = (room.node, room.domains.clone());
        self.tally_on_room(class, at, node, count, &domains);
        self.events.push(Event { class, place: Place::Room(u32::try_from(at).unwrap_or(u32::MAX)), count });
    }
}
