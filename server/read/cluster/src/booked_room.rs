//! Room that holds book in the observed state: which of it pods have taken, and which kube-scheduler gave away.

use std::collections::{BTreeMap, BTreeSet};

use super::bookings::{Booking, Bookings, HOLD, HoldId};
use super::record::PodRecord;
use super::state::ClusterState;
use super::target::Target;
use model::{ClaimName, Labels, NodeName, PodShape, Resources, Text};

impl ClusterState {
    pub fn set_bookings(&mut self, bookings: Bookings) {
        *self.bookings_mut() = bookings;
        self.mark_changed();
    }

    /// Nodes with bookings, and all nodes of dedicated holds that have not ended.
    pub fn held_nodes(&self) -> impl Iterator<Item = NodeName> {
        let booked = self.bookings().all().iter().map(|booking| self.name_of_target(&booking.target));
        let is_dedicated =
            |labels: &Labels| labels.get(HOLD).is_some_and(|hold| !self.bookings().has_ended(&HoldId(hold.clone())));
        booked.chain(self.nodes().filter(move |node| is_dedicated(&node.labels)).map(|node| node.name.clone()))
    }

    /// Whether room is booked on the machine of `claim`.
    #[must_use]
    pub fn has_booking(&self, claim: &ClaimName) -> bool {
        self.bookings().all().iter().any(|booking| booking.target.claim() == Some(claim))
    }

    /// Bookings with the number of their pods whose place no pod has taken. A pod that names a hold takes a place that
    /// [admits] it, on its own node first, and first that of a pod that requests the same.
    #[must_use]
    pub fn open_bookings(&self) -> Vec<(&Booking, u32)> {
        self.bookings_without(|_| true)
    }

    /// Bookings with the number of their pods whose place none of these pods has taken.
    fn bookings_without(&self, is_counted: impl Fn(&PodRecord) -> bool) -> Vec<(&Booking, u32)> {
        let bookings = self.bookings();
        let mut open: Vec<(&Booking, u32)> = bookings.all().iter().map(|booking| (booking, booking.pods)).collect();
        if open.is_empty() {
            return open;
        }
        for pod in self.pods().filter(|pod| is_counted(pod)) {
            let Some(hold) = hold_of(pod) else { continue };
            let places = &mut open[bookings.of_hold(&HoldId(hold.clone()))];
            let node = self.place_of_pod(pod);
            let distance = |booking: &Booking| {
                let is_elsewhere = node.as_ref().is_none_or(|node| self.name_of_target(&booking.target) != *node);
                (is_elsewhere, booking.shape.requests != pod.shape.requests)
            };
            let admitting = places
                .iter_mut()
                .filter(|(booking, left)| *left > 0 && admits(&booking.namespace, &booking.shape, pod));
            let nearest = admitting.min_by_key(|(booking, _)| distance(booking));
            if let Some((_, left)) = nearest {
                *left -= 1;
            }
        }
        open
    }

    /// Booked pods that do not fit their node any more, because kube-scheduler bound others there: their number by hold,
    /// pod set and node. A pod that is to take a place and has no node yet needs its room as well.
    #[must_use]
    pub fn displaced_bookings(&self) -> BTreeMap<(HoldId, u32, Target), u32> {
        let mut free: BTreeMap<NodeName, Resources> = BTreeMap::new();
        let mut displaced = BTreeMap::new();
        for (booking, pods) in self.bookings_without(|pod| self.place_of_pod(pod).is_some()) {
            let Some(node) = self.node_of_target(&booking.target) else { continue };
            let left = free.entry(node.name.clone()).or_insert_with(|| {
                let used = self.requests_on(node);
                let allocatable = self.allocatable_of(node);
                allocatable.iter().map(|(name, all)| (name.clone(), all - used.get(name))).collect()
            });
            let mut without_room = 0;
            for _ in 0..pods {
                let after: Resources =
                    left.iter().map(|(name, had)| (name.clone(), had - booking.shape.requests.get(name))).collect();
                if booking.shape.requests.iter().all(|(name, needed)| needed == 0 || left.get(name) >= needed) {
                    *left = after;
                } else {
                    without_room += 1;
                }
            }
            if without_room > 0 {
                displaced.insert((booking.hold.clone(), booking.pod_set, booking.target.clone()), without_room);
            }
        }
        displaced
    }

