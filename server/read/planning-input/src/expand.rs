//! Replicas that a workload desires and that have no pod in the input.

use std::collections::{BTreeMap, BTreeSet};

use cluster::DistinctValues;
use manifests::cluster::storage::ClaimSpec;
use manifests::cluster::workload::{JobProgress, Workload};
use manifests::kinds::Kind;
use manifests::notes::Notes;
use manifests::pod::volumes::PodVolume;
use manifests::{InputError, Problems, VolumeUser};
use model::input::PlanningInput;
use model::labels::POD_TEMPLATE_HASH;
use model::schedulers::PlannedSchedulers;
use model::{Labels, Pod, PodKey, PodShape, Text, VolumeAlternatives};

use crate::drains::BudgetedPods;
use crate::pods::{PresentPods, WorkloadKey, WorkloadPods};
use crate::records::PodReader;

/// The tables of a planning input.
#[derive(Debug)]
pub struct Tables {
    shapes: DistinctValues<PodShape>,
    labels: DistinctValues<Labels>,
    volumes: DistinctValues<VolumeAlternatives>,
}

impl Tables {
    /// Takes the tables of `input`.
    pub fn take_from(input: &mut PlanningInput) -> Self {
        Self {
            shapes: DistinctValues::of(std::mem::take(&mut input.shapes)),
            labels: DistinctValues::of(std::mem::take(&mut input.label_sets)),
            volumes: DistinctValues::of(std::mem::take(&mut input.volume_sets)),
        }
    }

    /// The index of `needs`, `None` when there are none.
    fn volumes(&mut self, needs: &VolumeAlternatives) -> Option<u32> {
        (*needs != VolumeAlternatives::default()).then(|| self.volumes.index(needs))
    }
}

/// Maximum number of pods that one run plans.
const MOST_PODS: i64 = 1_000_000;

/// Number of desired pods of `workload` beyond those that it owns.
fn lacking(workload: &Workload, owned: &WorkloadPods) -> i64 {
    let desired = workload.job.map_or(workload.replicas, |job| desired_of_job(workload.replicas, job, owned));
    if workload.meta.deleting { 0 } else { (desired - owned.live.len() as i64).max(0) }
}

/// Number of pods that a Job desires at a time. A Job without completions is complete when one pod
/// has succeeded.
fn desired_of_job(parallelism: i64, job: JobProgress, owned: &WorkloadPods) -> i64 {
    let done = job.succeeded.max(owned.succeeded);
    let left = match job.completions {
        Some(completions) => completions - done,
        None if done > 0 => 0,
        None => parallelism,
    };
    if job.inactive { 0 } else { parallelism.min(left).max(0) }
}

/// Adds the pods that workloads lack to a planning input.
#[derive(Debug)]
pub struct Replicas<'r, 'c> {
    /// Reads specifications of pods, and has the objects of the input.
    pub reader: &'r mut PodReader<'c>,
    /// The schedulers whose pods are planned.
    pub schedulers: &'r PlannedSchedulers,
    /// Pods that run or will run, for the disruption budgets.
    pub budgeted_pods: &'r mut BudgetedPods,
    /// Shapes, label sets and volume sets of the input, each stored once.
    pub tables: Tables,
    /// Pods to plan, so far.
    pub pods: Vec<Pod>,
    /// Notes for the user.
    pub notes: &'r mut Notes,
    pub problems: &'r Problems,
}

impl Replicas<'_, '_> {
    /// The same input with the missing replicas of every workload beside the pods that are `present`.
    pub fn add_to(mut self, mut input: PlanningInput, present: PresentPods) -> PlanningInput {
        self.expand(&present.owned, present.taken);
        self.pods.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        let Self { tables, pods, .. } = self;
        (input.shapes, input.label_sets) = (tables.shapes.into_values(), tables.labels.into_values());
        input.volume_sets = tables.volumes.into_values();
        input.pods = pods;
        input
    }

    fn expand(&mut self, owned: &BTreeMap<WorkloadKey, WorkloadPods>, mut taken: BTreeSet<PodKey>) {
        let none = WorkloadPods::default();
        let cluster = self.reader.cluster;
        for workload in &cluster.workloads {
            if self.reader.owners.expands_elsewhere(workload) {
                continue;
            }
            let title: Text = format!("{}/{}", workload.kind_name, workload.meta.name).into();
            let owned = owned.get(&(workload.meta.namespace.clone(), title.clone())).unwrap_or(&none);
            let count = lacking(workload, owned);
            if count == 0 {
                continue;
            }
            let labels = self.replica_labels(workload);
            self.budgeted_pods.add(&workload.meta.namespace, &title, &labels, count);
            if !self.is_template_excluded(workload, &title, count) {
                self.add_replicas(workload, &title, &labels, (owned, count), &mut taken);
            }
        }
    }

    /// Whether the template is gated, names a node, or belongs to another scheduler, so that its
    /// replicas are not planned. Adds a note.
    fn is_template_excluded(&mut self, workload: &Workload, title: &str, count: i64) -> bool {
        let spec = &workload.template.spec;
        let object = format!("{} ({count} replicas)", place(workload, title));
        if spec.node_name.is_some() {
            self.notes.add("pods whose template names a node are not planned", &object);
        } else if spec.gated {
            self.notes.add("gated pods wait for their scheduling gates and are not planned", &object);
        } else if let Some(scheduler) = self.schedulers.other(&spec.scheduler) {
            self.notes.add(&format!("pods of another scheduler ({scheduler}) are not planned"), &object);
        } else {
            return false;
        }
        true
    }

