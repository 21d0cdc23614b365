//! Existing and in-flight nodes: filled before anything is launched.

use super::classes::PreferenceSet;
use super::machines::{Destination, PlacementEvent, ports_free};
use super::packing::Packing;
use super::resource_vector;
use super::topology::Pin;
use model::Node;
use model::taints::has_untolerated_soft_taint;

impl Packing<'_, '_> {
    /// Puts up to `most` pods of `class` on existing nodes in the domains `pins`; returns the
    /// number placed.
    pub(super) fn fill_existing_nodes(
        &mut self,
        class: u32,
        most: u32,
        pins: &[Pin],
        preferences: PreferenceSet,
    ) -> u32 {
        if self.existing_nodes.is_empty() {
            return 0;
        }
        let needs = &self.problem.classes[class as usize];
        let mut left = most;
        for at in self.candidate_nodes(class, pins).iter() {
            if left == 0 {
                break;
            }
            self.steps.consume(needs.constraints());
            if resource_vector::copies(&needs.request, &self.existing_nodes[at].free, 1) == 0 {
                self.mark_full(class, at);
                continue;
            }
            let count = self.capacity_for(class, at, left, preferences);
            if count > 0 {
                self.place_on_node(class, at, count);
                left -= count;
            }
        }
        most - left
    }

    /// Pods of `class` that existing node `at` can take.
    fn capacity_for(&self, class: u32, at: usize, most: u32, preferences: PreferenceSet) -> u32 {
        let problem = self.problem;
        let needs = &problem.classes[class as usize];
        let existing = &self.existing_nodes[at];
        let count = resource_vector::copies(&needs.request, &existing.free, most);
        if count == 0 {
            return 0;
        }
        let shape = &problem.input.shapes[needs.shape as usize];
        let node = &problem.input.nodes[existing.node as usize];
        if !ports_free(&shape.host_ports, &existing.ports) || !self.node_preferences_hold(needs, preferences, node) {
            return 0;
        }
        if self.avoid_prefer_no_schedule && has_untolerated_soft_taint(&node.taints, &shape.tolerations) {
            return 0;
        }
        let count = count.min(self.host_cap(class, &existing.host, preferences)).min(if shape.host_ports.is_empty() {
            most
        } else {
            1
        });
        if self.all_on_one_machine && count < most { 0 } else { count }
    }

    /// Whether `node` satisfies the node preferences in force.
    fn node_preferences_hold(&self, needs: &super::classes::Class, preferences: PreferenceSet, node: &Node) -> bool {
        needs.preferences.iter().enumerate().filter(|(at, _)| preferences.has(*at)).all(|(_, preference)| {
            preference.requirements.as_ref().is_none_or(|wanted| {
                wanted.iter().all(|requirement| model::requirements::label_satisfies(&node.labels, requirement))
            })
        })
    }

    fn place_on_node(&mut self, class: u32, at: usize, count: u32) {
        let problem = self.problem;
        let needs = &problem.classes[class as usize];
        let existing = &mut self.existing_nodes[at];
        resource_vector::subtract(&mut existing.free, &needs.request, count);
        existing.ports.extend(problem.input.shapes[needs.shape as usize].host_ports.iter().cloned());
        let (node, domains) = (existing.node, existing.domains.clone());
        self.count_on_node(class, at, node, count, &domains);
        self.events.push(PlacementEvent {
            class,
            destination: Destination::Existing(u32::try_from(at).unwrap_or(u32::MAX)),
            count,
        });
        if self.present_domains_only {
            let host = self.existing_nodes[at].host.clone();
            self.forbid_new_domains(class, &host);
        }
    }
}