    /// Dedicated holds with nodes that have not ended, of which none is a node of `pod`, although it tolerates their taint:
    /// those that do not admit it. A plan must not give it the room of a pod of the hold that is planned at the same time.
    pub(super) fn holds_closed_to(&self, pod: &PodRecord, dedicated: &BTreeSet<HoldId>) -> BTreeSet<Text> {
        let is_admitted = |hold: &HoldId| {
            let booked = &self.bookings().all()[self.bookings().of_hold(hold)];
            hold_of(pod) == Some(&hold.0) && booked.iter().any(|one| admits(&one.namespace, &one.shape, pod))
        };
        let tolerates = |hold: &HoldId| {
            let taint = hold.taint();
            pod.shape.tolerations.iter().any(|toleration| toleration.tolerates(&taint))
        };
        let closed = dedicated.iter().filter(|hold| tolerates(hold) && !is_admitted(hold));
        closed.map(|hold| hold.0.clone()).collect()
    }

    /// Dedicated holds that have nodes and have not ended.
    pub(super) fn dedicated_holds(&self) -> BTreeSet<HoldId> {
        let labels = self.nodes().map(|node| &node.labels).chain(self.claims().map(|claim| &claim.labels));
        let holds = labels.filter_map(|labels| labels.get(HOLD)).map(|hold| HoldId(hold.clone()));
        holds.filter(|hold| !self.bookings().has_ended(hold)).collect()
    }

    /// Pods that run on the nodes of a dedicated hold, other than those of DaemonSets, with these nodes.
    pub fn pods_on_nodes_of<'s>(&'s self, hold: &'s HoldId) -> impl Iterator<Item = (&'s PodRecord, &'s NodeName)> {
        let nodes = self.nodes().filter(|node| node.labels.get(HOLD) == Some(&hold.0));
        let pods = nodes.flat_map(|node| self.pods_on(&node.name).map(move |pod| (pod, &node.name)));
        pods.filter(|(pod, _)| pod.daemon.is_none() && !pod.mirror && !pod.is_terminal())
    }

    /// Name of the Node of a target, or of the NodeClaim while there is no Node.
    pub fn name_of_target(&self, target: &Target) -> NodeName {
        match target {
            Target::Claim(claim) => {
                self.node_of_claim(claim).map_or_else(|| NodeName::from(claim.as_text()), |node| node.name.clone())
            }
            Target::Node(node) => node.clone(),
        }
    }

    /// Where the pod runs or is planned.
    fn place_of_pod<'s>(&'s self, pod: &'s PodRecord) -> Option<NodeName> {
        let planned = || self.assignments().get(&pod.key).map(|assignment| self.name_of_target(&assignment.target));
        pod.node.clone().or_else(planned).or_else(|| self.nominated_node(pod).cloned())
    }

    /// NodeClaims of the nodes of dedicated holds that have ended.
    pub fn claims_of_ended_holds(&self) -> impl Iterator<Item = &ClaimName> {
        let ended =
            |labels: &Labels| labels.get(HOLD).is_some_and(|hold| self.bookings().has_ended(&HoldId(hold.clone())));
        self.claims().filter(move |claim| claim.ours && ended(&claim.labels)).map(|claim| &claim.name)
    }
}

/// The hold that the pod names.
pub fn hold_of(pod: &PodRecord) -> Option<&Text> {
    pod.labels.get(HOLD).filter(|_| !pod.is_terminal())
}

/// Whether the pod may take the place of a held one of this namespace and shape. Anybody may give a pod the label of a
/// hold, so the label alone is no right to its room.
pub fn admits(namespace: &Text, shape: &PodShape, pod: &PodRecord) -> bool {
    let mut requests = pod.shape.requests.iter();
    pod.key.namespace == *namespace && requests.all(|(name, needed)| needed <= shape.requests.get(name))
}
