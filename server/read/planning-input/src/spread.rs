//! Default topology spread: pods that declare no constraint get those of the scheduler's
//! configuration. The selector is derived for each pod from the Services that select the pod and
//! from the controller that owns it; a pod without either gets no constraint (Kubernetes:
//! cluster-level default constraints).

use std::borrow::Cow;
use std::collections::BTreeMap;

use manifests::cluster::each;
use manifests::cluster::pods::PodObject;
use manifests::cluster::workload::Workload;
use manifests::inventory::Inventory;
use manifests::kinds::Kind;
use manifests::notes::Notes;
use manifests::pod::PodSpec;
use manifests::pod::spread::KeyedSpread;
use manifests::{Problems, scheduler, syntax};
use model::labels::POD_TEMPLATE_HASH;
use model::{LabelSelector, Labels, SelectorOperator, SelectorTerm, Text};

use crate::options::Options;
use crate::owners::Owners;

/// A controller in one namespace: kind and name.
type Controller<'p> = (Kind, &'p str);

/// The default constraints, and the objects that their selectors are derived from.
#[derive(Debug, Default)]
pub struct SpreadDefaults<'c> {
    constraints: Vec<KeyedSpread>,
    /// Selectors of Services, by namespace.
    services: BTreeMap<Text, Vec<Labels>>,
    /// Selectors of controllers, by kind, namespace and name.
    controllers: BTreeMap<(Kind, &'c str, &'c str), &'c LabelSelector>,
}

impl<'c> SpreadDefaults<'c> {
    /// Reads the configuration that `options` name, and the Services of `inventory` when there are
    /// constraints.
    #[must_use]
    pub fn read(
        inventory: &Inventory,
        workloads: &'c [Workload],
        options: &Options,
        problems: &Problems,
        notes: &mut Notes,
    ) -> Self {
        let Some(source) = &options.scheduler_config else { return Self::default() };
        let constraints = scheduler::default_constraints(source, problems, notes);
        if constraints.is_empty() {
            return Self::default();
        }
        let mut services: BTreeMap<Text, Vec<Labels>> = BTreeMap::new();
        let read = each(inventory, Kind::Service, problems, |object, at| {
            (object.namespace.clone(), syntax::labels(&at.at("spec").at("selector")))
        });
        for (namespace, selector) in read {
            services.entry(namespace).or_default().push(selector);
        }
        let selector = |workload: &'c Workload| {
            let key = (workload.kind, workload.meta.namespace.as_ref(), workload.meta.name.as_ref());
            Some((key, workload.selector.as_ref()?))
        };
        Self { constraints, services, controllers: workloads.iter().filter_map(selector).collect() }
    }

    /// Whether the default constraints apply to `spec`.
    fn applies_to(&self, spec: &PodSpec) -> bool {
        !self.constraints.is_empty() && !spec.declares_spread()
    }

    /// The selector of the default constraints for a pod with `labels`; `None` when no Service
    /// selects the pod and no controller owns it.
    fn selector(&self, namespace: &str, labels: &Labels, controller: Option<Controller<'_>>) -> Option<LabelSelector> {
        let equal = |(key, value): (&Text, &Text)| SelectorTerm {
            key: key.clone(),
            operator: SelectorOperator::In,
            values: vec![value.clone()],
        };
        let selects = |service: &&Labels| service.iter().all(|(key, value)| labels.get(key) == Some(value));
        let services = self.services.get(namespace).into_iter().flatten().filter(selects);
        let mut terms: Vec<SelectorTerm> = services.flatten().map(equal).collect();
        let known = controller.and_then(|(kind, name)| self.controllers.get(&(kind, namespace, name)));
        terms.extend(known.into_iter().flat_map(|selector| selector.terms.iter().cloned()));
        // kube-scheduler uses the selector of the ReplicaSet: the Deployment's selector and the
        // hash of the template.
        let of_deployment = known.is_some() && controller.is_some_and(|(kind, _)| kind == Kind::Deployment);
        terms.extend(labels.get_key_value(POD_TEMPLATE_HASH).filter(|_| of_deployment).map(equal));
        (!terms.is_empty()).then(|| LabelSelector::new(terms))
    }

    /// The specification of `pod` with the constraints that it gets by default.
    pub fn spread_pod<'p>(&self, pod: &'p PodObject, owners: &Owners, notes: &mut Notes) -> Cow<'p, PodSpec> {
        if !self.applies_to(&pod.spec) {
            return Cow::Borrowed(&pod.spec);
        }
        let workload = owners.workload(pod);
        let controller = pod.meta.owner.as_ref().and_then(|owner| match owner.kind.as_ref() {
            "StatefulSet" => Some((Kind::StatefulSet, owner.name.as_ref())),
            "ReplicaSet" if self.knows_replica_set(pod, &owner.name) => Some((Kind::ReplicaSet, owner.name.as_ref())),
            _ => workload.strip_prefix("Deployment/").map(|name| (Kind::Deployment, name)),
        });
        let selector = self.selector(&pod.meta.namespace, &pod.meta.labels, controller);
        self.spread(&pod.spec, selector, &pod.meta.title(), notes)
    }

    fn knows_replica_set(&self, pod: &PodObject, name: &str) -> bool {
        self.controllers.contains_key(&(Kind::ReplicaSet, pod.meta.namespace.as_ref(), name))
    }

    /// The specification of replicas of `workload` that will have `labels`, with the constraints
    /// that they get by default.
    pub fn spread_replicas<'w>(&self, workload: &'w Workload, labels: &Labels, notes: &mut Notes) -> Cow<'w, PodSpec> {
        let spec = &workload.template.spec;
        if !self.applies_to(spec) {
            return Cow::Borrowed(spec);
        }
        let (namespace, name) = (&workload.meta.namespace, &workload.meta.name);
        let selector = self.selector(namespace, labels, Some((workload.kind, name)));
        self.spread(spec, selector, &format!("{}/{namespace}/{name}", workload.kind_name), notes)
    }

    fn spread<'s>(
        &self,
        spec: &'s PodSpec,
        selector: Option<LabelSelector>,
        title: &str,
        notes: &mut Notes,
    ) -> Cow<'s, PodSpec> {
        match selector {
            Some(selector) => Cow::Owned(spec.spread_by(&self.constraints, &selector)),
            None => {
                notes.add(
                    "pods that no Service selects, and that no ReplicaSet or StatefulSet owns, are not spread by default",
                    title,
                );
                Cow::Borrowed(spec)
            }
        }
    }
}
