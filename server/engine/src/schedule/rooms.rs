//! Rooms: nodes that exist or are on their way, filled before anything is bought.

use super::axis;
use super::bits::BitSet;
use super::machines::{Event, Place, ports_free};
use super::nodes::{node_satisfies, tolerates_cordon};
use super::packing::{Packing, Pin, PreferenceSet};
use crate::model::Node;
use crate::model::taints::{discouraged, first_barring};

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
    pub(super) fn fill_rooms(&mut self, class: u32, most: u32, pins: &[Pin], softs: PreferenceSet) -> u32 {
        if self.rooms.is_empty() {
            return 0;
        }
        let needs = &self.problem.classes[class as usize];
        let mut left = most;
        for at in self.roomy(class, pins).iter() {
            if left == 0 {
                break;
            }
            self.steps.take(needs.constraints());
            if axis::times(&needs.request, &self.rooms[at].free, 1) == 0 {
                self.note_full(class, at);
                continue;
            }
            let count = self.room_for(class, at, left, softs);
            if count > 0 {
                self.put_in_room(class, at, count);
                left -= count;
            }
        }
        most - left
    }

    /// How many pods of `class` room `at` takes.
    fn room_for(&self, class: u32, at: usize, most: u32, softs: PreferenceSet) -> u32 {
        let problem = self.problem;
        let needs = &problem.classes[class as usize];
        let room = &self.rooms[at];
        let count = axis::times(&needs.request, &room.free, most);
        if count == 0 {
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
    fn soft_labels_hold(&self, needs: &super::classes::Class, softs: PreferenceSet, node: &Node) -> bool {
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
        self.events.push(Event { class, place: Place::ExistingNode(u32::try_from(at).unwrap_or(u32::MAX)), count });
        if self.present_domains_only {
            let host = self.rooms[at].host.clone();
            self.note_relied(class, &host);
        }
    }
}