    fn add_replicas(
        &mut self,
        workload: &Workload,
        title: &Text,
        labels: &Labels,
        (owned, count): (&WorkloadPods, i64),
        taken: &mut BTreeSet<PodKey>,
    ) {
        if !self.allow(count, workload) {
            return;
        }
        let spec = self.reader.defaults.spread_replicas(workload, labels, self.notes);
        let (shape, invalid) = self.reader.shape(&spec, labels);
        let mut planned = Pod {
            namespace: workload.meta.namespace.clone(),
            shape: self.tables.shapes.index(&shape),
            labels: self.tables.labels.index(labels),
            workload: title.clone(),
            invalid,
            ..Pod::default()
        };
        let own_volumes = !workload.claims.is_empty()
            || workload.template.spec.volumes.iter().any(|volume| matches!(volume, PodVolume::Ephemeral { .. }));
        // Replicas without volumes of their own share one volume set, which is computed once.
        if !own_volumes {
            planned.volumes = self.replica_volumes(workload, "", &[]);
        }
        let mut ordinals = missing_ordinals(workload, owned);
        let mut next = workload.first_ordinal;
        for _ in 0..count {
            let ordinal = ordinals.next();
            let name = free_name(workload, ordinal, &mut next, taken);
            let volumes = if own_volumes {
                let claims = claims_of(workload, ordinal, &name);
                self.replica_volumes(workload, &name, &claims)
            } else {
                planned.volumes
            };
            self.pods.push(Pod { name, volumes, ..planned.clone() });
        }
    }

    /// Whether `count` more pods may be planned; reports an error when they exceed the maximum.
    fn allow(&mut self, count: i64, workload: &Workload) -> bool {
        let fits = self.pods.len() as i64 + count <= MOST_PODS;
        if !fits {
            self.problems.add(InputError {
                source: "input".to_owned(),
                document: 0,
                object: Some(format!("{}/{}", workload.kind_name, workload.meta.title())),
                path: "spec.replicas".to_owned(),
                message: format!("lacks {count} pods; all workloads together, at most {MOST_PODS} pods are planned"),
            });
        }
        fits
    }

    /// Labels of the template, and those that controllers add: the name of a Job, and the template
    /// hash of the only active ReplicaSet of a Deployment.
    fn replica_labels(&self, workload: &Workload) -> Labels {
        let mut labels = workload.template.labels.clone();
        let name = &workload.meta.name;
        if workload.kind == Kind::Job {
            for key in ["batch.kubernetes.io/job-name", "job-name"] {
                labels.entry(key.into()).or_insert_with(|| name.clone());
            }
        }
        let owned = |set: &&Workload| {
            set.meta.namespace == workload.meta.namespace && set.meta.owned_by("Deployment") == Some(name)
        };
        if workload.kind == Kind::Deployment {
            let sets =
                self.reader.cluster.workloads.iter().filter(|set| set.kind == Kind::ReplicaSet && set.replicas > 0);
            let active: Vec<&Workload> = sets.filter(owned).collect();
            if let [only] = active.as_slice()
                && let Some(hash) = only.template.labels.get(POD_TEMPLATE_HASH)
            {
                labels.entry(POD_TEMPLATE_HASH.into()).or_insert_with(|| hash.clone());
            }
        }
        labels
    }

    fn replica_volumes(&mut self, workload: &Workload, name: &str, templates: &[(Text, ClaimSpec)]) -> Option<u32> {
        let pod = VolumeUser { namespace: &workload.meta.namespace, name, templates, is_moved: false };
        let needs = self.reader.volumes.of(pod, &workload.template.spec.volumes);
        self.tables.volumes(&needs)
    }
}

fn place(workload: &Workload, title: &str) -> String {
    match title.split_once('/') {
        Some((kind, name)) => format!("{kind}/{}/{name}", workload.meta.namespace),
        None => title.to_owned(),
    }
}

/// Ordinals of a StatefulSet that no active pod has; none for other workloads.
fn missing_ordinals<'w>(workload: &'w Workload, owned: &'w WorkloadPods) -> impl Iterator<Item = i64> + 'w {
    let last = if workload.kind == Kind::StatefulSet { workload.first_ordinal + workload.replicas } else { 0 };
    let name = |ordinal: i64| Text::from(format!("{}-{ordinal}", workload.meta.name));
    (workload.first_ordinal..last).filter(move |ordinal| !owned.live.contains(&name(*ordinal)))
}

/// Name of the next replica: by its ordinal if that name is free, else by the next free number.
fn free_name(workload: &Workload, ordinal: Option<i64>, next: &mut i64, taken: &mut BTreeSet<PodKey>) -> Text {
    let (namespace, workload_name) = (&workload.meta.namespace, &workload.meta.name);
    let named =
        |number: i64| PodKey { namespace: namespace.clone(), name: Text::from(format!("{workload_name}-{number}")) };
    if let Some(ordinal) = ordinal {
        let key = named(ordinal);
        if taken.insert(key.clone()) {
            return key.name;
        }
    }
    loop {
        let key = named(*next);
        *next += 1;
        if taken.insert(key.clone()) {
            return key.name;
        }
    }
}

/// The (name, spec) of the PersistentVolumeClaims that a StatefulSet creates for a replica.
fn claims_of(workload: &Workload, ordinal: Option<i64>, name: &str) -> Vec<(Text, ClaimSpec)> {
    let pod = ordinal.map_or_else(|| name.to_owned(), |ordinal| format!("{}-{ordinal}", workload.meta.name));
    workload.claims.iter().map(|(claim, spec)| (format!("{claim}-{pod}").into(), spec.clone())).collect()
}
