//! Requests resolutions of EC2NodeClasses, and takes their answers.

use std::sync::Arc;

use crate::Finding;
use crate::cluster_controller::ClusterController;
use crate::context::Context;
use crate::node_class::NodeClassResolver;
use crate::settings::ClassFacts;
use crate::step_view::StepView;
use cluster::{ClassRecord, ClusterState};
use model::node_class::{NodeClassQuery, NodeClassStatus, Resolution, ResolvedNodeClass};
use model::{ClusterFacts, Millis};

/// Time between two resolutions of an EC2NodeClass (Karpenter AWS: subnets and reservations every minute).
const INTERVAL: Millis = Millis::from_mins(1);

/// The clusters of a fleet are spread over this time, so that they do not ask together.
const SPREAD: Millis = Millis::from_secs(20);

impl NodeClassResolver {
    /// Requests the resolutions that are due, of EC2NodeClasses that managed NodePools or our NodeClaims
    /// use.
    pub(crate) fn request_due(&mut self, view: &StepView<'_>) -> Vec<NodeClassQuery> {
        if view.settings().class_facts != ClassFacts::Resolved || !view.resolves_node_classes() {
            return Vec::new();
        }
        let (state, facts) = (view.state, view.state.facts());
        // Every event passes here; the NodePools and NodeClaims are looked at when something is due.
        let is_due = |class: &ClassRecord| {
            class.spec.as_ref().is_some_and(|spec| self.is_due(&class.name, spec, facts, view.now))
        };
        let is_overdue = self.next_wakeup().is_some_and(|due| due <= view.now);
        if !is_overdue && !state.classes().any(is_due) {
            return Vec::new();
        }
        let classes: Vec<&ClassRecord> = state.classes().filter(|class| is_class_used(class, state)).collect();
        self.retain(&classes.iter().map(|class| class.name.clone()).collect());
        let query = |class: &ClassRecord| {
            let spec = class.spec.as_ref()?;
            self.request(&class.name, spec, facts, view.now).then(|| NodeClassQuery {
                cluster: view.cluster.clone(),
                cluster_uid: view.uid.clone(),
                name: class.name.clone(),
                uid: class.uid.clone(),
                spec: Arc::clone(spec),
                status: last_known_status(class, self),
                facts: Arc::clone(facts),
            })
        };
        classes.into_iter().filter_map(query).collect()
    }
}

impl StepView<'_> {
    /// Whether this controller resolves EC2NodeClasses now. Karpenter resolves them while it is active.
    pub(crate) fn resolves_node_classes(&self) -> bool {
        self.is_ready() && self.may_report_status() && !self.state.is_karpenter_active()
    }
}

impl ClusterController {
    /// Records what an EC2NodeClass was resolved to.
    pub(crate) fn handle_node_class(
        &mut self,
        query: &NodeClassQuery,
        resolved: ResolvedNodeClass,
        ctx: &mut Context<'_>,
    ) {
        let spread = i64::try_from(crate::order::mix_hash(0, &ctx.cluster, 0) % SPREAD.get().unsigned_abs());
        let next = ctx.now + INTERVAL + Millis::new(spread.unwrap_or(0));
        if let Some(cidr) = resolved.service_cidr.clone().filter(|_| self.state.facts().service_cidr.is_none()) {
            let facts = ClusterFacts { service_cidr: Some(cidr), ..ClusterFacts::clone(self.state.facts()) };
            self.state.set_facts(Arc::new(facts));
        }
        let before = self.node_classes.resolved(&query.name).cloned();
        if self.node_classes.is_awaited(query) && self.state.record_lookup(&query.name, &resolved, ctx.now) {
            self.status_reporter.mark_dirty();
            self.disruption.mark_changed();
        }
        if !self.node_classes.record(query, resolved, next) {
            return;
        }
        self.status_reporter.mark_dirty();
        let Some(resolved) = self.node_classes.resolved(&query.name) else { return };
        for (condition, found) in resolved.conditions.iter().filter(|(condition, found)| {
            before.as_ref().is_none_or(|before| before.conditions.get(*condition) != Some(*found))
        }) {
            if let Resolution::Missing { message, .. } | Resolution::Unknown { message, .. } = found {
                let (node_class, why) = (query.name.clone(), message.clone());
                ctx.report_finding(Finding::NodeClassNotResolved { node_class, condition, why });
            }
        }
    }
}

/// What was resolved last, or else what the object shows: the previous owner's result.
fn last_known_status(class: &ClassRecord, node_classes: &NodeClassResolver) -> Arc<NodeClassStatus> {
    match node_classes.resolved(&class.name) {
        Some(resolved) => Arc::new(resolved.status.clone()),
        None => Arc::clone(&class.status),
    }
}

/// Whether a managed NodePool, or a NodeClaim, uses the EC2NodeClass.
fn is_class_used(class: &ClassRecord, state: &ClusterState) -> bool {
    let by_pool =
        state.pools().any(|pool| pool.pool.node_class == class.name && state.unmanaged_reason(pool).is_none());
    by_pool || state.claims().any(|claim| claim.ours && claim.node_class == class.name)
}
